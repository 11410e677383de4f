"""The collector: what nobody needs goes, what somebody reads or has not sent stays, whoever collects, and whoever is killed doing it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from antiphon.errors import InvalidOption, StoreUnreachable, UnknownTopic
from antiphon.store.collector import COLLECTED, Collector, collect
from antiphon.store.draining import Draining
from antiphon.store.holdings import Holdings
from antiphon.store.horizon import Horizon
from antiphon.store.memory import MemoryBackend
from antiphon.store.outbox import Outbox
from antiphon.store.presence import PRESENCES, Presence
from antiphon.store.records import SECOND, Entry, Moment, TopicOptions
from antiphon.store.ring import RingNode
from antiphon.store.sqlite import SqliteBackend

LEASE = 10 * SECOND
RETENTION_S = 10.0
PATIENCE_S = 60.0


class Clock:
    """The store's time, moved by hand."""

    def __init__(self) -> None:
        self.now: Moment = 1_000 * SECOND

    def __call__(self) -> Moment:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)


class Owner:
    """Somebody who holds something."""


async def memory(clock: Clock, url: str = "memory:") -> MemoryBackend:
    store = MemoryBackend(url, now=clock)
    await store.open()
    return store


async def a_topic(store: Any, values: int, subscriber: str | None = "ambulance", lease: Moment = LEASE) -> None:
    """`crash` with so many values, and somebody to whom they are due for a while."""
    if subscriber is not None:
        await store.subscribe("crash", subscriber, lease)
    grant = await store.register("crash", "hotline", options=TopicOptions(retention_s=RETENTION_S))
    await store.publish(grant, grant.number + 1, [Entry(b"%d" % n) for n in range(values)])


async def left(store: Any, topic: str = "crash") -> int:
    return (await store.info(topic)).values  # type: ignore[no-any-return]


@asynccontextmanager
async def ring_node(store: Any, holdings: Holdings, **options: Any) -> AsyncIterator[RingNode]:
    node = RingNode(store, holdings, **options)
    node.start()
    await node.ready(PATIENCE_S)
    try:
        yield node
    finally:
        await node.stop()


# --- never early ---------------------------------------------------------------------------------------------------------------


def test_what_somebody_reads_stays() -> None:
    """An ambulance has been told of a crash and is on its way; the report is collected because it has become old on the way."""

    async def story() -> None:
        clock = Clock()
        store = await memory(clock)
        await a_topic(store, 3)
        reads, collects = Holdings(), Holdings()
        async with ring_node(store, reads) as reader, ring_node(store, collects) as collector:
            taken = (await (await store.reader("crash", 0)).take(10, 0)).values
            ambulance = Owner()
            reads.set(ambulance, taken[0].time)
            for _ in range(20):  # minutes, and everybody answers all the time
                clock.wait(9)
                await reader.turn()
                await collector.turn()
                await collect(store, ring=collector, patience_s=PATIENCE_S)
                await collect(store)
                assert await left(store) == 3
            reads.set(ambulance, None)
            await collect(store, ring=collector, patience_s=PATIENCE_S)
            assert await left(store) == 0

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


def test_what_waits_in_an_outbox_stays(tmp_path: Path) -> None:
    """The answer to a publish was lost, and it waits to be repeated; meanwhile it is collected as too old."""

    async def story() -> None:
        clock, holdings = Clock(), Holdings()
        store = await memory(clock)
        await a_topic(store, 1, subscriber=None)
        async with ring_node(store, holdings) as node:
            since = await store.time()
            grant = await store.register("crash", "hotline")
            await store.publish(grant, grant.number + 1, [Entry(b"doubt")])  # of which nobody here has heard
            outbox = Outbox(tmp_path / "outbox.db", node="hotline", holdings=holdings)
            await outbox.open()
            await outbox.put("crash", None, [Entry(b"doubt")], grant.number + 1, since=since)
            for _ in range(5):
                clock.wait(9)
                await collect(store, ring=node)
            assert await left(store) == 2
            drain = Draining(outbox, store)
            drain.start()
            await drain.empty(PATIENCE_S)
            await drain.stop()
            await outbox.close()
            assert await left(store) == 2, "it was there already"
            await collect(store, ring=node)
            assert await left(store) == 0

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


@pytest.mark.parametrize("in_the_ring", [False, True])
def test_a_lease_to_the_nanosecond(in_the_ring: bool) -> None:
    """A value goes while its lease is not over, because the collector rounds; or never."""

    async def story() -> None:
        clock = Clock()
        store = await memory(clock)
        await a_topic(store, 2)
        node = RingNode(store, Holdings()) if in_the_ring else None
        if node is not None:
            await node.turn()
        clock.now += LEASE
        assert (await collect(store, ring=node))["crash"].removed == 0
        clock.now += 1
        assert (await collect(store, ["crash"], ring=node))["crash"].removed == 2

    asyncio.run(story())


