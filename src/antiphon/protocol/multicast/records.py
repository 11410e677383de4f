"""Records in the order of their numbers, one stream per sender.

Keeps records that came before the one they follow: bounded by the window of the record stream, which refuses what lies further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from antiphon.model.frames import Record
from antiphon.protocol.multicast.stream import Stream


class Records:
    def __init__(self, accept_record: Callable[[Record], None]) -> None:
        self.accept_record = accept_record
        self._next: dict[int, int] = {}
        self._waiting: dict[int, dict[int, Record]] = {}
        self.streams: list[Stream] = []

    def reset(self, streams: Iterable[Stream]) -> None:
        """Record streams begin anew with every view."""
        self.streams = list(streams)
        self._next = {stream.index: 1 for stream in self.streams}
        self._waiting = {stream.index: {} for stream in self.streams}

    def take(self, stream: Stream, record: Record) -> None:
        self._waiting[stream.index][record.first] = record

    def hand_up(self, stream: Stream, limit: int) -> bool:
        """Hands up the records that are next, as far as `limit`; whether there was any."""
        waiting, number = self._waiting[stream.index], self._next[stream.index]
        handed = False
        while (record := waiting.get(number)) is not None and record.last <= limit:
            del waiting[number]
            number = record.last + 1
            self._next[stream.index] = number
            handed = True
            self.accept_record(record)
        return handed
