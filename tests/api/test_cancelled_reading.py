"""Every way to read, cancelled at every wait: the next reader goes on where the last one was."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from interruption import Interrupter, Story, at_every_wait
from talk import pair, rest, well

from antiphon.api import Group, Message, Node
from antiphon.model.options import Settings
from antiphon.sim.world import World


async def _reading(world: World, interrupt: Interrupter, kind: str) -> None:
    ana, ben = await pair(world, order="total")
    await rest(ben)
    reader: Any = aiter(ben) if kind == "messages" else getattr(ben, kind)()
    speaking = asyncio.create_task(_speak(ana))
    heard: list[bytes] = []
    for _ in range(4):
        if not await interrupt(_next(reader)):
            heard += _data(interrupt.result)
    while len(heard) < 10:  # the same reader reads on: a cancelled read took nothing
        async with asyncio.timeout(30.0):
            heard += _data(await anext(reader))
    await speaking
    assert heard == [b"%d" % number for number in range(10)]
    await well(world, ana, ben)
    assert await rest(ben) == [b"well, ana", b"well, ben"]


async def _next(reader: Any) -> Any:
    return await anext(reader, None)


async def _speak(group: Group) -> None:
    for number in range(10):
        await asyncio.sleep(0.5)
        if number % 3:
            await group.send(b"%d" % number)
        else:
            group.try_send(b"%d" % number)


def _data(entry: Any) -> list[bytes]:
    if isinstance(entry, Message):
        return [entry.data]
    return [message.data for message in entry] if hasattr(entry, "payloads") else []


async def read_messages(world: World, interrupt: Interrupter) -> None:
    await _reading(world, interrupt, "messages")


async def read_batches(world: World, interrupt: Interrupter) -> None:
    await _reading(world, interrupt, "batches")


async def read_events(world: World, interrupt: Interrupter) -> None:
    await _reading(world, interrupt, "events")


async def read_views(world: World, interrupt: Interrupter) -> None:
    ana, ben = await pair(world)
    changes, sizes = ana.views(), []
    cleo = world.node("cleo")
    starting = asyncio.create_task(_start_and_join(cleo, ana))
    if not await interrupt(_next(changes)):
        sizes.append(len(interrupt.result.view.members))
    await starting
    await ben.leave()
    while len(sizes) < 2:
        async with asyncio.timeout(30.0):
            sizes.append(len((await anext(changes)).view.members))
    assert sizes == [3, 2]


async def _start_and_join(node: Node, group: Group) -> Group:
    await asyncio.sleep(0.5)
    await node.start()
    return await node.join(group.id)


async def discovered(world: World, interrupt: Interrupter) -> None:
    ana, ben = world.node("ana"), world.node("ben")
    await ana.start()
    await ben.start()
    stream, names = ben.discovered(), []

    async def found() -> None:
        for name in ("first", "second"):
            await asyncio.sleep(0.5)
            await ana.create(name)

    founding = asyncio.create_task(found())
    if not await interrupt(_next(stream)):
        names.append(interrupt.result.description)
    while len(names) < 2:
        async with asyncio.timeout(30.0):
            names.append((await anext(stream)).description)
    await founding
    assert names == ["first", "second"]


async def two_readers(world: World, interrupt: Interrupter) -> None:
    ana, ben = await pair(world)
    await rest(ben)
    heard: list[bytes] = []

    async def other() -> None:
        async for message in ben:
            heard.append(message.data)

    first = asyncio.create_task(interrupt(_next(aiter(ben))))
    await asyncio.sleep(0.1)
    reading = asyncio.create_task(other())
    await asyncio.sleep(0.1)
    await ana.send(b"0")
    await asyncio.sleep(1.0)
    assert first.done()
    assert heard == ([b"0"] if first.result() else [])  # one of the two has read it, though nothing came after it
    for number in range(1, 10):
        await ana.send(b"%d" % number)
    await ana.send_many([b"10", b"11", b"12"])
    await asyncio.sleep(2.0)
    await ben.leave()
    if not await first and interrupt.result is not None:
        heard.append(interrupt.result.data)
    await reading
    assert sorted(heard, key=int) == [b"%d" % number for number in range(13)]


STORIES: dict[str, tuple[Story, int]] = {
    "read_messages": (read_messages, 1),
    "read_batches": (read_batches, 1),
    "read_events": (read_events, 1),
    "read_views": (read_views, 1),
    "discovered": (discovered, 1),
    "two_readers": (two_readers, 1),
}
"""Every call, and how many waits it makes at least: fewer would mean that nothing was cancelled."""


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "woken"])
@pytest.mark.parametrize("name", STORIES)
def test_a_call_may_be_cancelled_at_any_time(name: str, late: bool, quick: Settings) -> None:
    """A time-out around a read would lose what was on its way to the reader, show it twice, or break the node."""
    at_every_wait(name, *STORIES[name], late, quick)


def test_polling_a_quiet_group_keeps_nothing(quick: Settings) -> None:
    """A program that looks every second whether there is news would grow for ever."""
    world = World(seed=7, settings=quick)

    async def story() -> None:
        ana, ben = await pair(world)
        await rest(ben)
        reader = aiter(ben)
        for _ in range(100):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(reader), 0.01)
        assert len(ben._inbox._readers) == 0
        await ana.send(b"news")
        assert (await anext(reader)).data == b"news"

    world.run(story())
