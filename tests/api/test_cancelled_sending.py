"""Every way to send, cancelled at every wait: what was accepted arrives once, and nothing else does."""

from __future__ import annotations

import asyncio
import random

import pytest
from interruption import Interrupter, Story, at_every_wait
from talk import answer_all, pair, rest, well

from antiphon.api import Group, Letter, Message, MessageBatch
from antiphon.errors import TimedOut
from antiphon.model.ids import MessageId
from antiphon.model.options import Settings
from antiphon.sim import NetworkModel
from antiphon.sim.network import Uniform
from antiphon.sim.world import World


async def send(world: World, interrupt: Interrupter) -> None:
    ana, ben = await pair(world, window=4)
    sent = [await ana.send(b"%d" % number) for number in range(4)]
    before = asyncio.create_task(ana.send(b"before"))
    interrupted = asyncio.create_task(interrupt(ana.send(b"maybe")))
    while ana.stats()["sends_waiting"] != 2:
        await asyncio.sleep(0)
    async with asyncio.timeout(30.0):
        await ana.send(b"behind")  # its turn comes, whatever becomes of those who were there first
    await before
    cancelled = await interrupted
    await well(world, ana, ben)
    heard = await rest(ben)
    assert heard.count(b"maybe") == (not cancelled)  # a send that was cancelled was not accepted
    assert [word for word in heard if word.isdigit()] == [b"%d" % number for number in range(len(sent))]
    assert heard.count(b"before") == heard.count(b"behind") == 1


async def send_large(world: World, interrupt: Interrupter) -> None:
    ana, ben = await pair(world)

    returned = []

    async def send_some() -> None:
        for number in range(4):
            returned.append(await ana.send(bytes([number]) * 300_000))

    cancelled = await interrupt(send_some())
    await well(world, ana, ben)
    assert cancelled or len(returned) == 4
    assert [word[0] for word in await rest(ben) if len(word) > 1_000] == list(range(len(returned)))


async def send_many(world: World, interrupt: Interrupter) -> None:
    ana, ben = await pair(world, window=4)
    words = [b"%d" % number for number in range(20)]
    cancelled = await interrupt(ana.send_many(words))
    await well(world, ana, ben)
    heard = [word for word in await rest(ben) if word.isdigit()]
    assert heard == words[: len(heard)]  # the first ones, each once
    assert cancelled or [message.seqno for message in interrupt.result] == list(range(1, 21))
    assert cancelled or heard == words


async def send_to_one(world: World, interrupt: Interrupter) -> None:
    ana, ben = await pair(world)
    await ana.send(b"0", to=ben.me)
    await ana.send(b"1", to=ben.me)
    cancelled = await interrupt(ana.send(b"maybe", to=ben.me))
    await ana.send(b"2", to=ben.me)
    await well(world, ana, ben)
    heard = [word for word in await rest(ben) if not word.startswith(b"well")]
    assert heard == ([b"0", b"1", b"2"] if cancelled else [b"0", b"1", b"maybe", b"2"])


async def ask(world: World, interrupt: Interrupter) -> None:
    ana, ben = await pair(world)
    asked: list[bytes] = []
    answering = asyncio.create_task(answer_all(ben, asked))
    cancelled = await interrupt(ana.ask(b"maybe", to=ben.me))
    assert cancelled or interrupt.result == b"heard maybe"
    assert await ana.ask(b"sure", to=ben.me) == b"heard sure"
    assert asked.count(b"sure") == 1
    assert asked.count(b"maybe") <= 1
    assert ana._questions._by_number == {}
    assert await ana.ask(b"all") == {ben.me: b"heard all"}
    answering.cancel()
    await well(world, ana, ben)


async def ask_all(world: World, interrupt: Interrupter) -> None:
    ana, ben = await pair(world)
    asked: list[bytes] = []
    answering = asyncio.create_task(answer_all(ben, asked))
    cancelled = await interrupt(ana.ask(b"maybe"))
    assert cancelled or interrupt.result == {ben.me: b"heard maybe"}
    assert ana._questions._by_number == {}
    assert await ana.ask(b"sure") == {ben.me: b"heard sure"}
    answering.cancel()
    await well(world, ana, ben)


