"""Batches: consecutive own numbers, one durability, no more than the store takes, and every value in exactly one."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from antiphon.store.acknowledgement import Accepted, Published
from antiphon.store.gathering import Job, gather, weight
from antiphon.store.records import Entry, Receipt

calls = st.lists(
    st.tuples(
        st.lists(st.integers(0, 30), min_size=1, max_size=12),  # sizes of values
        st.booleans(),  # synced
        st.none() | st.integers(1, 60),  # own number
        st.booleans(),  # cancelled
    ),
    max_size=12,
)


@given(calls=calls, values=st.integers(1, 20), size=st.integers(1, 100), number=st.integers(1, 50))
def test_every_value_goes_once_in_order_within_the_bounds(calls: list[Any], values: int, size: int, number: int) -> None:
    """A value would be left out or sent twice, a batch refused as too large, or two durabilities mixed."""

    async def story() -> None:
        jobs: deque[Job] = deque()
        made = []
        for at, (sizes, synced, said, cancelled) in enumerate(calls):
            entries = [Entry(bytes(length), f"{at}.{index}") for index, length in enumerate(sizes)]
            job = Job(entries, weight(entries), said, synced, 0.0, 0.0)
            if cancelled:
                job.outcome.cancel()
            jobs.append(job)
            made.append(job)
        sent: list[str] = []
        free, seq = number, 1
        while batch := gather(jobs, free, values, size):
            assert len(batch.entries) <= values
            assert weight(batch.entries) <= size or len(batch.entries) == 1
            assert {job.synced for job, _ in batch.shares} == {batch.synced}
            assert sum(count for _, count in batch.shares) == len(batch.entries)
            if not batch.said:
                assert batch.first == free or batch.shares[0][0].first != batch.first
            for job, count in batch.shares:
                job.settle(count, Receipt(seq, seq + count - 1, batch.synced))
                seq += count
            sent += [entry.key for entry in batch.entries]
            free = max(free, batch.last + 1)
        expected = [entry.key for job, call in zip(made, calls, strict=True) if not call[3] for entry in job.entries]
        assert sent == expected
        for job, call in zip(made, calls, strict=True):
            if not call[3]:
                ack = job.outcome.result()
                assert isinstance(ack, Published if job.synced else Accepted)
                assert ack.last - ack.first + 1 == len(job.entries)

    asyncio.run(story())


def test_a_batch_is_never_changed_by_what_comes_later() -> None:
    """A repeated batch would have other values under the numbers of the first attempt."""

    async def story() -> None:
        first, second = (Job([Entry(data)], 1, None, True, 0.0, 0.0) for data in (b"1", b"2"))
        jobs = deque([first])
        batch = gather(jobs, 1, 10, 100)
        assert batch is not None
        jobs.append(second)
        first.outcome.cancel()
        assert [entry.data for entry in batch.entries] == [b"1"]
        assert not batch.wanted()
        following = gather(jobs, batch.last + 1, 10, 100)
        assert following is not None
        assert (following.first, [entry.data for entry in following.entries]) == (2, [b"2"])
        assert gather(jobs, 3, 10, 100) is None

    asyncio.run(story())
