"""Ingest: raw traces become tables in a lake, once each, whatever comes later, comes twice or never comes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from antiphon.errors import UsageError, WorldError
from antiphon.spark.commit import Commit, _put
from antiphon.spark.ingest import ingest
from antiphon.spark.lake import Lake
from antiphon.spark.leftovers import TABLES, remove_leftovers
from antiphon.spark.tables import Tables
from antiphon.trace.row import Row

Write = Callable[..., Path]


def rows(writer: str, first: int, last: int, *, run: str = "r") -> list[Row]:
    return [
        Row(run, writer, index, "deliver" if index else "open", index, index, index, "g", writer, 1, writer, index, index, index)
        for index in range(first, last + 1)
    ]


def contents(frame: DataFrame) -> list[str]:
    """Comparable, with lists and structs."""
    return sorted(str(row) for row in frame.collect())


def same(one: Tables, other: Tables) -> bool:
    return all(contents(getattr(one, name)) == contents(getattr(other, name)) for name in ("events", "writers", "aside"))


def directories(lake: str) -> set[str]:
    """Those of single ingests."""
    return {str(path.relative_to(lake)) for path in Path(lake).rglob("ingest=*")}


def named(spark: SparkSession, lake: str) -> set[str]:
    """Those that commits name."""
    found = set()
    for commit in Lake(spark, lake).commits():
        tables = {"bronze": commit.bronze, "silver/events": commit.rows, "silver/writers": 1, "silver/aside": 1}
        found |= {f"{table}/number={commit.number:06d}/ingest={commit.ingest}" for table, is_there in tables.items() if is_there}
    return found


def test_file_after_file_the_lake_is_what_the_directory_is(spark: SparkSession, write_trace: Write, tmp_path: Path) -> None:
    """Whoever ingests every hour would get another verdict than whoever reads the whole directory at the end."""
    trace, lake = str(tmp_path / "trace"), str(tmp_path / "lake")
    write_trace("r/ana-0.parquet", rows("ana", 0, 9))
    write_trace("r/ana-2.parquet", rows("ana", 20, 29))
    (tmp_path / "trace/bad.parquet").write_bytes(b"PAR1 and no more")
    half = tmp_path / "trace/r/ben-0.parquet.tmp"
    half.write_bytes(b"PAR1")
    first = ingest(spark, trace, lake)
    assert (first.number, first.files, first.rows, first.writers, first.waiting) == (1, 4, 10, 1, 2)
    assert first.aside == {"half-written": 1, "missing index": 1, "truncated": 1}
    assert same(Tables.of_lake(spark, lake), Tables.of_traces(spark, trace))

    again = ingest(spark, trace, lake)
    assert (again.number, again.files, again.rows, again.aside) == (1, 0, 0, first.aside), "nothing is new: nothing is written"

    half.unlink()
    write_trace("r/ben-0.parquet", rows("ben", 0, 4))
    write_trace("r/ana-1.parquet", [*rows("ana", 10, 19), *rows("ana", 3, 4)])
    write_trace("s/ana-0.parquet", rows("ana", 0, 2, run="s"))
    second = ingest(spark, trace, lake)
    assert (second.number, second.rows, second.writers, second.runs, second.waiting) == (2, 28, 3, 2, 0)
    assert second.aside == {"duplicate index": 1, "truncated": 1}
    got, wanted = Tables.of_lake(spark, lake), Tables.of_traces(spark, trace)
    assert same(got, wanted)
    assert got.events.count() == 38

    bronze = spark.read.option("recursiveFileLookup", "true").parquet(f"{lake}/bronze")
    assert bronze.count() == 10 + 10 + 12 + 5 + 3, "bronze has every row of every readable file, once, also those that are there twice"
    assert bronze.where("uri like '%ana-1.parquet'").count() == 12


def test_an_ingest_that_is_killed_is_as_if_it_had_not_been(
    spark: SparkSession, write_trace: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut the lake would hold rows twice, or take files for done whose rows it does not have."""
    trace, lake = str(tmp_path / "trace"), str(tmp_path / "lake")
    write_trace("r/ana-0.parquet", rows("ana", 0, 9))
    ingest(spark, trace, lake)
    write_trace("r/ana-1.parquet", rows("ana", 10, 19))
    for step in ("bronze", "silver/events", "silver/aside", "commit"):
        with monkeypatch.context() as patch:
            whole_write = Lake.write

            def write(self: Lake, table: str, number: int, me: str, frame: DataFrame, stop: str = step, go_on: Any = whole_write) -> None:
                go_on(self, table, number, me, frame)
                if table == stop:
                    raise KeyboardInterrupt

            def commit(self: Lake, value: object) -> None:
                raise KeyboardInterrupt

            patch.setattr(Lake, "write", write)
            patch.setattr(Lake, "commit", commit)
            with pytest.raises(KeyboardInterrupt):
                ingest(spark, trace, lake)
        assert Tables.of_lake(spark, lake).events.count() == 10
    assert len(directories(lake)) > 4
    done = ingest(spark, trace, lake)
    assert (done.number, done.rows) == (2, 10)
    assert same(Tables.of_lake(spark, lake), Tables.of_traces(spark, trace))
    assert directories(lake) == named(spark, lake), "what the killed ones have written is gone"


