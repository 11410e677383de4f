"""Corrupted frames: for a while, altered copies of frames arrive under the addresses of those who sent them.

A copy has some bits flipped, or is decoded, changed in one field and encoded again, so that it is well-formed and wrong. It arrives beside
the original or instead of it. Nothing that is received under such conditions can be believed; what is promised is that the group recovers
after the last altered frame.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.errors import AntiphonError, BadFrame
from antiphon.model import codec
from antiphon.model.frames import KINDS

_DATA_KINDS = frozenset(KINDS.values())
_FIELD_TRIES = 4
_ALTERED_LIMIT = 20_000
"""Frames altered in a run. Without a limit an attack on `flood` would feed on itself: members forward altered frames, and each of those
copies is altered again."""


class Corruption(Struct, frozen=True, kw_only=True):
    """From `at` to `until`, a `share` of the frames that arrive is altered: of all kinds, or of data frames only. `bits` is the share that
    has bits flipped instead of a field changed, `replaces` the share whose original does not arrive, `copies` how many altered copies of
    one frame arrive at most."""

    at: float
    until: float
    share: float
    data_only: bool = False
    bits: float = 0.3
    replaces: float = 0.5
    copies: int = 1


class Corrupter:
    """Alters frames as a `Corruption` says, with chance of its own."""

    def __init__(self, corruption: Corruption, seed: int) -> None:
        self.corruption = corruption
        self.active = False
        self.altered = 0
        self._rng = random.Random(f"{seed}/corrupter")

    def pass_on(self, kind: str, wire: bytes) -> list[bytes]:
        """What arrives in place of a frame: the frame, an altered copy of it, or both."""
        rng, corruption = self._rng, self.corruption
        if not self.active or self.altered >= _ALTERED_LIMIT:
            return [wire]
        if rng.random() >= corruption.share or (corruption.data_only and kind not in _DATA_KINDS):
            return [wire]
        altered = [
            self._flip(wire) if rng.random() < corruption.bits else self._change(wire) for _ in range(rng.randint(1, corruption.copies))
        ]
        self.altered += len(altered)
        if rng.random() < corruption.replaces:
            return altered
        return [*altered, wire] if rng.random() < 0.5 else [wire, *altered]

    def _flip(self, wire: bytes) -> bytes:
        flipped = bytearray(wire)
        for _ in range(self._rng.randint(1, 4)):
            flipped[self._rng.randrange(len(flipped))] ^= 1 << self._rng.randrange(8)
        return bytes(flipped)

    def _change(self, wire: bytes) -> bytes:
        try:
            frame = codec.decode(wire)
        except BadFrame:
            return self._flip(wire)
        for _ in range(_FIELD_TRIES):
            try:
                changed = codec.encode(self._alter(frame))
            except (AntiphonError, ValueError, TypeError, OverflowError):
                continue  # a value that cannot be written, or that its struct refuses
            if changed != wire:
                return changed
        return self._flip(wire)

    def _alter(self, value: Any) -> Any:
        """The value, changed in one place."""
        rng = self._rng
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return rng.choice((value + 1, max(value - 1, 0), value + rng.randint(2, 50), rng.getrandbits(40), 0))
        if isinstance(value, float):
            return rng.choice((value + rng.uniform(-5.0, 5.0), 1e9, 0.0))
        if isinstance(value, bytes):
            return self._flip(value) if value else rng.randbytes(3)
        if isinstance(value, str):
            place = rng.randrange(len(value) + 1)
            return value[:place] + rng.choice("abc0123#") + value[place + 1 :]
        if isinstance(value, Struct):
            field = rng.choice(value.__struct_fields__)
            return msgspec.structs.replace(value, **{field: self._alter(getattr(value, field))})
        if isinstance(value, list | tuple) and value:
            items = list(value)
            place = rng.randrange(len(items))
            if rng.random() < 0.7:
                items[place] = self._alter(items[place])
            else:
                items[place : place + 1] = rng.choice(([], [items[place], items[place]]))
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, dict) and value:
            key = rng.choice(list(value))
            return {**value, key: self._alter(value[key])}
        return value
