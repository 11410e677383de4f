"""A column of things of different heights, such as the lines of a conversation that are shown one under the other.

Finds the thing at a row and the row of a thing, and takes things in and out anywhere, without touching the rest: things are kept in blocks
of at most `_BLOCK`, each of which knows its height. Cost: O(things / _BLOCK + _BLOCK) for everything, about 10 µs in a column of 10,000.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

Thing = TypeVar("Thing", bound=Hashable)
_BLOCK = 256


class _Block(Generic[Thing]):
    __slots__ = ("height", "heights", "things")

    def __init__(self, things: list[Thing], heights: list[int]) -> None:
        self.things, self.heights, self.height = things, heights, sum(heights)


class Column(Generic[Thing]):
    """Each thing is in it once; `height_of` says how many rows one takes, at least 1, and is asked when it comes in."""

    def __init__(self, height_of: Callable[[Thing], int]) -> None:
        self._height_of = height_of
        self._blocks: list[_Block[Thing]] = []
        self._block_by_thing: dict[Thing, _Block[Thing]] = {}
        self.height = 0

    def fill(self, things: Iterable[Thing]) -> None:
        """Begins anew with these."""
        self._blocks, self._block_by_thing, self.height = [], {}, 0
        block: list[Thing] = []
        for thing in things:
            block.append(thing)
            if len(block) == _BLOCK // 2:  # half full, so that what comes between finds room
                self._append(block)
                block = []
        if block:
            self._append(block)

    def insert(self, thing: Thing, after: Thing | None) -> int:
        """Puts a thing behind another, or (None) first; returns its height."""
        height = self._height_of(thing)
        if not self._blocks:
            self._append([thing])
            return height
        if after is None:
            block, place = self._blocks[0], 0
        else:
            block = self._block_by_thing[after]
            place = block.things.index(after) + 1
        block.things.insert(place, thing)
        block.heights.insert(place, height)
        block.height += height
        self.height += height
        self._block_by_thing[thing] = block
        if len(block.things) > _BLOCK:
            self._split(block)
        return height

    def remove(self, thing: Thing) -> int:
        """Takes a thing out; returns its height, 0 if it was not in."""
        block = self._block_by_thing.pop(thing, None)
        if block is None:
            return 0
        place = block.things.index(thing)
        del block.things[place]
        height = block.heights.pop(place)
        block.height -= height
        self.height -= height
        if not block.things:
            self._blocks.remove(block)
        return height

    def row_of(self, thing: Thing) -> int:
        """The first row of a thing."""
        block = self._block_by_thing[thing]
        above = 0
        for each in self._blocks:
            if each is block:
                break
            above += each.height
        return above + sum(block.heights[: block.things.index(thing)])

    def at(self, row: int) -> tuple[Thing, int] | None:
        """The thing at a row, and which of its rows that is; None outside the column."""
        if not 0 <= row < self.height:
            return None
        for block in self._blocks:
            if row < block.height:
                for thing, height in zip(block.things, block.heights, strict=True):
                    if row < height:
                        return thing, row
                    row -= height
            row -= block.height
        return None

    def neighbour(self, thing: Thing, step: int) -> Thing | None:
        """The thing `step` places further down (or up); None beyond an end."""
        block = self._block_by_thing[thing]
        index, place = self._blocks.index(block), block.things.index(thing) + step
        while place < 0 and index > 0:
            index -= 1
            place += len(self._blocks[index].things)
        while place >= len(self._blocks[index].things) and index + 1 < len(self._blocks):
            place -= len(self._blocks[index].things)
            index += 1
        things = self._blocks[index].things
        return things[place] if 0 <= place < len(things) else None

    def __iter__(self) -> Iterator[Thing]:
        for block in self._blocks:
            yield from block.things

    def __len__(self) -> int:
        return len(self._block_by_thing)

    def __contains__(self, thing: object) -> bool:
        return thing in self._block_by_thing

    def _append(self, things: list[Thing]) -> None:
        block = _Block(things, [self._height_of(thing) for thing in things])
        self._blocks.append(block)
        self._block_by_thing.update(dict.fromkeys(things, block))
        self.height += block.height

    def _split(self, block: _Block[Thing]) -> None:
        half = len(block.things) // 2
        second = _Block(block.things[half:], block.heights[half:])
        del block.things[half:], block.heights[half:]
        block.height -= second.height
        self._blocks.insert(self._blocks.index(block) + 1, second)
        self._block_by_thing.update(dict.fromkeys(second.things, second))
