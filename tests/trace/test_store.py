"""What a node's store is recorded to have done."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from zlib import crc32

import antiphon
from antiphon.store.recorded import ranges_of
from antiphon.store.records import Gap, Value
from antiphon.store.succession import Item
from antiphon.trace.reader import read


def test_what_was_published_read_done_and_collected_is_told(tmp_path: Path) -> None:
    """Nobody could prove from a trace that each value was handed out once, in order, and that none which was acknowledged is lost."""
    traces = tmp_path / "traces"

    async def live() -> None:
        async with antiphon.Node("ana", transport="memory", store=f"sqlite:{tmp_path / 'field.db'}", trace=traces) as node:
            topic = node.topic("crash")
            subscription = await topic.subscribe(id="ben")
            await topic.publish_many([b"%d" % number for number in range(100)])
            await topic.publish(b"last")
            taken: list[Any] = []
            while len(taken) < 101:
                taken += await subscription.read_many(40, timeout=10.0)
            await subscription.done(60, b"state")
            again = await topic.subscribe(id="ben")
            assert isinstance(await again.read(timeout=10.0), Value)
            await again.done(101)
            await again.close()
            await node.store.collect("crash")

    asyncio.run(live())
    rows = [row for row in read(traces).rows() if row.group == "crash"]
    published = [row for row in rows if row.kind == "publish"]
    assert [(row.sender, row.first, row.last, row.amount) for row in published] == [("ana", 1, 100, 190), ("ana", 101, 101, 4)]
    assert [row.checks for row in published] == [[crc32(b"63")], [crc32(b"last")]]
    assert published[1].position > published[0].position + 99
    got: dict[int, list[int]] = {1: [], 2: []}
    for row in rows:
        if row.kind == "read":
            got[row.view] += range(row.first, row.last + 1)
    assert got == {1: list(range(1, 102)), 2: [61]}
    assert {row.member for row in rows if row.kind in ("read", "done")} == {"ben"}
    done = [(row.view, row.last, row.note) for row in rows if row.kind == "done"]
    assert done[0] == (1, 0, "begins")
    assert (1, 60, None) in done
    assert done[-1] == (2, 101, None)
    assert [row.kind for row in rows][-1] == "collect"


def test_what_is_not_there_any_more_is_told_apart_from_what_was_given() -> None:
    """A gap would be told as values that somebody got."""
    values: dict[int, Item] = {number: Value(number, 0, b"") for number in (1, 2, 7, 9)}
    items = [values[1], values[2], Gap(3, 5, "collected"), Gap(6, 6, "removed"), values[7], values[9]]
    assert ranges_of(items) == [(1, 2, None), (3, 5, "gap"), (6, 6, "removed"), (7, 7, None), (9, 9, None)]
