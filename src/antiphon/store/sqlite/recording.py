"""Records, inside a transaction: put and remove by compare-and-set; and how they are found. Costs O(log records)."""

from __future__ import annotations

import sqlite3

from antiphon.errors import Conflict
from antiphon.store.records import Record
from antiphon.store.sqlite.transaction import Transaction, channel_of_record


def put(transaction: Transaction, key: str, data: bytes, revision: int) -> Record:
    fresh = Record(key, data, transaction.next_revision())
    if revision:
        done = transaction.execute(
            "UPDATE record SET data = ?, revision = ? WHERE key = ? AND revision = ?", (data, fresh.revision, key, revision)
        )
    else:
        done = transaction.execute(
            "INSERT INTO record (key, revision, data) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (key, fresh.revision, data)
        )
    if not done.rowcount:
        raise _conflict(key)
    transaction.channels.add(channel_of_record(key))
    return fresh


def remove(transaction: Transaction, key: str, revision: int) -> None:
    row = transaction.execute("SELECT revision FROM record WHERE key = ?", (key,)).fetchone()
    if (row[0] if row else 0) != revision:
        raise _conflict(key)
    transaction.execute("DELETE FROM record WHERE key = ?", (key,))
    transaction.channels.add(channel_of_record(key))


def get(connection: sqlite3.Connection, key: str) -> Record | None:
    row = connection.execute("SELECT key, data, revision FROM record WHERE key = ?", (key,)).fetchone()
    return None if row is None else Record(*row)


def with_prefix(connection: sqlite3.Connection, prefix: str) -> list[Record]:
    # The greatest character of all ends the range: SQLite compares UTF-8 bytes, which sort as the characters do.
    rows = connection.execute(
        "SELECT key, data, revision FROM record WHERE key >= ? AND key < ? ORDER BY key", (prefix, prefix + "\U0010ffff")
    )
    return [Record(*row) for row in rows]


def _conflict(key: str) -> Conflict:
    return Conflict(f"the record {key!r}")
