"""A member's clock: the world's time, seen with an offset and a rate of its own.

`local(now) = now · rate + offset`, except that it never runs backwards: set back, it stands still until the new time has caught up.
"""

from __future__ import annotations

from antiphon.errors import InvalidOption


class Clock:
    def __init__(self) -> None:
        self._offset_s, self._rate = 0.0, 1.0
        self._latest = 0.0

    def set(self, offset_s: float, rate: float) -> None:
        if not 0.0 < rate < float("inf"):
            raise InvalidOption("rate", rate, "a clock runs forwards: give a rate above 0, where 1.01 gains one per cent")
        if not abs(offset_s) < float("inf"):
            raise InvalidOption("offset_s", offset_s, "give a finite number of seconds")
        self._offset_s, self._rate = offset_s, rate

    def local(self, now: float) -> float:
        """What the clock shows at the world's `now`."""
        shown = now * self._rate + self._offset_s
        if shown > self._latest:
            self._latest = shown
        return self._latest

    def reach(self, local: float) -> None:
        """Makes the clock show at least `local`: rounding must not let a timer come an instant too early, find nothing due, and
        be set to the same instant again, for ever."""
        if local > self._latest:
            self._latest = local

    def world(self, local: float) -> float:
        """When, in the world's time, the clock shows `local`."""
        return (local - self._offset_s) / self._rate
