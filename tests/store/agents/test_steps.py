"""A step of an agent happens once, at whatever point it is cut, whatever its function says the next time."""

from __future__ import annotations

import asyncio
import inspect
from itertools import count
from random import Random
from typing import Any

import pytest

from antiphon.store import Store
from antiphon.store.agents import running
from antiphon.store.memory import MemoryBackend
from antiphon.testing.agent_worker import OUTPUTS, SETTINGS, dispatcher, verdict

_FRESH = count(1)
_CHANGES = ("register", "publish", "step", "update", "subscribe")


@pytest.fixture(autouse=True)
def _one_value_per_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that there are many points to be cut at."""
    monkeypatch.setattr(running, "_ITEMS", 1)


class Cut(Exception):
    """The process is killed here."""


class Mortal:
    """A back end whose n-th call that changes something is the last: killed before it happens, after it, or within a step."""

    def __init__(self, backend: MemoryBackend, last: int, when: str, atomic: bool) -> None:
        self._backend, self._left, self._when = backend, last, when
        self.atomic_steps = atomic
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._backend, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*arguments: Any, **options: Any) -> Any:
            self.die_if(self.dead)
            if name not in _CHANGES:
                return await found(*arguments, **options)
            self._left -= 1
            self.die_if(self._left == 0 and self._when == "before")
            answer = await (self.in_parts(*arguments) if name == "step" and not self.atomic_steps else found(*arguments, **options))
            self.die_if(self._left == 0)
            return answer

        return call

    async def in_parts(self, subscriber: Any, publications: Any) -> Any:
        """As a store without transactions has it."""
        for publication in publications:
            await self._backend.publish(*publication)
            self.die_if(self._left == 0 and self._when == "within")
        return await self._backend.update(subscriber)

    def die_if(self, now: bool) -> None:
        if now:
            self.dead = True
            raise Cut


async def lives(cuts: list[tuple[int, str]], count: int, make: Any) -> list[str]:
    """One process after the other, each cut as told; then one that is not, and what it leaves."""
    name = f"memory:steps{next(_FRESH)}"
    chance = Random(7)
    async with Store(MemoryBackend(name), name="caller", settings=SETTINGS) as caller:
        for number in range(1, count + 1):
            await caller.topic("crash").publish(b"%d" % number)
        for last, when in [*cuts, (0, "never")]:
            mortal = make(MemoryBackend(name), last, when)
            store = Store(mortal, name="node", settings=SETTINGS)
            run = None
            try:
                async with asyncio.timeout(20.0):
                    await store.open()
                    run = asyncio.ensure_future(store.run(dispatcher(0.0, 0.001, chance)))
                    while not mortal.dead and not run.done() and not await finished(caller, count):
                        await asyncio.sleep(0.001)
            finally:
                mortal.dead = True
                if run is not None:
                    run.cancel()
                    await asyncio.gather(run, return_exceptions=True)
                await asyncio.gather(store.close(timeout=0.0), return_exceptions=True)
        return await verdict(caller, count)


async def finished(store: Store, count: int) -> bool:
    lasts = {topic.name: topic.last for topic in await store.topics()}
    record = await store.backend.subscriber("crash", "agent/911")
    return record is not None and record.position == count and all(lasts.get(output) == count for output in OUTPUTS)


@pytest.mark.parametrize("atomic", [True, False], ids=["transactions", "no transactions"])
def test_a_step_cut_at_any_point_happens_once(atomic: bool) -> None:
    """The ambulance would be sent twice, or never, or elsewhere than the cops, after a crash at one unlucky moment."""

    def make(backend: MemoryBackend, last: int, when: str) -> Mortal:
        return Mortal(backend, last, when, atomic)

    async def story() -> None:
        for last in range(1, 15):
            for when in ("before", "after"):
                assert await lives([(last, when)], 3, make) == [], f"cut {when} change {last}"
                assert await lives([(last, when), (5, "before"), (4, "after")], 3, make) == [], f"cut {when} change {last}, and twice more"

    asyncio.run(story())


def test_the_verdict_sees_a_step_that_was_made_by_halves() -> None:
    """A broken store, or a broken agent, would pass for a right one."""

    class Liar(Mortal):
        """Says that its steps are transactions, and makes them in parts."""

        def __init__(self, backend: MemoryBackend, last: int, when: str) -> None:
            super().__init__(backend, last, when, True)

        def __getattr__(self, name: str) -> Any:
            if name != "step":
                return super().__getattr__(name)

            async def step(*arguments: Any) -> Any:
                self.die_if(self.dead)
                self._left -= 1
                return await self.in_parts(*arguments)

            return step

    async def story() -> None:
        seen = [wrong for last in range(1, 10) for wrong in await lives([(last, "within")], 3, Liar)]
        assert any("different things" in wrong for wrong in seen)

    asyncio.run(story())
