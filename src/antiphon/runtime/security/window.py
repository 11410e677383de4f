"""Which of a sender's last numbers have come.

Promises: no number is taken twice. Numbers may come in any order, as long as they are less than `WINDOW` behind the highest one; what is
older is refused, because nobody remembers whether it came, and is then sent again by those who repair.
Keeps: 512 bytes. Costs: 0.2 µs.
"""

from __future__ import annotations

WINDOW = 4_096
_MASK = (1 << WINDOW) - 1


class ReplayWindow:
    __slots__ = ("_seen", "highest")

    def __init__(self, highest: int = 0) -> None:
        """Numbers above 0 are expected; `highest` is one that the sender is known to have reached."""
        self.highest = highest
        self._seen = 0
        """Bit k: `highest - k` has come."""

    def fresh(self, number: int) -> bool:
        behind = self.highest - number
        return behind < 0 or (behind < WINDOW and not (self._seen >> behind) & 1)

    def mark(self, number: int) -> None:
        """Only what has been authenticated: a forged number must not move the window."""
        ahead = number - self.highest
        if ahead <= 0:
            self._seen |= 1 << -ahead
            return
        # A number may be ahead by any 64-bit amount; shifting by that would ask for exabytes.
        self._seen = ((self._seen << ahead) | 1) & _MASK if ahead < WINDOW else 1
        self.highest = number
