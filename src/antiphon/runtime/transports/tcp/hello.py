"""The first wire of a connection: who is there."""

from __future__ import annotations

import msgspec

_MAGIC = b"antiphon\x01"
HELLO_LIMIT = 512


class Hello(msgspec.Struct, array_like=True, frozen=True):
    """The node's name, and the address where it is reached."""

    name: str
    address: str

    def wire(self) -> bytes:
        return _MAGIC + _encode(self)

    @staticmethod
    def read(wire: bytes) -> Hello | None:
        """The hello in a wire; None when it is not one."""
        if not wire.startswith(_MAGIC) or len(wire) > HELLO_LIMIT:
            return None
        try:
            return _decode(memoryview(wire)[len(_MAGIC) :])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Hello).decode
