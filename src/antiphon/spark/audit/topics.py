"""Durable topics: what subscribers were handed, told and said, against what was published and collected.

| promise | says |
|---|---|
| topic_numbers | no number is acknowledged for two values, and a publisher's values have the order in which it published them |
| topic_order | in one epoch of a subscriber each value is handed out at most once, in order, and none that it was done with |
| topic_nothing_lost | no number is passed over in silence, within an epoch or between what was done and where the next one begins |
| topic_gaps | only what was collected is told to be gone; judged in runs in which somebody records what is collected |
| topic_done | a subscriber's position never goes back, and never beyond what it was handed |

Epochs (`view`) follow each other: whoever comes back under an id fences who held it before. Two sorts: by subscriber and epoch in the order
of the rows, and by publisher and number. A number that was published and not acknowledged may be there or not; nobody judges it.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from antiphon.spark.audit.acts import Acts
from antiphon.spark.audit.finding import as_findings
from antiphon.spark.audit.integrity import BLOCK_BITS

_HERE = ("run", "group", "group_id")
_AT = "struct<last: bigint, index: bigint, writer_id: bigint>"


def judge(acts: Acts) -> DataFrame:
    """Everything that is wrong with topics, told once for each subscriber or publisher."""
    columns = ("member", "sender", "view", "first", "last", "position", "index", "kind", "note")
    rows = acts.of_kinds("publish", "read", "done", "collect").select(*_HERE, F.xxhash64("run", "writer").alias("writer_id"), *columns)
    return _subscribers(rows).unionByName(_publishers(rows))


def _at(*columns: str) -> Column:
    return F.struct(*columns, "index", "writer_id")


def _subscribers(rows: DataFrame) -> DataFrame:
    floors = rows.where(F.col("kind") == "collect").groupBy("group_id").agg(F.max("last").alias("floor"))
    collecting = rows.where(F.col("kind") == "collect").select("run").distinct().withColumn("collects", F.lit(True))
    in_epoch = Window.partitionBy("group_id", "member", "view", "writer_id").orderBy("index").rowsBetween(Window.unboundedPreceding, -1)
    before_epoch = Window.partitionBy("group_id", "member").orderBy("view").rangeBetween(Window.unboundedPreceding, -1)
    is_read, is_done = F.col("kind") == "read", F.col("kind") == "done"
    marked = (
        rows.where(is_read | is_done)
        .withColumns(
            {
                "read": F.max(F.when(is_read, _at("last"))).over(in_epoch),
                "done": F.max(F.when(is_done, _at("last"))).over(in_epoch),
                "earlier": F.max(F.when(is_done, _at("last"))).over(before_epoch),
            }
        )
        .join(F.broadcast(floors), "group_id", "left")
        .join(F.broadcast(collecting), "run", "left")
    )
    first, last = F.col("first"), F.col("last")
    reached = F.greatest("done", "earlier")
    handed = F.greatest("read", "done", "earlier")
    since = F.coalesce(F.col("read"), F.col("earlier"))
    rules = [
        Rule("topic_order", is_read & (first <= F.col("read.last")), F.col("read"), "was handed", "again, or after a later one"),
        Rule(
            "topic_order",
            is_read & F.col("read").isNull() & (first <= F.col("earlier.last")),
            F.col("earlier"),
            "was handed",
            "again after it was done with it",
        ),
        Rule("topic_nothing_lost", is_read & (first > since["last"] + 1), since, "was handed", "and nothing of what lies before it"),
        Rule(
            "topic_gaps",
            is_read & (F.col("note") == "gap") & F.col("collects") & (last > F.coalesce("floor", F.lit(0))),
            F.lit(None).cast(_AT),
            "was told that",
            "is gone, which nobody had collected",
        ),
        Rule("topic_done", is_done & (last < reached["last"]), reached, "went back to", "from a later position"),
        Rule(
            "topic_done",
            is_done & F.col("read").isNotNull() & (last > handed["last"]),
            handed,
            "was done with",
            "before it was handed that",
        ),
    ]
    checked = {name: F.when(is_read, last - first + 1).otherwise(0) for name in ("topic_order", "topic_nothing_lost", "topic_gaps")}
    checked["topic_done"] = F.when(is_done, 1).otherwise(0)
    return _told(marked.withColumn("number", F.when(is_read, first).otherwise(last)), "member", rules, checked)


def _publishers(rows: DataFrame) -> DataFrame:
    """Acknowledged numbers. The same acknowledgement may be there twice: repeating a publish is safe."""
    once = rows.where(F.col("kind") == "publish").dropDuplicates(["group_id", "first", "last", "sender", "position"])
    blocks = F.sequence(F.shiftright("first", BLOCK_BITS), F.shiftright("last", BLOCK_BITS))
    before = Window.unboundedPreceding, -1
    by_number = Window.partitionBy("group_id", "block").orderBy("first", "last").rowsBetween(*before)
    by_publisher = Window.partitionBy("group_id", "sender").orderBy("first").rowsBetween(*before)
    marked = (
        once.withColumn("later", F.when(F.col("position") > 0, F.max(_at("position")).over(by_publisher)))
        .withColumn("block", F.explode(blocks))
        .withColumn("other", F.max(_at("last")).over(by_number))
        .withColumn("number", F.col("first"))
    )
    taken = (F.col("first") <= F.col("other.last")) | (F.col("first") < 1)
    behind = F.col("position") <= F.col("later.position")
    rules = [
        Rule("topic_numbers", taken, F.col("other"), "published", "which was taken"),
        Rule("topic_numbers", ~F.coalesce(taken, F.lit(False)) & behind, F.col("later"), "published", "after what it published later"),
    ]
    return _told(marked, "sender", rules, {"topic_numbers": F.col("last") - F.col("first") + 1})


class Rule(NamedTuple):
    """When a row breaks a promise, with which other row, and how that is said."""

    promise: str
    wrong: Column
    other: Column
    did: str
    how: str


def _told(rows: DataFrame, who: str, rules: list[Rule], checked: dict[str, Column]) -> DataFrame:
    """The findings of all rules, one for each of `who`. What was looked at is counted with the first rule of a promise."""
    columns: list[Column] = [F.sum(column).alias(f"checked_{promise}") for promise, column in checked.items()]
    for place, rule in enumerate(rules):
        wrong = F.coalesce(rule.wrong, F.lit(False))
        prior = F.struct(rule.other["writer_id"].alias("member_id"), rule.other["index"].alias("index"))
        known = F.struct(F.col("writer_id").alias("member_id"), F.col("index"))
        example = F.struct(F.col("index"), F.col("number"), known.alias("known"), prior.alias("prior"))
        columns += [F.sum(wrong.cast("bigint")).alias(f"amount_{place}"), F.min(F.when(wrong, example)).alias(f"example_{place}")]
    found = []
    for place, rule in enumerate(rules):
        one = F.col(f"example_{place}")
        first = place == next(at for at, other in enumerate(rules) if other.promise == rule.promise)
        story = F.concat(F.coalesce(F.col(who), F.lit("somebody")), F.lit(f" {rule.did} number "), one["number"], F.lit(f" {rule.how}"))
        found.append(
            F.struct(
                F.lit(rule.promise).alias("promise"),
                (F.col(f"checked_{rule.promise}") if first else F.lit(0)).cast("bigint").alias("checked"),
                F.col(f"amount_{place}").alias("amount"),
                F.when(one.isNotNull(), story).otherwise("").alias("story"),
                F.filter(F.array(one["prior"], one["known"]), lambda at: at["index"].isNotNull()).alias("rows"),
            )
        )
    cells = rows.groupBy(*_HERE, who).agg(*columns).select(*_HERE, F.inline(F.array(*found)))
    here = {name: F.col(name) for name in ("checked", "amount", "story", "rows")}
    return cells.transform(as_findings, F.col("promise"), **here, named=True)
