"""What readers hold back from collection: their own topic, and of that only what they were handed, have not confirmed and is still due.

These checks use whole stores (`antiphon.store.Store`) on the back end, each with its place in the ring, because the horizon is made there.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, cast

from antiphon.store.collector import collect
from antiphon.store.contract import Backend
from antiphon.store.horizon import horizon
from antiphon.store.records import Value
from antiphon.store.settings import StoreSettings
from antiphon.store.store import Store
from antiphon.store.subscription import Subscription
from antiphon.testing.store_suite.stage import PATIENCE_S, Stage, check, equal, everything, holds, seqs

_SETTINGS = StoreSettings(collect_s=0, clock_s=0.0, node_timeout_s=60.0)
_LONG_S = 3600.0
_OVER_S = 1e-9
"""A lease that is over as soon as it is asked for."""


class _KeptOpen:
    """A handle that belongs to the stage: the store on it does not open or close it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def open(self) -> None: ...

    async def close(self) -> None: ...


async def _store(stage: Stage, name: str = "p") -> Store:
    """A store to be opened by `async with`."""
    return Store(cast("Backend", _KeptOpen(await stage.open())), name=name, settings=_SETTINGS)


async def _fill(store: Store, topic: str, count: int, retention_s: float = 0.0) -> None:
    await store.topic(topic).register(retention_s=retention_s)
    await store.topic(topic).publish_many([b"%d" % number for number in range(1, count + 1)])


async def _collected_up_to(what: str, store: Store, topic: str, floor: int) -> None:
    """Collect until the floor of the topic is this one; it must not become higher."""
    found = -1
    try:
        async with asyncio.timeout(PATIENCE_S):
            while found != floor:
                found = (await store.collect([topic]))[topic].floor
                holds(f"{what}: {topic} is collected up to {found}, which is beyond {floor}", found <= floor)
    except TimeoutError:
        raise AssertionError(f"{what}: {topic} is collected up to {found} and not to {floor} within {PATIENCE_S:.0f} s") from None


