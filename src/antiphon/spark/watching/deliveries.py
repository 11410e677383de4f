"""What one member was given of one sender: nothing twice, and in order where that is promised."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from antiphon.model.ranges import Ranges
from antiphon.spark.watching.told import Breach, Spot, Told

RANGES = 256
"""Beyond so many ranges the lowest is forgotten: a message in it could come twice without being seen."""
ROWS = 256
"""Rows that can be named as witnesses."""


class Row(Struct, array_like=True, frozen=True):
    first: int
    last: int
    spot: Spot
    sort: str
    """`orphaned`, `recovered`, or nothing."""
    view: int = 0
    lost: tuple[tuple[str, int], ...] = ()
    """The parents that an orphaned delivery calls lost."""


class Deliveries(Struct, array_like=True):
    have: Ranges = field(default_factory=Ranges)
    highest: int = 0
    highest_spot: Spot = Spot("", 0)
    rows: list[Row] = field(default_factory=list)
    """The newest, oldest first."""

    def take(self, row: Told, in_order: bool) -> Iterator[Breach]:
        missing = self.have.missing(row.first, row.last)
        if missing != [(row.first, row.last)]:
            again = row.first if not missing or missing[0][0] > row.first else missing[0][1] + 1
            before = self.row_of(again)
            rows = (row.spot,) if before is None else (before.spot, row.spot)
            lost = "" if before is not None else ", the first time in a row that is too old to be named"
            yield Breach("no_duplication", f"{row.member} delivered message {again} of {row.sender} twice{lost}", rows)
        elif in_order and row.first < self.highest:
            sentence = f"{row.member} delivered message {self.highest} of {row.sender} before message {row.first} of the same sender"
            yield Breach("fifo", sentence, (self.highest_spot, row.spot))
        self.have.add(row.first, row.last)
        if row.last > self.highest:
            self.highest, self.highest_spot = row.last, row.spot
        self.rows.append(Row(row.first, row.last, row.spot, row.note, row.view, tuple((name.sender, name.number) for name in row.names)))
        del self.rows[:-ROWS], self.have.lows[:-RANGES], self.have.highs[:-RANGES]

    def row_of(self, number: int) -> Row | None:
        """The row in which this message was delivered, if it is not forgotten."""
        return next((row for row in reversed(self.rows) if row.first <= number <= row.last), None)

    def row_within(self, first: int, last: int) -> Row | None:
        """Return a row in which any of these messages was delivered, if it is not forgotten."""
        return next((row for row in reversed(self.rows) if row.first <= last and row.last >= first), None)

    @property
    def through(self) -> int:
        """Delivered without a gap up to here, from where it began."""
        return self.have.highs[0] if self.have.lows else 0
