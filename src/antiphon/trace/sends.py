"""What a member's application sent since the last turn: one row, as long as it is consecutive.

Keeps checksums and names, not the messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from antiphon.model.ids import MessageId
from antiphon.trace.row import Name
from antiphon.trace.schema import CHECK_EVERY, SHORT


class Sends:
    def __init__(self, each: bool) -> None:
        """With `each` every message has its checksum."""
        self._each = each
        self.count = self.first = self.last = self.size = self.view = 0
        self.note: str | None = None
        self.clocks = (0, 0)
        """Monotonic and wall clock when the first of them was sent."""
        self.names: list[Name] = []
        self._all_checks: list[int] = []
        self._some_checks: list[int] = []

    def follows(self, view: int, first: int, note: str | None) -> bool:
        """Whether a message with this number belongs into the same row."""
        return bool(self.count) and self.last == first - 1 and self.view == view and self.note == note

    def begin(self, view: int, first: int, note: str | None, clocks: tuple[int, int]) -> None:
        """The row begins with this number."""
        self.view, self.first, self.last, self.note, self.clocks = view, first, first - 1, note, clocks
        self.count = self.size = 0
        self.names, self._all_checks, self._some_checks = [], [], []

    def add(self, payloads: Sequence[bytes], count: int, size: int, names: Sequence[MessageId]) -> None:
        """The next `count` messages, `size` bytes in all; the first of them names `names`."""
        first = self.last + 1
        self.last += count
        self.count += count
        self.size += size
        if self._each or self.count <= SHORT:
            self._all_checks += map(crc32, payloads[:count])
        for place in range(-first % CHECK_EVERY, count, CHECK_EVERY):
            self._some_checks.append(crc32(payloads[place]))
        if names:
            self.names += [(first, sender, number) for sender, number in names]

    @property
    def checks(self) -> list[int]:
        return self._all_checks if self._each or self.count <= SHORT else self._some_checks
