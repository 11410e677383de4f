"""A chapter: what a member keeps of one epoch.

An epoch has one outcome, or in total order one for each way a partition ended it. An outcome is a run of pieces as they were
delivered; the oldest are forgotten first, and then only their number is known. Listing a chapter in the canonical order costs
O(m log m) for m pieces once, and nothing again until it changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from antiphon.model.control import Epoch
from antiphon.model.frames import Batch
from antiphon.protocol.sync.canonical import Kept, Piece, Shelf, Stub, by_outcome, by_time

_SMALL_BYTES = 256
OPEN = 0
"""The outcome of an epoch that has not ended; in orders other than total the only one there is."""


class Outcome:
    """`forgotten` messages, then `pieces`, each with its bytes. The parts of pieces are kept beside each other, not in tuples: they
    are many and live long, and so Python's collector, which stops everything, has less to look at, and half as often."""

    __slots__ = ("_highs", "_kept", "_known", "_lows", "_sizes", "forgotten", "leapt")

    def __init__(self) -> None:
        self.forgotten = 0
        self.leapt = False
        """Whether its beginning was never told here."""
        self._kept: deque[Kept] = deque()
        self._lows: deque[int] = deque()
        self._highs: deque[int] = deque()
        self._sizes: deque[int] = deque()
        self._known = 0

    @property
    def pieces(self) -> Iterator[Piece]:
        return zip(self._kept, self._lows, self._highs, strict=True)

    def __bool__(self) -> bool:
        """Whether it has any."""
        return bool(self._kept)

    @property
    def known(self) -> int:
        """How many messages of the outcome have come by here; the next one has this position."""
        return self._known

    def extend(self, pieces: Sequence[Piece], sizes: Sequence[int]) -> tuple[int, int]:
        """Adds pieces, each of so many bytes; says how many messages and bytes that is."""
        kept, lows, highs = zip(*pieces, strict=True)
        messages = sum(highs) - sum(lows) + len(lows)
        self._kept.extend(kept)
        self._lows.extend(lows)
        self._highs.extend(highs)
        self._sizes.extend(sizes)
        self._known += messages
        return messages, sum(sizes)

    def clear(self) -> tuple[int, list[tuple[Piece, int]]]:
        """Forgets the places of all pieces; returns how many messages these are, and the pieces with their bytes."""
        pieces = list(zip(self.pieces, self._sizes, strict=True))
        messages = sum(high - low + 1 for (_, low, high), _ in pieces)
        self.forgotten += messages
        for parts in (self._kept, self._lows, self._highs, self._sizes):
            parts.clear()
        return messages, pieces

    def take_oldest(self) -> tuple[Piece, int]:
        """Takes out the oldest piece; says how many bytes it has."""
        return (self._kept.popleft(), self._lows.popleft(), self._highs.popleft()), self._sizes.popleft()

    def jump(self, position: int) -> None:
        """Nobody knows what lay before `position`: goes on there."""
        if position > self._known:
            self.forgotten += position - self._known
            self._known = position
            self.leapt = True


class Chapter:
    def __init__(self, epoch: Epoch) -> None:
        self.epoch = epoch
        self.outcomes: dict[int, Outcome] = {}
        self.changed = True
        """Whether the lists made of it are out of date."""
        self._listed: list[Piece] = []
        self._shelf: Shelf | None = None

    def outcome(self, following: int) -> Outcome:
        outcome = self.outcomes.get(following)
        if outcome is None:
            outcome = self.outcomes[following] = Outcome()
        return outcome

    def close(self, following: int) -> None:
        """In total order: the epoch has ended here, and `following` came next."""
        if OPEN in self.outcomes and following not in self.outcomes:
            self.outcomes[following] = self.outcomes.pop(OPEN)
            self.changed = True

    def ranked(self, size_by_epoch: Mapping[int, int]) -> list[int]:
        """The outcomes in the canonical order: the larger view's first, then that of the smaller id."""
        return sorted(self.outcomes, key=lambda following: (-size_by_epoch.get(following, 0), following))

    @property
    def ragged(self) -> bool:
        """Whether the beginning of one of several outcomes is forgotten. What is left of it could come before its own causes, which
        another outcome still has; so such a chapter goes by time."""
        return len(self.outcomes) > 1 and any(outcome.forgotten for outcome in self.outcomes.values())

    def listed(self, total: bool, size_by_epoch: Mapping[int, int]) -> list[Piece]:
        """The chapter in the canonical order."""
        if self.changed:
            if total and not self.ragged:
                self._listed = by_outcome(self.outcomes[following].pieces for following in self.ranked(size_by_epoch))
            else:
                self._listed = by_time(piece for outcome in self.outcomes.values() for piece in outcome.pieces)
            self._shelf, self.changed = None, False
        return self._listed

    def shelf(self) -> Shelf:
        """Where the batches behind its places are."""
        if self._shelf is None or self.changed:
            self._shelf = Shelf(piece for outcome in self.outcomes.values() for piece in outcome.pieces)
        return self._shelf

    def oldest(self) -> Outcome | None:
        """The outcome to forget from."""
        return next((outcome for outcome in self.outcomes.values() if outcome), None)

    def __bool__(self) -> bool:
        """Whether anything of it is kept."""
        return any(self.outcomes.values())


def bytes_of(batch: Batch | Stub, low: int, high: int) -> int:
    """The payload bytes that a piece keeps."""
    if isinstance(batch, Stub):
        return 0
    if low == high:
        return len(batch.payloads[low - batch.first])
    payloads = batch.payloads
    if high - low + 1 < len(payloads):
        payloads = payloads[low - batch.first : high - batch.first + 1]
    # Small payloads are copied in half the time that it takes to ask each for its length.
    return len(b"".join(payloads)) if len(payloads[0]) <= _SMALL_BYTES else sum(map(len, payloads))
