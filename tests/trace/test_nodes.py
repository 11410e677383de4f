"""What real nodes record, beside what the simulator records of the same program."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import antiphon
from antiphon.errors import InvalidOption
from antiphon.model.ids import name_of
from antiphon.sim.world import World
from antiphon.trace.reader import read
from antiphon.trace.row import Row
from antiphon.trace.trace import Trace

LIMIT_S = 30.0
SAMPLES = {"stable", "drop", "repair", "queue"}
"""Kinds that depend on when one looks."""


async def converse(make: Callable[[str], Any]) -> None:
    """Ana asks, Ben answers and says more, both leave."""
    async with make("ana") as ana, make("ben") as ben:
        trip = await ana.create("trip", order="semantic")
        same = await ben.join("trip", timeout=LIMIT_S)
        async with asyncio.timeout(LIMIT_S):
            while len(trip.view.members) < 2:
                await asyncio.sleep(0.01)
        question = await trip.send(b"Did you visit Delhi?")
        await _take(same, 1)
        await same.send(b"Yes", reply_to=question)
        await same.send_many([b"%d" % number for number in range(200)])
        await _take(trip, 202)
        await _take(same, 201)
        await same.leave()


async def _take(group: Any, count: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        async for _ in group:
            count -= 1
            if not count:
                return


def stories(rows: list[Row]) -> dict[str, list[object]]:
    """What is told of each member, without numbers and times that are chance, message by message."""
    told: dict[str, list[object]] = defaultdict(list)
    for row in rows:
        who = name_of(row.member or row.writer)
        if row.kind in ("send", "deliver", "receive"):
            # Rows of one turn are merged; which messages share a turn is chance.
            told[f"{who} {row.kind}"] += [(name_of(row.sender or ""), number) for number in range(row.first, row.last + 1)]
            told[f"{who} {row.kind} names"] += [(seqno, name_of(sender), number) for seqno, sender, number in row.names or ()]
        elif row.kind == "view":
            told[f"{who} views"].append([name_of(member) for member in row.members or ()])
        elif row.kind not in SAMPLES:
            told[f"{who} {row.kind}"].append(row.note if row.kind == "leave" else None)
    return told


def test_a_node_and_the_simulator_tell_the_same_of_the_same_program(tmp_path: Path) -> None:
    """What was proved of traces of the simulator would say nothing about those of real nodes."""
    asyncio.run(converse(lambda name: antiphon.Node(name, transport="memory", trace=tmp_path)))
    world = World(1, trace=True)
    world.run(converse(world.node))
    real, simulated = read(tmp_path).rows(), world.rows()
    assert stories(real) == stories(simulated)
    filled = [
        {row.kind: frozenset(c for c, value in row._asdict().items() if value is not None) for row in rows} for rows in (real, simulated)
    ]
    for kind in (filled[0].keys() & filled[1].keys()) - SAMPLES - {"send", "deliver", "view"}:
        assert filled[0][kind] == filled[1][kind], f"the columns of {kind}"
    assert {file.reason for file in read(tmp_path).files} == {""}


def test_nothing_is_recorded_where_that_is_not_asked_for(tmp_path: Path) -> None:
    """Everybody would pay for what few use."""
    program = dedent("""
        import asyncio, sys, threading, antiphon
        async def main():
            async with antiphon.Node("ana", transport="memory") as node:
                group = await node.create("g")
                await group.send(b"x")
                assert [thread.name for thread in threading.enumerate() if "trace" in thread.name] == []
                assert all(member.transcript is None for member in node.core.memberships.values())
                assert "trace" not in node.stats()
        asyncio.run(main())
        assert "pyarrow" not in sys.modules
    """)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=LIMIT_S, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


_FLOOD = dedent("""
    import asyncio, sys, antiphon
    from antiphon.trace import Trace
    async def main():
        trace = Trace(directory=sys.argv[1], run="killed", rotate_s=0.1)
        async with antiphon.Node("ana", transport="memory", trace=trace) as node:
            group = await node.create("g", order="total")
            async def send():
                while True:
                    await group.send_many([b"x" * 100] * 64)
                    await asyncio.sleep(0)
            asyncio.create_task(send())
            count = 0
            async for batch in group.batches():
                count += 1
                if count % 100 == 0:
                    print(node.stats()["trace"]["files"], flush=True)
    asyncio.run(main())
""")


def test_who_is_killed_leaves_whole_files_without_a_gap(tmp_path: Path) -> None:
    """A crash, the very thing that one wants to understand, would take its own evidence along."""
    process = subprocess.Popen([sys.executable, "-c", _FLOOD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    killer = threading.Timer(LIMIT_S, process.kill)
    killer.start()
    try:
        assert process.stdout is not None
        assert any(int(line) >= 3 for line in process.stdout), "it ended by itself"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(LIMIT_S)
        killer.cancel()
        process.stdout.close()  # type: ignore[union-attr]
    contents = read(tmp_path)
    assert all(file.reason.startswith("unfinished") for file in contents.files if file.reason)
    assert sum(not file.reason for file in contents.files) >= 3
    (writer,) = contents.writers()
    assert (writer.missing, writer.repeated, writer.ended) == (0, 0, "")
    assert writer.contiguous == writer.rows - 1
    assert writer.deliveries > 0
    assert writer.run == "killed"


def test_a_node_that_cannot_record_does_not_start(tmp_path: Path) -> None:
    """Somebody would rely on a trace that is not written."""
    (tmp_path / "file").write_text("")

    async def start() -> None:
        node = antiphon.Node("ana", transport="memory", trace=tmp_path / "file")
        with pytest.raises(InvalidOption, match="no trace can be written"):
            await node.start()

    asyncio.run(start())
    assert not [thread for thread in threading.enumerate() if "trace" in thread.name]


def test_the_trace_of_a_node_is_counted_and_whole_when_it_is_closed(tmp_path: Path) -> None:
    """Nobody would know whether rows were missed, or whether a closed node's trace may be read already."""

    async def live() -> antiphon.Node:
        async with antiphon.Node("ana", transport="memory", trace=Trace(directory=str(tmp_path), run="r", checks="each")) as node:
            group = await node.create("g")
            await group.send_many([b"x"] * 100)
            await asyncio.sleep(0.05)
        return node

    told: Any = asyncio.run(live()).stats()["trace"]
    contents = read(tmp_path)
    assert told == {"rows": contents.table.num_rows, "files": 1, "waiting": 0, "dropped": 0, "lost": 0, "error": ""}
    assert [(one.ended, one.deliveries) for one in contents.writers()] == [("close", 100)]
    (sent,) = [row for row in contents.rows() if row.kind == "send"]
    assert len(sent.checks or ()) == 100
