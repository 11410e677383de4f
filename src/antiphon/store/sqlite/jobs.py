"""The jobs that wait for the writer, in the order in which they came: bounded, and taken in groups.

At most `QUEUE_JOBS` with `QUEUE_BYTES` wait for the thread (one is always taken); more stand in line in `put`, strictly in order, because a
publisher's later values that overtook its earlier ones would make these look as if they were there already.
"""

from __future__ import annotations

import asyncio
from collections import deque
from queue import Empty, SimpleQueue
from typing import Any

from antiphon.errors import StoreUnreachable
from antiphon.store.sqlite.transaction import Work

QUEUE_JOBS = 16_384
QUEUE_BYTES = 256 << 20
GROUP_JOBS = 2_048
GROUP_BYTES = 16 << 20
"""What goes into one transaction, so that other processes are not kept waiting for long."""


class Job:
    """Either the writer begins it or whoever waits gives it up, never both: `claim` is won once."""

    __slots__ = ("_claims", "future", "is_begun", "is_settled", "synced", "weight", "work")

    def __init__(self, work: Work[Any], synced: bool, weight: int, future: asyncio.Future[Any]) -> None:
        self.work, self.synced, self.weight, self.future = work, synced, weight, future
        self.is_begun = self.is_settled = False
        self._claims = [None]

    def claim(self) -> bool:
        try:
            self._claims.pop()  # of two threads one succeeds
        except IndexError:
            return False
        return True

    def begins(self) -> bool:
        """Not if it was given up. A job of a transaction that failed as a whole has been begun already."""
        self.is_begun = self.is_begun or self.claim()
        return self.is_begun


class JobQueue:
    def __init__(self, url: str, patience_s: float) -> None:
        self._url, self._patience_s = url, patience_s
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._left_over: Job | None = None
        self.waiting = 0
        self._weight = 0
        self._line: deque[tuple[asyncio.Future[None], int]] = deque()
        self._is_closed = False

    # --- in the loop -------------------------------------------------------------------------------------------------------------

    async def put(self, job: Job) -> None:
        self._check_open()
        if self._line or not self._fits(job.weight):
            await self._stand_in_line(job)
        else:
            self._put(job)

    def settled(self, job: Job) -> None:
        self.waiting -= 1
        self._weight -= job.weight
        job.is_settled = True
        self._call_next()

    def close(self) -> None:
        """What was put before is still gathered."""
        if not self._is_closed:
            self._is_closed = True
            self._jobs.put(None)
            self._call_next()

    def _put(self, job: Job) -> None:
        self._check_open()
        self.waiting += 1
        self._weight += job.weight
        self._jobs.put(job)

    async def _stand_in_line(self, job: Job) -> None:
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (called, job.weight)
        self._line.append(place)
        try:
            await asyncio.wait((called,), timeout=self._patience_s)
            if not called.done():
                raise StoreUnreachable(self._url, f"too much waits to be written, for {self._patience_s:.0f} s")
            self._put(job)
        finally:
            # Only now: whoever comes while this one is called, and has not yet put its job, stands behind it.
            self._line.remove(place)
            self._call_next()

    def _call_next(self) -> None:
        if self._line:
            called, weight = self._line[0]
            if not called.done() and (self._is_closed or self._fits(weight)):
                called.set_result(None)

    def _fits(self, weight: int) -> bool:
        return not self.waiting or (self.waiting < QUEUE_JOBS and self._weight + weight <= QUEUE_BYTES)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreUnreachable(self._url, "it is not open")

    # --- in the thread -----------------------------------------------------------------------------------------------------------

    def gather(self) -> list[Job]:
        """All jobs that wait, at least one, as far as they fit into one transaction; none when the queue is closed and empty."""
        job = self._left_over or self._jobs.get()
        self._left_over = None
        group: list[Job] = []
        weight = 0
        while job is not None and len(group) < GROUP_JOBS:
            if group and weight + job.weight > GROUP_BYTES:
                break
            group.append(job)
            weight += job.weight
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return group
        if job is None:
            self._jobs.put(None)  # the end is met again when what came before it is done
        else:
            self._left_over = job
        return group
