"""The live audit: a streaming query over the trace of a running group that says within seconds which promise was broken, and by which rows.

    with open_session(settings=SETTINGS) as spark:
        audit = LiveAudit.start(spark, "traces")
        while True:
            for violation in audit.found():
                print(violation.sentence)

Nodes that shall be watched record with a short `rotate_s` (one second, say): files appear complete, the query takes every new one, and each
group is judged by a `Watch` whose state Spark keeps. How long it takes from a row to a report: `rotate_s`, up to `TRIGGER_S`, and the
micro-batch, which is about a second on a machine that has time for it.

Judged are `no_duplication`, `fifo`, `integrity`, `total` and `parent_before_child`, where the group's description promises them; that
members describe the group alike and number their deliveries; and that a message which is called lost is lost. All of it from what is in the
trace; see `watching` for what is kept of it and when that is forgotten. What follows from something missing is the audit's, afterwards.
All other promises of a group are listed: in `left_to_audit` those that the audit judges, in `not_judged` those that neither of the two can
judge.

Files that are no traces, or damaged, are passed over here; `antiphon pipeline ingest` counts them.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.types import LongType, StructField, StructType

from antiphon.errors import UsageError, WorldError
from antiphon.spark.audit.verdict import Unjudged, Violation, Witness
from antiphon.spark.inspection import literally
from antiphon.spark.tables import EVENTS
from antiphon.spark.watching.stretches import stretches
from antiphon.spark.watching.told import COLUMNS, KINDS, STRETCH, decode_row
from antiphon.spark.watching.watch import Watch

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.state import GroupState

TRIGGER_S = 1
SETTINGS = {
    # Few groups run at once, and each partition of the state costs a task in every micro-batch.
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
}
"""What makes micro-batches short; for the session that runs the query."""

_FOUND = "run string, group string, promise string, sentence string, witness string, judged string"
_BROKEN, _LEFT, _NOT_JUDGED = "broken", "left to the audit", "no"
_WITNESS = "array<struct<run: string, writer: string, index: bigint>>"
_STATE = "watch binary"


class LiveAudit:
    """A query that runs until it is stopped. Keeps what it has found: at most `REPORTS` of each promise for each group."""

    def __init__(self, spark: SparkSession, query: StreamingQuery, table: str) -> None:
        self._spark, self._query, self._table = spark, query, table
        self._told = 0
        self._listed: set[Unjudged] = set()
        self.not_judged: list[Unjudged] = []
        """Promises of the groups seen so far for which there is no check, live or afterwards; `found` adds to it."""
        self.left_to_audit: list[Unjudged] = []
        """Promises of the groups seen so far that are judged by the audit of whole traces only; `found` adds to it."""

    @classmethod
    def start(cls, spark: SparkSession, directory: str) -> LiveAudit:
        """Begins with what is in the directory already, in the order in which it came."""
        if "://" not in directory and not os.path.isdir(directory):
            raise UsageError(f"{directory} is no directory: name the one that the nodes were given as trace, and start them first")
        table = f"violations_{uuid.uuid4().hex}"
        found = follow(spark, directory).transform(live_audit)
        writer = found.writeStream.format("memory").queryName(table).outputMode("append").trigger(processingTime=f"{TRIGGER_S} seconds")
        return cls(spark, writer.start(), table)

    def found(self) -> list[Violation]:
        """What was found since the last call. Raises WorldError when the query has ended by itself."""
        error = self._query.exception()
        if error is not None:
            raise WorldError(f"the live audit has ended: {str(error).strip().partition(chr(10))[0][:300]}")
        rows = self._spark.table(self._table).collect()
        fresh, self._told = rows[self._told :], len(rows)
        for listed, judged in ((self.not_judged, _NOT_JUDGED), (self.left_to_audit, _LEFT)):
            for one in (Unjudged(row.run, row.group, row.promise) for row in fresh if row.judged == judged):
                if one not in self._listed:  # a group that was over, and of which rows come late, states its promises again
                    self._listed.add(one)
                    listed.append(one)
        return [_violation(row) for row in fresh if row.judged == _BROKEN]

    @property
    def batches(self) -> int:
        """How many micro-batches have been judged."""
        progress: Any = self._query.lastProgress
        return 0 if progress is None else int(progress["batchId"]) + 1

    def stop(self) -> None:
        self._query.stop()
        self._spark.catalog.dropTempView(self._table)


def follow(spark: SparkSession, directory: str) -> DataFrame:
    """The rows of a trace that is being written, as a stream: those of every file once, as soon as it is complete."""
    return (
        spark.readStream.schema(EVENTS)
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", "*.parquet")
        .option("ignoreCorruptFiles", "true")
        .option("ignoreMissingFiles", "true")
        .parquet(literally(directory))
    )


def live_audit(rows: DataFrame) -> DataFrame:
    """A stream of trace rows to a stream of violations, and of promises that are not judged.

    +---+------+--------------+-------------------------------------------+--------------------------------+-----------------+
    |run|group |promise       |sentence                                   |witness                         |judged           |
    +---+------+--------------+-------------------------------------------+--------------------------------+-----------------+
    |run|trip#9|heard_before  |                                           |[]                              |no               |
    |run|trip#9|agreement     |                                           |[]                              |left to the audit|
    |run|trip#9|no_duplication|ben#2 delivered message 7 of ana#1 twice   |[{run, ben, 31}, {run, ben, 40}]|broken           |
    +---+------+--------------+-------------------------------------------+--------------------------------+-----------------+
    """
    told = ("run", "group", *COLUMNS)
    schema = StructType([*rows.select(*told).schema, *(StructField(name, LongType()) for name in STRETCH)])
    judged = (
        rows.where(F.col("index").isNotNull() & F.col("run").isNotNull() & F.col("writer").isNotNull())
        .select(*told)
        .mapInArrow(_with_stretches, schema)
        .select("run", "group", F.to_json(F.struct(*COLUMNS, *STRETCH)).alias("row"))
        .groupBy("run", "group")
        .applyInPandasWithState(_watch_group, _FOUND, _STATE, "append", GroupStateTimeout.NoTimeout)
    )
    return judged.withColumn("witness", F.from_json("witness", _WITNESS))


def _with_stretches(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Keep the rows that a watch needs, and add to each the stretch of consecutive rows of its writer with which it was read."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in batches:
        writers = pc.binary_join_element_wise(batch.column("run"), batch.column("writer"), "/")
        numbers = pc.dictionary_encode(writers).indices.to_numpy(zero_copy_only=False).astype("int64")
        since, until = stretches(numbers, batch.column("index").to_numpy(zero_copy_only=False))
        chosen = pc.and_(pc.is_in(batch.column("kind"), pa.array(KINDS)), pc.is_valid(batch.column("group")))
        names = [*batch.schema.names, *STRETCH]
        yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(since), pa.array(until)], names=names).filter(chosen)


def _watch_group(key: tuple[Any, ...], tables: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """One round of one group, on an executor."""
    import pandas as pd

    run, group = str(key[0]), str(key[1])
    watch = Watch.of(bytes(state.get[0]) if state.exists else None)
    known = len(watch.unjudged), len(watch.left)
    breaches = watch.round([decode_row(row) for table in tables for row in table["row"]])
    fresh = {_NOT_JUDGED: watch.unjudged[known[0] :], _LEFT: watch.left[known[1] :]}
    if watch.over:
        state.remove()
    else:
        state.update((watch.state(),))
    for judged, promises in fresh.items():
        if promises:
            yield pd.DataFrame({"run": run, "group": group, "promise": promises, "sentence": "", "witness": "[]", "judged": judged})
    if breaches:
        witnesses = [[{"run": run, "writer": spot.writer, "index": spot.index} for spot in breach.witness] for breach in breaches]
        yield pd.DataFrame(
            {
                "run": run,
                "group": group,
                "promise": [breach.promise for breach in breaches],
                "sentence": [breach.sentence for breach in breaches],
                "witness": [msgspec.json.encode(witness).decode() for witness in witnesses],
                "judged": _BROKEN,
            }
        )


def _violation(row: Any) -> Violation:
    witness = tuple(Witness(spot["run"], spot["writer"], spot["index"]) for spot in row.witness)
    return Violation(row.run, row.group, row.promise, row.sentence, witness)
