"""When what was sent leaves, and what happens first where several things are due."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any
from unittest import mock

import pytest

from antiphon import Node
from antiphon.errors import InvalidOption
from antiphon.model import codec
from antiphon.model.frames import Batch, Record
from antiphon.sim.world import World


@pytest.fixture
def frames_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a group's node hands to its driver from now on, as frames of the group's messages."""

    def watch(group: Any) -> list[Batch | Record]:
        seen: list[Batch | Record] = []
        driver = group._node._driver
        send = driver.send

        def watched(to: Any, wire: bytes, about: Any) -> None:
            frame = codec.decode(wire)
            if isinstance(frame, Batch | Record):
                seen.append(frame)
            send(to, wire, about)

        monkeypatch.setattr(driver, "send", watched)
        return seen

    return watch


@pytest.mark.parametrize("order", ["unordered", "fifo", "causal", "semantic"])
def test_the_first_message_of_a_turn_does_not_wait_for_its_end(world: World, gathered: Any, frames_of: Any, order: str) -> None:
    """Everybody would wait until the sender's program has done whatever else it had to do in that turn of its loop."""

    async def story() -> None:
        async with gathered(world, ("ana", "ben"), order=order) as (ana, ben):
            frames = frames_of(ana)
            await ana.send(b"now")
            assert [frame.payloads for frame in frames] == [(b"now",)]
            reading = ben.batches()
            assert (await anext(reading)).payloads == (b"now",)
            assert (await anext(ana.batches())).payloads == (b"now",)

    world.run(story())


def test_a_sequencer_says_the_place_of_its_own_message_with_it(world: World, gathered: Any, frames_of: Any) -> None:
    """Receivers would be woken twice for one message, and wait for the second time."""

    async def story() -> None:
        async with gathered(world, ("ana", "ben"), order="total") as (ana, ben):
            frames = frames_of(ana)
            await ana.send(b"now")
            assert [type(frame) for frame in frames] == [Batch, Record]
            assert (await anext(ben.batches())).payloads == (b"now",)

    world.run(story())


@pytest.mark.parametrize("order", ["unordered", "fifo", "causal", "total", "semantic"])
def test_what_is_sent_without_a_pause_fills_batches(world: World, gathered: Any, frames_of: Any, order: str) -> None:
    """A program that sends a thousand messages in a row would pay for a thousand frames at every member."""

    async def story() -> None:
        async with gathered(world, ("ana", "ben"), order=order) as (ana, ben):
            words = [b"%d" % number for number in range(1_000)]
            frames = frames_of(ana)
            for word in words:
                await ana.send(word)
            heard: list[bytes] = []
            async for batch in ben.batches():
                heard += batch.payloads
                if len(heard) == len(words):
                    break
            assert heard == words
            batches = [frame for frame in frames if type(frame) is Batch]
            assert [len(batch.payloads) for batch in batches] == [1, 999]

    world.run(story())


@pytest.mark.parametrize("many", [list, tuple, iter, deque, dict.fromkeys, lambda words: (word for word in words)])
def test_many_are_sent_whatever_they_come_in(world: World, gathered: Any, many: Any) -> None:
    """What is no list would be sent and then raise an error, and whoever tries again would send it twice."""

    async def story() -> None:
        async with gathered(world, ("ana", "ben"), order="fifo") as (ana, ben):
            words = [b"one", b"two", b"three"]
            assert [message.seqno for message in await ana.send_many(many(words))] == [1, 2, 3]
            assert [message.data async for message in _first(ben, 3)] == words
            assert list(await ana.send_many(many([]))) == []
            with pytest.raises(InvalidOption, match="payloads are bytes"):
                await ana.send_many(many([b"fine", "not so"]))
            assert (await ana.send(b"four")).seqno == 4

    world.run(story())


@pytest.mark.parametrize("then", ["sends", "sends a list", "sends to one", "advertises", "leaves"])
def test_what_is_done_after_a_message_that_left_at_once_is_done_too(world: World, gathered: Any, then: str) -> None:
    """The message needs no end of its turn, and so what an application does right after it would wait for something else to happen."""

    async def story() -> None:
        async with gathered(world, ("ana", "ben"), order="fifo") as (ana, ben):
            await ana.send(b"warms up")  # the first after a rest arms a timer
            await asyncio.sleep(0.001)
            core = ana._node.core
            with mock.patch.object(core, "drain", wraps=core.drain) as drain:
                await ana.send(b"now")
                await asyncio.sleep(0)
                assert drain.call_count == 0, "nothing was left to be done"
                await ana.send(b"now")
                if then == "sends":
                    await ana.send(b"more")
                elif then == "sends a list":
                    await ana.send_many([b"more"])
                elif then == "sends to one":
                    await ana.send(b"more", to=ben.me)
                elif then == "advertises":
                    ana._node.advertise()
                else:
                    await ana.leave()
                await asyncio.sleep(0)
                assert drain.call_count >= 1
            if then.startswith("sends"):
                heard = [message.data async for message in _first(ben, 4)]
                assert heard == [b"warms up", b"now", b"now", b"more"]
            if then != "leaves":
                count = 4 if then in ("sends", "sends a list") else 3
                assert [message.data async for message in _first(ana, count)] == [b"warms up", b"now", b"now", b"more"][:count]

    world.run(story())


async def _first(group: Any, count: int) -> Any:
    async for message in group:
        yield message
        count -= 1
        if not count:
            return


def test_a_node_that_goes_while_its_timer_rings_does_nothing_more() -> None:
    """A node that was closed would speak once more, with a core that nobody looks after."""

    async def story() -> None:
        node = Node("ana", transport="memory")
        await node.start()
        timers = node.core._timers
        with mock.patch.object(timers, "run", wraps=timers.run) as run:
            node._tick_soon()
            await asyncio.sleep(0)
            assert run.call_count == 1
            node._tick_soon()
            node.abandon("it is over")
            await asyncio.sleep(0)
            assert run.call_count == 1
        await node._driver.close()

    asyncio.run(story())
