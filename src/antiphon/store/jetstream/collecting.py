"""Collecting: the floor first, on condition that nobody has subscribed meanwhile; then the values below it.

The collector reads the gate, then the subscribers, then writes the gate anew if it is still the one it read, and if nothing under `c.>` has
changed since. A subscriber made in between has passed through the gate, so the write fails and all is looked at again. Where subscribers
change all the time, so that it never comes to write, it does without the second condition: what a subscriber had let go a moment ago, it
has let go. Killed after the floor was written, the collector has lost nothing: nobody reads below the floor, and the next one
removes what is left. The newest value of every publisher stays in the stream, below the floor or marked done by all, because it says how
far the numbers are.

Costs one read of all subscribers, O(log n) questions per distinct lease, and one purge per publisher; marked values go one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from antiphon.model.ranges import Ranges
from antiphon.store import retention
from antiphon.store.jetstream.clock import Clock
from antiphon.store.jetstream.codec import Floor, encode, label_of, seat_of
from antiphon.store.jetstream.faults import Mismatch, Unanswered
from antiphon.store.jetstream.objects import Objects
from antiphon.store.jetstream.scanning import delete_all, labels
from antiphon.store.jetstream.stream import ROLLUP, Condition, Message, Stored
from antiphon.store.jetstream.subscribing import subscriber_of
from antiphon.store.jetstream.topic import TopicStream
from antiphon.store.records import Collected, Moment, TopicOptions, Value

_FIRST_PAUSE_S = 0.005
_STRICT = 5
"""So often it is tried with both conditions."""
_HOLES = 10_000
"""Marked values that one collection removes at most; the next goes on."""


class Verdict(NamedTuple):
    after: Floor
    gate: int
    """The place of its record."""
    holes: list[tuple[int, int]]
    """What is to be removed above it."""


class Collecting:
    def __init__(self, objects: Objects, clock: Clock) -> None:
        self._objects, self._clock = objects, clock

    async def collect(self, topic: TopicStream, horizon: Moment) -> Collected:
        connection = topic.connection
        horizon = min(horizon, await self._clock.now())
        deadline, pause_s, failures = connection.deadline(), _FIRST_PAUSE_S, 0
        while True:
            newest = await topic.newest(topic.subjects.control)
            before, gate = await topic.gate()
            records = await topic.records(topic.subjects.subscribers)
            options = await topic.options() or TopicOptions()
            still = Condition(topic.subjects.control, newest.place if newest else 0) if failures < _STRICT else None
            try:
                verdict = await self._decide(topic, horizon, Verdict(before, gate, []), still, records, options)
                break
            except Mismatch:
                failures += 1
                pause_s = await connection.pause(pause_s, deadline, "others subscribe or collect all the time")
            except Unanswered as unanswered:
                pause_s = await connection.pause(pause_s, deadline, unanswered.why)
        floor, removed = verdict.after.floor, 0
        if floor > before.floor or await self._has_leftovers(topic, floor, options):
            state = await topic.state(topic.subjects.values(options))
            border = (await topic.after(floor, options)).place
            for subject in state.subjects or ():
                removed += await self._purge(topic, subject, before.floor, floor, border)
        if verdict.holes:
            removed += await self._punch(topic, options, verdict)
        await self._tidy(topic, records)
        if removed and connection.ballast is not None:
            await connection.ballast.lay()
        return Collected(floor, removed)

    async def _decide(
        self,
        topic: TopicStream,
        horizon: Moment,
        present: Verdict,
        still: Condition | None,
        records: Sequence[Stored],
        options: TopicOptions,
    ) -> Verdict:
        """Writes the new floor, if it is another."""
        if options.mutable:
            return present
        before, gate = present.after, present.gate
        subscribers = [one for stored in records if (one := subscriber_of(topic.topic, stored)) is not None]
        last = await topic.last()
        seen: dict[int, Value | None] = {}
        expired = {lease: (await topic.since(horizon - lease, options, seen)).number for lease in retention.leases(subscribers, options)}
        free = retention.removable(subscribers, options, expired, last)
        floor = max(before.floor, retention.floor_of(free))
        done = Ranges(before.holes)
        holes = [hole for low, high in free if high > floor for hole in done.missing(max(low, floor + 1), high)]
        after = Floor(floor, tuple((low, high) for low, high in before.holes if high > floor))
        if after != before or holes:
            is_mine = Condition(topic.subjects.floor, gate)
            messages = [Message(topic.subjects.floor, encode(after), ROLLUP + is_mine.headers())]
            if still is not None:
                # A message has one condition, so the second one needs a message of its own, which says nothing.
                messages.insert(0, Message(topic.subjects.look, b"", ROLLUP + still.headers()))
            gate = await topic.write(messages, vital=True)
        return Verdict(after, gate, holes)

    async def _has_leftovers(self, topic: TopicStream, floor: int, options: TopicOptions) -> bool:
        """Whether there is more than one value below the floor, because somebody was killed after it had written the floor."""
        subject = topic.subjects.values(options)
        oldest = await topic.next(subject, 1) if floor else None
        if oldest is None or label_of(oldest.headers).seq > floor:
            return False
        second = await topic.next(subject, oldest.place + 1)
        return second is not None and label_of(second.headers).seq <= floor

    async def _purge(self, topic: TopicStream, subject: str, before: int, floor: int, border: int) -> int:
        """Removes what lies below the floor, up to this place. Returns how many values went, counting the one that stays as a mark."""
        oldest, newest = await asyncio.gather(topic.next(subject, 1), topic.newest(subject))
        if oldest is None or newest is None or oldest.place >= border:
            return 0
        low, high = label_of(oldest.headers).seq, label_of(newest.headers).seq
        gone = int(before < high <= floor)
        if oldest.place < newest.place:
            gone += await topic.purge(subject, min(border, newest.place))
            gone -= low <= before  # the mark of last time, which was counted then
        return max(0, gone)

    async def _punch(self, topic: TopicStream, options: TopicOptions, verdict: Verdict) -> int:
        """Removes the values of these ranges, and notes in the gate that they are gone, so that the next one need not look for them."""
        removed, filled = 0, Ranges(verdict.after.holes)
        values = topic.subjects.values(options)
        # Without the newest value of its publisher, the next one would get its number: below the marks of those who are done with it.
        newest = [await topic.newest(subject) for subject in (await topic.state(values)).subjects or ()]
        marks = {stored.place for stored in newest if stored is not None}
        for low, high in verdict.holes:
            if removed >= _HOLES:
                break
            high = min(high, low + _HOLES)
            there = await labels(topic, low, high, options, values)
            removed += await delete_all(topic, [place for _, place in there if place not in marks], overwrite=False)
            stay = Ranges((label.seq, label.seq) for label, place in there if place in marks)
            for gone in stay.missing(low, high):
                filled.add(*gone)
        note = Message(topic.subjects.floor, encode(Floor(verdict.after.floor, tuple(filled))), ROLLUP)
        try:
            await topic.write([note], Condition(topic.subjects.floor, verdict.gate), vital=True)
        except (Mismatch, Unanswered):
            return removed  # then the next one looks for them in vain
        return removed

    async def _tidy(self, topic: TopicStream, records: Sequence[Stored]) -> None:
        """Removes the tombstones of subscribers and the states that no record names."""
        named: set[str] = set()
        for stored in records:
            seat = seat_of(stored)
            if seat.gone:
                await topic.purge(stored.subject, stored.place + 1)  # one that was made anew lies behind it
            elif seat.object:
                named.add(seat.object)
        await self._objects.sweep(topic.topic, named, await self._clock.now())
