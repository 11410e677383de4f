"""Stores of every kind, a store that can be out of reach or lose its answers, and tests that await."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import StoreUnreachable
from antiphon.store import Store, StoreSettings, Subscription, Value
from antiphon.store.memory import MemoryBackend
from antiphon.store.opening import backend_for
from antiphon.store.records import SECOND, Moment

WAIT_S = 60.0
QUICK = StoreSettings(timeout_s=20.0, retry_s=0.001, retry_max_s=0.01, outbox_s=0.05, watch_s=0.05, clock_s=0.0)
_FRESH = count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Tests that are coroutines run in an event loop of their own, for no longer than WAIT_S."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: value for name, value in pyfuncitem.funcargs.items() if name in wanted}

    async def story() -> None:
        async with asyncio.timeout(WAIT_S):
            await pyfuncitem.obj(**arguments)

    asyncio.run(story())
    return True


class Fickle:
    """A back end as it is, but for what a test tells it to do wrong."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self.down = False
        """Nothing is answered, and nothing is done."""
        self.faults: dict[str, deque[str]] = defaultdict(deque)
        """What the next calls of a name do wrong: `lost` (not done), `unanswered` (done), `hangs` (not done, never returns)."""
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._backend, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*arguments: Any, **options: Any) -> Any:
            self.calls[name] += 1
            if self.down:
                raise StoreUnreachable(self._backend.url, "the cable is cut")
            fault = self.faults[name].popleft() if self.faults[name] else ""
            if fault == "hangs":
                await asyncio.Event().wait()
            if fault == "lost":
                raise StoreUnreachable(self._backend.url, "the question was lost")
            answer = await found(*arguments, **options)
            if fault == "unanswered":
                raise StoreUnreachable(self._backend.url, "the answer was lost")
            return Fickle.Reader(self, answer) if name == "reader" else answer

        return call

    class Reader:
        def __init__(self, fickle: Fickle, reader: Any) -> None:
            self._fickle, self._reader = fickle, reader

        async def take(self, limit: int, timeout_s: float) -> Any:
            if self._fickle.down:
                raise StoreUnreachable("fickle:", "the cable is cut")
            faults = self._fickle.faults["take"]
            if faults:
                faults.popleft()
                await self._reader.take(limit, 0.0)
                raise StoreUnreachable("fickle:", "values were taken, and lost on the way")
            chunk = await self._reader.take(limit, timeout_s)
            if self._fickle.down:
                raise StoreUnreachable("fickle:", "the cable was cut meanwhile")
            return chunk

        async def close(self) -> None:
            await self._reader.close()


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.moment: Moment = 1_000 * SECOND

    def __call__(self) -> Moment:
        return self.moment

    def move(self, seconds: float) -> None:
        self.moment += round(seconds * SECOND)


@pytest.fixture
def hand() -> Hand:
    return Hand()


@pytest.fixture
def fickle(hand: Hand) -> Fickle:
    """A store in memory with a clock that is moved by hand, which may be out of reach."""
    return Fickle(MemoryBackend("memory:", now=hand))


Opened = Callable[..., Any]


@pytest.fixture
def opened() -> Opened:
    """Opens a store on a back end, with settings that do not wait for long; what is said beyond are other settings."""

    @asynccontextmanager
    async def open_it(backend: Any, name: str | None = "hotline", outbox: Path | None = None, **settings: Any) -> AsyncIterator[Store]:
        chosen = StoreSettings(**{**{field: getattr(QUICK, field) for field in QUICK.__struct_fields__}, **settings})
        async with Store(backend, name=name, outbox=outbox, settings=chosen) as store:
            yield store

    return open_it


@pytest.fixture(scope="session")
def jetstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if find_spec("nats") is None or find_spec("antiphon.store.jetstream") is None:
        pytest.skip("JetStream needs the packages of antiphon[nats]")
    from antiphon.store.jetstream.server import LocalServers

    with LocalServers(1, tmp_path_factory.mktemp("jetstream")) as servers:
        yield servers.url


@pytest.fixture(params=["memory", "sqlite", "nats"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a fresh store, of each kind."""
    name = f"facade{next(_FRESH)}"
    if request.param == "memory":
        return f"memory:{name}"
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / name}.db"
    server: str = request.getfixturevalue("jetstream")
    return f"{server}{'&' if '?' in server else '?'}prefix={name}"


@pytest.fixture
def backend(url: str) -> Any:
    """A fresh store of each kind, not opened. The same address opens it again."""
    return backend_for(url)


@pytest.fixture
def filled() -> Callable[..., Awaitable[Any]]:
    """Makes a topic of a store with so many values, each of which says its number."""

    async def fill(store: Store, count: int = 10, topic: str = "crash") -> Any:
        made = store.topic(topic)
        await made.publish_many([b"%d" % number for number in range(1, count + 1)])
        return made

    return fill


@pytest.fixture
def seqs() -> Callable[..., Awaitable[list[Any]]]:
    """Reads on: the numbers of the next values, and the gaps between, so many."""

    async def read(subscription: Subscription, count: int) -> list[Any]:
        items = [await subscription.read(20) for _ in range(count)]
        return [item.seq if isinstance(item, Value) else item for item in items]

    return read
