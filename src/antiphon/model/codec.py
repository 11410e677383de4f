"""Frames to bytes and back: one version byte, then MessagePack.

`decode` either returns a well-formed frame or raises `BadFrame` with the name of the counter that an endpoint bumps; nothing
else comes out of it, whatever the bytes. Cost: 0.6 µs for a batch of one, 2.4 µs for 64 messages of 100 B (`antiphon bench core`).
"""

from __future__ import annotations

import msgspec

from antiphon.errors import BadFrame
from antiphon.model.frames import KINDS, NAMED_LIMIT, NAMES_LIMIT, Batch, Fragment, Frame

VERSION = 1
FRAME_LIMIT = 1 << 20
"""The largest frame that is looked at, in bytes."""
MESSAGE_LIMIT = 64 << 20
"""The largest message that fragments may add up to, in bytes."""

_PREFIX = bytes([VERSION])
_INDEXES_BELOW = [bytes(range(count)) for count in range(NAMED_LIMIT + 1)]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Frame).decode


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
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise BadFrame("malformed") from None
    if type(frame) is Batch:
        if (frame.parents is not None or frame.after is not None) and not _names_well(frame):
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


def kind_of(wire: bytes) -> str:
    """The word for a frame's kind (`data`, `record`, …) without decoding it; `unknown` for anything else."""
    # Byte 1 is the array's length (every frame has fewer than 16 fields), byte 2 the tag.
    return KINDS.get(wire[2], "unknown") if len(wire) > 2 and wire[0] == VERSION else "unknown"
