"""What is no store, or cannot be used as one, is refused in one sentence, and is left as it was."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import BadStore, InvalidOption, StoreUnreachable
from antiphon.store.records import Entry
from antiphon.store.sqlite import SqliteBackend, address
from antiphon.store.sqlite.address import parse
from antiphon.store.sqlite.mounts import NETWORK, file_system


def a_directory(file: Path) -> None:
    file.mkdir()


def a_text(file: Path) -> None:
    file.write_text("Dear diary, this is no database, and nobody should make one of it.\n" * 100)


def of_another_program(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE topic (name TEXT)")
    connection.commit()
    connection.close()


def of_a_newer_version(file: Path) -> None:
    make(file)
    _change(file, "PRAGMA user_version=99")


def without_its_tables(file: Path) -> None:
    make(file)
    _change(file, "DROP TABLE clock")


def cut_off(file: Path) -> None:
    make(file)
    os.truncate(file, 5_000)


def overwritten(file: Path) -> None:
    make(file)
    with file.open("r+b") as disk:
        disk.seek(100)
        disk.write(b"\xa5" * (file.stat().st_size - 100))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (a_directory, "it is a directory"),
        (a_text, "no database"),
        (of_another_program, "a database of another program"),
        (of_a_newer_version, "version 99 and this Antiphon knows version 1"),
        (without_its_tables, "does not have the tables"),
        (cut_off, "damaged"),
        (overwritten, "damaged"),
    ],
)
async def test_what_is_no_store(file: Path, spoil: Callable[[Path], None], why: str) -> None:
    """Somebody's file would be overwritten, or the program would end with an error of a library that nobody understands."""
    await asyncio.to_thread(spoil, file)
    before = file.read_bytes() if file.is_file() else b""
    store = SqliteBackend(file)
    with pytest.raises(BadStore, match=why) as caught:
        await store.open()
    assert str(caught.value).startswith(f"sqlite:{file} cannot be used as a store: ")
    assert "\n" not in str(caught.value)
    if file.is_file():
        assert file.read_bytes() == before
    with pytest.raises(StoreUnreachable, match="not open"):
        await store.time()


@pytest.mark.parametrize("begin", [25 * 8_192, 200_000])
async def test_a_store_damaged_in_the_middle_says_so_when_it_is_read(file: Path, opened: Any, begin: int) -> None:
    """Damage that is not at the beginning would come out as a wrong value, or as an error without a name."""
    async with opened(file) as store:
        grant = await store.register("t", "p")
        for number in range(1, 1_000, 100):
            await store.publish(grant, number, [Entry(b"x" * 1_000)] * 100)
    with file.open("r+b") as disk:
        disk.seek(begin)  # of a page, or within one that seems to be a good one
        disk.write(b"\xa5" * 600_000)
    async with opened(file) as store:
        reader = await store.reader("t", 0)
        with pytest.raises(BadStore, match="damaged"):
            await reader.take(1_000, 0)


async def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """The error would be that of a library: unable to open database file."""
    with pytest.raises(BadStore, match="there is no directory"):
        await SqliteBackend(tmp_path / "nowhere" / "a.db").open()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not")
async def test_without_permission(file: Path, opened: Any, started: Callable[..., Any]) -> None:
    """A user who may not write would see a traceback, or wait for ever."""
    async with opened(file) as store:
        await store.register("t", "p")
    shared = Path(f"/tmp/antiphon-{os.getpid()}-{file.parent.name}")
    for mode, said in ((0o700, "BadStore"), (0o755, "BadStore")):
        shutil.copytree(file.parent, shared)
        shared.chmod(mode)
        try:
            answer = await started("time", shared / "a.db", become=65_534).output()
        finally:
            shutil.rmtree(shared)
        assert answer.startswith(said), answer
        assert "may" in answer


async def test_locked_for_too_long(file: Path, opened: Any, locked: Any) -> None:
    """A process that was stopped in the middle of a transaction would stop every other one without a word."""
    async with opened(file, busy_s=0.2) as store:
        grant = await store.register("t", "p")
        with locked(file):
            with pytest.raises(StoreUnreachable, match="locked for too long"):
                await store.publish(grant, 1, [Entry(b"a")])
            assert (await store.info("t")).last == 0, "reading goes on"
        assert (await store.publish(grant, 1, [Entry(b"a")])).last == 1


async def test_locked_when_it_is_opened(file: Path, locked: Any) -> None:
    """Opening would hang, or call a busy store a bad one."""
    await asyncio.to_thread(make, file)
    store = SqliteBackend(file, busy_s=0.2)
    with locked(file), pytest.raises(StoreUnreachable, match="locked"):
        await store.open()
    await store.open()
    await store.close()


