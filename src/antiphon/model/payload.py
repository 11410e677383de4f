"""Payloads of a type: msgpack on the wire and on disk, checked on both sides, never pickle.

Without a type a payload is bytes. With one, what is sent must be of it; what comes and is not (somebody else's mistake) is handed over
as `BadPayload`, so that nothing is lost and the order is kept.
"""

from __future__ import annotations

from typing import Any

import msgspec

from antiphon.errors import UsageError


class BadPayload(msgspec.Struct, frozen=True):
    """Stands for data that is not of the group's or the topic's type here: the bytes as they came, and what is wrong with them."""

    raw: bytes
    why: str


def codec_for(kind: Any, carrier: str = "group") -> PayloadCodec | None:
    """None for bytes, which go as they are; raises a UsageError for what cannot be a payload."""
    return None if kind is None or kind is bytes else PayloadCodec(kind, carrier)


class PayloadCodec:
    """`encode` raises a UsageError for what is not of the type; `decode` never raises."""

    def __init__(self, kind: Any, carrier: str = "group") -> None:
        self.kind = kind
        self.bad = 0
        """How many payloads that came were not of the type."""
        self._carrier = carrier
        self._encoder = msgspec.msgpack.Encoder()
        try:
            self._decoder = msgspec.msgpack.Decoder(kind)
        except TypeError as error:
            raise UsageError(f"type={kind!r} cannot be a payload: {error}. Use a msgspec.Struct, a dataclass or a built-in type") from None

    def encode(self, data: Any) -> bytes:
        try:
            raw = self._encoder.encode(data)
            self._decoder.decode(raw)
        except (msgspec.ValidationError, TypeError, OverflowError, RecursionError) as error:
            kind = getattr(self.kind, "__name__", self.kind)
            raise UsageError(f"{data!r:.80} is not a {kind}, which this {self._carrier} carries: {error}") from None
        return raw

    def decode(self, raw: bytes) -> Any:
        try:
            return self._decoder.decode(raw)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            self.bad += 1
            return BadPayload(raw, str(error))
