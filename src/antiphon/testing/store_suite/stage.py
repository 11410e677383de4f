"""Where a check of the conformance suite plays: handles on one fresh store, and the few words in which checks say what they expect.

A check is an async function of a `Stage`. `@check` puts it on the list, gives it a time limit, and closes what it opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from antiphon.store.contract import Backend
from antiphon.store.records import SECOND, Entry, Moment, Subscriber, Value

Factory = Callable[[], Awaitable[Backend]]
"""Opens one more handle on the same store, which was empty before the check began."""
Check = Callable[[Factory], Awaitable[None]]

CHECKS: list[Check] = []
LIMIT_S = 90.0
"""No check may take longer."""
PATIENCE_S = 30.0
"""How long a check waits for what must happen."""
FOREVER_S = 3600.0
"""What a check says to a call that must not come to its time-out."""
HOUR: Moment = 3600 * SECOND

Answer = TypeVar("Answer")


class Stage:
    def __init__(self, factory: Factory) -> None:
        self._factory = factory
        self._handles: list[Backend] = []

    async def open(self) -> Backend:
        handle = await self._factory()
        self._handles.append(handle)
        return handle

    async def close(self) -> None:
        for handle in self._handles:
            await handle.close()


def check(play: Callable[[Stage], Coroutine[Any, Any, None]]) -> Check:
    @wraps(play)
    async def run(factory: Factory) -> None:
        stage = Stage(factory)
        try:
            async with asyncio.timeout(LIMIT_S) as limit:
                await play(stage)
        except TimeoutError:
            if limit.expired():
                raise AssertionError(f"{play.__name__} took more than {LIMIT_S:.0f} s") from None
            raise
        finally:
            await stage.close()

    CHECKS.append(run)
    return run


def equal(what: str, got: object, wanted: object) -> None:
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r:.2000}, wanted {wanted!r:.2000}")


def holds(what: str, condition: object) -> None:
    if not condition:
        raise AssertionError(what)


@contextmanager
def refused(what: str, *kinds: type[Exception]) -> Iterator[None]:
    try:
        yield
    except kinds:
        return
    raise AssertionError(f"{what}: went through, wanted {' or '.join(kind.__name__ for kind in kinds)}")


def entries(*texts: str | bytes) -> list[Entry]:
    return [Entry(text.encode() if isinstance(text, str) else text) for text in texts]


def numbered(name: str, first: int, count: int) -> list[Entry]:
    """Values that say whose they are: what `publish(grant, first, …)` writes, for a publisher of this name."""
    return entries(*(f"{name}/{number}" for number in range(first, first + count)))


def texts(values: Iterable[Value]) -> list[str]:
    return [bytes(value.data).decode() for value in values]


def seqs(values: Iterable[Value]) -> list[int]:
    return [value.seq for value in values]


async def everything(handle: Backend, topic: str, after: int = 0, limit: int = 1_000) -> list[Value]:
    """All that is in the topic now."""
    reader = await handle.reader(topic, after)
    found: list[Value] = []
    while (chunk := await reader.take(limit, 0)).values:
        found += chunk.values
    await reader.close()
    return found


async def until(handle: Backend, moment: Moment) -> Moment:
    """Waits until the store's time has come so far."""
    async with asyncio.timeout(PATIENCE_S):
        while (now := await handle.time()) < moment:
            await asyncio.sleep(0.01)
    return now


async def soon(what: str, call: Awaitable[Answer]) -> Answer:
    """What comes of a call that was told to wait for ever, and must be woken."""
    try:
        return await asyncio.wait_for(call, PATIENCE_S)
    except TimeoutError:
        raise AssertionError(f"{what}: nothing came of it in {PATIENCE_S:.0f} s") from None


async def found(handle: Backend, topic: str, subscriber: str) -> Subscriber:
    record = await handle.subscriber(topic, subscriber)
    if record is None:
        raise AssertionError(f"the subscriber {subscriber!r} of {topic!r} is not there any more")
    return record


async def together(*calls: Awaitable[Answer]) -> tuple[list[Answer], list[Exception]]:
    """Makes the calls at once; their answers, and the errors of the others."""
    answers: list[Answer] = []
    errors: list[Exception] = []
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(outcome, Exception):
            errors.append(outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            answers.append(outcome)
    return answers, errors


def only(what: str, errors: Sequence[Exception], *kinds: type[Exception]) -> None:
    for error in errors:
        if not isinstance(error, kinds):
            raise AssertionError(f"{what}: somebody got {error!r}") from error
