"""Streams beside the messages live as long as somebody waits for them, and no longer."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

from antiphon.sim.world import World
from antiphon.store.event_stream import EventFeed


def watch(stream: AsyncIterator[Any], seen: list[Any]) -> None:
    """Starts a task that reads the stream, and keeps no reference to either."""

    async def read() -> None:
        async for entry in stream:
            seen.append(entry)

    asyncio.create_task(read())  # noqa: RUF006


def test_a_watcher_that_nobody_holds_is_kept_while_the_node_lives(world: World) -> None:
    """`create_task(watch(node.discovered()))` is what people write; the garbage collector would end it in silence."""

    async def story() -> None:
        found: list[Any] = []
        views: list[Any] = []
        ended: list[Any] = []
        async with world.node("ana") as ana, world.node("ben") as ben:
            watch(ben.discovered(), found)
            watch(ben.vanished(), ended)
            group = await ana.create("first")
            watch(group.views(), views)
            await asyncio.sleep(1.0)
            gc.collect()
            await ana.create("second")
            other = await ben.join("first")
            await asyncio.sleep(1.0)
            gc.collect()
            await other.leave()
            await group.leave()
            await asyncio.sleep(1.0)
        assert [info.id.partition("#")[0] for info in found] == ["first", "second"]
        assert [len(change.view.members) for change in views] == [2, 1]
        assert [info.id for info in ended] == [group.id]

    world.run(story())


def test_a_reader_of_a_group_that_nobody_holds_is_kept(world: World) -> None:
    """The task that handles a group's messages would end with the first collection."""

    async def story() -> None:
        seen: list[Any] = []
        async with world.node("ana") as ana:
            group = await ana.create("trip")
            watch(aiter(group), seen)
            await asyncio.sleep(1.0)
            gc.collect()
            await group.send(b"still there?")
            await asyncio.sleep(1.0)
        assert [message.data for message in seen] == [b"still there?"]

    world.run(story())


def test_a_stream_that_nobody_waits_for_is_forgotten() -> None:
    """Every look at what was discovered would keep a list of 1,024 entries for ever."""

    async def story() -> None:
        feed: EventFeed[int] = EventFeed()
        stream = feed.listen()
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        first = asyncio.ensure_future(anext(stream))
        second = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        feed.tell(1)
        feed.tell(2)
        assert {await first, await second} == {1, 2}
        del stream, waiting, first, second
        gc.collect()
        assert not feed._streams
        assert not feed._awaited

    asyncio.run(story())
