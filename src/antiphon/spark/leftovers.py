"""What ingests leave in a lake that were killed, or were not quick enough: removed with the next commit.

A directory belongs to one ingest and has the number under which that ingest wants to commit. While there is no such commit, nobody can
know whether the ingest is still at work: it is left alone. Once there is, and names another ingest, this one can never commit, whether it
was killed or still writes, so what it has written may go; one that still writes is told that another was quicker.

    commits/number=000007.json says B

    bronze/number=000007/ingest=A     goes
    bronze/number=000007/ingest=B     stays
    bronze/number=000008/ingest=C     stays: it may be at work

Costs: a few listings for each of the `LOOKED_AT` newest numbers. Whatever cannot be removed is tried again with the next commit.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any

import msgspec

TABLES = ("bronze", "silver/events", "silver/writers", "silver/aside")
LOOKED_AT = 16
"""Numbers that are looked through: who is killed after so many others have committed leaves something for good."""


class _Winner(msgspec.Struct):
    """Of a commit of any version, whose directories stay."""

    ingest: str


def remove_leftovers(files: Any, lake: str, newest: int) -> int:
    """Removes what can never be committed under the numbers up to `newest`, which is committed. `files` is the file system (pyarrow's)
    that the lake is in. Says how many directories and unfinished commits it removed."""
    from pyarrow import fs

    root = PurePosixPath(lake)
    if not isinstance(files, fs.LocalFileSystem):
        newest -= 1  # two may believe that they have committed it: which of them did is certain when the next one comes
    removed = 0
    for number in range(max(1, newest - LOOKED_AT + 1), newest + 1):
        with suppress(OSError, msgspec.DecodeError):
            with files.open_input_stream(str(root / "commits" / f"number={number:06d}.json")) as source:
                winner = msgspec.json.decode(source.read(), type=_Winner).ingest
            for table in TABLES:
                for found in _inside(files, root / table / f"number={number:06d}"):
                    if found.base_name != f"ingest={winner}":
                        files.delete_dir(found.path)
                        removed += 1
    known = tuple(f".number={number:06d}.json." for number in range(max(1, newest - LOOKED_AT + 1), newest + 1))
    for found in _inside(files, root / "commits"):
        if found.base_name.startswith(known):
            with suppress(OSError):
                files.delete_file(found.path)
                removed += 1
    return removed


def _inside(files: Any, folder: PurePosixPath) -> list[Any]:
    from pyarrow import fs

    found: list[Any] = files.get_file_info(fs.FileSelector(str(folder), allow_not_found=True))
    return found
