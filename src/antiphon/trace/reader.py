"""Reads a directory of trace files, whatever state they are in: each file is read whole, or set aside with the reason.

    for found in files("traces"):
        print(found.path, found.reason or found.rows)
    rows = read("traces").rows()

A file that is half written, damaged, empty, or of somebody else is no error: it is a finding. Keeps what it reads: this is for tests and
for a look at a small trace; large ones are for Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from antiphon.errors import UsageError
from antiphon.trace.files import UNFINISHED, need_pyarrow
from antiphon.trace.row import Row
from antiphon.trace.schema import COLUMNS, METADATA_KEY, VERSION, arrow_schema

if TYPE_CHECKING:
    import pyarrow


class TraceFile(Struct, frozen=True):
    """A file below the directory; `reason` says why it cannot be used, and is empty for one that can."""

    path: str
    rows: int = 0
    reason: str = ""


class WriterSummary(Struct):
    """What is there of one writer. Rows after the first missing number prove nothing by being absent."""

    run: str
    writer: str
    rows: int = 0
    contiguous: int = -1
    """The last number before the first one that is missing."""
    highest: int = -1
    repeated: int = 0
    ended: str = ""
    """`close`, `crash`, or nothing."""
    deliveries: int = 0

    @property
    def missing(self) -> int:
        return self.highest + 1 - (self.rows - self.repeated)


class Contents:
    """All that could be read, as one table, and what could not."""

    def __init__(self, files: list[TraceFile], table: pyarrow.Table) -> None:
        self.files, self.table = files, table

    def rows(self) -> list[Row]:
        """By run, writer and number."""
        return sorted(_rows(self.table), key=lambda row: row[:3])

    def writers(self) -> list[WriterSummary]:
        """A summary of each writer, by run and name."""
        found: dict[tuple[str, str], WriterSummary] = {}
        seen: dict[tuple[str, str], set[int]] = {}
        columns = [self.table.column(column).to_pylist() for column in ("run", "writer", "index", "kind", "first", "last")]
        for run, writer, index, kind, first, last in zip(*columns, strict=True):
            key = (run, writer)
            summary, numbers = found.setdefault(key, WriterSummary(*key)), seen.setdefault(key, set())
            summary.rows += 1
            summary.repeated += index in numbers
            summary.highest = max(summary.highest, index)
            numbers.add(index)
            if kind in ("close", "crash"):
                summary.ended = kind
            elif kind == "deliver":
                summary.deliveries += last - first + 1
        for key, summary in found.items():
            while summary.contiguous + 1 in seen[key]:
                summary.contiguous += 1
        return [found[key] for key in sorted(found)]


def read(directory: Path | str) -> Contents:
    """Everything in a directory."""
    import pyarrow as pa

    need_pyarrow()
    opened = list(_open(Path(directory)))
    tables = [table for _, table in opened if table is not None]
    return Contents([found for found, _ in opened], pa.concat_tables(tables) if tables else arrow_schema().empty_table())


def files(directory: Path | str) -> Iterator[TraceFile]:
    """Every file of a directory, looked at one by one."""
    return (found for found, _ in _open(Path(directory)))


def _open(directory: Path) -> Iterator[tuple[TraceFile, pyarrow.Table | None]]:
    need_pyarrow()
    if not directory.is_dir():
        raise UsageError(f"{directory} is no directory: name the one that was given as trace")
    for path in sorted(directory.rglob("*")):
        if path.is_dir():
            continue
        name = str(path.relative_to(directory))
        try:
            table = _table(path)
        except _Unusable as unusable:
            yield TraceFile(name, reason=str(unusable)), None
        else:
            yield TraceFile(name, table.num_rows), table


class _Unusable(Exception):
    pass


def _table(path: Path) -> pyarrow.Table:
    import pyarrow as pa
    from pyarrow import parquet

    if path.name.endswith(UNFINISHED):
        raise _Unusable("unfinished: its writer still writes it, or died")
    try:
        if path.stat().st_size == 0:
            raise _Unusable("empty")
        file = parquet.ParquetFile(path, page_checksum_verification=True)
        version = (file.schema_arrow.metadata or {}).get(METADATA_KEY)
        if version is None:
            raise _Unusable("foreign: it is no trace")
        if not version.isdigit() or not 1 <= int(version) <= VERSION:
            raise _Unusable(f"version {version.decode(errors='replace')} of the schema is not known here, which reads up to {VERSION}")
        table = file.read()
        missing = [column for column, _ in COLUMNS if column not in table.column_names]
        if missing:
            raise _Unusable(f"damaged: it has no column {missing[0]}")
        return table.select([column for column, _ in COLUMNS]).cast(arrow_schema())
    except (OSError, pa.ArrowException) as error:
        raise _Unusable(f"damaged: {str(error).splitlines()[0] if str(error) else type(error).__name__}") from None


def _rows(table: pyarrow.Table) -> list[Row]:
    columns = [table.column(column).to_pylist() for column, _ in COLUMNS]
    place = [column for column, _ in COLUMNS].index("names")
    columns[place] = [names and [(name["seqno"], name["sender"], name["number"]) for name in names] for names in columns[place]]
    return [Row(*row) for row in zip(*columns, strict=True)]
