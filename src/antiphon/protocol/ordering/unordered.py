"""unordered: deliver on receipt. Keeps nothing, costs nothing."""

from __future__ import annotations

from typing import ClassVar

from antiphon.model.frames import Batch
from antiphon.protocol.stage import Ordering


class Unordered(Ordering):
    over_besteffort = True
    promises: ClassVar[tuple[str, ...] | None] = ("minimality",)

    def accept(self, batch: Batch, low: int, high: int) -> None:
        self.deliver((batch, low, high))
