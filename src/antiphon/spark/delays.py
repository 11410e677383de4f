"""How long messages took and where they waited, and what that cost: retransmissions, duplicates, buffers, changes of view.

Three measures of every delivery of somebody else's message:

| measure | from … to |
|---|---|
| `end_to_end` | accepted from the sending application … delivered to the receiving one |
| `travel` | accepted from the sending application … received, repairs included |
| `hold_back` | received … delivered: the price of the order |

Within a machine they are exact. Between machines the first two are corrected by the estimated difference of the clocks, and good to its
error (`spark.clocks`).

What was caught up with later (`recovered`) or given up waiting for (`orphaned`) says how long somebody was away, not how quick the group
is: it is counted in `rates` and left out here.

    bins (run, group, member, bucket, measure, bin) → by_group, by_order, by_member, by_time: deliveries, mean, p50, p90, p99, p99.9, max

Percentiles come from one histogram (`spark.histogram`: at most 1.1 % off, ranks exact), so every question after the first is cheap.
Cost: two joins (`spark.passages`) and one aggregation; one group with nearly all traffic is as good as many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from antiphon.spark.clocks import clocks, hosts_of, steadied
from antiphon.spark.forest import settled
from antiphon.spark.histogram import histogram, percentiles
from antiphon.spark.occurrences import groups_of, occupancy, rates, views
from antiphon.spark.passages import ordinary, passages
from antiphon.spark.tables import Tables

MEASURES = ("end_to_end", "travel", "hold_back")
BUCKETS = 60
"""Without a width, a run is cut into about so many pieces of time."""
_SECOND = 1_000_000_000


@dataclass(frozen=True)
class Delays:
    """The tables. `bins` is computed and kept; the others are computed when they are asked for."""

    bins: DataFrame
    groups: DataFrame
    rates: DataFrame
    occupancy: DataFrame
    views: DataFrame
    clocks: DataFrame
    bucket_s: float

    def by_group(self) -> DataFrame:
        found = percentiles(self.bins, ["run", "group", "measure"])
        return found.join(self.groups, ["run", "group"], "left").orderBy("run", "group", "measure")

    def by_order(self) -> DataFrame:
        return percentiles(self._with_order(), ["order", "measure"]).orderBy("order", "measure")

    def by_member(self) -> DataFrame:
        found = percentiles(self.bins, ["run", "group", "member", "measure"])
        return found.join(self.groups, ["run", "group"], "left").orderBy("run", "group", "member", "measure")

    def by_time(self) -> DataFrame:
        """`since_s`: seconds since the run began."""
        found = percentiles(self._with_order(), ["run", "order", "bucket", "measure"])
        return found.withColumn("since_s", F.col("bucket") * self.bucket_s).orderBy("run", "order", "bucket", "measure")

    def shape(self) -> DataFrame:
        """(order, measure, bin, amount): for pictures."""
        return self._with_order().groupBy("order", "measure", "bin").agg(F.sum("amount").alias("amount")).orderBy("order", "measure", "bin")

    def _with_order(self) -> DataFrame:
        return self.bins.join(self.groups, ["run", "group"], "left").withColumn("order", F.coalesce("order", F.lit("unknown")))


def delays(tables: Tables, bucket_s: float | None = None) -> Delays:
    """The delays in all runs, time cut into buckets of `bucket_s` (without it: so that a run has about `BUCKETS`)."""
    hosts = settled(tables.events.transform(hosts_of))
    events = tables.events.transform(steadied, hosts)
    passed = passages(events).where(ordinary())
    if hosts.groupBy("run").agg(F.count_distinct("host").alias("hosts")).where("hosts > 1").isEmpty():
        differences = passed.transform(clocks).limit(0)
    else:
        passed = settled(passed)  # it is looked at twice: once for the clocks, once with what they say
        differences = settled(passed.transform(clocks))
        passed = passed.transform(_corrected, differences)
    width = bucket_s or _usual_bucket(tables.writers)
    begins = events.where(F.col("kind") == "open").groupBy("run").agg(F.min("time_ns").alias("began_ns"))
    since = F.greatest(F.col("delivered_ns") - F.col("began_ns"), F.lit(0))
    measured = passed.join(F.broadcast(begins), "run").withColumn("bucket", F.floor(since / (width * _SECOND))).transform(_measures)
    bins = settled(histogram(measured, ["run", "group", "member", "bucket", "measure"]))
    return Delays(bins, events.transform(groups_of), rates(events), occupancy(events), views(events), differences, width)


def _corrected(passed: DataFrame, differences: DataFrame) -> DataFrame:
    """The sending as the receiver's clock would have said it."""
    keys = ["run", "source", "destination"]
    ahead = F.coalesce("ahead_ns", F.lit(0))
    return passed.join(F.broadcast(differences.select(*keys, "ahead_ns")), keys, "left").withColumn("sent_ns", F.col("sent_ns") + ahead)


def _measures(passed: DataFrame) -> DataFrame:
    """One row per measure: (run, group, member, bucket, amount, measure, nanoseconds)."""
    sent, received, delivered = F.col("sent_ns"), F.col("received_ns"), F.col("delivered_ns")
    found = zip(MEASURES, (delivered - sent, received - sent, delivered - received), strict=True)
    pairs = [F.struct(F.lit(measure).alias("measure"), time.alias("nanoseconds")) for measure, time in found]
    return passed.select("run", "group", "member", "bucket", "amount", F.explode(F.array(*pairs)).alias("found")).select(
        "run", "group", "member", "bucket", "amount", "found.*"
    )


def _usual_bucket(writers: DataFrame) -> float:
    """About a sixtieth of the longest writer's time: 1, 2 or 5 times a power of ten seconds."""
    longest = writers.agg(F.max(F.col("last_at") - F.col("first_at"))).first()
    wanted = max((longest[0] if longest else None) or 0, 1) / _SECOND / BUCKETS
    power = 10.0 ** math.floor(math.log10(wanted))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= wanted), 10 * power)
