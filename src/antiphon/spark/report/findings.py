"""What the jobs found, taken out of Spark: plain rows, at most `ROWS` of each table, the ones that a reader would ask for first.

One pass through the jobs: the audit, the delays, the conversations, and a sweep where there is one. A job that finds nothing to do leaves
its tables empty, and the page leaves its section out.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from antiphon.spark.audit.verdict import Verdicts

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from antiphon.spark.tables import Tables

ROWS = 200
"""Of tables that a reader looks through."""
POINTS = 20_000
"""Of tables that become a picture."""
RUNS_APART = 4
"""So many runs of one world are followed as time goes on; of more, a picture could not tell them apart."""

Row: TypeAlias = dict[str, Any]
Told: TypeAlias = "Callable[[str], None]"
"""Told what is being done."""


class Findings(Struct, kw_only=True):
    """`source` is where the traces are; every list is a table of the job that its comment names."""

    source: str
    verdicts: Verdicts | None = None
    # The traces themselves.
    runs: list[Row] = []
    aside: list[Row] = []
    # delays
    by_order: list[Row] = []
    by_group: list[Row] = []
    by_member: list[Row] = []
    by_time: list[Row] = []
    shape: list[Row] = []
    rates: list[Row] = []
    occupancy: list[Row] = []
    views: list[Row] = []
    clocks: list[Row] = []
    # threads
    conversations: list[Row] = []
    largest: list[Row] = []
    sizes: list[Row] = []
    depths: list[Row] = []
    # sweep
    sweep: list[Row] = []
    shortened: list[str] = []
    """Tables of which only the first rows are here."""

    def worlds(self) -> list[str]:
        """Where deliveries were measured: simulated, real, or both."""
        return sorted({row["world"] for row in self.by_order}, reverse=True)

    def take(self, name: str, table: DataFrame, limit: int = ROWS) -> None:
        """Fills the list of that name with the table's first rows."""
        rows = [row.asDict(recursive=True) for row in table.limit(limit + 1).collect()]
        if len(rows) > limit:
            self.shortened.append(name)
        setattr(self, name, rows[:limit])


def gather(tables: Tables, source: str, sweep: DataFrame | None = None, told: Told = lambda _: None) -> Findings:
    """Asks every job about the same tables; `sweep` are results of a sweep."""
    from antiphon.spark.audit import audit

    found = Findings(source=source)
    told("looking at the traces")
    _take_traces(found, tables)
    told("auditing")
    found.verdicts = audit(tables)
    told("measuring delays")
    _take_delays(found, tables)
    told("rebuilding conversations")
    _take_threads(found, tables)
    if sweep is not None:
        from antiphon.spark.sweep import by_parameters

        told("summing up the sweep")
        found.take("sweep", by_parameters(sweep), POINTS)
    return found


def _take_traces(found: Findings, tables: Tables) -> None:
    from pyspark.sql import functions as F

    from antiphon.spark.occurrences import worlds_of

    open_ended = ~F.col("closed") & ~F.col("crashed")
    runs = tables.writers.groupBy("run").agg(
        F.count(F.lit(1)).alias("writers"),
        F.sum("rows").alias("rows"),
        F.max(F.col("last_at") - F.col("first_at")).alias("span_ns"),
        F.count(F.when(F.col("crashed"), 1)).alias("crashed"),
        F.count(F.when(open_ended, 1)).alias("cut_off"),
        F.sum("clock_jumps").alias("clock_jumps"),
    )
    # Real ones first: one among a hundred simulations is what a reader looks for.
    found.take("runs", runs.join(tables.events.transform(worlds_of), "run", "left").orderBy("world", F.desc("rows"), "run"))
    found.take(
        "aside", tables.aside.groupBy("reason").agg(F.count(F.lit(1)).alias("times"), F.sum("amount").alias("amount")).orderBy("reason")
    )


def _take_delays(found: Findings, tables: Tables) -> None:
    from pyspark.sql import functions as F

    from antiphon.spark.delays import delays

    measured = delays(tables)
    end_to_end = F.col("measure") == "end_to_end"
    found.take("by_order", measured.by_order())
    found.take("by_group", measured.by_group().where(end_to_end).orderBy(F.desc("deliveries"), "run", "group"))
    found.take("by_member", measured.by_member().where(end_to_end).orderBy(F.desc("p99_ns"), "run", "group", "member"))
    runs_in = Counter(run["world"] for run in found.runs)
    followed = [run["run"] for run in found.runs if runs_in[run["world"]] <= RUNS_APART]
    found.take("by_time", measured.by_time().where(end_to_end & F.col("run").isin(followed)), POINTS)
    found.take("shape", measured.shape(), POINTS)
    counted = ("sent", "received", "delivered", "recovered", "orphaned", "lost", "duplicates", "dropped", "asked", "resent")
    by_group = measured.rates.groupBy("run", "group").agg(
        *(F.sum(name).alias(name) for name in counted), F.count(F.lit(1)).alias("members")
    )
    found.take("rates", by_group.orderBy(F.desc("delivered"), "run", "group"))
    found.take("occupancy", measured.occupancy.orderBy(F.desc("most"), "run", "group", "place"))
    found.take(
        "views", measured.views.where("size > 1").orderBy(F.desc_nulls_last("stable_ns"), F.desc("spread_ns"), "run", "group", "view")
    )
    found.take("clocks", measured.clocks.orderBy("run", "source", "destination"))


def _take_threads(found: Findings, tables: Tables) -> None:
    from pyspark.sql import functions as F

    from antiphon.spark.threads import threads

    rebuilt = threads(tables)
    found.take("conversations", rebuilt.groups.orderBy(F.desc("messages"), "run", "group"))
    found.take("largest", rebuilt.trees.orderBy(F.desc("size"), "run", "group", "sender", "seqno"), 20)
    doubling = F.pow(F.lit(2), F.floor(F.log2("size"))).cast("long")
    found.take("sizes", rebuilt.trees.groupBy(doubling.alias("size")).agg(F.count(F.lit(1)).alias("trees")).orderBy("size"))
    found.take(
        "depths", rebuilt.messages.groupBy("depth").agg(F.count(F.lit(1)).alias("messages")).where("depth is not null").orderBy("depth")
    )
