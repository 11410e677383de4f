"""The promises of groups as programs see them, while frames are lost, nodes crash and the network splits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon.api import Group, Message, MessageBatch, ViewChange
from antiphon.errors import NoQuorum
from antiphon.model.events import MissedMessages, NoMajority
from antiphon.model.ids import MessageId, name_of
from antiphon.model.options import Settings
from antiphon.sim import NetworkModel
from antiphon.sim.log import Delivered
from antiphon.sim.network import Uniform
from antiphon.sim.world import World

ROUGH = NetworkModel(latency=Uniform(0.001, 0.03), loss=0.2, duplicate=0.05, reorder=0.1)


class Reader:
    """Reads a group for as long as it lasts, as its only reader."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.heard: list[Message] = []
        self.changes: list[ViewChange] = []
        self.others: list[object] = []
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in self.group.events():
            if isinstance(event, MessageBatch):
                self.heard += [message for message in event if isinstance(message, Message)]
            elif isinstance(event, ViewChange):
                self.changes.append(event)
            else:
                self.others.append(event)

    @property
    def ids(self) -> list[MessageId]:
        return [message.id for message in self.heard]

    def data(self) -> set[bytes]:
        return {message.data for message in self.heard}


def logged(world: World, name: str) -> list[MessageId]:
    """What the core of a node told in its latest membership."""
    return [event.id for event in world.log_of(name, "trip").events if type(event) is Delivered]


async def speak(group: Group, count: int, pause_s: float = 0.02) -> None:
    for number in range(count):
        await group.send(f"{name_of(group.me)} {number}".encode())
        await asyncio.sleep(pause_s)


@pytest.mark.parametrize("order", ["unordered", "fifo", "causal", "total", "semantic"])
@pytest.mark.parametrize("multicast", ["reliable", "flood", "tree"])
def test_a_fifth_of_the_frames_is_lost(quick: Settings, gathered: Any, order: str, multicast: str) -> None:
    """On a bad network a program would miss messages, or read some of them twice."""
    world = World(seed=11, settings=quick, network=ROUGH)

    async def story() -> None:
        async with gathered(world, order=order, multicast=multicast) as groups:
            readers = [Reader(group) for group in groups]
            await asyncio.gather(*(speak(group, 40) for group in groups))
            assert await world.settle("trip")
            assert world.check("trip") == []
            for reader, name in zip(readers, ("ana", "ben", "cleo"), strict=True):
                assert len(reader.data()) == len(reader.heard) == 120
                assert reader.ids == logged(world, name)  # nothing was lost, doubled or moved on the way to the program
            if order == "total":
                assert readers[0].ids[-100:] == readers[1].ids[-100:] == readers[2].ids[-100:]

    world.run(story())


@pytest.mark.parametrize("victim", ["ana", "ben"])
def test_a_crash_under_load(quick: Settings, gathered: Any, grown: Any, victim: str) -> None:
    """When the sequencer, or anybody else, dies under load, the others would stop, or part ways."""
    world = World(seed=12, settings=quick, network=NetworkModel(loss=0.05))

    async def story() -> None:
        async with gathered(world, ("ana", "ben", "cleo", "dan"), order="total") as groups:
            readers = {name_of(group.me): Reader(group) for group in groups}
            speeches = {name_of(group.me): asyncio.create_task(speak(group, 150, 0.01)) for group in groups}
            await asyncio.sleep(0.7)
            world.crash(victim)
            await asyncio.wait(speeches.values())
            assert not isinstance(speeches.pop(victim).exception(), type(None))
            assert all(speech.exception() is None for speech in speeches.values())
            for group in groups:
                if name_of(group.me) != victim:
                    await grown(group, 3)
            assert await world.settle("trip")
            assert world.check("trip") == []
            living = [reader for name, reader in readers.items() if name != victim]
            assert living[0].ids[-200:] == living[1].ids[-200:] == living[2].ids[-200:]
            assert all(f"{name} 149".encode() in living[0].data() for name in speeches)

    world.run(story())


