"""Two nodes in one group, and the ways in which several tests talk in it and look at it."""

from __future__ import annotations

import asyncio
from typing import Any

from antiphon.api import Group, Letter, Message
from antiphon.model.ids import name_of
from antiphon.sim.world import World


async def pair(world: World, **options: Any) -> tuple[Group, Group]:
    ana, ben = world.node("ana"), world.node("ben")
    await ana.start()
    await ben.start()
    group = await ana.create("trip", **options)
    other = await ben.join(group.id)
    await members(group, 2)
    assert await world.settle("trip")
    return group, other


async def members(group: Group, count: int) -> None:
    changes = group.views()
    async with asyncio.timeout(60.0):
        while len(group.view.members) != count:
            await anext(changes)


async def rest(group: Group) -> list[bytes]:
    """Whatever can be read before it has been quiet for two seconds."""
    read: list[bytes] = []
    reader = aiter(group)
    while True:
        try:
            async with asyncio.timeout(2.0):
                message = await anext(reader)
        except TimeoutError:
            return read
        read.append(message.data)


async def well(world: World, *groups: Group) -> None:
    """The group works: everybody can send, everybody reads it, and no promise is broken."""
    for group in groups:
        await group.send(b"well, " + name_of(group.me).encode(), timeout=30.0)
    assert await world.settle("trip")
    assert world.check("trip") == []


def words(messages: list[Message]) -> list[bytes]:
    return [message.data for message in messages]


async def answer_one(group: Group, answer: object) -> None:
    async for message in group:
        if isinstance(message, Letter):
            await message.reply(answer)
            return


async def answer_all(group: Group, asked: list[bytes]) -> None:
    async for message in group:
        if isinstance(message, Letter) and message.question:
            asked.append(message.data)
            await message.reply(b"heard " + message.data)
