"""A trip is planned on a bad network: three programs, a split, a merge and a crash, in virtual time.

    python examples/trip_in_virtual_time.py

The programs are written as they would be for a real network, with `antiphon.Node` in the place of `world.node`. Twenty of a hundred frames
are lost. Twenty virtual seconds pass, which takes a moment, and the same twenty every time: the seed decides every loss and every delay.
"""

from __future__ import annotations

import asyncio

from antiphon.api import Group, Letter, Message, MessageBatch, ViewChange
from antiphon.model.ids import MessageId, name_of
from antiphon.sim import NetworkModel
from antiphon.sim.network import Uniform
from antiphon.sim.world import World

world = World(seed=1, network=NetworkModel(latency=Uniform(0.005, 0.050), loss=0.2))


async def ana() -> None:
    async with world.node("ana") as node:
        trip = await node.create("trip", order="semantic", description="where to go in spring")
        reading = asyncio.create_task(read("ana", trip))
        await asyncio.sleep(2.0)
        await trip.send(b"Did you visit Delhi?")
        await asyncio.sleep(13.0)
        assert await world.settle("trip")
        assert world.check("trip") == [], "every promise was kept"
        reading.cancel()
        print("\nWhat ana has, as a tree:")
        draw(trip.history())


async def ben() -> None:
    async with world.node("ben") as node:
        trip = await node.join("trip")
        async for message in trip:
            print(line("ben", message))
            if message.data == b"Did you visit Delhi?":
                await trip.send(b"Yes, in March", reply_to=message.id)


async def cleo() -> None:
    async with world.node("cleo") as node:
        trip = await node.join("trip")
        reading = asyncio.create_task(read("cleo", trip))
        await asyncio.sleep(6.0 - world.now)
        await trip.send(b"Is anybody there?")  # the network is split: only she is
        await asyncio.sleep(8.0)
        replies = await trip.ask(b"window or aisle?", timeout=1.0)  # ben is in the view still, and silent
        for member, reply in replies.items():
            print(f"{world.now:5.2f} s  cleo has the reply of {name_of(member)}: {reply.decode()}")
        reading.cancel()


async def weather() -> None:
    """What happens to the network and the machines."""
    await asyncio.sleep(3.0)
    print(f"{world.now:5.2f} s  -- the network splits: ana ben | cleo")
    world.partition([["ana", "ben"], ["cleo"]])
    await asyncio.sleep(5.0)
    print(f"{world.now:5.2f} s  -- the network heals")
    world.heal()
    await asyncio.sleep(5.0)
    print(f"{world.now:5.2f} s  -- ben's machine dies")
    world.crash("ben")


async def read(name: str, group: Group) -> None:
    """Prints whatever happens in a group, and answers private questions."""
    async for event in group.events():
        if isinstance(event, ViewChange):
            merge = " (a merge)" if len(event.sides) > 1 and event.previous is not None else ""
            print(f"{world.now:5.2f} s  {name:4} sees {event.view}{merge}")
        elif isinstance(event, MessageBatch):
            for message in event:
                print(line(name, message))
                if isinstance(message, Letter) and message.question:
                    await message.reply(b"window, please")


def line(name: str, message: Message | Letter) -> str:
    late = ", which comes late" if message.recovered else ""
    return f"{world.now:5.2f} s  {name:4} reads {message}{late}"


def draw(messages: list[Message]) -> None:
    depth_by_id: dict[MessageId, int] = {}
    for message in messages:  # a parent always comes before its answers
        depth_by_id[message.id] = depth = 0 if message.reply_to is None else depth_by_id[message.reply_to] + 1
        print(f"  {'    ' * depth}{name_of(message.sender)}: {message.data.decode()}")


if __name__ == "__main__":
    world.run(ana(), ben(), cleo(), weather(), limit_s=60.0)
