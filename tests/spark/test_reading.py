"""Traces straight from a directory: every kind of bad input is set aside with its reason, and the good rows beside it are all there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from antiphon.errors import UsageError
from antiphon.spark import inspection
from antiphon.spark.tables import EVENTS, Tables
from antiphon.trace.row import Row

S = 1_000_000_000
Write = Callable[..., Path]


def rows(writer: str, first: int, last: int, *, run: str = "r", jump_at: int = -1, close: bool = False) -> list[Row]:
    """What a member records that delivers one message a tenth of a second, all of its own."""

    def row(index: int) -> Row:
        at = index * S // 10
        wall = at + (3_600 * S if 0 <= jump_at <= index else 0)
        if index == 0:
            return Row(run, writer, index, "open", at, wall, wall)
        if close and index == last:
            return Row(run, writer, index, "close", at, wall, wall)
        place = {"group": "g", "member": writer, "view": 1, "sender": writer, "first": index, "last": index, "position": index - 1}
        return Row(run, writer, index, "deliver", at, wall, wall, **place, checks=[index])  # type: ignore[arg-type]

    return [row(index) for index in range(first, last + 1)]


def indexes(tables: Tables) -> dict[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], list[int]] = {}
    for row in tables.events.select("run", "writer", "index").collect():
        found.setdefault((row.run, row.writer), []).append(row["index"])
    return {key: sorted(value) for key, value in found.items()}


def aside(tables: Tables) -> list[tuple[str, int | None, str, int]]:
    return sorted((Path(row.path).name, row.row, row.reason, row.amount) for row in tables.aside.collect())


def test_what_was_written_is_what_the_tables_have(spark: SparkSession, write_trace: Write, tmp_path: Path) -> None:
    """Every job would work on something else than what the nodes recorded."""
    sent = Row(
        *("r", "ana", 10, "send", 5, 6, 7, "g", "ana", 3, "ana", 1, 2, 0, 40),
        members=["ana", "ben"],
        names=[(2, "ben", 9)],
        checks=[11, 12],
        note="why",  # type: ignore[arg-type]
    )
    write_trace("r/ana-0.parquet", rows("ana", 0, 9))
    write_trace("r/ana-1.parquet", [sent])
    tables = Tables.of_traces(spark, str(tmp_path / "trace"))
    assert tables.events.schema == EVENTS
    got = tables.events.where("index = 10").collect()[0]
    assert tuple(got)[:15] == tuple(sent)[:15]
    assert (got.members, [tuple(name) for name in got.names], got.checks, got.note) == (["ana", "ben"], [(2, "ben", 9)], [11, 12], "why")
    assert indexes(tables) == {("r", "ana"): list(range(11))}
    assert aside(tables) == []


def test_a_bad_file_is_set_aside_and_the_rest_is_read(spark: SparkSession, write_trace: Write, tmp_path: Path) -> None:
    """One file that a crash, a copy or somebody else left in the directory would end the whole job, or be passed over in silence."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    trace = tmp_path / "trace"
    good = write_trace("r/ana-0.parquet", rows("ana", 0, 99, close=True))
    data = good.read_bytes()
    (trace / "empty.parquet").write_bytes(b"")
    (trace / "short.parquet").write_bytes(b"PA")
    (trace / "truncated.parquet").write_bytes(data[: len(data) // 2])
    (trace / "half.parquet.tmp").write_bytes(data[:100])
    (trace / "notes.txt").write_text("what I saw on Tuesday")
    (trace / "footer.parquet").write_bytes(data[:4] + b"\x00" * (len(data) - 8) + data[-4:])
    middle = write_trace("r/cem-0.parquet", rows("cem", 0, 5_000))
    damaged = bytearray(middle.read_bytes())
    damaged[len(damaged) // 3] ^= 0x55
    middle.write_bytes(damaged)
    write_trace("no-rows.parquet", [])
    write_trace("later.parquet", rows("dan", 0, 4), metadata={b"antiphon.trace": b"99"})
    write_trace("odd.parquet", rows("dan", 0, 4), metadata={b"antiphon.trace": b"one"})
    write_trace("unmarked.parquet", rows("dan", 0, 4), metadata={})
    other = pa.table({"run": ["r"], "index": pa.array([1.5])}).replace_schema_metadata({b"antiphon.trace": b"1"})
    pq.write_table(other, trace / "columns.parquet")

    tables = Tables.of_traces(spark, str(trace))

    assert indexes(tables) == {("r", "ana"): list(range(100))}
    reasons = {name: reason for name, _, reason, _ in aside(tables)}
    assert reasons == {
        "empty.parquet": "empty",
        "short.parquet": "truncated",
        "truncated.parquet": "truncated",
        "half.parquet.tmp": "half-written",
        "notes.txt": "foreign",
        "footer.parquet": "corrupt",
        "cem-0.parquet": "corrupt",
        "no-rows.parquet": "empty",
        "later.parquet": "unknown version",
        "odd.parquet": "unknown version",
        "unmarked.parquet": "foreign",
        "columns.parquet": "foreign",
    }
    amounts = {name: amount for name, _, _, amount in aside(tables)}
    assert amounts["later.parquet"] == 5
    assert amounts["truncated.parquet"] == len(data) // 2


def test_holes_and_repeats_between_and_within_files(spark: SparkSession, write_trace: Write, tmp_path: Path) -> None:
    """A copied file would look like duplicate deliveries, a lost one like messages never delivered: the protocol would be blamed."""
    write_trace("r/ana-0.parquet", rows("ana", 0, 9))
    write_trace("r/ana-1.parquet", rows("ana", 10, 19))
    shutil.copy(tmp_path / "trace/r/ana-1.parquet", tmp_path / "trace/r/ana-1 (copy).parquet")
    write_trace("r/ana-3.parquet", rows("ana", 25, 29))
    twice = rows("ben", 0, 4)
    write_trace("r/ben-0.parquet", [*twice[:3], *twice[1:], *rows("ben", 7, 8)])
    mixed = [row for pair in zip(rows("cem", 0, 5), rows("cem", 0, 5, run="q"), strict=True) for row in pair]
    write_trace("r/cem-0.parquet", mixed)

    tables = Tables.of_traces(spark, str(tmp_path / "trace"))

    assert indexes(tables) == {
        ("r", "ana"): list(range(20)),
        ("r", "ben"): list(range(5)),
        ("r", "cem"): list(range(6)),
        ("q", "cem"): list(range(6)),
    }
    assert aside(tables) == [
        ("ana-1.parquet", 10, "duplicate index", 10),  # the copy, "ana-1 (copy)", sorts before it and was taken
        ("ana-3.parquet", 20, "missing index", 5),
        ("ben-0.parquet", 1, "duplicate index", 2),
        ("ben-0.parquet", 5, "missing index", 2),
    ]
    writers = {(row.run, row.writer): (row.rows, row.contiguous) for row in tables.writers.collect()}
    assert writers == {("r", "ana"): (20, 19), ("r", "ben"): (5, 4), ("r", "cem"): (6, 5), ("q", "cem"): (6, 5)}


def test_rows_that_make_no_sense_are_as_if_missing(spark: SparkSession, write_trace: Write, tmp_path: Path) -> None:
    """A row without a kind, or a range that ends before it begins or never, would end some job with an error or be a wrong count."""
    good = rows("ana", 0, 9)
    write_trace("r/ana-0.parquet", [*good[:6], good[6]._replace(last=0), *good[7:]])
    write_trace("r/ben-0.parquet", [row._replace(writer="ben") for row in [*good[:3], good[3]._replace(kind=None), *good[4:]]])  # type: ignore[arg-type]
    write_trace("r/cem-0.parquet", [good[0]._replace(run=None, writer="cem")])  # type: ignore[arg-type]
    write_trace("r/dan-0.parquet", [*good[:2], good[1]._replace(index=-4), *good[2:]])
    far = [good[4]._replace(last=1 << 40), good[4]._replace(last=(1 << 63) - 1), good[4]._replace(kind="gap", last=(1 << 63) - 1)]
    for name, row in zip(("fay", "gus", "hal"), far, strict=True):
        write_trace(f"r/{name}-0.parquet", [one._replace(writer=name) for one in [*good[:4], row, *good[5:]]])
    write_trace("r/ida-0.parquet", [one._replace(writer="ida") for one in [*good[:4], good[4]._replace(kind="gap", last=1 << 40)]])
    future = [good[0]._replace(writer="eva"), Row("r", "eva", 1, "telepathy", 1, 1, 1)]
    write_trace("r/eva-0.parquet", future)
    tables = Tables.of_traces(spark, str(tmp_path / "trace"))
    found = indexes(tables)
    assert (found["r", "ana"], found["r", "ben"], found["r", "eva"]) == (list(range(10)), [0, 1, 2], [0, 1])
    assert [len(found["r", name]) for name in ("fay", "gus", "hal", "ida")] == [4, 4, 4, 5], "only what is missing may be so much"
    assert ("ana-0.parquet", 6, "unsound row", 1) in aside(tables)
    assert ("ben-0.parquet", 3, "missing index", 6) in aside(tables)
    assert ("cem-0.parquet", 0, "unsound row", 1) in aside(tables)


def test_a_writer_that_stopped_and_one_whose_clock_jumped(spark: SparkSession, write_trace: Write, tmp_path: Path) -> None:
    """A node that was killed would be judged as if it had gone on, and delays would be computed over a jump of the clock."""
    write_trace("r/ana-0.parquet", rows("ana", 0, 9, close=True))
    write_trace("r/ben-0.parquet", rows("ben", 0, 9))
    write_trace("r/cem-0.parquet", [*rows("cem", 0, 3), Row("r", "cem", 4, "crash", 4 * S // 10, 4 * S // 10, 0)])
    write_trace("r/dan-0.parquet", rows("dan", 0, 9, jump_at=5))
    tables = Tables.of_traces(spark, str(tmp_path / "trace"))
    assert {row.writer: (row.closed, row.crashed, row.clock_jumps) for row in tables.writers.collect()} == {
        "ana": (True, False, 0),
        "ben": (False, False, 0),
        "cem": (False, True, 0),
        "dan": (False, False, 1),
    }
    times = tables.writers.where("writer = 'dan'").collect()[0]
    assert (times.first_at, times.last_at, times.first_wall, times.last_wall) == (0, 9 * S // 10, 0, 9 * S // 10 + 3_600 * S)


def test_a_file_that_may_not_be_read_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file with the wrong owner would end every job over the directory."""

    class Guarded:
        def open_input_file(self, path: str) -> None:
            raise PermissionError(13, f"Failed to open local file '{path}'")

    monkeypatch.setattr(inspection, "file_system", lambda uri: (Guarded(), uri))
    [found] = inspection.inspect_file(inspection.File("/a.parquet", "file:///a.parquet", 99, 1))
    assert (found.reason, found.rows) == ("unreadable", 99)


def test_names_of_files_are_not_patterns(spark: SparkSession, write_trace: Write, tmp_path: Path) -> None:
    """A trace in a directory with brackets, blanks or an equals sign in its name would not be found, or get a column more."""
    odd = tmp_path / "day=[3] {a,b} 100% é+x"
    write_trace("run=7/ana-0.parquet", rows("ana", 0, 9), directory=odd)
    write_trace("run=7/ana-1.parquet", [*rows("ana", 8, 9), *rows("ana", 10, 11)], directory=odd)
    tables = Tables.of_traces(spark, str(odd))
    assert indexes(tables) == {("r", "ana"): list(range(12))}
    assert [row.path for row in tables.aside.collect()] == [str(odd / "run=7/ana-1.parquet")]


def test_no_such_directory(spark: SparkSession, tmp_path: Path) -> None:
    """A mistyped path would be audited as a group in which nothing happened, and found to be faultless."""
    with pytest.raises(UsageError, match=r"nowhere.*is the path right"):
        Tables.of_traces(spark, str(tmp_path / "nowhere"))


def test_an_empty_directory_has_empty_tables(spark: SparkSession, tmp_path: Path) -> None:
    """A job that looks before anything was recorded would fail with a sentence about Spark's insides."""
    tables = Tables.of_traces(spark, str(tmp_path))
    assert (tables.events.count(), tables.writers.count(), tables.aside.count()) == (0, 0, 0)
    assert tables.events.schema == EVENTS
