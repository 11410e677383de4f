"""The flush that ends a view: what its survivors have agreed to hold, and the requests for what of that is missing here.

The target is the union of what the survivors hold, so somebody has every number in it; a hole in it is a message that nobody has,
and is not asked for. Requests go to the holders alone, at once and then at pauses that double up to `nack_max_s`; whenever something
came, the pause is short again. From the first request on, any holder answers: the sender may be the one that died.

Keeps the target, one `Ranges` per stream of the view, and one timer. Cost: O(streams) per look at what is missing, until nothing is.
"""

from __future__ import annotations

from antiphon.model.frames import SEQNO_LIMIT
from antiphon.model.ids import MemberId
from antiphon.model.ranges import Ranges
from antiphon.protocol.multicast.request import Request
from antiphon.protocol.multicast.stream import Stream
from antiphon.protocol.stage import Context
from antiphon.protocol.timers import Timer

_DOUBLINGS = 16


class Flush:
    def __init__(self, context: Context, streams: list[Stream], target: list[Ranges], holders: tuple[MemberId, ...]) -> None:
        self._context, self._streams, self._target, self._holders = context, streams, target, holders
        self._done = False
        self._attempt, self._doublings = 1, 0
        self._left = (0, 0)
        self._timer: Timer | None = None
        self._ask()

    def contains(self, stream: Stream, first: int, last: int) -> bool:
        """Whether all of `first … last` is in the target."""
        return first <= last and not self._target[stream.index].missing(first, last)

    @property
    def done(self) -> bool:
        """Whether everything in the target is here."""
        if not self._done:
            self._done = not any(self._missing(stream) for stream in self._streams)
        return self._done

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _missing(self, stream: Stream) -> list[tuple[int, int]]:
        ranges = self._target[stream.index]
        if not ranges.highs or ranges.highs[-1] <= stream.high:
            return []
        return [gap for low, high in ranges for gap in stream.lacks(max(low, stream.high + 1), high)]

    def _ask(self) -> None:
        if self.done:
            return
        missing = [(stream, low, high) for stream in self._streams for low, high in self._missing(stream)]
        left = (sum(high - low + 1 for _, low, high in missing), -sum(stream.parts_bytes for stream in self._streams))
        if left != self._left:
            self._doublings = 0
        else:
            self._attempt += 1
            self._doublings = min(self._doublings + 1, _DOUBLINGS)
        self._left = left
        # Whoever is asked has room for the lowest first. But a request that brought nothing is repeated from further on, every other time.
        turn = self._attempt // 2 % len(missing) if self._attempt % 2 == 0 and self._doublings else 0
        request = Request(self._context)
        for stream, low, high in missing[turn:]:
            if request.room <= 0:
                break
            request.add(stream, low, high, self._attempt)
        if self._holders:
            request.send(self._holders)
        settings = self._context.settings
        pause = min(settings.nack_s * 2**self._doublings, settings.nack_max_s) * self._context.rng.uniform(0.75, 1.25)
        self._timer = self._context.timers.at(self._context.now + pause, self._ask)


def parse_target(target: list[list[int]], streams: int) -> list[Ranges] | None:
    """A target as ranges, one for each of so many streams; None when it cannot be one."""
    if len(target) != streams:
        return None
    parsed: list[Ranges] = []
    for holding in target:
        if len(holding) % 2 == 0 or holding[0] < 0 or holding[-1] > SEQNO_LIMIT:
            return None
        # `[high, low, high, …]`: everything up to the first number, then the ranges after it.
        ranges, before = Ranges(), holding[0]
        if before:
            ranges.add(1, before)
        for low, high in zip(holding[1::2], holding[2::2], strict=True):
            if not before < low <= high:
                return None
            ranges.add(low, high)
            before = high
        parsed.append(ranges)
    return parsed
