"""A group's messages as rows, from `history/GROUP` (the archive of a group on a network) or `group/GROUP` (a group on the store).

| kind | row |
|---|---|
| `message` | `sender` and `number` name it; `data`; `view` in which it was sent; `reply_to`, `after`: what it answers and follows; \
              `guest`: the outsider whose message it is |
| `view` | from here on the group is `view` with these `members` |
| `mark` | an archive: everything delivered before `view` lies before this row |
| `lost` | an archive: messages `number … last` of `sender` could not be archived, and never will be |
| `foreign` | a value that is none of a group: anybody who can write to the store can write to the topic |

`seq` is the number of the value in the topic; the messages of one value follow each other. Two members that could not know of each other
may have archived the same message: `distinct_messages` leaves the first of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from antiphon.model.frames import Batch
from antiphon.model.ids import MessageId
from antiphon.spark.source.passage import Piece
from antiphon.store.groups import values
from antiphon.store.groups.values import Lost, Marker, Placed
from antiphon.store.records import Gap, Value

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

_NAME = "struct<sender: string, number: bigint>"
COLUMNS = (
    "seq long, time timestamp, kind string, view long, sender string, number long, last long, data binary, "
    f"reply_to {_NAME}, after array<{_NAME}>, sent_at timestamp, guest string, members array<string>"
)
_WIDTH = 13
_MICROSECOND = 1_000
_MICROSECONDS = 1_000_000


def batches(pieces: Iterator[Piece], with_gaps: bool, size: int) -> Iterator[pyarrow.RecordBatch]:
    """Arrow batches of about `size` messages, at least those of one value. About 3 µs per message."""
    import pyarrow as pa

    schema = _schema(with_gaps)
    waiting: list[tuple[Any, ...]] = []
    for piece in pieces:
        items: list[Value | Gap] = [*piece.values, *piece.gaps]
        for item in sorted(items, key=_number) if piece.gaps else items:
            waiting += [_gap_row(item)] if isinstance(item, Gap) else _rows(item)
            if len(waiting) >= size:
                yield _batch(pa, schema, waiting)
                waiting = []
    if waiting:
        yield _batch(pa, schema, waiting)


def distinct_messages(messages: DataFrame) -> DataFrame:
    """Each message once, where it was archived first; rows that are no messages stay as they are. A stream keeps messages alone, each as
    it comes first, and Spark has to remember them all: `withWatermark("time", …)` and `dropDuplicatesWithinWatermark` bound that.

    +---+------+------+        +---+------+------+
    |seq|sender|number|        |seq|sender|number|
    +---+------+------+   →    +---+------+------+
    |  4|   ana|     7|        |  4|   ana|     7|
    |  9|   ana|     7|        +---+------+------+
    +---+------+------+
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    if messages.isStreaming:
        return messages.where(F.col("kind") == "message").dropDuplicates(["sender", "number"])
    same = Window.partitionBy("kind", "sender", "number").orderBy("seq")
    ranked = messages.withColumn("again", F.row_number().over(same))
    return ranked.where((F.col("kind") != "message") | (F.col("again") == 1)).drop("again")


def _number(item: Value | Gap) -> int:
    return item.first if isinstance(item, Gap) else item.seq


def _rows(value: Value) -> list[tuple[Any, ...]]:
    content = values.decode(value.data)
    seq, time = value.seq, value.time // _MICROSECOND
    if isinstance(content, Batch):
        return [_message_row(seq, time, content, number) for number in range(content.first, content.last + 1)]
    if isinstance(content, Placed):
        return [(seq, time, "view", content.epoch, *(None,) * 8, [str(member) for member in content.members])]
    if isinstance(content, Marker):
        return [(seq, time, "mark", content.view, *(None,) * 9)]
    if isinstance(content, Lost):
        ranges = [(who, low, high) for who, flat in content.lost.items() for low, high in zip(flat[::2], flat[1::2], strict=False)]
        return [(seq, time, "lost", None, str(who), low, high, *(None,) * 6) for who, low, high in ranges]
    return [(seq, time, "foreign", *(None,) * 4, value.data, *(None,) * 5)]


def _message_row(seq: int, time: int, batch: Batch, number: int) -> tuple[Any, ...]:
    parent = batch.reply_to(number)
    follows = batch.follows(number)
    guest = batch.guests.get(number) if batch.guests else None
    return (
        *(seq, time, "message", batch.view, str(batch.sender), number, number, batch.payload(number)),
        None if parent is None else _name(parent),
        [_name(name) for name in (follows if parent is None else follows[1:])],
        round(batch.sent_at * _MICROSECONDS),
        None if guest is None else str(guest[0]),
        None,
    )


def _gap_row(gap: Gap) -> tuple[Any, ...]:
    return (gap.first, None, "gap", *(None,) * (_WIDTH - 3), gap.why, gap.last)


def _name(message: MessageId) -> dict[str, object]:
    return {"sender": str(message.sender), "number": message.seqno}


def _schema(with_gaps: bool) -> pyarrow.Schema:
    import pyarrow as pa

    name, moment = pa.struct([("sender", pa.string()), ("number", pa.int64())]), pa.timestamp("us", tz="UTC")
    fields = [("seq", pa.int64()), ("time", moment), ("kind", pa.string()), ("view", pa.int64()), ("sender", pa.string())]
    fields += [("number", pa.int64()), ("last", pa.int64()), ("data", pa.binary()), ("reply_to", name)]
    fields += [("after", pa.list_(pa.field("element", name))), ("sent_at", moment), ("guest", pa.string())]
    fields += [("members", pa.list_(pa.field("element", pa.string())))]
    return pa.schema(fields + ([("gap", pa.string()), ("gap_last", pa.int64())] if with_gaps else []))


def _batch(pa: Any, schema: pyarrow.Schema, rows: list[tuple[Any, ...]]) -> pyarrow.RecordBatch:
    columns: list[list[Any]] = [[] for _ in schema]
    for row in rows:
        for at, column in enumerate(columns):
            column.append(row[at] if at < len(row) else None)
    return pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)
