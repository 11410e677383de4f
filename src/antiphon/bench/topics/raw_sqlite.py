"""The same on bare SQLite: one table, one connection, WAL, `synchronous=FULL`, one transaction per batch."""

from __future__ import annotations

import sqlite3
from pathlib import Path


class RawSqlite:
    def __init__(self, path: Path, size: int) -> None:
        self._path, self._value = path, bytes(size)
        self._last = self._position = 0

    async def open(self) -> None:
        self._database = sqlite3.connect(self._path, isolation_level=None)
        execute = self._database.execute
        execute("pragma journal_mode=wal")
        execute("pragma synchronous=full")
        execute("create table value (id integer primary key, time integer, key text, data blob)")
        execute("create table reader (id integer primary key, position integer)")
        execute("insert into reader values (1, 0)")

    async def close(self) -> None:
        self._database.close()

    async def publish(self, batch: int) -> None:
        first = self._last + 1
        rows = [(number, first, "", self._value) for number in range(first, first + batch)]
        self._database.execute("begin immediate")
        self._database.executemany("insert into value values (?, ?, ?, ?)", rows)
        self._database.execute("commit")
        self._last += batch

    async def rewind(self) -> None:
        self._position = 0

    async def read(self, batch: int) -> int:
        rows = self._database.execute("select * from value where id > ? order by id limit ?", (self._position, batch)).fetchall()
        if rows:
            self._position = rows[-1][0]
            self._database.execute("begin immediate")
            self._database.execute("update reader set position = ? where id = 1", (self._position,))
            self._database.execute("commit")
        return len(rows)
