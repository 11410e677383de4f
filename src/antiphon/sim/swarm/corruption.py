"""Corrupted frames: for a while, altered copies of frames arrive under the addresses of those who sent them.

A copy has some bits flipped, or is decoded, changed in one field and encoded again, so that it is well-formed and wrong. It arrives beside
the original or instead of it. Nothing that is received under such conditions can be believed; what is promised is that the group recovers
after the last altered frame.
"""

from __future__ import annotations

import random

from msgspec import Struct

from antiphon.model.frames import KINDS
from antiphon.sim.alterer import FrameAlterer

_DATA_KINDS = frozenset(KINDS.values())
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
        self._alterer = FrameAlterer(self._rng, flips=corruption.bits)

    def pass_on(self, kind: str, wire: bytes) -> list[bytes]:
        """What arrives in place of a frame: the frame, an altered copy of it, or both."""
        rng, corruption = self._rng, self.corruption
        if not self.active or self.altered >= _ALTERED_LIMIT:
            return [wire]
        if rng.random() >= corruption.share or (corruption.data_only and kind not in _DATA_KINDS):
            return [wire]
        altered = [self._alterer.alter(wire) for _ in range(rng.randint(1, corruption.copies))]
        self.altered += len(altered)
        if rng.random() < corruption.replaces:
            return altered
        return [*altered, wire] if rng.random() < 0.5 else [wire, *altered]
