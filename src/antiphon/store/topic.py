"""A durable topic, as those who publish to it and subscribe to it see it.

`publish` returns when the store has the value; how much that is worth is the type of what it returns (`acknowledgement.py`). Many who
publish at once share a write. A publish that the store does not answer to is repeated, and written once.

Every call may be cancelled: a publish that was cancelled has happened or not when the next one is written, and does not happen after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from msgspec import Struct, structs

from antiphon.errors import InvalidName, InvalidOption, TimedOut, TooLarge, UnknownTopic
from antiphon.model.payload import PayloadCodec
from antiphon.model.ranges import Ranges
from antiphon.store import retention
from antiphon.store.acknowledgement import Acknowledgement
from antiphon.store.continuation import come, look
from antiphon.store.publishing import Publisher
from antiphon.store.records import (
    KEY_BYTES,
    SECOND,
    SEQ_LIMIT,
    Entry,
    Gap,
    Start,
    TopicInfo,
    TopicOptions,
    Value,
    checked_lease,
    checked_name,
    checked_seq,
    checked_seqs,
    start_position,
)
from antiphon.store.subscription import Subscription, checked_limit
from antiphon.store.succession import Item, Succession

if TYPE_CHECKING:
    from antiphon.store.store import Store

LEASE_S = 7 * 86_400.0
"""Of a new subscriber that does not say."""

_WAIT_S = 1.0
_PEEK_VALUES = 64
"""Values that one read of `peek` takes, since it is not known how large they are."""
_entry = partial(tuple.__new__, Entry)


class SubscriberInfo(Struct, frozen=True, kw_only=True):
    """A subscriber as others see it."""

    id: str
    lease_s: float
    position: int
    """Done with everything up to here."""
    lag: int
    """How many of the numbers after it are published and not done."""
    state_bytes: int
    epoch: int


class Topic:
    def __init__(self, store: Store, name: str, codec: PayloadCodec | None) -> None:
        """Made by `Store.topic`."""
        self.name = name
        self._store, self._reach, self._codec = store, store.reach, codec

    # -- publishing ------------------------------------------------------------------------------------------------------------

    async def register(
        self,
        *,
        takeover: bool = False,
        shared: bool | None = None,
        mutable: bool | None = None,
        retention_s: float | None = None,
        timeout: float | None = None,
    ) -> int:
        """Asks for the right to publish; the first publish does it by itself. Says what the topic is, where it is new; what is left out
        is as it is, or as `TopicOptions` has it. TopicTaken when another has the topic, unless it is taken over: then that one is fenced.
        Whoever was fenced comes back with this. Returns the own number of this publisher's newest value in the topic."""
        publisher = self._publisher()
        said = {"shared": shared, "mutable": mutable, "retention_s": retention_s}
        chosen = {name: value for name, value in said.items() if value is not None}
        options = None
        if chosen:
            try:
                known = (await self.info(timeout=timeout)).options
            except UnknownTopic:
                known = TopicOptions()
            options = _options(known, chosen)
        grant = await publisher.register(options, takeover, timeout)
        return grant.number

    async def publish(
        self,
        value: Any,
        key: str = "",
        *,
        durability: Literal["synced", "relaxed"] = "synced",
        number: int | None = None,
        timeout: float | None = None,
    ) -> Acknowledgement:
        """Publishes a value: returns Published when it is on disk and synced, Accepted when the store does not say so (or that was not
        asked for: `durability="relaxed"`), Queued when it is in the outbox of this node. Raises StoreUnreachable when the store has not
        answered in time; `publish(value, number=error.number)` then repeats it without writing it twice.

        `key` says in a mutable topic which object this is the new value of; it must be given there and nowhere else (InvalidOption).

        `number` is this publisher's own number of the value, greater than those before: for all values of a topic or for none. Whoever has
        such numbers anyway (lines of a file, say) publishes each value once whatever crashes: `topic.number` says after `register` which is
        the newest that is there. A number that is not above it is taken for a repeat, so one that is said where this program has
        counted is refused with UsageError; whether another program has counted before, nobody knows."""
        publisher, synced = self._publisher(), _synced(durability)
        entry = Entry(self._encode(value), _checked_key(key))
        size = len(entry.data)
        self._check_size(size)
        return await publisher.publish((entry,), size + len(key), keyed=bool(key), number=number, synced=synced, timeout=timeout)

    async def publish_many(
        self,
        values: Iterable[Any],
        *,
        keys: Iterable[str] | None = None,
        durability: Literal["synced", "relaxed"] = "synced",
        number: int | None = None,
        timeout: float | None = None,
    ) -> Acknowledgement:
        """Publishes values in order, as few batches, and returns when the store has all of them: much cheaper per value than `publish`. A
        batch is written as a whole or not at all; when it fails, or is cancelled, after some batches, these are written.
        `number` is that of the first value."""
        publisher, synced = self._publisher(), _synced(durability)
        given = values if isinstance(values, list | tuple) else list(values)
        data: Sequence[bytes]
        if self._codec is not None:
            data = list(map(self._codec.encode, given))
        elif set(map(type, given)) <= {bytes}:
            data = given
        else:
            data = list(map(self._encode, given))
        sizes = list(map(len, data))
        self._check_size(max(sizes, default=0))
        names: Iterable[str] = repeat("")
        keyed = False
        if keys is not None:
            if isinstance(keys, str | bytes):
                raise InvalidOption("keys", keys, "give a list of keys, one for each of the values")
            names = [_checked_key(key) for key in keys]
            if len(names) != len(data):
                raise InvalidOption("keys", f"{len(names)} keys", f"give one for each of the {len(data)} values")
            keyed = any(names)
            if keyed and not all(names):
                raise InvalidOption("keys", f"{names.count('')} empty keys", "give a key to each of the values, or to none")
        # By far the quickest way to make a named tuple; it is most of what a value costs here.
        entries: list[Entry] = list(map(_entry, zip(data, names, strict=False)))
        size = sum(sizes) + (0 if keys is None else sum(map(len, names)))
        return await publisher.publish(entries, size, keyed=keyed, number=number, synced=synced, timeout=timeout)

    async def erase(self, seqs: int | Iterable[int], *, timeout: float | None = None) -> int:
        """Takes values back: whoever has not read them is told of a gap. Only the publisher may, and in a shared topic each its own.
        Returns how many went; when the store had to be asked again, some of those that went before are not counted."""
        chosen = checked_seqs(seqs)
        publisher, limit = self._publisher(), self._reach.backend.batch_values
        if not chosen:
            return 0
        parts = [chosen[at : at + limit] for at in range(0, len(chosen), limit)]
        return sum([await publisher.erase(part, timeout) for part in parts])

    async def release(self, *, timeout: float | None = None) -> None:
        """Gives the topic up, so that another may publish."""
        await self._publisher().release(timeout)

    @property
    def number(self) -> int:
        """The own number of this publisher's newest value that the store is known to have; 0 before the first, and before `register`."""
        return self._publisher().number

    def _publisher(self) -> Publisher:
        return self._store.publisher(self.name)

    def _encode(self, value: Any) -> bytes:
        if self._codec is not None:
            return self._codec.encode(value)
        if type(value) is bytes:
            return value
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        hint = "encode it" if isinstance(value, str) else "give the topic a type: topic(…, type=…)"
        raise InvalidOption("value", type(value).__name__, f"this topic carries bytes: {hint}")

    def _check_size(self, size: int) -> None:
        limit = self._reach.backend.value_bytes
        if size > limit:
            raise TooLarge(size, limit, "a value in this store", "split it, or keep it elsewhere and publish where it is")

    # -- subscribing -----------------------------------------------------------------------------------------------------------

    async def subscribe(
        self, lease: float | None = None, *, id: str | None = None, start: Start = "earliest", timeout: float | None = None
    ) -> Subscription:
        """A new subscriber, or with the `id` of one that is known: this one comes back, with its state and position as they were left,
        and whoever held it before is fenced. `lease` says how old a value may be to be due, in seconds: LEASE_S, or as it was left.
        `start`, of a new one: `earliest`, `latest`, or after this number, which must have been published (or be 0); what is gone behind it
        is told as a gap. Raises InvalidOption for another number."""
        lifetime = None if lease is None else checked_lease(lease)
        _checked_start(start)
        self._reach.check_open()
        await self._store.seated(timeout)
        name = uuid4().hex if id is None else checked_name(id, "subscriber")
        record = await come(self._reach, self.name, name, lifetime, checked_lease(LEASE_S), start, timeout)
        # The store begins where there are values, since it keeps nothing below.
        missed = Gap(start + 1, record.position, "collected") if isinstance(start, int) and record.epoch == 1 else None
        if missed is not None and missed.first > missed.last:
            missed = None
        return self._store.remember(Subscription(self._store, record, self._codec, missed))

    async def subscribers(self, *, timeout: float | None = None) -> list[SubscriberInfo]:
        """Who is subscribed, and where each of them is."""
        backend = self._reach.backend
        records = await self._reach.insist(lambda: backend.subscribers(self.name), timeout)
        last = (await self.info(timeout=timeout)).last
        return [
            SubscriberInfo(
                id=record.id,
                lease_s=record.lease / SECOND,
                position=record.position,
                lag=max(last - record.position - sum(high - low + 1 for low, high in record.marks), 0),
                state_bytes=len(record.state),
                epoch=record.epoch,
            )
            for record in records
        ]

    # -- looking ---------------------------------------------------------------------------------------------------------------

    async def peek(self, limit: int = 1_024, *, id: str | None = None, start: Start | None = None, timeout: float = 0.0) -> list[Item]:
        """Return the next values and gaps, at most `limit`, without becoming a subscriber: nothing is fenced, moved or held.

        With the `id` of a subscriber these are the values that it would read after its position in the store: without those it has
        marked done or whose lease is over. `start` says where to begin instead: `earliest` (also without an `id`, and for one that is
        not known), `latest`, or after this number. Waits for the first one at most `timeout` seconds, then returns an empty list; returns
        fewer than `limit` also when they are large. Raises UnknownTopic, and InvalidOption for a `start` that has not been published."""
        checked_limit(limit)
        if start is not None:
            _checked_start(start)
        reach, backend = self._reach, self._reach.backend
        until = reach.until(timeout)
        info = await self.info()
        record = None if id is None else await look(reach, self.name, checked_name(id, "subscriber"))
        if start is None:
            after = info.floor if record is None else record.position
        else:
            after = start_position(self.name, start, info.floor, info.last)
            if isinstance(start, int):
                after = start  # what was collected after it is reported as a gap
        marks = Ranges(() if record is None else record.marks)
        succession = Succession(after, marks)
        succession.mutable = info.options.mutable
        reader = await reach.insist(lambda: backend.reader(self.name, after))
        items: list[Item] = []
        size = 0
        try:
            while len(items) < limit and size < reach.settings.prefetch_bytes:
                left = 0.0 if items else max(until - asyncio.get_running_loop().time(), 0.0)
                wait_s, count = min(left, _WAIT_S), min(limit - len(items), _PEEK_VALUES)
                chunk = await reach.insist(
                    lambda count=count, wait_s=wait_s: reader.take(count, wait_s),  # type: ignore[misc]
                    wait_s + reach.settings.timeout_s,
                )
                for item in succession.items(chunk.values, chunk.floor, chunk.gone):
                    if isinstance(item, Gap):
                        items.append(item)
                    elif item.seq not in marks and (record is None or retention.due(item.time, record.lease, chunk.time)):
                        size += len(item.data)
                        items.append(self._decoded(item))
                if not chunk.values and (items or left <= 0):
                    break
        finally:
            await reader.close()
        return items[:limit]

    async def at(self, seq: int, *, timeout: float = 0.0) -> Item:
        """The value of this number, or the gap in its place. One that is not published yet is waited for so long; then TimedOut."""
        checked_seq(seq)
        reach = self._reach
        until = reach.until(timeout)
        reader = await reach.insist(lambda: reach.backend.reader(self.name, seq - 1))
        missed = False
        try:
            while True:
                left = until - asyncio.get_running_loop().time()
                wait_s = 0.0 if missed else min(max(left, 0.0), _WAIT_S)
                chunk = await reach.insist(lambda wait_s=wait_s: reader.take(1, wait_s), wait_s + reach.settings.timeout_s)  # type: ignore[misc]
                if chunk.values and chunk.values[0].seq == seq:
                    return self._decoded(chunk.values[0])
                if chunk.values or seq <= chunk.floor or (missed and seq <= chunk.last):
                    return Gap(seq, seq, "collected" if seq <= chunk.floor else "removed")
                if seq <= chunk.last:
                    missed = True  # or published just after the values were looked for: then it is there the next time
                elif left <= 0:
                    raise TimedOut(f"{self.name!r} has {chunk.last} values: number {seq} has not been published")
        finally:
            await reader.close()

    async def info(self, *, timeout: float | None = None) -> TopicInfo:
        """What the topic is, who publishes it, and how much of it there is. Raises UnknownTopic."""
        return await self._reach.insist(lambda: self._reach.backend.info(self.name), timeout)

    def _decoded(self, value: Value) -> Value:
        return value if self._codec is None else structs.replace(value, data=self._codec.decode(value.data))

    def __repr__(self) -> str:
        return f"<topic {self.name} on {self._reach.url}>"


