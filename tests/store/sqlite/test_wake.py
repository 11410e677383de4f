"""Who waits is woken: by the socket, by looking where there is none, and whatever lies about beside the file."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon.store.records import Entry
from antiphon.store.sqlite import wake

NEVER_S = 3_600.0


async def test_a_commit_of_another_process_wakes(
    file: Path, opened: Any, started: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every value would arrive a quarter of a second late: without the socket there is only looking now and then."""
    monkeypatch.setattr(wake, "POLL_S", NEVER_S)
    async with opened(file) as store:
        await store.subscribe("t", "s", 1)
        reader = await store.reader("t", 0)
        waiting = asyncio.create_task(reader.take(10, 50.0))
        await asyncio.sleep(0.05)
        await started("publish", file, "t", "p", 3, 1).output()
        assert [value.data for value in (await waiting).values] == [b"p/1", b"p/2", b"p/3"]


async def test_this_process_wakes_another(file: Path, opened: Any, started: Callable[..., Any]) -> None:
    """A subscriber in another process would never hear of what is published here."""
    async with opened(file) as store:
        taker = started("take", file, "t")
        assert await taker.line() == "ready"
        grant = await store.register("t", "p")
        await store.publish(grant, 1, [Entry(b"hello")])
        assert await taker.line() == "hello"


async def test_a_record_wakes_who_watches_it(file: Path, opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member of a group would see a new view only after the time-out."""
    monkeypatch.setattr(wake, "POLL_S", NEVER_S)
    async with opened(file, file) as (one, other):
        watching = asyncio.create_task(other.watch("groups/root", 0, 50.0))
        await asyncio.sleep(0.05)
        record = await one.put("groups/root", b"first", 0)
        assert await watching == record
        watching = asyncio.create_task(other.watch("groups/root", record.revision, 50.0))
        await asyncio.sleep(0.05)
        await one.remove("groups/root", record.revision)
        assert await watching is None


def a_file_in_its_place(file: Path) -> None:
    Path(f"{file}-wake").write_text("")


def as_many_sockets_as_there_may_be(file: Path) -> None:
    Path(f"{file}-wake").mkdir()
    for number in range(wake.SOCKETS):
        Path(f"{file}-wake", str(number)).write_text("")


@pytest.mark.parametrize("obstruct", [a_file_in_its_place, as_many_sockets_as_there_may_be])
async def test_without_a_socket_it_looks(file: Path, opened: Any, obstruct: Callable[[Path], None]) -> None:
    """Where no socket can be made nobody would ever be woken."""
    obstruct(file)
    async with opened(file, file) as (one, other):
        assert not other._house.wake.has_socket
        grant = await one.register("t", "p")
        waiting = asyncio.create_task((await other.reader("t", 0)).take(1, 50.0))
        watching = asyncio.create_task(other.watch("k", 0, 50.0))
        await asyncio.sleep(0.05)
        await one.publish(grant, 1, [Entry(b"a")])
        await one.put("k", b"", 0)
        assert (await waiting).values[0].data == b"a"
        assert (await watching) is not None


async def test_a_path_too_long_for_a_socket(tmp_path: Path, opened: Any) -> None:
    """A store in a deep directory could not be opened at all."""
    directory = tmp_path / ("d" * 100)
    directory.mkdir()
    async with opened(directory / "a.db", directory / "a.db") as (one, other):
        assert not one._house.wake.has_socket
        grant = await one.register("t", "p")
        waiting = asyncio.create_task((await other.reader("t", 0)).take(1, 50.0))
        await asyncio.sleep(0.05)
        await one.publish(grant, 1, [Entry(b"a")])
        assert (await waiting).values[0].data == b"a"


async def test_sockets_of_the_dead_are_removed(file: Path, opened: Any, started: Callable[..., Any], until: Any) -> None:
    """Every process that was killed would cost every commit a system call, for ever, until no socket more may be made."""
    async with opened(file) as store:
        grant = await store.register("t", "p")
        listener = started("listen", file, "t")
        assert await listener.line() == "ready"
        assert len(os.listdir(f"{file}-wake")) == 2
        listener.signal(signal.SIGKILL)
        listener.end()
        number = iter(range(1, 100_000))

        async def is_alone() -> bool:
            await store.publish(grant, next(number), [Entry(b"x")])
            return len(os.listdir(f"{file}-wake")) == 1

        await until(is_alone)
    assert not Path(f"{file}-wake").exists()


async def test_a_process_that_does_not_listen_delays_nobody(file: Path, opened: Any, started: Callable[..., Any]) -> None:
    """A stopped process, whose socket is full, would stop everybody who publishes."""
    async with opened(file) as store:
        grant = await store.register("t", "p")
        listener = started("listen", file, "t")
        assert await listener.line() == "ready"
        listener.signal(signal.SIGSTOP)
        for number in range(1, 1_001):  # more than a socket holds
            await store.publish(grant, number, [Entry(b"x")], synced=False)
        listener.signal(signal.SIGCONT)
        assert (await store.info("t")).last == 1_000


async def test_rings_that_mean_nothing_cost_a_look(file: Path, opened: Any) -> None:
    """Anybody who may write to the directory could crash or deafen those who wait."""
    async with opened(file) as store:
        grant = await store.register("t", "p")
        waiting = asyncio.create_task((await store.reader("t", 0)).take(1, 50.0))
        await asyncio.sleep(0.05)
        (name,) = os.listdir(f"{file}-wake")
        stranger = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        for datagram in (b"", b"x", bytes(8), b"\xff" * 8 * wake.CHANNELS, b"z" * 5_000):
            stranger.sendto(datagram, f"{file}-wake/{name}")
        stranger.close()
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await store.publish(grant, 1, [Entry(b"a")])
        assert (await waiting).values[0].data == b"a"
