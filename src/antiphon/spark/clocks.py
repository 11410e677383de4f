"""One time for all that happened in a run, and how far the clocks of its machines are apart.

**Steady time.** Wall clocks are set, and jump; monotonic clocks do not, but each machine counts from another moment. `steadied` takes the
monotonic clock and adds what the wall clock of the same machine was ahead of it when the first writer there began. Between writers of one
machine such times are exact; between machines they are as good as the wall clocks were at that moment.

**Differences.** Between machines every message is a measurement: received by one clock, less sent by the other, it is the time that it took
plus the difference of the clocks. The quickest message of each direction took least, so

    ahead_ns = (quickest there - quickest back) / 2         the other clock is ahead by this much,
    error_ns = (quickest there + quickest back) / 2         give or take this much, because neither took less than no time.

A pair with traffic in one direction only can not be estimated: `ahead_ns` and `error_ns` are null. The estimate is one for a whole run, so
clocks that drift make it coarser.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def hosts_of(events: DataFrame) -> DataFrame:
    """(run, writer, host, shift_ns): the machine of each writer, and what makes its monotonic clock steady time. A writer that does not say
    where it runs counts as a machine of its own."""
    opened = events.where((F.col("kind") == "open") & (F.col("index") == 0)).select(
        "run", "writer", "at", "wall", F.coalesce(F.get_json_object("note", "$.host"), F.col("writer")).alias("host")
    )
    shifts = opened.groupBy("run", "host").agg(F.min_by(F.col("wall") - F.col("at"), F.col("at")).alias("shift_ns"))
    return opened.join(shifts, ["run", "host"]).select("run", "writer", "host", "shift_ns")


def steadied(events: DataFrame, hosts: DataFrame) -> DataFrame:
    """The events with `host` and `time_ns`, steady time; of a writer that never opened, the wall clock's. There is a row per writer, which
    every executor can hold: nothing is shuffled."""
    return (
        events.join(F.broadcast(hosts), ["run", "writer"], "left")
        .withColumns({"host": F.coalesce("host", "writer"), "time_ns": F.coalesce(F.col("at") + F.col("shift_ns"), F.col("wall"))})
        .drop("shift_ns")
    )


def clocks(passages: DataFrame) -> DataFrame:
    """(run, source, destination, messages, quickest_ns, ahead_ns, error_ns), a row for each direction between two machines.

    source destination quickest_ns          source destination quickest_ns ahead_ns error_ns
    a      b                     7     →    a      b                     7        3        4
    b      a                     1          b      a                     1       -3        4
    """
    keys = ["run", "source", "destination"]
    one_way = (
        passages.where((F.col("source") != F.col("destination")) & F.col("received_ns").isNotNull())
        .groupBy(*keys)
        .agg(F.sum("amount").alias("messages"), F.min(F.col("received_ns") - F.col("sent_ns")).alias("quickest_ns"))
    )
    back = one_way.toDF("run", "destination", "source", "messages_back", "back_ns")
    return one_way.join(back, keys, "left").select(
        *(*keys, "messages", "quickest_ns"),
        ((F.col("quickest_ns") - F.col("back_ns")) / 2).cast("long").alias("ahead_ns"),
        ((F.col("quickest_ns") + F.col("back_ns")) / 2).cast("long").alias("error_ns"),
    )
