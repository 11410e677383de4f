"""What a judge on an executor has found: a row, small, with ids instead of names.

A finding may be no more than a count of what was looked at (`amount` 0). Where something is broken it names rows by member and index
(`rows`), rows that are still to be looked up by what they are about (`points`), or two members whose order in one block of places differs
(`compare`). In its `story`, `@1234` stands for the member with that id; the names come in at the end, when few are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

_ROW = StructType([StructField("member_id", LongType()), StructField("index", LongType())])
_POINT = StructType(
    [
        StructField("kind", StringType()),
        StructField("member_id", LongType()),
        StructField("sender_id", LongType()),
        StructField("number", LongType()),
    ]
)
_COMPARE = StructType([StructField(name, LongType()) for name in ("view", "block", "one", "other", "places")])

FINDING = StructType(
    [
        StructField("group_id", LongType()),
        StructField("run", StringType()),
        StructField("group", StringType()),
        StructField("promise", StringType()),
        StructField("checked", LongType()),
        StructField("amount", LongType()),
        StructField("story", StringType()),
        StructField("rows", ArrayType(_ROW)),
        StructField("points", ArrayType(_POINT)),
        StructField("compare", _COMPARE),
    ]
)

ROWS_TYPE = "array<struct<member_id: bigint, index: bigint>>"
POINTS_TYPE = "array<struct<kind: string, member_id: bigint, sender_id: bigint, number: bigint>>"
COMPARE_TYPE = "struct<view: bigint, block: bigint, one: bigint, other: bigint, places: bigint>"


class Point(NamedTuple):
    """The row of `member_id` that delivers, sends, … number `number` of `sender_id`."""

    kind: str
    member_id: int
    sender_id: int
    number: int


class Compare(NamedTuple):
    """Two members of which the places of one block of one view are not the same; only the first `places` are judged."""

    view: int
    block: int
    one: int
    other: int
    places: int


class Finding(NamedTuple):
    group_id: int
    promise: str
    checked: int = 0
    amount: int = 0
    story: str = ""
    rows: Sequence[tuple[int, int]] = ()
    points: Sequence[Point] = ()
    compare: Compare | None = None


def as_findings(
    frame: DataFrame,
    promise: str | Column,
    *,
    checked: Column | None = None,
    amount: Column | None = None,
    story: Column | None = None,
    rows: Column | None = None,
    points: Column | None = None,
    named: bool = False,
) -> DataFrame:
    """Each row as a finding; `rows` and `points` are arrays of structs in the order of their columns. `named`: the frame has the columns
    `run` and `group`, because nobody else knows the name of a topic."""
    return frame.select(
        F.col("group_id"),
        *((F.col(name) if named else F.lit(None).cast("string")).alias(name) for name in ("run", "group")),
        (F.lit(promise) if isinstance(promise, str) else promise).alias("promise"),
        (F.lit(0) if checked is None else F.coalesce(checked, F.lit(0))).cast("bigint").alias("checked"),
        (F.lit(0) if amount is None else F.coalesce(amount, F.lit(0))).cast("bigint").alias("amount"),
        (F.lit("") if story is None else story).alias("story"),
        (F.array() if rows is None else rows).cast(ROWS_TYPE).alias("rows"),
        (F.array() if points is None else points).cast(POINTS_TYPE).alias("points"),
        F.lit(None).cast(COMPARE_TYPE).alias("compare"),
    )


def row(member: Column, index: Column) -> Column:
    return F.struct(member.alias("member_id"), index.alias("index"))


def point(kind: str, member: Column, sender: Column, number: Column) -> Column:
    return F.struct(F.lit(kind).alias("kind"), member.alias("member_id"), sender.alias("sender_id"), number.alias("number"))
