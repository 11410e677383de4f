"""What readers look up: a page of values, topics, the time.

A page costs O(log values + its values), whatever the length of the topic. It has at most `PAGE_BYTES` of data (and one value at least).

Where nothing is missing a page comes out of SQLite in pieces, the data of many values joined, that are cut up by the lengths that lie with
the batches. It takes half the time of a row per value, and the interpreter's lock is free meanwhile: a scan of a thousand rows takes and
leaves it a thousand times, so fast that hardly another thread of the process gets it, and whoever writes would wait for whoever reads.
"""

from __future__ import annotations

import sqlite3
import struct
from bisect import bisect_right
from collections.abc import Iterable
from functools import cache
from itertools import accumulate, repeat, starmap

from antiphon.errors import UnknownTopic
from antiphon.store.records import Chunk, Moment, TopicInfo, Value
from antiphon.store.sqlite.clock import BootClock, shown
from antiphon.store.sqlite.faults import Damaged
from antiphon.store.sqlite.publishing import read_options
from antiphon.store.sqlite.readers import snapshot
from antiphon.store.sqlite.schema import NUMBER_BITS, NUMBER_LIMIT

PAGE_BYTES = 32 << 20
PIECE_BYTES = 32 << 10
"""What is joined at once: so little that its memory is at hand, and is not given back to the system and asked for again each time. Values
that are larger come one by one."""
_LENGTH_BYTES = 4


def page(connection: sqlite3.Connection, clock: BootClock, topic: int, after: int, limit: int) -> Chunk:
    base = topic << NUMBER_BITS
    values: list[Value] = []
    with snapshot(connection):
        floor, last, count, largest, keyed, boot, ahead, latest = connection.execute(
            "SELECT floor, last, count, largest, keyed, boot, ahead, latest FROM topic, clock WHERE id = ?", (topic,)
        ).fetchone()
        after = max(after, floor)
        if after < last:
            if limit * largest > PAGE_BYTES:
                limit = _fitting(connection, base + after, base + last, limit)
            if count == last - floor and not keyed and _joins_bytes():
                values = _solid(connection, base, after, min(limit, last - after))
            values = values or _sparse(connection, base, after, last, limit)
    return Chunk(values, floor, last, shown(clock, boot, ahead, latest), last if limit and not values else 0)


def _solid(connection: sqlite3.Connection, base: int, after: int, count: int) -> list[Value]:
    """The next values where none is missing and none has a key, as one piece that is cut up here. Empty if it is too large, or cannot be
    cut because one is missing after all: a collector has not yet removed everything below the floor."""
    begin, end = base + after + 1, base + after + count
    batches = connection.execute(
        "SELECT id, time, lengths FROM batch WHERE id BETWEEN (SELECT max(id) FROM batch WHERE id <= ?1) AND ?2", (begin, end)
    ).fetchall()
    times: list[Moment] = []
    lengths: list[int] = []
    for at, (batch, time, packed) in enumerate(batches):
        first = max(batch, begin)
        here = (batches[at + 1][0] if at + 1 < len(batches) else end + 1) - first
        times += repeat(time, here)
        if len(packed) == _LENGTH_BYTES:
            lengths += struct.unpack("<I", packed) * here
        elif len(packed) >= _LENGTH_BYTES * (first - batch + here):
            lengths += struct.unpack_from(f"<{here}I", packed, _LENGTH_BYTES * (first - batch))
    ends = [0, *accumulate(lengths)]
    if len(lengths) != count or ends[-1] > count * PIECE_BYTES:
        return []
    datas: list[bytes] = []
    while (low := len(datas)) < count:
        high = max(low + 1, bisect_right(ends, ends[low] + PIECE_BYTES) - 1)
        found, piece = connection.execute(
            "SELECT count(*), CAST(group_concat(data, '') AS BLOB) FROM value WHERE id BETWEEN ? AND ?", (begin + low, begin + high - 1)
        ).fetchone()
        if found != high - low or len(piece) != ends[high] - ends[low]:
            return []
        datas += _cut(piece, lengths[low:high])
    return list(map(Value, range(after + 1, after + count + 1), times, datas))


