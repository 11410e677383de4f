"""What else the rows of a trace say about how a group fared: how much was sent again, dropped, held; and how its views came about.

Each function is one aggregation over events in steady time (`spark.clocks`), without a join of messages. Rates are per thousand messages
that members received from others: duplicates and repairs are counted in frames, and a frame may hold many messages, so a rate may be far
below what a network lost.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_QUIET_DROPS = ("duplicate", "own_frame")
"""Dropped because that is right: a member hears itself, and what was repaired may come twice."""

SIMULATED, REAL = "simulated", "real"


def worlds_of(events: DataFrame) -> DataFrame:
    """(run, world): whether what the writers of a run call time was a machine's, which one that does not say is taken to mean, or made."""
    made = F.get_json_object("note", "$.clock") != "system"
    world = F.when(F.coalesce(F.max(made), F.lit(False)), SIMULATED).otherwise(REAL)
    return events.where((F.col("kind") == "open") & (F.col("index") == 0)).groupBy("run").agg(world.alias("world"))


def groups_of(events: DataFrame) -> DataFrame:
    """(run, group, name, order, multicast, delivery), from what the members say when they come."""
    option = {name: F.get_json_object("note", f"$.{name}") for name in ("name", "order", "multicast", "delivery")}
    return (
        events.where(F.col("kind") == "group")
        .select("run", "group", *(value.alias(name) for name, value in option.items()))
        .groupBy("run", "group")
        .agg(*(F.max(name).alias(name) for name in option))
    )


def rates(events: DataFrame) -> DataFrame:
    """One row per member: messages sent, received, delivered; what was caught up with, given up, told lost; frames dropped, asked for, sent
    again.

    run group member sent received delivered recovered orphaned lost duplicates dropped asked resent duplicates_per_1000 resent_per_1000
    """
    messages = F.col("last") - F.col("first") + 1
    kind, note = F.col("kind"), F.coalesce("note", F.lit(""))
    foreign = F.coalesce(F.col("sender") != F.col("member"), F.lit(True))
    drop, repair, deliver = kind == "drop", kind == "repair", kind == "deliver"

    def total(condition: Column, amount: Column) -> Column:
        return F.sum(F.when(condition, amount).otherwise(0))

    found = (
        events.where(kind.isin("send", "receive", "deliver", "gap", "drop", "repair"))
        .groupBy("run", "group", "member")
        .agg(
            total(kind == "send", messages).alias("sent"),
            total((kind == "receive") & foreign, messages).alias("received"),
            total(deliver, messages).alias("delivered"),
            total(deliver & (note == "recovered"), messages).alias("recovered"),
            total(deliver & (note == "orphaned"), messages).alias("orphaned"),
            total((kind == "gap") & (note == ""), messages).alias("lost"),
            total(drop & (note == "duplicate"), F.col("amount")).alias("duplicates"),
            total(drop & ~note.isin(*_QUIET_DROPS), F.col("amount")).alias("dropped"),
            total(repair & (note == "asked"), F.col("amount")).alias("asked"),
            total(repair & (note == "sent"), F.col("amount")).alias("resent"),
        )
    )
    per_1000 = {f"{name}_per_1000": 1000 * F.col(name) / F.greatest("received", F.lit(1)) for name in ("duplicates", "resent")}
    return found.withColumns(per_1000).orderBy("run", "group", "member")


def occupancy(events: DataFrame) -> DataFrame:
    """(run, group, place, samples, mean, p99, most, most_at): how many messages waited where; `most_at` is the member that had most."""
    amount = F.col("amount")
    return (
        events.where(F.col("kind") == "queue")
        .groupBy("run", "group", F.col("note").alias("place"))
        .agg(
            F.count(F.lit(1)).alias("samples"),
            F.avg(amount).alias("mean"),
            F.percentile_approx(amount, 0.99, 10_000).alias("p99"),
            F.max(amount).alias("most"),
            F.max_by("member", amount).alias("most_at"),
        )
        .orderBy("run", "group", "place")
    )


def views(events: DataFrame) -> DataFrame:
    """One row per view: how long it took until everybody had it, had caught up, and knew that everybody had.

    run group view size installed began_ns spread_ns caught_up_ns stable_ns unstable

    `spread_ns` is from the first installation to the last; `caught_up_ns` and `stable_ns` the longest that any member took from its own
    installation, by its own clock; `unstable` members never knew: they crashed, or the next view came first.
    """
    keys = ["run", "group", "member", "view"]
    stable = F.col("note") == "stable"
    reached = (
        events.where(F.col("kind") == "settled")
        .groupBy(*keys)
        .agg(
            F.min(F.when(F.col("note").isNull(), F.col("at"))).alias("caught_up"),
            F.min(F.when(stable, F.col("at"))).alias("stable"),
        )
    )
    return (
        events.where(F.col("kind") == "view")
        .groupBy(*keys)
        .agg(F.min("at").alias("at"), F.min("time_ns").alias("time_ns"), F.max(F.size("members")).alias("size"))
        .join(reached, keys, "left")
        .groupBy("run", "group", "view")
        .agg(
            F.max("size").alias("size"),
            F.count(F.lit(1)).alias("installed"),
            F.min("time_ns").alias("began_ns"),
            (F.max("time_ns") - F.min("time_ns")).alias("spread_ns"),
            F.max(F.col("caught_up") - F.col("at")).alias("caught_up_ns"),
            F.max(F.col("stable") - F.col("at")).alias("stable_ns"),
            F.count(F.when(F.col("stable").isNull(), 1)).alias("unstable"),
        )
        .orderBy("run", "group", "began_ns")
    )
