"""The JetStream back end: keeps `contract.Backend` on NATS servers, one or a cluster, of version 2.12 or newer.

Receipts say `synced` only where the address says `sync=always`: what the servers do before they acknowledge cannot be seen from here, and
by default they sync every two minutes. `server.py` starts servers that sync always. A weaker publish costs the same here and is as durable.

Keeps per topic in use the tail of each publisher of this handle, and per reader one consumer on the server. What each call costs is said
in `publishing.py`, `reader.py`, `subscribing.py`, `collecting.py` and `recording.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from msgspec import Struct

from antiphon.errors import BadStore, Conflict, StoreUnreachable, UnknownTopic
from antiphon.store.jetstream import address as addresses
from antiphon.store.jetstream.ballast import Ballast
from antiphon.store.jetstream.clock import Clock
from antiphon.store.jetstream.codec import label_of
from antiphon.store.jetstream.collecting import Collecting
from antiphon.store.jetstream.connection import Connection, Fault
from antiphon.store.jetstream.faults import STREAM_UNKNOWN, Refusal, Unanswered
from antiphon.store.jetstream.objects import Objects
from antiphon.store.jetstream.publishing import BATCH_BYTES, BATCH_VALUES, Publishing, check
from antiphon.store.jetstream.reader import JetStreamReader
from antiphon.store.jetstream.recording import Recording
from antiphon.store.jetstream.stream import Stream
from antiphon.store.jetstream.subjects import every_topic, name_of, stream_prefix
from antiphon.store.jetstream.subscribing import Subscribing
from antiphon.store.jetstream.topic import TopicStream
from antiphon.store.records import (
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
    checked_name,
)

_HEADER_BYTES = 16 << 10
"""What subject and headers of a message may take."""
_LARGEST_VALUE = 1 << 20
_INFOS_AT_ONCE = 16


class JetStreamBackend:
    batch_values = BATCH_VALUES
    atomic_steps = False

    def __init__(self, url: str) -> None:
        self._address = addresses.parse(url)
        self.url = self._address.url
        self.value_bytes = (1 << 20) - _HEADER_BYTES
        """Until it is open: what servers take that nobody has configured."""
        self.batch_bytes = BATCH_BYTES
        self._connection: Connection | None = None
        self._topics: dict[str, TopicStream] = {}

    def __repr__(self) -> str:
        return f"JetStreamBackend({self.url!r})"

    # --- life ------------------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        if self._connection is not None and not self._connection.closed:
            return
        address, connection = self._address, Connection(self._address)
        await connection.open()
        prefix = address.prefix
        records, objects = Stream(connection, f"{prefix}-r"), Stream(connection, f"{prefix}-o")
        config = {"storage": "file", "num_replicas": address.replicas, "max_msgs_per_subject": 1, "allow_atomic": True}
        try:
            await records.create({"subjects": [f"{prefix}.r.>", f"{prefix}.m.>"], **config})
            await objects.create({"subjects": [f"{prefix}.o.>"], **config})
            self.value_bytes = min(connection.payload_bytes - _HEADER_BYTES, _LARGEST_VALUE)
            connection.ballast = Ballast(records, f"{prefix}.m.ballast", self.value_bytes)
            await connection.ballast.lay()
            self._clock = Clock(records, f"{prefix}.m.tick")
            await self._clock.now()
        except Refusal as refusal:
            await connection.close()
            raise BadStore(self.url, f"the streams cannot be made: {refusal.why}") from None
        except BaseException:
            await connection.close()
            raise
        self._recording = Recording(records, prefix, self._clock)
        kept_apart = Objects(objects, prefix)
        self._subscribing = Subscribing(connection, kept_apart, self.value_bytes // 2)
        self._publishing = Publishing(self._clock, self.value_bytes, self.batch_bytes, address.synced)
        self._collecting = Collecting(kept_apart, self._clock)
        self._connection, self._topics = connection, {}

    async def close(self) -> None:
        connection = self._connection
        if connection is not None and not connection.closed:
            await connection.close()

    async def time(self) -> Moment:
        self._opened()
        with self._told():
            return await self._clock.now()

    # --- topics ----------------------------------------------------------------------------------------------------------------

    async def register(self, topic: str, publisher: str, *, options: TopicOptions | None = None, takeover: bool = False) -> Grant:
        checked_name(publisher, "publisher")
        with self._told(topic):
            return await self._publishing.register(self._topic(checked_name(topic)), publisher, options, takeover)

    async def release(self, grant: Grant) -> None:
        with suppress(UnknownTopic), self._told(grant.topic):
            await self._publishing.release(self._topic(grant.topic), grant)

    async def publish(self, grant: Grant, first: int, entries: Sequence[Entry], *, synced: bool = True) -> Receipt:
        with self._told(grant.topic):
            return await self._publishing.publish(self._topic(grant.topic), grant, first, entries)

    async def erase(self, grant: Grant, numbers: Sequence[int]) -> int:
        with self._told(grant.topic):
            return await self._publishing.erase(self._topic(grant.topic), grant, numbers)

    async def reader(self, topic: str, after: int, place: int = 0) -> JetStreamReader:
        with self._told(topic):
            return await JetStreamReader(self._topic(topic), self._clock, after, place).open()

    async def info(self, topic: str) -> TopicInfo:
        with self._told(topic):
            return await self._info(self._topic(topic))

    async def topics(self) -> list[TopicInfo]:
        with self._told():
            found: list[TopicInfo] = []
            names = sorted(await self._names())
            for at in range(0, len(names), _INFOS_AT_ONCE):
                found += await asyncio.gather(*(self._info(self._topic(name)) for name in names[at : at + _INFOS_AT_ONCE]))
            return found

    async def collect(self, topic: str, horizon: Moment) -> Collected:
        with self._told(topic):
            return await self._collecting.collect(self._topic(topic), horizon)

    # --- subscribers -----------------------------------------------------------------------------------------------------------

    async def subscribe(self, topic: str, subscriber: str, lease: Moment, start: Start = "earliest") -> Subscriber:
        checked_name(subscriber, "subscriber")
        with self._told(topic):
            return await self._subscribing.subscribe(self._topic(checked_name(topic)), subscriber, lease, start)

    async def subscriber(self, topic: str, subscriber: str) -> Subscriber | None:
        with suppress(UnknownTopic), self._told(topic):
            return await self._subscribing.subscriber(self._topic(topic), subscriber)
        return None

    async def subscribers(self, topic: str) -> list[Subscriber]:
        with self._told(topic):
            return await self._subscribing.subscribers(self._topic(topic))

    async def update(self, subscriber: Subscriber) -> Subscriber:
        try:
            with self._told(subscriber.topic):
                return await self._subscribing.update(self._topic(subscriber.topic), subscriber)
        except UnknownTopic:
            raise Conflict(f"the subscriber {subscriber.id!r} of {subscriber.topic!r}") from None

    async def unsubscribe(self, subscriber: Subscriber) -> None:
        with suppress(UnknownTopic), self._told(subscriber.topic):
            await self._subscribing.unsubscribe(self._topic(subscriber.topic), subscriber)

    async def step(self, subscriber: Subscriber, publications: Sequence[Publication]) -> Subscriber:
        # Whatever can be seen to be refused is refused before anything is written. What comes between is made good by the repeat.
        present = await self.subscriber(subscriber.topic, subscriber.id)
        if present is None or present.revision != subscriber.revision:
            raise Conflict(f"the subscriber {subscriber.id!r} of {subscriber.topic!r}")
        for publication in publications:
            self._publishing.check_size(publication.entries)
        for grant in {publication.grant for publication in publications}:
            with self._told(grant.topic):
                check(grant, await self._topic(grant.topic).tail(grant.publisher))
        for grant, first, entries in self._publishing.joined(publications):
            await self.publish(grant, first, entries)
        return await self.update(subscriber)

    # --- records ---------------------------------------------------------------------------------------------------------------

    async def get(self, key: str) -> Record | None:
        self._opened()
        with self._told():
            return await self._recording.get(key)

    async def put(self, key: str, data: bytes, revision: int) -> Record:
        self._opened()
        with self._told():
            return await self._recording.put(key, data, revision)

    async def remove(self, key: str, revision: int) -> None:
        self._opened()
        with self._told():
            await self._recording.remove(key, revision)

    async def records(self, prefix: str) -> list[Record]:
        self._opened()
        with self._told():
            return await self._recording.records(prefix)

    async def watch(self, key: str, revision: int, timeout_s: float) -> Record | None:
        self._opened()
        with self._told():
            return await self._recording.watch(key, revision, timeout_s)

    # --- inside ----------------------------------------------------------------------------------------------------------------

    def _opened(self) -> Connection:
        if self._connection is None or self._connection.closed:
            raise StoreUnreachable(self.url, "it is not open")
        return self._connection

    def _topic(self, name: str) -> TopicStream:
        connection, topic = self._opened(), self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = TopicStream(connection, self._address.prefix, name)
        return topic

    @contextmanager
    def _told(self, topic: str = "") -> Iterator[None]:
        """What servers say, in the words of the contract."""
        try:
            yield
        except Unanswered as unanswered:
            raise StoreUnreachable(self.url, unanswered.why) from None
        except Refusal as refusal:
            if refusal.code == STREAM_UNKNOWN and topic:
                raise UnknownTopic(topic) from None
            raise BadStore(self.url, f"the server refuses: {refusal}") from None

    async def _info(self, topic: TopicStream) -> TopicInfo:
        tail = await topic.tail()
        floor, _ = await topic.gate()
        state = await topic.state(topic.subjects.values(tail.options))
        values = sum((state.subjects or {}).values())
        if floor.floor:
            # Of each publisher one value may be below the floor, which stays as a mark.
            for subject in state.subjects or ():
                oldest = await topic.next(subject, 1)
                values -= oldest is not None and label_of(oldest.headers).seq <= floor.floor
        return TopicInfo(
            name=topic.topic,
            options=tail.options,
            publisher=tail.holder.publisher,
            epoch=tail.holder.epoch,
            floor=floor.floor,
            last=tail.last,
            values=values,
            size=state.bytes if values else 0,
        )

    async def _names(self) -> list[str]:
        names: list[str] = []
        while True:
            wish = {"offset": len(names), "subject": every_topic(self._address.prefix)}
            answer = await self._opened().ask("STREAM.NAMES", wish, _Names)
            page = answer.streams or []
            names += page
            if not page or len(names) >= answer.total:
                return [name_of(name.removeprefix(stream_prefix(self._address.prefix))) for name in names]


class _Names(Struct):
    error: Fault | None = None
    streams: list[str] | None = None
    total: int = 0
