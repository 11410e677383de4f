"""The commit of an ingest, a file of JSON, and how it comes to be there: at once and whole, and only if no other has its number.

Spark itself cannot do this: the directory that it writes is there before what belongs into it, so an ingest that is killed at the wrong
moment would leave a commit that says nothing, and two that begin together would both see none. So a task of one row writes the file under
another name and links it to its own, which a file system refuses when the name is taken. Where there are no links (HDFS, object stores) it
is looked for first and moved then: two ingests that commit within the same milliseconds may both believe that they did.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath
from typing import Any
from uuid import uuid4

import msgspec
from pyspark.sql import SparkSession

from antiphon.spark.continuity import Aside, Writer
from antiphon.spark.inspection import file_system
from antiphon.spark.leftovers import remove_leftovers
from antiphon.trace.files import sync

VERSION = 1


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
    ingest: str
    """The id of the ingest, which is in the names of its directories."""
    rows: int
    """Added to `events`; 0 when there is no such directory."""
    bronze: int
    seen: tuple[Seen, ...]
    writers: tuple[Writer, ...]
    """All writers that got further, as they are now."""

    @property
    def name(self) -> str:
        return f"number={self.number:06d}.json"


def place(spark: SparkSession, root: str, commit: Commit) -> bool:
    """Puts a commit into the lake at `root`, an address as Spark tells it; False when another has its number. A task that Spark repeats
    finds what it did before. With it goes what others have left under this number and earlier ones."""
    task = partial(_place, root, commit.number, commit.name, msgspec.json.encode(commit))
    [row] = spark.range(0, 1, 1, 1).mapInArrow(task, "placed boolean").collect()
    return bool(row.placed)


def _place(root: str, number: int, name: str, data: bytes, batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for batch in batches:
        placed = [_put(root, name, data) for _ in range(batch.num_rows)]
        with suppress(OSError):  # it is committed, or never will be: that something lies about is no reason to fail
            remove_leftovers(*file_system(root), number)
        yield pa.RecordBatch.from_arrays([pa.array(placed, pa.bool_())], ["placed"])


def _put(root: str, name: str, data: bytes) -> bool:
    from pyarrow import fs

    files, path = file_system(root)
    folder = PurePosixPath(path) / "commits"
    files.create_dir(str(folder), recursive=True)
    # Readers do not see what begins with a dot.
    unfinished, final = str(folder / f".{name}.{uuid4().hex}"), str(folder / name)
    if isinstance(files, fs.LocalFileSystem):
        try:
            with open(unfinished, "xb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            os.link(unfinished, final)
        except FileExistsError:
            return _holds(files, final, data)
        except FileNotFoundError:  # another has committed, and removed what this one had not finished
            return os.path.exists(final) and _holds(files, final, data)
        finally:
            with suppress(OSError):
                os.unlink(unfinished)
        sync(folder)
        return True
    if files.get_file_info(final).type != fs.FileType.NotFound:
        return _holds(files, final, data)
    with files.open_output_stream(unfinished) as out:
        out.write(data)
    files.move(unfinished, final)
    return True


def _holds(files: Any, path: str, data: bytes) -> bool:
    with files.open_input_stream(path) as source:
        return bool(source.read() == data)
