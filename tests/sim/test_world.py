"""Programs in virtual time: the world in which they run, its faults, and what it says when they do not end."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from textwrap import dedent

import pytest

from antiphon.api import Group, Node
from antiphon.debugger.rule import Rule
from antiphon.errors import InvalidName, InvalidOption, NotInGroup, UsageError
from antiphon.model.ids import name_of
from antiphon.model.options import Settings
from antiphon.sim import NetworkModel
from antiphon.sim.endless import OutOfTime
from antiphon.sim.log import Delivered, Sent
from antiphon.sim.world import World


async def joined(node: Node) -> Group:
    """The first group that a node hears of, joined."""
    return await node.join((await anext(node.discovered())).id)


async def together(group: Group, count: int) -> None:
    """Waits until so many are in the group."""
    changes = group.views()
    while len(group.view.members) != count:
        await anext(changes)


def test_two_programs_talk() -> None:
    """The simulator would run something else than what users write."""
    world = World(seed=7, network=NetworkModel(loss=0.1))

    async def ana() -> list[bytes]:
        async with world.node("ana") as node:
            trip = await node.create("trip", order="semantic")
            read = []
            async for message in trip:
                read.append(message.data)
                if message.data == b"Did you visit Delhi?":
                    await trip.send(b"Yes", reply_to=message.id)
                if message.data == b"bye":
                    return read
            raise AssertionError("the group ended")

    async def ben() -> list[bytes]:
        async with world.node("ben") as node:
            trip = await joined(node)
            await trip.send(b"Did you visit Delhi?")
            read = []
            async for message in trip:
                read.append(message.data)
                if message.data == b"Yes":
                    await trip.send(b"bye", reply_to=message.id)
                    await together(trip, 1)
                    return read
            raise AssertionError("the group ended")

    assert world.run(ana(), ben()) == [[b"Did you visit Delhi?", b"Yes", b"bye"], [b"Did you visit Delhi?", b"Yes"]]
    assert world.check() == []
    assert 0.0 < world.now < 60.0
    assert world.frames


_STORY = dedent("""
    import asyncio
    from antiphon.sim import NetworkModel
    from antiphon.sim.network import Uniform
    from antiphon.sim.world import World

    world = World(seed=SEED, network=NetworkModel(latency=Uniform(0.001, 0.02), loss=0.05, duplicate=0.05, reorder=0.05))

    async def member(name, order):
        async with world.node(name) as node:
            if order:
                group = await node.create("g", order=order)
            else:
                async for info in node.discovered():
                    group = await node.join(info.id)
                    break
            async def talk():
                for number in range(30):
                    await asyncio.sleep(0.1)
                    await group.send(b"%d" % number)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(talk())
                async with asyncio.timeout(25.0):
                    async for message in group:
                        print(world.now, name, message)

    async def weather():
        await asyncio.sleep(2.0)
        world.partition([["ana", "ben"], ["cleo", "dan"]])
        world.skew("ben", 0.3, 1.02)
        await asyncio.sleep(4.0)
        world.heal()
        await asyncio.sleep(4.0)
        world.crash("dan")

    async def ended(coroutine):
        try:
            await coroutine
        except* TimeoutError:
            pass

    world.run(ended(member("ana", "total")), *(ended(member(name, "")) for name in ("ben", "cleo", "dan")), weather(), limit_s=600)
    for log in world.logs:
        print(log)
    print(world.now, sorted(world.frames.items()))
