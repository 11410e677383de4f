"""What an open store has: connections, the threads that use them, the socket; built as a whole or not at all, and taken down in order."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from functools import partial
from typing import NamedTuple

from antiphon.errors import BadStore
from antiphon.store.sqlite.address import SqliteAddress
from antiphon.store.sqlite.clock import BootClock, NoClock
from antiphon.store.sqlite.faults import is_busy, told
from antiphon.store.sqlite.readers import Readers
from antiphon.store.sqlite.schema import connect, prepare
from antiphon.store.sqlite.wake import Wake
from antiphon.store.sqlite.writer import Writer

READERS = 2
_RETRY_S = 0.02


class House:
    def __init__(self, connections: Connections, address: SqliteAddress, clock: BootClock) -> None:
        self.clock = clock
        self.loop = asyncio.get_running_loop()
        self.readers = Readers(connections.readers, address)
        versions: dict[sqlite3.Connection, int] = {}
        self.wake = Wake(address.wake_directory, lambda: self.readers.look(partial(_has_changed, versions)))
        self.writer = Writer(connections.writer, connections.file, address, clock, ring=self.wake.ring, rang=self.wake.rang)

    @classmethod
    async def built(cls, address: SqliteAddress, clock: BootClock | None) -> House:
        address.check()
        try:
            clock = clock or BootClock()
        except NoClock as error:
            raise BadStore(address.url, str(error)) from None
        connecting = asyncio.get_running_loop().run_in_executor(None, _connections, address, clock)
        try:
            connections = await asyncio.shield(connecting)
        except asyncio.CancelledError:
            connecting.add_done_callback(_take_down)
            raise
        return cls(connections, address, clock)

    async def close(self) -> None:
        # The writer first: what was submitted is still answered, and still rung.
        await self.writer.close()
        await self.wake.close()
        await self.readers.close()


class Connections(NamedTuple):
    writer: sqlite3.Connection
    readers: list[sqlite3.Connection]
    file: tuple[int, int]
    """Which file it is, by whatever name: its device and inode."""


def _connections(address: SqliteAddress, clock: BootClock) -> Connections:
    """Connections to a file that is a store."""
    connections: list[sqlite3.Connection] = []
    try:
        connections.append(connect(address))
        _patiently_prepare(connections[0], address, clock)
        if address.max_bytes:
            (page_bytes,) = connections[0].execute("PRAGMA page_size").fetchone()
            connections[0].execute(f"PRAGMA max_page_count={address.max_bytes // page_bytes}")
        for _ in range(READERS):
            connections.append(connect(address))
            connections[-1].execute("PRAGMA query_only=ON")
        status = os.stat(address.path)
    except Exception as error:
        for connection in connections:
            connection.close()
        raise told(error, address.url) from error
    return Connections(connections[0], connections[1:], (status.st_dev, status.st_ino))


def _patiently_prepare(connection: sqlite3.Connection, address: SqliteAddress, clock: BootClock) -> None:
    """Changing to a write-ahead log is refused at once, without the busy time-out, while another process does the same."""
    deadline = time.monotonic() + address.busy_s
    while True:
        try:
            return prepare(connection, address, clock)
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= deadline:
                raise
        time.sleep(_RETRY_S)


def _take_down(connecting: asyncio.Future[Connections]) -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        writer, readers, _ = connecting.result()
        for connection in (writer, *readers):
            connection.close()


def _has_changed(versions: dict[sqlite3.Connection, int], connection: sqlite3.Connection) -> bool:
    """Whether anybody has committed since this was last asked of this connection."""
    version: int = connection.execute("PRAGMA data_version").fetchone()[0]
    before, versions[connection] = versions.get(connection), version
    return before != version
