"""Where a member has a message: points find the row that holds their number.

Both are sorted by member, sender and number, and each point takes the last row that begins at or before it. That costs one sort of both,
whatever the ranges; and no key is larger than what one member has of one sender.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

KEYS = ("group_id", "member_id", "sender_id")


def located(points: DataFrame, rows: DataFrame, *columns: str) -> DataFrame:
    """The points (`KEYS`, `number` and any others) with `found`, a struct of the row's `columns`, or null. Rows have `KEYS`, `first`,
    `last` and `index`; of two that hold the number the earlier one counts.

        points:  member  sender  number        rows:  first  last  index   →   number  found
                 ana     ben     3                    1      5     7           3       (7)
                 ana     ben     9                                             9       null
    """
    carried = [name for name in points.columns if name not in KEYS and name != "number"]
    found = F.struct("last", *columns)
    kind = rows.select(found.alias("found")).schema["found"].dataType
    asked = points.select(
        *KEYS,
        "number",
        F.lit(1).alias("side"),
        F.lit(0).cast("bigint").alias("age"),
        F.struct("number", *carried).alias("point"),
        F.lit(None).cast(kind).alias("found"),
    )
    asking = asked.schema["point"].dataType
    held = rows.select(
        *KEYS,
        F.col("first").alias("number"),
        F.lit(0).alias("side"),
        (-F.col("index")).alias("age"),
        F.lit(None).cast(asking).alias("point"),
        found.alias("found"),
    )
    by_number = Window.partitionBy(*KEYS).orderBy("number", "side", "age")
    return (
        asked.unionByName(held)
        .withColumn("found", F.last("found", ignorenulls=True).over(by_number))
        .where(F.col("side") == 1)
        .withColumn("found", F.when(F.col("found.last") >= F.col("number"), F.col("found")))
        .select(*KEYS, "number", *(F.col(f"point.{name}").alias(name) for name in carried), "found")
    )
