"""total: one order of all messages, the same at every member.

The view's first member is the sequencer. Data goes straight to everyone; the sequencer numbers it as it accepts it, each sender's
messages in their order, and tells the numbering in records that cover whatever came in one turn. A message is delivered when its
place is known, it is here, and everything before it is delivered. Numbers are (epoch, n), and the epoch is the view.

Because a member answers only what it delivered, and that has its place already, this order also keeps causal precedence. For the
day the sequencer dies with records that nobody else holds, a batch carries how many places its sender had delivered: if those are
more than survivors know, it may answer what is lost, and is left out; the rest is sorted by it, which puts causes first.

Keeps data without a place and places without data. Own messages use up credit until they have been delivered, and the sequencer waits
for members that lack its records; at `waiting_messages` only what is needed next is taken. Cost: two look-ups per batch, one record
per turn of the sequencer.
"""

from __future__ import annotations

from collections import deque
from operator import le
from typing import ClassVar

from antiphon.model.events import Delivery, Why
from antiphon.model.frames import Batch, Record, Stamp
from antiphon.model.ids import MemberId, MessageId, name_of
from antiphon.model.recording import Waiting
from antiphon.model.view import View
from antiphon.protocol.stage import Context, Ordering

_RECORD_BYTES = 64
_PLACE_BYTES = 24
"""More than a record takes beside its ids, and more than a place in it takes."""


