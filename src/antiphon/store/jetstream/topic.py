"""What is in the stream of one topic: the writers' records, the newest number, and values by number or by time.

The newest of the values and of the holder's record is the state of the topic: a value says its number, the record says the newest number at
the time when it was written (every batch of a mutable topic, whose values lie elsewhere, writes it). Values are found without an index:
places rise with numbers and times, so a binary search asks for O(log n) of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from msgspec import structs

from antiphon.errors import UnknownTopic
from antiphon.store.jetstream.codec import Floor, Holder, Pen, floor_of, holder_of, label_of, pen_of, value_of
from antiphon.store.jetstream.connection import Connection
from antiphon.store.jetstream.faults import STREAM_UNKNOWN, Refusal
from antiphon.store.jetstream.stream import Stored, Stream
from antiphon.store.jetstream.subjects import TopicSubjects
from antiphon.store.records import Moment, TopicOptions, Value


class Tail(NamedTuple):
    """The topic as a publisher sees it before it writes."""

    place: int
    """Of the newest message under `w.>`: what a write is conditional on."""
    last: int
    time: Moment
    """No later value may have an earlier time."""
    holder: Holder
    held: Pen
    """How far the holder is."""
    pen: Pen
    """How far the publisher is who looks."""
    claim: bytes = b""
    """Who cannot get through: the newest message is its claim."""

    @property
    def options(self) -> TopicOptions:
        return self.holder.options or TopicOptions()


class Found(NamedTuple):
    """Where a search ended: the number of the newest value before, and the place where the first one behind may be."""

    number: int
    place: int


class TopicStream(Stream):
    def __init__(self, connection: Connection, prefix: str, topic: str) -> None:
        self.topic = topic
        self.subjects = TopicSubjects(prefix, topic)
        super().__init__(connection, self.subjects.stream)
        self.writing = asyncio.Lock()
        """One write of this handle at a time, so that it does not compete with itself."""
        self.tails: dict[str, Tail] = {}
        """As this handle left them, per publisher; what somebody else has changed is seen when the condition fails."""

    async def make(self) -> None:
        await self.create(
            {
                "subjects": [self.subjects.all],
                "storage": "file",
                "num_replicas": self.connection.address.replicas,
                "allow_atomic": True,
                "allow_rollup_hdrs": True,
                "max_msgs": -1,
                "max_bytes": -1,
                "discard": "new",
            }
        )

    # --- the state -------------------------------------------------------------------------------------------------------------

    async def tail(self, publisher: str = "") -> Tail:
        """Looks what is there now, in an order that makes it safe: whatever the records say is at least as new as the condition."""
        subjects = self.subjects
        newest = await self.newest(subjects.written)
        if newest is None:
            return Tail(0, 0, 0, Holder(), Pen(), Pen())
        state, record, pen = await asyncio.gather(self._state(newest), self._record(newest), self._pen(publisher))
        holder, (last, time) = holder_of(record), self._said(state)
        held = Pen(holder.epoch, holder.number, holder.own)
        if state is not None and state.subject == subjects.value:
            # A value that lies behind the holder's record is the holder's.
            held = Pen(holder.epoch, label_of(state.headers).number, last)
        claim = newest.data if newest.subject == subjects.claim else b""
        return Tail(newest.place, last, time, holder, held, held if publisher and publisher == holder.publisher else pen, claim)

    async def last(self) -> int:
        """The newest number."""
        newest = await self.newest(self.subjects.written)
        return self._said(await self._state(newest))[0] if newest else 0

    async def _state(self, newest: Stored) -> Stored | None:
        """The message that says how far the topic is, where the newest is known."""
        if newest.subject != self.subjects.claim:
            return newest
        subjects = self.subjects
        found = await asyncio.gather(*(self.newest(subject) for subject in (subjects.value, subjects.shared, subjects.holder)))
        return max((stored for stored in found if stored), key=lambda stored: stored.place, default=None)

    def _said(self, state: Stored | None) -> tuple[int, Moment]:
        """The newest number and time."""
        if state is None:
            return 0, 0
        if state.subject == self.subjects.holder:
            holder = holder_of(state)
            return holder.last, max(holder.time, state.time)
        value = value_of(state)
        return value.seq, value.time

    async def _record(self, newest: Stored) -> Stored | None:
        return newest if newest.subject == self.subjects.holder else await self.newest(self.subjects.holder)

    async def _pen(self, publisher: str) -> Pen:
        if not publisher:
            return Pen()
        record, newest = await asyncio.gather(
            self.newest(self.subjects.of_publisher(publisher)), self.newest(self.subjects.values_of(publisher))
        )
        pen = pen_of(record)
        if newest is not None:  # of a shared topic; its epoch is in the record alone
            label = label_of(newest.headers)
            if label.number > pen.number:
                pen = Pen(pen.epoch, label.number, label.seq)
        return pen

    async def options(self) -> TopicOptions | None:
        """None while nobody has decided them."""
        return holder_of(await self.newest(self.subjects.holder)).options

    async def gate(self) -> tuple[Floor, int]:
        """The floor, and the place of its record (0: there is none)."""
        stored = await self.newest(self.subjects.floor)
        return floor_of(stored), stored.place if stored else 0

    def values(self, options: TopicOptions | None) -> list[str]:
        """The subjects of the values; all there may be where it is not decided yet."""
        subjects = self.subjects
        return [subjects.values(options)] if options else [subjects.value, subjects.shared, subjects.keyed]

    # --- searching -------------------------------------------------------------------------------------------------------------

    async def after(self, number: int, options: TopicOptions) -> Found:
        """Where the values above this number begin."""
        return await self._search(lambda value: value.seq > number, options, {})

    async def since(self, moment: Moment, options: TopicOptions, seen: dict[int, Value | None]) -> Found:
        """Where the values of this time or later begin. `seen` remembers what was looked at, for several searches."""
        return await self._search(lambda value: value.time >= moment, options, seen)

    async def _search(self, behind: Callable[[Value], bool], options: TopicOptions, seen: dict[int, Value | None]) -> Found:
        state, subject = await self.state(), self.subjects.values(options)
        low, high, number = state.first_seq, state.last_seq + 1, 0
        # Every value before `low` is before the border, every one at `high` or later is behind it.
        while low < high:
            middle = (low + high) // 2
            if middle not in seen:
                stored = await self.next(subject, middle)
                seen[middle] = structs.replace(value_of(stored), data=b"") if stored else None
            value = seen[middle]
            if value is None or behind(value):
                high = middle
            else:
                low, number = value.place + 1, value.seq
        return Found(number, low)


def unknown(refusal: Refusal, topic: str) -> UnknownTopic | Refusal:
    """What to raise when the server has refused something about a topic."""
    return UnknownTopic(topic) if refusal.code == STREAM_UNKNOWN else refusal
