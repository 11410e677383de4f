"""The file of an outbox: values that wait for a store out of reach, in one SQLite database that belongs to one node.

What is committed is on disk and synced (WAL, `synchronous=FULL`). The file is locked for as long as it is open, by the operating system, so
that a killed process leaves no lock behind and a second one is refused. Everything here blocks and belongs in one thread (`outbox.py`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from antiphon.errors import BadStore, InvalidOption, StoreFull, StoreUnreachable, UsageError
from antiphon.store.records import Entry, Moment, TopicOptions

APPLICATION_ID = 0x416E4F78  # "AnOx"
SCHEMA_VERSION = 1
SCHEMA = """
CREATE TABLE about (node TEXT NOT NULL);
CREATE TABLE topics (topic TEXT PRIMARY KEY, options BLOB) WITHOUT ROWID;
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- also when the outbox was empty in between, no number is given twice
    topic TEXT NOT NULL,
    number INTEGER,                        -- the publisher's own, once it is decided
    seen INTEGER NOT NULL,                 -- the store's time when the value began to wait, as far as it was known
    key TEXT NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX entries_by_topic ON entries (topic, id);
"""
INDICES = (
    "CREATE INDEX IF NOT EXISTS entries_by_topic_seen ON entries (topic, seen)",
    "DROP INDEX IF EXISTS entries_by_seen",  # of earlier releases
)
LOCK_WAIT_S = 2.0


class Waiting(NamedTuple):
    """The oldest values of a topic that can go in one publish. `first` is the publisher's own number of the first of them; the others
    follow without a gap. None: nobody has decided it yet, so nobody can have sent them."""

    topic: str
    options: TopicOptions | None
    ids: Sequence[int]
    first: int | None
    entries: Sequence[Entry]


class OutboxFile:
    def __init__(self, path: str | Path, node: str) -> None:
        self.path = str(path)
        self._database = self._opened(node)

    def close(self) -> None:
        self._database.close()

    def begin(self) -> None:
        self._run("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._run("COMMIT")

    def rollback(self) -> None:
        if self._database.in_transaction:
            self._run("ROLLBACK")

    # --- what waits ------------------------------------------------------------------------------------------------------------

    def pending(self) -> dict[str, int]:
        """How many values of each topic wait, the topic that has waited longest first."""
        return dict(self._run("SELECT topic, count(*) FROM entries GROUP BY topic ORDER BY min(id)").fetchall())

    def options(self) -> dict[str, TopicOptions]:
        """Return what topics are, by name, in so far as it was known when a value of theirs came in."""
        rows = self._run("SELECT topic, options FROM topics WHERE options IS NOT NULL").fetchall()
        return {topic: msgspec.json.decode(packed, type=TopicOptions) for topic, packed in rows}

    def size(self) -> int:
        (size,) = self._run("SELECT coalesce(sum(length(data)), 0) FROM entries").fetchone()
        return int(size)

    def oldest(self, topic: str) -> Moment | None:
        """Return since when values of the topic wait; None if there are none."""
        (seen,) = self._run("SELECT min(seen) FROM entries WHERE topic = ?", (topic,)).fetchone()
        return None if seen is None else int(seen)

    def put(self, topic: str, options: TopicOptions | None, entries: Sequence[Entry], first: int | None, seen: Moment) -> tuple[int, int]:
        """Returns the number of the last of them in this outbox, those of one put follow each other; and how many of them, from the first
        on, were in it before, because whoever put them was killed before it was told."""
        there = 0
        tail = self._run("SELECT number, key FROM entries WHERE topic = ? ORDER BY id DESC LIMIT 1", (topic,)).fetchone()
        if tail is not None and entries and bool(tail[1]) != bool(entries[0].key):
            kind = "with keys" if tail[1] else "without keys"
            raise InvalidOption(
                "key", entries[0].key or "no key", f"values of {topic!r} {kind} wait in {self.path}: it has one or the other"
            )
        if first is not None:
            # A value that has a number already would be taken for written if one that waits before it got a greater one.
            if tail is not None and tail[0] is not None and tail[0] >= first:
                there = self._there(topic, entries, first)
                entries, first = entries[there:], first + there
            if tail is not None and entries and (tail[0] is None or tail[0] >= first):
                raise UsageError(f"values of {topic!r} wait in {self.path}: publish what comes after them without number=")
        packed = None if options is None else msgspec.json.encode(options)
        self._run(
            "INSERT INTO topics VALUES (?, ?) ON CONFLICT (topic) DO UPDATE SET options = coalesce(excluded.options, options)",
            (topic, packed),
        )
        rows = [(topic, None if first is None else first + at, seen, entry.key, entry.data) for at, entry in enumerate(entries)]
        self._many("INSERT INTO entries (topic, number, seen, key, data) VALUES (?, ?, ?, ?, ?)", rows)
        (newest,) = self._run("SELECT seq FROM sqlite_sequence WHERE name = 'entries'").fetchone() or (0,)
        return int(newest), there

    def _there(self, topic: str, entries: Sequence[Entry], first: int) -> int:
        """How many of the entries, from the first on, wait here under these very numbers."""
        rows = self._run(
            "SELECT number, data, key FROM entries WHERE topic = ? AND number BETWEEN ? AND ?", (topic, first, first + len(entries) - 1)
        )
        known = {number: (data, key) for number, data, key in rows}
        for at, entry in enumerate(entries):
            if known.get(first + at) != (entry.data, entry.key):
                return at
        return len(entries)

    def waiting(self, topic: str, values: int, size: int) -> Waiting | None:
        """At most so many values with so many bytes, but at least one if there is any."""
        rows = self._run("SELECT id, number, key, data FROM entries WHERE topic = ? ORDER BY id LIMIT ?", (topic, values)).fetchall()
        if not rows:
            return None
        first: int | None = rows[0][1]
        ids, entries, room = [], [], size
        for at, (id, number, key, data) in enumerate(rows):
            room -= len(data)
            if at and (room < 0 or number != (None if first is None else first + at) or bool(key) != bool(rows[0][2])):
                break
            ids.append(id)
            entries.append(Entry(data, key))
        (packed,) = self._run("SELECT options FROM topics WHERE topic = ?", (topic,)).fetchone()
        options = None if packed is None else msgspec.json.decode(packed, type=TopicOptions)
        return Waiting(topic, options, ids, first, entries)

    def number(self, waiting: Waiting, first: int) -> None:
        self._many("UPDATE entries SET number = ? WHERE id = ?", [(first + at, id) for at, id in enumerate(waiting.ids)])

    def remove(self, waiting: Waiting) -> None:
        self._many("DELETE FROM entries WHERE id = ?", [(id,) for id in waiting.ids])

    def trim(self) -> None:
        """Gives the disk back what is not used any more."""
        self._run("PRAGMA incremental_vacuum").fetchall()
        self._run("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    # --- inside ----------------------------------------------------------------------------------------------------------------

    def _opened(self, node: str) -> sqlite3.Connection:
        if Path(self.path).is_dir():
            raise BadStore(self.path, "it is a directory: name a file for the outbox")
        if not Path(self.path).absolute().parent.is_dir():
            raise BadStore(self.path, "its directory is not there: make it first")
        try:
            database = sqlite3.connect(self.path, timeout=LOCK_WAIT_S, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise BadStore(self.path, f"{error}: name a file that this process may write") from None
        try:
            self._prepare(database, node)
        except sqlite3.Error as error:
            database.close()
            if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                raise BadStore(self.path, "another process has this outbox open: give each node a file of its own") from None
            raise BadStore(self.path, f"{error}: if this was an outbox, what waited in it is lost; move the file away") from None
        except BaseException:
            database.close()
            raise
        return database

    def _prepare(self, database: sqlite3.Connection, node: str) -> None:
        # The exclusive mode comes first: nothing of the file may be read before the lock is ours.
        for statement in ("PRAGMA locking_mode = EXCLUSIVE", "PRAGMA auto_vacuum = INCREMENTAL", "PRAGMA journal_mode = WAL"):
            database.execute(statement).fetchall()
        database.execute("PRAGMA synchronous = FULL")
        database.execute("BEGIN IMMEDIATE")
        (application,) = database.execute("PRAGMA application_id").fetchone()
        (version,) = database.execute("PRAGMA user_version").fetchone()
        (tables,) = database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if not application and not tables:
            for statement in SCHEMA.split(";"):
                database.execute(statement)
            database.execute("INSERT INTO about VALUES (?)", (node,))
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        elif application != APPLICATION_ID:
            raise BadStore(self.path, "it is the database of something else: name another file for the outbox")
        elif version != SCHEMA_VERSION:
            raise BadStore(self.path, f"its schema is version {version}, this program knows {SCHEMA_VERSION}: use the release that made it")
        for statement in INDICES:
            database.execute(statement)
        (owner,) = database.execute("SELECT node FROM about").fetchone()
        if owner != node:
            raise BadStore(self.path, f"it is the outbox of {owner!r}, who alone may publish its values: give {node!r} a file of its own")
        database.execute("COMMIT")
        # A page that is torn is found now, and not when its value is due.
        (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)

    def _run(self, statement: str, arguments: Sequence[object] = ()) -> sqlite3.Cursor:
        try:
            return self._database.execute(statement, arguments)
        except sqlite3.Error as error:
            raise self._judged(error) from None

    def _many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        try:
            self._database.executemany(statement, rows)
        except sqlite3.Error as error:
            raise self._judged(error) from None

    def _judged(self, error: sqlite3.Error) -> Exception:
        match getattr(error, "sqlite_errorname", "").split("_")[:2]:
            case ["SQLITE", "FULL"]:
                return StoreFull(self.path, "the disk has no room")
            case ["SQLITE", "CORRUPT" | "NOTADB"]:
                return BadStore(self.path, f"{error}: move the file away; what waited in it is lost")
            case _:
                return StoreUnreachable(self.path, str(error))
