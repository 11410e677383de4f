"""Virtual time: what happens when, and in which order within one instant.

Time stands still while something happens and then jumps to the next thing. Things at the same instant happen in the order they
were scheduled, and when nothing more is scheduled for an instant its turns end (`end_instant`), which may schedule more, for the
same instant too. An event is a plain tuple, so a million of them cost a heap and nothing else.

Bound: an instant in which more than `INSTANT_LIMIT` rounds follow each other without time passing is a loop in the program that
is simulated, and fails with that story.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from antiphon.errors import InvalidOption, UsageError

INSTANT_LIMIT = 100_000


class Scheduler:
    def __init__(self, end_instant: Callable[[], None]) -> None:
        self.now = 0.0
        self.running = False
        self._end_instant = end_instant
        self._heap: list[tuple[float, int, Callable[[Any, Any], None], Any, Any]] = []
        self._scheduled = 0

    def at(self, when: float, action: Callable[[Any, Any], None], first: Any = None, second: Any = None) -> None:
        """Calls `action(first, second)` at `when`, or now if that is past."""
        self._scheduled = serial = self._scheduled + 1
        heapq.heappush(self._heap, (when if when > self.now else self.now, serial, action, first, second))

    @property
    def next_at(self) -> float | None:
        """When the next thing happens; None when nothing is scheduled."""
        return self._heap[0][0] if self._heap else None

    def run_until(self, time: float) -> None:
        """Lets everything up to and including `time` happen."""
        if self.running:
            raise UsageError("the world is running already: inside a callback use world.at to do something later")
        if not time < float("inf"):
            raise InvalidOption("time", time, "give a finite number of virtual seconds")
        self.running = True
        try:
            self._run_until(time)
        finally:
            self.running = False

    def _run_until(self, time: float) -> None:
        heap, pop, end_instant = self._heap, heapq.heappop, self._end_instant
        end_instant()
        rounds = 0
        while heap and heap[0][0] <= time:
            when = heap[0][0]
            rounds = rounds + 1 if when == self.now else 0
            assert rounds < INSTANT_LIMIT, f"time does not get past {when} s: somebody answers at once, without delay, for ever"
            self.now = when
            while heap and heap[0][0] == when:
                _, _, action, first, second = pop(heap)
                action(first, second)
            end_instant()
        if time > self.now:
            self.now = time
