"""A forest from its links: for every node its root and its depth, by pointer jumping.

    id parent          id root depth
     1   null           1    1     0
     2      1     →     2    1     1
     3      2           3    1     2
     9      7           9    9     0      7 is not there: 9 is a root, and lost

Every node points to its parent. In a round, every node that does not point to a root yet takes over the pointer of the node that it points
to, so the pointers double in length: a chain of 100,000 needs 17 rounds, not 100,000. What each round found is written down
(`settled`), because a plan of 17 self joins would be planned 2¹⁷ times.

Promised: links that run in a circle, which no group can make but a damaged trace may hold, end the work all the same: those nodes and all
that hang on them have no root. Nothing is collected but one count per round.
Cost: two shuffles of (id, pointer, distance) per round, log2(depth) + 1 rounds, of which only the first moves a star's leaves. On two cores
a random forest of 1,000,000 nodes, 33 deep, takes 12 s, a chain of 100,000 takes 17 rounds and 10 s, one of 1,000,000 takes 32 s.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

ROUNDS_LIMIT = 48
"""Rounds after which what still has no root is taken to run in a circle: no chain is longer than 2⁴⁸."""
CHECKPOINT_SETTING = "spark.checkpoint.dir"


def rooted(links: DataFrame) -> DataFrame:
    """From (id, parent or null), ids once each, to (id, parent, root, depth, lost). `lost`: the parent is not among the ids, so the node
    counts as a root. Root and depth are null for what runs in a circle."""
    pointers = settled(links.transform(_first_pointers))
    active = _active(pointers)
    for _ in range(ROUNDS_LIMIT):
        if not active:
            break
        pointers = settled(pointers.transform(_jump))
        # Who runs in a circle goes on for ever, but then nobody arrives any more.
        before, active = active, _active(pointers)
        if active == before and not _arriving(pointers):
            break
    done = F.col("done")
    return pointers.select(
        "id", "parent", F.when(done, F.col("up")).alias("root"), F.when(done, F.col("hops")).alias("depth"), F.col("lost")
    )


def settled(table: DataFrame) -> DataFrame:
    """The same table, computed and written down: what is made from it does not compute it again. It survives the loss of an executor where
    the session has a directory for checkpoints."""
    if table.sparkSession.conf.get(CHECKPOINT_SETTING, None):
        return table.checkpoint()
    return table.localCheckpoint()


def _first_pointers(links: DataFrame) -> DataFrame:
    """(id, parent, up, hops, done, lost): a root points to itself, everybody else to the parent, one hop away."""
    known = links.select(F.col("id").alias("known"), F.col("parent").isNull().alias("parent_is_root"))
    lost = F.col("parent").isNotNull() & F.col("known").isNull()
    root = F.col("parent").isNull() | lost
    return links.join(known, F.col("parent") == F.col("known"), "left").select(
        "id",
        "parent",
        F.when(root, F.col("id")).otherwise(F.col("parent")).alias("up"),
        F.when(root, F.lit(0)).otherwise(F.lit(1)).cast("long").alias("hops"),
        (root | F.coalesce(F.col("parent_is_root"), F.lit(False))).alias("done"),
        lost.alias("lost"),
    )


def _jump(pointers: DataFrame) -> DataFrame:
    """One round: whoever has not arrived goes on to where the node that it points to points."""
    ahead = pointers.select(F.col("id").alias("at"), F.col("up").alias("next"), F.col("hops").alias("more"), F.col("done").alias("there"))
    jumped = (
        pointers.where(~F.col("done"))
        .join(ahead, F.col("up") == F.col("at"))
        .select(
            "id", "parent", F.col("next").alias("up"), (F.col("hops") + F.col("more")).alias("hops"), F.col("there").alias("done"), "lost"
        )
    )
    # A union has the partitions of both: without this, their number would grow with every round.
    partitions = int(pointers.sparkSession.conf.get("spark.sql.shuffle.partitions") or 2)
    return pointers.where("done").unionByName(jumped).coalesce(partitions)


def _active(pointers: DataFrame) -> int:
    return pointers.where(~F.col("done")).count()


def _arriving(pointers: DataFrame) -> bool:
    """Whether anybody who has not arrived points to somebody who has."""
    there = pointers.where("done").select(F.col("id").alias("up"))
    return not pointers.where(~F.col("done")).join(there, "up", "left_semi").isEmpty()