async def reply(world: World, interrupt: Interrupter) -> None:
    ana, ben = await pair(world)
    asking = asyncio.create_task(ana.ask(b"?", to=ben.me, timeout=20.0))
    letter = await anext(aiter(ben))
    assert isinstance(letter, Letter)
    for word in (b"one", b"two"):
        await ben.send(word, to=ana.me)
    if await interrupt(letter.reply(b"!")):
        await letter.reply(b"again")
        assert await asking == b"again"
    else:
        assert await asking == b"!"
    await well(world, ana, ben)


async def send_outside(world: World, interrupt: Interrupter) -> None:
    ana, ben = await pair(world, open=True)
    async with world.node("cleo") as cleo:
        await anext(cleo.discovered())
        sent = 0
        for number in range(1_100):  # more than an outsider may have on its way
            if await interrupt(cleo.send_outside("trip", b"%d" % number)):
                break
            sent += 1
        await cleo.send_outside("trip", b"end")
        heard = await rest(ben)
        assert heard == [b"%d" % number for number in range(sent)] + [b"end"]
    await well(world, ana, ben)


STORIES: dict[str, tuple[Story, int]] = {
    "send": (send, 1),
    "send_large": (send_large, 3),
    "send_many": (send_many, 2),
    "send_to_one": (send_to_one, 1),
    "ask": (ask, 1),
    "ask_all": (ask_all, 1),
    "reply": (reply, 1),
    "send_outside": (send_outside, 1),
}
"""Every call, and how many waits it makes at least: fewer would mean that nothing was cancelled."""


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "woken"])
@pytest.mark.parametrize("name", STORIES)
def test_a_call_may_be_cancelled_at_any_time(name: str, late: bool, quick: Settings) -> None:
    """A time-out around a send or a question would lose a message, send one twice, or break the node."""
    at_every_wait(name, *STORIES[name], late, quick)


@pytest.mark.parametrize("seed", range(6))
def test_what_was_accepted_is_read_once_and_nothing_else_is(seed: int, quick: Settings) -> None:
    """Under load and loss, calls that time out at any moment would leave messages behind that nobody knows of, or lose some."""
    world = World(seed=seed, settings=quick, network=NetworkModel(latency=Uniform(0.001, 0.02), loss=0.1))
    chance = random.Random(seed)

    async def story() -> None:
        ana, ben = await pair(world, window=8, order="total")
        accepted: list[MessageId] = []
        heard: dict[str, list[MessageId]] = {"ana": [], "ben": []}

        async def speak(group: Group, name: str) -> None:
            for number in range(60):
                try:
                    async with asyncio.timeout(chance.choice((0.0, 0.001, 0.01, 0.05))):
                        accepted.append(await group.send(f"{name} {number}".encode()))
                except TimeoutError:
                    await asyncio.sleep(0.01)

        async def listen(group: Group, name: str) -> None:
            readings = (aiter(group), group.batches(), group.events())
            while True:
                try:
                    async with asyncio.timeout(chance.choice((0.0, 0.001, 0.1))):
                        entry = await anext(chance.choice(readings))
                except TimeoutError:
                    await asyncio.sleep(0.001)
                else:
                    heard[name] += [entry.id] if isinstance(entry, Message) else entry.ids if isinstance(entry, MessageBatch) else []

        listening = [asyncio.create_task(listen(group, name)) for group, name in ((ana, "ana"), (ben, "ben"))]
        await asyncio.gather(*(speak(group, name) for group, name in ((ana, "a"), (ana, "b"), (ben, "c"), (ben, "d"))))
        assert await world.settle("trip")
        await asyncio.sleep(2.0)
        for task in listening:
            task.cancel()
        assert 20 < len(accepted) < 240
        assert heard["ana"] == heard["ben"]
        assert sorted(heard["ana"]) == sorted(accepted)
        assert world.check("trip") == []

    world.run(story(), limit_s=600.0)


def test_a_timed_out_send_was_not_accepted(quick: Settings) -> None:
    """Whoever tries again after a time-out would send twice."""
    world = World(seed=7, settings=quick)

    async def story() -> None:
        ana, ben = await pair(world, window=2)
        world.pause("ben")
        await ana.send_many([b"0", b"1"])
        for _ in range(3):
            with pytest.raises(TimedOut):
                await ana.send(b"late", timeout=0.1)
        world.resume("ben")
        await ana.send(b"2")
        assert await rest(ben) == [b"0", b"1", b"2"]

    world.run(story())
