"""Raw traces → tables in a lake. Only files that are new are read; what cannot be used is set aside with the reason, counted, never fatal.

Idempotent: the same directory again adds nothing, and an ingest that was killed at any moment is as if it had not been; what it has
written goes with the next commit. A file whose rows come after a hole waits: when the file that fills the hole arrives, both are taken, in
order. Half-written files wait for their names.

Costs: each new file is read three times (inspected, copied to bronze, sorted into silver), by the executors where it lies. Keeps: one line
per file in memory and in the commits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from antiphon.errors import UsageError
from antiphon.spark.commit import Commit, Seen
from antiphon.spark.continuity import DUPLICATE_INDEX, Aside, continue_writers
from antiphon.spark.inspection import GONE, HALF_WRITTEN, UNREADABLE, File, inspect
from antiphon.spark.lake import Lake, seen_after, writers_after
from antiphon.spark.reading import aside_table, listed, read_files, taken, writers_table
from antiphon.spark.stretch import Stretch

ROWS_PER_FILE = 2_000_000
_MOST_FILES = 256


class Ingested(msgspec.Struct, frozen=True, kw_only=True):
    """What one ingest did."""

    number: int
    """Of the commit; that of the last one where nothing was new."""
    files: int
    """New or changed ones that were looked at."""
    rows: int
    """Added to `events`."""
    writers: int
    """In the lake now."""
    runs: int
    waiting: int
    """Files that wait for rows before theirs, or for their writer to finish them."""
    clock_jumps: int
    aside: dict[str, int]
    """In the lake now: reason → how many files or stretches."""


def ingest(spark: SparkSession, directory: str, lake_path: str) -> Ingested:
    """Raises UsageError when there is no such directory, the lake is none, or lies in the directory."""
    if Path(lake_path).resolve().is_relative_to(Path(directory).resolve()):
        raise UsageError(f"{lake_path} lies in {directory}, so its own files would be taken for traces: keep the lake beside it")
    lake = Lake(spark, lake_path)
    commits = lake.commits()
    before, writers = seen_after(commits), writers_after(commits)
    number, me = commits[-1].number + 1 if commits else 1, uuid4().hex[:12]
    files = listed(spark, directory)
    if commits and all(_known(file, before.get(file.path)) for file in files):
        return _told(commits, 0, 0)  # what waits still waits for the same
    fresh = [file for file in files if _is_new(file, before.get(file.path))]

    stretches = inspect(spark, fresh)
    continuation = continue_writers(stretches, writers)
    seen = [*_seen(fresh, continuation.aside, continuation.waiting, before), *_finished(files, before)]
    rows = sum(take.rows for take in continuation.takes)
    first_seen = _readable(stretches, [file.path for file in fresh if not _known(file, before.get(file.path))])
    moved = tuple(writer for key, writer in continuation.writers.items() if writer != writers.get(key))
    commit = Commit(number=number, ingest=me, rows=rows, bronze=len(first_seen), seen=tuple(seen), writers=moved)
    after = [*commits, commit]
    with lake.attempt(number, me):
        if first_seen:
            lake.write("bronze", number, me, bronze_of(spark, first_seen))
        if rows:
            lake.write("silver/events", number, me, taken(spark, continuation.takes).transform(clustered, rows))
        lake.write("silver/writers", number, me, writers_table(spark, writers_after(after).values()).coalesce(1))
        lake.write("silver/aside", number, me, aside_table(spark, _all_aside(after)).coalesce(1))
        lake.commit(commit)
    return _told(after, len(fresh), rows)


def clustered(events: DataFrame, rows: int) -> DataFrame:
    """In as many files as the rows need, the rows of one member of one group together and in their order: what a job then groups by
    (run, group, member) hardly has to be moved, and what it filters by group it hardly has to read."""
    files = max(1, min(_MOST_FILES, -(-rows // ROWS_PER_FILE)))
    keys = ["run", "group", "member"]
    return events.repartition(files, *keys).sortWithinPartitions(*keys, "writer", "index")


def bronze_of(spark: SparkSession, paths: Iterable[str]) -> DataFrame:
    """The rows of these files as they are, each with the file that it is from (as `uri`) and its place there."""
    return read_files(spark, paths).select("*", F.col("_metadata.file_path").alias("uri"), F.col("_metadata.row_index").alias("place"))


def _known(file: File, seen: Seen | None) -> bool:
    return seen is not None and (seen.length, seen.modified) == (file.length, file.modified)


def _is_new(file: File, seen: Seen | None) -> bool:
    return not _known(file, seen) or (seen is not None and seen.waits)


def _readable(stretches: Iterable[Stretch], wanted: Iterable[str]) -> list[str]:
    return sorted({stretch.path for stretch in stretches if stretch.reason is None} & set(wanted))


def _seen(fresh: list[File], aside: Iterable[Aside], waiting: set[str], before: dict[str, Seen]) -> list[Seen]:
    by_path: defaultdict[str, list[Aside]] = defaultdict(list)
    for each in aside:
        by_path[each.path].append(each)
    result = []
    for file in fresh:
        found = by_path[file.path]
        earlier = before.get(file.path)
        if earlier is not None and earlier.waits and _known(file, earlier):
            # What was taken of it the last time is no duplicate now.
            mine = {each.row for each in earlier.aside if each.reason == DUPLICATE_INDEX}
            found = [each for each in found if each.reason != DUPLICATE_INDEX or each.row in mine]
        waits = file.path in waiting or any(each.reason in (HALF_WRITTEN, GONE, UNREADABLE) for each in found)
        result.append(Seen(file.path, file.length, file.modified, waits, tuple(found)))
    return result


def _finished(files: list[File], before: dict[str, Seen]) -> list[Seen]:
    """Files that were half-written and have gone: by now they have their proper names, or never will."""
    here = {file.path for file in files}
    passing = (HALF_WRITTEN, GONE)
    gone = (seen for path, seen in before.items() if path not in here and any(each.reason in passing for each in seen.aside))
    return [Seen(seen.path, 0, 0) for seen in gone]


def _all_aside(commits: list[Commit]) -> list[Aside]:
    return [each for seen in seen_after(commits).values() for each in seen.aside]


def _told(commits: list[Commit], files: int, rows: int) -> Ingested:
    writers, seen = writers_after(commits), seen_after(commits)
    return Ingested(
        number=commits[-1].number,
        files=files,
        rows=rows,
        writers=len(writers),
        runs=len({run for run, _ in writers}),
        waiting=sum(each.waits for each in seen.values()),
        clock_jumps=sum(writer.clock_jumps for writer in writers.values()),
        aside=dict(sorted(Counter(each.reason for each in _all_aside(commits)).items())),
    )
