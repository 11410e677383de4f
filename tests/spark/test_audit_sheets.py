"""What a task keeps of members: sheets in pieces, in memory or in a file; and checksums by blocks. Without Spark."""

from __future__ import annotations

import random

import numpy as np
import pytest

from antiphon.spark.audit.checks import Checks, Packing
from antiphon.spark.audit.sheet import Longs, Sheet
from antiphon.spark.audit.sheets import Sheets


def sheet(rows: int, names: int, seed: int) -> Sheet:
    rng = np.random.default_rng(seed)

    def longs(count: int) -> Longs:
        return rng.integers(0, 1 << 40, count)

    lists = [np.sort(rng.integers(0, rows, names)), *(longs(names) for _ in range(3))]
    return Sheet.unpack(np.concatenate([np.array([rows, names]), *(longs(rows) for _ in range(8)), *lists]).tobytes())


@pytest.mark.parametrize("kept", [1 << 30, 10_000, 0], ids=["in memory", "some of them in a file", "all of them in a file"])
def test_sheets_come_back_as_they_were_wherever_they_lay(kept: int) -> None:
    """A group that is too large for memory would be judged by rows that are not its own."""
    rng = random.Random(1)
    pieces = {member: [sheet(rng.randint(1, 50), rng.randint(0, 9), member * 10 + number) for number in range(4)] for member in (5, 6, 7)}
    sheets = Sheets(kept)
    waiting = [(member, number, piece.pack()) for member, some in pieces.items() for number, piece in enumerate(some)]
    rng.shuffle(waiting)
    for member, number, packed in waiting:
        sheets.add(member, number, packed)
    assert (sorted(sheets), len(sheets), sheets.away) == ([5, 6, 7], 3, kept < 1 << 30)
    for member in (5, 7, 6, 5):
        assert sheets[member].pack() == Sheet.joined(pieces[member]).pack()
    assert sheets.get(8) is None
    sheets.clear()
    assert not sheets
    assert not sheets.away


def entries(packing: Packing, sent: bool, numbers: Longs, values: Longs, at_once: int = 700) -> list[dict[str, object]]:
    """Checksums of messages of one sender that come in rows of one."""
    found: list[tuple[int, bytes]] = []
    for begin in range(0, len(numbers), at_once):
        some, worth = numbers[begin : begin + at_once], values[begin : begin + at_once]
        ones = np.ones(len(some), np.int64)
        found += packing.take(ones * 77, some, some, ones, worth, np.full(len(some), sent))
    found += packing.end()
    return [{"kind": "checks", "index": block, "sheet": packed} for block, packed in found]


def test_checksums_are_compared_in_every_block() -> None:
    """Of the messages of a large sender all after the first quarter of a million would be believed unseen."""
    numbers = np.arange(1, 600_001, dtype=np.int64)
    values = numbers * 2_654_435_761 & 0xFFFF_FFFF
    for wrong in (None, 5, 300_000, 599_999):
        theirs = values.copy()
        if wrong is not None:
            theirs[wrong] += 1
        rows = entries(Packing(), True, numbers, values) + entries(Packing(), False, numbers[::-1].copy(), theirs[::-1].copy())
        blocks = {row["index"] for row in rows}
        assert blocks == {0, 1, 2}
        same = []
        for block in sorted(blocks):  # type: ignore[type-var]
            checks = Checks()
            assert list(checks.apart(row for row in rows if row["index"] == block)) == []
            same.append(checks.same())
        assert same == [wrong is None or wrong + 1 >> 18 != block for block in (0, 1, 2)]
