"""Rows of Spark in a topic: each once and in order, whatever fails, dies, or is run again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, LongType, StringType, StructType

from antiphon.errors import AntiphonError, Fenced, InvalidOption, TooLarge, TopicTaken, UsageError
from antiphon.spark.datasource import AntiphonSource
from antiphon.spark.sink import manifest
from antiphon.spark.sink.choices import SinkChoices
from antiphon.spark.sink.commit import Staged, abandon_batch, publish_batch
from antiphon.spark.sink.publication import number_of, publisher_of
from antiphon.spark.sink.staging import Part, Staging
from antiphon.spark.sink.stream import TopicSink
from antiphon.spark.source.line import Line
from antiphon.store.records import TopicOptions

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "spark_stream.py"
KILLS_S = 1_200
QUERY = "4711"


def columns(**types: DataType) -> StructType:
    schema = StructType()
    for name, kind in types.items():
        schema.add(name, kind)
    return schema


DATA = columns(data=BinaryType())
Layout = Sequence[Sequence[bytes]]
"""The rows of a batch, by partition."""


@pytest.fixture(scope="module")
def sink(spark: SparkSession) -> SparkSession:
    spark.dataSource.register(AntiphonSource)
    return spark


def choices(url: str, **said: str) -> SinkChoices:
    return SinkChoices.of({"store": url, "topic": "copy", **said}, DATA, overwrite=False)


def staged(chosen: SinkChoices, batch: int, layout: Layout, query: str = QUERY) -> list[Staged]:
    """What the tasks of a batch do, and say."""
    staging = Staging(chosen.staging, query)
    return [
        Staged(query, batch, staging.stage(batch, partition, 0, [pa.record_batch({"data": pa.array(rows, pa.binary())})]))
        for partition, rows in enumerate(layout)
    ]


def contents(line: Line, topic: str = "copy") -> list[bytes]:
    reader = line.ask(lambda: line.backend.reader(topic, 0))
    found: list[bytes] = []
    while (chunk := line.ask(lambda: reader.take(1_000, 0.0))).values:
        found += [value.data for value in chunk.values]
    return found


def flat(layout: Layout) -> list[bytes]:
    return [row for rows in layout for row in rows]


class Crash(Exception):
    """The driver dies here."""


class Dying:
    """A back end whose user dies at its `at`-th call, before or after the call has happened."""

    batch_values = 3

    def __init__(self, backend: Any, at: int, after: bool) -> None:
        self._backend, self._at, self._after = backend, at, after

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._backend, name)
        if not callable(method) or name == "close":
            return method

        async def call(*arguments: Any, **named: Any) -> Any:
            self._at -= 1
            if self._at == 0 and not self._after:
                raise Crash
            try:
                return await method(*arguments, **named)
            finally:
                if self._at == 0:
                    raise Crash  # also where the answer is an error

        return call


# -- a batch, without Spark ------------------------------------------------------------------------------------------------------------

FIRST: Layout = [[b"a1", b"a2", b"a3", b"a4"], [], [b"a5", b"a6", b"a7"]]
AGAIN: Layout = [[b"a7", b"a6"], [b"a5", b"a4", b"a3", b"a2", b"a1", b"a8"]]
NEXT: Layout = [[b"b1"], [b"b2", b"b3"]]


def test_a_driver_that_dies_anywhere_leaves_a_batch_once(url: str, tmp_path: Path) -> None:
    """A batch that is run again, with its rows in other partitions, would be mixed with what was written of it before."""
    outcomes: set[str] = set()
    halves = 0
    for after in (False, True):
        for at in range(1, 100):
            chosen = choices(url, topic=f"copy{after}{at}", staging=str(tmp_path / "staging"))
            query = f"q{after}{at}"
            with Line(url) as line:
                line.reach.backend = Dying(line.backend, at, after)
                try:
                    publish_batch(line, chosen, query, 5, staged(chosen, 5, FIRST, query))
                    died = False
                except Crash:
                    died = True
            with Line(url) as line:
                decided = manifest.known(line, query)
                before = contents(line, chosen.topic) if _exists(line, chosen.topic) else []
                halves += 0 < len(before) < len(flat(FIRST))
                publish_batch(line, chosen, query, 5, staged(chosen, 5, AGAIN, query))
                publish_batch(line, chosen, query, 5, staged(chosen, 5, NEXT, query))  # Spark did not know of the second either
                written = flat(FIRST) if decided is not None else flat(AGAIN)
                assert contents(line, chosen.topic) == written, (after, at)
                publish_batch(line, chosen, query, 6, staged(chosen, 6, NEXT, query))
                assert contents(line, chosen.topic) == written + flat(NEXT), (after, at)
                outcomes.add("first" if decided is not None else "again")
            assert not list((tmp_path / "staging").rglob("*.arrow")), "what was staged stays for ever"
            if not died:
                break
        else:
            pytest.fail("the batch never came to its end")
    assert outcomes == {"first", "again"}
    assert halves > 2, "no crash fell into the middle of a batch: the test has not shown what it is for"


def _exists(line: Line, topic: str) -> bool:
    return any(info.name == topic for info in line.ask(line.backend.topics))


def test_a_driver_that_dies_before_it_tidies_up(url: str, line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is complete would be written a second time, because its files are still there or no longer there."""
    chosen = choices(url)

    def dies(self: Staging, upto: int) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(Staging, "clear", dies)
        with pytest.raises(Crash):
            publish_batch(line, chosen, QUERY, 0, staged(chosen, 0, FIRST))
    publish_batch(line, chosen, QUERY, 0, staged(chosen, 0, AGAIN))
    assert contents(line) == flat(FIRST)


