"""Cuts the bytes of a connection into wires: each has its length in front, four bytes, the lowest first.

A wire that lies within one read is copied once, and so is one that comes in pieces: they are kept as they are until the last is here.
Small pieces are gathered, and the end of a read does not keep the whole of it: what is kept is at most about twice what `kept` says,
however a stranger cuts what it sends.
"""

from __future__ import annotations

import struct

_length = struct.Struct("<I").unpack_from
_SMALL = 4_096
"""A piece of this size costs little beside its bytes."""


class Splitter:
    def __init__(self) -> None:
        self.kept = 0
        """Bytes that have come of a wire that is not whole."""
        self._pieces: list[bytes | bytearray | memoryview] = []
        self._size = 0
        """The length of that wire; while it is not known itself, the pieces are of it."""
        self.busy = False
        """Whether a wire has begun and is not whole."""

    def split(self, data: bytes, first: int, limit: int) -> list[bytes] | None:
        """The wires that these bytes complete; None when the first of them is said to be longer than `first`, or another than `limit`."""
        wires: list[bytes] = []
        at = 0
        if self._size:
            missing = self._size - self.kept
            if len(data) < missing:
                self._keep(data)
                return wires
            self._pieces.append(memoryview(data)[:missing])
            wires.append(b"".join(self._pieces))
            at = missing
        elif self.kept:
            data = b"".join((*self._pieces, data))
        self._pieces.clear()
        self._size = self.kept = 0
        end = len(data)
        while end - at >= 4:
            (size,) = _length(data, at)
            if size > (limit if wires else first):
                return None
            after = at + 4 + size
            if after > end:
                self._size = size
                at += 4
                break
            wires.append(data[at + 4 : after])
            at = after
        self.busy = at < end or self._size > 0
        if at < end:
            self._keep(memoryview(data)[at:] if 2 * at < end else data[at:])
        return wires

    def _keep(self, piece: bytes | memoryview) -> None:
        self.kept += len(piece)
        if len(piece) >= _SMALL:
            self._pieces.append(piece)
        elif self._pieces and isinstance(last := self._pieces[-1], bytearray):
            last += piece
        else:
            self._pieces.append(bytearray(piece))
