"""Which values go to the store together. What is published while a batch is under way waits and becomes the next one, so that many who
publish at once share the cost of one write, and nobody waits when there is nothing to wait for.

A batch has consecutive own numbers, one durability, keys for all of its values or for none, and no more values and bytes than the store
takes at once; it never changes after it was gathered, so that it can be repeated as it was. No I/O here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import islice

from antiphon.store.acknowledgement import Accepted, Acknowledgement, Published, Queued
from antiphon.store.records import Entry, Receipt


class Job:
    """One call of publish, from when it is accepted until it is acknowledged; its values may go in several batches."""

    __slots__ = (
        *("entries", "first", "keyed", "next_number", "outcome", "patience", "said", "size", "synced", "taken", "until"),
        *("_first_seq", "_last_seq", "_queued", "_settled", "_synced"),
    )

    def __init__(
        self,
        entries: Sequence[Entry],
        size: int,
        number: int | None,
        synced: bool,
        patience: float,
        until: float,
        *,
        keyed: bool = False,
    ) -> None:
        self.entries, self.size, self.synced = entries, size, synced
        self.keyed = keyed
        """Whether its values have keys: all of them, or none."""
        self.patience, self.until = patience, until
        """Until when the store may be asked, and when the call is over."""
        self.outcome: asyncio.Future[Acknowledgement] = asyncio.get_running_loop().create_future()
        self.first: int | None = None
        """The own number of its first value, once it is begun."""
        self.said = number is not None
        """Whether its numbers were said by whoever published, and are not just the next that were free."""
        self.next_number = number
        """That of the first one that has not gone into a batch; None: whichever is free."""
        self.taken = 0
        """How many of its values have gone into batches."""
        self._settled = self._first_seq = self._last_seq = self._queued = 0
        self._synced = True

    def settle(self, count: int, receipt: Receipt) -> None:
        """The store has the next `count` values."""
        self._first_seq = self._first_seq or receipt.first
        self._last_seq = receipt.last
        self._synced = self._synced and receipt.synced
        self._count(count)

    def queue(self, count: int, number: int, *, numbered: bool) -> None:
        """The outbox has the next `count` values, under their numbers or without; then the rest cannot have any either."""
        if not numbered:
            self.first = self.next_number = None
        self._queued = number
        self._count(count)

    def fail(self, error: Exception) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(error)

    def _count(self, count: int) -> None:
        self._settled += count
        if self._settled == len(self.entries) and not self.outcome.done():
            # The weakest of its parts is what the whole is worth.
            if self._queued:
                self.outcome.set_result(Queued(self._queued))
            else:
                kind = Published if self._synced else Accepted
                self.outcome.set_result(kind(self._first_seq, self._last_seq))


class Batch:
    __slots__ = ("entries", "first", "shares", "synced")

    def __init__(self, first: int, entries: Sequence[Entry], synced: bool, shares: list[tuple[Job, int]]) -> None:
        self.first, self.entries, self.synced = first, entries, synced
        self.shares = shares
        """The calls whose values these are, in order, and how many of each."""

    @property
    def last(self) -> int:
        """The own number of the last value."""
        return self.first + len(self.entries) - 1

    @property
    def said(self) -> bool:
        return self.shares[0][0].said

    @property
    def keyed(self) -> bool:
        return self.shares[0][0].keyed

    @property
    def patience(self) -> float:
        return max(job.patience for job, _ in self.shares)

    def wanted(self) -> bool:
        """Whether anybody still waits for it."""
        return any(not job.outcome.done() for job, _ in self.shares)


def gather(jobs: deque[Job], number: int, values: int, size: int) -> Batch | None:
    """The next batch of what waits, with own numbers from `number` on unless its first call says otherwise; None where nothing does."""
    shares: list[tuple[Job, int]] = []
    parts: list[Sequence[Entry]] = []
    first = following = 0
    synced = True
    while jobs and values > 0:
        job = jobs[0]
        if job.outcome.done():
            jobs.popleft()  # given up, perhaps after some of it had gone
            continue
        begins = (following if shares else number) if job.next_number is None else job.next_number
        if not shares:
            first = following = begins
            synced = job.synced
        elif begins != following or job.synced != synced or job.said != shares[0][0].said or job.keyed != shares[0][0].keyed:
            break
        whole = not job.taken and len(job.entries) <= values and job.size <= size
        count = len(job.entries) if whole else _fitting(job, values, size)
        if not count:
            if shares:
                break
            count = 1  # whether it is too large is for the store to say
        part = job.entries if whole else job.entries[job.taken : job.taken + count]
        job.first = job.first or begins
        job.next_number = begins + count
        shares.append((job, count))
        parts.append(part)
        following += count
        values -= count
        size -= job.size if whole else weight(part)
        job.taken += count
        if job.taken == len(job.entries):
            jobs.popleft()
    if not shares:
        return None
    entries = parts[0] if len(parts) == 1 else [entry for part in parts for entry in part]
    return Batch(first, entries, synced, shares)


def weight(entries: Sequence[Entry]) -> int:
    """The bytes that values take in a batch."""
    return sum([len(data) + len(key) for data, key in entries])


def _fitting(job: Job, values: int, size: int) -> int:
    count = 0
    for data, key in islice(job.entries, job.taken, job.taken + values):
        size -= len(data) + len(key)
        if size < 0:
            break
        count += 1
    return count
