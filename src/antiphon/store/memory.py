"""A store in the memory of one process: the contract read aloud, and the smallest back end there is.

`memory:` is a store of its own; `memory:NAME` is one store for everybody in the process who opens it under this name, from any thread or
event loop, and lasts as long as the process. It keeps every promise of `contract.py` but one: nothing outlives the process, so no receipt
says `synced`. It is for tests, for models of other back ends, and for programs that want topics without durability.

Every call first gives the event loop a turn and then happens at once under one lock, so cancelling it leaves it done or not done. Costs:
publish O(entries), read O(log values + limit), replacing a value of a mutable topic O(values). `now` gives the time: tests move it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple, TypeVar

from msgspec import Struct, field, structs

from antiphon.errors import BadStore, Conflict, Fenced, InvalidOption, StoreFull, StoreUnreachable, TooLarge, TopicTaken, UnknownTopic
from antiphon.store import retention
from antiphon.store.contract import Reader
from antiphon.store.records import (
    Chunk,
    Collected,
    Entry,
    Grant,
    Moment,
    Publication,
    Receipt,
    Record,
    Start,
    Subscriber,
    TopicInfo,
    TopicOptions,
    Value,
    checked_name,
    start_position,
)

Found = TypeVar("Found")


class MemoryBackend:
    value_bytes = 1 << 20
    batch_values = 4_096
    atomic_steps = True
    batch_bytes = 16 << 20

    def __init__(self, url: str = "memory:", *, now: Callable[[], Moment] | None = None, max_bytes: int = 1 << 30) -> None:
        scheme, _, name = url.partition(":")
        if scheme != "memory":
            raise BadStore(url, "say memory: for a store of its own, or memory:NAME for one that is shared within the process")
        self.url = url
        self._shelf = _SHELVES.setdefault(name, Shelf()) if name else Shelf()
        self._shelf.now = now or self._shelf.now
        self._max_bytes = max_bytes
        self._is_open = False

    async def open(self) -> None:
        self._is_open = True

    async def close(self) -> None:
        self._is_open = False
        with self._shelf.lock:
            self._shelf.wake()

    async def time(self) -> Moment:
        async with self._turn() as shelf:
            return shelf.time()

    # --- topics ----------------------------------------------------------------------------------------------------------------

    async def register(self, topic: str, publisher: str, *, options: TopicOptions | None = None, takeover: bool = False) -> Grant:
        async with self._turn() as shelf:
            here = shelf.topics.get(checked_name(topic)) or Topic()
            decided = here.options or options or TopicOptions()
            if options not in (None, decided):
                raise InvalidOption("options", options, f"{topic!r} has {decided}, and keeps them: leave them out, or say the same")
            mine = here.publishers.setdefault(checked_name(publisher, "publisher"), Publisher())
            if here.publisher not in ("", publisher):
                if not takeover:
                    raise TopicTaken(topic, here.publisher)
                here.publishers[here.publisher].epoch = 0
            shelf.topics[topic] = here
            here.options, here.publisher = decided, "" if decided.shared else publisher
            here.epoch = mine.epoch = here.epoch + 1
            return Grant(topic, publisher, mine.epoch, mine.number, here.last)

    async def release(self, grant: Grant) -> None:
        async with self._turn() as shelf:
            with suppress(Fenced, UnknownTopic):
                here, mine = shelf.held(grant)
                here.publisher, mine.epoch = "", 0

    async def publish(self, grant: Grant, first: int, entries: Sequence[Entry], *, synced: bool = True) -> Receipt:
        async with self._turn() as shelf:
            self._refuse(shelf, [Publication(grant, first, entries)])
            return self._publish(shelf, grant, first, entries)

    async def erase(self, grant: Grant, numbers: Sequence[int]) -> int:
        async with self._turn() as shelf:
            here, _ = shelf.held(grant)
            chosen = set(numbers)
            return here.drop(lambda stored: stored.seq in chosen and (here.publisher != "" or stored.publisher == grant.publisher))

    async def reader(self, topic: str, after: int, place: int = 0) -> Reader:
        async with self._turn() as shelf:
            return _Reader(self, shelf.topic(topic), after)

    async def info(self, topic: str) -> TopicInfo:
        async with self._turn() as shelf:
            return shelf.topic(topic).info(topic)

    async def topics(self) -> list[TopicInfo]:
        async with self._turn() as shelf:
            return [shelf.topics[name].info(name) for name in sorted(shelf.topics)]

    async def collect(self, topic: str, horizon: Moment) -> Collected:
        async with self._turn() as shelf:
            here = shelf.topic(topic)
            options, subscribers = here.options or TopicOptions(), list(here.subscribers.values())
            horizon = min(horizon, shelf.time())
            expired = {lease: here.last_before(horizon - lease) for lease in retention.leases(subscribers, options)}
            free = retention.removable(subscribers, options, expired, here.last)
            here.floor = max(here.floor, retention.floor_of(free))
            return Collected(here.floor, here.drop(lambda stored: stored.seq in free))

    # --- subscribers -----------------------------------------------------------------------------------------------------------

    async def subscribe(self, topic: str, subscriber: str, lease: Moment, start: Start = "earliest") -> Subscriber:
        async with self._turn() as shelf:
            here = shelf.topics.get(checked_name(topic)) or Topic()
            if checked_name(subscriber, "subscriber") in here.subscribers:
                raise Conflict(f"the subscriber {subscriber!r} of {topic!r}")
            position = start_position(topic, start, here.floor, here.last)
            fresh = Subscriber(topic=topic, id=subscriber, lease=lease, position=position, revision=shelf.next_revision())
            here.subscribers[subscriber] = fresh
            shelf.topics[topic] = here
            return fresh

    async def subscriber(self, topic: str, subscriber: str) -> Subscriber | None:
        async with self._turn() as shelf:
            return shelf.topics[topic].subscribers.get(subscriber) if topic in shelf.topics else None

    async def subscribers(self, topic: str) -> list[Subscriber]:
        async with self._turn() as shelf:
            return sorted(shelf.topic(topic).subscribers.values(), key=lambda subscriber: subscriber.id)

    async def update(self, subscriber: Subscriber) -> Subscriber:
        return await self.step(subscriber, ())

    async def unsubscribe(self, subscriber: Subscriber) -> None:
        async with self._turn() as shelf:
            here = shelf.topics.get(subscriber.topic)
            if here is not None and subscriber.id in here.subscribers:
                del shelf.unchanged(subscriber)[subscriber.id]

    async def step(self, subscriber: Subscriber, publications: Sequence[Publication]) -> Subscriber:
        async with self._turn() as shelf:
            # Whatever may refuse comes before whatever changes: a step happens as a whole.
            subscribers = shelf.unchanged(subscriber)
            self._refuse(shelf, publications)
            for publication in publications:
                self._publish(shelf, *publication)
            subscribers[subscriber.id] = structs.replace(subscriber, revision=shelf.next_revision())
            return subscribers[subscriber.id]

    # --- records ---------------------------------------------------------------------------------------------------------------

    async def get(self, key: str) -> Record | None:
        async with self._turn() as shelf:
            return shelf.records.get(key)

    async def put(self, key: str, data: bytes, revision: int) -> Record:
        async with self._turn() as shelf:
            shelf.condition(key, revision)
            record = shelf.records[key] = Record(key, data, shelf.next_revision())
            shelf.wake()
            return record

    async def remove(self, key: str, revision: int) -> None:
        async with self._turn() as shelf:
            shelf.condition(key, revision)
            shelf.records.pop(key, None)
            shelf.wake()

    async def records(self, prefix: str) -> list[Record]:
        async with self._turn() as shelf:
            return [shelf.records[key] for key in sorted(shelf.records) if key.startswith(prefix)]

    async def watch(self, key: str, revision: int, timeout_s: float) -> Record | None:
        def look(shelf: Shelf) -> tuple[bool, Record | None]:
            record = shelf.records.get(key)
            return (record.revision if record else 0) != revision, record

        return await self._until(look, timeout_s)

    # --- inside ----------------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[Shelf]:
        await asyncio.sleep(0)
        if not self._is_open:
            raise StoreUnreachable(self.url, "it is not open")
        with self._shelf.lock:
            yield self._shelf

    async def _until(self, look: Callable[[Shelf], tuple[bool, Found]], timeout_s: float) -> Found:
        """What `look` finds, as soon as it says that this is it, or when the time is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            async with self._turn() as shelf:
                done, found = look(shelf)
                if done or loop.time() >= deadline:
                    return found
                woken = loop.create_future()
                shelf.waiting.add(woken)
            try:
                await asyncio.wait((woken,), timeout=max(0.0, deadline - loop.time()))
            finally:
                with self._shelf.lock:
                    self._shelf.waiting.discard(woken)

    def _refuse(self, shelf: Shelf, publications: Sequence[Publication]) -> None:
        room = self._max_bytes - sum(topic.size for topic in shelf.topics.values())
        for grant, _, entries in publications:
            shelf.held(grant)
            sizes = [len(entry.data) for entry in entries]
            if max(sizes, default=0) > self.value_bytes:
                raise TooLarge(max(sizes), self.value_bytes, "a value", "split it, or keep it elsewhere and publish where it is")
            if len(sizes) > self.batch_values or sum(sizes) > self.batch_bytes:
                raise TooLarge(sum(sizes), self.batch_bytes, f"a batch of up to {self.batch_values:,} values", "publish several batches")
            room -= sum(sizes)
        if room < 0:
            raise StoreFull(self.url, f"it may have {self._max_bytes:,} bytes")

    def _publish(self, shelf: Shelf, grant: Grant, first: int, entries: Sequence[Entry]) -> Receipt:
        here, mine = shelf.held(grant)
        written = max(0, min(mine.number + 1 - first, len(entries)))
        now, newest = shelf.time(), {}
        for number, entry in enumerate(entries[written:], first + written):
            here.last = newest[entry.key] = here.last + 1
            here.size += len(entry.data)
            here.stored.append(Stored(Value(here.last, now, bytes(entry.data), entry.key), grant.publisher, number))
            mine.number, mine.last = number, here.last
        if here.options and here.options.mutable:
            here.drop(lambda stored: stored.seq < newest.get(stored.value.key, 0))
        shelf.wake()
        if not entries:
            return Receipt(here.last + 1, here.last, False)
        return Receipt(here.seq_of(grant.publisher, first), here.seq_of(grant.publisher, first + len(entries) - 1), False)


