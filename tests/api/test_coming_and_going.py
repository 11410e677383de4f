"""Finding, founding, joining, leaving, and what a newcomer is given, on a simulated network that loses nothing, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from talk import words

from antiphon.api import ViewChange
from antiphon.errors import (
    JoinFailed,
    NotInGroup,
)
from antiphon.sim.world import World


def test_groups_are_discovered(world: World) -> None:
    """Nobody would find a group without being told of it by hand."""

    async def story() -> None:
        async with world.node("ana") as ana, world.node("ben") as ben:
            stream = ben.discovered()
            first = await ana.create("first", order="total", description="the first")
            info = await anext(stream)
            assert (info.id, info.description, info.options.order) == (first.id, "the first", "total")
            second = await ana.create("second")
            assert (await anext(stream)).id == second.id
            assert [info.id for info in ben.groups()] == [first.id, second.id] == [info.id for info in ana.groups()]
            again = ben.discovered()
            assert {(await anext(again)).id, (await anext(again)).id} == {first.id, second.id}
            ben.reject(first.id)
            assert [info.id for info in ben.groups()] == [second.id]
        assert [info async for info in stream] == []

    world.run(story())


def test_all_who_create_by_name_meet(world: World, grown: Any) -> None:
    """Two who start at the same moment would found two groups of one name and never meet."""

    async def member(name: str) -> str:
        async with world.node(name) as node:
            group = await node.join("lobby", create=True, order="causal")
            await grown(group, 4)
            assert group.options.order == "causal"
            await asyncio.sleep(1.0)
            return group.id

    assert len(set(world.run(*(member(name) for name in ("ana", "ben", "cleo", "dan"))))) == 1


def test_the_view_and_its_changes(world: World, gathered: Any, grown: Any) -> None:
    """A program would not know who is there, or would hear of it in another order than it happened."""

    async def story() -> None:
        async with gathered(world, ("ana", "ben")) as (ana, ben), world.node("cleo") as node:
            changes, late = ana.views(), ana.views()
            cleo = await node.join((await anext(node.discovered())).id)
            change = await anext(changes)
            assert isinstance(change, ViewChange)
            assert (change.joined, change.left, change.view.members) == ((cleo.me,), (), (ana.me, ben.me, cleo.me))
            await grown(cleo, 3)
            assert cleo.view == change.view
            before = ana.view
            await ben.leave()
            change = await anext(changes)
            assert (change.joined, change.left, change.previous) == ((), (ben.me,), before)
            assert [len((await anext(late)).view.members) for _ in range(2)] == [3, 2]
            waiting = asyncio.create_task(anext(changes))
            await ana.leave()
            with pytest.raises(StopAsyncIteration):
                await waiting
            assert [change async for change in ana.views()] == []

    world.run(story())


@pytest.mark.parametrize(
    ("history", "expected"),
    [("all", "0123456789"), ("none", ""), (("last", 3), "789"), (("since", 0.75), "6789")],
)
def test_what_a_newcomer_wants_of_the_past(world: World, read: Any, history: Any, expected: str) -> None:
    """A newcomer would be given everything that was ever said, or nothing when it needs it."""

    async def story() -> None:
        async with world.node("ana") as one, world.node("ben") as other:
            ana = await one.create("trip")
            start = world.now
            assert start < 0.25
            for number in range(10):
                await asyncio.sleep(start + number * 0.1 - world.now)
                await ana.send(b"%d" % number)
            ben = await other.join((await anext(other.discovered())).id, history=history)
            await ana.send(b"now")
            heard = []
            async for message in ben:
                heard.append(message.data)
                if message.data == b"now":
                    break
            assert b"".join(heard[:-1]).decode() == expected
            assert b"".join(words(ana.history())) == b"0123456789now"

    world.run(story())


def test_a_newcomer_is_given_the_state(world: World, read: Any) -> None:
    """A newcomer would have the state of one moment and the messages since another: something counted twice, or not at all."""

    async def story() -> None:
        async with world.node("ana") as one, world.node("ben") as other:
            total = 0
            ana = await one.create("sum", order="total", state=lambda: b"%d" % total)

            async def count() -> None:
                nonlocal total
                async for message in ana:
                    total += int(message.data)

            counting = asyncio.create_task(count())

            async def speak() -> None:
                for number in range(1, 101):
                    await ana.send(b"%d" % number)
                    await asyncio.sleep(0.005)

            speaking = asyncio.create_task(speak())
            await asyncio.sleep(0.2)
            ben = await other.join((await anext(other.discovered())).id, history="state")
            assert ben.state is not None
            mine = int(ben.state)
            assert 0 < mine < 5_050
            async for message in ben:
                mine += int(message.data)
                if message.data == b"100":
                    break
            assert mine == 5_050
            await speaking
            counting.cancel()

    world.run(story())


def test_a_state_that_nobody_gives(world: World) -> None:
    """A newcomer would wait for a state for ever, or begin with an empty one in silence."""

    async def story() -> None:
        async with world.node("ana") as one, world.node("ben") as other:
            trip = await one.create("trip")
            with pytest.raises(JoinFailed, match=r"no member gives its state: ana: it gives no state .*history='all'"):
                await other.join((await anext(other.discovered())).id, history="state", timeout=30.0)
            assert await world.settle("trip")
            assert len(trip.view.members) == 1
            founded = await other.join("hall", create=True, history="state")
            assert founded.state is None

    world.run(story())


def test_leaving_is_complete(world: World, gathered: Any, read: Any, grown: Any) -> None:
    """What was said before leaving would be lost, or one who left would still seem to be there."""

    async def story() -> None:
        async with gathered(world) as (ana, ben, cleo):
            await ben.send_many([b"%d" % number for number in range(500)])
            assert await ben.leave() == 0
            assert await ben.leave() == 0
            assert len(await read(ana, 500)) == 500
            await grown(cleo, 2)
            assert ben.me not in cleo.view
            for call in (ben.send(b"x"), ben.send_many([b"x"]), ben.send(b"x", to=ana.me), ben.ask(b"x")):
                with pytest.raises(NotInGroup):
                    await call
            with pytest.raises(NotInGroup):
                ben.try_send(b"x")
            rest = [message async for message in ben]
            assert len(rest) == 500  # what was delivered before it left may still be read
            assert "left" in repr(ben)

    world.run(story())


def test_closing_a_node_ends_whatever_waits(world: World, gathered: Any) -> None:
    """A program that shuts down would hang on a reader that nobody wakes."""

    async def story() -> None:
        async with gathered(world, ("ana", "ben"), window=4) as (ana, ben):
            world.pause("ben")
            reading = asyncio.create_task(_count(ana))
            sending = asyncio.create_task(ana.send_many([b"x"] * 50))
            asking = asyncio.create_task(ana.ask(b"?", to=ben.me, timeout=1e6))
            looking = asyncio.create_task(_count(ana.views()))
            await asyncio.sleep(0.2)
            await ana._node.close(timeout=1.0)
            await reading
            await looking
            for task in (sending, asking):
                with pytest.raises(NotInGroup):
                    await task
            world.resume("ben")

    world.run(story())


async def _count(stream: Any) -> int:
    return len([one async for one in stream])
