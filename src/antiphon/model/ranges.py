"""A set of numbers kept as sorted, disjoint, non-touching ranges `[low, high]`.

This is the memory of a stream, and the ordering list of semantic order: per sender, what has come in. Numbers
that come in order cost O(1) and one range; otherwise O(log m) to find and a memmove to insert, for m ranges.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator


class Ranges:
    __slots__ = ("highs", "lows")

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()) -> None:
        self.lows: list[int] = []
        self.highs: list[int] = []
        for low, high in pairs:
            self.add(low, high)

    def __contains__(self, number: int) -> bool:
        # The range with the greatest low <= number decides.
        at = bisect_right(self.lows, number)
        return at > 0 and number <= self.highs[at - 1]

    def add(self, low: int, high: int) -> None:
        """Adds `low … high`, extending or joining what it touches or overlaps."""
        lows, highs = self.lows, self.highs
        if not lows or low > highs[-1]:
            if lows and low == highs[-1] + 1:
                highs[-1] = high
            else:
                lows.append(low)
                highs.append(high)
            return
        start = bisect_right(lows, low) - 1
        # Range `start` is the last that begins at or before low; it is touched when it reaches low - 1.
        if start < 0 or highs[start] < low - 1:
            start += 1
        end = bisect_right(lows, high + 1)
        if start == end:
            lows.insert(start, low)
            highs.insert(start, high)
        else:
            if lows[start] < low:
                low = lows[start]
            if highs[end - 1] > high:
                high = highs[end - 1]
            if end - start == 1:
                lows[start] = low
                highs[start] = high
            else:
                lows[start:end] = (low,)
                highs[start:end] = (high,)

    def missing(self, low: int, high: int) -> list[tuple[int, int]]:
        """The parts of `low … high` that are not in the set, in order."""
        gaps: list[tuple[int, int]] = []
        at = max(bisect_right(self.lows, low) - 1, 0)
        while low <= high and at < len(self.lows):
            if self.lows[at] > high:
                break
            if self.lows[at] > low:
                gaps.append((low, self.lows[at] - 1))
            low = max(low, self.highs[at] + 1)
            at += 1
        if low <= high:
            gaps.append((low, high))
        return gaps

    def cut_off(self, limit: int) -> None:
        """Removes everything above `limit`."""
        count = bisect_right(self.lows, limit)
        del self.lows[count:], self.highs[count:]
        if count and self.highs[-1] > limit:
            self.highs[-1] = limit

    def pop_up_to(self, number: int) -> int:
        """Removes every range that begins at or below `number + 1` and returns how far, without a gap, `number` reaches with them."""
        count = 0
        for low, high in zip(self.lows, self.highs, strict=True):
            if low > number + 1:
                break
            number = max(number, high)
            count += 1
        del self.lows[:count], self.highs[:count]
        return number

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.lows, self.highs, strict=True)

    def __len__(self) -> int:
        """The number of ranges."""
        return len(self.lows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and self.lows == other.lows and self.highs == other.highs

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Ranges({list(self)})"
