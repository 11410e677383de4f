"""A topic as a stream: the offset is the number of the newest value that was read.

Spark keeps offsets in its checkpoint before it reads and says afterwards that they are done, so a query that is killed reads the same
numbers again, which hold the same values. With a `subscriber` the store knows too how far the query is, and keeps what it has not done.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import structs
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from antiphon.errors import Conflict, Fenced, InvalidOption
from antiphon.spark.source import rows
from antiphon.spark.source.choices import Choices
from antiphon.spark.source.line import Line
from antiphon.spark.source.span import Span, divided
from antiphon.store.continuation import come
from antiphon.store.records import Subscriber, TopicInfo, start_position

if TYPE_CHECKING:
    import pyarrow

Offset = dict[str, int]


class TopicStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The driver's part asks the store how far the topic is, through one line that stays open; tasks read for themselves."""

    def __init__(self, choices: Choices) -> None:
        if choices.end is not None:
            raise InvalidOption("end", choices.end, "a stream has none: read with spark.read, or stop the query")
        self._choices = choices
        self._target: int | None = None
        """With Trigger.AvailableNow: the query ends there."""
        # Opened with the first question: what is sent to executors has not asked any.
        self._line: Line | None = None
        self._subscriber: Subscriber | None = None

    # -- offsets ---------------------------------------------------------------------------------------------------------------

    def initialOffset(self) -> Offset:
        if self._choices.subscriber is not None:
            return {"seq": self._come(self._choices.subscriber).position}
        info = self._info()
        if isinstance(self._choices.start, int):
            start_position(self._choices.topic, self._choices.start, info.floor, info.last)
            return {"seq": self._choices.start}  # what is gone behind it is a gap
        return {"seq": info.floor if self._choices.start == "earliest" else info.last}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        newest = self._info().last if self._target is None else self._target
        if isinstance(limit, ReadMaxRows):
            newest = min(newest, start["seq"] + limit.max_rows)
        return {"seq": max(newest, start["seq"])}

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._choices.most_values
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def reportLatestOffset(self) -> Offset:
        return {"seq": self._info().last}

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._info().last

    # -- reading ---------------------------------------------------------------------------------------------------------------

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        return [*divided(start["seq"], end["seq"], self._choices.partitions, self._choices.batch_size)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, Span), "a partition of this reader is a span"
        return rows.of_span(self._choices, partition)

    # -- what is done ----------------------------------------------------------------------------------------------------------

    def commit(self, end: Offset) -> None:
        """Spark will never ask again for what lies up to here."""
        if self._choices.subscriber is None:
            return
        mine, line = self._come(self._choices.subscriber), self._opened()
        if end["seq"] <= mine.position:
            return
        moved = structs.replace(mine, position=end["seq"], marks=tuple(m for m in mine.marks if m[0] > end["seq"]))
        try:
            self._subscriber = line.ask(lambda: line.backend.update(moved))
        except Conflict:
            # Either this very update, whose acknowledgement was lost, or somebody else who has come as this subscriber.
            found = line.ask(lambda: line.backend.subscriber(mine.topic, mine.id))
            if found is None or found.epoch != mine.epoch or found.position != moved.position:
                why = "another query, or a program, reads as this subscriber since"
                raise Fenced(f"the subscriber {mine.id!r} of {mine.topic!r}", why) from None
            self._subscriber = found

    def stop(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def _come(self, subscriber: str) -> Subscriber:
        if self._subscriber is None:
            choices, line = self._choices, self._opened()
            work = come(line.reach, choices.topic, subscriber, None, choices.lease, choices.start, choices.timeout_s)
            self._subscriber = line.run(work)
        return self._subscriber

    def _info(self) -> TopicInfo:
        line = self._opened()
        if self._choices.subscriber is not None:
            self._come(self._choices.subscriber)  # from the first question on, also of a query that goes on from a checkpoint
        return line.ask(lambda: line.backend.info(self._choices.topic))

    def _opened(self) -> Line:
        if self._line is None:
            self._line = Line(self._choices.store, self._choices.timeout_s, reading=True).open()
        return self._line