async def _prefetched(reader: Subscription, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while reader.prefetched < count:
            await asyncio.sleep(0.005)


@check
async def a_reader_holds_nothing_in_other_topics(stage: Stage) -> None:
    """One reader with a value it has not confirmed would stop expiry in every topic of the store."""
    async with await _store(stage) as store:
        await _fill(store, "a", 3)
        await _fill(store, "b", 3)
        reader = await store.topic("a").subscribe(_LONG_S, id="s")
        holds("a value was read", isinstance(await reader.read(PATIENCE_S), Value))
        await _collected_up_to("in the ring", store, "b", 3)
        await store.topic("b").publish(b"4")
        async with asyncio.timeout(PATIENCE_S):
            other = await stage.open()
            while (await collect(other, ["b"]))["b"].floor < 4:
                # Outside of the ring the newest round counts, which those in the ring make now and then.
                await store.collect(["a"])
        equal("what is in the reader's topic", seqs(await everything(other, "a")), [1, 2, 3])


@check
async def prefetched_values_hold_nothing(stage: Stage) -> None:
    """Values that lie in a buffer would be kept although nobody reads them and their lease is over."""
    async with await _store(stage) as store:
        await _fill(store, "a", 3)
        reader = await store.topic("a").subscribe(_LONG_S, id="s")
        await _prefetched(reader, 3)
        equal("collected while the lease lasts", tuple((await store.collect("a"))["a"]), (0, 0))
        await reader.renew(_OVER_S)
        await _collected_up_to("prefetched, and the lease is over", store, "a", 3)


@check
async def expired_values_hold_nothing(stage: Stage) -> None:
    """A reader that is stuck with one value would keep its topic from being collected, long after its lease is over."""
    async with await _store(stage) as store, await _store(stage, "q") as other:
        await _fill(store, "a", 3)
        reader = await other.topic("a").subscribe(_LONG_S, id="s")
        await reader.read_many(2, PATIENCE_S)
        equal("collected while the lease lasts", tuple((await store.collect("a"))["a"]), (0, 0))
        await reader.renew(_OVER_S)
        await _collected_up_to("read and not confirmed, and the lease is over", other, "a", 3)


@check
async def values_in_hand_hold_their_topic(stage: Stage) -> None:
    """A value would be collected while somebody to whom it is due works on it."""
    async with await _store(stage) as store, await _store(stage, "q") as other:
        await _fill(store, "a", 3)
        reader = await other.topic("a").subscribe(_LONG_S, id="s")
        value = await reader.read(PATIENCE_S)
        holds("a value was read", isinstance(value, Value))
        await store.topic("a").subscribe(_OVER_S, id="expired")
        for _ in range(3):
            equal("collected", tuple((await store.collect("a"))["a"]), (0, 0))
        found, now = await horizon(await stage.open()), await store.time()
        holds("the horizon of the topic is not beyond the value in hand", isinstance(value, Value) and found.of("a", now) <= value.time)
        hold = found.held["a"]
        equal("who holds it", (hold.node, hold.reader, hold.moment), ("q", "s", value.time if isinstance(value, Value) else 0))
        holds("until its lease is over", hold.until is not None and hold.until >= now)
        await reader.done(1)
        await _collected_up_to("after it was confirmed", store, "a", 1)


class _Reader:
    """A subscriber as the model of the check below knows it."""

    def __init__(self, reader: Subscription, position: int) -> None:
        self.reader, self.position, self.handed = reader, position, position
        self.over = self.closed = False

    @property
    def holds(self) -> bool:
        return not self.over and not self.closed and self.handed > self.position


class _Topics:
    """A random program on several topics, with what must be collected after each step."""

    def __init__(self, stores: list[Store], chance: Random, prefix: str) -> None:
        self._stores, self._chance = stores, chance
        self._retention_by_topic = {f"{prefix}{number}": (0.0, 0.0, _LONG_S)[number] for number in range(3)}
        self._last = dict.fromkeys(self._retention_by_topic, 0)
        self._floor = dict.fromkeys(self._retention_by_topic, 0)
        self._readers: dict[str, list[_Reader]] = {topic: [] for topic in self._retention_by_topic}

    async def play(self, steps: int) -> None:
        for topic, retention_s in self._retention_by_topic.items():
            await self._stores[0].topic(topic).register(retention_s=retention_s)
        for _ in range(steps):
            topic = self._chance.choice(list(self._last))
            acts = [self._publish, self._subscribe, self._read, self._read, self._confirm, self._expire, self._close, self._unsubscribe]
            await self._chance.choices(acts, [4, 2, 4, 4, 3, 1, 1, 1])[0](topic)
            if self._chance.random() < 0.3:
                await self._collect()
        await self._collect()
        for readers in self._readers.values():
            for one in readers:
                await one.reader.close()

    async def _publish(self, topic: str) -> None:
        count = self._chance.randint(1, 3)
        await self._stores[0].topic(topic).publish_many([b"x"] * count)
        self._last[topic] += count

    async def _subscribe(self, topic: str) -> None:
        if len(self._readers[topic]) < 3:
            reader = await self._chance.choice(self._stores).topic(topic).subscribe(_LONG_S)
            self._readers[topic].append(_Reader(reader, self._floor[topic]))

    def _chosen(self, topic: str) -> _Reader | None:
        able = [one for one in self._readers[topic] if not one.over and not one.closed]
        return self._chance.choice(able) if able else None

    async def _read(self, topic: str) -> None:
        one = self._chosen(topic)
        if one is not None and one.handed < self._last[topic]:
            items = await one.reader.read_many(self._chance.randint(1, 4), PATIENCE_S)
            equal("what a reader whose lease lasts is handed", [getattr(item, "seq", item) for item in items],
                  list(range(one.handed + 1, one.handed + 1 + len(items))))  # fmt: skip
            one.handed += len(items)

    async def _confirm(self, topic: str) -> None:
        one = self._chosen(topic)
        if one is not None:
            one.position = self._chance.randint(one.position, one.handed)
            await one.reader.done(one.position)

    async def _expire(self, topic: str) -> None:
        one = self._chosen(topic)
        if one is not None:
            await one.reader.renew(_OVER_S)
            one.over = True

    async def _close(self, topic: str) -> None:
        one = self._chosen(topic)
        if one is not None:
            await one.reader.close()
            one.closed = True

    async def _unsubscribe(self, topic: str) -> None:
        one = self._chosen(topic)
        if one is not None:
            await one.reader.unsubscribe()
            self._readers[topic].remove(one)

    async def _collect(self) -> None:
        store = self._chance.choice(self._stores)
        for topic, last in self._last.items():
            readers = self._readers[topic]
            free = [last if one.over else one.position for one in readers]
            wanted = min(free) if readers else last if not self._retention_by_topic[topic] else 0
            wanted = max(wanted, self._floor[topic])
            if any(one.holds for one in readers):
                # What is in hand may keep a little more than itself; never less.
                floor = (await store.collect(topic))[topic].floor
                holds(f"{topic} is collected up to {floor}, at most {wanted} is free", self._floor[topic] <= floor <= wanted)
                self._floor[topic] = floor
            else:
                await _collected_up_to("nothing of the topic is in hand", store, topic, wanted)
                self._floor[topic] = wanted


@check
async def each_topic_is_held_by_its_own_readers_only(stage: Stage) -> None:
    """Some mixture of readers with unconfirmed, prefetched and expired values would stop collection, or let a value go too early."""
    async with await _store(stage) as one, await _store(stage, "q") as two:
        for seed in range(4):
            try:
                await _Topics([one, two], Random(seed), f"t{seed}").play(40)
            except AssertionError as wrong:
                raise AssertionError(f"seed {seed}: {wrong}") from None