def test_a_failed_batch_keeps_what_was_decided(url: str, line: Line) -> None:
    """Spark gives a batch up that is half published, its files would go, and the query could never go on."""
    chosen = choices(url)
    messages = staged(chosen, 0, FIRST)
    parts = tuple(message.part for message in messages if message.part.rows)
    manifest.decide(line, QUERY, manifest.Manifest("copy", 0, parts))
    late = staged(chosen, 0, AGAIN)
    abandon_batch(chosen, [*messages, *late])
    left = sorted(path.name for path in Path(chosen.staging).rglob("*.arrow"))
    assert left == sorted(part.name for part in parts)
    publish_batch(line, chosen, QUERY, 0, staged(chosen, 0, AGAIN))
    assert contents(line) == flat(FIRST)


def test_a_failed_batch_leaves_nothing(url: str, line: Line) -> None:
    """The files of every task that ever failed would fill the disk."""
    chosen = choices(url)
    abandon_batch(chosen, staged(chosen, 0, FIRST))
    assert not list(Path(chosen.staging).rglob("*.arrow"))
    assert manifest.known(line, QUERY) is None


def test_a_write_that_failed_leaves_no_store_that_was_not_there(url: str, tmp_path: Path) -> None:
    """Whoever mistyped the address would find an empty store there, made by a job that wrote nothing."""
    chosen = choices(url)
    abandon_batch(chosen, staged(chosen, 0, FIRST))
    assert not list(Path(chosen.staging).rglob("*.arrow"))
    assert not (tmp_path / "field.db").exists()


def test_an_older_driver_may_not_go_on(url: str, line: Line) -> None:
    """Two drivers of one query would write their batches among each other."""
    chosen = choices(url)
    publish_batch(line, chosen, QUERY, 3, staged(chosen, 3, FIRST))
    with pytest.raises(Fenced, match="another driver runs this query"):
        publish_batch(line, chosen, QUERY, 2, staged(chosen, 2, NEXT))
    assert contents(line) == flat(FIRST)


def test_an_empty_batch_writes_nothing_and_decides_nothing(url: str, line: Line) -> None:
    """Every idle trigger would cost a write, or a batch that is repeated with rows would be taken for done."""
    chosen = choices(url)
    assert publish_batch(line, chosen, QUERY, 0, staged(chosen, 0, [[], []])) is None
    assert manifest.known(line, QUERY) is None
    publish_batch(line, chosen, QUERY, 0, staged(chosen, 0, FIRST))
    publish_batch(line, chosen, QUERY, 0, staged(chosen, 0, [[]]))
    assert contents(line) == flat(FIRST)


