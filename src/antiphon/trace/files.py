"""Trace files: rows as Arrow tables, tables as Parquet files that are complete or absent.

A file is written under a name that ends in `.tmp`, flushed to the disk, and only then given its own: whoever sees a `.parquet` sees all of
it. Cost: about 4 µs per row.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from antiphon.errors import UsageError
from antiphon.trace.columns import column_of
from antiphon.trace.row import Row
from antiphon.trace.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow

UNFINISHED = ".tmp"
"""How the name of a file ends while it is written."""
WORDS = ("run", "writer", "kind", "group", "member", "sender")
"""Columns that repeat themselves. To look for repetition in the others, clocks above all, would be half the cost of writing."""
MANNER: dict[str, Any] = {"compression": "zstd", "use_dictionary": list(WORDS), "write_page_checksum": True}
"""How pyarrow is to write: with checksums, so that a bit that changes on the disk is seen."""
_NAME_LIMIT = 120
"""Characters of a name in the name of a file; of a longer one the rest is a hash."""


def write_rows(rows: Sequence[Row], directory: Path, run: str, writer: str, number: int = 0) -> Path:
    """Writes rows, of any writers, as one file; says which."""
    need_pyarrow()
    from pyarrow import parquet

    path = path_of(directory, run, writer, number)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + UNFINISHED)
    parquet.write_table(table_of(rows), unfinished, **MANNER)
    finish(unfinished, path)
    return path


def table_of(rows: Sequence[Row]) -> pyarrow.Table:
    """Rows as a table of the schema."""
    import pyarrow as pa

    schema = arrow_schema()
    columns: Sequence[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.Table.from_arrays([column_of(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)


def path_of(directory: Path, run: str, writer: str, number: int) -> Path:
    """`RUN/WRITER-NUMBER.parquet`, in letters that every file system takes."""
    return directory / _spelled(run) / f"{_spelled(writer)}-{number:06d}.parquet"


def finish(unfinished: Path, path: Path) -> None:
    """Makes a file that is whole seen, and lets it survive the machine's failure."""
    sync(unfinished)
    os.replace(unfinished, path)
    sync(path.parent)


def sync(path: str | os.PathLike[str]) -> None:
    """What was written to a file survives the machine's failure; of a directory, that its files are there under their names."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def need_pyarrow() -> None:
    """UsageError, with the command that helps, where there is no pyarrow."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise UsageError("traces are written with pyarrow, which is not installed: pip install 'antiphon[trace]'") from None


def _spelled(name: str) -> str:
    spelled = quote(name, safe=" #+,=@") or "-"
    if spelled[0] in "._":  # Spark, as much else, does not see files that are hidden
        spelled = f"%{ord(spelled[0]):02X}{spelled[1:]}"
    if len(spelled) <= _NAME_LIMIT:
        return spelled
    return f"{spelled[:_NAME_LIMIT]}~{blake2b(name.encode(), digest_size=8).hexdigest()}"
