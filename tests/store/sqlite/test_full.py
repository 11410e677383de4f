"""A store without room refuses, has written nothing of what it refused, and goes on when there is room."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.errors import StoreFull
from antiphon.store.records import SECOND, Entry, Grant
from antiphon.store.sqlite import SqliteBackend

HOUR = 3600 * SECOND
BATCH = [Entry(b"x" * 1_000)] * 50


async def fill(store: SqliteBackend, grant: Grant, number: int = 1) -> int:
    """Publishes until it is refused; the newest own number that was acknowledged."""
    for _ in range(1_000):
        try:
            receipt = await store.publish(grant, number, BATCH)
        except StoreFull:
            return number - 1
        assert receipt.last - receipt.first == len(BATCH) - 1
        number += len(BATCH)
    raise AssertionError("it was never full")


async def goes_on_after_collecting(store: SqliteBackend) -> None:
    grant = await store.register("t", "p")
    subscriber = await store.subscribe("t", "s", HOUR)
    newest = await fill(store, grant)
    assert newest > 0
    info = await store.info("t")
    assert (info.last, info.values) == (newest, newest), "nothing of what was refused is there"
    with pytest.raises(StoreFull, match="nothing was written"):
        await store.publish(grant, newest + 1, BATCH)
    subscriber = await store.update(replace(subscriber, position=newest, state=b"done"))
    collected = await store.collect("t", await store.time())
    assert (collected.floor, collected.removed) == (newest, newest)
    again = await fill(store, grant, newest + 1)
    assert again >= newest + newest // 2, "the room was used again"
    reader = await store.reader("t", newest)
    count = 0
    while values := (await reader.take(1_000, 0)).values:
        count += len(values)
    assert count == again - newest


async def test_a_limit(file: Path, opened: Any) -> None:
    """A store would fill the disk of everybody else, or stay full for ever once it was."""
    async with opened(f"sqlite:{file}?max_bytes=2000000") as store:
        await goes_on_after_collecting(store)
        assert file.stat().st_size <= 2_000_000


async def test_one_that_does_not_fit_does_not_take_others_along(file: Path, opened: Any, locked: Any) -> None:
    """Everybody who wrote in the same moment as somebody with too much would be refused as well."""
    async with opened(file, max_bytes=1 << 20) as store:
        grant = await store.register("t", "p")
        with locked(file):
            calls: list[asyncio.Task[Any]] = [
                asyncio.create_task(call)
                for call in (
                    store.put("one", b"", 0),
                    store.put("two", b"", 0),
                    store.publish(grant, 1, [Entry(bytes(2 << 20))]),
                    store.put("three", b"", 0),
                )
            ]
            await asyncio.sleep(0.1)
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(outcome).__name__ for outcome in outcomes] == ["Record", "Record", "StoreFull", "Record"]
        assert [record.key for record in await store.records("")] == ["one", "three", "two"]
        assert (await store.publish(grant, 1, [Entry(b"small")])).last == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "disk"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(directory)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False, timeout=20).returncode:
        pytest.skip("this machine does not let the test make a small disk")
    yield directory
    subprocess.run(["umount", str(directory)], check=True, timeout=20)


async def test_a_disk_without_room(small_disk: Path, opened: Any) -> None:
    """Whoever fills the disk would make the store lose what it had acknowledged, or stop it for good."""
    others = small_disk / "of others"
    others.write_bytes(bytes(5 << 20))
    async with opened(small_disk / "a.db") as store:
        grant = await store.register("t", "p")
        newest = await fill(store, grant)
        assert newest > 0
        others.unlink()
        receipt = await store.publish(grant, newest + 1, BATCH)
        assert (receipt.first, receipt.last) == (newest + 1, newest + len(BATCH))
        values = (await (await store.reader("t", 0)).take(10_000, 0)).values
        assert [value.seq for value in values] == list(range(1, receipt.last + 1))