class Total(Ordering):
    makes_records = True
    numbers_places = True
    promises: ClassVar[tuple[str, ...] | None] = ("fifo", "causal", "total", "parent_before_child")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._next_by_sender: dict[MemberId, int] = {}
        """The next message of each sender to be delivered."""
        self._limit = context.settings.waiting_messages
        ids = len(context.me.encode()) + len(context.group.encode())
        self._places_per_record = max((context.settings.frame_bytes - _RECORD_BYTES - ids) // _PLACE_BYTES, 1)
        self._begin(context.view, context.cut)

    def _begin(self, view: View, starts: dict[MemberId, int]) -> None:
        kept = self._next_by_sender
        self._members = view.members
        self._sequencing = view.members[0] == self.context.me
        self._next_by_sender = {member: starts[member] + 1 if member in starts else kept.get(member, 1) for member in view.members}
        self._unnumbered_by_sender = dict(self._next_by_sender)
        """At the sequencer: the next message of each sender to be numbered."""
        self._data_by_sender: dict[MemberId, dict[int, Delivery]] = {member: {} for member in view.members}
        self._places: deque[tuple[MemberId, int, int]] = deque()
        """The numbering, from the next place to be delivered on: (sender, low, high)."""
        self._unsaid: list[int] = []
        self._held = self._delivered = 0
        self.crowded = False

    def stamp(self, first: int, last: int) -> Stamp:
        return [self._delivered] if self._delivered else None

    def stamp_bytes(self) -> int:
        return 12

    def refuses(self, batch: Batch) -> str | None:
        stamp = batch.stamp
        if stamp is not None and (type(stamp) is not list or len(stamp) != 1 or stamp[0] < 0):
            return "malformed_stamp"
        if not self.crowded or self.context.flushing:
            return None
        # What is needed next is always taken, or the room would stay taken for ever: by the sequencer what it can number next, by others
        # what the next place names. A sender's window bounds the former.
        if self._sequencing:
            awaited = batch.first <= self._unnumbered_by_sender[batch.sender] <= batch.last
        else:
            awaited = bool(self._places) and self._places[0][0] == batch.sender and batch.first <= self._places[0][1] <= batch.last
        return None if awaited else "no_room"

    def accept(self, batch: Batch, low: int, high: int) -> None:
        sender = batch.sender
        data = self._data_by_sender[sender]
        data[low] = (batch, low, high)
        self._held += high - low + 1
        if self._sequencing:
            self._number(sender, data)
        places = self._places
        if places and places[0][0] == sender:
            self._advance()
        self.crowded = self._held >= self._limit

    def accept_record(self, record: Record) -> None:
        body, members = record.body, self._members
        if record.sender != members[0] or type(body) is not list or len(body) % 3:
            self.context.drops["malformed_record"] += 1
            return
        ranks, lows, highs = body[::3], body[1::3], body[2::3]
        count = sum(highs) - sum(lows) + len(ranks)
        if count != record.last - record.first + 1 or not 0 <= min(ranks) <= max(ranks) < len(members) or not all(map(le, lows, highs)):
            self.context.drops["malformed_record"] += 1
            return
        self._places += zip([members[rank] for rank in ranks], lows, highs, strict=True)
        self._advance()
        self.crowded = self._held >= self._limit

    def flush(self) -> None:
        # A member that lacks records holds data back without end; so the numbering waits for it, and with it all senders.
        while self._unsaid and (room := self.context.record_room()) > 0:
            body, count = self._next_record(room)
            self.context.record(count, body)

    def _next_record(self, room: int) -> tuple[list[int], int]:
        """Takes as much of the unsaid numbering as fits into a frame and into `room` numbers; says how many numbers that is."""
        unsaid, body, count = self._unsaid, list[int](), 0
        for at in range(0, min(len(unsaid), 3 * self._places_per_record), 3):
            if count == room:
                break
            rank, low, high = unsaid[at : at + 3]
            last = min(high, low + room - count - 1)
            body += (rank, low, last)
            count += last - low + 1
            if last < high:
                unsaid[at + 1] = last + 1
                del unsaid[:at]
                return body, count
        del unsaid[: len(body)]
        return body, count

    def own_delivered(self) -> int:
        return self._next_by_sender[self.context.me] - 1

    def _number(self, sender: MemberId, data: dict[int, Delivery]) -> None:
        """Gives the next places to what the sender's data allows without a gap."""
        low = number = self._unnumbered_by_sender[sender]
        while (piece := data.get(number)) is not None:
            number = piece[2] + 1
        if number == low:
            return
        self._unnumbered_by_sender[sender] = number
        rank, unsaid = self._members.index(sender), self._unsaid
        if unsaid and unsaid[-3] == rank:
            unsaid[-1] = number - 1
        else:
            unsaid += (rank, low, number - 1)

    def _advance(self) -> None:
        """Delivers place after place, as far as the data is here."""
        places = self._places
        while places:
            sender, low, high = places[0]
            data = self._data_by_sender[sender]
            while low <= high:
                piece = data.pop(low, None)
                if piece is None:
                    places[0] = (sender, low, high)
                    self._next_by_sender[sender] = low
                    return
                if piece[2] > high:
                    # The place ends inside the batch: the rest keeps waiting for its own.
                    data[high + 1] = (piece[0], high + 1, piece[2])
                    piece = (piece[0], low, high)
                self.deliver(piece)
                count = piece[2] - low + 1
                self._held -= count
                self._delivered += count
                low = piece[2] + 1
            self._next_by_sender[sender] = low
            places.popleft()

    def on_view(self, view: View, previous: View, starts: dict[MemberId, int]) -> None:
        """Every survivor holds the same records and the same data. The places that are known are delivered, without what nobody
        holds; then what has no place yet, causes first, ties in the old view's order: all do the same, so nothing needs a number."""
        self._advance()
        # Who had delivered more places than these may answer a message that is lost: that of the next place, or of one nobody knows.
        # Nobody who comes along had; who does not, dies with it or is on another side, from where it comes by synchronisation.
        known = self._delivered
        while self._places:
            sender, low, high = self._places[0]
            piece = self._data_by_sender[sender].get(low)
            if piece is None or _count(piece[0]) > known:
                # It is lost, and with it its sender's later messages: fifo.
                self._drop(sender)
                self._places = deque(place for place in self._places if place[0] != sender)
            elif piece[2] > high:
                self._data_by_sender[sender][high + 1] = (piece[0], high + 1, piece[2])
                self._data_by_sender[sender][low] = (piece[0], low, high)
            else:
                self._end(sender, piece)
                self._places.popleft()
                if piece[2] < high:
                    self._places.appendleft((sender, piece[2] + 1, high))
        for sender, piece in self._without_place():
            if _count(piece[0]) > known:
                self._drop(sender)
            elif piece[1] in self._data_by_sender[sender]:
                self._end(sender, piece)
        for sender in self._data_by_sender:
            self._drop(sender)
        self._begin(view, starts)

    def _end(self, sender: MemberId, piece: Delivery) -> None:
        """Delivers a piece at the end of the epoch."""
        _, low, high = piece
        del self._data_by_sender[sender][low]
        self.deliver(piece)
        self._delivered += high - low + 1
        self._next_by_sender[sender] = high + 1

    def _without_place(self) -> list[tuple[MemberId, Delivery]]:
        """The data that follows what was delivered of each sender, causes first."""
        pieces = []
        for rank, (sender, data) in enumerate(self._data_by_sender.items()):
            number = self._next_by_sender[sender]
            while (piece := data.get(number)) is not None:
                pieces.append((_count(piece[0]), rank, number, sender, piece))
                number = piece[2] + 1
        pieces.sort(key=lambda entry: entry[:3])
        return [(sender, piece) for _, _, _, sender, piece in pieces]

    def _drop(self, sender: MemberId) -> None:
        data = self._data_by_sender[sender]
        self.context.drops["lost_predecessor"] += sum(high - low + 1 for _, low, high in data.values())
        data.clear()

    def why(self, message: MessageId) -> Why | None:
        sender, seqno = message
        if not any(low <= seqno <= high for _, low, high in self._data_by_sender.get(sender, {}).values()):
            return None
        ahead = 0
        for whose, low, high in self._places:
            if whose == sender and low <= seqno <= high:
                head = MessageId(self._places[0][0], self._places[0][1])
                number = self._delivered + ahead + seqno - low + 1
                return Why("held", f"is number {number} of its view and waits for {head}, number {self._delivered + 1}", (head,))
            ahead += high - low + 1
        return Why("held", f"waits for its place: the sequencer {name_of(self._members[0])} has not numbered it")

    def waits(self, batch: Batch, low: int, high: int) -> list[Waiting]:
        return []  # for its place, not for messages that could be named

    @property
    def held(self) -> int:
        return self._held

    def held_heads(self) -> list[MessageId]:
        return [MessageId(sender, min(data)) for sender, data in self._data_by_sender.items() if data]

    def state(self) -> dict[str, object]:
        return {
            "held": self._held,
            "sequencer": self._members[0],
            "delivered_places": self._delivered,
            "known_places": self._delivered + sum(high - low + 1 for _, low, high in self._places),
        }


def _count(batch: Batch) -> int:
    """How many places the batch's sender had delivered."""
    return batch.stamp[0] if type(batch.stamp) is list else 0