def test_what_can_never_be_published_is_refused_before_it_is_decided(url: str, line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query would meet the same value that is too large in every attempt, for ever, half of its batch written."""
    chosen = choices(url)
    monkeypatch.setattr(line.backend, "value_bytes", 1, raising=False)
    with pytest.raises(TooLarge, match="split it"):
        publish_batch(line, chosen, QUERY, 0, staged(chosen, 0, FIRST))
    assert manifest.known(line, QUERY) is None
    wide = [Part(partition, "0-x", 1, 1) for partition in range(manifest.PARTS_LIMIT + 1)]
    with pytest.raises(TooLarge, match="coalesce"):
        manifest.decide(line, QUERY, manifest.Manifest("copy", 0, tuple(wide)))


@pytest.mark.parametrize(
    ("mutable", "keys", "words"),
    [
        (False, ["", "A1"], "'copy' is not mutable"),
        (None, ["A1", "A2"], "'copy' is not mutable"),
        (True, ["A1", None], "'copy' is mutable"),
        (True, [None, None], "'copy' is mutable"),
    ],
)
def test_keys_that_do_not_fit_the_topic_are_refused_before_the_batch_is_decided(
    url: str, line: Line, mutable: bool | None, keys: list[str | None], words: str
) -> None:
    """A row without a key would be a value of a mutable topic that nothing replaces, and a key in a plain topic would be believed to."""
    if mutable is not None:
        grant = line.ask(lambda: line.backend.register("copy", publisher_of(QUERY), options=TopicOptions(mutable=mutable)))
        line.ask(lambda: line.backend.release(grant))
    chosen = choices(url)

    def stage(keys: list[str | None]) -> list[Staged]:
        rows = pa.record_batch({"data": pa.array([b"x"] * len(keys), pa.binary()), "key": pa.array(keys, pa.string())})
        return [Staged(QUERY, 0, Staging(chosen.staging, QUERY).stage(0, 0, 0, [rows]))]

    with pytest.raises(InvalidOption, match=words):
        publish_batch(line, chosen, QUERY, 0, stage(keys))
    assert manifest.known(line, QUERY) is None, "nothing is decided, so that another attempt may be right"
    publish_batch(line, chosen, QUERY, 0, stage(["A1", "A2"] if mutable else [None, ""]))
    assert contents(line) == [b"x", b"x"]


def test_a_staged_file_that_is_lost_or_cut_is_said_so(url: str, line: Line) -> None:
    """Rows would be left out of a batch without a word."""
    chosen = choices(url)
    messages = staged(chosen, 0, FIRST)
    manifest.decide(line, QUERY, manifest.Manifest("copy", 0, tuple(message.part for message in messages if message.part.rows)))
    (victim,) = Path(chosen.staging).rglob("2-*.arrow")
    whole = victim.read_bytes()
    victim.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidOption, match="bring it back"):
        publish_batch(line, chosen, QUERY, 0, [])
    victim.unlink()
    with pytest.raises(InvalidOption, match="bring it back"):
        publish_batch(line, chosen, QUERY, 0, [])
    victim.write_bytes(whole)
    publish_batch(line, chosen, QUERY, 0, [])
    assert contents(line) == flat(FIRST)


def test_attempts_never_use_a_name_twice(url: str) -> None:
    """A second driver counts its attempts from the beginning: it would overwrite what the first one's manifest names."""
    chosen = choices(url)
    one, other = staged(chosen, 0, FIRST), staged(chosen, 0, FIRST)
    assert {message.part.name for message in one if message.part.rows}.isdisjoint(message.part.name for message in other)
    assert one[1].part.rows == 0
    assert len(list(Path(chosen.staging).rglob("*.arrow"))) == 4, "a task without rows leaves no file"


def test_numbers_of_rows_rise_with_batches() -> None:
    """A row whose number is not above the last would be taken for written."""
    assert 0 < number_of(0, 1) < number_of(0, 2) < number_of(0, (1 << 32) - 1) < number_of(1, 1)


def test_a_topic_that_another_publishes_is_taken_only_on_demand(url: str, line: Line) -> None:
    """A query would write into the midst of what somebody else publishes."""
    line.ask(lambda: line.backend.register("copy", "hotline"))
    chosen = choices(url)
    with pytest.raises(TopicTaken, match="hotline"):
        publish_batch(line, chosen, QUERY, 0, staged(chosen, 0, FIRST))
    # The batch is decided by now: taking over goes on with it.
    publish_batch(line, choices(url, takeover="true"), QUERY, 0, staged(chosen, 0, AGAIN))
    assert contents(line) == flat(FIRST)
    assert line.ask(lambda: line.backend.info("copy")).publisher == publisher_of(QUERY)


@pytest.mark.parametrize(
    ("options", "schema", "words"),
    [
        ({}, columns(data=BinaryType(), seq=LongType()), "select these"),
        ({}, columns(value=BinaryType()), "need a column data"),
        ({}, columns(data=LongType()), "binary or string"),
        ({}, columns(data=BinaryType(), key=LongType()), "string"),
        ({"topic": "history/trip#1"}, DATA, "by its members alone"),
        ({"job": "../../etc"}, DATA, "letters"),
        ({"takeover": "perhaps"}, columns(data=StringType()), "true or false"),
        ({"store": "nats://127.0.0.1:4222?sync=always"}, DATA, "seen by the driver and all executors"),
        ({"gaps": "fail"}, DATA, "no such option"),
    ],
)
def test_wrong_options_and_columns_are_refused_with_what_to_do(url: str, options: dict[str, str], schema: StructType, words: str) -> None:
    """Rows would be written without what the user thought to write, or nobody would know why nothing comes."""
    with pytest.raises(AntiphonError, match=words):
        SinkChoices.of({"store": url, "topic": "copy", **options}, schema, overwrite=False)


def test_a_staging_address_that_nobody_understands_is_refused() -> None:
    """Tasks would fail with a puzzle out of a library."""
    with pytest.raises(InvalidOption, match="no directory or address"):
        Staging("nowhere://x", QUERY)


def test_a_topic_is_not_overwritten_and_a_stream_has_no_job(url: str) -> None:
    """`overwrite` would append; a stream would be known by two names."""
    with pytest.raises(InvalidOption, match="only appended to"):
        SinkChoices.of({"store": url, "topic": "copy"}, DATA, overwrite=True)
    with pytest.raises(UsageError, match="checkpoint"):
        TopicSink(choices(url, job="monday"))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (pa.record_batch({"data": pa.array([b"x", None], pa.binary())}), "null is no value"),
        (pa.record_batch({"data": pa.array([b"x"], pa.binary()), "key": pa.array(["k" * 300])}), "shorter"),
    ],
)
def test_rows_that_are_no_values_are_refused_by_the_task(url: str, rows: pa.RecordBatch, words: str) -> None:
    """A batch with such a row would be decided, and then could not be published."""
    staging = Staging(choices(url).staging, QUERY)
    with pytest.raises(AntiphonError, match=words):
        staging.stage(0, 0, 0, [rows])
    assert not [path for path in Path(choices(url).staging).rglob("*") if path.is_file()]


