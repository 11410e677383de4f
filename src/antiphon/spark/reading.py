"""From the files of a trace to the tables, without writing anything: list, inspect, decide, read.

Files that are taken whole (nearly all) are one plain scan. Of the others the wanted rows are picked by a join with a small table of ranges
that every executor has: no row is shuffled, sorted or compared with another to drop what is there twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from antiphon.errors import UsageError
from antiphon.spark.continuity import Aside, Continuation, Take, Writer, continue_writers
from antiphon.spark.inspection import File, inspect, list_files, literally
from antiphon.spark.tables import ASIDE, EVENTS, WRITERS, Tables, sound, table_of

_RANGES = StructType(
    [
        *(StructField(name, StringType()) for name in ("taken_uri", "taken_run", "taken_writer")),
        *(StructField(name, LongType()) for name in ("row", "last_row", "first_index", "last_index")),
    ]
)


def read_traces(spark: SparkSession, directory: str) -> Tables:
    """Raises UsageError when there is no such directory. Files that cannot be used are in `aside`, even if all are."""
    return tables_of(spark, continue_writers(inspect(spark, listed(spark, directory))))


def listed(spark: SparkSession, directory: str) -> list[File]:
    try:
        return list_files(spark, directory)
    except AnalysisException as error:
        raise UsageError(f"{directory} cannot be read as a directory of traces: is the path right, and may Spark read it?") from error


def tables_of(spark: SparkSession, continuation: Continuation) -> Tables:
    return Tables(
        taken(spark, continuation.takes),
        writers_table(spark, continuation.writers.values()),
        aside_table(spark, continuation.aside),
    )


def taken(spark: SparkSession, takes: Sequence[Take]) -> DataFrame:
    """The rows that were decided on, with the columns of `EVENTS`."""
    rows_by_path: Counter[str] = Counter()
    for take in takes:
        rows_by_path[take.stretch.path] += take.rows
    whole = sorted({take.stretch.path for take in takes if rows_by_path[take.stretch.path] == take.stretch.file_rows})
    parts = [take for take in takes if rows_by_path[take.stretch.path] != take.stretch.file_rows]
    frames = []
    if whole:
        frames.append(read_files(spark, whole).select(*EVENTS.fieldNames()))
    if parts:
        frames.append(_parts(spark, parts))
    if not frames:
        return table_of(spark, [], EVENTS)
    return frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])


def read_files(spark: SparkSession, paths: Iterable[str]) -> DataFrame:
    """What is in these files, in the types of the schema: directories named `key=value` add no columns."""
    reader = spark.read.schema(EVENTS).option("recursiveFileLookup", "true")
    return reader.parquet(*(literally(path) for path in paths))


def _parts(spark: SparkSession, takes: Sequence[Take]) -> DataFrame:
    pieces = [(take.stretch, take) for take in takes]
    wanted_rows = [(piece.uri, piece.run, piece.writer, piece.row, piece.last_row, take.first, take.last) for piece, take in pieces]
    ranges = table_of(spark, wanted_rows, _RANGES)
    rows = read_files(spark, sorted({piece.path for piece, _ in pieces})).where(sound())
    rows = rows.select(*EVENTS.fieldNames(), F.col("_metadata.file_path").alias("uri"), F.col("_metadata.row_index").alias("place"))
    wanted = (
        (F.col("uri") == F.col("taken_uri"))
        & (F.col("run") == F.col("taken_run"))
        & (F.col("writer") == F.col("taken_writer"))
        & F.col("place").between(F.col("row"), F.col("last_row"))
        & F.col("index").between(F.col("first_index"), F.col("last_index"))
    )
    return rows.join(F.broadcast(ranges), wanted).select(*EVENTS.fieldNames())


def writers_table(spark: SparkSession, writers: Iterable[Writer]) -> DataFrame:
    return table_of(spark, map(msgspec.structs.astuple, writers), WRITERS)


def aside_table(spark: SparkSession, aside: Iterable[Aside]) -> DataFrame:
    return table_of(spark, map(msgspec.structs.astuple, aside), ASIDE)
