"""Wires that nobody should send: random, forged, damaged, recorded, and sealed with the wrong key.

Forged wires are well-formed frames of every kind with the live group's own ids, addresses and views. Damaged ones are forged or recorded
ones with bytes flipped, cut off, doubled or spliced. With a key around, recorded ones are sealed: they are said again as they were, and
with every part of their envelope changed. Everything comes from one generator. Cost: 6 µs per wire, and a second at the start.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from antiphon.model.ids import Address
from antiphon.runtime.security import PreSharedKey, Sealer
from antiphon.runtime.security.envelope import ASK_BYTES, HEADER_BYTES, MAGIC, SEAL_BYTES
from antiphon.testing.forger import HARMLESS, KINDS, Forger, Overheard

_POOL = 20_000
_RECORDED = 1_024
_WRONG_KEY = PreSharedKey("not the key of anybody here: 0f1e2d3c4b")


class Arsenal:
    def __init__(self, heard: Overheard, rng: random.Random, *, guarded: bool) -> None:
        """`guarded`: nodes hold a key, so that nothing of this may be believed, whatever it says and whosever it claims to be."""
        self.thrown: Counter[str] = Counter()
        self._recorded_by: dict[Address, list[bytes]] = {}
        self._rng = rng
        forger, kinds = Forger(heard, rng), KINDS if guarded else HARMLESS
        self._forged = [forger.wire(rng.choice(kinds)) for _ in range(_POOL)]
        sealer = Sealer(_WRONG_KEY, address=Address("127.0.0.1:9"), now=0.0, random_bytes=rng.randbytes)
        self._elsewhere = [sealer.seal(wire, "") for wire in self._forged[:1_000]]
        weights: dict[Callable[[], bytes], int] = {self._noise: 15, self._as_forged: 40, self._damaged: 35, self._sealed_elsewhere: 2}
        weights |= {self._replayed: 10, self._envelope: 10} if guarded else {self._damaged_recording: 10}
        self._makers, self._weights = list(weights), list(weights.values())

    def record(self, source: Address, wire: bytes) -> None:
        """Something that a member really said."""
        recorded = self._recorded_by.setdefault(source, [])
        if len(recorded) < _RECORDED:
            recorded.append(wire)
        else:
            recorded[self._rng.randrange(_RECORDED)] = wire

    @property
    def recorded(self) -> int:
        return sum(map(len, self._recorded_by.values()))

    def replays(self, source: Address, count: int) -> list[bytes]:
        """What this very member said, again; and other things where it has said nothing."""
        said = self._recorded_by.get(source)
        if not said:
            return self.wires(count)
        self.thrown["replayed from there"] += count
        return self._rng.choices(said, k=count)

    def wires(self, count: int) -> list[bytes]:
        made: list[bytes] = []
        for maker in self._rng.choices(self._makers, self._weights, k=count):
            made.append(maker())
            self.thrown[maker.__name__.strip("_")] += 1
        return made

    def noise(self, count: int) -> list[bytes]:
        """Bytes that are no frame at all."""
        self.thrown["noise"] += count
        return [self._noise() for _ in range(count)]

    def damage(self, wire: bytes) -> bytes:
        rng = self._rng
        if not wire:
            return b"\x00"
        at, how = rng.randrange(len(wire)), rng.randrange(6)
        if how == 0:
            return wire[:at]
        if how == 1:
            return wire[at:]
        if how == 2:
            return wire[:at] + wire[at // 2 :]
        if how == 3:
            return wire[:at] + rng.choice(self._forged)[at:]
        flipped = bytearray(wire)
        for _ in range(rng.choice((1, 1, 2, 8))):
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        return bytes(flipped)

    # -- what there is ---------------------------------------------------------------------------------------------------------

    def _noise(self) -> bytes:
        size = self._rng.choice((0, 1, 2, 3, 5, 17, 60, 200, 1_400, 1_400, 20_000))
        start = self._rng.choice((b"", b"", b"\x01", b"\x01\x9c\x01", b"\xc1", MAGIC, b"antiphon\x01"))
        return start + self._rng.randbytes(size)

    def _as_forged(self) -> bytes:
        return self._rng.choice(self._forged)

    def _damaged(self) -> bytes:
        return self.damage(self._rng.choice(self._forged))

    def _sealed_elsewhere(self) -> bytes:
        return self._rng.choice(self._elsewhere)

    def _replayed(self) -> bytes:
        if not self._recorded_by:
            return self._noise()
        return self._rng.choice(self._rng.choice(list(self._recorded_by.values())))

    def _damaged_recording(self) -> bytes:
        return self.damage(self._replayed())

    def _envelope(self) -> bytes:
        """A sealed wire of a real session, of any kind and number, with nothing true inside."""
        rng, start = self._rng, bytearray(self._replayed()[:HEADER_BYTES].ljust(HEADER_BYTES, b"\0"))
        start[:3] = MAGIC
        start[3] = rng.choice((0, 0, 1, 2, 3, 4, 5, 6, 255))
        if rng.random() < 0.5:
            start[12:28] = rng.randbytes(16)  # another session
        start[28:36] = rng.choice((1, rng.randrange(1_000), 1 << 63)).to_bytes(8, "big")
        return bytes(start) + rng.randbytes(rng.choice((0, 16, ASK_BYTES - HEADER_BYTES, 32, SEAL_BYTES, 48, 300)))