def test_a_file_that_was_mended_is_looked_at_again(spark: SparkSession, write_trace: Write, tmp_path: Path) -> None:
    """A file that was copied in slowly, and looked at half-way, would be lost for good."""
    trace, lake = str(tmp_path / "trace"), str(tmp_path / "lake")
    whole = write_trace("r/ana-0.parquet", rows("ana", 0, 9))
    data = whole.read_bytes()
    whole.write_bytes(data[:-20])
    assert ingest(spark, trace, lake).aside == {"truncated": 1}
    assert Tables.of_lake(spark, lake).events.count() == 0
    whole.write_bytes(data)
    mended = ingest(spark, trace, lake)
    assert (mended.rows, mended.aside) == (10, {})


@pytest.mark.parametrize("meanwhile", ["silver/events", "silver/aside"])
def test_of_two_ingests_at_once_one_is_told(
    spark: SparkSession, write_trace: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    """Both would think they had committed, and the rows of one would be gone, or one would write over what the other has committed."""
    trace, lake = str(tmp_path / "trace"), str(tmp_path / "lake")
    write_trace("r/ana-0.parquet", rows("ana", 0, 9))
    ingest(spark, trace, lake)
    write_trace("r/ana-1.parquet", rows("ana", 10, 19))
    whole_write = Lake.write
    others: list[Any] = []

    def write(self: Lake, table: str, number: int, me: str, frame: DataFrame) -> None:
        whole_write(self, table, number, me, frame)
        if table == meanwhile and not others:
            write_trace("r/ana-2.parquet", rows("ana", 20, 29))
            others.append(None)
            others.append(ingest(spark, trace, lake))  # begins later, sees more, and is done first

    monkeypatch.setattr(Lake, "write", write)
    with pytest.raises(WorldError, match="another ingest was quicker"):
        ingest(spark, trace, lake)
    assert others[1].rows == 20
    assert directories(lake) == named(spark, lake), "nothing is left of the one that was told"
    assert same(Tables.of_lake(spark, lake), Tables.of_traces(spark, trace))
    again = ingest(spark, trace, lake)
    assert (again.number, again.rows) == (2, 0)


def test_a_commit_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that dies within the commit would leave one that says nothing, and every later ingest would be told it came too late."""
    commit = Commit(number=2, ingest="me", rows=0, bronze=0, seen=(), writers=())
    root, mine = f"file://{tmp_path}", msgspec.json.encode(commit)
    link = os.link
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", lambda *paths: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            _put(root, commit.name, mine)
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", lambda path: None)  # killed between the two: what is unfinished stays
        patch.setattr(os, "link", lambda *paths: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            _put(root, commit.name, mine)
    assert [path.name[:1] for path in (tmp_path / "commits").iterdir()] == ["."]
    assert os.link is link
    assert _put(root, commit.name, mine)
    assert _put(root, commit.name, mine), "a task that is repeated has done it before"
    assert not _put(root, commit.name, msgspec.json.encode(msgspec.structs.replace(commit, ingest="other")))
    assert (tmp_path / "commits" / commit.name).read_bytes() == mine


def test_only_what_can_never_be_committed_is_removed(tmp_path: Path) -> None:
    """What somebody is writing at this moment would be removed, or what was committed; or a disk would fill with what nobody reads."""
    for number, me in (("000006", "old"), ("000007", "killed"), ("000007", "winner"), ("000008", "at-work")):
        for table in TABLES:
            folder = tmp_path / table / f"number={number}" / f"ingest={me}"
            (folder / "_temporary").mkdir(parents=True)
            (folder / "part-0.parquet").write_bytes(b"PAR1")
    (tmp_path / "commits").mkdir()
    for committed, me in ((6, "old"), (7, "winner")):
        commit = Commit(number=committed, ingest=me, rows=0, bronze=0, seen=(), writers=())
        (tmp_path / "commits" / commit.name).write_bytes(msgspec.json.encode(commit))
    for unfinished in (".number=000007.json.aa", ".number=000008.json.bb"):
        (tmp_path / "commits" / unfinished).write_bytes(b"{")

    def left() -> set[str]:
        return {path.name.removeprefix("ingest=") for path in tmp_path.rglob("ingest=*")}

    local = fs.LocalFileSystem()
    remote = fs.SubTreeFileSystem(str(tmp_path), local)
    assert remove_leftovers(remote, "", 7) == 0, "where there are no links, who has committed 7 is not certain yet"
    assert left() == {"old", "killed", "winner", "at-work"}
    assert remove_leftovers(local, str(tmp_path), 7) == len(TABLES) + 1
    assert left() == {"old", "winner", "at-work"}
    assert sorted(path.name for path in (tmp_path / "commits").glob(".*")) == [".number=000008.json.bb"]
    assert remove_leftovers(local, str(tmp_path), 7) == 0


def test_who_commits_too_late_finds_what_it_had_not_finished_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of being told to come again somebody would read that a file with a long name is not there."""
    mine, other = (Commit(number=1, ingest=me, rows=0, bronze=0, seen=(), writers=()) for me in ("me", "other"))
    root, link = f"file://{tmp_path}", os.link

    def late(source: str, target: str) -> None:
        monkeypatch.setattr(os, "link", link)
        assert _put(root, other.name, msgspec.json.encode(other))
        assert remove_leftovers(fs.LocalFileSystem(), str(tmp_path), 1) == 1
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    assert not _put(root, mine.name, msgspec.json.encode(mine))
    assert [path.name for path in (tmp_path / "commits").iterdir()] == [other.name]


def test_a_lake_may_lie_anywhere_and_its_name_is_no_pattern(spark: SparkSession, write_trace: Write, tmp_path: Path) -> None:
    """A lake whose name has a bracket would be taken for empty, and ingested anew until another directory matches and is read instead."""
    write_trace("commits/ana-0.parquet", rows("ana", 0, 9))  # a run may be called anything, too
    trace, lake = str(tmp_path / "trace"), str(tmp_path / "lake [1]{a,b}*?")
    assert ingest(spark, trace, lake).rows == 10
    assert ingest(spark, trace, lake).rows == 0
    moved = str(tmp_path / "elsewhere")
    shutil.move(lake, moved)
    assert Tables.of(spark, moved).events.count() == Tables.of(spark, trace).events.count() == 10
    write_trace("r/ben-0.parquet", rows("ben", 0, 4))
    assert ingest(spark, trace, moved).rows == 5


def test_what_is_no_lake_is_not_taken_for_an_empty_one(spark: SparkSession, write_trace: Write, tmp_path: Path) -> None:
    """A mistyped path would be audited as faultless; a lake among the traces would eat itself."""
    with pytest.raises(UsageError, match="is no lake: make one with antiphon pipeline ingest"):
        Tables.of_lake(spark, str(tmp_path / "nothing"))
    write_trace("r/ana-0.parquet", rows("ana", 0, 1))
    with pytest.raises(UsageError, match="keep the lake beside it"):
        ingest(spark, str(tmp_path / "trace"), str(tmp_path / "trace/lake"))
    with pytest.raises(UsageError, match="is the path right"):
        ingest(spark, str(tmp_path / "nothing"), str(tmp_path / "lake"))
    (tmp_path / "lake/commits").mkdir(parents=True)
    (tmp_path / "lake/commits/number=000001.json").write_text("remember the milk")
    with pytest.raises(UsageError, match="no commit of a lake"):
        ingest(spark, str(tmp_path / "trace"), str(tmp_path / "lake"))


def test_rows_of_a_member_lie_together_and_in_order(spark: SparkSession, write_trace: Write, tmp_path: Path) -> None:
    """Every job would have to move and sort all rows again."""
    trace, lake = str(tmp_path / "trace"), str(tmp_path / "lake")
    for name in ("ana", "ben", "cem"):
        write_trace(f"r/{name}-1.parquet", rows(name, 50, 99))
        write_trace(f"r/{name}-0.parquet", rows(name, 0, 49))
    ingest(spark, trace, lake)
    lying = [(row.member, row["index"]) for row in spark.read.parquet(f"{lake}/silver/events/number=000001").collect()]
    assert lying == sorted(lying)
    assert len(lying) == 300
    with pytest.raises(PySparkException):
        spark.read.parquet(f"{lake}/silver/events/number=000002").count()
