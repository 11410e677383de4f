"""What is refused, who waits for whom, and what a group tells of itself; on a simulated network that loses nothing, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import structs
from talk import words

from antiphon.api import Group
from antiphon.errors import (
    InvalidOption,
    JoinFailed,
    TimedOut,
    TooLarge,
    UsageError,
    WouldBlock,
)
from antiphon.model.options import Settings
from antiphon.sim.world import World


def test_a_sender_waits_for_a_slow_reader(gathered: Any, quick: Settings) -> None:
    """A fast sender would fill the memory of the slowest member, or of itself."""
    world = World(seed=7, settings=quick)

    async def story() -> None:
        async with gathered(world, ("ana", "ben"), window=16) as (ana, _):
            world.slow("ben", 0.05)
            for _ in range(16):
                ana.try_send(b"x")
            with pytest.raises(WouldBlock):
                ana.try_send(b"x")
            before = world.now
            for _ in range(100):
                await ana.send(b"y")
            assert world.now > before
            world.pause("ben")
            with pytest.raises(TimedOut, match=r"nothing could be sent to trip for 0\.2 s") as caught:
                await ana.send_many([b"z"] * 50, timeout=0.2)
            assert caught.value.accepted <= 16
            assert isinstance(caught.value, TimeoutError)
            with pytest.raises(TimedOut):
                await ana.send(b"z", timeout=0.2)
            world.resume("ben")
            world.slow("ben", 0.0)
            assert len(await ana.send_many([b"w"] * 50)) == 50

    world.run(story())


def test_who_does_not_read_holds_the_others_up_within_bounds(gathered: Any, quick: Settings) -> None:
    """A program that stops reading would fill its memory with what it will never read, and those who send would not know."""
    world = World(seed=7, settings=structs.replace(quick, inbox_messages=100))

    async def story() -> None:
        async with gathered(world, ("ana", "ben"), window=64) as (ana, ben):
            assert await world.settle("trip")
            reading = asyncio.create_task(_read_until(ana, b"1999"))
            sending = asyncio.create_task(ana.send_many([b"%d" % number for number in range(2_000)]))
            await asyncio.sleep(5.0)
            assert not sending.done()
            with pytest.raises(WouldBlock):
                ana.try_send(b"x")
            inbox = ben.stats()["inbox_messages"]
            assert isinstance(inbox, int)
            assert 100 <= inbox <= 100 + 64 + 1
            with pytest.raises(TimedOut, match="not read here: read the group"):
                await ben.send(b"I do not read, so I do not write", timeout=0.5)
            assert await _read_until(ben, b"1999") == await reading == [b"%d" % number for number in range(2_000)]
            assert len(await sending) == 2_000
            await ben.send(b"now I may")
            assert world.check("trip", settled=False) == []

    world.run(story())


async def _read_until(group: Group, last: bytes) -> list[bytes]:
    heard = []
    async for message in group:
        heard.append(message.data)
        if message.data == last:
            break
    return heard


def test_a_slow_receiver_of_letters_does_not_hold_up_the_group(gathered: Any, quick: Settings, read: Any) -> None:
    """A private message to somebody who sleeps would stop everything that this member says to all."""
    world = World(seed=7, settings=structs.replace(quick, private_messages=2, suspect_s=60.0))

    async def story() -> None:
        async with gathered(world) as (ana, ben, cleo):
            world.pause("ben")
            letters = [asyncio.create_task(ana.send(b"%d" % number, to=ben.me)) for number in range(5)]
            await asyncio.sleep(0.1)
            assert [letter.done() for letter in letters] == [True, True, False, False, False]
            async with asyncio.timeout(1.0):
                await ana.send(b"to all")
                await ana.send(b"to cleo", to=cleo.me)
                assert words(await read(cleo, 2)) == [b"to all", b"to cleo"]
            assert ana.stats()["sends_waiting"] == 3
            world.resume("ben")
            await asyncio.gather(*letters)
            heard = words(await read(ben, 6))
            assert [word for word in heard if word.isdigit()] == [b"0", b"1", b"2", b"3", b"4"]
            assert ana.stats()["sends_waiting"] == 0

    world.run(story())


def test_waiting_sends_keep_their_order(gathered: Any, quick: Settings, read: Any) -> None:
    """What was sent later would overtake what waits, and fifo would be a promise of the network only."""
    world = World(seed=7, settings=quick)

    async def story() -> None:
        async with gathered(world, ("ana", "ben"), window=4) as (ana, ben):
            sends = [asyncio.create_task(ana.send(b"%d" % number)) for number in range(40)]
            many = asyncio.create_task(ana.send_many([b"%d" % number for number in range(40, 60)]))
            ids = await asyncio.gather(*sends)
            assert [message.seqno for message in [*ids, *await many]] == list(range(1, 61))
            assert words(await read(ben, 60)) == [b"%d" % number for number in range(60)]

    world.run(story())


def test_too_large_is_said_at_once(world: World, gathered: Any) -> None:
    """A payload that nobody can take would be tried for ever."""

    async def story() -> None:
        async with gathered(world, ("ana", "ben")) as (ana, _):
            limit = world.settings.message_bytes
            for call in (ana.send(bytes(limit + 1)), ana.send_many([b"x", bytes(limit + 1)])):
                with pytest.raises(TooLarge):
                    await call
            await ana.send(b"small")

    world.run(story())


def test_calls_that_cannot_work_say_why(world: World, gathered: Any) -> None:
    """Somebody would wait for a group that does not exist, or wonder what an option does that is ignored."""

    async def story() -> None:
        async with world.node("ana") as node:
            with pytest.raises(JoinFailed):
                await node.join("nowhere")
            with pytest.raises(InvalidOption, match="order"):
                await node.join("nowhere", order="total")
            with pytest.raises(InvalidOption, match="no such option"):
                await node.create("trip", ordre="total")
            with pytest.raises(InvalidOption, match="history"):
                await node.join("nowhere", history="some")
            with pytest.raises(UsageError, match="cannot be a payload"):
                await node.create("trip", type=print)
            group = await node.create("trip")
            with pytest.raises(UsageError, match="already"):
                await node.join(group.id)
            with pytest.raises(UsageError, match="started once"):
                await node.start()
        await node.close()
        with pytest.raises(UsageError, match="closed"):
            await node.create("trip")
        with pytest.raises(UsageError, match="not started"):
            world.node("ben").groups()

    world.run(story())


def test_stats_are_plain_values(world: World, gathered: Any) -> None:
    """Metrics could not be written as text."""

    async def story() -> None:
        async with gathered(world, ("ana", "ben")) as (ana, _):
            await ana.send(b"x")
            await world.settle("trip")
            stats = ana._node.stats()
            assert stats["groups"][ana.id]["sent"] == 1  # type: ignore[index]
            assert _plain(stats), stats

    world.run(story())


def _plain(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _plain(one) for key, one in value.items())
    if isinstance(value, list | tuple):
        return all(_plain(one) for one in value)
    return value is None or isinstance(value, str | int | float | bool)
