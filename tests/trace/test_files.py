"""Files of traces: complete or absent, rotated, bounded; and read whatever has become of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from antiphon.errors import UsageError
from antiphon.sim.swarm import Case, run_recorded
from antiphon.trace.files import UNFINISHED, table_of, write_rows
from antiphon.trace.reader import files, read
from antiphon.trace.recorder import Recorder
from antiphon.trace.row import Row
from antiphon.trace.schema import METADATA_KEY, VERSION, arrow_schema
from antiphon.trace.writer import GROUP_ROWS, Writer

LIMIT_S = 20.0


def recorder(writer: str = "w#1", limit: int = 100_000) -> Recorder:
    made = Recorder("run", "", lambda: (1, 2), limit=limit)
    made.begin(writer)
    return made


def fill(made: Recorder, count: int) -> None:
    for number in range(1, count + 1):
        made.add("deliver", group="g", member="m", sender="s", first=number, last=number, checks=[number], position=number)


def wait_for(condition: Callable[[], bool]) -> None:
    done = threading.Event()
    for _ in range(int(LIMIT_S / 0.02)):
        if condition():
            return
        done.wait(0.02)
    raise AssertionError(f"not within {LIMIT_S:g} s")


def test_columns_are_what_pyarrow_would_make_of_them() -> None:
    """Buffers that are laid out wrongly would be read as other numbers, without an error."""
    for case in (Case(seed=1, kind="nodes", order="semantic"), Case(seed=2, order="causal")):
        _, rows = run_recorded(case)
        table = table_of(rows)
        table.validate(full=True)
        plain = [row._asdict() for row in rows]
        for row in plain:
            row["names"] = row["names"] and [dict(zip(("seqno", "sender", "number"), name, strict=True)) for name in row["names"]]
        assert table.to_pylist() == pa.Table.from_pylist(plain, schema=arrow_schema()).to_pylist()
    assert table_of([]).schema == arrow_schema()


def test_files_are_rotated_by_rows_and_nothing_is_lost_between(tmp_path: Path) -> None:
    """A trace that grows into one file would be unreadable until the node ends."""
    made = recorder()
    writer = Writer(made, tmp_path, rotate_rows=1_024)
    writer.start()
    fill(made, 10_000)
    made.close()
    assert writer.close(LIMIT_S)
    contents = read(tmp_path)
    assert len(contents.files) == writer.files == 10
    assert [row.index for row in contents.rows()] == list(range(10_002))
    assert [(one.rows, one.missing, one.ended, one.deliveries) for one in contents.writers()] == [(10_002, 0, "close", 10_000)]
    assert writer.stats() == {"rows": 10_002, "files": 10, "waiting": 0, "dropped": 0, "lost": 0, "error": ""}


def test_a_file_may_end_where_a_group_of_rows_does(tmp_path: Path) -> None:
    """Every file of a busy node whose limit is a multiple of what is written at once would be lost, and others now and then."""
    made = recorder()
    writer = Writer(made, tmp_path, rotate_rows=GROUP_ROWS)
    fill(made, GROUP_ROWS + 1_000)
    made.close()
    writer.start()
    assert writer.close(LIMIT_S)
    assert writer.stats() == {"rows": GROUP_ROWS + 1_002, "files": 2, "waiting": 0, "dropped": 0, "lost": 0, "error": ""}
    assert [(one.missing, one.ended) for one in read(tmp_path).writers()] == [(0, "close")]


def test_a_file_is_complete_after_a_while_although_little_happens(tmp_path: Path) -> None:
    """A quiet node's trace would be seen only when it ends, and lost when it does not."""
    made = recorder()
    writer = Writer(made, tmp_path, rotate_s=0.2)
    writer.start()
    wait_for(lambda: writer.files == 1)
    fill(made, 3)
    wait_for(lambda: writer.files == 2)
    assert [row.index for row in read(tmp_path).rows()] == [0, 1, 2, 3]
    writer.close(LIMIT_S)


def test_two_writers_share_a_directory(tmp_path: Path) -> None:
    """Nodes that record together would overwrite each other's files."""
    writers = []
    for name in ("a#1", "a#2"):
        made = recorder(name)
        writer = Writer(made, tmp_path, rotate_rows=512)
        writer.start()
        writers.append((made, writer))
    for made, writer in writers:
        fill(made, 2_000)
        made.close()
        assert writer.close(LIMIT_S)
    assert [(one.writer, one.rows, one.missing) for one in read(tmp_path).writers()] == [("a#1", 2_002, 0), ("a#2", 2_002, 0)]


