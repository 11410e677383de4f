"""A group over real UDP and without a key, after altered copies of its datagrams came from its members' own sockets."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from antiphon.errors import AntiphonError
from antiphon.model.ids import Address
from antiphon.runtime.node import Node
from antiphon.sim.alterer import FrameAlterer

NAMES = ("ana", "ben", "cem")
FRAMES = 20_000
PATIENCE_S = 120.0


@pytest.mark.parametrize("order", ["fifo", "total"])
def test_a_group_recovers_from_altered_datagrams(order: str) -> None:
    """Whoever can send under members' addresses for a while could stop a group for good."""
    asyncio.run(asyncio.wait_for(_story(order), 2 * PATIENCE_S))


async def _story(order: str) -> None:
    nodes = [Node(name, transport="udp", bind="127.0.0.1:0", multicast=None) for name in NAMES]
    readers: list[asyncio.Task[None]] = []
    delivered: dict[str, list[bytes]] = {name: [] for name in NAMES}
    try:
        for node in nodes:
            await node.start()
        groups = [await nodes[0].create("g", order=order)]
        for node in nodes[1:]:
            groups.append(await node.join("g", at=[nodes[0].address]))

        async def read(name: str, group: Any) -> None:
            async for message in group:
                delivered[name].append(message.data)

        readers += [asyncio.create_task(read(name, group)) for name, group in zip(NAMES, groups, strict=True)]
        while any(len(group.view.members) < len(NAMES) for group in groups):
            await asyncio.sleep(0.01)
        await _disturb(nodes, groups)

        async def come_back(index: int) -> None:
            """Join again, as a program does that was told that it is no longer in the group: a forged frame may have put it out."""
            others = [node.address for node in nodes if node.core.memberships]
            assert others, "all members were put out at once"
            try:
                groups[index] = await nodes[index].join(groups[index].id, at=others, timeout=10.0)
            except AntiphonError:
                return
            readers.append(asyncio.create_task(read(NAMES[index], groups[index])))

        async def recovered() -> None:
            number = 0
            while True:
                number += 1
                for index, node in enumerate(nodes):
                    if not node.core.memberships:
                        await come_back(index)
                sent = [f"{name}/{number}".encode() for name in NAMES]
                for group, data in zip(groups, sent, strict=True):
                    try:
                        await asyncio.wait_for(group.send(data), 2.0)
                    except (AntiphonError, TimeoutError):
                        continue
                await asyncio.sleep(1.0)
                got = [[data for data in delivered[name] if data in sent] for name in NAMES]
                if all(sorted(each) == sorted(sent) for each in got) and (order != "total" or all(each == got[0] for each in got)):
                    return

        await asyncio.wait_for(recovered(), PATIENCE_S)
    finally:
        for task in readers:
            task.cancel()
        for node in nodes:
            await node.close(timeout=1.0)


async def _disturb(nodes: list[Node], groups: list[Any]) -> None:
    """Sends altered copies of what the members send, under their addresses, while they talk."""
    alterer, left = FrameAlterer(random.Random(7)), FRAMES
    transports: list[Any] = [node._driver.transport for node in nodes]  # type: ignore[attr-defined]
    sends = [transport.send for transport in transports]

    def altering(transport: Any, send: Any) -> Any:
        def send_altered(to: tuple[Address, ...], wire: bytes) -> None:
            nonlocal left
            send(to, wire)
            for _ in range(min(left, 20)):
                left -= 1
                send(to, alterer.alter(wire))

        return send_altered

    for transport, send in zip(transports, sends, strict=True):
        transport.send = altering(transport, send)
    limit = asyncio.get_running_loop().time() + 30.0
    while left > 0 and asyncio.get_running_loop().time() < limit:
        for group in groups:
            try:
                group.try_send(b"message")
            except AntiphonError:
                continue
        await asyncio.sleep(0.002)
    left = 0
    for transport, send in zip(transports, sends, strict=True):
        transport.send = send