""")


def test_the_same_seed_is_the_same_run() -> None:
    """A seed that failed last night could not be looked at this morning."""
    runs = []
    for seed, hashes in (("5", "0"), ("5", "random"), ("6", "0")):
        environment = {**os.environ, "PYTHONHASHSEED": hashes}
        program = _STORY.replace("SEED", seed)
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr
        assert "Delivered" in done.stdout
        runs.append(done.stdout)
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_a_crash_ends_the_program_of_the_node() -> None:
    """A program would go on after its process died, and say good-bye."""
    world, after = World(), []

    async def ana() -> int:
        async with world.node("ana") as node:
            trip = await node.create("trip")
            await together(trip, 2)
            await asyncio.sleep(1.0)
            world.crash("ben")
            assert not world.alive("ben")
            await together(trip, 1)
            return len(trip.view.members)

    async def ben() -> None:
        async with world.node("ben") as node:
            trip = await joined(node)
            async for _ in trip:
                pass
        after.append("ben went on")

    assert world.run(ana(), ben()) == [1, None]
    assert after == []
    assert world.log_of("ben", "trip").crashed_at is not None
    assert world.log_of("ben", "trip").departed_at is None


def test_one_who_stands_outside_survives_a_crash_and_starts_the_node_again() -> None:
    """A test that plays all nodes in one coroutine would end with the first crash."""
    world = World()

    async def story() -> None:
        async with world.node("ana") as ana, world.node("ben") as ben:
            trip = await ana.create("trip")
            bens = await joined(ben)
            with pytest.raises(UsageError, match=r"world.node\('ben'\)"):
                world.restart("ben")
            with pytest.raises(UsageError, match="there is a node ben already"):
                await world.node("ben").start()
            world.crash("ben")
            world.crash("ben")  # for good
            with pytest.raises(NotInGroup, match="ben has crashed"):
                await bens.send(b"from the grave")
            assert [message async for message in bens] == []
            await ben.close()
            async with world.node("ben") as again:
                reborn = await joined(again)
                await trip.send(b"welcome back")
                assert (await anext(aiter(reborn))).data == b"welcome back"
                assert reborn.me != bens.me
                assert name_of(reborn.me) == name_of(bens.me) == "ben"
                await together(trip, 2)
                assert await world.settle("trip")
                assert world.check() == []

    world.run(story())


def test_a_paused_node_hears_and_says_nothing_until_it_is_back() -> None:
    """A frozen process would answer heartbeats, and no test would see what happens to one that does not."""
    world = World()

    async def story() -> None:
        async with world.node("ana") as ana, world.node("ben") as ben:
            anas = await ana.create("trip")
            bens = await joined(ben)
            await together(anas, 2)
            world.pause("ben")
            await anas.send(b"are you there?")
            await bens.send(b"asleep")
            reader = aiter(bens)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.0):
                    await anext(reader)
            world.resume("ben")
            anas_reader = aiter(anas)
            async with asyncio.timeout(10.0):
                read = [(await anext(anas_reader)).data for _ in range(2)]
            assert read == [b"are you there?", b"asleep"]
            assert await world.settle("trip")
            assert world.check() == []

    world.run(story())


def test_a_node_that_only_knows_its_seeds_finds_the_group() -> None:
    """Where there is no multicast nobody would ever meet, and the simulator would not show it."""
    world = World()

    async def story() -> None:
        async with world.node("ana") as ana, world.node("ben", seeds=["ana"]) as ben, world.node("cleo", seeds=["dan"]) as cleo:
            anas = await ana.create("trip")
            await joined(ben)
            await together(anas, 2)
            assert [info.id for info in ben.groups()] == [anas.id]
            cleo.advertise()
            await asyncio.sleep(5.0)
            assert (("cleo", "ana", "advertise") in world.frames, ("ben", "ana", "advertise") in world.frames) == (False, True)

    world.run(story())


def test_the_oracles_see_what_the_programs_were_told() -> None:
    """`check` would find nothing because it looks at nothing."""
    world = World()

    async def story() -> None:
        async with world.node("ana") as ana, world.node("ben") as ben:
            anas = await ana.create("trip", order="fifo")
            bens = await joined(ben)
            await together(anas, 2)
            await anas.send_many([b"1", b"2", b"3"])
            await anas.send(b"to you alone", to=bens.me)
            assert await world.settle("trip")
            assert world.check("trip") == []
            events = world.log_of("ben", "trip").events
            delivered = [place for place, event in enumerate(events) if type(event) is Delivered]
            assert len(delivered) == 3
            assert len([event for event in world.log_of("ana", "trip").events if type(event) is Sent]) == 3
            events[delivered[0]], events[delivered[1]] = events[delivered[1]], events[delivered[0]]
            assert "fifo" in {violation.promise for violation in world.check("trip")}

    world.run(story())


def test_rules_reach_the_frames_of_programs() -> None:
    """The debugger would work on the simulator's own worlds and not on a user's program."""
    world = World()

    async def story() -> None:
        async with world.node("ana") as ana, world.node("ben") as ben:
            anas = await ana.create("trip")
            bens = await joined(ben)
            await together(anas, 2)
            world.rules.append(Rule.parse("hold data from ana"))
            message = await anas.send(b"held")
            await asyncio.sleep(0.5)
            assert bens.why(message).state in ("missing", "unknown")
            world.rules.clear()
            assert world.release() >= 1
            assert (await anext(aiter(bens))).data == b"held"

    world.run(story())


def test_a_program_without_end_is_named() -> None:
    """Heartbeats go on for ever: somebody who waits for a message that never comes would wait for ever too."""
    world = World()

    async def waits_for_godot() -> None:
        async with world.node("ana") as node:
            async for _ in await node.create("trip"):
                pass

    with pytest.raises(OutOfTime, match=r"program 1, waits_for_godot\(\) at test_world.py:\d+"):
        world.run(waits_for_godot(), limit_s=20.0)
    assert not world.alive("ana")


def test_the_first_error_ends_all_programs() -> None:
    """A failed assertion of one program would be heard only when the others are done, if ever."""
    world, ended = World(), []

    async def reader() -> None:
        try:
            async with world.node("ana") as node:
                async for _ in await node.create("trip"):
                    pass
        finally:
            ended.append(world.now)

    async def critic() -> None:
        await asyncio.sleep(1.0)
        raise LookupError("not what I expected")

    with pytest.raises(LookupError, match="not what I expected"):
        world.run(reader(), critic())
    assert len(ended) == 1


def test_time_passes_without_programs_too() -> None:
    """A story told from outside could not let time pass between its acts."""
    world = World(settings=Settings(heartbeat_s=0.5))
    node = world.node("ana")
    world.run(node.start())
    before = len(world.frames)
    world.run(2.5)
    world.run_until(4.0)
    assert world.now == 4.0
    assert world.wait_for(lambda: world.now >= 5.0, 3.0)
    assert len(world.frames) >= before
    assert world.run() == []
    world.run(node.close())


def test_a_run_that_is_refused_leaves_nothing_behind() -> None:
    """A wrong limit would be said once, and then a warning about a coroutine that nobody awaited, somewhere else."""
    world = World()

    async def story() -> None:
        with pytest.raises(UsageError, match="await the coroutine instead"):
            world.run(asyncio.sleep(1.0))
        with pytest.raises(UsageError, match="running already"):
            world.run_until(5.0)

    with pytest.raises(InvalidOption, match="limit_s"):
        world.run(story(), limit_s=-1.0)
    world.run(story())


def test_a_node_that_cannot_start_says_why() -> None:
    """The error about a bad name would be hidden by one about a node that was never started."""
    world = World()

    async def story() -> None:
        with pytest.raises(InvalidName, match="cannot be a name"):
            await world.node("an#a").start()

    world.run(story())


def test_names_that_nobody_has_are_refused() -> None:
    """A fault for a node with a misspelt name would do nothing, and the test would pass."""
    world = World()
    world.node("ana")
    with pytest.raises(InvalidOption, match="the nodes of this world are ana"):
        world.partition([["bne"]])
    with pytest.raises(UsageError, match="has not started"):
        world.crash("ana")
