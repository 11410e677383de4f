"""To one member, to one and back, and from outside; on a simulated network that loses nothing, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from talk import words

from antiphon.api import Group, Letter
from antiphon.errors import (
    InvalidOption,
    NotAMember,
    SendRefused,
    TimedOut,
    UsageError,
)
from antiphon.model.ids import name_of
from antiphon.sim.world import World


def test_a_letter_reaches_one_member_alone(world: World, gathered: Any, read: Any) -> None:
    """What was meant for one would be read by all, or come before what was said to all."""

    async def story() -> None:
        async with gathered(world) as (ana, ben, cleo):
            await ana.send(b"to all")
            await ana.send(b"to ben", to=ben.me)
            await ana.send(b"to ben again", to=ben.me)
            first, letter, second = await read(ben, 3)
            assert (first.data, letter.data, second.data) == (b"to all", b"to ben", b"to ben again")
            assert isinstance(letter, Letter)
            assert (letter.private, letter.sender, letter.question, letter.reply_to, letter.raw) == (True, ana.me, 0, None, b"to ben")
            with pytest.raises(UsageError, match="asked nothing"):
                await letter.reply(b"?")
            await ana.send(b"and to all")
            assert words(await read(cleo, 2)) == [b"to all", b"and to all"]
            with pytest.raises(UsageError, match="leave out"):
                await ana.send(b"x", reply_to=first.id, to=ben.me)
            await cleo.leave()
            with pytest.raises(NotAMember):
                await ana.send(b"too late", to=cleo.me)

    world.run(story())


def test_a_letter_to_several_members_reaches_each_of_them_once(world: World, gathered: Any, read: Any) -> None:
    """A program that has a list of receivers would get a TypeError, or have to send to each and could not know what was sent."""

    async def story() -> None:
        async with gathered(world, ("ana", "ben", "cleo", "dan")) as (ana, ben, cleo, dan):
            await ana.send(b"before", to=cleo.me)
            sent = await ana.send(b"to two", to=[cleo.me, ben.me, cleo.me])
            assert [message.sender for message in sent] == [ana.me, ana.me]
            assert [message.seqno for message in sent] == [2, 1]
            await ana.send(b"after", to=(ben.me, cleo.me))
            assert words(await read(ben, 2)) == [b"to two", b"after"]
            assert words(await read(cleo, 3)) == [b"before", b"to two", b"after"]
            await ana.send(b"to all")
            assert words(await read(dan, 1)) == [b"to all"]

    world.run(story())


def test_a_letter_to_several_is_sent_to_all_of_them_or_to_none(world: World, gathered: Any, read: Any) -> None:
    """Half of the receivers would have a message that its sender was told could not be sent."""

    async def story() -> None:
        async with gathered(world) as (ana, ben, cleo):
            await cleo.leave()
            with pytest.raises(NotAMember, match="cleo"):
                await ana.send(b"too late", to=[ben.me, cleo.me])
            with pytest.raises(InvalidOption, match="no need to write to itself"):
                await ana.send(b"to me, too", to=[ben.me, ana.me])
            await ana.send(b"now", to=[ben.me])
            assert words(await read(ben, 1)) == [b"now"]

    world.run(story())


def test_a_list_that_is_refused_on_the_way_says_how_many_have_it(world: World, gathered: Any, read: Any) -> None:
    """The sender would repeat the message for a member that has it."""

    async def story() -> None:
        async with gathered(world) as (ana, ben, cleo):
            full = world.settings.private_messages
            world.pause("cleo")
            for _ in range(full):
                await ana.send(b"fills the window", to=cleo.me)
            sending = asyncio.create_task(ana.send(b"once", to=[ben.me, cleo.me]))
            assert words(await read(ben, 1)) == [b"once"]
            world.crash("cleo")
            with pytest.raises(NotAMember) as refused:
                await sending
            assert refused.value.accepted == 1

    world.run(story())


def test_receivers_that_make_no_sense_are_refused(world: World, gathered: Any) -> None:
    """A mistake in a call would raise an error from inside of the library, or be taken for a message to the whole group."""

    async def story() -> None:
        async with gathered(world) as (ana, _, _):
            for wrong in (5, [5], [["ben"]], b"ben", object()):
                with pytest.raises(InvalidOption, match="id of a member"):
                    await ana.send(b"x", to=wrong)  # type: ignore[call-overload]
            for nobody in ([], (), set()):
                with pytest.raises(InvalidOption, match="names nobody"):
                    await ana.send(b"x", to=nobody)
            with pytest.raises(InvalidOption, match="one member"):
                await ana.ask(b"x", to=["ben"])  # type: ignore[arg-type]
            sent = await ana.send(b"first")
            with pytest.raises(InvalidOption, match="a list of message ids"):
                await ana.send(b"second", after=sent)  # type: ignore[call-overload]
            for wrong in (5, b"ben", "ben"):
                with pytest.raises(InvalidOption, match="a list of message ids"):
                    await ana.send(b"second", after=wrong)  # type: ignore[call-overload]
            with pytest.raises(InvalidOption, match="a list of messages"):
                await ana.send_many(b"third")

    world.run(story())


def test_a_closed_group_refuses_what_comes_from_outside(world: World, gathered: Any) -> None:
    """An outsider would be told that it cannot join, which it did not want; and only with its second message."""

    async def story() -> None:
        async with gathered(world, ("ana", "ben")), world.node("cleo") as cleo:
            await anext(cleo.discovered())
            with pytest.raises(SendRefused, match="cannot send to trip from outside: only its members may send"):
                await cleo.send_outside("trip", b"x")

    world.run(story())


def test_ask_and_reply(world: World, gathered: Any) -> None:
    """A request would have no response, or somebody else's."""

    async def story() -> None:
        async with gathered(world) as (ana, ben, cleo):

            async def answer(group: Group) -> None:
                async for message in group:
                    if isinstance(message, Letter) and message.question:
                        await message.reply(name_of(group.me).encode() + b" heard " + message.data)

            serving = [asyncio.create_task(answer(group)) for group in (ben, cleo)]
            assert await ana.ask(b"you?", to=ben.me) == b"ben heard you?"
            assert await ana.ask(b"all?") == {ben.me: b"ben heard all?", cleo.me: b"cleo heard all?"}
            many = await asyncio.gather(*(ana.ask(b"%d" % number, to=cleo.me) for number in range(50)))
            assert many == [b"cleo heard %d" % number for number in range(50)]
            serving[0].cancel()
            with pytest.raises(TimedOut, match=r"ben did not reply within 0\.5 s"):
                await ana.ask(b"still there?", to=ben.me, timeout=0.5)
            assert await ana.ask(b"who is left?", timeout=0.5) == {cleo.me: b"cleo heard who is left?"}
            asking = asyncio.create_task(ana.ask(b"before you go", to=ben.me, timeout=60.0))
            await asyncio.sleep(0.1)
            await ben.leave()
            with pytest.raises(NotAMember):
                await asking
            with pytest.raises(NotAMember):
                await ana.ask(b"gone?", to=ben.me)

    world.run(story())


def test_an_open_group_takes_messages_from_outside(world: World, gathered: Any, read: Any) -> None:
    """A sensor would have to read everything only to say something."""

    async def story() -> None:
        async with gathered(world, ("ana", "ben"), open=True) as (ana, ben), world.node("cleo") as cleo:
            await anext(cleo.discovered())
            assert await cleo.send_outside("trip", b"from outside") == 1
            (heard,) = await read(ana, 1)
            assert (heard.data, name_of(heard.sender)) == (b"from outside", "cleo")
            assert words(await read(ben, 1)) == [b"from outside"]
            with pytest.raises(SendRefused, match="not known"):
                await cleo.send_outside("nowhere", b"x")

    world.run(story())
