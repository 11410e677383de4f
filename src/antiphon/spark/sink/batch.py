"""`write` to a topic: the rows of a job, once per job, in the order of (partition, row).

A job that fails before its rows are complete writes nothing. One that dies while they are published has written a beginning: run it again
with the same `job` name, and the rest follows; without a name a second run is another job.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from antiphon.errors import InvalidOption
from antiphon.spark.sink import manifest as manifests
from antiphon.spark.sink.choices import SinkChoices
from antiphon.spark.sink.commit import Staged, abandon_batch, publish_batch
from antiphon.spark.sink.staging import Staging
from antiphon.spark.source.line import Line

if TYPE_CHECKING:
    import pyarrow


class TopicWriter(DataSourceArrowWriter):
    """Made once per job, in the driver: its choices name the job, and go to the tasks with it."""

    def __init__(self, choices: SinkChoices) -> None:
        self._choices = choices

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> Staged:
        context = TaskContext.get()
        assert context is not None, "Spark writes in tasks"
        staging = Staging(self._choices.staging, self._choices.job)
        return Staged(self._choices.job, 0, staging.stage(0, context.partitionId(), context.taskAttemptId(), iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        choices = self._choices
        staged = [message for message in messages if isinstance(message, Staged)]
        with Line(choices.store, choices.timeout_s) as line:
            decided = manifests.known(line, choices.job)
            if decided is not None and decided.topic != choices.topic:
                why = f"a write of this name went to the topic {decided.topic!r}: give this one a name of its own"
                raise InvalidOption("job", choices.job, why)
            grant = publish_batch(line, choices, choices.job, 0, staged)
            if grant is not None:
                line.ask(lambda: line.backend.release(grant))  # the next job is another publisher
            if not choices.is_named:
                manifests.forget(line, choices.job)
        Staging(choices.staging, choices.job).remove()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abandon_batch(self._choices, [message for message in messages if isinstance(message, Staged)])
