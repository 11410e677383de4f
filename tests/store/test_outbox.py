"""The outbox: what was acknowledged is on disk, and a file that is no good is refused."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from antiphon.errors import BadStore, StoreFull
from antiphon.store.outbox import Outbox
from antiphon.store.outbox_file import OutboxFile
from antiphon.store.records import Entry

PATIENCE_S = 60.0


def values(*numbers: int) -> list[Entry]:
    return [Entry(b"%d" % number) for number in numbers]


# --- what is acknowledged is kept ----------------------------------------------------------------------------------------------


def test_acknowledged_values_survive_a_kill(tmp_path: Path, outbox_at: Any, spawned: Any) -> None:
    """A node that loses its power in the field loses reports it had confirmed."""
    program = """
        import asyncio, sys
        from antiphon.store.outbox import Outbox
        from antiphon.store.records import Entry
        async def main():
            outbox = Outbox(sys.argv[1], node="hotline")
            await outbox.open()
            number = 0
            while True:
                await outbox.put("crash", None, [Entry(b"%d" % (number + k)) for k in range(3)])
                number += 3
                print(number, flush=True)
        asyncio.run(main())
    """
    process = spawned(program, tmp_path / "outbox.db")
    assert process.stdout is not None
    told = [process.stdout.readline() for _ in range(40)]
    process.kill()
    told += process.stdout.read().splitlines(keepends=True)
    process.wait(PATIENCE_S)
    acknowledged = max(int(line) for line in told if line.endswith("\n"))

    async def story() -> list[int]:
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            waiting = await outbox.waiting("crash", 1_000_000, 1 << 30)
            assert waiting is not None
            return [int(entry.data) for entry in waiting.entries]

    kept = asyncio.run(story())
    assert len(kept) >= acknowledged >= 120
    assert len(kept) % 3 == 0, "half a put was kept"
    assert kept == list(range(len(kept)))


def test_acknowledged_after_the_sync(tmp_path: Path) -> None:
    """The node says that a report is safe, the power fails, and it was only on its way to the disk."""
    if not (strace := shutil.which("strace")):
        pytest.skip("strace is not installed")
    program = """
        import asyncio, os, sys
        from antiphon.store.outbox import Outbox
        from antiphon.store.records import Entry
        async def main():
            outbox = Outbox(sys.argv[1], node="hotline")
            await outbox.open()
            for number in range(5):
                os.write(1, b"asks %d\\n" % number)
                await outbox.put("crash", None, [Entry(b"report %d" % number)])
                os.write(1, b"kept %d\\n" % number)
            os._exit(0)
        asyncio.run(main())
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "box")]
    traced = subprocess.run(
        [strace, "-f", "-y", "-e", "trace=write,pwrite64,fsync,fdatasync", *command],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    if "asks 0" not in traced.stdout:
        pytest.skip("processes may not be traced here")
    assert "kept 4" in traced.stdout
    calls = traced.stderr.splitlines()
    for number in range(5):
        asks = next(at for at, call in enumerate(calls) if f"asks {number}" in call)
        kept = next(at for at, call in enumerate(calls) if f"kept {number}" in call)
        of_the_log = [call for call in calls[asks:kept] if "box-wal" in call]
        assert any("pwrite64" in call for call in of_the_log)
        assert "sync(" in of_the_log[-1], "the last that happens to the file before the answer is a sync"


async def several(outbox: Outbox, puts: Sequence[Sequence[int]]) -> list[int]:
    return await asyncio.gather(*(outbox.put("crash", None, values(*numbers)) for numbers in puts))


def test_puts_that_wait_together_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outbox_at: Any) -> None:
    """A node with a thousand reports a second waits for a thousand syncs of the disk, and falls behind."""
    commits: list[int] = []
    commit = OutboxFile.commit
    monkeypatch.setattr(OutboxFile, "commit", lambda file: (commits.append(1), commit(file))[1])

    async def story() -> list[int]:
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            return await several(outbox, [[n] for n in range(200)])

    assert asyncio.run(story()) == list(range(1, 201)), "in the order of the calls"
    assert len(commits) < 50


def test_bounds(tmp_path: Path, outbox_at: Any) -> None:
    """A store that stays away fills the disk of every node; or a refused report is sent later all the same."""

    async def story() -> None:
        async with outbox_at(tmp_path / "outbox.db", values=5, size=20) as outbox:
            await outbox.put("crash", None, values(1, 2, 3))
            with pytest.raises(StoreFull, match="5 values"):
                await outbox.put("crash", None, values(4, 5, 6))
            assert await outbox.put("crash", None, values(7, 8)) == 5, "exactly full is not too full"
            assert (outbox.values, outbox.size) == (5, 5)
        async with outbox_at(tmp_path / "outbox.db", values=50, size=20) as outbox:
            assert (outbox.values, outbox.size) == (5, 5), "counted again after a restart"
            with pytest.raises(StoreFull, match="20 bytes"):
                await outbox.put("crash", None, [Entry(b"x" * 16)])
            await outbox.put("crash", None, [Entry(b"x" * 15)])
            waiting = await outbox.waiting("crash", 100, 100)
            assert waiting is not None
            assert [entry.data for entry in waiting.entries] == [b"1", b"2", b"3", b"7", b"8", b"x" * 15]

    asyncio.run(story())


