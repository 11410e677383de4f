"""Frames to bytes and back: one version byte, then MessagePack.

`decode` either returns a well-formed frame or raises `BadFrame` with the name of the counter that an endpoint bumps; nothing
else comes out of it, whatever the bytes. Cost: 0.6 µs for a batch of one, 2.4 µs for 64 messages of 100 B (`antiphon bench core`).
"""

from __future__ import annotations

from typing import TypeAlias
from zlib import crc32

import msgspec

from antiphon.errors import BadFrame, InvalidOption
from antiphon.model.control import CONTROL_KINDS, Control
from antiphon.model.frames import FRAME_LIMIT, KINDS, MESSAGE_LIMIT, NAMED_LIMIT, NAMES_LIMIT, Batch, DataFrame, Fragment

__all__ = ["FRAME_LIMIT", "MESSAGE_LIMIT", "VERSION", "Frame", "checksum", "decode", "encode", "kind_of"]

VERSION = 1
Frame: TypeAlias = DataFrame | Control

_PREFIX = bytes([VERSION])
_INDEXES_BELOW = [bytes(range(count)) for count in range(NAMED_LIMIT + 1)]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Frame).decode
_KINDS = KINDS | CONTROL_KINDS


def encode(frame: Frame) -> bytes:
    return _PREFIX + _encode(frame)


def decode(wire: bytes, limit: int = FRAME_LIMIT) -> Frame:
    size = len(wire)
    if size < 2 or size > limit:
        raise BadFrame("truncated" if size < 2 else "oversized")
    if wire[0] != VERSION:
        raise BadFrame("unknown_version")
    try:
        frame: Frame = _decode(memoryview(wire)[1:])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, InvalidOption):
        raise BadFrame("malformed") from None
    if type(frame) is Batch:
        if (frame.parents is not None or frame.after is not None) and not _names_well(frame):
            raise BadFrame("malformed")
        if frame.guests is not None and not all(frame.first <= seqno <= frame.last for seqno in frame.guests):
            raise BadFrame("malformed")
    elif type(frame) is Fragment and frame.index >= frame.count:
        raise BadFrame("malformed")
    return frame


def _names_well(batch: Batch) -> bool:
    """Whether every message has its entry, and every entry names somebody."""
    parents, whose, members = batch.parents, batch.whose, len(batch.named)
    if parents is None or not len(parents) == len(whose) == len(batch.payloads):
        return False
    if whose.translate(None, _INDEXES_BELOW[members]):
        return False
    return batch.after is None or all(
        batch.first <= seqno <= batch.last and len(names) <= NAMES_LIMIT and all(index < members for index, _ in names)
        for seqno, names in batch.after.items()
    )


def checksum(positions: list[int]) -> int:
    """What stands for a list of numbers in a short digest; two lists that differ have the same one once in four thousand million times."""
    return crc32(_encode(positions))


def kind_of(wire: bytes) -> str:
    """The word for a frame's kind (`data`, `record`, …) without decoding it; `unknown` for anything else."""
    # Byte 1 is the array's length (every frame has fewer than 16 fields), byte 2 the tag.
    return _KINDS.get(wire[2], "unknown") if len(wire) > 2 and wire[0] == VERSION else "unknown"
