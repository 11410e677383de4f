"""What subscribers do, inside a transaction: subscribe, update, unsubscribe. Costs O(log subscribers) each."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from msgspec import json, structs

from antiphon.errors import Conflict
from antiphon.store.records import Moment, Start, Subscriber, start_position
from antiphon.store.sqlite.publishing import topic_id
from antiphon.store.sqlite.transaction import Transaction

_Marks = tuple[tuple[int, int], ...]
_COLUMNS = "subscriber.id, lease, position, subscriber.epoch, revision, marks"


def subscribe(transaction: Transaction, url: str, topic: str, subscriber: str, lease: Moment, start: Start) -> Subscriber:
    here = topic_id(transaction, url, topic)
    floor, last = transaction.execute("SELECT floor, last FROM topic WHERE id = ?", (here,)).fetchone()
    if transaction.execute("SELECT 1 FROM subscriber WHERE topic = ? AND id = ?", (here, subscriber)).fetchone():
        raise _conflict(topic, subscriber)
    position = start_position(topic, start, floor, last)
    fresh = Subscriber(topic=topic, id=subscriber, lease=lease, position=position, revision=transaction.next_revision())
    made = transaction.execute(
        "INSERT INTO subscriber (topic, id, lease, position, epoch, revision, marks, state) VALUES (?, ?, ?, ?, ?, ?, '[]', x'')"
        " ON CONFLICT DO NOTHING",
        (here, subscriber, lease, position, fresh.epoch, fresh.revision),
    )
    if not made.rowcount:
        raise _conflict(topic, subscriber)
    return fresh


def update(transaction: Transaction, subscriber: Subscriber) -> Subscriber:
    changed = structs.replace(subscriber, revision=transaction.next_revision())
    done = transaction.execute(
        "UPDATE subscriber SET lease = ?, position = ?, epoch = ?, revision = ?, marks = ?, state = ?"
        " WHERE topic = (SELECT topic.id FROM topic WHERE name = ?) AND id = ? AND revision = ?",
        (
            *(changed.lease, changed.position, changed.epoch, changed.revision, json.encode(changed.marks), changed.state),
            *(subscriber.topic, subscriber.id, subscriber.revision),
        ),
    )
    if not done.rowcount:
        raise _conflict(subscriber.topic, subscriber.id)
    return changed


def unsubscribe(transaction: Transaction, subscriber: Subscriber) -> None:
    row = transaction.execute(
        "SELECT number, revision FROM subscriber WHERE topic = (SELECT topic.id FROM topic WHERE name = ?) AND id = ?",
        (subscriber.topic, subscriber.id),
    ).fetchone()
    if row is None:
        return
    if row[1] != subscriber.revision:
        raise _conflict(subscriber.topic, subscriber.id)
    transaction.execute("DELETE FROM subscriber WHERE number = ?", (row[0],))


def find(connection: sqlite3.Connection, topic: str, subscriber: str) -> Subscriber | None:
    row = connection.execute(
        f"SELECT {_COLUMNS}, state FROM subscriber JOIN topic ON topic.id = subscriber.topic WHERE topic.name = ? AND subscriber.id = ?",
        (topic, subscriber),
    ).fetchone()
    return None if row is None else _subscriber(topic, row)


def find_all(connection: sqlite3.Connection, topic: int, name: str, with_state: bool = True) -> Iterator[Subscriber]:
    """Sorted by id; without their states they cost little."""
    rows = connection.execute(
        f"SELECT {_COLUMNS}, {'state' if with_state else chr(39) * 2} FROM subscriber WHERE topic = ? ORDER BY id", (topic,)
    )
    return (_subscriber(name, row) for row in rows)


def _subscriber(topic: str, row: tuple[str, Moment, int, int, int, bytes, bytes]) -> Subscriber:
    identity, lease, position, epoch, revision, marks, state = row
    return Subscriber(
        topic=topic,
        id=identity,
        lease=lease,
        position=position,
        marks=() if len(marks) <= 2 else json.decode(marks, type=_Marks),
        state=state or b"",
        epoch=epoch,
        revision=revision,
    )


def _conflict(topic: str, subscriber: str) -> Conflict:
    return Conflict(f"the subscriber {subscriber!r} of {topic!r}")
