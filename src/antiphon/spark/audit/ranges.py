"""Everything a member delivered, as few ranges as can be: maximal runs of one sender's numbers, of one view and one sort.

What a member delivered of a sender in a view is nearly always one range, however many rows it took; so sets are compared as a handful of
ranges, and the cost of the whole is one sort of the deliveries by member, sender and number. In that order two things show by themselves: a
number that comes twice, and one that has a later place than a larger one.

    member  sender  first  last  index         member  sender  view  sort       first  last  low  high  doubled  inverted
    ana     ben     1      4     7        →    ana     ben     1     ordinary   1      9     7    9     0        0
    ana     ben     5      9     9             ana     ben     2     recovered  10     12    15   15    0        0
    ana     ben     10     12    15
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from antiphon.spark.audit.acts import Acts

ORDINARY, RECOVERED, ORPHANED = "ordinary", "recovered", "orphaned"


def delivered_ranges(acts: Acts) -> DataFrame:
    """One row for each range: `messages` counts with repetition; `low` and `high` are the first and last index. `doubled` and `inverted`
    count rows, with one example each: `(number, index, index)`."""
    rows = acts.of_kinds("deliver").select(
        "group_id", "member_id", "sender_id", "view", "first", "last", "index", F.coalesce("note", F.lit(ORDINARY)).alias("sort")
    )
    holes = acts.groups.where(~F.array_contains("promises", "agreement")).select("group_id", F.lit(True).alias("holes"))
    return rows.join(F.broadcast(holes), "group_id", "left").transform(_marked).transform(_merged)


def _marked(rows: DataFrame) -> DataFrame:
    by_number = Window.partitionBy("group_id", "member_id", "sender_id").orderBy("first", "index")
    before = by_number.rowsBetween(Window.unboundedPreceding, -1)
    return (
        rows.withColumns(
            {
                "furthest": F.max(F.struct("last", "index")).over(before),
                "view_before": F.lag("view").over(by_number),
                "sort_before": F.lag("sort").over(by_number),
            }
        )
        .withColumn("is_doubled", F.coalesce(F.col("first") <= F.col("furthest.last"), F.lit(False)))
        .withColumn("latest", F.max(F.when(~F.col("is_doubled"), F.col("index"))).over(before))
        .withColumn("is_inverted", F.coalesce(~F.col("is_doubled") & (F.col("index") < F.col("latest")), F.lit(False)))
        .withColumn("begins", _begins())
        .withColumn("start", F.last("begins", ignorenulls=True).over(by_number))
    )


def _begins() -> Column:
    """The row's first number, where a new range begins. Over best effort what others sent has holes everywhere: nobody compares it."""
    hole = (F.col("first") > F.col("furthest.last") + 1) & ~(F.coalesce("holes", F.lit(False)) & (F.col("member_id") != F.col("sender_id")))
    other = (F.col("view") != F.col("view_before")) | (F.col("sort") != F.col("sort_before"))
    return F.when(F.col("furthest").isNull() | hole | other, F.col("first"))


def _merged(rows: DataFrame) -> DataFrame:
    return rows.groupBy("group_id", "member_id", "sender_id", "view", "sort", "start").agg(
        F.min("first").alias("first"),
        F.max("last").alias("last"),
        F.min("index").alias("low"),
        F.max("index").alias("high"),
        F.sum(F.col("last") - F.col("first") + 1).alias("messages"),
        F.sum(F.col("is_doubled").cast("bigint")).alias("doubled"),
        F.min(F.when(F.col("is_doubled"), F.struct("first", F.col("furthest.index").alias("one"), F.col("index").alias("two")))).alias(
            "doubled_at"
        ),
        F.sum(F.col("is_inverted").cast("bigint")).alias("inverted"),
        F.min(F.when(F.col("is_inverted"), F.struct("first", F.col("index").alias("one"), F.col("latest").alias("two")))).alias(
            "inverted_at"
        ),
    )
