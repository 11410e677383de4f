"""A topic as it is now, read once, in parallel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from antiphon.errors import InvalidOption
from antiphon.spark.source import rows
from antiphon.spark.source.choices import Choices
from antiphon.spark.source.line import Line
from antiphon.spark.source.span import Span, divided

if TYPE_CHECKING:
    import pyarrow


class TopicReader(DataSourceReader):
    """Reads the numbers that are there when the query is planned; a query that is run again reads those that are there then."""

    def __init__(self, choices: Choices) -> None:
        if choices.start == "latest":
            raise InvalidOption(
                "start", "latest", "nothing is there after it: choose 'earliest' or a number, or read the topic as a stream"
            )
        self._choices = choices

    def partitions(self) -> list[InputPartition]:
        choices = self._choices
        with Line(choices.store, choices.timeout_s, reading=True) as line:
            info = line.ask(lambda: line.backend.info(choices.topic))
        after = info.floor if choices.start == "earliest" else int(choices.start)
        last = info.last if choices.end is None else min(info.last, choices.end)
        return [*divided(after, last, choices.partitions, choices.batch_size)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        if not isinstance(partition, Span):
            return iter(())  # where there are no partitions Spark makes up one, for one task that finds nothing
        return rows.of_span(self._choices, partition)