def test_a_slow_disk_costs_rows_not_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that hangs would fill the node's memory, or stop it."""
    may_go_on = threading.Event()
    finish = Writer._finish

    def slowly(self: Writer) -> None:
        assert may_go_on.wait(LIMIT_S)
        finish(self)

    monkeypatch.setattr(Writer, "_finish", slowly)
    made = recorder(limit=1_000)
    writer = Writer(made, tmp_path, rotate_rows=10)
    writer.start()
    fill(made, 5)
    wait_for(lambda: not made.rows)
    fill(made, 5_000)
    wait_for(lambda: len(made.rows) <= 1_000)
    fill(made, 5_000)
    assert len(made.rows) == 1_000
    assert made.dropped > 3_000
    may_go_on.set()
    wait_for(lambda: not made.rows)
    made.close()
    assert writer.close(LIMIT_S)
    (summary,) = read(tmp_path).writers()
    assert summary.missing == made.dropped, "what was missed shows"
    assert summary.ended == "close"
    assert summary.contiguous < summary.highest


def test_a_disk_that_fails_costs_a_file_and_the_writer_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk would end the recording for good, or the node with it."""
    made = recorder()
    failing = True
    write_table = parquet.ParquetWriter.write_table

    def write(self: Any, *arguments: Any, **more: Any) -> None:
        if failing:
            raise OSError(28, "No space left on device")
        write_table(self, *arguments, **more)

    monkeypatch.setattr(parquet.ParquetWriter, "write_table", write)
    monkeypatch.setattr("antiphon.trace.writer.GROUP_ROWS", 1)
    writer = Writer(made, tmp_path, rotate_s=0.05)
    writer.start()
    wait_for(lambda: writer.lost == 1)
    assert "No space left" in str(writer.stats()["error"])
    failing = False
    fill(made, 5)
    made.close()
    assert writer.close(LIMIT_S)
    contents = read(tmp_path)
    assert [file.reason for file in contents.files] == [""], "nothing half written stays behind"
    assert [row.index for row in contents.rows()] == [1, 2, 3, 4, 5, 6]


def test_where_nothing_can_be_written_that_is_said_at_once(tmp_path: Path) -> None:
    """A node would run for days without the trace it was asked for."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        Writer(recorder(), tmp_path / "file").start()


def _other_version(path: Path, version: bytes) -> None:
    table = table_of([Row("r", "w", 0, "open")])
    parquet.write_table(table.replace_schema_metadata({METADATA_KEY: version}), path)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: path.write_bytes(b""), "empty"),
        (lambda path: path.write_bytes(b"no parquet at all, but some bytes"), "damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:-20]), "damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:4] + b"\0" * 60 + path.read_bytes()[64:]), "damaged"),
        (lambda path: path.rename(path.with_name(path.name + UNFINISHED)), "unfinished"),
        (lambda path: parquet.write_table(pa.table({"x": [1]}), path), "foreign"),
        (lambda path: _other_version(path, str(VERSION + 1).encode()), f"version {VERSION + 1}"),
        (lambda path: _other_version(path, b"new"), "version new"),
        (lambda path: parquet.write_table(parquet.read_table(path).drop_columns(["hlc"]), path), "no column hlc"),
    ],
    ids=["empty", "text", "truncated", "scribbled", "half written", "foreign", "newer", "odd version", "a column less"],
)
def test_a_file_that_cannot_be_used_is_set_aside_with_the_reason(tmp_path: Path, damage: Callable[[Path], object], reason: str) -> None:
    """One bad file among thousands would hide all the others, or be forgotten without a word."""
    _, rows = run_recorded(Case(seed=4))
    half = len(rows) // 2
    write_rows(rows[:half], tmp_path, "run", "one")
    damage(write_rows(rows[half:], tmp_path, "run", "two"))
    found = list(files(tmp_path))
    assert [file.rows for file in found if not file.reason] == [half]
    assert [reason in file.reason for file in found if file.reason] == [True]
    assert read(tmp_path).rows() == sorted(rows[:half], key=lambda row: row[:3])


@pytest.mark.parametrize("name", ["_", ".hidden", "_run", ""])
def test_no_name_hides_a_file(tmp_path: Path, name: str) -> None:
    """What tools take for hidden, or for their own, would be missing from the trace without a word."""
    path = write_rows([Row("r", "w", 0, "open")], tmp_path, name, name)
    assert not [part for part in path.relative_to(tmp_path).parts if part.startswith((".", "_"))]
    assert len(read(tmp_path).rows()) == 1


def test_a_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    """A typing mistake would look like an empty trace."""
    with pytest.raises(UsageError, match="no directory"):
        read(tmp_path / "nowhere")
    assert read(tmp_path).rows() == []