def test_disk_full(tmp_path: Path, outbox_at: Any) -> None:
    """A full disk takes with it the reports of others that wait for the same sync, or ends the outbox for good."""

    async def story() -> None:
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            await outbox._ask(lambda file: file._run("PRAGMA max_page_count = 16"), alone=True)
            large = outbox.put("crash", None, [Entry(b"x" * 200_000)])
            small, other = outbox.put("crash", None, values(1)), outbox.put("crash", None, values(2))
            outcomes = await asyncio.gather(small, large, other, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [int, StoreFull, int]
            waiting = await outbox.waiting("crash", 100, 100)
            assert waiting is not None
            assert [entry.data for entry in waiting.entries] == [b"1", b"2"]
            assert outbox.size == 2

    asyncio.run(story())


def test_cancelled_put_is_counted_as_it_is_kept(tmp_path: Path, outbox_at: Any) -> None:
    """A publish that its caller gave up is on disk and nobody counts it: the next value overtakes it."""

    async def story() -> None:
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            for turns in range(6):
                put = asyncio.ensure_future(outbox.put("crash", None, values(turns)))
                for _ in range(turns):
                    await asyncio.sleep(0)
                put.cancel()
                with suppress(asyncio.CancelledError):
                    await put
                await outbox.put("other", None, values(turns))
                waiting = await outbox.waiting("crash", 100, 100)
                assert outbox.pending("crash") == (len(waiting.entries) if waiting else 0)
            assert outbox.pending("crash") > 0, "nothing was ever begun"

    asyncio.run(story())


# --- files that are no good ----------------------------------------------------------------------------------------------------


def directory(path: Path) -> None:
    path.mkdir()


def noise(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + Random(1).randbytes(8_000))


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE recipes (name)")
    database.close()


def of_the_future(path: Path) -> None:
    OutboxFile(path, "hotline").close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 9")
    database.close()


def of_another(path: Path) -> None:
    OutboxFile(path, "kitchen").close()


def torn(path: Path) -> None:
    file = OutboxFile(path, "hotline")
    file.begin()
    file.put("crash", None, [Entry(bytes([n]) * 3_000) for n in range(50)], None, 0)
    file.commit()
    file.close()
    content = bytearray(path.read_bytes())
    for at in range(4 * 4_096, len(content), 4_096):
        content[at : at + 64] = b"\xff" * 64
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (directory, "directory"),
        (noise, "lost|malformed"),
        (foreign, "something else"),
        (of_the_future, "version 9"),
        (of_another, "'kitchen'"),
        (torn, "lost|malformed"),
    ],
)
def test_refused_files(tmp_path: Path, spoil: Callable[[Path], None], told: str) -> None:
    """A damaged or foreign file is taken for an empty outbox, and what waited in it is gone without a word."""
    path = tmp_path / "outbox.db"
    spoil(path)
    with pytest.raises(BadStore, match=told) as refused:
        asyncio.run(Outbox(path, node="hotline").open())
    assert str(path) in str(refused.value)


def test_no_directory(tmp_path: Path) -> None:
    """A mistyped path is told as a database error that says nothing."""
    with pytest.raises(BadStore, match="directory is not there"):
        asyncio.run(Outbox(tmp_path / "no" / "outbox.db", node="hotline").open())


def test_one_process_at_a_time(tmp_path: Path, outbox_at: Any, spawned: Any) -> None:
    """Two processes drain one outbox, and each removes what the other has not sent."""
    program = """
        import asyncio, sys
        from antiphon.store.outbox import Outbox
        async def main():
            await Outbox(sys.argv[1], node="hotline").open()
            print("open", flush=True)
            await asyncio.sleep(600)
        asyncio.run(main())
    """
    holder = spawned(program, tmp_path / "outbox.db")
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == "open"

    async def again() -> None:
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            with pytest.raises(BadStore, match="open"):
                await Outbox(tmp_path / "outbox.db", node="hotline").open()
            await outbox.put("crash", None, values(1))

    with pytest.raises(BadStore, match="another process"):
        asyncio.run(again())
    holder.kill()
    holder.wait(PATIENCE_S)
    asyncio.run(again())  # a killed process leaves no lock behind
