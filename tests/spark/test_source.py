"""Topics and group histories read by Spark: every value once, what is missing said, restarts go on where they were."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from antiphon.errors import AntiphonError, BadStore, InvalidName, InvalidOption, UnknownTopic
from antiphon.model.frames import Batch
from antiphon.model.ids import GroupId, MemberId, MessageId
from antiphon.spark.datasource import AntiphonSource
from antiphon.spark.source import message_rows, value_rows
from antiphon.spark.source.batch import TopicReader
from antiphon.spark.source.choices import Choices
from antiphon.spark.source.line import Line
from antiphon.spark.source.message_rows import distinct_messages
from antiphon.spark.source.passage import Piece, passage
from antiphon.spark.source.span import Span, divided
from antiphon.spark.source.stream import TopicStream
from antiphon.store import open_store
from antiphon.store.groups import values
from antiphon.store.groups.values import Lost, Marker, Placed
from antiphon.store.records import SECOND, Entry, Gap, TopicOptions

WAIT_S = 180


@pytest.fixture(scope="module")
def source(spark: SparkSession) -> SparkSession:
    spark.dataSource.register(AntiphonSource)
    return spark


def published(line: Line, topic: str, entries: Sequence[Entry | bytes], options: TopicOptions | None = None) -> None:
    grant = line.ask(lambda: line.backend.register(topic, "hotline", options=options))
    whole = [entry if isinstance(entry, Entry) else Entry(entry) for entry in entries]
    line.ask(lambda: line.backend.publish(grant, grant.number + 1, whole))


def erased(line: Line, topic: str, numbers: Sequence[int]) -> None:
    grant = line.ask(lambda: line.backend.register(topic, "hotline"))
    line.ask(lambda: line.backend.erase(grant, numbers))


def choices(url: str, **said: object) -> Choices:
    return Choices.of({"store": url, "topic": "crash", **{name: str(value) for name, value in said.items()}})


def items(chosen: Choices, span: Span, size: int = 3) -> list[int | Gap]:
    """Numbers and gaps, in order, as a task meets them."""
    found: list[int | Gap] = []
    for piece in passage(chosen, span, size):
        merged: list[tuple[int, int | Gap]] = [(value.seq, value.seq) for value in piece.values]
        merged += [(gap.first, gap) for gap in piece.gaps]
        found += [item for _, item in sorted(merged, key=lambda pair: pair[0])]
    return found


# -- spans -----------------------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 1_000), st.integers(0, 1_000), st.integers(1, 20), st.integers(1, 100))
def test_tasks_divide_the_numbers_among_them(after: int, count: int, parts: int, least: int) -> None:
    """A number between two tasks would be read by neither, or by both."""
    spans = divided(after, after + count, parts, least)
    numbers = [number for span in spans for number in range(span.after + 1, span.last + 1)]
    assert numbers == list(range(after + 1, after + count + 1))
    assert len(spans) <= parts
    assert all(span.last - span.after >= least for span in spans) or len(spans) == 1


# -- what a task reads -----------------------------------------------------------------------------------------------------------------


def test_a_task_reads_its_span_and_nothing_else(url: str, line: Line) -> None:
    """Values at the borders would come twice, or not at all."""
    published(line, "crash", [b"%d" % number for number in range(1, 21)])
    assert items(choices(url), Span(0, 20)) == list(range(1, 21))
    assert items(choices(url), Span(4, 11)) == list(range(5, 12))
    assert items(choices(url), Span(19, 20)) == [20]


def test_what_was_taken_back_is_a_gap_wherever_it_lies(url: str, line: Line) -> None:
    """A query would pass over values that are gone, and nobody would know that its sums are of less."""
    published(line, "crash", [b"%d" % number for number in range(1, 13)])
    erased(line, "crash", [1, 4, 5, 6, 11, 12])
    chosen = choices(url, gaps="report")
    whole = [Gap(1, 1, "removed"), 2, 3, Gap(4, 6, "removed"), 7, 8, 9, 10, Gap(11, 12, "removed")]
    for size in (1, 2, 3, 100):
        assert items(chosen, Span(0, 12), size) == whole, size
    assert items(chosen, Span(4, 6)) == [Gap(5, 6, "removed")]
    assert items(chosen, Span(10, 12)) == [Gap(11, 12, "removed")]
    with pytest.raises(InvalidOption, match=r"values 4 … 6 of 'crash' were removed.*gaps=report"):
        items(choices(url), Span(2, 9))


def test_what_was_collected_is_another_gap_than_what_was_removed(url: str, line: Line) -> None:
    """Whoever reads could not tell that they came too late from that somebody took values back."""
    published(line, "crash", [b"%d" % number for number in range(1, 9)])
    erased(line, "crash", [5])
    line.ask(lambda: line.backend.subscribe("crash", "ana", 3_600 * SECOND))
    ana = line.ask(lambda: line.backend.subscriber("crash", "ana"))
    assert ana is not None
    from msgspec.structs import replace

    line.ask(lambda: line.backend.update(replace(ana, position=3)))
    moment = line.ask(line.backend.time)
    line.ask(lambda: line.backend.collect("crash", moment))
    assert items(choices(url, gaps="report"), Span(0, 8)) == [Gap(1, 3, "collected"), 4, Gap(5, 5, "removed"), 6, 7, 8]


def test_what_a_newer_value_has_replaced_is_no_gap(url: str, line: Line) -> None:
    """Every mutable topic would look damaged."""
    published(line, "crash", [Entry(b"1", "a"), Entry(b"2", "b"), Entry(b"3", "a")], TopicOptions(mutable=True))
    assert items(choices(url), Span(0, 3)) == [2, 3]


def test_a_reader_begins_where_values_still_are(url: str, line: Line) -> None:
    """A new query would fail for values that were collected before anybody thought of it."""
    published(line, "crash", [b"%d" % number for number in range(1, 11)], TopicOptions(retention_s=0))
    moment = line.ask(line.backend.time)
    line.ask(lambda: line.backend.collect("crash", moment))
    published(line, "crash", [b"new"])
    floor = line.ask(lambda: line.backend.info("crash")).floor
    assert floor == 10
    assert TopicReader(choices(url)).partitions() == [Span(10, 11)]
    assert TopicStream(choices(url)).initialOffset() == {"seq": 10}
    assert TopicStream(choices(url, start="latest")).initialOffset() == {"seq": 11}
    assert TopicStream(choices(url, start="4")).initialOffset() == {"seq": 4}
    assert TopicReader(choices(url, start="10", end="10")).partitions() == []


@pytest.mark.parametrize("more", [{}, {"subscriber": "spark"}])
def test_a_stream_does_not_begin_after_a_number_that_is_not_published(url: str, line: Line, more: dict[str, str]) -> None:
    """Values 3 to 99 would be passed over in silence when they come."""
    published(line, "crash", [b"1", b"2"])
    for start in ("3", "99"):
        stream = TopicStream(choices(url, start=start, **more))
        try:
            with pytest.raises(InvalidOption, match="2 values have been published"):
                stream.initialOffset()
        finally:
            stream.stop()
    stream = TopicStream(choices(url, start="2", **more))
    try:
        assert stream.initialOffset() == {"seq": 2}
    finally:
        stream.stop()


def test_a_stream_with_a_subscriber_keeps_what_it_has_not_done(url: str, line: Line) -> None:
    """Values would be collected between a micro-batch and its repetition, because another subscriber was done with them."""
    published(line, "crash", [b"%d" % number for number in range(1, 11)])
    stream = TopicStream(choices(url, subscriber="spark"))
    try:
        assert stream.initialOffset() == {"seq": 0}
        stream.commit({"seq": 4})
        moment = line.ask(line.backend.time)
        assert line.ask(lambda: line.backend.collect("crash", moment)).floor == 4
        again = TopicStream(choices(url, subscriber="spark"))
        assert again.initialOffset() == {"seq": 4}
        again.stop()
        with pytest.raises(AntiphonError, match="another query"):
            stream.commit({"seq": 6})
    finally:
        stream.stop()


def test_a_stream_takes_no_more_than_it_may(url: str, line: Line) -> None:
    """The first micro-batch of a long topic would be all of it."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    published(line, "crash", [b"%d" % number for number in range(1, 11)])
    stream = TopicStream(choices(url, maxValuesPerTrigger="3"))
    try:
        assert stream.getDefaultReadLimit() == ReadMaxRows(3)
        assert stream.latestOffset({"seq": 0}, ReadMaxRows(3)) == {"seq": 3}
        assert stream.latestOffset({"seq": 9}, ReadMaxRows(3)) == {"seq": 10}
        assert stream.latestOffset({"seq": 10}, ReadMaxRows(3)) == {"seq": 10}
        assert stream.latestOffset({"seq": 0}, ReadAllAvailable()) == {"seq": 10}
        stream.prepareForTriggerAvailableNow()
        published(line, "crash", [b"later"])
        assert stream.latestOffset({"seq": 9}, ReadAllAvailable()) == {"seq": 10}
        assert stream.reportLatestOffset() == {"seq": 11}
    finally:
        stream.stop()


