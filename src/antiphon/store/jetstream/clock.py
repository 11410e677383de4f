"""The store's time: what the servers stamp on messages, made so that it never goes back.

Time is told by ticks, records of one subject that everybody replaces on condition. A tick has the store time and the stamp of the one
before it, so the store time at a tick is that of the one before plus what the server's clock has gone on since, if it has: after a change
to a leader whose clock is behind, time stands still for one tick at most and then goes on. (A clock that is ahead is believed: let the
servers' clocks be kept together.) Nobody's wall clock but the servers' matters.

Between ticks this handle goes on by its own steady clock, and ticks anew when asked later than `TICK_S` after the last one; while nobody
asks, nobody ticks. What `now` says is late by at most what the last tick took (a round trip) plus a thousandth of the time since, and never
early: two handles disagree by no more than a slow round trip. One tick is three questions.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec
from msgspec import Struct

from antiphon.store.jetstream.faults import Mismatch, Unanswered
from antiphon.store.jetstream.stream import Condition, Message, Stored, Stream
from antiphon.store.records import SECOND, Moment

TICK_S = 1.0
_DRIFT = 1_000
"""Two steady clocks go apart by at most one part in this."""
_ATTEMPTS = 50


class Tick(Struct, array_like=True):
    time: Moment
    """Store time at the tick before this."""
    stamp: Moment
    """What the server stamped on it."""


class Anchor(NamedTuple):
    """When the steady clock was at `at`, the store's was at `time`: or later, or earlier, by the one bound or the other."""

    time: Moment
    at: int

    def earliest(self, steady: int) -> Moment:
        gone = steady - self.at
        return self.time + gone - gone // _DRIFT

    def latest(self, steady: int) -> Moment:
        gone = steady - self.at
        return self.time + gone + gone // _DRIFT


class Clock:
    def __init__(self, stream: Stream, subject: str, steady: Callable[[], int] = time.monotonic_ns) -> None:
        self._stream, self._subject, self._steady = stream, subject, steady
        self._latest: Moment = 0
        self._ticked_at: int | None = None
        self._low = self._high = Anchor(0, 0)
        """The time was this or later when a tick was answered, and this or earlier when it was asked for."""
        self._ticking = asyncio.Lock()

    async def now(self) -> Moment:
        """Never earlier than anything this handle has seen or said before, and never later than the store's time."""
        if not self._is_fresh():
            await self._tick()
        return self.observe(self.earliest())

    def observe(self, moment: Moment) -> Moment:
        """Somebody else has seen this time already. Returns the largest that was seen."""
        if moment > self._latest:
            self._latest = moment
        return self._latest

    def earliest(self) -> Moment:
        """The time is this or later."""
        return self._low.earliest(self._steady())

    def latest(self) -> Moment:
        """The time is this or earlier."""
        return self._high.latest(self._steady())

    def _is_fresh(self) -> bool:
        return self._ticked_at is not None and self._steady() - self._ticked_at <= TICK_S * SECOND

    async def _tick(self) -> None:
        async with self._ticking:
            if self._is_fresh():
                return  # somebody else has ticked while this one waited
            connection = self._stream.connection
            deadline, pause_s = connection.deadline(), 0.005
            for _ in range(_ATTEMPTS):
                before = await self._stream.newest(self._subject)
                asked_at = self._steady()
                tick = Tick(store_time(before), before.time) if before else Tick(0, 0)
                try:
                    await self._stream.write(
                        [Message(self._subject, msgspec.json.encode(tick))],
                        Condition(self._subject, before.place if before else 0),
                        vital=True,
                    )
                    break
                except Mismatch:
                    pause_s = await connection.pause(pause_s, deadline, "too many tick at once")
                except Unanswered as unanswered:
                    pause_s = await connection.pause(pause_s, deadline, unanswered.why)
            answered_at = self._steady()
            told = await self._stream.newest(self._subject)
            assert told is not None, "a subject that was written has a newest message"
            self._set(store_time(told), asked_at, answered_at)

    def _set(self, told: Moment, asked_at: int, answered_at: int) -> None:
        """Takes what a tick has told; where an earlier one, which was quicker, is still narrower on one side, its bound stays there."""
        low, high, now = Anchor(told, answered_at), Anchor(told, asked_at), self._steady()
        if self._ticked_at is not None:
            if low.earliest(now) < self._low.earliest(now) <= high.latest(now):
                low = self._low
            if low.earliest(now) <= self._high.latest(now) < high.latest(now):
                high = self._high
        self._low, self._high, self._ticked_at = low, high, answered_at
        self.observe(told)


def store_time(tick: Stored) -> Moment:
    """Store time when this was written."""
    before = msgspec.json.decode(tick.data, type=Tick)
    return before.time + max(0, tick.time - before.stamp)
