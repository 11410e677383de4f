"""How often strangers are answered: an answer may be many times as long as the question, and go to somebody who never asked.

One asker is answered once in half of `retry_s`, so that a question that is repeated after `retry_s` counts even if it travels faster
than the first did; all together are answered `per_second` times in a second.

Keeps whom it answered within that time, at most `per_second` for each second of it.
"""

from __future__ import annotations

from antiphon.model.ids import Address


class Allowance:
    def __init__(self, per_second: int, retry_s: float) -> None:
        self._per_second, self._pause_s = per_second, retry_s / 2
        self._second, self._spent = 0.0, 0
        """When the current second began, and how many were answered in it."""
        self._answered_at: dict[Address, float] = {}

    def spend(self, now: float, asker: Address) -> bool:
        """Whether the asker is answered; this then counts as an answer."""
        if not self._second <= now < self._second + 1.0:
            self._second, self._spent = now, 0
            self._answered_at = {who: when for who, when in self._answered_at.items() if now - when < self._pause_s}
        answered_at = self._answered_at.get(asker)
        # An asker that was never answered needs its own case: with a clock that is far from 0, `now - (now - pause)` may be below `pause`.
        if self._spent >= self._per_second or (answered_at is not None and now - answered_at < self._pause_s):
            return False
        self._spent += 1
        self._answered_at[asker] = now
        return True
