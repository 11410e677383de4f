"""One answer as it comes in: its parts are taken in their order, each as soon as those before it are here.

An answer's items follow what the asker had, what other answers gave, and each other. So a prefix of them is always worth having, and
nothing beyond a missing part is taken. Parts beyond a gap wait, up to a bound in bytes; the others are asked for again.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from antiphon.errors import BadFrame
from antiphon.model import codec
from antiphon.model.control import Item, SyncAnswer
from antiphon.model.frames import MESSAGE_LIMIT, Batch
from antiphon.model.ids import MemberId
from antiphon.protocol.sync.canonical import Stub
from antiphon.protocol.sync.history import History
from antiphon.protocol.sync.ledger import Ledger

PARTS_LIMIT = 65_536


class Progress(Enum):
    PARTIAL = auto()
    """Parts are missing."""
    BLOCKED = auto()
    """It follows something that another answer gives and that is not here."""
    BROKEN = auto()
    """It makes no sense, or not here."""
    WHOLE = auto()
    """All of it has been taken."""


class Incoming:
    def __init__(
        self,
        first: SyncAnswer,
        history: History,
        deliver: Callable[[Batch, int, int], None],
        refuses: Callable[[tuple[int, int, int]], bool],
        waiting_bytes: int,
    ) -> None:
        """`deliver` is told of every message that is new here; `refuses` says whether an answer must not begin at a place."""
        self.answerer, self.asker, self.number, self.count = first.member, first.asker, first.number, first.count
        self.lost, self.given, self.more = Ledger(), Ledger(), True
        self.news = False
        """Whether anything in it was new here."""
        self.requests = 0
        """How often missing parts were asked for since the last one came."""
        self._history, self._deliver, self._refuses = history, deliver, refuses
        self._next = 0
        self._parts: dict[int, SyncAnswer] = {}
        self._room = waiting_bytes
        self._wire = bytearray()
        self._batch_by_sender: dict[MemberId, Batch] = {}

    def add(self, frame: SyncAnswer) -> bool:
        """Takes a part; whether it is new and there is room for it."""
        size = _bytes_of(frame)
        if frame.count != self.count or not self._next <= frame.index < self.count or frame.index in self._parts:
            return False
        if frame.index > self._next and size > self._room:
            return False
        self._room -= size
        self._parts[frame.index] = frame
        self.requests = 0
        return True

    def missing(self, limit: int) -> tuple[int, ...]:
        """The parts that have not come, the first few."""
        found: list[int] = []
        for index in range(self._next, self.count):
            if len(found) == limit:
                break
            if index not in self._parts:
                found.append(index)
        return tuple(found)

    def take(self) -> Progress:
        """Takes what is here, part after part."""
        while self._next in self._parts:
            frame = self._parts[self._next]
            progress = self._take(frame)
            if progress is not None:
                return progress
            del self._parts[self._next]
            self._room += _bytes_of(frame)
            self._next += 1
        if self._next < self.count:
            return Progress.PARTIAL
        return Progress.BROKEN if self._wire else Progress.WHOLE

    def _take(self, frame: SyncAnswer) -> Progress | None:
        history = self._history
        given, skipped, lost = Ledger.read(frame.given), Ledger.read(frame.skipped), Ledger.read(frame.lost)
        if given is None or skipped is None or lost is None:
            return Progress.BROKEN
        self.given.merge(history.possible(given))
        self.lost.merge(history.possible(lost))
        # Even an answer without items: its end is the end only for those who have what the others gave.
        if self.given and not self.lost and not self.given.within(history.before()):
            return Progress.BLOCKED
        # What is not wanted first: who wants only a part of the past is told an outcome from beyond its beginning.
        if not history.possible(skipped).within(history.before()):
            history.skip(skipped.flat())
            self.news = True
        if history.total and any(self._refuses(place) for place in frame.places):
            return Progress.BROKEN
        if frame.epochs:
            history.learn(frame.epochs)
        places = [list(place) for place in frame.places]
        entered = history.entered
        for item in frame.items:
            if item.place >= len(places) or item.high < item.low or not self._take_item(item, places[item.place]):
                return Progress.BROKEN
        self.news = self.news or history.entered > entered
        self.more = frame.more
        return None

    def _take_item(self, item: Item, place: list[int]) -> bool:
        """Takes one item, which lies at the head of `place`; whether that was possible."""
        history, (epoch, outcome, position) = self._history, place
        self._wire += item.wire
        if len(self._wire) > MESSAGE_LIMIT:
            return False
        if item.goes_on:
            return True
        batch: Batch | Stub | None
        if self._wire:
            batch = _batch(bytes(self._wire), item)
            self._wire.clear()
            if batch is None:
                return False
            self._batch_by_sender[item.sender] = batch
        elif history.lacks(item.sender, item.low, item.high):
            batch = self._batch_by_sender.get(item.sender)
            if batch is None or not batch.first <= item.low <= item.high <= batch.last:
                return False
        else:
            batch = Stub(item.sender)
        for low, high in history.recover(epoch, batch, item.low, item.high, outcome, position):
            assert isinstance(batch, Batch), "only messages that came in a batch can be new"
            self._deliver(batch, low, high)
        if history.total:
            place[2] += item.high - item.low + 1
        return True


def _batch(wire: bytes, item: Item) -> Batch | None:
    """The batch in a wire, if it is the one that the item speaks of."""
    try:
        frame = codec.decode(wire, MESSAGE_LIMIT)
    except BadFrame:
        return None
    if type(frame) is Batch and frame.sender == item.sender and frame.first <= item.low and item.high <= frame.last:
        return frame
    return None


def _bytes_of(frame: SyncAnswer) -> int:
    return 64 * (len(frame.items) + 1) + sum(len(item.wire) for item in frame.items)
