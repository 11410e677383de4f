"""Who has what: the digests of all members, and what follows from them.

Keeps one row of positions per member of the view. A row of n members costs O(n) to send and to take; the minimum over all rows
(what is stable, so what may be forgotten) is taken once per own digest, not once per digest received.

Who has said its positions and has nothing new to say sends their checksum: a few bytes, however large the group, and a comparison for
who takes it. In a group at rest all checksums are equal. Who cannot tell what one stands for, because the digest before it was lost,
asks its sender for a whole digest; so the loss of the last message before a silence is seen as it always was.
"""

from __future__ import annotations

from collections.abc import Callable

from antiphon.model import codec
from antiphon.model.frames import Digest
from antiphon.model.ids import MemberId
from antiphon.protocol.multicast.stream import Stream
from antiphon.protocol.outbox import Destination
from antiphon.protocol.stage import Context

_HEADER_BYTES = 64
_POSITION_BYTES = 18
"""More than a position and its top take."""


class Stability:
    def __init__(
        self, context: Context, streams: list[Stream], reach: Callable[[Stream], int], own_delivered: Callable[[], int | None]
    ) -> None:
        self.context, self.settings = context, context.settings
        self._reach, self._own_delivered = reach, own_delivered
        self.news = False
        """Whether any position has changed since the last digest."""
        self.due = False
        """Whether a sender may soon need to hear how far its stream is here."""
        self.digests_sent = 0
        ids = len(context.me.encode()) + len(context.group.encode())
        self._slice = max((context.settings.frame_bytes - _HEADER_BYTES - ids) // _POSITION_BYTES, 1)
        """Positions in one digest: more streams than fit into a frame are said in several."""
        self._say_at = self._wake_at = float("inf")
        self._told_at: dict[MemberId, float] = {}
        """When each member that asked was told the own positions."""
        self.on_view(streams)

    def on_view(self, streams: list[Stream]) -> None:
        """Starts over: at the start of a view all its members are level, so nothing is owed and the credit is whole."""
        view = self.context.view
        self.streams = streams
        self.rank_by_member = {member: rank for rank, member in enumerate(view.members)}
        self.me = self.rank_by_member[self.context.me]
        self.start = start = [stream.high for stream in streams]
        """Where the streams were when the view began."""
        self.rows: list[list[int]] = [start] * len(view.members)
        self.said: dict[MemberId, list[int]] = {}
        """All positions of a member as it said them at one time. `rows` may be put together from several digests."""
        self.stated: dict[tuple[int, int], list[int]] = {}
        """The last digest of a member, by its rank and its first stream, if it says less than an earlier one. It may have been overtaken;
        if it is repeated, the earlier one was false."""
        self._checks: list[int | None] = [None] * len(view.members)
        """The checksum of each row, as far as it was needed."""
        self._unsettled = self._gapped = False
        """Whether a row has changed since the last look at what is stable; whether the last own digest told of a gap."""
        self._told_at.clear()
        self.catching_up: set[int] = set()
        """The ranks of members that would drop what they hold if the view ended now."""
        self.own_stable = start[self.me]
        self.majority = view.majority
        self._mark_said()
        self._interval = self.settings.heartbeat_s
        self.soon = False
        """Whether the next digest will come as soon as news wants it."""
        self._say_in(self._interval)

    def take(self, member: MemberId, start: int, have: list[int]) -> bool:
        """Takes positions of a member, from stream `start` on. True when the own stream became stable further than before."""
        rank = self.rank_by_member[member]
        row = self.rows[rank]
        end = start + len(have)
        if have == row[start:end]:
            if self.stated:
                self.stated.pop((rank, start), None)
            return False
        # Digests may overtake each other, and positions only grow.
        self.rows[rank] = new = [*row[:start], *map(max, have, row[start:end]), *row[end:]]
        self._checks[rank] = None
        self._unsettled = True
        if new[start:end] != have:
            self.stated[rank, start] = have
        elif self.stated:
            self.stated.pop((rank, start), None)
        if new[self.me] == row[self.me]:
            return False
        stable = self.lowest(self.streams[self.me])
        if stable <= self.own_stable:
            return False
        self.own_stable = stable
        return True

    def note_said(self, member: MemberId, positions: list[int]) -> None:
        """Notes positions that a member said together, none of which it is about to send again; none stands for those of its row."""
        self.said[member] = positions or self.rows[self.rank_by_member[member]]

    def positions_behind(self, member: MemberId, check: int) -> list[int] | None:
        """The positions that a member's checksum stands for: none where there is nothing to learn from it, None where it says nothing."""
        rank = self.rank_by_member[member]
        known = check == self._check_of(rank)
        if known and self.stated:
            # The member repeats its row: a digest that said less was overtaken by the one that said more.
            self.stated = {key: have for key, have in self.stated.items() if key[0] != rank}
        own = self.rows[self.me]
        if not self.news:
            level = check == self._check_of(self.me)
        else:
            own = [stream.high for stream in self.streams]
            level = check == codec.checksum(own)
        if level:
            return [] if known else own
        return self.rows[rank] if known else None

    def _check_of(self, rank: int) -> int:
        check = self._checks[rank]
        if check is None:
            check = self._checks[rank] = codec.checksum(self.rows[rank])
        return check

    def flush(self) -> None:
        """At the end of a turn with news: says enough of it at once, arms the timer for less."""
        if self.due:
            self._say()
        else:
            self.soon = True
            self._interval = self.settings.digest_s
            self._say_in(self._interval)

    def settle(self) -> None:
        """Forgets what every member has. A sender that keeps its window has heard from all members of everything that lies a window
        behind; so even where somebody's digests do not arrive, the store is bounded."""
        self.rows[self.me] = [stream.high for stream in self.streams]
        self._checks[self.me] = None
        self._unsettled = False
        for stream, stable in zip(self.streams, map(min, *self.rows) if len(self.rows) > 1 else self.rows[0], strict=True):
            if stream.sender != self.context.me:
                stable = max(stable, min(stream.high, stream.top - self._reach(stream)))
            elif stream.index == self.me:
                self.own_stable = max(self.own_stable, stable)
                continue
            if stable > stream.stable:
                stream.forget(stable)
        self.forget_own()

    def forget_own(self) -> None:
        """Forgets the own frames that every member has and that are delivered here: what is not, may have to be sent again."""
        delivered, stream = self._own_delivered(), self.streams[self.me]
        stable = self.own_stable if delivered is None else min(self.own_stable, delivered)
        if stable > stream.stable:
            stream.forget(stable)

    def lowest(self, stream: Stream) -> int:
        """How far every member has the stream."""
        return min([stream.high if rank == self.me else row[stream.index] for rank, row in enumerate(self.rows)])

    def note_catching_up(self, member: MemberId, catching_up: bool) -> None:
        if catching_up:
            self.catching_up.add(self.rank_by_member[member])
        else:
            self.catching_up.discard(self.rank_by_member[member])

    def safe(self, stream: Stream) -> int:
        """How far a majority of the view has the stream. What is here, its sender has too, whether it said so or not. Those who are
        catching up do not count: nobody could get it from them when the view ends."""
        knows = (self.me, self.rank_by_member[stream.sender])
        at, waiting = stream.index, self.catching_up
        if self.context.multicast.held is not None:
            waiting = waiting | {self.me}
        positions = sorted(
            0 if rank in waiting else max(stream.high, row[at]) if rank in knows else row[at] for rank, row in enumerate(self.rows)
        )
        return positions[len(positions) - self.majority]

    def lags(self) -> list[tuple[MemberId, int]]:
        """How many of the own messages each other member has yet to report."""
        last = self.streams[self.me].high
        return [(member, last - self.rows[rank][self.me]) for member, rank in self.rank_by_member.items() if rank != self.me]

    def slowest(self) -> tuple[MemberId, int]:
        return max(self.lags(), key=lambda lag: lag[1], default=(self.context.me, 0))

    def tell(self, member: MemberId) -> None:
        """Tells a member that asked the own positions, as often as there could be new ones."""
        now = self.context.now
        if now - self._told_at.get(member, float("-inf")) >= self.settings.digest_s:
            self._told_at[member] = now
            self._send_positions((member,))

    def _say(self) -> None:
        if self.news or self._unsettled:
            self.settle()
        if self.news:
            self._mark_said()
            self._send_positions(None)
        elif self._gapped:
            self._send_positions(None)
        elif len(self.rows) > 1:
            context, waiting = self.context, self.context.multicast.held is not None
            digest = Digest(context.group, context.me, context.view.id, [], check=self._check_of(self.me), catching_up=waiting)
            context.outbox.sends.append((None, codec.encode(digest)))
        self.soon = False
        self.digests_sent += len(self.rows) > 1
        self._interval = min(self._interval * 2, self.settings.heartbeat_s)
        self._say_in(self._interval)

    def _send_positions(self, to: Destination) -> None:
        if len(self.rows) == 1:
            return
        context, have = self.context, [stream.high for stream in self.streams]
        waiting = context.multicast.held is not None
        tops = [stream.top for stream in self.streams]
        self._gapped = tops != have
        for start in range(0, len(have), self._slice):
            part, top = have[start : start + self._slice], tops[start : start + self._slice]
            digest = Digest(context.group, context.me, context.view.id, part, None if top == part else top, start, 0, waiting)
            context.outbox.sends.append((to, codec.encode(digest)))

    def _mark_said(self) -> None:
        self.news = self.due = False
        # A safe group acknowledges every turn; otherwise a quarter of a window of one stream, in messages or bytes, is said at once.
        safe, quarter_bytes = self.context.options.delivery == "safe", self.settings.window_bytes // 4
        for stream in self.streams:
            stream.say_at = stream.high + (1 if safe else max(self._reach(stream) // 4, 1))
            stream.say_at_bytes = stream.bytes + quarter_bytes

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