# -- options ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"topic": "crash"}, InvalidOption, "say where the topic is"),
        ({"store": "memory:", "topic": "crash"}, BadStore, "processes of their own"),
        ({"store": "sqlite:a.db"}, InvalidOption, "say which"),
        ({"store": "sqlite:a.db", "topic": " crash"}, InvalidName, "no spaces"),
        ({"store": "sqlite:a.db", "topic": "crash", "gaps": "ignore"}, InvalidOption, "report"),
        ({"store": "sqlite:a.db", "topic": "crash", "start": "newest"}, InvalidOption, "whole number"),
        ({"store": "sqlite:a.db", "topic": "crash", "partitions": "0"}, InvalidOption, "1 or more"),
        ({"store": "sqlite:a.db", "topic": "crash", "batchSize": "many"}, InvalidOption, "whole number"),
        ({"store": "sqlite:a.db", "topic": "crash", "maxValuesPerTriger": "5"}, InvalidOption, "no such option"),
        ({"store": "sqlite:a.db", "topic": "crash", "timeout": "-1"}, InvalidOption, "seconds"),
        ({"store": "sqlite:a.db", "topic": "crash", "lease": "0"}, InvalidOption, "seconds"),
    ],
)
def test_wrong_options_are_refused_with_what_to_do(options: dict[str, str], error: type[Exception], words: str) -> None:
    """A misspelt option would be passed over, and a query would read everything at once, or skip what it should report."""
    with pytest.raises(error, match=words):
        Choices.of(options)


