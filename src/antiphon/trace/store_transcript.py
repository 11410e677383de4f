"""What happened at a store of durable topics, taken down as rows of a recorder.

The topic stands in the column `group`, its numbers in `first … last`. Rows are written when the store has answered: what was published and
not acknowledged is not there, although a reader may find it. Cost: about 3 µs per row, one row per batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from zlib import crc32

from antiphon.trace.schema import CHECK_EVERY, SHORT

if TYPE_CHECKING:
    from antiphon.trace.recorder import Recorder


class StoreTranscript:
    def __init__(self, recorder: Recorder) -> None:
        self._add, self._each = recorder.add, recorder.each

    def published(self, topic: str, publisher: str, first: int, last: int, number: int, payloads: Sequence[bytes]) -> None:
        some = payloads if self._each or len(payloads) <= SHORT else payloads[-first % CHECK_EVERY :: CHECK_EVERY]
        size = sum(map(len, payloads))
        self._add(
            "publish", group=topic, sender=publisher, first=first, last=last, position=number, amount=size, checks=[*map(crc32, some)]
        )

    def read(self, topic: str, subscriber: str, epoch: int, ranges: Iterable[tuple[int, int, str | None]]) -> None:
        for first, last, note in ranges:
            self._add("read", group=topic, member=subscriber, view=epoch, first=first, last=last, note=note)

    def done(self, topic: str, subscriber: str, epoch: int, position: int, note: str | None) -> None:
        self._add("done", group=topic, member=subscriber, view=epoch, last=position, note=note)

    def collected(self, topic: str, floor: int, removed: int) -> None:
        self._add("collect", group=topic, last=floor, amount=removed)

    def erased(self, topic: str, publisher: str, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._add("collect", group=topic, sender=publisher, first=number, last=number, note="removed")
