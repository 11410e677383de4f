"""The times of single operations, one after another: join and leave a group on the store, write, read and delete a value of a topic.

These are the operations of the thesis this part of Antiphon comes from (its figures 7.2.1 to 7.2.5), on today's stores. Every one of them
returns when the store has it on disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from antiphon.errors import UsageError
from antiphon.runtime.node import Node
from antiphon.store import Value, open_store

OPERATIONS = ("join", "leave", "write", "read", "delete")


async def timings(url: str, iterations: int, told: Callable[[], None]) -> dict[str, list[float]]:
    """Milliseconds of each iteration, by operation."""
    found: dict[str, list[float]] = {operation: [] for operation in OPERATIONS}

    def note(operation: str, begun: float) -> None:
        found[operation].append(round(1_000 * (time.perf_counter() - begun), 4))

    run = time.time_ns()
    async with Node("bench-host", transport="memory", store=url) as host, Node("bench-guest", transport="memory", store=url) as guest:
        # Somebody stays in the group: joining it is not founding it, leaving it is not ending it.
        await host.create(f"bench-{run}", on="store")
        for _ in range(iterations):
            begun = time.perf_counter()
            group = await guest.join(f"bench-{run}", on="store", history="none")
            note("join", begun)
            begun = time.perf_counter()
            await group.leave()
            note("leave", begun)
            told()
    async with open_store(url, name="bench") as store:
        topic = store.topic(f"bench {run} timings")
        await topic.register()
        reader = await topic.subscribe(3_600.0, id="bench")
        for number in range(iterations):
            begun = time.perf_counter()
            await topic.publish(b"value %d" % number)
            note("write", begun)
            begun = time.perf_counter()
            item = await reader.read(timeout=30.0)
            note("read", begun)
            if not isinstance(item, Value) or item.seq != number + 1:
                raise UsageError(f"read {item} instead of value {number + 1}: {url} is used by somebody else at the same time")
            begun = time.perf_counter()
            await reader.done(item.seq, state=b"%d" % number)
            note("delete", begun)
            told()
        await reader.unsubscribe()
    return found
