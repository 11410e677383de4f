"""Several processes at work on one store, and the judgement of the oracle about it.

`run_processes(url, directory)` starts writers (each with a topic of its own, and all of them with a shared one), subscribers, a stepper and
collectors, all at once, waits until they are done, and returns what was broken. The parts are for other campaigns too: `start` a worker,
kill it, start it again with the same order, and at the end `judge(await evidence(url, orders))`.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from antiphon.errors import UnknownTopic
from antiphon.testing.store_journal import Seen, Subscribed, read_journal, seen
from antiphon.testing.store_oracle import Evidence, Left, Violation, judge
from antiphon.testing.store_worker import Order, open_backend

SHARED = "shared"

Meanwhile = Callable[[Sequence[Order]], Awaitable[None]]


async def run_processes(
    url: str,
    directory: Path,
    *,
    writers: int = 2,
    values: int = 200,
    seconds: float = 60.0,
    meanwhile: Meanwhile | None = None,
) -> list[Violation]:
    """`values` per writer and topic. What a process says when it fails comes with the violations. `meanwhile` is what else happens."""
    # Readers first: what is collected before somebody is subscribed it never sees, and others would wait for what follows from it.
    orders = sorted(orders_for(url, directory, writers=writers, values=values, seconds=seconds), key=lambda order: not _reads(order))
    processes = [await start(order) for order in orders if _reads(order)]
    await _all_subscribed(orders[: len(processes)], processes, seconds)
    processes += [await start(order) for order in orders[len(processes) :]]
    disturbing = asyncio.ensure_future(meanwhile(orders)) if meanwhile is not None else None
    try:
        failures = [failure for failure in await asyncio.gather(*map(ended, orders, processes)) if failure]
        if disturbing is not None:
            await asyncio.wait_for(disturbing, seconds)
    finally:
        if disturbing is not None:
            disturbing.cancel()
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()
    return failures + judge(await evidence(url, orders))


def _reads(order: Order) -> bool:
    return order.role in ("subscriber", "stepper")


async def _all_subscribed(orders: Sequence[Order], processes: Sequence[Process], seconds: float) -> None:
    """Waits for them; one that has ended is judged later."""
    until = asyncio.get_running_loop().time() + seconds
    for order, process in zip(orders, processes, strict=True):
        while process.returncode is None and asyncio.get_running_loop().time() < until:
            if any(isinstance(event, Subscribed) for event in read_journal(Path(order.journal))):
                break
            await asyncio.sleep(0.05)


def orders_for(url: str, directory: Path, *, writers: int, values: int, seconds: float) -> list[Order]:
    """Writers w0, w1, … with topics own0, own1, …, and with the shared one; readers and collectors of all, and one stepper."""
    orders: list[Order] = []

    def add(role: str, name: str, topic: str, count: int, **more: object) -> None:
        journal = str(directory / f"{len(orders)}-{role}-{name}.jsonl")
        fields = {"role": role, "url": url, "journal": journal, "name": name, "topic": topic, "count": count, "seconds": seconds}
        orders.append(msgspec.convert(fields | more, Order))

    for at in range(writers):
        add("writer", f"w{at}", f"own{at}", values)
        add("writer", f"w{at}", SHARED, values, shared=True, batch=5)
        add("subscriber", f"s{at}", SHARED, values * writers)
        add("collector", f"c{at}", SHARED, values * writers, pause_s=0.02)
    add("subscriber", "s", "own0", values, batch=40)
    add("stepper", "agent", "own0", values, out="out", batch=10)
    add("subscriber", "s", "out", values)
    add("collector", "c", "own0", values, pause_s=0.02)
    return orders


async def start(order: Order) -> Process:
    command = (sys.executable, "-m", "antiphon.testing.store_worker", msgspec.json.encode(order).decode())
    return await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE)


async def ended(order: Order, process: Process) -> Violation | None:
    """None when the worker did all it was told to; else what it said last."""
    try:
        _, said = await asyncio.wait_for(process.communicate(), order.seconds + 30.0)
    except TimeoutError:
        return Violation("process", f"{order.role} {order.name} of {order.topic} did not end")
    if process.returncode == 0:
        return None
    return Violation("process", f"{order.role} {order.name} of {order.topic} ended with {process.returncode}: {said.decode()[-2_000:]}")


async def evidence(url: str, orders: Sequence[Order]) -> Evidence:
    """What the workers wrote down, and what is left in the store."""
    journals = [read_journal(Path(order.journal)) for order in orders]
    store = await open_backend(url)
    try:
        left: dict[str, Left] = {}
        for topic in sorted(_topics(orders)):
            try:
                info = await store.info(topic)
            except UnknownTopic:
                left[topic] = Left(0, 0, [])
                continue
            reader, values = await store.reader(topic, 0), list[Seen]()
            while (chunk := await reader.take(1_000, 0)).values:
                values += map(seen, chunk.values)
            await reader.close()
            left[topic] = Left(info.last, info.floor, values)
    finally:
        await store.close()
    return Evidence(journals, left, expected(orders))


def expected(orders: Sequence[Order]) -> dict[tuple[str, str], int]:
    counts = {(order.topic, order.name): order.count for order in orders if order.role == "writer"}
    return counts | {(order.out, order.name): order.count for order in orders if order.role == "stepper"}


def _topics(orders: Iterable[Order]) -> set[str]:
    return {topic for order in orders for topic in (order.topic, order.out) if topic}
