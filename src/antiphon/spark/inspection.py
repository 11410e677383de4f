"""What is in each file of a trace, found out on the executors before Spark is asked to read it.

Spark ends a whole job over one bad file. So every file is first read once in full by pyarrow, where it lies: a file is either set aside for
one of the `REASONS`, or described by its stretches (see `stretch`): one for a file as a writer leaves it, several for files that were
doubled, mixed or damaged. Which stretches make up a writer's trace is decided by `continuity`, from these few numbers instead of from
the rows.

Keeps: one record batch of one file at a time per task, and what comes back is one row per stretch. Costs: 0.2 µs per row and 60 µs per
stretch. Not found: a changed bit, in a file without page checksums, that still decodes to something sound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any, NamedTuple
from urllib.parse import unquote

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from antiphon.spark.stretch import UNSOUND, Stretch, Survey
from antiphon.spark.tables import table_of
from antiphon.trace import schema
from antiphon.trace.files import UNFINISHED

EMPTY = "empty"
HALF_WRITTEN = "half-written"
FOREIGN = "foreign"
TRUNCATED = "truncated"
CORRUPT = "corrupt"
UNKNOWN_VERSION = "unknown version"
GONE = "gone"
UNREADABLE = "unreadable"
DISORDERLY = "disorderly"

REASONS = {
    EMPTY: "it has no rows, or not even a byte",
    HALF_WRITTEN: "its writer had not finished it, or never did; it gets its proper name when it is complete",
    FOREIGN: "it is no Parquet file, or not one of a trace",
    TRUNCATED: "it begins as a Parquet file and does not end as one",
    CORRUPT: "it cannot be read to its end",
    UNKNOWN_VERSION: "it was written by a later version of Antiphon: use that one",
    GONE: "it was there when the directory was listed and not when it was opened",
    UNREADABLE: "whoever runs the job may not read it: change its permissions",
    DISORDERLY: "its rows are in no order: more than 65,536 stretches in one file",
    UNSOUND: "rows without a run, a writer, an index, a kind or a time, or with a range that ends before it begins or cannot be",
}

_MOST_TASKS = 64
_MOST_STRETCHES = 1 << 16
_BATCH_ROWS = 1 << 16
_MAGIC = b"PAR1"
_KINDS_BY_TYPE = {bool: BooleanType(), int: LongType(), str: StringType()}


class File(NamedTuple):
    path: str
    """As Spark's readers want it."""
    uri: str
    """As `_metadata.file_path` has it."""
    length: int
    modified: int


FILES = StructType([StructField(name, StringType() if name in ("path", "uri") else LongType()) for name in File._fields])
_TYPES = {"str": str, "str | None": str, "int": int, "bool": bool}
STRETCHES = StructType([StructField(field.name, _KINDS_BY_TYPE[_TYPES[str(field.type)]]) for field in fields(Stretch)])


def list_files(spark: SparkSession, directory: str) -> list[File]:
    """Every file under a directory that does not hide itself (with a leading dot), by whatever file system Spark knows."""
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    files = reader.load(literally(directory))
    wanted = ("_metadata.file_path", "length", "modificationTime")
    rows = files.select(F.col(wanted[0]).alias("uri"), wanted[1], F.unix_micros(wanted[2]).alias("modified")).collect()
    # Spark does not open a file without a byte, so there is no row of it.
    found = {path_of(uri): File(path_of(uri), uri, 0, 0) for uri in files.inputFiles()}
    found |= {path_of(row.uri): File(path_of(row.uri), *row) for row in rows}
    return sorted(found.values())


def inspect(spark: SparkSession, files: Sequence[File]) -> list[Stretch]:
    """Runs the inspection. One row per stretch comes back to the driver, so about one per file."""
    if not files:
        return []
    table = table_of(spark, files, FILES)
    slots = min(len(files), _MOST_TASKS)
    return [Stretch(**row.asDict()) for row in table.repartition(slots).mapInArrow(_inspect_batches, STRETCHES).collect()]


def path_of(uri: str) -> str:
    """The path as people write it: `file:///tmp/a%20b` is `/tmp/a b`."""
    return re.sub("^file:/+", "/", unquote(uri))