def _options(known: TopicOptions, chosen: dict[str, Any]) -> TopicOptions:
    for name, value in chosen.items():
        right = isinstance(value, int | float) and not isinstance(value, bool) if name == "retention_s" else isinstance(value, bool)
        if not right:
            raise InvalidOption(name, value, "give a number of seconds" if name == "retention_s" else "say True or False")
    return TopicOptions(**{**{name: getattr(known, name) for name in TopicOptions.__struct_fields__}, **chosen})


def _synced(durability: Any) -> bool:
    if durability not in ("synced", "relaxed"):
        raise InvalidOption("durability", durability, "choose 'synced', or 'relaxed', which may be lost with the power")
    return bool(durability == "synced")


def _checked_start(start: Any) -> None:
    if isinstance(start, bool) or (start not in ("earliest", "latest") and not (isinstance(start, int) and 0 <= start < SEQ_LIMIT)):
        raise InvalidOption("start", start, "choose 'earliest', 'latest', or the number after which to begin")


def _checked_key(key: Any) -> str:
    if not isinstance(key, str):
        raise InvalidName(key, "the key of a value is text")
    try:
        size = len(key) if key.isascii() else len(key.encode())
    except UnicodeEncodeError:
        raise InvalidName(key, "the key of a value is text that can be written as UTF-8") from None
    if size > KEY_BYTES:
        raise InvalidName(key[:40] + "…", f"the key of a value has at most {KEY_BYTES} bytes")
    return key
