"""The rows behind findings: what is still to be looked up, and blocks of places that must be opened.

Findings are few and bounded, so the rows that they are about are fetched by a join that sends the few to the many. This is the only second
look at the trace, and only where something was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from antiphon.spark.audit.acts import Acts
from antiphon.spark.audit.finding import Compare, Point
from antiphon.spark.audit.total import BLOCK, places

COMPARES = 2_000
"""Blocks that are opened, two at a time."""


def find_points(acts: Acts, points: Sequence[tuple[int, Point]]) -> dict[tuple[int, Point], int]:
    """For each point of a group the index of the first row that it is about, where there is one."""
    if not points:
        return {}
    spark = acts.rows.sparkSession
    wanted = spark.createDataFrame(
        [(group, *point) for group, point in dict.fromkeys(points)],
        "group_id bigint, kind string, member_id bigint, sender_id bigint, number bigint",
    )
    keys = ["group_id", "kind", "member_id", "sender_id"]
    found = (
        acts.only(sorted({group for group, _ in points}))
        .of_kinds("send", "receive", "deliver", "gap")
        .withColumn("sender_id", F.when(F.col("kind") == "send", F.col("member_id")).otherwise(F.col("sender_id")))
        .select(*keys, "first", "last", "index")
        .join(F.broadcast(wanted), keys)
        .where(F.col("number").between(F.col("first"), F.col("last")))
        .groupBy(*keys, "number")
        .agg(F.min("index").alias("index"))
    )
    return {(row.group_id, Point(row.kind, row.member_id, row.sender_id, row.number)): row["index"] for row in found.collect()}


class Difference:
    """The first place at which two members had different messages: what each had there, as `(sender, number, index)`; None: nothing."""

    def __init__(self, group: int, compare: Compare, one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
        self.group, self.compare, self.one, self.other = group, compare, one, other


def open_blocks(acts: Acts, compares: Sequence[tuple[int, Compare]]) -> list[Difference]:
    """Those of the comparisons in which the order really differs."""
    if not compares:
        return []
    chosen = list(dict.fromkeys(compares))[:COMPARES]
    spark = acts.rows.sparkSession
    wanted = spark.createDataFrame(
        sorted({(group, member, compare.view, compare.block) for group, compare in chosen for member in (compare.one, compare.other)}),
        "group_id bigint, member_id bigint, view bigint, block bigint",
    )
    end = F.col("place") + F.col("last") - F.col("first")
    rows: DataFrame = (
        places(acts.only(sorted({group for group, _ in chosen})))
        .join(F.broadcast(wanted), ["group_id", "member_id", "view"])
        .where((F.col("place") < (F.col("block") + 1) * BLOCK) & (end >= F.col("block") * BLOCK))
    )
    had: dict[tuple[int, int, int, int], dict[int, tuple[int, int, int]]] = {}
    for row in rows.collect():
        _lay_out(had.setdefault((row.group_id, row.member_id, row.view, row.block), {}), row)
    differences = []
    for group, compare in chosen:
        mine = had.get((group, compare.one, compare.view, compare.block), {})
        theirs = had.get((group, compare.other, compare.view, compare.block), {})
        for place in range(compare.places):
            one, other = mine.get(place), theirs.get(place)
            if one is not None and other is not None and one[:2] != other[:2]:
                differences.append(Difference(group, compare, one, other))
                break
    return differences


def _lay_out(block: dict[int, tuple[int, int, int]], row: Row | Any) -> None:
    """Enters a row's messages at their places in the block."""
    begin = row.block * BLOCK
    for place in range(max(row.place, begin), min(row.place + row["last"] - row["first"], begin + BLOCK - 1) + 1):
        block[place - begin] = (row.sender_id, row["first"] + place - row.place, row["index"])
