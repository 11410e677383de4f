"""The canonical order: one order of all messages, the same at every member that has them, however they reached it.

Epochs come in a topological order: an epoch after those it grew from; of those that could come next the one with more members first,
then the one with the smaller id. Within an epoch messages come by (sent_at, sender, seqno). Since `sent_at` is larger than that of
everything its sender had accepted before, this extends happened-before, and with it fifo, causal and semantic order.

In total order the messages of an epoch come as they were delivered. When a partition ends an epoch differently on its sides, each end
is an *outcome*, named by the view that followed; the larger view's comes first, then that of the smaller id, and what is in several
counts where it is first. When the beginning of one of several outcomes is forgotten somewhere, that member goes by time there. Where only a
majority goes on and what is delivered is safe, an epoch has one outcome, named by itself: who was stopped knows a beginning of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from msgspec import Struct

from antiphon.model import codec
from antiphon.model.control import Epoch
from antiphon.model.frames import Batch
from antiphon.model.ids import MemberId
from antiphon.protocol.sync.ledger import Ledger


class Stub(Struct, frozen=True, gc=False):
    """What is left of a batch when only the ids of its messages are kept."""

    sender: MemberId
    sent_at: float = 0.0


class Packed(Struct, frozen=True, gc=False):
    """A batch of many messages, delivered whole, as the frame that it came in: one object to keep and to forget, where the batch has one
    for each message. So these live no longer than their reader needs them, and the next ones are made where they were, in memory that
    is still in the processor's cache."""

    sender: MemberId
    sent_at: float
    first: int
    wire: bytes

    def unpacked(self) -> Batch:
        batch = codec.decode(self.wire)
        assert type(batch) is Batch, "a batch is kept as its own frame, which was read before"
        return batch


Kept: TypeAlias = Batch | Packed | Stub
Piece: TypeAlias = tuple[Kept, int, int]
"""Messages `low … high` of a batch, or of what is left of it."""


def in_order(epochs: Iterable[Epoch]) -> list[int]:
    """The ids of the epochs in the canonical order. A parent that is not among them is taken for long past."""
    by_id = {epoch.id: epoch for epoch in epochs}
    children: defaultdict[int, list[Epoch]] = defaultdict(list)
    waiting: dict[int, int] = {}
    for epoch in by_id.values():
        # A view's id is larger than those it grew from; whoever says otherwise cannot make a circle of it.
        parents = {parent for parent in epoch.parents if parent < epoch.id and parent in by_id}
        waiting[epoch.id] = len(parents)
        for parent in parents:
            children[parent].append(epoch)
    ready = [(-epoch.size, epoch.id) for epoch in by_id.values() if not waiting[epoch.id]]
    heapify(ready)
    order: list[int] = []
    while ready:
        _, done = heappop(ready)
        order.append(done)
        for child in children[done]:
            waiting[child.id] -= 1
            if not waiting[child.id]:
                heappush(ready, (-child.size, child.id))
    return order


def by_time(pieces: Iterable[Piece]) -> list[Piece]:
    """The messages of one epoch of an order other than total. A stub that stands for a batch, or for another stub, is left out."""
    pieces = list(pieces)
    if any(type(piece[0]) is Stub for piece in pieces):
        listed = Ledger()
        once: list[Piece] = []
        for kept, low, high in sorted(pieces, key=lambda piece: type(piece[0]) is Stub):
            for start, end in listed.missing(kept.sender, low, high):
                listed.add(kept.sender, start, end)
                once.append((kept, start, end))
        pieces = once
    return joined(sorted(pieces, key=_when))


def by_outcome(outcomes: Iterable[Iterable[Piece]]) -> list[Piece]:
    """The messages of one epoch in total order, from its outcomes, the first first. A stub is a place whose message another outcome may
    hold; where none does, the stub stays."""
    listed, order = Ledger(), list[Piece]()
    columns = [list(outcome) for outcome in outcomes]
    if len(columns) == 1:
        return joined(columns[0])
    whole = Shelf(piece for column in columns for piece in column)
    for column in columns:
        for kept, low, high in column:
            for start, end in listed.missing(kept.sender, low, high):
                listed.add(kept.sender, start, end)
                order += whole.pieces(kept, start, end)
    return joined(order)


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """The same with neighbours of one batch made one, so that it does not show in how many parts it was delivered."""
    result: list[Piece] = []
    for piece in pieces:
        if result:
            kept, low, high = result[-1]
            if piece[1] == high + 1 and _same(kept, piece[0]):
                result[-1] = (kept, low, piece[2])
                continue
        result.append(piece)
    return result


class Shelf:
    """The batches of one epoch by message, for those who know only a place."""

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self._by_sender: defaultdict[MemberId, list[Piece]] = defaultdict(list)
        for piece in pieces:
            if type(piece[0]) is not Stub:
                self._by_sender[piece[0].sender].append(piece)
        for shelf in self._by_sender.values():
            shelf.sort(key=_low)

    def pieces(self, kept: Kept, low: int, high: int) -> list[Piece]:
        """Messages `low … high` from whatever is here, `kept` for the rest."""
        if type(kept) is not Stub:
            return [(kept, low, high)]
        found: list[Piece] = []
        shelf = self._by_sender.get(kept.sender, [])
        for batch, start, end in shelf[max(bisect_right(shelf, low, key=_low) - 1, 0) :]:
            if start > high:
                break
            if end >= low:
                if start > low:
                    found.append((kept, low, start - 1))
                found.append((batch, max(low, start), min(high, end)))
                low = min(high, end) + 1
        if low <= high:
            found.append((kept, low, high))
        return found


def _same(one: Kept, other: Kept) -> bool:
    if one is other:
        return True
    if type(one) is Batch and type(other) is Batch:
        # Of two batches with one first number and different lengths, one is forged; neither holds all messages of both.
        return one.sender == other.sender and one.first == other.first and len(one.payloads) == len(other.payloads)
    return type(one) is type(other) and one == other


def _when(piece: Piece) -> tuple[float, MemberId, int]:
    return piece[0].sent_at, piece[0].sender, piece[1]


def _low(piece: Piece) -> int:
    return piece[1]