@pytest.mark.parametrize("replace", [False, True])
async def test_a_file_that_was_removed_while_it_was_open(file: Path, opened: Any, replace: bool) -> None:
    """Values would be acknowledged that are in no file any more."""
    async with opened(file) as store:
        grant = await store.register("t", "p")
        file.rename(file.with_suffix(".old"))
        if replace:
            file.write_bytes(b"")
        with pytest.raises(BadStore, match="while it was open"):
            await store.publish(grant, 1, [Entry(b"a")])


async def test_numbers_that_no_column_holds(file: Path, opened: Any) -> None:
    """The error would be that of a library: Python int too large to convert to SQLite INTEGER."""
    async with opened(file) as store:
        grant = await store.register("t", "p")
        huge = 1 << 70
        for call in (store.subscribe("t", "s", huge), store.publish(grant, huge, [Entry(b"")])):
            with pytest.raises(InvalidOption, match="63 bits"):
                await call
        with pytest.raises(InvalidOption, match="has no values yet"):
            await store.subscribe("t", "s", 1, huge)
        reader = await store.reader("t", 1 << 70)
        assert not (await reader.take(1 << 70, 0)).values
        assert await store.erase(grant, [-1, 0, 1, 1 << 70]) == 0
        assert (await store.info("t")).last == 0


def test_network_file_systems_are_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two machines would write to one file at the same time and destroy it."""
    monkeypatch.setattr(address, "file_system", lambda path: "nfs4")
    with pytest.raises(BadStore, match=r"network file system \(nfs4\)"):
        asyncio.run(SqliteBackend(file).open())


MOUNTS = r"""
22 1 254:0 / / rw,relatime - ext4 /dev/root rw
30 22 0:26 / /mnt/share rw - nfs4 server:/share rw
31 30 254:1 / /mnt/share/local rw - xfs /dev/vdb rw
32 22 0:30 / /mnt/with\040space rw shared:7 - fuse.sshfs me@there: rw
33 22 0:31 / /mnt/twice rw - tmpfs tmpfs rw
34 33 0:32 / /mnt/twice rw - cifs //server/x rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me/a.db", "ext4"),
        ("/mnt/share", "nfs4"),
        ("/mnt/share/a/b", "nfs4"),
        ("/mnt/shared", "ext4"),
        ("/mnt/share/local/a", "xfs"),
        ("/mnt/with space/a", "fuse.sshfs"),
        ("/mnt/twice/a", "cifs"),
    ],
)
def test_the_file_system_of_a_path(path: str, kind: str) -> None:
    """A network file system would not be recognised below a mount point of another one, or behind a space in its name."""
    assert file_system(path, MOUNTS) == kind


def test_this_machine_says_what_its_files_lie_on(tmp_path: Path) -> None:
    """The list would be read wrongly on a real machine, and everything be accepted."""
    if not Path("/proc/self/mountinfo").exists():
        pytest.skip("this system does not list its mounts there")
    kind = file_system(str(tmp_path.resolve()))
    assert kind
    assert kind not in NETWORK
    assert file_system("/proc") == "proc"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("sqlite:", "names no file"),
        ("sqlite::memory:", "names no file"),
        ("sqlite:a\0b", "names no file"),
        ("sqlite:a.db?max_bytes=much", "are numbers"),
        ("sqlite:a.db?max_bytes=1000", "too little"),
        ("sqlite:a.db?max_bytes=-1", "too little"),
        ("sqlite:a.db?busy_s=0", "no time to wait"),
        ("sqlite:a.db?busy_s=nan", "no time to wait"),
        ("sqlite:a.db?colour=red", "'colour' is not an option"),
    ],
)
def test_bad_addresses(url: str, why: str) -> None:
    """A misspelt option would be ignored, and the file grow without the bound that somebody asked for."""
    with pytest.raises(BadStore, match=why):
        SqliteBackend(url)


def test_addresses(tmp_path: Path) -> None:
    """A path with a space, a question mark or a home directory would name another file."""
    assert parse("sqlite:/x/a%3Fb%20c.db").path == "/x/a?b c.db"
    said = parse("sqlite:/x/a.db?max_bytes=2000000&busy_s=3")
    assert (said.path, said.max_bytes, said.busy_s) == ("/x/a.db", 2_000_000, 3.0)
    assert parse("/x/a.db", 2_000_000, 3.0).url == "sqlite:/x/a.db"
    assert parse("sqlite:///x/a.db").path == "/x/a.db"
    assert parse(tmp_path / "what?").path == str(tmp_path / "what?")
    assert parse("~/a.db").path == str(Path.home() / "a.db")


def make(file: Path) -> None:
    async def fill() -> None:
        store = SqliteBackend(file)
        await store.open()
        grant = await store.register("t", "p")
        await store.publish(grant, 1, [Entry(b"x" * 1_000)] * 100)
        await store.close()

    asyncio.run(fill())


def _change(file: Path, statement: str) -> None:
    connection = sqlite3.connect(file)
    connection.execute(statement)
    connection.commit()
    connection.close()
