"""One write transaction as the work in it sees it: where to execute, what time it is, the next revision, who must be told."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar
from zlib import crc32

from antiphon.store.records import Moment
from antiphon.store.sqlite.clock import BootClock, advance
from antiphon.store.sqlite.faults import is_busy

_FIRST_PAUSE_S, _PAUSE_S = 0.0005, 0.01

Channel = int
"""What somebody waits for: a topic's id, or (below zero) one of the records that share a checksum of their keys."""


T = TypeVar("T")
Work = Callable[["Transaction"], T]


class Transaction:
    __slots__ = ("_revision", "channels", "connection", "execute", "executemany", "now")

    def __init__(self, connection: sqlite3.Connection, clock: BootClock, busy_s: float) -> None:
        """Begins; waits for the transactions of others at most `busy_s`."""
        _begin(connection, busy_s)
        self.connection = connection
        self.execute, self.executemany = connection.execute, connection.executemany
        self.now: Moment
        self.now, self._revision = advance(connection, clock)
        self.channels: set[Channel] = set()
        """Whoever waits on one of these looks again after the commit."""

    def next_revision(self) -> int:
        self._revision += 1
        return self._revision

    def commit(self) -> None:
        # Always writes: a commit that wrote nothing would not sync what was written before without being synced.
        self.execute("UPDATE clock SET latest = ?, revision = ?", (self.now, self._revision))
        self.execute("COMMIT")


def _begin(connection: sqlite3.Connection, busy_s: float) -> None:
    """SQLite itself waits longer and longer, up to a tenth of a second, so that a process that comes back at once overtakes those who wait,
    again and again, for a second or more. Here everybody asks again soon, and by chance sooner or later than the others."""
    begun = time.monotonic()
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            waited = time.monotonic() - begun
            if not is_busy(error) or waited >= busy_s:
                raise
        time.sleep(random.uniform(0.2, 1.0) * min(_PAUSE_S, max(_FIRST_PAUSE_S, waited / 10)))


def channel_of_record(key: str) -> Channel:
    return -1 - crc32(key.encode("utf-8", "surrogatepass"))