def test_split_and_merge_while_all_send(quick: Settings, gathered: Any, grown: Any) -> None:
    """What was said on one side of a split would never reach the other, or nobody would be told that there was one."""
    world = World(seed=13, settings=quick)
    names = ("ana", "ben", "cleo", "dan", "eve")

    async def story() -> None:
        async with gathered(world, names, order="causal") as groups:
            readers = [Reader(group) for group in groups]
            speeches = [asyncio.create_task(speak(group, 100, 0.1)) for group in groups]
            await asyncio.sleep(1.0)
            world.partition([["ana", "ben", "cleo"], ["dan", "eve"]])
            await grown(groups[0], 3)
            await grown(groups[4], 2)
            await asyncio.sleep(3.0)
            world.heal()
            for group in groups:
                await grown(group, 5)
            await asyncio.gather(*speeches)
            assert await world.settle("trip")
            assert world.check("trip") == []
            for reader, name in zip(readers, names, strict=True):
                assert len(reader.data()) == len(reader.heard) == 500
                assert reader.ids == logged(world, name)
                merges = [change for change in reader.changes if len(change.sides) > 1 and change.previous is not None]
                assert {len(side) for side in merges[-1].sides} == {2, 3}
                assert any(message.recovered for message in reader.heard)
                assert not any(isinstance(event, MissedMessages) for event in reader.others)
            histories = [[message.id for message in group.history()] for group in groups]
            assert histories == [histories[0]] * 5

    world.run(story())


def test_a_minority_waits_and_says_so(quick: Settings, gathered: Any, grown: Any) -> None:
    """Two sides would both go on although the group was promised one line, or a program would hang in the minority without a word."""
    world = World(seed=14, settings=quick)

    async def story() -> None:
        async with gathered(world, ("ana", "ben", "cleo"), order="total", partitions="majority", delivery="safe") as (ana, ben, cleo):
            readers = [Reader(group) for group in (ana, ben, cleo)]
            world.partition([["ana", "ben"], ["cleo"]])
            await grown(ana, 2)
            while not any(isinstance(event, NoMajority) for event in readers[2].others):
                await asyncio.sleep(0.05)
            before = world.now
            with pytest.raises(NoQuorum, match="1 of 3"):
                await cleo.send(b"too few", timeout=0.5)
            assert world.now >= before + 0.5
            with pytest.raises(NoQuorum):
                cleo.try_send(b"too few")
            with pytest.raises(NoQuorum):
                await cleo.send_many([b"too few"], timeout=0.1)
            waiting = asyncio.create_task(cleo.send(b"patience"))
            await ana.send(b"we go on")
            await asyncio.sleep(1.0)
            assert not waiting.done()
            world.heal()
            await waiting
            assert await world.settle("trip")
            assert world.check("trip") == []
            assert [reader.data() for reader in readers] == [{b"we go on", b"patience"}] * 3

    world.run(story())


def test_a_frozen_member_is_put_out_and_comes_back(quick: Settings, gathered: Any, grown: Any) -> None:
    """A laptop that was closed for a minute would be gone for good, or would keep the others from going on."""
    world = World(seed=15, settings=quick)

    async def story() -> None:
        async with gathered(world, order="fifo") as (ana, ben, cleo):
            readers = [Reader(group) for group in (ana, ben, cleo)]
            world.pause("ana")  # it coordinates
            await grown(ben, 2)
            await ben.send(b"without you")
            world.resume("ana")
            for group in (ana, ben, cleo):
                await grown(group, 3)
            await ana.send(b"I am back")
            assert await world.settle("trip")
            assert world.check("trip") == []
            assert [reader.data() for reader in readers] == [{b"without you", b"I am back"}] * 3

    world.run(story())


def test_a_letter_that_cannot_arrive_comes_back(quick: Settings, gathered: Any, grown: Any) -> None:
    """Somebody would believe that a message to one member arrived because nobody said otherwise."""
    world = World(seed=16, settings=quick)

    async def story() -> None:
        async with gathered(world, ("ana", "ben")) as (ana, ben):
            reader = Reader(ana)
            world.cut("ana", "ben")
            await ana.send(b"into the void", to=ben.me)
            world.crash("ben")
            await grown(ana, 1)
            await asyncio.sleep(1.0)
            returned = [event for event in reader.others if type(event).__name__ == "Undelivered"]
            assert [event.to for event in returned] == [ben.me]  # type: ignore[attr-defined]

    world.run(story())


def test_twenty_join_at_once(quick: Settings) -> None:
    """A class that opens its laptops at the same moment would not come together."""
    world = World(seed=17, settings=quick, network=NetworkModel(loss=0.05))

    async def member(name: str) -> int:
        async with world.node(name) as node:
            group = await node.join("class", create=True, order="total")
            await group.send(name.encode())
            heard = set()
            async for message in group:
                heard.add(message.data)
                if len(heard) == 20:
                    break
            while len(group.view.members) < 20:
                await asyncio.sleep(0.1)
            await asyncio.sleep(2.0)
            return len(heard)

    assert world.run(*(member(f"n{number}") for number in range(20)), limit_s=120.0) == [20] * 20
