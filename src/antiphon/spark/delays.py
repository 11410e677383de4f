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

A simulation's time is virtual and a machine's is not, so the two are never in one figure: each has its `world`, `simulated` or `real`.

Percentiles come from one histogram (`spark.histogram`: at most 1.1 % off, ranks exact), so every question after the first is cheap.
Cost: two joins (`spark.passages`) and one aggregation; one group with nearly all traffic is as good as many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from antiphon.spark.clocks import clocks, hosts_of, steadied
from antiphon.spark.forest import settled
from antiphon.spark.histogram import histogram, percentiles
from antiphon.spark.occurrences import REAL, groups_of, occupancy, rates, views, worlds_of
from antiphon.spark.passages import ordinary, passages
from antiphon.spark.tables import Tables

MEASURES = ("end_to_end", "travel", "hold_back")
BUCKETS = 60
"""Without a width, the time in which all but the last hundredth was delivered is cut into about so many pieces."""
_SECOND = 1_000_000_000


@dataclass(frozen=True)
class Delays:
    """The tables. `bins` is computed and kept; the others are computed when they are asked for."""

    bins: DataFrame
    groups: DataFrame
    worlds: DataFrame
    rates: DataFrame
    occupancy: DataFrame
    views: DataFrame
    clocks: DataFrame
    bucket_s: float

    def by_group(self) -> DataFrame:
        return percentiles(self.bins, ["run", "group", "measure"]).transform(self._described).orderBy("run", "group", "measure")

    def by_order(self) -> DataFrame:
        keys = ["world", "order", "measure"]
        return percentiles(self._described(self.bins), keys).orderBy(*keys)

    def by_member(self) -> DataFrame:
        keys = ["run", "group", "member", "measure"]
        return percentiles(self.bins, keys).transform(self._described).orderBy(*keys)

    def by_time(self) -> DataFrame:
        """`since_s`: seconds since the run began."""
        keys = ["world", "run", "order", "bucket", "measure"]
        found = percentiles(self._described(self.bins), keys)
        return found.withColumn("since_s", F.col("bucket") * self.bucket_s).orderBy(*keys)

    def shape(self) -> DataFrame:
        """(world, order, measure, bin, amount): for pictures."""
        keys = ["world", "order", "measure", "bin"]
        return self._described(self.bins).groupBy(*keys).agg(F.sum("amount").alias("amount")).orderBy(*keys)

    def _described(self, found: DataFrame) -> DataFrame:
        """With what is known of the group and of the run."""
        known = {"order": F.coalesce("order", F.lit("unknown")), "world": F.coalesce("world", F.lit(REAL))}
        return found.join(self.groups, ["run", "group"], "left").join(F.broadcast(self.worlds), "run", "left").withColumns(known)


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
    begins = settled(events.where(F.col("kind") == "open").groupBy("run").agg(F.min("time_ns").alias("began_ns")))
    width = bucket_s or _usual_bucket(events, begins)
    bucket = F.floor(_since("delivered_ns") / (width * _SECOND))
    measured = passed.join(F.broadcast(begins), "run").withColumn("bucket", bucket).transform(_measures)
    bins = settled(histogram(measured, ["run", "group", "member", "bucket", "measure"]))
    described = settled(events.transform(groups_of)), settled(events.transform(worlds_of))  # every question asks for them
    return Delays(bins, *described, rates(events), occupancy(events), views(events), differences, width)


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


def _since(time_ns: str) -> Column:
    """Nanoseconds since the run began."""
    return F.greatest(F.col(time_ns) - F.col("began_ns"), F.lit(0))


def _usual_bucket(events: DataFrame, begins: DataFrame) -> float:
    """1, 2 or 5 times a power of ten seconds. Not by how long a run lasted: members stay long after the last message, and all that was
    delivered would be in the first few pieces."""
    deliveries = events.where(F.col("kind") == "deliver").join(F.broadcast(begins), "run")
    found = deliveries.agg(F.percentile_approx(_since("time_ns"), 0.99, 1_000)).first()
    wanted = max((found[0] if found else None) or 0, 1) / _SECOND / BUCKETS
    power = 10.0 ** math.floor(math.log10(wanted))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= wanted), 10 * power)
