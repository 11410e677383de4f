"""`writeStream` to a topic: each row of each micro-batch once, whatever is run again. How: see the package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from antiphon.errors import UsageError
from antiphon.spark.sink.choices import SinkChoices
from antiphon.spark.sink.commit import Staged, abandon_batch, publish_batch
from antiphon.spark.sink.staging import Staging
from antiphon.spark.source.line import Line

if TYPE_CHECKING:
    import pyarrow

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""Spark's own names of these, among the local properties of every task of a stream."""


class TopicSink(DataSourceStreamArrowWriter):
    def __init__(self, choices: SinkChoices) -> None:
        if choices.is_named:
            raise UsageError("a stream is known by its checkpoint: leave the option job out")
        self._choices = choices

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Staged:
        context = TaskContext.get()
        assert context is not None, "Spark writes in tasks"
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        if not query or not batch:
            raise UsageError(
                f"this Spark does not tell its tasks which query and batch they belong to ({_QUERY}, {_BATCH}): use Spark 4.1 or newer"
            )
        staging = Staging(self._choices.staging, query)
        return Staged(query, int(batch), staging.stage(int(batch), context.partitionId(), context.taskAttemptId(), iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        staged = [message for message in messages if isinstance(message, Staged)]
        if not staged:
            return  # Spark gives even an empty batch one task
        with Line(self._choices.store, self._choices.timeout_s) as line:
            publish_batch(line, self._choices, staged[0].query, batchId, staged)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        abandon_batch(self._choices, [message for message in messages if isinstance(message, Staged)])
