"""Pages of values: whatever the values are, wherever a page begins, and by either of the two ways in which they are read."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon.store.records import Entry
from antiphon.store.sqlite import reading


def joined(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("this page should have been read as one piece")

    monkeypatch.setattr(reading, "_sparse", refuse)


def row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_joins_bytes", lambda: False)


@pytest.mark.parametrize("way", [joined, row_by_row])
async def test_values_come_out_as_they_went_in(
    file: Path, opened: Any, way: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value would be cut in the wrong place, and its neighbour get the rest; or have the time of another batch."""
    way(monkeypatch)
    chance = random.Random(7)
    batches = [
        [b""],
        [b"", b"", b""],
        [b"\0", b"", b"\0\0", b"\xff\xfe\0", b"\x80"],
        [bytes(16)] * 40,
        [chance.randbytes(chance.randint(0, 300)) for _ in range(500)],
        ["żółw €".encode(), "żółw €".encode("utf-16")],
        [chance.randbytes(100_000), b"x"],
    ]
    written = [data for batch in batches for data in batch]
    async with opened(file) as store:
        await store.publish(await store.register("a topic before", "p"), 1, [Entry(b"before")] * 10)
        grant, number = await store.register("t", "p"), 1
        times = []
        for batch in batches:
            await store.publish(grant, number, [Entry(data) for data in batch])
            number += len(batch)
            times += [await store.time()] * len(batch)
        await store.publish(await store.register("a topic after", "p"), 1, [Entry(b"after")] * 10)
        for after, limit in [(0, 10_000), (0, 1), (1, 2), (2, 5), (3, 7), (8, 41), (20, 3), (60, 100), (500, 1_000), (len(written) - 1, 5)]:
            values = (await (await store.reader("t", after)).take(limit, 0)).values
            assert [value.data for value in values] == written[after : after + limit]
            assert [value.seq for value in values] == list(range(after + 1, after + 1 + len(values)))
            assert all(value.time <= times[value.seq - 1] for value in values)
            begins = [value for value in values if value.seq > 1 and times[value.seq - 2] != times[value.seq - 1]]
            assert all(value.time > times[value.seq - 2] for value in begins)


async def test_a_page_is_bounded_by_its_bytes(file: Path, opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that asks for a thousand values would get a thousand times the largest value into its memory."""
    monkeypatch.setattr(reading, "PAGE_BYTES", 100_000)
    async with opened(file) as store:
        grant = await store.register("t", "p")
        sizes = [10, 60_000, 30_000, 30_000, 200_000, 10, 10]
        await store.publish(grant, 1, [Entry(bytes(size)) for size in sizes])
        reader = await store.reader("t", 0)
        pages = []
        while values := (await reader.take(1_000, 0)).values:
            pages.append([len(value.data) for value in values])
        assert pages == [[10, 60_000, 30_000], [30_000], [200_000], [10, 10]]


def test_this_machine_reads_pages_as_one_piece() -> None:
    """The faster way would never be taken, and nobody would notice."""
    assert reading._joins_bytes()
