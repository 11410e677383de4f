"""A lake: the tables that `ingest` keeps, on whatever file system Spark can write to.

    LAKE/commits/number=000007.json               what ingest 7 looked at, its id, and where every writer was after it
    LAKE/bronze/number=000007/ingest=ID           what was in the files of ingest 7, row by row, with `uri` and `place`; nothing left out
    LAKE/silver/events/number=000007/ingest=ID    what it added to `events`: clustered by (run, group, member), in their order
    LAKE/silver/writers/number=000007/ingest=ID   the tables as they were after ingest 7
    LAKE/silver/aside/number=000007/ingest=ID

No two ingests write into one directory, and readers go by the commits alone. The commit is written last, at once (see `commit`): an ingest
that is killed leaves directories that no commit names, which go with the next commit (see `leftovers`). Of two ingests at once the second
to commit is told, and nothing of it counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from antiphon.errors import UsageError, WorldError
from antiphon.spark.commit import VERSION, Commit, Seen, place
from antiphon.spark.continuity import Key, Writer
from antiphon.spark.inspection import literally
from antiphon.spark.tables import ASIDE, EVENTS, WRITERS, Tables, table_of


class Lake:
    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark, self.path = spark, path.rstrip("/")

    # -- reading ---------------------------------------------------------------------------------------------------------------

    def commits(self) -> list[Commit]:
        """In order. None where there is no lake yet. Raises UsageError where a later version has written it."""
        try:
            lines = self._spark.read.option("wholetext", "true").text(f"{literally(self.path)}/commits/number=*.json").collect()
        except AnalysisException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
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
        return Tables(
            self._read("silver/events", [commit for commit in commits if commit.rows], EVENTS),
            self._read("silver/writers", commits[-1:], WRITERS),
            self._read("silver/aside", commits[-1:], ASIDE),
        )

    def _read(self, table: str, commits: list[Commit], schema: StructType) -> DataFrame:
        if not commits:
            return table_of(self._spark, [], schema)
        reader = self._spark.read.schema(schema).option("recursiveFileLookup", "true")
        return reader.parquet(*(literally(self._place(table, commit.number, commit.ingest)) for commit in commits))

    # -- writing ---------------------------------------------------------------------------------------------------------------

    def write(self, table: str, number: int, ingest: str, rows: DataFrame) -> None:
        rows.write.option("compression", "zstd").parquet(self._place(table, number, ingest))

    def commit(self, commit: Commit) -> None:
        """From here on the ingest has happened. Raises WorldError when another was quicker."""
        inside = self._read("silver/writers", [commit], WRITERS).inputFiles()[0]  # only Spark knows where a path leads
        root = inside.rpartition("/silver/writers/")[0]
        if not place(self._spark, root, commit):
            raise self._too_late()

    @contextmanager
    def attempt(self, number: int, ingest: str) -> Iterator[None]:
        """Around all that an ingest writes for its commit. Who is quicker removes it, and Spark then fails in one of many ways: they all
        mean that."""
        try:
            yield
        except WorldError:
            raise
        except Exception as error:
            if any(commit.number == number and commit.ingest != ingest for commit in self.commits()):
                raise self._too_late() from error
            raise

    def _too_late(self) -> WorldError:
        return WorldError(f"{self.path}: another ingest was quicker; nothing of this one counts. Run it again")

    def _place(self, table: str, number: int, ingest: str) -> str:
        return f"{self.path}/{table}/number={number:06d}/ingest={ingest}"


def writers_after(commits: list[Commit]) -> dict[Key, Writer]:
    return {(writer.run, writer.writer): writer for commit in commits for writer in commit.writers}


def seen_after(commits: list[Commit]) -> dict[str, Seen]:
    """By path, as it was looked at last."""
    return {seen.path: seen for commit in commits for seen in commit.seen}
