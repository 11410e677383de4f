"""Files in which tasks leave their rows until their batch is decided: STAGING/QUERY/BATCH/PARTITION-ATTEMPT.arrow.

Files are complete or absent: written under another name, synced and renamed (object stores do so by themselves). Their names are never used
twice: a driver that starts again counts its attempts from the beginning, so a random part is in them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import Any
from uuid import uuid4

import pyarrow as pa
from msgspec import Struct
from pyarrow import fs

from antiphon.errors import InvalidOption, TooLarge
from antiphon.store.records import KEY_BYTES, Entry
from antiphon.trace.files import sync

SCHEMA = pa.schema([("data", pa.binary()), ("key", pa.string())])
NAME_SUFFIX = ".arrow"


class Part(Struct, array_like=True, frozen=True):
    """The rows of one task."""

    partition: int
    attempt: str
    rows: int
    largest: int
    """Bytes of the largest value."""
    keyed: int = 0
    """How many of the rows have a key."""

    @property
    def name(self) -> str:
        return f"{self.partition}-{self.attempt}{NAME_SUFFIX}"


class Staging:
    def __init__(self, location: str, query: str) -> None:
        try:
            self._files, root = fs.FileSystem.from_uri(location if "://" in location else f"file://{os.path.abspath(location)}")
        except (pa.ArrowInvalid, OSError) as error:
            raise InvalidOption("staging", location, f"it is no directory or address that can be used ({error})") from None
        self._is_local = isinstance(self._files, fs.LocalFileSystem)
        self._home = PurePosixPath(root) / query

    # -- a task ----------------------------------------------------------------------------------------------------------------

    def stage(self, batch: int, partition: int, attempt: int, batches: Iterable[pa.RecordBatch]) -> Part:
        """Writes the rows of a task, and says what they are called. No rows: no file."""
        attempt_name = f"{attempt}-{uuid4().hex[:12]}"
        path = self._directory(batch) / f"{partition}-{attempt_name}{NAME_SUFFIX}"
        rows = largest = keyed = 0
        # The first rows decide whether there is a file at all.
        source = (_checked(batch_of_rows, partition) for batch_of_rows in batches if batch_of_rows.num_rows)
        first = next(source, None)
        if first is not None:
            self._files.create_dir(str(path.parent), recursive=True)
            with self._created(path) as out, pa.ipc.new_stream(out, SCHEMA) as writer:
                for table in _with(first, source):
                    writer.write_batch(table)
                    rows += table.num_rows
                    largest = max(largest, _largest(table))
                    keyed += _keyed(table)
        return Part(partition, attempt_name, rows, largest, keyed)

    @contextmanager
    def _created(self, path: PurePosixPath) -> Iterator[Any]:
        if not self._is_local:
            with self._files.open_output_stream(str(path)) as out:
                yield out
            return
        unfinished = f"{path}.tmp"
        try:
            with open(unfinished, "xb") as out:
                yield out
                out.flush()
                os.fsync(out.fileno())
            os.rename(unfinished, path)
            sync(path.parent)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished)
            raise

    # -- the driver ------------------------------------------------------------------------------------------------------------

    def entries(self, batch: int, part: Part, skip: int) -> Iterator[list[Entry]]:
        """The rows after the first `skip`, some at a time. Raises InvalidOption where the file is not what it was."""
        path = str(self._directory(batch) / part.name)
        seen = 0
        try:
            with self._files.open_input_stream(path) as source, pa.ipc.open_stream(source) as reader:
                for table in reader:
                    if seen + table.num_rows > skip:
                        fresh = table.slice(max(0, skip - seen))
                        yield [Entry(data, key) for data, key in zip(*(column.to_pylist() for column in fresh.columns), strict=True)]
                    seen += table.num_rows
        except (OSError, pa.ArrowInvalid) as error:
            raise _gone(path, str(error)) from None
        if seen != part.rows:
            raise _gone(path, f"it has {seen:,} rows and had {part.rows:,}")

    def discard(self, batch: int, parts: Iterable[Part]) -> None:
        """Removes the files of these parts."""
        for part in parts:
            if part.rows:
                with suppress(OSError):
                    self._files.delete_file(str(self._directory(batch) / part.name))

    def clear(self, upto: int) -> None:
        """Removes everything of this batch and of those before it: also what tasks left that failed or came too late."""
        with suppress(OSError):
            for found in self._files.get_file_info(fs.FileSelector(str(self._home), allow_not_found=True)):
                if found.base_name.isdecimal() and int(found.base_name) <= upto:
                    self._files.delete_dir(found.path)

    def remove(self) -> None:
        """Removes the query's directory: it will not come again."""
        with suppress(OSError):
            self._files.delete_dir(str(self._home))

    def _directory(self, batch: int) -> PurePosixPath:
        return self._home / str(batch)


def _checked(rows: pa.RecordBatch, partition: int) -> pa.RecordBatch:
    """The columns of a value, as they are staged."""
    data = rows.column("data").cast(pa.binary())
    if data.null_count:
        raise InvalidOption("data", None, f"a row of partition {partition} has no data: null is no value; filter it out, or write b''")
    if "key" not in rows.schema.names:
        keys = pa.repeat(pa.scalar("", pa.string()), rows.num_rows)
    else:
        keys = rows.column("key").cast(pa.string()).fill_null("")
        longest = max((len(key.encode()) for key in keys.unique().to_pylist()), default=0)
        if longest > KEY_BYTES:
            raise TooLarge(longest, KEY_BYTES, "the key of a value", "use a shorter one, and put the rest into data")
    return pa.RecordBatch.from_arrays([data, keys], schema=SCHEMA)


def _largest(rows: pa.RecordBatch) -> int:
    import pyarrow.compute as pc

    return int(pc.max(pc.binary_length(rows.column("data"))).as_py() or 0)


def _keyed(rows: pa.RecordBatch) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(pc.not_equal(rows.column("key"), "")).as_py() or 0)


def _with(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _gone(path: str, why: str) -> InvalidOption:
    return InvalidOption(
        "staging",
        path,
        f"this file is part of a batch that is decided and not yet published, and cannot be read ({why}): bring it back, or see that "
        "driver and executors mean the same directory; without it begin with a new checkpoint, after the last value that is in the topic",
    )
