"""A world that ends when too many frames arrive in it: members that send frames to each other for ever must not be waited for."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from antiphon.debugger.tap import Passage
from antiphon.errors import WorldError
from antiphon.sim.ground import Ground


class Bounded(Ground[Any]):
    """To be put before a kind of world: `class Mine(Bounded, ViewWorld)`."""

    frames_limit: ClassVar[int]
    """Frames that may arrive in one run."""
    _arrived = 0

    def _arrive(self, passage: Passage) -> None:
        self._arrived += 1
        if self._arrived > self.frames_limit:
            raise self._storm()
        super()._arrive(passage)  # type: ignore[safe-super]  # the world that comes next has one

    def _storm(self) -> WorldError:
        kinds = Counter[str]()
        for (_, _, kind), count in self.frames.items():
            kinds[kind] += count
        told = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
        return WorldError(f"more than {self.frames_limit:,} frames by {self.now:.3f} s ({told}): look for frames that beget frames")
