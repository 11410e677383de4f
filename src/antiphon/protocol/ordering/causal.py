"""causal: a message after everything its sender had sent or delivered before it.

One vector clock over the view, in message numbers: `clock[k]` is the number of the last message of member k delivered here. A batch
carries the entries that changed since its sender's previous batch (the first of a view, all that are not zero), so the header
does not grow with the group; the omitted entries were satisfied when the previous batch was delivered. The stamp is taken when the
batch closes, and a delivery closes the open batch, so nothing is delivered between two messages of one batch.

Keeps what cannot be delivered yet, each range under the one entry of the clock it waits for first. At `waiting_messages`, what would
have to wait is not taken unless something waits for its sender; so it is asked for again later, and its sender slows down.
Cost: O(entries in the stamp) per batch, O(log h) per wait for h held ranges.
"""

from __future__ import annotations

import heapq
from typing import ClassVar

from antiphon.model.events import Why
from antiphon.model.frames import Batch, Stamp
from antiphon.model.ids import MemberId, MessageId
from antiphon.model.recording import Waiting
from antiphon.model.view import View
from antiphon.protocol.stage import Context, Ordering


class Causal(Ordering):
    promises: ClassVar[tuple[str, ...] | None] = ("fifo", "causal", "parent_before_child")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._begin(context.view, [context.cut.get(member, 0) for member in context.view.members])

    def _begin(self, view: View, clock: list[int]) -> None:
        self._members = view.members
        self._rank_by_member = {member: rank for rank, member in enumerate(view.members)}
        self._me = self._rank_by_member[self.context.me]
        self._clock = clock
        self._first_in_view = True
        self._changed: dict[int, None] = {}
        # Per rank, a heap of (clock value needed, arrival, batch, low, high).
        self._waiting: list[list[tuple[int, int, Batch, int, int]]] = [[] for _ in view.members]
        self._arrivals = self._held = 0
        self.crowded = False

    def stamp(self, first: int, last: int) -> Stamp:
        clock = self._clock
        ranks = (rank for rank, number in enumerate(clock) if number) if self._first_in_view else sorted(self._changed)
        stamp = [value for rank in ranks if rank != self._me for value in (rank, clock[rank])]
        self._first_in_view = False
        self._changed.clear()
        return stamp or None

    def stamp_bytes(self) -> int:
        return 5 + 14 * (len(self._clock) if self._first_in_view else len(self._changed))

    def refuses(self, batch: Batch) -> str | None:
        stamp = batch.stamp
        if stamp is not None and (
            type(stamp) is not list or len(stamp) % 2 or (stamp and not 0 <= min(stamp) <= max(stamp[::2]) < len(self._clock))
        ):
            return "malformed_stamp"
        if not self.crowded or self.context.flushing:
            return None
        rank = self._rank_by_member[batch.sender]
        # What something waits for is always taken, or the room would stay taken for ever.
        awaited = any(number >= batch.first for number, *_ in self._waiting[rank])
        return None if awaited or self._blocker(rank, batch, batch.first) is None else "no_room"

    def accept(self, batch: Batch, low: int, high: int) -> None:
        rank = self._rank_by_member[batch.sender]
        blocker = self._blocker(rank, batch, low)
        if blocker is not None:
            self._hold(blocker, batch, low, high)
            self._held += high - low + 1
            self.crowded = self._held >= self.context.settings.waiting_messages
            return
        if rank != self._me:
            # m1 submitted, x delivered, m2 submitted: were m1 and m2 one batch, m1 would claim to follow x, or m2 not to.
            self.context.close_batch()
        self._clock[rank] = high
        self._changed[rank] = None
        self.deliver((batch, low, high))
        if self._waiting[rank]:
            self._release(rank)

    def _blocker(self, rank: int, batch: Batch, low: int) -> tuple[int, int] | None:
        """The first entry of the clock that is too low, and what it must become; None when nothing is."""
        clock = self._clock
        if low > clock[rank] + 1:
            return rank, low - 1
        stamp = batch.stamp
        if type(stamp) is list:
            entries = iter(stamp)
            for other, number in zip(entries, entries, strict=True):
                if number > clock[other]:
                    return other, number
        return None

    def _hold(self, blocker: tuple[int, int], batch: Batch, low: int, high: int) -> None:
        self._arrivals += 1
        heapq.heappush(self._waiting[blocker[0]], (blocker[1], self._arrivals, batch, low, high))

    def _release(self, rank: int) -> None:
        """Delivers what waited for `rank`, and what waited for that, with a list of ranks still to look at."""
        ranks = [rank]
        while ranks:
            rank = ranks.pop()
            waiting = self._waiting[rank]
            while waiting and waiting[0][0] <= self._clock[rank]:
                _, _, batch, low, high = heapq.heappop(waiting)
                sender = self._rank_by_member[batch.sender]
                blocker = self._blocker(sender, batch, low)
                if blocker is not None:
                    self._hold(blocker, batch, low, high)
                    continue
                self._held -= high - low + 1
                self._clock[sender] = high
                self._changed[sender] = None
                self.deliver((batch, low, high))
                if sender != rank and self._waiting[sender]:
                    ranks.append(sender)
        self.crowded = self._held >= self.context.settings.waiting_messages

    def on_view(self, view: View, previous: View, starts: dict[MemberId, int]) -> None:
        # What still waits, waits for a message that no survivor holds: all survivors drop it alike.
        self.context.drops["lost_predecessor"] += self._held
        positions = dict(zip(self._members, self._clock, strict=True)) | starts
        self._begin(view, [positions.get(member, 0) for member in view.members])

    def why(self, message: MessageId) -> Why | None:
        for rank, waiting in enumerate(self._waiting):
            for number, _, batch, low, high in waiting:
                if batch.sender == message.sender and low <= message.seqno <= high:
                    missing = MessageId(self._members[rank], number)
                    return Why("held", f"waits for {missing}, which its sender had delivered or sent before it", (missing,))
        return None

    def waits(self, batch: Batch, low: int, high: int) -> list[Waiting]:
        rank = self._rank_by_member.get(batch.sender)
        if rank is None or low <= self._clock[rank]:
            return []  # delivered, or of a view that is over
        blocker = self._blocker(rank, batch, low)
        return [] if blocker is None else [(low, high, (MessageId(self._members[blocker[0]], blocker[1]),))]

    @property
    def held(self) -> int:
        return self._held

    def held_heads(self) -> list[MessageId]:
        first_by_sender: dict[MemberId, int] = {}
        for waiting in self._waiting:
            for _, _, batch, low, _ in waiting:
                first_by_sender[batch.sender] = min(low, first_by_sender.get(batch.sender, low))
        return [MessageId(sender, low) for sender, low in first_by_sender.items()]

    def state(self) -> dict[str, object]:
        return {"held": self._held, "clock": dict(zip(self._members, self._clock, strict=True))}
