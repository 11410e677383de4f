"""A node whose clock is wrong, for tests: `shifted.py URL SECONDS` does what its standard input says, one line each, and answers with one.

Every wall clock that Python has is shifted by so many seconds before anything of the package is loaded; with `all` as the last argument the
clocks that the store goes by are shifted too, which must show.
"""

from __future__ import annotations

import asyncio
import sys
import time

SHIFT_S = float(sys.argv[2])
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + SHIFT_S
time.time_ns = lambda: _time_ns() + round(SHIFT_S * 1e9)
if sys.argv[3:] == ["all"]:
    _read = time.clock_gettime_ns
    time.clock_gettime_ns = lambda which: _read(which) + round(SHIFT_S * 1e9)

from antiphon.errors import TimedOut  # noqa: E402
from antiphon.store import Store, StoreSettings, Value, open_store  # noqa: E402

SETTINGS = StoreSettings(clock_s=0.05, collect_s=0, node_timeout_s=3.0)


async def tell_time(store: Store) -> int:
    return await store.time()


async def publish(store: Store) -> int:
    """The number of the value."""
    ack = await store.topic("there").publish(b"there")
    return getattr(ack, "seq", 0)


async def look(store: Store, topic: str, lease: str) -> str:
    """What a new subscriber is told of the first value: `due`, `expired`, or `gone`."""
    async with await store.topic(topic).subscribe(float(lease)) as subscription:
        async with asyncio.timeout(60.0):
            while not subscription.expired:
                try:
                    item = await subscription.read(0.05)
                except TimedOut:
                    continue
                return "due" if isinstance(item, Value) else "gone"
    return "expired"


async def collect(store: Store, topic: str) -> int:
    """How far it was collected."""
    return (await store.collect([topic]))[topic].floor


async def main(url: str) -> None:
    calls = {"time": tell_time, "publish": publish, "look": look, "collect": collect}
    async with open_store(url, name="there", settings=SETTINGS) as store:
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            name, *arguments = line.split()
            print(await calls[name](store, *arguments), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