class _Reader:
    def __init__(self, backend: MemoryBackend, topic: Topic, after: int) -> None:
        self._backend, self._topic, self._after = backend, topic, after

    async def take(self, limit: int, timeout_s: float) -> Chunk:
        def look(shelf: Shelf) -> tuple[bool, Chunk]:
            here = self._topic
            begin = bisect_right(here.stored, self._after, key=lambda stored: stored.seq)
            values = [stored.value for stored in here.stored[begin : begin + limit]]
            self._after = values[-1].seq if values else self._after
            gone = here.last if begin == len(here.stored) else 0
            return bool(values), Chunk(values, here.floor, here.last, shelf.time(), gone)

        return await self._backend._until(look, timeout_s)

    async def close(self) -> None:
        return None


class Stored(NamedTuple):
    value: Value
    publisher: str
    number: int  # the publisher's own

    @property
    def seq(self) -> int:
        return self.value.seq


class Publisher(Struct):
    epoch: int = 0  # of the grant it holds; 0: none
    number: int = 0  # its own, of its newest value
    last: int = 0  # the topic's, of the same


class Topic(Struct):
    options: TopicOptions | None = None  # decided by the first who registers
    publisher: str = ""
    epoch: int = 0
    floor: int = 0
    last: int = 0
    size: int = 0
    stored: list[Stored] = field(default_factory=list)
    publishers: dict[str, Publisher] = field(default_factory=dict)
    subscribers: dict[str, Subscriber] = field(default_factory=dict)

    def info(self, name: str) -> TopicInfo:
        return TopicInfo(
            name=name,
            options=self.options or TopicOptions(),
            publisher=self.publisher,
            epoch=self.epoch,
            floor=self.floor,
            last=self.last,
            values=len(self.stored),
            size=self.size,
        )

    def last_before(self, moment: Moment) -> int:
        at = bisect_left(self.stored, moment, key=lambda stored: stored.value.time)
        return self.stored[at - 1].seq if at else 0

    def drop(self, goes: Callable[[Stored], bool]) -> int:
        before = len(self.stored)
        self.stored = [stored for stored in self.stored if not goes(stored)]
        self.size = sum(len(stored.value.data) for stored in self.stored)
        return before - len(self.stored)

    def seq_of(self, publisher: str, number: int) -> int:
        """Where this value is; where it is no longer in the store, where it was unless others wrote in between."""
        stored: Stored
        for stored in reversed(self.stored):
            if stored.publisher == publisher and stored.number == number:
                return stored.seq
        newest = self.publishers[publisher]
        return max(1, newest.last - (newest.number - number))