# -- through Spark ---------------------------------------------------------------------------------------------------------------------


def test_a_job_is_written_once_in_the_order_of_its_partitions(sink: SparkSession, url: str, line: Line) -> None:
    """Rows of a job would come in any order, or a second time when it is run again under its name."""
    rows = sink.range(1, 1_001, 1, 4).select(F.col("id").cast("string").alias("data"))

    def write(**options: str) -> None:
        rows.write.format("antiphon").options(store=url, **{"topic": "copy", **options}).mode("append").save()

    expected = [str(number).encode() for number in range(1, 1_001)]
    write(job="monday")
    assert contents(line) == expected
    write(job="monday")
    assert contents(line) == expected
    write()
    assert contents(line) == expected * 2
    assert [record.key for record in line.ask(lambda: line.backend.records("spark/"))] == ["spark/monday"], "an unnamed job is forgotten"
    assert not list(Path(choices(url).staging).rglob("*")), "nothing is left of it on disk"
    with pytest.raises(PySparkException, match="a write of this name went to the topic 'copy'"):
        write(job="monday", topic="another")  # would be done already, it is said, and nothing is there


def test_a_job_with_a_bad_row_writes_nothing(sink: SparkSession, url: str, line: Line) -> None:
    """Half of a job would be in the topic, and whoever repeats it would have that half twice."""
    line.ask(lambda: line.backend.register("copy", "hotline", options=TopicOptions(shared=True)))
    rows = sink.range(1, 101, 1, 4).select(F.when(F.col("id") != 99, F.col("id").cast("string")).alias("data"))
    with pytest.raises(PySparkException, match="null is no value"):
        rows.write.format("antiphon").options(store=url, topic="copy").mode("append").save()
    assert contents(line) == []


@pytest.mark.parametrize("store", ["sqlite", "nats"])
def test_a_query_with_failing_tasks_that_is_killed_twice(spark: SparkSession, store: str, tmp_path: Path) -> None:
    """Messages would be lost or doubled when a driver is killed, or when a task fails after it has written some of its rows."""
    if store == "nats":
        pytest.importorskip("nats", reason="nats-py is not installed: pip install 'antiphon[nats]'")
    amount = "20000" if store == "sqlite" else "8000"
    command = [sys.executable, str(PROGRAM), "--messages", amount, "--kills", "2" if store == "sqlite" else "1", "--per-trigger", "2500"]
    command += ["--failing", "--store", store, "--directory", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=KILLS_S, check=False)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert report["violations"] == []
    assert len(report["kills"]) == (2 if store == "sqlite" else 1)
    assert report["failed_tasks"] > 2, "no task failed: the test has not shown what it is for"
