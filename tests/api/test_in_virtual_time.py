"""Everything a user does with nodes and groups, on a simulated network that loses nothing, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import Struct, structs

from antiphon.api import BadPayload, Group, Letter, Message, MessageBatch, ViewChange
from antiphon.debugger.rule import Rule
from antiphon.errors import (
    InvalidOption,
    JoinFailed,
    NotAMember,
    NotInGroup,
    TimedOut,
    TooLarge,
    UnknownParent,
    UsageError,
    WouldBlock,
)
from antiphon.model.events import Stabilised, Synchronised
from antiphon.model.ids import MessageId, name_of
from antiphon.model.options import Settings
from antiphon.sim.world import World


def words(messages: list[Message]) -> list[bytes]:
    return [message.data for message in messages]


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
            assert await asyncio.gather(ana.ask(Line("?", 1), to=ben.me), _answer_one(ben, Line("!", 2))) == [Line("!", 2), None]
            with pytest.raises(InvalidOption, match="this group carries bytes"):
                await raw.send("text")  # type: ignore[arg-type]
            await raw.send(bytearray(b"\x01"))

    world.run(story())


async def _answer_one(group: Group, answer: object) -> None:
    async for message in group:
        if isinstance(message, Letter):
            await message.reply(answer)
            return


@pytest.mark.parametrize(
    ("history", "expected"),
    [("all", "0123456789"), ("none", ""), (("last", 3), "789"), (("since", 0.55), "6789")],
)
def test_what_a_newcomer_wants_of_the_past(world: World, read: Any, history: Any, expected: str) -> None:
    """A newcomer would be given everything that was ever said, or nothing when it needs it."""

    async def story() -> None:
        async with world.node("ana") as one, world.node("ben") as other:
            ana = await one.create("trip")
            start = world.now
            assert start < 0.05
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
    """A newcomer would wait for a state for ever."""

    async def story() -> None:
        async with world.node("ana") as one, world.node("ben") as other:
            await one.create("trip")
            ben = await other.join((await anext(other.discovered())).id, history="state", timeout=30.0)
            assert ben.state is None

    world.run(story())


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


def test_any_call_may_be_awaited_while_reading(world: World, gathered: Any, read: Any, grown: Any) -> None:
    """A handler that sends, asks, creates, joins or leaves would wait for itself."""

    async def story() -> None:
        async with gathered(world, ("ana", "ben")) as (ana, ben):
            answering = asyncio.create_task(_answer_one(ana, b"yes"))
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


def test_an_open_group_takes_messages_from_outside(world: World, gathered: Any, read: Any) -> None:
    """A sensor would have to read everything only to say something."""

    async def story() -> None:
        async with gathered(world, ("ana", "ben"), open=True) as (ana, ben), world.node("cleo") as cleo:
            await anext(cleo.discovered())
            assert await cleo.send_outside("trip", b"from outside") == 1
            (heard,) = await read(ana, 1)
            assert (heard.data, name_of(heard.sender)) == (b"from outside", "cleo")
            assert words(await read(ben, 1)) == [b"from outside"]
            with pytest.raises(JoinFailed):
                await cleo.send_outside("nowhere", b"x")

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
