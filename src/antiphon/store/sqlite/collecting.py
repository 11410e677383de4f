"""Removing what nobody needs, in pieces, so that nobody who writes waits for long.

Each piece is a transaction that decides anew, with the subscribers as they are then, raises the floor, and removes at most `PIECE` values.
The floor is raised in the same transaction as the first removal below it, so a subscriber made between two pieces starts above it; what is
removed above the floor (values that all have marked done) is decided and removed in one transaction, because such a subscriber would read
it. A collector killed between pieces leaves values below the floor, which readers skip and the next collector removes.

Costs per piece O(subscribers + marks + removed), and O(log values) per distinct lease to find how far it has expired.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from antiphon.errors import UnknownTopic
from antiphon.model.ranges import Ranges
from antiphon.store import retention
from antiphon.store.records import Moment
from antiphon.store.sqlite.publishing import forget_empty_batches, read_options
from antiphon.store.sqlite.schema import NUMBER_BITS, NUMBER_LIMIT
from antiphon.store.sqlite.subscribing import find_all
from antiphon.store.sqlite.transaction import Transaction

PIECE = 4_096


class Piece(NamedTuple):
    floor: int
    removed: int
    is_last: bool


def collect_piece(transaction: Transaction, topic: str, horizon: Moment, known: dict[Moment, int]) -> Piece:
    """`known` is how far leases have expired, as found beforehand by `expiries`; what is missing in it is found here."""
    row = transaction.execute("SELECT id, options, floor, last FROM topic WHERE name = ?", (topic,)).fetchone()
    if row is None:
        raise UnknownTopic(topic)
    here, said, floor, last = row
    options = read_options(said)
    subscribers = list(find_all(transaction.connection, here, topic, with_state=False))
    horizon = min(horizon, transaction.now)
    expired = {
        lease: known[lease] if lease in known else last_before(transaction.connection, here, horizon - lease, floor, last)
        for lease in retention.leases(subscribers, options)
    }
    free = retention.removable(subscribers, options, expired, last)
    floor = max(floor, retention.floor_of(free))
    if floor:
        free.add(1, floor)
    transaction.execute("UPDATE topic SET floor = ? WHERE id = ? AND floor < ?", (floor, here, floor))
    removed = _remove(transaction, here, free)
    if removed < PIECE:
        _forget_stretches(transaction, here, floor)
    return Piece(floor, removed, removed < PIECE)


def expiries(connection: sqlite3.Connection, topic: str, horizon: Moment) -> dict[Moment, int]:
    """How far each lease of the topic has expired; looked up outside the write lock, since what has expired stays so."""
    row = connection.execute("SELECT id, options, floor, last FROM topic WHERE name = ?", (topic,)).fetchone()
    if row is None:
        raise UnknownTopic(topic)
    here, said, floor, last = row
    leases = retention.leases(find_all(connection, here, topic, with_state=False), read_options(said))
    return {lease: last_before(connection, here, horizon - lease, floor, last) for lease in leases}


def last_before(connection: sqlite3.Connection, topic: int, moment: Moment, floor: int, last: int) -> int:
    """The newest number whose value is older than the moment, 0 if there is none: a binary search, since times never fall."""
    base = topic << NUMBER_BITS
    low, high = 1, last  # where the first batch begins that is not older
    while low <= high:
        middle = (low + high) // 2
        row = connection.execute("SELECT id, time FROM batch WHERE id >= ? AND id <= ? ORDER BY id LIMIT 1", (base + middle, base + high))
        batch = row.fetchone()
        if batch is None or batch[1] >= moment:
            high = middle - 1
        else:
            low = batch[0] - base + 1
    if low == 1:
        return 0
    # Older batches begin below low; the next one, if there is one, is not older.
    (follower,) = connection.execute("SELECT min(id) FROM batch WHERE id >= ? AND id <= ?", (base + low, base + last)).fetchone()
    end = base + last if follower is None else follower - 1
    (newest,) = connection.execute("SELECT max(id) FROM value WHERE id > ? AND id <= ?", (base + floor, end)).fetchone()
    return 0 if newest is None else newest - base


def _remove(transaction: Transaction, topic: int, free: Ranges) -> int:
    base, removed, size = topic << NUMBER_BITS, 0, 0
    for low, high in free:
        room = PIECE - removed
        if not room:
            break
        begin, end = base + low, base + high
        rows = transaction.execute(
            "SELECT id, length(data) FROM value WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?", (begin, end, room)
        ).fetchall()
        if rows:
            transaction.execute("DELETE FROM value WHERE id BETWEEN ? AND ?", (begin, rows[-1][0]))
            removed += len(rows)
            size += sum(length for _, length in rows)
            if low > 1:
                within = transaction.execute("SELECT id FROM batch WHERE id BETWEEN ? AND ?", (begin, rows[-1][0])).fetchall()
                forget_empty_batches(transaction, (batch for (batch,) in within))
    if removed:
        _forget_batches(transaction, base)
        transaction.execute("UPDATE topic SET count = count - ?, size = size - ? WHERE id = ?", (removed, size, topic))
    return removed


def _forget_batches(transaction: Transaction, base: int) -> None:
    """Those before the one that the oldest value belongs to."""
    (oldest,) = transaction.execute("SELECT min(id) FROM value WHERE id > ? AND id < ?", (base, base + NUMBER_LIMIT)).fetchone()
    transaction.execute(
        "DELETE FROM batch WHERE id > ?1 AND id < (SELECT max(id) FROM batch WHERE id <= ?2)",
        (base, base + NUMBER_LIMIT - 1 if oldest is None else oldest),
    )


def _forget_stretches(transaction: Transaction, topic: int, floor: int) -> None:
    """Where own numbers were that are all below the floor; the newest such row of each publisher still says where the next ones are."""
    for (publisher,) in transaction.execute("SELECT id FROM publisher WHERE topic = ?", (topic,)).fetchall():
        rows = transaction.execute("SELECT number, seq FROM stretch WHERE publisher = ? ORDER BY number LIMIT ?", (publisher, PIECE))
        below = [number for number, seq in rows if seq <= floor]
        if len(below) > 1:
            transaction.execute("DELETE FROM stretch WHERE publisher = ? AND number < ?", (publisher, below[-1]))
