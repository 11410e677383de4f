"""What is known to be in an archive: by sender, which messages; and which markers.

Keeps ranges, so little per sender, for the `SENDERS` that were heard of last, and the last `MARKERS` markers.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from antiphon.model.control import Holdings
from antiphon.model.events import Delivery
from antiphon.model.frames import Batch
from antiphon.model.ids import GroupId, MemberId
from antiphon.model.ranges import Ranges
from antiphon.store.groups.values import GroupValue, Lost, Marker

SENDERS = 4_096
MARKERS = 256


def topic_of(group: GroupId) -> str:
    """The topic with the history of a group on a network."""
    return f"history/{group}"


class Progress(Struct, array_like=True, frozen=True):
    """The record: the topic up to `seq` has these messages and markers."""

    seq: int
    held: Holdings
    markers: tuple[int, ...]


class Archived:
    def __init__(self) -> None:
        self.seq = 0
        """Up to here the topic has been counted."""
        self.saved = 0
        """Up to here the progress record goes."""
        self._held: dict[MemberId, Ranges] = {}
        self._markers: dict[int, None] = {}

    def add(self, content: GroupValue | None) -> None:
        if isinstance(content, Batch):
            self._add(content.sender, content.first, content.last)
        elif isinstance(content, Marker):
            self._markers.pop(content.view, None)
            self._markers[content.view] = None
            while len(self._markers) > MARKERS:
                del self._markers[next(iter(self._markers))]
        elif isinstance(content, Lost):
            for sender, flat in content.lost.items():
                for low, high in zip(flat[::2], flat[1::2], strict=False):
                    self._add(sender, low, high)

    def _add(self, sender: MemberId, low: int, high: int) -> None:
        ranges = self._held.pop(sender, None) or Ranges()
        ranges.add(low, high)
        self._held[sender] = ranges
        while len(self._held) > SENDERS:
            del self._held[next(iter(self._held))]

    def missing(self, sender: MemberId, low: int, high: int) -> list[tuple[int, int]]:
        ranges = self._held.get(sender)
        return [(low, high)] if ranges is None else ranges.missing(low, high)

    def has(self, content: Delivery | Marker) -> bool:
        if isinstance(content, Marker):
            return content.view in self._markers
        batch, low, high = content
        return not self.missing(batch.sender, low, high)

    def data(self) -> bytes:
        held = {
            sender: [number for pair in zip(ranges.lows, ranges.highs, strict=True) for number in pair]
            for sender, ranges in self._held.items()
        }
        return msgspec.msgpack.encode(Progress(self.seq, held, tuple(self._markers)))

    def take_over(self, data: bytes) -> None:
        """What somebody else knows. Its record says all that is in the topic up to its number, so the larger of both is known."""
        try:
            progress = msgspec.msgpack.decode(data, type=Progress)
        except msgspec.DecodeError:
            return
        self.add(Lost(progress.held))
        for view in progress.markers:
            self.add(Marker(view))
        self.saved = progress.seq
        self.seq = max(self.seq, progress.seq)