def test_options_belong_to_streams_or_to_batches() -> None:
    """A batch from `latest` on would be empty for ever, a stream would never reach its end."""
    with pytest.raises(InvalidOption, match="read the topic as a stream"):
        TopicReader(choices("sqlite:a.db", start="latest"))
    with pytest.raises(InvalidOption, match="a stream has none"):
        TopicStream(choices("sqlite:a.db", end="7"))


def test_a_path_means_the_same_on_every_executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor in another directory would make a new, empty store of its own."""
    monkeypatch.chdir(tmp_path)
    assert choices("sqlite:field.db").store == f"sqlite:{tmp_path}/field.db"
    assert choices("nats://h:4222?sync=always").store == "nats://h:4222?sync=always"


@pytest.mark.usefixtures("line")
def test_a_topic_that_is_not_there_is_said_so(url: str) -> None:
    """A misspelt topic would be an empty table."""
    with pytest.raises(UnknownTopic, match="crash"):
        TopicReader(choices(url)).partitions()


def test_reading_from_a_mistyped_address_makes_no_store(tmp_path: Path) -> None:
    """The table would be said to have no such topic, and an empty store would lie where somebody looks for a real one."""
    mistyped = choices(f"sqlite:{tmp_path}/feild.db")
    stream = TopicStream(choices(f"sqlite:{tmp_path}/feild.db", subscriber="spark"))
    for read in (TopicReader(mistyped).partitions, stream.initialOffset, lambda: list(passage(mistyped, Span(0, 9), 3))):
        with pytest.raises(BadStore, match=r"feild\.db cannot be used as a store: there is no such file"):
            read()
        assert list(tmp_path.iterdir()) == []


# -- rows ------------------------------------------------------------------------------------------------------------------------------

ANA, BEN = MemberId("ana#1"), MemberId("ben#2")
TRIP = GroupId("trip#9")


def history() -> list[bytes]:
    first = Batch.compose(TRIP, ANA, 1, 1, [b"who?", b"anyone?"], sent_at=12.5)
    answer = Batch.compose(
        TRIP, BEN, 2, 1, [b"me"], [MessageId(ANA, 1)], after={1: [MessageId(ANA, 2)]}, guests={1: (MemberId("eve#3"), 8)}
    )
    contents = [Marker(1), first, Placed(2, (ANA, BEN), (ANA,)), answer, first, Lost({ANA: [3, 5]})]
    return [*map(values.encode, contents), b"\xff no value of a group"]


def test_a_groups_values_become_its_messages() -> None:
    """Threads and delays computed from a history would be those of batches, or lack who answered whom."""
    found = [structs.replace(value, data=data) for value, data in zip(_values(7), history(), strict=True)]
    (batch,) = message_rows.batches(iter([Piece(found, [])]), with_gaps=False, size=100)
    rows = batch.to_pylist()
    assert [(row["seq"], row["kind"]) for row in rows] == [
        *((1, "mark"), (2, "message"), (2, "message"), (3, "view"), (4, "message")),
        *((5, "message"), (5, "message"), (6, "lost"), (7, "foreign")),
    ]
    assert [(row["sender"], row["number"], row["data"]) for row in rows if row["seq"] == 2] == [(ANA, 1, b"who?"), (ANA, 2, b"anyone?")]
    (answer,) = [row for row in rows if row["seq"] == 4]
    assert answer["reply_to"] == {"sender": ANA, "number": 1}
    assert answer["after"] == [{"sender": ANA, "number": 2}]
    assert (answer["view"], answer["guest"]) == (2, "eve#3")
    assert rows[1]["sent_at"].timestamp() == 12.5
    assert rows[3]["members"] == [ANA, BEN]
    assert (rows[7]["sender"], rows[7]["number"], rows[7]["last"]) == (ANA, 3, 5)


def test_gaps_lie_in_order_among_the_rows() -> None:
    """Whoever reads row by row would meet a gap after what came behind it."""
    found = [value for value in _values(6) if value.seq in (2, 5)]
    piece = Piece(found, [Gap(1, 1, "collected"), Gap(3, 4, "removed"), Gap(6, 6, "removed")])
    for batches in (value_rows.batches(iter([piece]), True), message_rows.batches(iter([piece]), True, 100)):
        rows = [row for batch in batches for row in batch.to_pylist()]
        shown = [(row["seq"], row["gap"], row["gap_last"]) for row in rows]
        assert shown == [(1, "collected", 1), (2, None, None), (3, "removed", 4), (5, None, None), (6, "removed", 6)]
    (only,) = value_rows.batches(iter([Piece([], []), Piece([], [Gap(1, 2, "removed")])]), True)
    assert only.num_rows == 1


def _values(count: int) -> list[Any]:
    from antiphon.store.records import Value

    return [Value(seq, seq * SECOND, b"%d" % seq) for seq in range(1, count + 1)]


# -- through Spark ---------------------------------------------------------------------------------------------------------------------


def test_spark_reads_a_topic_in_parallel(source: SparkSession, url: str, line: Line) -> None:
    """Values would be lost, doubled or changed on their way through Java."""
    entries = [Entry(bytes([number % 256, 0, 255]), f"k{number % 7}" if number % 2 else "") for number in range(1, 5_001)]
    published(line, "crash", entries)
    table = source.read.format("antiphon").options(store=url, topic="crash", batchSize="500", partitions="3").load()
    assert table.rdd.getNumPartitions() == 3
    rows = table.orderBy("seq").collect()
    assert [(row.seq, bytes(row.data), row.key) for row in rows] == [(n, e.data, e.key) for n, e in enumerate(entries, 1)]
    assert all(earlier.time <= later.time for earlier, later in pairwise(rows))


def test_where_there_is_nothing_to_read_the_table_is_empty(source: SparkSession, url: str, line: Line) -> None:
    """A job over a topic that was made and has no value yet would fail, with words that only who wrote this could understand."""
    published(line, "crash", [b"1", b"2"])
    line.ask(lambda: line.backend.register("new", "hotline"))
    reader = source.read.format("antiphon").option("store", url)
    assert reader.load("new").count() == 0
    assert reader.option("start", "2").load("crash").count() == 0
    assert reader.options(start="1", end="1").load("crash").collect() == []


def test_spark_tells_gaps_or_fails(source: SparkSession, url: str, line: Line) -> None:
    """A job would say that everything is well with values missing, or give no hint what to do."""
    published(line, "crash", [b"%d" % number for number in range(1, 11)])
    erased(line, "crash", [4, 5])
    reader = source.read.format("antiphon").options(store=url, topic="crash")
    rows = reader.option("gaps", "report").load().where("gap is not null").collect()
    assert [(row.seq, row.gap_last, row.gap, row.data) for row in rows] == [(4, 5, "removed", None)]
    with pytest.raises(PySparkException, match="values 4 … 5 of 'crash' were removed"):
        reader.option("gaps", "fail").load().collect()


def test_spark_reads_a_groups_history_each_message_once(source: SparkSession, url: str, line: Line) -> None:
    """A message that two sides of a partition archived would be counted twice."""
    published(line, "history/trip#9", history())
    table = source.read.format("antiphon").options(store=url, topic="history/trip#9").load()
    assert table.where("kind = 'message'").count() == 5
    rows = distinct_messages(table).orderBy("seq", "number").collect()
    messages = [(row.seq, row.sender, row.number) for row in rows if row.kind == "message"]
    assert messages == [(2, ANA, 1), (2, ANA, 2), (4, BEN, 1)]
    assert sorted(row.kind for row in rows if row.kind != "message") == ["foreign", "lost", "mark", "view"]
    answer = table.where("reply_to is not null").first()
    assert answer is not None
    assert (answer.reply_to.sender, answer.reply_to.number, answer.after[0].number) == (ANA, 1, 2)


def test_a_stream_goes_on_from_its_checkpoint(source: SparkSession, url: str, line: Line, tmp_path: Path) -> None:
    """After a restart values would be read again, or those that came meanwhile would be missed."""
    written: list[list[int]] = []

    def keep(batch: DataFrame, number: int) -> None:
        written.append([row.seq for row in batch.orderBy("seq").collect()])

    def run() -> None:
        options = {"store": url, "topic": "crash", "maxValuesPerTrigger": "4", "subscriber": "spark"}
        stream = source.readStream.format("antiphon").options(**options).load()
        query = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
        running = query.trigger(availableNow=True).start()
        assert running.awaitTermination(WAIT_S), "the query does not come to its end"

    published(line, "crash", [b"%d" % number for number in range(1, 11)])
    run()
    assert written == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
    published(line, "crash", [b"11", b"12"])
    run()
    assert written[3:] == [[11, 12]]


def test_a_topic_of_jetstream_is_read_alike(source: SparkSession, tmp_path: Path) -> None:
    """What works in one store would not in the other."""
    pytest.importorskip("nats", reason="nats-py is not installed: pip install 'antiphon[nats]'")
    from antiphon.store.jetstream import LocalServers

    async def fill(url: str) -> None:
        async with open_store(url, name="hotline") as store:
            topic = store.topic("crash")
            await topic.publish_many([b"%d" % number for number in range(1, 1_001)])
            await topic.erase([500])
            units = store.topic("units")
            await units.register(mutable=True)
            await units.publish_many([b"%d" % number for number in range(1, 301)], keys=[f"k{number % 100}" for number in range(1, 301)])

    with LocalServers(1, tmp_path) as servers:
        asyncio.run(fill(servers.url))
        options = {"store": servers.url, "gaps": "report", "batchSize": "100", "partitions": "2"}
        rows = source.read.format("antiphon").options(topic="crash", **options).load().orderBy("seq").collect()
        units = source.read.format("antiphon").options(topic="units", **options).load().orderBy("seq").collect()
    assert [row.seq for row in rows] == list(range(1, 1_001))
    assert [(row.seq, row.gap, row.gap_last) for row in rows if row.gap] == [(500, "removed", 500)]
    assert all(bytes(row.data) == b"%d" % row.seq for row in rows if not row.gap)
    assert [(row.seq, bytes(row.data), row.key, row.gap) for row in units] == [(n, b"%d" % n, f"k{n % 100}", None) for n in range(201, 301)]
