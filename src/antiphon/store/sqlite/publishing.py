"""What publishers do, inside a transaction: register, release, publish, erase.

A batch is inserted by a few statements of many rows each, which costs less than a statement per row and lets go of the interpreter's lock
only a few times. Publishing costs O(entries · log values), the same at the end of a long topic as at the beginning of a short one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from msgspec import json

from antiphon.errors import Fenced, InvalidOption, StoreFull, TopicTaken, UnknownTopic
from antiphon.store.records import Entry, Grant, TopicOptions
from antiphon.store.sqlite.schema import NUMBER_BITS, NUMBER_LIMIT, TOPIC_LIMIT
from antiphon.store.sqlite.transaction import Transaction

_ROWS = (256, 64, 16, 4, 1)
_IN = 500  # numbers in one statement


class Batch(NamedTuple):
    """Entries as columns, checked, with their size in bytes."""

    datas: Sequence[bytes]
    keys: Sequence[str] | None
    """None: all keys are empty."""
    lengths: Sequence[int]
    size: int
    largest: int


def columns(entries: Sequence[Entry]) -> Batch:
    if not entries:
        return Batch((), None, (), 0, 0)
    datas: Sequence[bytes]
    datas, keys = zip(*entries, strict=True)
    if set(map(type, datas)) != {bytes}:
        datas = [bytes(memoryview(data)) for data in datas]
    lengths = list(map(len, datas))
    return Batch(datas, keys if any(keys) else None, lengths, sum(lengths), max(lengths))


def packed_lengths(lengths: Sequence[int]) -> bytes:
    """Four bytes for each value, or for all of them where they are the same."""
    shown = lengths[:1] if min(lengths) == max(lengths) else lengths
    return struct.pack(f"<{len(shown)}I", *shown)


class Held(NamedTuple):
    """A topic and its publisher, as the holder of a valid grant finds them."""

    topic: int
    options: TopicOptions
    last: int
    publisher: int
    number: int
    mine: int
    """The publisher's newest value: its own number, and the topic's."""


def register(transaction: Transaction, url: str, topic: str, publisher: str, options: TopicOptions | None, takeover: bool) -> Grant:
    here = topic_id(transaction, url, topic)
    said, holder, epoch, last = transaction.execute("SELECT options, publisher, epoch, last FROM topic WHERE id = ?", (here,)).fetchone()
    decided = read_options(said) if said is not None else options or TopicOptions()
    if options not in (None, decided):
        raise InvalidOption("options", options, f"{topic!r} has {decided}, and keeps them: leave them out, or say the same")
    if holder not in ("", publisher):
        if not takeover:
            raise TopicTaken(topic, holder)
        transaction.execute("UPDATE publisher SET epoch = 0 WHERE topic = ? AND name = ?", (here, holder))
    epoch += 1
    transaction.execute(
        "UPDATE topic SET options = ?, publisher = ?, epoch = ? WHERE id = ?",
        (json.encode(decided).decode(), "" if decided.shared else publisher, epoch, here),
    )
    transaction.execute(
        "INSERT INTO publisher (topic, name, epoch) VALUES (?, ?, ?) ON CONFLICT (topic, name) DO UPDATE SET epoch = excluded.epoch",
        (here, publisher, epoch),
    )
    (number,) = transaction.execute("SELECT number FROM publisher WHERE topic = ? AND name = ?", (here, publisher)).fetchone()
    return Grant(topic, publisher, epoch, number, last)


def release(transaction: Transaction, grant: Grant) -> None:
    try:
        here = held(transaction, grant)
    except (Fenced, UnknownTopic):
        return
    transaction.execute("UPDATE topic SET publisher = '' WHERE id = ?", (here.topic,))
    transaction.execute("UPDATE publisher SET epoch = 0 WHERE id = ?", (here.publisher,))


def publish(transaction: Transaction, url: str, grant: Grant, first: int, batch: Batch) -> tuple[int, int]:
    """The numbers of the first and the last value, whether they were written now or before."""
    here = held(transaction, grant)
    count = len(batch.datas)
    before = max(0, min(here.number + 1 - first, count))
    if not count:
        return here.last + 1, here.last
    if before < count:
        _append(transaction, url, here, first + before, batch, before)
    fresh_last = here.last + count - before
    if not before:
        return here.last + 1, fresh_last
    begin = seq_of(transaction, here, first)
    return begin, fresh_last if before < count else seq_of(transaction, here, first + count - 1)


def _append(transaction: Transaction, url: str, here: Held, number: int, batch: Batch, before: int) -> None:
    datas, keys = batch.datas[before:], batch.keys and batch.keys[before:]
    count, begin = len(datas), here.last + 1
    last, size = here.last + count, sum(batch.lengths[before:])
    if last >= NUMBER_LIMIT:
        raise StoreFull(url, f"the topic has used up its {NUMBER_LIMIT:,} numbers")
    gone = 0
    if here.options.mutable:
        kept = _replace(transaction, here, keys or ("",) * count)
        for at in kept:
            _insert(transaction, here, begin + at, datas[at : at + 1], keys and keys[at : at + 1])
        gone, size = count - len(kept), sum(len(datas[at]) for at in kept)
    else:
        _insert(transaction, here, begin, datas, keys)
    transaction.execute(
        "INSERT INTO batch VALUES (?, ?, ?, ?)",
        ((here.topic << NUMBER_BITS) + begin, transaction.now, here.publisher, packed_lengths(batch.lengths[before:])),
    )
    transaction.execute(
        "UPDATE topic SET last = ?, count = count + ?, size = size + ?, largest = max(largest, ?), keyed = max(keyed, ?) WHERE id = ?",
        (last, count - gone, size, batch.largest, keys is not None, here.topic),
    )
    goes_on = number - here.number == begin - here.mine == 1 if here.number else number == begin
    if not goes_on:
        # Its own numbers do not go on as the topic's do. Where no row says otherwise, own number n is the topic's number n.
        transaction.execute("INSERT INTO stretch VALUES (?, ?, ?)", (here.publisher, number, begin))
    transaction.execute("UPDATE publisher SET number = ?, last = ? WHERE id = ?", (number + count - 1, last, here.publisher))
    transaction.channels.add(here.topic)


def _insert(transaction: Transaction, here: Held, begin: int, datas: Sequence[bytes], keys: Sequence[str] | None) -> None:
    at, count, base = 0, len(datas), (here.topic << NUMBER_BITS) + begin
    for rows in _ROWS:
        while count - at >= rows:
            values: list[object] = [base + at, *datas[at : at + rows]]
            if keys is not None:
                values += keys[at : at + rows]
            transaction.execute(_insertion(rows, keys is not None), values)
            at += rows


@cache
def _insertion(rows: int, with_keys: bool) -> str:
    """Inserts many rows by one statement: ?1 is the id of the first, then come the data, then the keys."""
    row = (f"(?1+{k},{f'?{2 + rows + k}' if with_keys else chr(39) * 2},?{2 + k})" for k in range(rows))
    return "INSERT INTO value (id, key, data) VALUES " + ",".join(row)


def _replace(transaction: Transaction, here: Held, keys: Sequence[str]) -> list[int]:
    """Drops the earlier values of these keys; which of the entries are the newest of their keys, in order."""
    newest = {key: at for at, key in enumerate(keys)}
    old: list[int] = []
    for key, at in newest.items():
        row = transaction.execute("SELECT seq FROM newest WHERE topic = ? AND key = ?", (here.topic, key)).fetchone()
        if row is not None:
            old.append(row[0])
        transaction.execute("INSERT OR REPLACE INTO newest VALUES (?, ?, ?)", (here.topic, key, here.last + 1 + at))
    _drop(transaction, here.topic, old)
    return sorted(newest.values())


def erase(transaction: Transaction, grant: Grant, numbers: Sequence[int]) -> int:
    here = held(transaction, grant)
    chosen = sorted({number for number in numbers if 0 < number <= here.last})
    return _drop(transaction, here.topic, chosen, here.publisher if here.options.shared else None)


def _drop(transaction: Transaction, topic: int, numbers: Sequence[int], only_of: int | None = None) -> int:
    base = topic << NUMBER_BITS
    removed = size = 0
    for at in range(0, len(numbers), _IN):
        ids = [base + number for number in numbers[at : at + _IN]]
        rows = transaction.execute(
            "SELECT value.id, key, length(data), batch.id, publisher FROM value JOIN batch"
            " ON batch.id = (SELECT max(id) FROM batch WHERE id <= value.id)"
            f" WHERE value.id IN ({','.join('?' * len(ids))})",
            ids,
        ).fetchall()
        gone = [row for row in rows if only_of in (None, row[4])]
        transaction.executemany("DELETE FROM value WHERE id = ?", [(row[0],) for row in gone])
        transaction.executemany(
            "DELETE FROM newest WHERE topic = ? AND key = ? AND seq = ?", [(topic, row[1], row[0] - base) for row in gone]
        )
        forget_empty_batches(transaction, {row[3] for row in gone})
        removed += len(gone)
        size += sum(row[2] for row in gone)
    if removed:
        transaction.execute("UPDATE topic SET count = count - ?, size = size - ? WHERE id = ?", (removed, size, topic))
    return removed


def forget_empty_batches(transaction: Transaction, batches: Iterable[int]) -> None:
    """Otherwise a mutable topic, whose floor never rises, would keep a row for every publish there ever was."""
    transaction.executemany(
        "DELETE FROM batch WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM value WHERE value.id >= ?1 AND value.id <"
        " coalesce((SELECT min(id) FROM batch AS next WHERE next.id > ?1), ?1 + ?2))",
        [(batch, NUMBER_LIMIT) for batch in batches],
    )


def held(transaction: Transaction, grant: Grant) -> Held:
    row = transaction.execute(
        "SELECT topic.id, options, topic.last, publisher.id, number, publisher.last, publisher.epoch FROM topic"
        " LEFT JOIN publisher ON publisher.topic = topic.id AND publisher.name = ? WHERE topic.name = ?",
        (grant.publisher, grant.topic),
    ).fetchone()
    if row is None:
        raise UnknownTopic(grant.topic)
    if not grant.epoch or row[6] != grant.epoch:
        raise Fenced(f"the publisher {grant.publisher!r} of {grant.topic!r}", "the topic was registered or released since")
    return Held(row[0], read_options(row[1]), row[2], row[3], row[4], row[5])


def seq_of(transaction: Transaction, here: Held, number: int) -> int:
    """Where the value of this own number is, or was before it was collected."""
    row = transaction.execute(
        "SELECT number, seq FROM stretch WHERE publisher = ? AND number <= ? ORDER BY number DESC LIMIT 1", (here.publisher, number)
    ).fetchone()
    start, seq = row or (0, 0)
    return max(1, seq + number - start)


def topic_id(transaction: Transaction, url: str, name: str) -> int:
    """The topic of this name, made if there is none."""
    row = transaction.execute("SELECT id FROM topic WHERE name = ?", (name,)).fetchone()
    if row is not None:
        found: int = row[0]
        return found
    made = transaction.execute("INSERT INTO topic (name) VALUES (?)", (name,)).lastrowid
    if made is None or made >= TOPIC_LIMIT:
        raise StoreFull(url, f"it has {TOPIC_LIMIT:,} topics")
    return made


@lru_cache(256)
def read_options(text: str | None) -> TopicOptions:
    """As they were decided; whoever only subscribed to a topic has decided nothing."""
    return TopicOptions() if text is None else json.decode(text, type=TopicOptions)