def test_nodes_that_are_gone_do_not_hold_it_for_ever() -> None:
    """All nodes were switched off without a word; the operator's collector waits for them for ever."""

    async def story() -> None:
        clock, holdings, owner = Clock(), Holdings(), Owner()
        store = await memory(clock)
        await a_topic(store, 2)
        holdings.set(owner, clock.now)
        node = RingNode(store, holdings, node_timeout_s=100)
        await node.turn()
        clock.wait(100)
        assert (await collect(store))["crash"].removed == 0, "it is not silent yet"
        clock.now += 1
        assert (await collect(store))["crash"].removed == 2
        assert await store.records(PRESENCES) == []

    asyncio.run(story())


def test_unknown_topics_and_absurd_intervals() -> None:
    """A mistyped name is told as success; a collector without a pause does nothing else."""

    async def story() -> None:
        store = await memory(Clock())
        await a_topic(store, 1)
        with pytest.raises(UnknownTopic, match="crahs"):
            await collect(store, ["crahs"])
        for interval in (0, -1, float("nan"), float("inf")):
            with pytest.raises(InvalidOption, match="interval_s"):
                Collector(store, interval_s=interval)

    asyncio.run(story())


# --- many collectors -----------------------------------------------------------------------------------------------------------


def stores(kind: str, directory: Path, clock: Clock, count: int) -> list[Any]:
    if kind == "memory":
        return [MemoryBackend(f"memory:{directory}", now=clock) for _ in range(count)]
    return [SqliteBackend(f"sqlite:{directory / 'store.db'}") for _ in range(count)]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_one_of_many_does_it(kind: str, tmp_path: Path) -> None:
    """A hundred nodes collect at the same time, each the whole store."""

    async def story() -> None:
        clock = Clock()
        handles = stores(kind, tmp_path, clock, 5)
        for store in handles:
            await store.open()
        await a_topic(handles[0], 10)
        collectors = [Collector(store, interval_s=3_600) for store in handles]
        assert sum(await asyncio.gather(*(collector.turn() for collector in collectors))) == 1
        assert not any(await asyncio.gather(*(collector.turn() for collector in collectors))), "within the interval nobody does"
        record = await handles[0].get(COLLECTED)
        await handles[0].put(COLLECTED, b"what is this", record.revision)
        assert sum([await collector.turn() for collector in collectors]) == 1, "a record that says nothing stops nobody"
        for store in handles:
            await store.close()

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("seed", range(3))
def test_all_at_once(kind: str, seed: int, tmp_path: Path) -> None:
    """Two collectors at work at once, or one beside a publisher and a newcomer, remove what only one of them had leave to remove."""
    chance = Random(seed)

    async def story() -> None:
        clock = Clock()
        handles = stores(kind, tmp_path / str(seed), clock, 4)
        (tmp_path / str(seed)).mkdir()
        for store in handles:
            await store.open()
        publishes, *collecting = handles
        await a_topic(publishes, 20, lease=1_000 * SECOND)
        grant = await publishes.register("crash", "hotline")
        done = 0
        for turn in range(15):
            subscriber = await publishes.subscriber("crash", "ambulance")
            done += chance.randrange(20)
            work = [collect(store) for store in collecting]
            work.append(publishes.update(msgspec.structs.replace(subscriber, position=done)))
            work.append(publishes.publish(grant, grant.number + 1 + 20 * turn, [Entry(b"x")] * 20))
            work.append(publishes.subscribe("crash", f"newcomer {turn}", 1_000 * SECOND))
            chance.shuffle(work)
            newcomer = next(result for result in await asyncio.gather(*work) if hasattr(result, "position") and result.id != "ambulance")
            values = (await (await publishes.reader("crash", 0)).take(10_000, 0)).values
            assert [value.seq for value in values] == list(range(values[0].seq, 20 * turn + 41)), "nothing is missing in the middle"
            assert values[0].seq <= newcomer.position + 1, "a newcomer has what was promised to it"
            await publishes.unsubscribe(newcomer)
        await collect(publishes)
        assert (await publishes.info("crash")).floor == done
        for store in handles:
            await store.close()

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


def test_runs_by_itself_and_goes_on_after_a_fault() -> None:
    """A store that was away once is never collected again."""

    async def story() -> None:
        clock = Clock()
        store = await memory(clock)
        await a_topic(store, 4)
        collector = Collector(store, interval_s=0.002, chance=Random(1))
        await store.close()
        collector.start()
        while not collector.failures:
            await asyncio.sleep(0.001)
        await store.open()
        clock.wait(60)
        while not collector.removed:
            await asyncio.sleep(0.001)
        await collector.stop()
        assert collector.stats()["removed"] == 4

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


def test_cancelled_anywhere() -> None:
    """A collection that was given up leaves the ring or a topic half done."""

    async def story() -> None:
        for turns in range(60):
            clock = Clock()
            store = await memory(clock)
            await a_topic(store, 4)
            node = RingNode(store, Holdings())
            await node.turn()
            clock.wait(60)
            work = asyncio.ensure_future(collect(store, ring=node))
            for _ in range(turns):
                await asyncio.sleep(0)
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work
            assert await left(store) in (0, 4)
            await collect(store, ring=node)
            assert await left(store) == 0

    asyncio.run(story())


# --- processes -----------------------------------------------------------------------------------------------------------------