class Shelf:
    """What everybody who opened the same name shares."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now: Callable[[], Moment] = time.monotonic_ns
        self.topics: dict[str, Topic] = {}
        self.records: dict[str, Record] = {}
        self.waiting: set[asyncio.Future[None]] = set()
        self._latest = self._revision = 0

    def time(self) -> Moment:
        self._latest = max(self._latest, self.now())
        return self._latest

    def next_revision(self) -> int:
        self._revision += 1
        return self._revision

    def topic(self, name: str) -> Topic:
        if name not in self.topics:
            raise UnknownTopic(name)
        return self.topics[name]

    def held(self, grant: Grant) -> tuple[Topic, Publisher]:
        mine = self.topic(grant.topic).publishers.get(grant.publisher)
        if mine is None or mine.epoch != grant.epoch or not grant.epoch:
            raise Fenced(f"the publisher {grant.publisher!r} of {grant.topic!r}", "the topic was registered or released since")
        return self.topics[grant.topic], mine

    def unchanged(self, subscriber: Subscriber) -> dict[str, Subscriber]:
        """The topic's subscribers, if this one is as it says."""
        subscribers = self.topics[subscriber.topic].subscribers if subscriber.topic in self.topics else {}
        if subscriber.id not in subscribers or subscribers[subscriber.id].revision != subscriber.revision:
            raise Conflict(f"the subscriber {subscriber.id!r} of {subscriber.topic!r}")
        return subscribers

    def condition(self, key: str, revision: int) -> None:
        record = self.records.get(key)
        if (record.revision if record else 0) != revision:
            raise Conflict(f"the record {key!r}")

    def wake(self) -> None:
        """Everybody who waits looks again; each in its own event loop, which may be another thread's."""
        for woken in self.waiting:
            with suppress(RuntimeError):  # its loop is closed: nobody waits any more
                woken.get_loop().call_soon_threadsafe(woken.cancel)
        self.waiting.clear()


_SHELVES: dict[str, Shelf] = {}
