"""Several processes on one file: killed in the middle, stopped and copied, all at once."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon.store.records import Entry
from antiphon.store.sqlite import SqliteBackend
from antiphon.store.sqlite import writer as writing

BATCH = 17


async def test_killed_in_the_middle_of_publishing(file: Path, opened: Any, started: Callable[..., Any]) -> None:
    """A publisher that is killed would lose what was acknowledged, leave half a batch, or write twice when it comes back."""
    chance = random.Random(4)
    acknowledged = 0
    for _ in range(8):
        publisher = started("publish", file, "t", "p", BATCH, 10_000)
        assert await publisher.line() == "ready"
        for _ in range(chance.randint(1, 12)):
            acknowledged = int(await publisher.line())
        await asyncio.sleep(chance.random() / 200)
        publisher.signal(signal.SIGKILL)
        acknowledged = max([acknowledged, *map(int, (await publisher.output()).split())])
        async with opened(file) as store:
            last = (await store.info("t")).last
            assert last >= acknowledged
            assert last % BATCH == 0, "whole batches"
            assert await texts(store, "t") == [f"p/{number}" for number in range(1, last + 1)]
    assert integrity(file) == "ok"


async def test_stopped_and_copied(file: Path, tmp_path: Path, opened: Any, started: Callable[..., Any], stopped: Any) -> None:
    """What lies on the disk at some moment would not be a store: after a loss of power acknowledged values would be missing."""
    names = ["a", "b", "c"]
    writers = {name: started("publish", file, f"topic {name}", name, BATCH, 10_000) for name in names}
    for writer in writers.values():
        assert await writer.line() == "ready"
    for moment in range(3):
        acknowledged = {}
        for _ in range(5):
            for name, writer in writers.items():
                acknowledged[name] = int(await writer.line())
        for writer in writers.values():
            writer.signal(signal.SIGSTOP)
        for writer in writers.values():
            await stopped(writer.pid)
        copy = tmp_path / f"copy{moment}"
        copy.mkdir()
        for end in ("", "-wal"):  # the third file is shared memory, which a loss of power takes away
            shutil.copy(f"{file}{end}", copy / f"{file.name}{end}")
        for writer in writers.values():
            writer.signal(signal.SIGCONT)
        async with opened(copy / file.name) as store:
            for name in names:
                there = await texts(store, f"topic {name}")
                assert len(there) >= acknowledged[name]
                assert len(there) % BATCH == 0, "whole batches"
                assert there == [f"{name}/{number}" for number in range(1, len(there) + 1)]
        assert integrity(copy / file.name) == "ok"
    for name, writer in writers.items():
        assert int(await writer.line()) > acknowledged[name], "they go on"
        writer.end()


async def test_several_open_a_new_file_at_once(file: Path, opened: Any, started: Callable[..., Any]) -> None:
    """Processes that are started together would each make the tables, or find them half made."""
    processes = [started("publish", file, f"t{number}", "p", 2, 3) for number in range(6)]
    outputs = await asyncio.gather(*(process.output() for process in processes))
    assert outputs == ["ready\n2\n4\n6\n"] * 6
    async with opened(file) as store:
        assert [(info.name, info.last) for info in await store.topics()] == [(f"t{number}", 6) for number in range(6)]


async def test_the_log_stays_bounded(file: Path, opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that read and write all the time would never let each other finish a checkpoint, and the log would fill the disk."""
    monkeypatch.setattr(writing, "WAL_BYTES", 1 << 20)
    async with opened(file) as store:
        grant = await store.register("t", "p")
        log, number = Path(f"{file}-wal"), 1
        reading = sqlite3.connect(file, isolation_level=None)
        reading.execute("BEGIN")
        reading.execute("SELECT count(*) FROM value").fetchone()
        for _ in range(130):
            await store.publish(grant, number, [Entry(bytes(1_000))] * 50, synced=False)
            number += 50
        assert log.stat().st_size > 4 << 20, "while somebody reads what was, it cannot begin anew"
        reading.execute("COMMIT")
        reading.close()
        for _ in range(65):
            await store.publish(grant, number, [Entry(b"")], synced=False)
            number += 1
        assert log.stat().st_size <= 2 << 20


async def texts(store: SqliteBackend, topic: str) -> list[str]:
    reader = await store.reader(topic, 0)
    found: list[str] = []
    while values := (await reader.take(1_000, 0)).values:
        found += [value.data.decode() for value in values]
    return found


def integrity(file: Path) -> str:
    connection = sqlite3.connect(file)
    try:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])
    finally:
        connection.close()
