"""Time is the store's, never goes back, and is the same for all."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from antiphon.store.records import SECOND
from antiphon.testing.store_suite.stage import Stage, check, entries, everything, holds, numbered


@check
async def time_never_goes_back(stage: Stage) -> None:
    """A lease would begin again, or end before it began."""
    handles = [await stage.open() for _ in range(3)]
    grant = await handles[0].register("t", "p")
    before = [0, 0, 0]
    for number in range(1, 61):
        at = number % 3
        now = await handles[at].time()
        holds(f"the time of one handle: {now} after {before[at]}", now >= before[at])
        # Handles may extrapolate between two readings of the store's clock, but not far.
        holds(f"the time of another handle: {now} after {max(before)}", now >= max(before) - SECOND)
        before[at] = now
        if number % 5 == 0:
            await handles[number % 2].publish(grant, number, entries(f"{number}"))
    values = await everything(handles[1], "t")
    holds("the times of values never fall", all(one.time <= two.time for one, two in pairwise(values)))


@check
async def a_value_has_the_time_at_which_it_was_published(stage: Stage) -> None:
    """A lease is an age: a value that is born old would be collected before anybody could read it."""
    store, other = await stage.open(), await stage.open()
    grant = await store.register("t", "p")
    for number in range(1, 31, 3):
        before = await store.time()
        await store.publish(grant, number, numbered("p", number, 3))
        after = await store.time()
        values = await everything(other, "t", number - 1)
        holds("not before", all(value.time >= before - SECOND for value in values))
        holds("not after", all(value.time <= after + SECOND for value in values))


@check
async def time_goes_on(stage: Stage) -> None:
    """In a store in which nothing happens no lease would ever end."""
    store, other = await stage.open(), await stage.open()
    first = await store.time()
    async with asyncio.timeout(30.0):
        while await store.time() <= first or await other.time() <= first:
            await asyncio.sleep(0.01)