def literally(path: str) -> str:
    """Spark takes paths for patterns."""
    return "".join(f"\\{character}" if character in "*?[]{}\\" else character for character in path)


def _inspect_batches(batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow as pa

    names = [field.name for field in fields(Stretch)]
    types = [{str: pa.string(), int: pa.int64(), bool: pa.bool_()}[_TYPES[str(field.type)]] for field in fields(Stretch)]
    for batch in batches:
        for entry in batch.to_pylist():
            found = inspect_file(File(**entry))
            columns = [pa.array([getattr(stretch, name) for stretch in found], kind) for name, kind in zip(names, types, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, names)


def inspect_file(file: File) -> list[Stretch]:
    """The stretches of one file in the order of their first rows, then what was set aside of it. Raises nothing for what the file is."""
    import pyarrow as pa

    def aside(reason: str, amount: int) -> list[Stretch]:
        return [Stretch.aside(file.path, file.uri, reason, amount)]

    if file.path.endswith(UNFINISHED):
        return aside(HALF_WRITTEN, file.length)
    if file.length == 0:
        return aside(EMPTY, 0)
    try:
        files, path = file_system(file.uri)
        source = files.open_input_file(path)
    except FileNotFoundError:
        return aside(GONE, file.length)
    except PermissionError:
        return aside(UNREADABLE, file.length)
    with source:
        try:
            begins, ends = source.read(4), (source.seek(max(0, file.length - 4)), source.read(4))[1]
            if begins != _MAGIC[: len(begins)] or (ends == _MAGIC and file.length < 12):
                return aside(FOREIGN, file.length)
            if ends != _MAGIC:
                return aside(TRUNCATED, file.length)
            source.seek(0)
            return _inspect_parquet(file, source) or aside(EMPTY, 0)
        except _Rejected as rejected:
            return aside(rejected.reason, rejected.amount)
        except (pa.ArrowException, OSError, ValueError):
            return aside(CORRUPT, file.length)


class _Rejected(Exception):
    def __init__(self, reason: str, amount: int) -> None:
        super().__init__(reason)
        self.reason, self.amount = reason, amount


def file_system(uri: str) -> tuple[Any, str]:
    """Where an address as Spark tells it leads, for pyarrow, and the path there."""
    import pyarrow.fs

    path = path_of(uri)
    if path.startswith("/"):
        return pyarrow.fs.LocalFileSystem(), path
    found: tuple[Any, str] = pyarrow.fs.FileSystem.from_uri(re.sub("^s3[an]:", "s3:", uri))
    return found


def _inspect_parquet(file: File, source: Any) -> list[Stretch]:
    import pyarrow.parquet as pq

    parquet = pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=False)
    rows = parquet.metadata.num_rows
    version = (parquet.schema_arrow.metadata or {}).get(schema.METADATA_KEY)
    if version is None:
        raise _Rejected(FOREIGN, rows)
    if not version.isdigit() or not 1 <= int(version) <= schema.VERSION:
        raise _Rejected(UNKNOWN_VERSION, rows)
    if not _has_columns(parquet.schema_arrow):
        raise _Rejected(FOREIGN, rows)
    survey = Survey(file.path, file.uri)
    for batch in parquet.iter_batches(_BATCH_ROWS, columns=[column for column, _ in schema.COLUMNS], use_threads=False):
        survey.add(batch)
        if len(survey.stretches) > _MOST_STRETCHES:
            raise _Rejected(DISORDERLY, rows)
    return survey.finish()


def _has_columns(found: Any) -> bool:
    """The columns of the schema with its types; strings may be dictionaries or not, and there may be more columns."""
    import pyarrow as pa

    def plain(kind: Any) -> Any:
        if pa.types.is_dictionary(kind):
            return plain(kind.value_type)
        if pa.types.is_large_string(kind):
            return pa.string()
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return ("list", plain(kind.value_type))
        if pa.types.is_struct(kind):
            return tuple((kind.field(i).name, plain(kind.field(i).type)) for i in range(kind.num_fields))
        return kind

    wanted = schema.arrow_schema()
    return all(found.get_field_index(field.name) >= 0 and plain(found.field(field.name).type) == plain(field.type) for field in wanted)
