"""Who has what: the digests of all members, and what follows from them.

Keeps one row of positions per member of the view. A row of n members costs O(n) to send and to take; the minimum over all rows
(what is stable, so what may be forgotten) is taken once per own digest, not once per digest received.
"""

from __future__ import annotations

from antiphon.model import codec
from antiphon.model.frames import Digest
from antiphon.model.ids import MemberId
from antiphon.protocol.multicast.stream import Stream
from antiphon.protocol.stage import Context
from antiphon.protocol.timers import Timer


class Stability:
    def __init__(self, context: Context, streams: list[Stream]) -> None:
        self.context, self.settings = context, context.settings
        # A safe group acknowledges every turn; otherwise a quarter of a window of one stream is said at once.
        self._enough = 1 if context.options.delivery == "safe" else max(context.options.window // 4, 1)
        self.news = False
        """Whether any position has changed since the last digest."""
        self.due = False
        """Whether a sender may soon need to hear how far its stream is here."""
        self.digests_sent = 0
        self._timer: Timer | None = None
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
        self._arm(self._interval)

    def take(self, rank: int, have: list[int]) -> bool:
        """Takes a member's row. True when the own stream became stable further than before."""
        row = self.rows[rank]
        if have == row:
            return False
        # Digests may overtake each other, and positions only grow.
        self.rows[rank] = have = list(map(max, have, row))
        if have[self.me] == row[self.me]:
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
            self._arm(self._interval)

    def settle(self) -> None:
        """Forgets what every member has."""
        self.rows[self.me] = [stream.high for stream in self.streams]
        for stream, stable in zip(self.streams, map(min, *self.rows) if len(self.rows) > 1 else self.rows[0], strict=True):
            if stable > stream.stable:
                stream.forget(stable)
        self.own_stable = self.streams[self.me].stable

    def lowest(self, stream: Stream) -> int:
        """How far every member has the stream."""
        return min([stream.high if rank == self.me else row[stream.index] for rank, row in enumerate(self.rows)])

    def safe(self, index: int) -> int:
        """How far a majority of the view has stream `index`."""
        positions = sorted(self.streams[index].high if rank == self.me else row[index] for rank, row in enumerate(self.rows))
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
        streams = self.streams
        if len(self.rows) > 1:
            have = self.rows[self.me]
            tops = [stream.top for stream in streams]
            digest = Digest(self.context.group, self.context.me, self.context.view.id, have, None if tops == have else tops)
            self.context.outbox.sends.append((None, codec.encode(digest)))
            self.digests_sent += 1
        self._interval = min(self._interval * 2, self.settings.heartbeat_s)
        self._arm(self._interval)

    def _mark_said(self) -> None:
        self.news = self.due = False
        members = len(self.rows)
        for stream in self.streams:
            # A record stream numbers the messages of all members.
            stream.say_at = stream.high + (self._enough if stream.index < members else self._enough * members)

    def _arm(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.context.timers.at(self.context.now + seconds * self.context.rng.uniform(0.75, 1.25), self._say)
