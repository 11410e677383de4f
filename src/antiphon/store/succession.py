"""What a reader is told, number by number: every number is a value, or part of a gap, or was the subscriber's own doing. No I/O here.

The store gives values and says up to where it has collected. Numbers that are missing are told as a `Gap`: up to the floor they were
`collected`, beyond it `removed`. In a mutable topic a missing number is a value that a newer one of its key has replaced, and nothing to be
told. What the subscriber has marked done itself is not told either.

Cost: O(1) for a chunk without missing numbers, O(values + gaps) for another.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TypeAlias

from antiphon.model.ranges import Ranges
from antiphon.store.records import Gap, Value

Item: TypeAlias = Value | Gap

_PASSED = 10_000


class Succession:
    def __init__(self, position: int, marks: Ranges) -> None:
        self.cursor = position
        """Every number up to here has been accounted for."""
        self.mutable = False
        self.passed = Ranges()
        """Numbers that will never be read; at most so many ranges, beyond which they are only told."""
        self._marks = marks

    def holes(self, values: Sequence[Value], floor: int, gone: int = 0) -> bool:
        """Whether numbers are missing that have to be accounted for."""
        cursor = self.cursor
        if not values:
            return floor > cursor or gone > cursor
        return values[0].seq != cursor + 1 or values[-1].seq != cursor + len(values) or floor > values[-1].seq

    def items(self, values: Sequence[Value], floor: int, gone: int = 0) -> list[Item]:
        """The values in order, with the gaps between them, and where there are none with the gap up to `gone`."""
        if not self.holes(values, floor, gone):
            if values:
                self.cursor = values[-1].seq
            return list(values)
        items: list[Item] = []
        for value in values:
            if value.seq > self.cursor:  # a reader that was opened anew may give some again
                self._miss(value.seq - 1, floor, items)
                items.append(value)
                self.cursor = value.seq
        self._miss(floor if values else max(floor, gone), floor, items)
        return items

    def skip(self, first: int, last: int) -> None:
        """These numbers will not be read, for another reason."""
        if len(self.passed) < _PASSED:
            self.passed.add(first, last)

    def forget(self, position: int) -> None:
        """What lies at or before the position needs no remembering."""
        passed = self.passed
        gone = bisect_right(passed.highs, position)
        del passed.lows[:gone], passed.highs[:gone]

    def _miss(self, last: int, floor: int, items: list[Item]) -> None:
        """Accounts for the numbers after the cursor up to `last`."""
        first, self.cursor = self.cursor + 1, max(self.cursor, last)
        if first > last:
            return
        self.skip(first, last)
        if self.mutable:
            return
        for low, high in self._marks.missing(first, last):
            if low <= floor:
                items.append(Gap(low, min(high, floor), "collected"))
            if high > floor:
                items.append(Gap(max(low, floor + 1), high, "removed"))
