"""What is sent is read: messages, batches, events and typed payloads, on a simulated network that loses nothing, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import Struct
from talk import answer_one, words

from antiphon.api import BadPayload, Group, MessageBatch, ViewChange
from antiphon.debugger.rule import Rule
from antiphon.errors import (
    InvalidOption,
    UnknownParent,
    UsageError,
)
from antiphon.model.events import Stabilised, Synchronised
from antiphon.model.ids import MessageId, name_of
from antiphon.sim.world import World


@pytest.mark.parametrize("order", ["unordered", "fifo", "causal", "total", "semantic"])
def test_everybody_reads_what_everybody_sends(world: World, gathered: Any, read: Any, order: str) -> None:
    """A group would be a group in name only."""

    async def story() -> None:
        async with gathered(world, order=order) as groups:

            async def speak(group: Group) -> None:
                for number in range(20):
                    await group.send(f"{name_of(group.me)} {number}".encode())
                    await asyncio.sleep(0.01)

            speeches = [asyncio.create_task(speak(group)) for group in groups]
            heard = await asyncio.gather(*(read(group, 60) for group in groups))
            await asyncio.gather(*speeches)
            assert [sorted(words(one)) for one in heard] == [sorted(words(heard[0]))] * 3
            if order == "total":
                assert words(heard[0]) == words(heard[1]) == words(heard[2])
            assert await world.settle("trip")
            assert world.check("trip") == []

    world.run(story())


def test_a_message_says_who_when_and_what_it_answers(world: World, gathered: Any, read: Any) -> None:
    """A chat could not draw its threads."""

    async def story() -> None:
        async with gathered(world, order="semantic") as (ana, ben, cleo):
            question = await ana.send(b"Did you visit Delhi?")
            (heard,) = await read(ben, 1)
            assert (heard.id, heard.sender, heard.data, heard.raw) == (question, ana.me, b"Did you visit Delhi?", b"Did you visit Delhi?")
            assert (heard.reply_to, heard.after, heard.lost, heard.recovered, heard.private) == (None, (), (), False, False)
            assert heard.view == ben.view.id
            assert 0.0 < heard.sent_at <= world.now
            other = await ben.send(b"I was in Agra")
            answer = await ben.send(b"Yes", reply_to=heard.id, after=[other])
            asked, _, answered = await read(cleo, 3)
            assert (answered.id, answered.reply_to, answered.after) == (answer, asked.id, (other,))
            assert str(answered) == "ben:2 (answers ana:1): b'Yes'"
            with pytest.raises(UnknownParent):
                await cleo.send(b"what?", reply_to=MessageId(ana.me, 99))

    world.run(story())


def test_batches_and_messages_are_one_stream(world: World, gathered: Any, read: Any) -> None:
    """Who changes from messages to batches in the middle would lose the rest of a batch, or read it twice."""

    async def story() -> None:
        async with gathered(world, ("ana", "ben")) as (ana, ben):
            ids = await ana.send_many([b"%d" % number for number in range(1_000)])
            assert ids == [MessageId(ana.me, number) for number in range(1, 1_001)]
            heard = [message.data for message in await read(ben, 3)]
            async for batch in ben.batches():
                assert isinstance(batch, MessageBatch)
                assert len(batch) == len(batch.payloads) == len(batch.ids)
                assert [message.id for message in batch] == batch.ids
                heard += batch.payloads[:-1]
                assert batch[-1].data == batch.payloads[-1]
                heard.append(batch[-1].data)
                if batch.ids[-1] == ids[-1]:
                    break
            assert heard == [b"%d" % number for number in range(1_000)]
            assert await ana.send_many([]) == []
            assert await ana.send(b"") == MessageId(ana.me, 1_001)
            assert words(await read(ben, 1)) == [b""]

    world.run(story())


def test_several_readers_share_one_stream(world: World, gathered: Any) -> None:
    """Two workers that read one group would both do the same work, or leave some of it undone."""

    async def story() -> None:
        async with gathered(world, ("ana", "ben")) as (ana, ben):
            done: list[bytes] = []

            async def worker() -> None:
                async for message in ben:
                    await asyncio.sleep(0.01)
                    done.append(message.data)

            workers = [asyncio.create_task(worker()) for _ in range(5)]
            for number in range(100):
                await ana.send(b"%d" % number)
                await asyncio.sleep(0.001 * (number % 4))
            while len(done) < 100:
                await asyncio.sleep(0.01)
            await ben.leave()
            await asyncio.gather(*workers)
            assert sorted(done, key=int) == [b"%d" % number for number in range(100)]

    world.run(story(), limit_s=60.0)


def test_events_have_messages_and_views_in_one_order(world: World, gathered: Any) -> None:
    """A replicated program that acts on views would act at another point of the messages than its copies."""

    async def story() -> None:
        async with gathered(world, ("ana", "ben"), order="total") as (ana, ben), world.node("cleo") as node:
            told: dict[str, list[object]] = {"ana": [], "ben": []}

            async def listen(name: str, group: Group) -> None:
                async for event in group.events():
                    if isinstance(event, MessageBatch):
                        told[name] += words(list(event))
                    elif isinstance(event, ViewChange):
                        told[name].append(event.view)
                    else:
                        assert isinstance(event, Synchronised | Stabilised)

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(listen("ana", ana))
                tasks.create_task(listen("ben", ben))
                for number in range(20):
                    await ana.send(b"%d" % number)
                    await asyncio.sleep(0.01)
                    if number == 10:
                        tasks.create_task(node.join("trip"))
                await asyncio.sleep(2.0)
                common = told["ben"]
                assert told["ana"][-len(common) :] == common
                assert len([entry for entry in common if isinstance(entry, bytes)]) == 20
                assert ana.view in common
                await ana.leave()
                await ben.leave()

    world.run(story())


def test_why_a_message_waits(world: World, gathered: Any, read: Any) -> None:
    """Somebody whose message does not come could not find out what it waits for."""

    async def story() -> None:
        async with gathered(world, order="semantic") as (ana, ben, cleo):
            assert await world.settle("trip")
            world.rules.append(Rule.parse("hold data from ana to cleo"))
            question = await ana.send(b"Did you visit Delhi?")
            await read(ben, 1)
            answer = await ben.send(b"Yes", reply_to=question)
            while cleo.why(answer).state != "held":
                await asyncio.sleep(0.001)
            why = cleo.why(answer)
            assert why.waits_for == (question,)
            assert "ana" in why.reason
            assert cleo.why(MessageId(ben.me, 77)).state == "unknown"
            world.rules.clear()
            world.release()
            while cleo.why(answer).state != "delivered":
                await asyncio.sleep(0.001)
            assert "inbox" in cleo.why(answer).reason
            assert words(await read(cleo, 2)) == [b"Did you visit Delhi?", b"Yes"]
            assert cleo.why(answer).state == "delivered"
            assert "inbox" not in cleo.why(answer).reason

    world.run(story())


class Line(Struct):
    who: str
    number: int


def test_typed_payloads(world: World, gathered: Any, read: Any) -> None:
    """Every program would write its own encoding, and a wrong one would reach the others."""

    async def story() -> None:
        async with gathered(world, ("ana", "ben"), type=Line) as (ana, ben), world.node("cleo") as node:
            await ana.send(Line("ana", 1))
            assert words(await read(ben, 1)) == [Line("ana", 1)]
            with pytest.raises(UsageError, match="not a Line"):
                await ana.send("ana")
            with pytest.raises(UsageError, match="not a Line"):
                await ana.send_many([Line("ana", 2), Line("ana", "two")])  # type: ignore[arg-type]
            raw = await node.join((await anext(node.discovered())).id, history="none")
            await raw.send(b"\xc1 is no msgpack")
            (bad,) = await read(ben, 1)
            await ana.send(Line("ana", 3))
            (good,) = await read(ben, 1)
            assert isinstance(bad.data, BadPayload)
            assert (bad.data.raw, bad.raw) == (b"\xc1 is no msgpack",) * 2
            assert good.data == Line("ana", 3)
            assert ben.stats()["bad_payloads"] == 1
            assert await asyncio.gather(ana.ask(Line("?", 1), to=ben.me), answer_one(ben, Line("!", 2))) == [Line("!", 2), None]
            with pytest.raises(InvalidOption, match="this group carries bytes"):
                await raw.send("text")  # type: ignore[arg-type]
            await raw.send(bytearray(b"\x01"))

    world.run(story())


def test_any_call_may_be_awaited_while_reading(world: World, gathered: Any, read: Any, grown: Any) -> None:
    """A handler that sends, asks, creates, joins or leaves would wait for itself."""

    async def story() -> None:
        async with gathered(world, ("ana", "ben")) as (ana, ben):
            answering = asyncio.create_task(answer_one(ana, b"yes"))
            await ana.send(b"start")
            seen = []
            async for message in ben:
                seen.append(message.data)
                if message.data == b"start":
                    await ben.send(b"sent from a handler", reply_to=message.id)
                    await ben.send_many([b"a", b"b"])
                    assert await ben.ask(b"may I?", to=ana.me) == b"yes"
                    side = await ben._node.create("side")
                    await side.send(b"aside")
                    assert words(await read(side, 1)) == [b"aside"]
                    await side.leave()
                    async for nested in ben:
                        seen.append(nested.data)
                        if nested.data == b"a":
                            break
                if message.data == b"b":
                    await ben.leave()
            assert seen == [b"start", b"sent from a handler", b"a", b"b"]
            await answering

    world.run(story())
