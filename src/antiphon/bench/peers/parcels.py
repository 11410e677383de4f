"""What a peer carries: one message, or with `-batches` in the system's name as many as the work's batch, packed by hand.

Packing is what an application can always do above a system that handles messages one by one; it is done here by msgspec, for every peer
alike.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from antiphon.bench.seat import Seat
from antiphon.bench.work import Pool, payload, stamp_of


class Parcels:
    """`step` messages travel in one parcel."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        packed = seat.work.system.endswith("-batches") and seat.work.kind == "flood"
        self.step = seat.work.batch if packed else 1
        self.deliver: Callable[[bytes], None] = self._deliver_many if packed else self._deliver_one
        self._pool = Pool(seat.me, seat.work.size)
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(tuple[int, int, list[bytes]]).decode
        self._take, self._timed = seat.witness.take, seat.work.timed

    def compose(self, first: int, clock_ns: int = 0) -> bytes:
        """The parcel that begins with this member's message `first`."""
        if self.step == 1:
            return payload(self._seat.me, first, self._seat.work.size, clock_ns)
        return self._encode((self._seat.me, first, self._pool.slice(first, self.step)))

    def _deliver_one(self, data: bytes) -> None:
        sender, number, sent_ns = stamp_of(data)
        if self._timed:
            self._seat.delayed(sender, sent_ns)
        self._take(sender, number, number)

    def _deliver_many(self, data: bytes) -> None:
        sender, first, payloads = self._decode(data)
        application = _application
        for message in payloads:
            application(sender, message)
        self._take(sender, first, first + len(payloads) - 1)


def _application(sender: int, data: bytes) -> None:
    """Does nothing, once per message, as in every row."""
