"""Stores for groups: in memory and in a file, and ones that do not always answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import StoreFull, StoreUnreachable
from antiphon.model.control import Wants
from antiphon.model.events import Departed, Installed, MissedMessages, Recovered, Stabilised, Synchronised
from antiphon.model.frames import Batch
from antiphon.store.groups import values
from antiphon.store.groups.membership import StoreMembership
from antiphon.store.memory import MemoryBackend
from antiphon.store.records import Entry
from antiphon.store.sqlite import SqliteBackend

_WRITES = ("register", "publish", "put", "remove")
_CALLS = ("time", "register", "publish", "reader", "info", "get", "put", "remove", "records", "watch")


class Shaky:
    """A way to a store on which calls fail: all of them while it is `cut`, and otherwise each with the chance `loss`, half of the time
    before the store has heard of it and half of the time after it has done it."""

    def __init__(self, backend: Any, rng: random.Random | None = None) -> None:
        self._backend, self._rng = backend, rng or random.Random(0)
        self.cut = False
        self.full = False
        """Whether there is no room for anything, as on a disk that is full."""
        self.loss = 0.0
        self.lost = 0

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._backend, name)
        if self.full and name in _WRITES:
            return self._refused
        return self._shaken(call) if name in _CALLS else call

    async def _refused(self, *arguments: Any, **more: Any) -> Any:
        await asyncio.sleep(0)
        raise StoreFull(self._backend.url, "the disk has no room")

    def _shaken(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def shaken(*arguments: Any, **more: Any) -> Any:
            chance = self._rng.random()
            if self.cut or chance < self.loss / 2:
                await asyncio.sleep(0)
                self._fail()
            answer = await call(*arguments, **more)
            if self.cut or chance < self.loss:
                self._fail()
            return _ShakyReader(self, answer) if hasattr(answer, "take") else answer

        return shaken

    def _fail(self) -> None:
        self.lost += 1
        raise StoreUnreachable(self._backend.url, "the way is cut")


class _ShakyReader:
    def __init__(self, way: Shaky, reader: Any) -> None:
        self._way, self._reader = way, reader

    async def take(self, limit: int, timeout_s: float) -> Any:
        if self._way.cut:
            await asyncio.sleep(0)
            self._way._fail()
        chunk = await self._reader.take(limit, min(timeout_s, 0.2))
        if self._way.cut:
            self._way._fail()
        return chunk

    async def close(self) -> None:
        await self._reader.close()


class Member:
    """A member of a group on a store, all that it was told, and a way to send."""

    def __init__(self, backend: Any, name: str, seed: int = 0, **options: Any) -> None:
        self.backend, self.name = backend, name
        self.core = StoreMembership(backend, name, rng=random.Random(f"{name}/{seed}"), **options)
        self.told: list[Any] = []
        self.acknowledged: list[bytes] = []
        self._grant: Any = None
        self._sent = 0

    async def join(self, group: str = "root", *, how: Any = "either", wants: Wants | None = None, **more: Any) -> Member:
        while True:
            try:
                await self.core.enter(group, how=how, wants=wants, **more)
            except StoreUnreachable:
                await asyncio.sleep(0.01)
            else:
                break
        self.core.begin(self.told.append)
        return self

    async def send(self, *payloads: bytes) -> None:
        """Repeats until there is an answer, as the facade does."""
        for payload in payloads:
            self._sent += 1
            batch = Batch(self.core.group, self.core.me, 0, self._sent, (payload,))
            while True:
                try:
                    self._grant = self._grant or await self.backend.register(self.core.topic, f"{self.core.me} says")
                    await self.backend.publish(self._grant, self._sent, [Entry(values.encode(batch))])
                except StoreUnreachable:
                    await asyncio.sleep(0.01)
                else:
                    break
            self.acknowledged.append(payload)

    def log(self) -> list[Any]:
        """Messages and views since it caught up, in order."""
        return [short(event) for event in self.told[self.caught_up_at :] if short(event) is not None]

    @property
    def caught_up_at(self) -> int:
        return next((at + 1 for at, event in enumerate(self.told) if type(event) is Synchronised), len(self.told))

    @property
    def history(self) -> list[bytes]:
        """What it was told of the past."""
        recovered = [event for event in self.told if type(event) is Recovered]
        return [event.batch.payload(number) for event in recovered for number in range(event.low, event.high + 1)]

    def views(self) -> list[tuple[int, tuple[str, ...]]]:
        return [(event.view.id, event.view.members) for event in self.told if type(event) is Installed]

    @property
    def stable(self) -> bool:
        newest = self.views()[-1][0] if self.views() else 0
        return any(type(event) is Stabilised and event.view.id == newest for event in self.told)

    @property
    def departed(self) -> str | None:
        return next((event.reason for event in self.told if type(event) is Departed), None)

    def gaps(self) -> list[MissedMessages]:
        return [event for event in self.told if type(event) is MissedMessages]


def short(event: Any) -> Any:
    if type(event) is tuple:
        return event[0].payloads[0]
    if type(event) is Installed:
        return (event.view.id, event.view.members)
    return None


async def until(condition: Callable[[], Any], what: str = "", seconds: float = 60.0) -> None:
    """Waits until it is so."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"it never came to pass: {what}"
        await asyncio.sleep(0.01)


class Company:
    """Everything that a story about groups on one store needs."""

    def __init__(self, opened: Callable[[], Awaitable[Any]]) -> None:
        self._opened = opened
        self.members: list[Member] = []
        self.until = until

    async def way(self, seed: int = 0) -> Shaky:
        return Shaky(await self._opened(), random.Random(seed))

    async def member(self, name: str, *, seed: int = 0, loss: float = 0.0, **options: Any) -> Member:
        way = await self.way(seed)
        way.loss = loss
        member = Member(way, name, seed, **options)
        self.members.append(member)
        return member

    async def join(self, name: str, *, wants: Wants | None = None, how: Any = "either", silence_s: float = 30.0) -> Member:
        return await (await self.member(name)).join(wants=wants, how=how, silence_s=silence_s)


@pytest.fixture(params=["memory", "sqlite"])
def company(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Runs a story, with as many ways to one store as it wants."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Company]:
        handles: list[Any] = []
        shelf = f"memory:{tmp_path}"

        async def another() -> Any:
            backend: Any = MemoryBackend(shelf) if request.param == "memory" else SqliteBackend(f"sqlite:{tmp_path / 'store.db'}")
            await backend.open()
            handles.append(backend)
            return backend

        everybody = Company(another)
        try:
            yield everybody
        finally:
            for member in everybody.members:
                member.core.stop()
            await asyncio.sleep(0.05)
            for handle in handles:
                await handle.close()

    def run(story: Callable[[Company], Awaitable[None]]) -> None:
        async def whole() -> None:
            async with opened() as everybody:
                await asyncio.wait_for(story(everybody), 100)

        asyncio.run(whole())

    return run
