"""Who has what: the digests of all members, and what follows from them.

Keeps one row of positions per member of the view. A row of n members costs O(n) to send and to take; the minimum over all rows
(what is stable, so what may be forgotten) is taken once per own digest, not once per digest received.
"""

from __future__ import annotations

from collections.abc import Callable

from antiphon.model import codec
from antiphon.model.frames import Digest
from antiphon.model.ids import MemberId
from antiphon.protocol.multicast.stream import Stream
from antiphon.protocol.stage import Context

_HEADER_BYTES = 64
_POSITION_BYTES = 18
"""More than a position and its top take."""


class Stability:
    def __init__(self, context: Context, streams: list[Stream], reach: Callable[[Stream], int]) -> None:
        self.context, self.settings, self._reach = context, context.settings, reach
        self.news = False
        """Whether any position has changed since the last digest."""
        self.due = False
        """Whether a sender may soon need to hear how far its stream is here."""
        self.digests_sent = 0
        ids = len(context.me.encode()) + len(context.group.encode())
        self._slice = max((context.settings.frame_bytes - _HEADER_BYTES - ids) // _POSITION_BYTES, 1)
        """Positions in one digest: more streams than fit into a frame are said in several."""
        self._say_at = self._wake_at = float("inf")
        self.on_view(streams)

    def on_view(self, streams: list[Stream]) -> None:
        """Starts over: at the start of a view all its members are level, so nothing is owed and the credit is whole."""
        view = self.context.view
        self.streams = streams
        self.rank_by_member = {member: rank for rank, member in enumerate(view.members)}
        self.me = self.rank_by_member[self.context.me]
        start = [stream.high for stream in streams]
        self.rows: list[list[int]] = [start] * len(view.members)
        self.own_stable = start[self.me]
        self.majority = view.majority
        self._mark_said()
        self._interval = self.settings.heartbeat_s
        self._soon = False
        self._say_in(self._interval)

    def take(self, member: MemberId, start: int, have: list[int]) -> bool:
        """Takes positions of a member, from stream `start` on. True when the own stream became stable further than before."""
        rank = self.rank_by_member[member]
        row = self.rows[rank]
        end = start + len(have)
        if have == row[start:end]:
            return False
        # Digests may overtake each other, and positions only grow.
        self.rows[rank] = new = [*row[:start], *map(max, have, row[start:end]), *row[end:]]
        if new[self.me] == row[self.me]:
            return False
        stable = self.lowest(self.streams[self.me])
        if stable <= self.own_stable:
            return False
        self.own_stable = stable
        return True

    def flush(self) -> None:
        """At the end of a turn: says enough news at once, arms the timer for less."""
        if not self.news:
            return
        if self.due:
            self._say()
        elif not self._soon:
            self._soon = True
            self._interval = self.settings.digest_s
            self._say_in(self._interval)

    def settle(self) -> None:
        """Forgets what every member has. A sender that keeps its window has heard from all members of everything that lies a window
        behind; so even where somebody's digests do not arrive, the store is bounded."""
        self.rows[self.me] = [stream.high for stream in self.streams]
        for stream, stable in zip(self.streams, map(min, *self.rows) if len(self.rows) > 1 else self.rows[0], strict=True):
            if stream.sender != self.context.me:
                stable = max(stable, min(stream.high, stream.top - self._reach(stream)))
            if stable > stream.stable:
                stream.forget(stable)
        self.own_stable = self.streams[self.me].stable

    def lowest(self, stream: Stream) -> int:
        """How far every member has the stream."""
        return min([stream.high if rank == self.me else row[stream.index] for rank, row in enumerate(self.rows)])

    def safe(self, stream: Stream) -> int:
        """How far a majority of the view has the stream. What is here, its sender has too, whether it said so or not."""
        knows = (self.me, self.rank_by_member[stream.sender])
        at = stream.index
        positions = sorted(max(stream.high, row[at]) if rank in knows else row[at] for rank, row in enumerate(self.rows))
        return positions[len(positions) - self.majority]

    def lags(self) -> list[tuple[MemberId, int]]:
        """How many of the own messages each other member has yet to report."""
        last = self.streams[self.me].high
        return [(member, last - self.rows[rank][self.me]) for member, rank in self.rank_by_member.items() if rank != self.me]

    def slowest(self) -> tuple[MemberId, int]:
        return max(self.lags(), key=lambda lag: lag[1], default=(self.context.me, 0))

    def _say(self) -> None:
        self.settle()
        self._mark_said()
        self._soon = False
        if len(self.rows) > 1:
            context, have = self.context, self.rows[self.me]
            for start in range(0, len(have), self._slice):
                part = have[start : start + self._slice]
                tops = [stream.top for stream in self.streams[start : start + self._slice]]
                digest = Digest(context.group, context.me, context.view.id, part, None if tops == part else tops, start)
                context.outbox.sends.append((None, codec.encode(digest)))
            self.digests_sent += 1
        self._interval = min(self._interval * 2, self.settings.heartbeat_s)
        self._say_in(self._interval)

    def _mark_said(self) -> None:
        self.news = self.due = False
        # A safe group acknowledges every turn; otherwise a quarter of a window of one stream is said at once.
        safe = self.context.options.delivery == "safe"
        for stream in self.streams:
            stream.say_at = stream.high + (1 if safe else max(self._reach(stream) // 4, 1))

    def _say_in(self, seconds: float) -> None:
        """Puts the next digest so far ahead. A timer that is set for an earlier time stays, and looks again when it fires: a safe
        group says something every turn, and must not leave a timer behind each time."""
        self._say_at = self.context.now + seconds * self.context.rng.uniform(0.75, 1.25)
        if self._say_at < self._wake_at:
            self._wake(self._say_at)

    def _wake(self, when: float) -> None:
        self._wake_at = when
        self.context.timers.at(when, self._look)

    def _look(self) -> None:
        if self.context.now < self._wake_at:
            return  # an older timer than the one that counts
        self._wake_at = float("inf")
        if self.context.now >= self._say_at:
            self._say()
        else:
            self._wake(self._say_at)
