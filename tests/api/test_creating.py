"""Creating a group whose name is taken, and joining one that is not there yet, as programs see it."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.errors import GroupExists, InvalidOption, JoinFailed, TimedOut
from antiphon.model.options import Settings
from antiphon.sim.log import Viewed
from antiphon.sim.network import NetworkModel
from antiphon.sim.world import World

LOG = {"order": "total", "delivery": "safe", "partitions": "majority"}


@pytest.mark.parametrize("founded", ["created", "joined"])
def test_a_program_that_starts_again_does_not_create_a_second_group(world: World, founded: str) -> None:
    """The program is killed and started again: it would be alone in a second group, and nobody would be told."""

    async def story() -> None:
        async with world.node("ben") as other:
            first = world.node("ana")
            await first.start()
            if founded == "created":
                await first.create("trip")
            else:
                await first.join("trip", create=True)
            there = await other.join("trip")
            world.crash("ana")
            async with world.node("ana") as again:
                with pytest.raises(GroupExists, match=r"join\('trip'\).*join\('trip', create=True\)") as raised:
                    await again.create("trip")
                assert there.id in str(raised.value)
                back = await again.join("trip", create=True)
                assert back.id == there.id
                with pytest.raises(GroupExists, match="this node is in a group of this name"):
                    await again.create("trip")

    world.run(story())


def test_a_join_that_timed_out_can_be_repeated(world: World) -> None:
    """The usual loop of a program that waits for a group would fail in its second round, and in every later one."""

    async def story() -> None:
        async with world.node("ben") as ben:
            for _ in range(3):
                with pytest.raises(TimedOut, match="no group of this name was heard of"):
                    await ben.join("trip", timeout=0.5)
            async with world.node("ana") as ana:
                there = await ana.create("trip")
                assert (await ben.join("trip", timeout=5.0)).id == there.id

    world.run(story())


def test_two_that_create_at_the_same_moment_are_told(world: World) -> None:
    """Two groups of one name would stay unnoticed until somebody wonders where the others are."""

    async def story() -> None:
        async with world.node("ana") as one, world.node("ben") as other:
            first, second = await asyncio.gather(one.create("trip"), other.create("trip"))
            await asyncio.sleep(1.0)
            assert one.stats()["namesakes"] == {first.id: second.id}
            assert other.stats()["namesakes"] == {second.id: first.id}

    world.run(story())


def test_a_group_that_this_node_no_longer_believes_in_can_be_created(world: World) -> None:
    """What was heard of a group that has died would keep its name for ever."""

    async def story() -> None:
        async with world.node("ben") as ben:
            ana = world.node("ana")
            await ana.start()
            group = await ana.create("trip")
            await anext(ben.discovered())
            world.crash("ana")
            with pytest.raises(GroupExists):
                await ben.create("trip")
            ben.reject(group.id)
            await ben.create("trip")

    world.run(story())


@pytest.mark.parametrize("how", ["create", "join"])
def test_a_join_that_comes_first_waits(world: World, how: str) -> None:
    """Of two programs that are started by hand the one that joins would have to be the second."""

    async def ben() -> None:
        async with world.node("ben") as node:
            group = await node.join("trip")
            async for message in group:
                assert message.data == b"hello"
                return

    async def ana() -> None:
        await asyncio.sleep(5.0)
        async with world.node("ana") as node:
            group = await (node.create("trip") if how == "create" else node.join("trip", create=True))
            await group.send(b"hello")
            await asyncio.sleep(10.0)

    world.run(ben(), ana())


def test_a_join_that_fails_says_what_it_waited_for(world: World, quick: Settings) -> None:
    """The user would be told that nobody let the node in, and not who is missing."""

    async def story() -> None:
        async with world.node("ana") as node, world.node("ben", seeds=["ana", "cem"]) as seeded:
            with pytest.raises(TimedOut, match=r"within 2 s: no group of this name was heard of"):
                await node.join("trip", timeout=2.0)
            with pytest.raises(JoinFailed, match=r"within 10 s: ana knows no such group; cem did not answer"):
                await seeded.join("trip")
            with pytest.raises(TimedOut, match=r"within 2 s: 1 of 3 founders were heard \(ana; missing: ben, cem\)"):
                await node.join("log", create=True, expect=["cem", "ana", "ben"], timeout=2.0, **LOG)
            with pytest.raises(JoinFailed, match=r"within 10 s 1 of 2 founders were heard \(ana\)"):
                await node.join("log", create=True, expect=2, **LOG)

    world.run(story())


@pytest.mark.parametrize(
    ("expect", "why"),
    [
        (None, "write expect=N"),
        (0, "write expect=N"),
        (-1, "give 1 to 256 founders"),
        ("ana", "a list of their names"),
        (["ana", "ana"], "the name of each founder once"),
        ([], "give 1 to 256 founders"),
        (True, "a list of their names"),
    ],
)
def test_founders_that_cannot_be_are_refused(world: World, expect: object, why: str) -> None:
    """A typing error would make the node wait for founders that never come, or found the group alone."""

    async def story() -> None:
        async with world.node("ana") as node:
            with pytest.raises(InvalidOption, match=why):
                await node.join("log", create=True, **LOG, **({} if expect is None else {"expect": expect}))
            with pytest.raises(InvalidOption, match="only a group with partitions='majority'"):
                await node.join("log", create=True, expect=3)

    world.run(story())


def test_programs_found_a_group_together() -> None:
    """Three replicas would each begin a log of their own."""
    world = World(seed=3, network=NetworkModel(loss=0.1))
    logs: dict[str, list[bytes]] = {name: [] for name in ("ana", "ben", "cem")}

    async def replica(name: str, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        async with world.node(name) as node:
            log = await node.join("log", create=True, expect=3, **LOG)
            assert len(log.view.members) == 3
            await log.send(name.encode())
            async for message in log:
                logs[name].append(message.data)
                if len(logs[name]) == 3:
                    break
            await asyncio.sleep(5.0)

    world.run(*(replica(name, delay) for name, delay in (("cem", 0.0), ("ana", 3.0), ("ben", 1.0))))
    assert logs["ana"] == logs["ben"] == logs["cem"]


def test_seeds_that_do_not_answer_get_their_time(world: World) -> None:
    """A node whose seeds are slow to answer would found a group of its own, and read the others' messages only after a merge."""

    async def story() -> None:
        async with world.node("ana", seeds=[]) as ana:
            group = await ana.join("trip", create=True)
            ben = world.node("ben", seeds=["ana"])
            world.cut("ana", "ben")
            async with ben:
                joining = asyncio.create_task(ben.join("trip", create=True))
                await asyncio.sleep(0.6)
                assert not joining.done()
                world.heal()
                joined = await joining
                assert len(joined.view.members) == len(group.view.members) == 2
                first = next(event for event in world.log_of("ben", "trip").events if type(event) is Viewed)
                assert len(first.view.members) == 2, "it was never alone"

    world.run(story())
