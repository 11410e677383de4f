"""Draining an outbox: values leave in order, and each is in the store once, whatever happens in between."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from antiphon.errors import StoreFull, StoreUnreachable, TimedOut, UsageError
from antiphon.store import draining as sending
from antiphon.store.draining import STRIDE, Draining
from antiphon.store.holdings import Holdings
from antiphon.store.memory import MemoryBackend
from antiphon.store.outbox import Outbox
from antiphon.store.records import Entry, Grant, Receipt, TopicOptions

PATIENCE_S = 60.0


def values(*numbers: int) -> list[Entry]:
    return [Entry(b"%d" % number) for number in numbers]


async def opened_store() -> MemoryBackend:
    store = MemoryBackend("memory:")
    await store.open()
    return store


async def written(store: Any, topic: str = "crash") -> list[int]:
    """The numbers that are in the store, in order."""
    reader = await store.reader(topic, 0)
    found: list[int] = []
    while chunk := (await reader.take(1_000, 0)).values:
        found += [int(value.data) for value in chunk]
    await reader.close()
    return found


@asynccontextmanager
async def draining(outbox: Outbox, store: Any, **options: Any) -> AsyncIterator[Draining]:
    drain = Draining(outbox, store, retry_s=0.001, retry_limit_s=0.01, chance=Random(1), **options)
    drain.start()
    try:
        yield drain
    finally:
        await drain.stop()


class Killed(BaseException):
    """Stands for the end of the process."""


class Faulty:
    """A store in front of which a plan says, call by call, whether it is out of reach, and whether before or after the call was done."""

    def __init__(self, store: MemoryBackend, plan: Callable[[str], str]) -> None:
        self._store, self._plan = store, plan
        self.url, self.batch_values, self.batch_bytes = store.url, 7, 1_000

    async def register(self, *arguments: Any, **options: Any) -> Grant:
        return await self._do("register", lambda: self._store.register(*arguments, **options))

    async def info(self, topic: str) -> Any:
        return await self._do("info", lambda: self._store.info(topic))

    async def publish(self, *arguments: Any, **options: Any) -> Receipt:
        return await self._do("publish", lambda: self._store.publish(*arguments, **options))

    async def _do(self, what: str, call: Callable[[], Awaitable[Any]]) -> Any:
        match self._plan(what):
            case "before":
                raise StoreUnreachable(self.url, "the cable is out")
            case "after":
                await call()
                raise StoreUnreachable(self.url, "the answer was lost")
            case _:
                return await call()


# --- draining ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_each_once_and_in_order_over_a_bad_line(tmp_path: Path, seed: int, outbox_at: Any) -> None:
    """Answers get lost on a bad line, and reports are written twice, or not, or in another order."""
    chance = Random(seed)

    async def story() -> None:
        store = await opened_store()
        faulty = Faulty(store, lambda _: chance.choice(("before", "after", "well", "well")))
        async with outbox_at(tmp_path / "outbox.db") as outbox, draining(outbox, faulty) as drain:
            number = 0
            for _ in range(chance.randrange(5, 20)):
                count = chance.randrange(1, 20)
                await outbox.put("crash", None, values(*range(number, number + count)))
                number += count
                await asyncio.sleep(chance.choice((0, 0, 0.002)))
            await drain.empty(PATIENCE_S)
            assert outbox.values == outbox.size == 0
            assert drain.drained == number
            assert await written(store) == list(range(number))

    asyncio.run(story())


@pytest.mark.parametrize("kind", [StoreUnreachable, StoreFull])
def test_a_pause_that_is_over_before_it_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception], outbox_at: Any
) -> None:
    """A node that was stopped for a moment after it failed would send nothing until somebody reports something new."""
    monkeypatch.setattr(sending, "LOOK_S", 10 * PATIENCE_S)

    async def story() -> None:
        store = await opened_store()
        real, failures = store.publish, iter(range(5))

        async def failing(*arguments: Any, **options: Any) -> Receipt:
            if next(failures, None) is not None:
                raise kind(store.url, "not now")
            return await real(*arguments, **options)

        store.publish = failing  # type: ignore[method-assign]
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            await outbox.put("crash", None, values(1, 2, 3))
            drain = Draining(outbox, store, retry_s=0.0)
            drain.start()
            try:
                await drain.empty(PATIENCE_S / 2)
            finally:
                await drain.stop()
            assert drain.retries == 5

    asyncio.run(story())


POINTS = [(what, when) for what in ("register", "number", "publish", "remove") for when in ("before", "after")]


@pytest.mark.parametrize(("what", "when"), POINTS)
@pytest.mark.parametrize("batch", [0, 1])
def test_killed_at_every_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, when: str, batch: int, outbox_at: Any) -> None:
    """A node is switched off while it sends what had waited, and a report is lost or comes twice."""
    seen = 0

    def struck(step: str, moment: str) -> None:
        nonlocal seen
        if (step, moment) == (what, when):
            seen += 1
            if seen == batch + 1:
                raise Killed

    def around(step: str, real: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        async def call(*arguments: Any) -> None:
            struck(step, "before")
            await real(*arguments)
            struck(step, "after")

        return call

    monkeypatch.setattr(Outbox, "number", around("number", Outbox.number))
    monkeypatch.setattr(Outbox, "remove", around("remove", Outbox.remove))

    class Deadly(Faulty):
        async def _do(self, what: str, call: Callable[[], Awaitable[Any]]) -> Any:
            struck(what, "before")
            answer = await call()
            struck(what, "after")
            return answer

    async def story() -> None:
        store = await opened_store()
        deadly = Deadly(store, lambda _: "well")
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            await outbox.put("crash", None, values(*range(20)))
            drain = Draining(outbox, deadly)
            with suppress(Killed):
                while await drain._send_one_batch("crash"):
                    pass
        killed = seen == batch + 1
        assert killed or (what, batch) == ("register", 1), "this point was never reached"
        async with outbox_at(tmp_path / "outbox.db") as outbox, draining(outbox, Faulty(store, lambda _: "well")) as drain:
            await drain.empty(PATIENCE_S)
        assert await written(store) == list(range(20))

    asyncio.run(story())


@pytest.mark.parametrize("was_written", [False, True])
def test_values_in_doubt_keep_their_numbers(tmp_path: Path, was_written: bool, outbox_at: Any) -> None:
    """A publish without an answer goes to the outbox, and is in the store twice, or not at all."""

    async def story() -> None:
        store = await opened_store()
        grant = await store.register("crash", "hotline")
        await store.publish(grant, 1, values(0, 1))
        if was_written:
            await store.publish(grant, 3, values(2, 3))
        async with outbox_at(tmp_path / "outbox.db") as outbox, draining(outbox, store) as drain:
            await outbox.put("crash", None, values(2, 3), 3)
            await outbox.put("crash", None, values(4, 5))
            await drain.empty(PATIENCE_S)
        assert await written(store) == [0, 1, 2, 3, 4, 5]
        # and whoever publishes next goes on behind them
        grant = await store.register("crash", "hotline")
        await store.publish(grant, grant.number + 1, values(6))
        assert await written(store) == [0, 1, 2, 3, 4, 5, 6]

    asyncio.run(story())


@pytest.mark.parametrize("was_written", [False, True])
def test_somebody_published_under_this_name_meanwhile(tmp_path: Path, was_written: bool, outbox_at: Any) -> None:
    """An operator helps out under the name of a node that crashed while draining; when it is back, its reports are taken for sent."""

    async def story() -> None:
        store = await opened_store()
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            await outbox.put("crash", None, values(1, 2, 3))
            waiting = await outbox.waiting("crash", 100, 100)
            assert waiting is not None
            grant = await store.register("crash", "hotline")
            await outbox.number(waiting, grant.number + STRIDE)
            if was_written:
                await store.publish(grant, grant.number + STRIDE, waiting.entries)
        grant = await store.register("crash", "hotline")
        await store.publish(grant, grant.number + 1, values(101, 102, 103, 104))
        async with outbox_at(tmp_path / "outbox.db") as outbox, draining(outbox, store) as drain:
            await drain.empty(PATIENCE_S)
        here = await written(store)
        assert sorted(here) == [1, 2, 3, 101, 102, 103, 104]
        assert [number for number in here if number < 100] == [1, 2, 3]

    asyncio.run(story())


def test_numbers_are_not_put_behind_values_without(tmp_path: Path, outbox_at: Any) -> None:
    """A value with a lower number than one sent before it is taken for written by the store, and lost."""

    async def story() -> None:
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            await outbox.put("crash", None, values(1))
            with pytest.raises(UsageError, match="without number="):
                await outbox.put("crash", None, values(2), 2)
            await outbox.put("fire", None, values(1, 2), 10)
            with pytest.raises(UsageError, match="without number="):
                await outbox.put("fire", None, values(3), 11)
            await outbox.put("fire", None, values(3), 12)
            assert (outbox.pending("crash"), outbox.pending("fire")) == (1, 3)

    asyncio.run(story())


def test_what_is_put_again_under_its_number_waits_once(tmp_path: Path, outbox_at: Any) -> None:
    """A program with numbers of its own that was killed before it heard that the outbox has a value could never go on, or send it twice."""

    async def story() -> None:
        async with outbox_at(tmp_path / "outbox") as outbox:
            await outbox.put("crash", None, values(1, 2, 3), 1)
        async with outbox_at(tmp_path / "outbox") as outbox:
            await outbox.put("crash", None, values(3, 4), 3)
            await outbox.put("crash", None, values(4), 4)
            assert (outbox.pending("crash"), outbox.size) == (4, 4)
            with pytest.raises(UsageError, match="without number="):
                await outbox.put("crash", None, values(9), 4)
            store = await opened_store()
            async with draining(outbox, store) as drain:
                await drain.empty(PATIENCE_S)
            assert await written(store) == [1, 2, 3, 4]

    asyncio.run(story())


def test_a_topic_that_is_taken_waits_and_the_others_go_on(tmp_path: Path, outbox_at: Any) -> None:
    """One topic in the wrong hands holds up everything a node has to say; or what it could not say is thrown away."""

    async def story() -> None:
        store = await opened_store()
        theirs = await store.register("crash", "somebody")
        await store.register("fire", "hotline", options=TopicOptions(shared=True))
        async with outbox_at(tmp_path / "outbox.db") as outbox, draining(outbox, store) as drain:
            await outbox.put("crash", None, values(1, 2))
            await outbox.put("fire", TopicOptions(mutable=True), values(1))  # other options than it has
            await outbox.put("flood", None, values(1, 2))
            while outbox.pending("flood") or len(drain.stats()["blocked"]) < 2:  # type: ignore[arg-type]
                await asyncio.sleep(0.001)
            assert await written(store, "flood") == [1, 2]
            blocked = drain.stats()["blocked"]
            assert isinstance(blocked, dict)
            assert "somebody" in blocked["crash"]
            assert "options" in blocked["fire"]
            with pytest.raises(TimedOut, match="3 values"):
                await drain.empty(0.02)
            await store.release(theirs)
            while outbox.pending("crash"):
                await asyncio.sleep(0.001)
            assert await written(store) == [1, 2]
            assert "crash" not in drain.stats()["blocked"]  # type: ignore[operator]

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


def test_fenced_while_draining(tmp_path: Path, outbox_at: Any) -> None:
    """Somebody registers under this name while the outbox is sent, and what is left of it is never sent."""

    async def story() -> None:
        store = await opened_store()

        class Disturbed(Faulty):
            disturbances = 3

            async def publish(self, grant: Grant, *arguments: Any, **options: Any) -> Receipt:
                if self.disturbances:
                    self.disturbances -= 1
                    await store.register("crash", "hotline")
                return await super().publish(grant, *arguments, **options)

        async with outbox_at(tmp_path / "outbox.db") as outbox, draining(outbox, Disturbed(store, lambda _: "well")) as drain:
            await outbox.put("crash", None, values(*range(30)))
            await drain.empty(PATIENCE_S)
            assert drain.retries == 3
        assert await written(store) == list(range(30))

    asyncio.run(story())


def test_a_store_out_of_reach_is_not_asked_more_often_because_more_comes_in(tmp_path: Path, outbox_at: Any) -> None:
    """Every report of a busy node asks a store that is struggling to come back once more."""

    async def story() -> None:
        asked: list[str] = []
        away = True

        def plan(what: str) -> str:
            asked.append(what)
            return "before" if away else "well"

        store = await opened_store()
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            drain = Draining(outbox, Faulty(store, plan), retry_s=1_000.0, retry_limit_s=1_000.0)
            drain.start()
            for number in range(50):
                await outbox.put("crash", None, values(number))
            assert len(asked) == 1
            assert "cable" in str(drain.stats()["unreachable"])
            away = False
            drain.nudge()
            await drain.empty(PATIENCE_S)
            assert await written(store) == list(range(50))
            assert drain.stats()["unreachable"] == ""
            await drain.stop()

    asyncio.run(story())


def test_what_waits_is_held(tmp_path: Path, outbox_at: Any) -> None:
    """The horizon passes a value that may be in the store already, while its publisher still asks itself whether it is."""

    async def story() -> None:
        store, holdings = await opened_store(), Holdings()
        holdings.saw(500)
        async with outbox_at(tmp_path / "outbox.db", holdings=holdings) as outbox:
            await outbox.put("crash", None, values(1))
            assert holdings.oldest == 500
            holdings.saw(900)
            await outbox.put("fire", None, values(1), since=300)
            assert holdings.oldest == 300
        assert holdings.oldest is None, "a closed outbox belongs to nobody in the ring"
        async with outbox_at(tmp_path / "outbox.db", holdings=holdings) as outbox, draining(outbox, store) as drain:
            holdings.mark()
            assert holdings.oldest == 300, "also after a restart"
            await drain.empty(PATIENCE_S)
            lowest = {topic: hold.oldest for topic, hold in holdings.lowest_by_topic.items()}
            assert (holdings.oldest, lowest) == (None, {"crash": 500, "fire": 300}), "remembered until the next round, each topic by itself"

    asyncio.run(story())


def test_drained_into_jetstream(tmp_path: Path, outbox_at: Any) -> None:
    """The numbers that draining gives its batches are such as only some stores understand."""
    pytest.importorskip("nats", reason="the extra nats is not installed")
    from antiphon.store.jetstream import JetStreamBackend
    from antiphon.store.jetstream.server import LocalServers

    async def story(url: str) -> None:
        store = JetStreamBackend(url)
        await store.open()
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            await outbox.put("crash", None, values(*range(2_500)))
            waiting = await outbox.waiting("crash", 700, 1 << 20)
            assert waiting is not None
            grant = await store.register("crash", "hotline")
            await outbox.number(waiting, grant.number + STRIDE)
            await store.publish(grant, grant.number + STRIDE, waiting.entries)  # and here it was killed
        async with outbox_at(tmp_path / "outbox.db") as outbox, draining(outbox, store) as drain:
            await outbox.put("crash", None, values(*range(2_500, 2_600)))
            await drain.empty(PATIENCE_S)
        assert await written(store) == list(range(2_600))
        await store.close()

    with LocalServers(1, tmp_path / "servers") as running:
        asyncio.run(asyncio.wait_for(story(running.url), PATIENCE_S))


# --- draining, with real kills -------------------------------------------------------------------------------------------------


DRAINER = """
    import asyncio, sys
    from antiphon.store.draining import Draining
    from antiphon.store.outbox import Outbox
    from antiphon.store.sqlite import SqliteBackend
    async def main():
        store, outbox = SqliteBackend(sys.argv[1]), Outbox(sys.argv[2], node="hotline")
        store.batch_values = 16
        await store.open()
        await outbox.open()
        print("begins", flush=True)
        drain = Draining(outbox, store)
        drain.start()
        await drain.empty(120)
        print("empty", flush=True)
    asyncio.run(main())
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_drained_by_processes_that_are_killed(tmp_path: Path, seed: int, outbox_at: Any, spawned: Any) -> None:
    """A node that crashes again and again while it sends what had waited writes a report twice, or never."""
    from antiphon.store.sqlite import SqliteBackend

    chance, count, kills = Random(seed), 3_000, 0

    async def fill() -> None:
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            for begin in range(0, count, 500):
                await outbox.put("crash", None, values(*range(begin, begin + 500)))

    asyncio.run(fill())
    for _ in range(200):
        process = spawned(DRAINER, f"sqlite:{tmp_path / 'store.db'}", tmp_path / "outbox.db")
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "begins"
        if kills < 8:
            # where in its work it is by then is as good as random
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0.0, 0.04))
            process.kill()
            kills += process.wait(PATIENCE_S) == -signal.SIGKILL
        process.wait(PATIENCE_S)
        if process.stdout.read().strip() == "empty":
            break

    async def look() -> list[int]:
        store = SqliteBackend(f"sqlite:{tmp_path / 'store.db'}")
        await store.open()
        try:
            return await written(store)
        finally:
            await store.close()

    assert asyncio.run(look()) == list(range(count))
    assert kills >= 2, "nobody was killed in the middle"
