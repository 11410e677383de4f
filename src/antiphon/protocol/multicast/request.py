"""One request for what is missing: as much as fits into a frame.

Keeps the ranges and parts that were put into it. A part costs a quarter of a range, so a request has a bounded size whatever it asks for.
"""

from __future__ import annotations

from itertools import islice

from antiphon.model import codec
from antiphon.model.frames import Nack
from antiphon.protocol.multicast.stream import Stream
from antiphon.protocol.outbox import Destination
from antiphon.protocol.stage import Context

RANGES_LIMIT = 64
"""Ranges in one request, and as many of a received one are looked at."""
_REQUEST_BYTES = 64
_RANGE_BYTES = 24
"""More than a request takes beside its ids, and more than a range in it takes."""
_PARTS_PER_RANGE = 4


class Request:
    def __init__(self, context: Context) -> None:
        self._context = context
        ids = len(context.me.encode()) + len(context.group.encode())
        self.room = min((context.settings.frame_bytes - _REQUEST_BYTES - ids) // _RANGE_BYTES, RANGES_LIMIT)
        """Ranges that still fit."""
        self._wants: list[tuple[int, int, int, int]] = []
        self._parts: list[tuple[int, int, list[int], int]] = []

    def add(self, stream: Stream, low: int, high: int, attempt: int, parts: int | None = None) -> None:
        """Asks for `low … high`, or, of a message that is half here (`low`), for the parts that are not, at most so many of them."""
        self.room -= 1
        if low not in stream.parts:
            self._wants.append((stream.index, low, high, attempt))
            return
        count, here = stream.parts[low]
        limit = _PARTS_PER_RANGE * (self.room + 1) if parts is None else parts
        absent = list(islice((index for index in range(count) if index not in here), limit))
        self._parts.append((stream.index, low, absent, attempt))
        self.room -= len(absent) // _PARTS_PER_RANGE

    def send(self, to: Destination) -> bool:
        """Sends it, unless it asks for nothing."""
        if not self._wants and not self._parts:
            return False
        context = self._context
        nack = Nack(context.group, context.me, context.view.id, self._wants, self._parts)
        context.outbox.sends.append((to, codec.encode(nack)))
        return True
