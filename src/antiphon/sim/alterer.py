"""Copies of real frames with errors in them: bits flipped, or one field changed and the frame encoded again.

An altered frame has the ids, view and numbers of the group it was taken from, all but one, so a group without a key believes nearly every
one of them. Complements `antiphon.testing.forger`, which makes frames up. All randomness comes from the generator that is given.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.errors import AntiphonError, BadFrame
from antiphon.model import codec

_TRIES = 8
_FLIPS = 4


class FrameAlterer:
    def __init__(self, rng: random.Random, *, flips: float = 0.3) -> None:
        """`flips` is the share of frames that have bits flipped; the others have a field changed."""
        self._rng, self._flips = rng, flips

    def alter(self, wire: bytes) -> bytes:
        """Return a copy of a frame that differs from it."""
        if self._rng.random() >= self._flips:
            for _ in range(_TRIES):
                try:
                    changed = codec.encode(self._changed(codec.decode(wire)))
                except BadFrame:
                    break
                except (AntiphonError, ValueError, TypeError, OverflowError):
                    continue  # a value that cannot be encoded, or that its struct refuses
                if changed != wire:
                    return changed
        return self._flipped(wire)

    def _flipped(self, data: bytes) -> bytes:
        flipped = bytearray(data)
        for _ in range(self._rng.randint(1, _FLIPS)):
            flipped[self._rng.randrange(len(flipped))] ^= 1 << self._rng.randrange(8)
        return bytes(flipped)

    def _changed(self, value: Any) -> Any:
        rng = self._rng
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return rng.choice((value + 1, max(value - 1, 0), value + rng.randint(2, 50), value + (1 << 32), rng.getrandbits(40), 0))
        if isinstance(value, float):
            return rng.choice((value + rng.uniform(-5.0, 5.0), 1e9, 0.0))
        if isinstance(value, bytes):
            return self._flipped(value) if value else rng.randbytes(3)
        if isinstance(value, str):
            place = rng.randrange(len(value) + 1)
            return value[:place] + rng.choice("abcd0123#") + value[place + 1 :]
        if isinstance(value, Struct):
            field = rng.choice(value.__struct_fields__)
            return msgspec.structs.replace(value, **{field: self._changed(getattr(value, field))})
        if isinstance(value, list | tuple):
            return self._changed_items(value)
        if isinstance(value, dict) and value:
            key = rng.choice(list(value))
            return {**value, key: self._changed(value[key])}
        return value

    def _changed_items(self, items: list[Any] | tuple[Any, ...]) -> Any:
        changed, rng = list(items), self._rng
        if not changed:
            return items
        place = rng.randrange(len(changed))
        if rng.random() < 0.7:
            changed[place] = self._changed(changed[place])
        else:
            changed[place : place + 1] = rng.choice(([], [changed[place], changed[place]]))
        return changed if isinstance(items, list) else tuple(changed)
