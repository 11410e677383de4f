"""The walk: every member's rows once, in their order, and what is left of them.

The trace is cut by (group, member) and sorted by index: the only time that all of it is moved. A task goes through it in Arrow batches and
keeps of each member only how far it is. What it hands on, to where the group is judged:

- the rows of which there are few (views, gaps, orphaned deliveries, …), as they are;
- `jump` and `late`: one example of a position that does not follow, and of a delivery after leaving, with their number;
- `sent` and `range`: runs of numbers that were sent, or delivered one after the other in one view;
- `block`: of total groups the sums over blocks of places (`total.py`);
- `sheet`: the member's rows, packed in pieces (`sheet.py`), unless there are too many;
- `checks`: their checksums by blocks of numbers (`checks.py`). But for the first block these are compared apart, so that a large group is
  no large task.

Costs: one shuffle and sort of a dozen narrow columns, and some microseconds per row. Keeps: one batch, one piece of a sheet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, LongType, StringType, StructField, StructType

from antiphon.spark.audit.acts import Acts, member_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow

    from antiphon.spark.audit.sheet import Limits

_LONG, _WORD = LongType(), StringType()
_NAME = StructType([StructField(name, _LONG) for name in ("seqno", "sender", "number")])
_KEPT: dict[str, DataType] = {
    "note": _WORD, "members": ArrayType(_LONG), "names": ArrayType(_NAME), "sides": ArrayType(ArrayType(_LONG)), "writer_id": _LONG,
    "run": _WORD, "group": _WORD,
}  # fmt: skip
_NUMBERS = ("index", "view", "sender_id", "first", "last", "amount")
_WALKED = (*_NUMBERS, "position")


def _table(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


ROWS = _table(
    group_id=_LONG, member_id=_LONG, kind=_LONG, **dict.fromkeys(_WALKED, _LONG), at=_LONG, sort=_LONG, **_KEPT, checks=ArrayType(_LONG)
)
ENTRIES = _table(
    part=_LONG, group_id=_LONG, member_id=_LONG, kind=_WORD, high=_LONG, **dict.fromkeys(_NUMBERS, _LONG), **_KEPT, rows=_LONG,
    sheet=BinaryType(),
)  # fmt: skip
"""`part`: what is judged together. `rows`: of a range, how many rows it took."""
_FEW = ("group", "view", "gap", "stable", "settled", "leave")
_TOPICS = ("publish", "read", "done", "collect")


def entries(acts: Acts, limits: Limits) -> DataFrame:
    """What is left of the trace: `ENTRIES`."""

    def go(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        from antiphon.spark.audit.walker import walk

        return walk(batches, limits)

    return (
        acts.of_kinds(*_FEW, "send", "deliver", "receive", "hold", *_TOPICS)
        .transform(_narrow)
        .repartition("group_id", "member_id")
        .sortWithinPartitions("group_id", "member_id", "index")
        .mapInArrow(go, ENTRIES)
    )


def _narrow(rows: DataFrame) -> DataFrame:
    from antiphon.spark.audit import sheet

    kind, note = F.col("kind"), F.col("note")
    code = F.lit(sheet.TOPIC)
    for name in ("settled", "leave", "stable", "gap", "view", "group", "hold", "send", "receive", "deliver"):
        code = F.when(kind == name, sheet.KINDS.index(name)).otherwise(code)
    sort = (
        F.when(note.isNull() | ~kind.isin("deliver", "send"), sheet.ORDINARY)
        .when(kind == "send", F.when(note == "guest", sheet.GUEST).otherwise(sheet.ORDINARY))
        .when(note == "recovered", sheet.RECOVERED)
        .when(note == "orphaned", sheet.ORPHANED)
        .when(note == "ordinary", sheet.ORDINARY)
        .otherwise(sheet.OTHER)
    )
    is_group = kind == "group"
    sides = F.from_json("note", "struct<sides: array<array<string>>>")["sides"]
    names = F.transform("names", lambda name: F.struct(name["seqno"], member_id(name["sender"]), name["number"]))
    columns: dict[str, Column] = {
        "kind": code,
        "sort": sort,
        "sender_id": F.when(kind == "send", F.col("member_id")).otherwise(F.col("sender_id")),
        "note": F.when(kind.isin(*_FEW), note),
        "position": F.when(kind == "deliver", F.col("position")),
        "members": F.when(kind == "view", F.transform("members", member_id)),
        "names": F.when(kind.isin("view", "stable", "send", "hold") | ((kind == "deliver") & note.isin("orphaned", "recovered")), names),
        "sides": F.when(kind == "view", F.transform(sides, lambda side: F.transform(side, member_id))),
        "writer_id": F.when(is_group, F.xxhash64("run", "writer")),
        "run": F.when(is_group, F.col("run")),
        "group": F.when(is_group, F.col("group")),
        "checks": F.when(kind.isin("send", "deliver"), F.col("checks")),
    }
    return rows.select(*(_cast(columns.get(field.name, F.col(field.name)), field.dataType).alias(field.name) for field in ROWS))


def _cast(column: Column, kind: DataType) -> Column:
    """Lists are empty rather than absent: on the way to Python, Spark goes back over all absent ones before a row, for every row."""
    return F.coalesce(column.cast(kind), F.array().cast(kind)) if isinstance(kind, ArrayType) else column.cast(kind)