READER = """
    import asyncio, sys
    from antiphon.store.holdings import Holdings
    from antiphon.store.ring import RingNode
    from antiphon.store.sqlite import SqliteBackend
    class Owner: pass
    async def main():
        store, holdings, owner = SqliteBackend(sys.argv[1]), Holdings(), Owner()
        await store.open()
        node = RingNode(store, holdings, "reader", node_timeout_s=1.0)
        node.start()
        await node.ready(60)
        holdings.set(owner, (await (await store.reader("crash", 0)).take(1, 10)).values[0].time)
        print(node.id, flush=True)
        while not node.absences or not node.is_member:
            await asyncio.sleep(0.02)
        print("back", flush=True)
        await asyncio.sleep(600)
    asyncio.run(main())
"""


def test_a_frozen_process_holds_it_for_its_time_out(tmp_path: Path, spawned: Any, frozen: Any) -> None:
    """A frozen machine stops collection for ever; or its readers are not waited for as long as was promised."""
    url = f"sqlite:{tmp_path / 'store.db'}"

    async def story() -> None:
        store = SqliteBackend(url)
        await store.open()
        await a_topic(store, 3, lease=SECOND // 100)
        reader = spawned(READER, url)
        assert reader.stdout is not None
        try:
            node_id = (await asyncio.to_thread(reader.stdout.readline)).strip()
            async with ring_node(store, Holdings(), node_timeout_s=2.0) as node:
                # The lease is long over: only the reader keeps the values.
                for _ in range(3):
                    await collect(store, ring=node, patience_s=PATIENCE_S)
                    assert await left(store) == 3
                await frozen(reader.pid, url)
                while True:
                    record = await store.get(PRESENCES + node_id)
                    await collect(store, ring=node, patience_s=0.1)
                    if not await left(store):
                        break
                    assert record is not None
                    presence = msgspec.json.decode(record.data, type=Presence)
                # It went after the reader's time-out, by the store's own time.
                assert presence.silent(await store.time())
                reader.send_signal(signal.SIGCONT)
                assert (await asyncio.to_thread(reader.stdout.readline)).strip() == "back", "it knows that it was away"
        finally:
            reader.kill()
            await asyncio.to_thread(reader.wait, PATIENCE_S)
            reader.stdout.close()
            await store.close()

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


COLLECTS = """
    import asyncio, sys
    from antiphon.store.collector import collect
    from antiphon.store.sqlite import SqliteBackend
    async def main():
        store = SqliteBackend(sys.argv[1])
        await store.open()
        print("begins", flush=True)
        while True:
            await collect(store)
    asyncio.run(main())
"""


@pytest.mark.parametrize("seed", [1])
def test_killed_collectors(tmp_path: Path, seed: int, spawned: Any) -> None:
    """A collector that is killed in the middle leaves a hole, or a store in which nobody else can collect."""
    chance, url = Random(seed), f"sqlite:{tmp_path / 'store.db'}"

    async def story() -> None:
        store = SqliteBackend(url)
        await store.open()
        await store.subscribe("crash", "ambulance", 1_000 * SECOND)
        grant = await store.register("crash", "hotline")
        written = done = 0
        for _ in range(6):
            collector = spawned(COLLECTS, url)
            assert collector.stdout is not None
            await asyncio.to_thread(collector.stdout.readline)
            for _ in range(chance.randrange(2, 12)):
                await store.publish(grant, written + 1, [Entry(b"x" * 100)] * 500)
                written += 500
                done += chance.randrange(0, 500)
                subscriber = await store.subscriber("crash", "ambulance")
                assert subscriber is not None
                await store.update(msgspec.structs.replace(subscriber, position=done))
            collector.kill()
            await asyncio.to_thread(collector.wait, PATIENCE_S)
            collector.stdout.close()
            values = (await (await store.reader("crash", 0)).take(16_384, 0)).values
            assert values[0].seq <= done + 1
            assert [value.seq for value in values] == list(range(values[0].seq, written + 1))
        await collect(store)
        assert (await store.info("crash")).floor == done
        await store.close()

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


# --- collectors that are wrong: these tests must see it ---------------------------------------------------------------------------


@pytest.mark.parametrize("test", [test_what_somebody_reads_stays, test_nodes_that_are_gone_do_not_hold_it_for_ever])
def test_a_collector_that_goes_by_the_clock_is_seen(test: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above would pass with a collector that has never heard of the ring."""

    async def clock(backend: Any) -> Horizon:
        return Horizon(moment=await backend.time())

    async def fresh(node: RingNode, patience_s: float = 0) -> Horizon:
        return await clock(node._backend)

    monkeypatch.setattr("antiphon.store.collector.horizon", clock)
    monkeypatch.setattr(RingNode, "horizon", fresh)
    with pytest.raises(AssertionError):
        test()


def test_out_of_reach() -> None:
    """A store that does not answer is told as one in which there is nothing to collect."""

    async def story() -> None:
        store = await memory(Clock())
        await store.close()
        with pytest.raises(StoreUnreachable):
            await collect(store)

    asyncio.run(story())