def _cut(piece: bytes, lengths: list[int]) -> Iterable[bytes]:
    if lengths.count(lengths[0]) == len(lengths):  # the same in a fifth of the time
        parts: tuple[bytes, ...] = struct.unpack(f"{lengths[0]}s" * len(lengths), piece)
        return parts
    return [piece[end - length : end] for end, length in zip(accumulate(lengths), lengths, strict=True)]


@cache
def _joins_bytes() -> bool:
    """Whether this SQLite joins any bytes as they are, zeros and all. They are no text, so that it need not."""
    connection = sqlite3.connect(":memory:")
    try:
        (joined,) = connection.execute(
            "SELECT CAST(group_concat(column1, '') AS BLOB) FROM (VALUES (x''), (x'00ff'), (x''), (x'fe0080'), (x'00'))"
        ).fetchone()
    finally:
        connection.close()
    return bool(joined == b"\x00\xff\xfe\x00\x80\x00")


def _sparse(connection: sqlite3.Connection, base: int, after: int, last: int, limit: int) -> list[Value]:
    rows = connection.execute(
        "SELECT id - ?1, (SELECT time FROM batch WHERE batch.id <= value.id ORDER BY batch.id DESC LIMIT 1), data, key"
        " FROM value WHERE id > ?2 AND id <= ?3 ORDER BY id LIMIT ?4",
        (base, base + after, base + last, limit),
    )
    values = list(starmap(Value, rows.fetchall()))
    newest = values[-1].seq if values else after
    if newest < last and len(values) < limit:
        _check_end(connection, base + newest, base + last)
    return values


def _fitting(connection: sqlite3.Connection, after: int, end: int, limit: int) -> int:
    """How many values have a page's bytes; their lengths are known without reading them."""
    lengths = connection.execute("SELECT length(data) FROM value WHERE id > ? AND id <= ? ORDER BY id LIMIT ?", (after, end, limit))
    size = 0
    for count, (length,) in enumerate(lengths.fetchall()):
        size += length
        if size > PAGE_BYTES:
            return max(1, count)
    return limit


def _check_end(connection: sqlite3.Connection, newest: int, end: int) -> None:
    """A scan that ended early is right if the newest values were erased. It may also have met a damaged page whose keys make no sense, and
    then what lies behind would be passed over in silence."""
    (there,) = connection.execute("SELECT max(id) FROM value WHERE id <= ?", (end,)).fetchone()
    if there is not None and there > newest:
        raise Damaged(f"values from {(newest & (NUMBER_LIMIT - 1)) + 1} on cannot be found")


def time(connection: sqlite3.Connection, clock: BootClock) -> Moment:
    return shown(clock, *connection.execute("SELECT boot, ahead, latest FROM clock").fetchone())


def topic_id(connection: sqlite3.Connection, topic: str) -> int:
    row = connection.execute("SELECT id FROM topic WHERE name = ?", (topic,)).fetchone()
    if row is None:
        raise UnknownTopic(topic)
    found: int = row[0]
    return found


def checkpoint(connection: sqlite3.Connection) -> None:
    """Moves what is in the write-ahead log into the file as far as nobody has to wait for it."""
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


_INFO = "SELECT name, options, publisher, epoch, floor, last, count, size FROM topic"


def info(connection: sqlite3.Connection, topic: str) -> TopicInfo:
    row = connection.execute(f"{_INFO} WHERE name = ?", (topic,)).fetchone()
    if row is None:
        raise UnknownTopic(topic)
    return _info(row)


def infos(connection: sqlite3.Connection) -> list[TopicInfo]:
    return [_info(row) for row in connection.execute(f"{_INFO} ORDER BY name")]


def _info(row: tuple[str, str | None, str, int, int, int, int, int]) -> TopicInfo:
    name, options, publisher, epoch, floor, last, count, size = row
    return TopicInfo(
        name=name, options=read_options(options), publisher=publisher, epoch=epoch, floor=floor, last=last, values=count, size=size
    )
