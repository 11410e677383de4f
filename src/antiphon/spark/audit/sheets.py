"""The sheets of one group, by member.

Keeps them in memory while they are small (`KEPT` bytes together); larger ones lie in a file that is gone with the task, and one member's at
a time is read from there. So what is kept of a large group is what its largest member needs, and reading it again costs a copy.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from typing import IO

from antiphon.spark.audit.sheet import Sheet

KEPT = 256 << 20


class Sheets(Mapping[int, Sheet]):
    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._pieces: dict[int, dict[int, bytes]] = {}
        """By member and number of the piece, in memory."""
        self._places: dict[int, dict[int, tuple[int, int]]] = {}
        """The same in the file: where, and how many bytes."""
        self._file: IO[bytes] | None = None
        self._bytes = 0
        self._read: dict[int, Sheet] = {}

    def add(self, member: int, number: int, piece: bytes) -> None:
        """A piece of a member's sheet; they come in any order."""
        self._pieces.setdefault(member, {})[number] = piece
        self._bytes += len(piece)
        if self._bytes > self._kept:
            self._put_away()

    @property
    def away(self) -> bool:
        """Whether they lie in a file."""
        return self._file is not None

    def clear(self) -> None:
        self._pieces, self._places, self._read, self._bytes = {}, {}, {}, 0
        if self._file is not None:
            self._file.close()
            self._file = None

    def __getitem__(self, member: int) -> Sheet:
        if member not in self._read:
            if self._file is not None:
                self._read.clear()  # one at a time
            self._read[member] = Sheet.joined([Sheet.unpack(piece) for _, piece in sorted(self._pieces_of(member).items())])
        return self._read[member]

    def __iter__(self) -> Iterator[int]:
        return iter(list({**self._pieces, **self._places}))

    def __len__(self) -> int:
        return len({**self._pieces, **self._places})

    def _pieces_of(self, member: int) -> dict[int, bytes]:
        pieces = dict(self._pieces.get(member, {}))
        for number, (place, size) in self._places.get(member, {}).items():
            assert self._file is not None, "what has a place lies in the file"
            self._file.seek(place)
            pieces[number] = self._file.read(size)
        if not pieces:
            raise KeyError(member)
        return pieces

    def _put_away(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="antiphon-sheets-")  # noqa: SIM115
        self._file.seek(0, 2)
        for member, pieces in self._pieces.items():
            for number, piece in pieces.items():
                self._places.setdefault(member, {})[number] = (self._file.tell(), len(piece))
                self._file.write(piece)
        self._pieces, self._read, self._bytes = {}, {}, 0
