"""What lies in the file, and how a connection to it is made.

    clock       one row: the boot whose clock is in use, how far store time is ahead of it, the latest time given, the newest revision
    topic       a row per topic; `floor`, `last`, the number and size of its values
    publisher   a row per publisher of a topic, with the newest of its own numbers and where that is
    stretch     where a publisher's own numbers lie: a row wherever they do not simply go on, none for a publisher that has the topic alone
    value       a row per value, in one b-tree in the order of (topic, number): its id is `topic << 40 | number`
    batch       a row per batch, with the id of its first value: when and by whom this and the following values were published, and how
                long they are, so that a page of values can be read as one piece (`reading.py`)
    newest      of mutable topics only: which value is the newest of a key
    subscriber  the continuations; `state` is the last column, so that whoever does not ask for it does not read it
    record      small things that change by compare-and-set

A file is ours when its `application_id` says so; `user_version` is the version of this page. Nothing here looks at the file except
through SQLite: closing a file that was opened in any other way would drop the locks that this process holds on it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from antiphon.errors import BadStore
from antiphon.store.sqlite.address import SqliteAddress
from antiphon.store.sqlite.clock import BootClock, advance

APPLICATION_ID = 0x416E7470  # "Antp"
VERSION = 1

NUMBER_BITS = 40
NUMBER_LIMIT = 1 << NUMBER_BITS
"""Values of one topic, ever: a million per second for twelve days, or a thousand for thirty-four years."""
TOPIC_LIMIT = 1 << 22

PAGE_BYTES = 8_192
CHECKPOINT_PAGES = 2_000
CACHE_BYTES = 8 << 20
WAL_BYTES = 64 << 20
"""Above this the write-ahead log is made to begin anew, even if somebody must wait for it."""

_TABLES = """
CREATE TABLE clock (one INTEGER PRIMARY KEY CHECK (one = 1), boot TEXT NOT NULL, ahead INTEGER NOT NULL,
    latest INTEGER NOT NULL, revision INTEGER NOT NULL);
CREATE TABLE topic (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, options TEXT, publisher TEXT NOT NULL DEFAULT '',
    epoch INTEGER NOT NULL DEFAULT 0, floor INTEGER NOT NULL DEFAULT 0, last INTEGER NOT NULL DEFAULT 0,
    count INTEGER NOT NULL DEFAULT 0, size INTEGER NOT NULL DEFAULT 0, largest INTEGER NOT NULL DEFAULT 0,
    keyed INTEGER NOT NULL DEFAULT 0);
CREATE TABLE publisher (id INTEGER PRIMARY KEY, topic INTEGER NOT NULL, name TEXT NOT NULL, epoch INTEGER NOT NULL DEFAULT 0,
    number INTEGER NOT NULL DEFAULT 0, last INTEGER NOT NULL DEFAULT 0, UNIQUE (topic, name));
CREATE TABLE stretch (publisher INTEGER NOT NULL, number INTEGER NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (publisher, number)) WITHOUT ROWID;
CREATE TABLE value (id INTEGER PRIMARY KEY, key TEXT NOT NULL, data BLOB NOT NULL);
CREATE TABLE batch (id INTEGER PRIMARY KEY, time INTEGER NOT NULL, publisher INTEGER NOT NULL, lengths BLOB NOT NULL);
CREATE TABLE newest (topic INTEGER NOT NULL, key TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (topic, key)) WITHOUT ROWID;
CREATE TABLE subscriber (number INTEGER PRIMARY KEY, topic INTEGER NOT NULL, id TEXT NOT NULL, lease INTEGER NOT NULL,
    position INTEGER NOT NULL, epoch INTEGER NOT NULL, revision INTEGER NOT NULL, marks BLOB NOT NULL, state BLOB NOT NULL,
    UNIQUE (topic, id));
CREATE TABLE record (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, revision INTEGER NOT NULL, data BLOB NOT NULL);
"""


def connect(address: SqliteAddress) -> sqlite3.Connection:
    """A connection in autocommit mode: every transaction is begun and ended by name. Made in one thread and used in another."""
    connection = sqlite3.connect(
        address.path, timeout=address.busy_s, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit={WAL_BYTES}")
        connection.execute(f"PRAGMA cache_size={-CACHE_BYTES // 1024}")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=OFF")
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(connection: sqlite3.Connection, address: SqliteAddress, clock: BootClock) -> None:
    """Makes a store of a new file, and sees to it that an old one is a store. Raises BadStore, or what SQLite raises."""
    if _number(connection, "page_count") == 0:
        connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
    else:
        _check(connection, address)  # before anything is changed: a file that is not ours stays as it is
    mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    if mode != "wal":
        raise BadStore(address.url, f"SQLite cannot keep a write-ahead log there (its journal mode stays {mode!r}); use a local disk")
    with immediate(connection):
        if _is_empty(connection):
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            connection.execute("INSERT INTO clock VALUES (1, ?, 0, ?, 0)", (clock.boot, clock.now()))
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={VERSION}")
        _check(connection, address)
        now, revision = advance(connection, clock)
        connection.execute("UPDATE clock SET latest = ?, revision = ?", (now, revision))


@contextmanager
def immediate(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check(connection: sqlite3.Connection, address: SqliteAddress) -> None:
    if _is_empty(connection):
        return
    if _number(connection, "application_id") != APPLICATION_ID:
        raise BadStore(address.url, "it is a database of another program; name another file")
    version = _number(connection, "user_version")
    if version != VERSION:
        other = "a newer Antiphon made it; use that one" if version > VERSION else "an older Antiphon made it; name another file"
        raise BadStore(address.url, f"its schema has version {version} and this Antiphon knows version {VERSION}: {other}")


def _is_empty(connection: sqlite3.Connection) -> bool:
    tables: int = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    return tables == 0 and _number(connection, "application_id") == 0 and _number(connection, "user_version") == 0


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    number: int = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
    return number
