"""The timers of one endpoint: many deadlines inside, one deadline out.

Callbacks run in the order of their deadlines, ties in the order they were set. Cancelling forgets the callback in place; the
heap entry is dropped when it comes up. Cost: O(log t) for t timers; a stage keeps at most one or two.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

NEVER = float("inf")


class Timer:
    __slots__ = ("callback", "when")

    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Timers:
    def __init__(self) -> None:
        self.quiet_until = NEVER
        """Nothing is due before this. It costs nothing to look at, and may be too early where a timer was cancelled."""
        self._heap: list[tuple[float, int, Timer]] = []
        self._set = 0

    def at(self, when: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(when, callback)
        self._set += 1
        heapq.heappush(self._heap, (when, self._set, timer))
        if when < self.quiet_until:
            self.quiet_until = when
        return timer

    @property
    def deadline(self) -> float | None:
        """When the first is due."""
        heap = self._heap
        while heap and heap[0][2].callback is None:
            heapq.heappop(heap)
        self.quiet_until = heap[0][0] if heap else NEVER
        return heap[0][0] if heap else None

    def run(self, now: float) -> None:
        """Runs what is due. A callback that sets a timer for now is run in the next call, so this always ends."""
        due: list[Timer] = []
        heap = self._heap
        while heap and heap[0][0] <= now:
            due.append(heapq.heappop(heap)[2])
        self.quiet_until = heap[0][0] if heap else NEVER
        for timer in due:
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()


def earlier(one: float | None, other: float | None) -> float | None:
    """The earlier of two deadlines, either of which there may not be."""
    return one if other is None or (one is not None and one < other) else other
