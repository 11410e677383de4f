"""The values of a topic that wait to be published: so many and no more, in the order they came, each call until its time is over.

Whoever finds no room waits in line; one call always finds room where nothing else waits, however large it is. A call whose time is over
fails, also when its values are on their way just then. Costs one timer for all calls, not one for each.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress

from antiphon.store.gathering import Job


class WaitingLine:
    def __init__(self, values_limit: int, bytes_limit: int, late: Callable[[Job], Exception]) -> None:
        """`late` is what a call whose time is over is told."""
        self.jobs: deque[Job] = deque()
        """What is not, or not wholly, in a batch yet."""
        self.values = self.bytes = 0
        """Of all calls that are not over."""
        self._values_limit, self._bytes_limit, self._late = values_limit, bytes_limit, late
        self._open: dict[Job, None] = {}
        self._places: deque[tuple[asyncio.Future[None], int, int]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __iter__(self) -> Iterator[Job]:
        return iter(self._open)

    # -- coming and going ------------------------------------------------------------------------------------------------------

    async def room(self, values: int, size: int, until: float) -> None:
        """Waits until there is room for these, and takes it. Raises TimeoutError at `until`."""
        if not self._places and self._fits(values, size):
            self.values += values
            self.bytes += size
            return
        place = asyncio.get_running_loop().create_future(), values, size
        self._places.append(place)
        try:
            async with asyncio.timeout_at(until):
                await place[0]
        except BaseException:
            if place[0].done() and not place[0].cancelled() and place[0].exception() is None:
                self.give_back(values, size)  # it had its room, and does not come for it
            else:
                with suppress(ValueError):
                    self._places.remove(place)
                self._let_in()
            raise

    def enter(self, job: Job) -> None:
        """A call whose values have their room comes in."""
        self.jobs.append(job)
        self._open[job] = None
        if self._timer is None or job.until < self._timer.when():
            self._wake_at(job.until)

    def leave(self, job: Job) -> None:
        """A call is over, one way or the other."""
        del self._open[job]
        if not job.taken:
            with suppress(ValueError):  # failed together with all others
                self.jobs.remove(job)
        self.give_back(len(job.entries), job.size)
        if not self._open and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def give_back(self, values: int, size: int) -> None:
        self.values -= values
        self.bytes -= size
        self._let_in()

    def _fits(self, values: int, size: int) -> bool:
        return not self.values or (self.values + values <= self._values_limit and self.bytes + size <= self._bytes_limit)

    def _let_in(self) -> None:
        while self._places:
            place, values, size = self._places[0]
            if not self._fits(values, size):
                return
            self._places.popleft()
            if not place.done():
                self.values += values
                self.bytes += size
                place.set_result(None)

    # -- the end of it ---------------------------------------------------------------------------------------------------------

    def fail(self, error: Exception) -> None:
        """All calls whose values are not under way meet this."""
        while self.jobs:
            self.jobs.popleft().fail(error)

    def close(self, error: Exception) -> None:
        """All calls meet this, those too that wait for room."""
        for job in self._open:
            job.fail(error)
        self.jobs.clear()
        for place, _, _ in list(self._places):
            if not place.done():
                place.set_exception(error)

    def _wake_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(when, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        soonest = float("inf")
        for job in self._open:
            if job.until <= now:
                job.fail(self._late(job))
            else:
                soonest = min(soonest, job.until)
        if soonest < float("inf"):
            self._wake_at(soonest)
