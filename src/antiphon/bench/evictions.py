"""Evictions with real nodes: a member of a group with `slow="evict"` does not read while two others send, and must be put out.

Four nodes in one process, on loopback TCP. All but the last read what is delivered; the first two send without end, one message at a time
or many at once, and wait when they are refused. An eviction has succeeded when the last node is in no other's view and both senders have
gone on after that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

from antiphon.api.group import Group
from antiphon.errors import WouldBlock
from antiphon.model.options import Settings
from antiphon.runtime.node import Node

NAMES = ("a", "b", "c", "d")
_GO_ON = 100
"""Messages that each sender must get rid of after the eviction."""


async def evict(
    *,
    order: str = "fifo",
    batch: int = 1,
    payload_bytes: int = 1_000,
    slow_s: float = 3.0,
    window: int = 8_192,
    settings: Settings | None = None,
    polls: bool = False,
    limit_s: float = 20.0,
) -> float | None:
    """Lets one member be evicted; says how many seconds after the senders began that was so, None if it did not happen within `limit_s`.
    `batch` messages are sent at a time; with `polls` the senders use `try_send` and pause instead of waiting."""
    async with AsyncExitStack() as stack:
        nodes: list[Node] = []
        for name in NAMES:
            seeds = [nodes[0].address] if nodes else []
            node = Node(name, transport="tcp", bind="127.0.0.1:0", seeds=seeds, settings=settings)
            nodes.append(await stack.enter_async_context(node))
        groups = [await nodes[0].create("g", order=order, slow="evict", slow_s=slow_s, window=window)]
        groups += [await node.join("g") for node in nodes[1:]]
        async with asyncio.timeout(limit_s):
            while any(len(group.view.members) < len(NAMES) for group in groups):
                await asyncio.sleep(0.05)
        tasks = [asyncio.create_task(_read(group)) for group in groups[:-1]]
        sent = [0, 0]
        tasks += [asyncio.create_task(_send(groups[place], sent, place, batch, payload_bytes, polls)) for place in range(2)]
        try:
            return await _watch(groups[:-1], groups[-1].me, sent, limit_s)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _watch(others: Sequence[Group], victim: str, sent: list[int], limit_s: float) -> float | None:
    began, evicted_after, sent_by_then = time.monotonic(), 0.0, [0, 0]
    while time.monotonic() - began < limit_s:
        await asyncio.sleep(0.02)
        if not evicted_after and all(victim not in group.view.members for group in others):
            evicted_after, sent_by_then = time.monotonic() - began, list(sent)
        if evicted_after and all(now >= then + _GO_ON for now, then in zip(sent, sent_by_then, strict=True)):
            return evicted_after
    return None


async def _read(group: Group) -> None:
    async for _ in group:
        pass


async def _send(group: Group, sent: list[int], place: int, batch: int, size: int, polls: bool) -> None:
    payload = b"x" * size
    while True:
        if polls:
            try:
                group.try_send(payload)
            except WouldBlock:
                await asyncio.sleep(0.01)
                continue
        elif batch > 1:
            await group.send_many([payload] * batch)
        else:
            await group.send(payload)
        sent[place] += batch
        if polls or not sent[place] % 64:
            await asyncio.sleep(0)  # what is accepted at once does not let others run
