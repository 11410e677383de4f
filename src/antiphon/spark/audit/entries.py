"""The rows of ledgers: ranges, places and everything of which there is little, as one narrow table.

The columns mean what they mean in the trace; where a row stands for many, `index` and `high` are its first and last, `amount` their
messages. A `block` is in `index`, its two sums in `first` and `last`.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from antiphon.spark.audit.acts import Acts, member_id
from antiphon.spark.audit.ranges import delivered_ranges
from antiphon.spark.audit.total import blocks_of_places

_EXAMPLE = "struct<first: bigint, one: bigint, two: bigint>"
_TYPES = {
    "group_id": "bigint",
    "member_id": "bigint",
    "kind": "string",
    "index": "bigint",
    "high": "bigint",
    "view": "bigint",
    "sender_id": "bigint",
    "first": "bigint",
    "last": "bigint",
    "amount": "bigint",
    "note": "string",
    "members": "array<bigint>",
    "names": "array<struct<sender: bigint, number: bigint>>",
    "sides": "array<array<bigint>>",
    "closed": "boolean",
    "crashed": "boolean",
    "doubled": "bigint",
    "doubled_at": _EXAMPLE,
    "inverted": "bigint",
    "inverted_at": _EXAMPLE,
}


def entries(acts: Acts, total: bool = True) -> DataFrame:
    """Every row that a ledger is made of; `total`: there are groups with places."""
    parts = [_lives(acts), _few(acts), _sends(acts), _delivered(acts), *([_places(acts)] if total else [])]
    return reduce(DataFrame.unionByName, parts)


def _shaped(frame: DataFrame, **columns: Column) -> DataFrame:
    return frame.select(*(columns.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in _TYPES.items()))


def _keys() -> dict[str, Column]:
    return {name: F.col(name) for name in ("group_id", "member_id")}


def _lives(acts: Acts) -> DataFrame:
    here = {name: F.col(name) for name in ("index", "note", "closed", "crashed")}
    return acts.lives.transform(_shaped, **_keys(), kind=F.lit("group"), last=F.col("contiguous"), **here)


def _few(acts: Acts) -> DataFrame:
    is_orphan = (F.col("kind") == "deliver") & (F.col("note") == "orphaned")
    kinds = F.col("kind").isin("view", "gap", "stable", "settled", "leave") | is_orphan
    rows = acts.rows.where(kinds).withColumn("kind", F.when(is_orphan, "orphan").otherwise(F.col("kind")))
    names = F.transform("names", lambda name: F.struct(member_id(name["sender"]).alias("sender"), name["number"].alias("number")))
    sides = F.from_json("note", "struct<sides: array<array<string>>>")["sides"]
    return rows.transform(
        _shaped,
        **{
            name: F.col(name) for name in ("group_id", "member_id", "kind", "index", "view", "sender_id", "first", "last", "amount", "note")
        },
        members=F.transform("members", member_id),
        names=names,
        sides=F.when(F.col("kind") == "view", F.transform(sides, lambda side: F.transform(side, member_id))),
    )


def _sends(acts: Acts) -> DataFrame:
    """What each member sent: its numbers have no holes, so one range says it, and those of its guests are told apart one by one."""
    guest = F.col("note") == "guest"
    rows = acts.of_kinds("send").select(
        *("group_id", "member_id", "view", "first", "last", "index"),
        F.when(guest, "guest").alias("note"),
        F.when(guest, F.col("first")).alias("of"),
    )
    ranges = rows.groupBy("group_id", "member_id", "note", "of").agg(
        F.min("first").alias("first"), F.max("last").alias("last"), F.min("index").alias("index"), F.max("index").alias("high")
    )
    here = {name: F.col(name) for name in ("note", "first", "last", "index", "high")}
    return ranges.transform(_shaped, **_keys(), kind=F.lit("sent"), sender_id=F.col("member_id"), **here)


def _delivered(acts: Acts) -> DataFrame:
    columns = ("sender_id", "view", "first", "last", "high", "doubled", "doubled_at", "inverted", "inverted_at")
    here = {name: F.col(name) for name in columns}
    return delivered_ranges(acts).transform(
        _shaped, **_keys(), kind=F.lit("range"), note=F.col("sort"), index=F.col("low"), amount=F.col("messages"), **here
    )


def _places(acts: Acts) -> DataFrame:
    here = {"view": F.col("view"), "index": F.col("block"), "amount": F.col("messages"), "first": F.col("sum"), "last": F.col("square")}
    return blocks_of_places(acts).transform(_shaped, **_keys(), kind=F.lit("block"), **here)
