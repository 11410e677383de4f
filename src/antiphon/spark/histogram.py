"""Times in bins, so that any percentile of any part of a table can be had from a small table of counts.

A bin is 1/32 of a doubling. What is given back for a value is the middle of its bin: at most 1.1 % from the value (`ERROR`); ranks are
exact, and so are counts, means and maxima. 0 has a bin of its own, and so has everything below (a clock was wrong). Between a nanosecond
and a year there are 1,760 bins, so the table stays small however many deliveries there were; tables of parts add up to that of the whole.

Cost: one aggregation of the data, and one window over the bins for each question.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

BINS_PER_DOUBLING = 32
ERROR = 2 ** (0.5 / BINS_PER_DOUBLING) - 1
"""The largest distance of a percentile from the value it stands for, as a share of it."""
PERCENTILES = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p999_ns": 0.999}

BELOW, ZERO = -1, 0


def bin_of(nanoseconds: Column) -> Column:
    found = F.floor(F.log2(nanoseconds) * BINS_PER_DOUBLING) + 1
    return F.when(nanoseconds < 0, BELOW).when(nanoseconds == 0, ZERO).otherwise(found).cast("int")


def middle_of(place: Column) -> Column:
    """The nanoseconds that a bin stands for; 0 for those at and below 0."""
    middle = F.pow(F.lit(2.0), (place - 0.5) / BINS_PER_DOUBLING)
    return F.when(place <= ZERO, 0.0).otherwise(middle)


def middle(place: int) -> float:
    """The same for a plain number, for pictures."""
    return 0.0 if place <= ZERO else math.pow(2.0, (place - 0.5) / BINS_PER_DOUBLING)


def histogram(values: DataFrame, keys: Sequence[str], nanoseconds: str = "nanoseconds", amount: str = "amount") -> DataFrame:
    """(keys, bin, amount, total_ns, max_ns): how often (by `amount`) which times occur. Rows whose time is null are left out.

    order nanoseconds amount          order bin amount total_ns max_ns
    fifo         1000      3     →    fifo  319      4     4001   1001
    fifo         1001      1          fifo    0      2        0      0
    fifo            0      2
    """
    time, weight = F.col(nanoseconds), F.col(amount)
    return (
        values.where(time.isNotNull())
        .groupBy(*keys, bin_of(time).alias("bin"))
        .agg(F.sum(weight).alias("amount"), F.sum(time.cast("double") * weight).alias("total_ns"), F.max(time).alias("max_ns"))
    )


def percentiles(bins: DataFrame, keys: Sequence[str]) -> DataFrame:
    """(keys, deliveries, above_zero, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns) of a histogram with these keys or more. A percentile
    is the smallest time that so large a share does not exceed."""
    merged = bins.groupBy(*keys, "bin").agg(
        F.sum("amount").alias("amount"), F.sum("total_ns").alias("total_ns"), F.max("max_ns").alias("max_ns")
    )
    whole = Window.partitionBy(*keys)
    so_far = whole.orderBy("bin").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = merged.select(
        "*",
        F.sum("amount").over(so_far).alias("rank"),
        F.sum("amount").over(whole.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)).alias("all"),
    )
    rank = {name: F.greatest(F.ceil(F.col("all") * share), F.lit(1)) for name, share in PERCENTILES.items()}
    # The bin's middle may lie above the largest value in it.
    value = F.least(middle_of(F.col("bin")), F.greatest(F.col("max_ns").cast("double"), F.lit(0.0)))
    return ranked.groupBy(*keys).agg(
        F.sum("amount").alias("deliveries"),
        (F.sum(F.when(F.col("bin") > ZERO, F.col("amount")).otherwise(0)) / F.sum("amount")).alias("above_zero"),
        (F.sum("total_ns") / F.sum("amount")).alias("mean_ns"),
        *(F.min(F.when(F.col("rank") >= least, value)).alias(name) for name, least in rank.items()),
        F.max("max_ns").alias("max_ns"),
    )
