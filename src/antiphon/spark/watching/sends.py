"""What one sender sent: a message must be delivered with the payload it was sent with, by its checksum.

A send and its deliveries stand in the traces of different writers, so either may be read first; whatever comes first waits for the other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from antiphon.spark.watching.told import Breach, Named, Spot, Told
from antiphon.trace.schema import CHECK_EVERY

ROWS = 4_096
"""Sends that are kept of a sender, and deliveries that wait for their send."""


class Checked(Struct, array_like=True, frozen=True):
    """A range with its checksums, by whom, and what its messages name."""

    first: int
    last: int
    member: str
    spot: Spot
    checks: tuple[int, ...]
    names: tuple[Named, ...] = ()

    @classmethod
    def of(cls, row: Told) -> Checked:
        return cls(row.first, row.last, row.member, row.spot, row.checks, tuple(row.names))

    def by_number(self) -> dict[int, int]:
        """As the schema has it: one for each message, or for each whose number is a multiple."""
        if len(self.checks) == self.last - self.first + 1:
            return dict(enumerate(self.checks, self.first))
        return dict(zip(range(self.first + -self.first % CHECK_EVERY, self.last + 1, CHECK_EVERY), self.checks, strict=False))


class Sends(Struct, array_like=True):
    rows: list[Checked] = field(default_factory=list)
    """By number."""
    highest: int = 0
    waiting: list[Checked] = field(default_factory=list)
    forgotten: int = 0
    touched: int = 0
    """The last round in which it was spoken of."""

    def send(self, row: Told) -> Iterator[Breach]:
        sent = Checked.of(row)
        self.rows.append(sent)
        if row.first < self.highest:
            self.rows.sort(key=lambda one: one.first)
        self.highest = max(self.highest, row.last)
        if self.waiting:
            for delivered in self.waiting:
                yield from _compared(row.sender or row.member, (sent,), delivered)
            self.waiting = [delivered for delivered in self.waiting if delivered.last > self.highest]
        self.forgotten += max(0, len(self.rows) - ROWS)
        del self.rows[:-ROWS]

    def deliver(self, row: Told) -> Iterator[Breach]:
        delivered = Checked.of(row)
        if row.last > self.highest:
            self.waiting.append(delivered)
            self.forgotten += max(0, len(self.waiting) - ROWS)
            del self.waiting[:-ROWS]
        begin = max(0, bisect_right(self.rows, row.first, key=lambda one: one.first) - 1)
        end = bisect_right(self.rows, row.last, key=lambda one: one.first)
        yield from _compared(row.sender, self.rows[begin:end], delivered)

    def row_of(self, number: int) -> Checked | None:
        """Return the row that sent a message, if it is not forgotten."""
        place = bisect_right(self.rows, number, key=lambda one: one.first) - 1
        return self.rows[place] if place >= 0 and self.rows[place].last >= number else None

    def close(self, number: int) -> None:
        """Everybody has what lies up to here."""
        gone = 0
        while gone < len(self.rows) and self.rows[gone].last <= number:
            gone += 1
        del self.rows[:gone]


def _compared(sender: str, sends: Iterable[Checked], delivered: Checked) -> Iterator[Breach]:
    for sent in sends:
        if sent.last < delivered.first or sent.first > delivered.last:
            continue
        theirs = delivered.by_number()
        for number, check in sent.by_number().items():
            if theirs.get(number, check) != check:
                sentence = f"{delivered.member} delivered message {number} of {sender} with another payload than it was sent with"
                yield Breach("integrity", sentence, (sent.spot, delivered.spot))
                return
