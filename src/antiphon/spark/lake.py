"""A lake: the tables that `ingest` keeps, on whatever file system Spark can write to.

    LAKE/commits/number=000007         one line of JSON: what ingest 7 looked at, and where every writer was after it
    LAKE/bronze/number=000007          what was in the files of ingest 7, row by row, with `uri` and `place`; nothing left out
    LAKE/silver/events/number=000007   what it added to `events`: clustered by (run, group, member), sorted by group, member, index
    LAKE/silver/writers/number=000007  the tables as they were after ingest 7
    LAKE/silver/aside/number=000007

The commit is written last, and Spark puts it in its place by renaming: an ingest that is killed leaves directories that no commit names,
and the next one, which has the same number, writes over them. Readers go by the commits alone. One ingest at a time: of two at once one
fails when it finds the other's commit.
"""

from __future__ import annotations

import msgspec
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from antiphon.errors import UsageError, WorldError
from antiphon.spark.continuity import Aside, Key, Writer
from antiphon.spark.tables import ASIDE, EVENTS, WRITERS, Tables, table_of

VERSION = 1
_LINE = StructType([StructField("value", StringType())])


class Seen(msgspec.Struct, frozen=True):
    """A file that an ingest looked at. It is looked at again when it has changed, or while it waits for rows before its own."""

    path: str
    length: int
    modified: int
    waits: bool = False
    aside: tuple[Aside, ...] = ()


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    version: int = VERSION
    number: int
    rows: int
    """Added to `events`; 0 when there is no such directory."""
    bronze: int
    seen: tuple[Seen, ...]
    writers: tuple[Writer, ...]
    """All writers that got further, as they are now."""


class Lake:
    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark, self.path = spark, path.rstrip("/")

    # -- reading ---------------------------------------------------------------------------------------------------------------

    def commits(self) -> list[Commit]:
        """In order. None where there is no lake yet. Raises UsageError where a later version has written it."""
        try:
            lines = self._spark.read.option("wholetext", "true").text(f"{self.path}/commits").collect()
        except AnalysisException as error:
            if error.getCondition() in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
                return []
            raise
        try:
            found = [msgspec.json.decode(line.value, type=Commit) for line in lines]
        except msgspec.DecodeError as error:
            raise UsageError(f"{self.path}/commits has a file that is no commit of a lake ({error}): remove it, or ingest anew") from error
        if later := [commit.version for commit in found if commit.version > VERSION]:
            raise UsageError(f"{self.path} was written by a later version of Antiphon (lake version {max(later)}): use that one")
        return sorted(found, key=lambda commit: commit.number)

    def tables(self) -> Tables:
        """Raises UsageError when nothing was ever ingested."""
        commits = self.commits()
        if not commits:
            raise UsageError(f"{self.path} is no lake: make one with antiphon pipeline ingest DIR {self.path}")
        last = commits[-1].number
        return Tables(
            self._read("silver/events", [commit.number for commit in commits if commit.rows], EVENTS),
            self._read("silver/writers", [last], WRITERS),
            self._read("silver/aside", [last], ASIDE),
        )

    def _read(self, table: str, numbers: list[int], schema: StructType) -> DataFrame:
        if not numbers:
            return table_of(self._spark, [], schema)
        reader = self._spark.read.schema(schema).option("recursiveFileLookup", "true")
        return reader.parquet(*(self._place(table, number) for number in numbers))

    # -- writing ---------------------------------------------------------------------------------------------------------------

    def write(self, table: str, number: int, rows: DataFrame) -> None:
        rows.write.mode("overwrite").option("compression", "zstd").parquet(self._place(table, number))

    def commit(self, commit: Commit) -> None:
        """From here on the ingest has happened. Raises WorldError when another was quicker."""
        line = table_of(self._spark, [(msgspec.json.encode(commit).decode(),)], _LINE)
        try:
            line.coalesce(1).write.mode("error").text(self._place("commits", commit.number))
        except AnalysisException as error:
            if error.getCondition() != "PATH_ALREADY_EXISTS":
                raise
            raise WorldError(f"{self.path}: another ingest was quicker; nothing of this one counts. Run it again") from error

    def _place(self, table: str, number: int) -> str:
        return f"{self.path}/{table}/number={number:06d}"


def writers_after(commits: list[Commit]) -> dict[Key, Writer]:
    return {(writer.run, writer.writer): writer for commit in commits for writer in commit.writers}


def seen_after(commits: list[Commit]) -> dict[str, Seen]:
    """By path, as it was looked at last."""
    return {seen.path: seen for commit in commits for seen in commit.seen}
