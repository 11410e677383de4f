"""How often something may be done that strangers can cause.

Promises: at most `burst` at once and `per_s` a second on average. Keeps: two numbers.
"""

from __future__ import annotations


class Allowance:
    __slots__ = ("_at", "_burst", "_left", "_per_s")

    def __init__(self, per_s: float, burst: int, now: float) -> None:
        self._per_s, self._burst, self._left, self._at = per_s, float(burst), float(burst), now

    def take(self, now: float) -> bool:
        self._left = min(self._burst, self._left + max(0.0, now - self._at) * self._per_s)
        self._at = max(self._at, now)
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
