"""Groups on a store, as programs see them: nodes that have a store in common and no network between them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import antiphon
import antiphon.sync
from antiphon.api import Group, Message, MessageBatch, ViewChange
from antiphon.errors import Fenced, InvalidOption, JoinFailed, NotInGroup, StoreUnreachable, TimedOut, TooLarge, UsageError
from antiphon.model.ids import MessageId, name_of
from antiphon.model.options import Settings
from antiphon.store.groups.register import Register
from antiphon.store.memory import MemoryBackend
from antiphon.store.settings import StoreSettings
from antiphon.store.store import Store
from antiphon.sync.store_group import StoreGroup


class Way:
    """A way to a store that can be cut: calls then fail, half of them after the store has done what was asked."""

    def __init__(self, backend: Any) -> None:
        self._backend, self._rng = backend, random.Random(3)
        self.cut = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._backend, name)
        if name in ("open", "close") or not asyncio.iscoroutinefunction(found):
            return found

        async def call(*arguments: Any, **more: Any) -> Any:
            self.check(self._rng.random() < 0.5)
            answer = await found(*arguments, **more)
            self.check(True)
            return _Reader(self, answer) if name == "reader" else answer

        return call

    def check(self, fails: bool) -> None:
        if self.cut and fails:
            raise StoreUnreachable(self._backend.url, "the way is cut")


class _Reader:
    def __init__(self, way: Way, reader: Any) -> None:
        self._way, self._reader = way, reader

    async def take(self, limit: int, timeout_s: float) -> Any:
        self._way.check(True)
        chunk = await self._reader.take(limit, min(timeout_s, 0.1))
        self._way.check(True)
        return chunk

    async def close(self) -> None:
        await self._reader.close()


class Field:
    """Nodes on one store, without a network between them."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self._folder, self._stack = folder, stack
        self.way_by_name: dict[str, Way] = {}

    async def node(self, name: str, *, outbox: bool = False, **settings: Any) -> antiphon.Node:
        backend = MemoryBackend(f"memory:{self._folder}")
        way = self.way_by_name[name] = Way(backend)
        patience = StoreSettings(retry_s=0.01, retry_max_s=0.05, outbox_s=0.1, timeout_s=10.0)
        file = self._folder / f"{name}.outbox" if outbox else None
        store = await self._stack.enter_async_context(Store(way, name=name, outbox=file, settings=patience))
        node = antiphon.Node(name, transport="memory", store=store, settings=Settings(**settings) if settings else None)
        return await self._stack.enter_async_context(node)


@pytest.fixture
def field(tmp_path: Path) -> Callable[[Callable[[Field], Awaitable[None]]], None]:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Field]:
        async with AsyncExitStack() as stack:
            yield Field(tmp_path, stack)

    def run(story: Callable[[Field], Awaitable[None]]) -> None:
        async def whole() -> None:
            async with opened() as place:
                await asyncio.wait_for(story(place), 90)

        asyncio.run(whole())

    return run


async def take(group: Group, count: int) -> list[Any]:
    """The next messages, as bytes or whatever they are."""
    found: list[Any] = []
    async with asyncio.timeout(60):
        async for message in group:
            found.append(message.data)
            if len(found) == count:
                break
    return found


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def people(group: Group) -> list[str]:
    return [name_of(member) for member in group.view.members]


def test_two_nodes_without_a_network_share_a_group(field: Any) -> None:
    """Groups on a store would need what they are there to do without."""

    async def story(place: Field) -> None:
        ana, ben = await place.node("ana"), await place.node("ben")
        here = await ana.create("root", on="store")
        changes = here.views()
        question = await here.send(b"Did you visit Delhi?")
        there = await ben.join("root", on="store")
        assert isinstance(there, Group)
        assert there.view.number == 2
        change = await asyncio.wait_for(anext(changes), 60)
        assert (isinstance(change, ViewChange), [name_of(member) for member in change.joined]) == (True, ["ben"])
        answer = await there.send(b"Yes", reply_to=question)
        await here.send(b"Both", after=[question, answer])
        await there.send_many([b"a", b"b"])
        for group in (here, there):
            messages: list[Message] = []
            async for message in group:
                assert isinstance(message, Message)
                messages.append(message)
                if len(messages) == 5:
                    break
            assert [message.data for message in messages] == [b"Did you visit Delhi?", b"Yes", b"Both", b"a", b"b"]
            assert messages[1].reply_to == question == messages[0].id
            assert messages[2].after == (question, answer)
            assert [message.recovered for message in messages] == [group is there, False, False, False, False]
            assert [message.data for message in group.history()] == [message.data for message in messages]
            assert group.why(question).state == "delivered"
            assert group.why(MessageId(group.me, 99)).state == "unknown"
            assert [message.data async for message in group.archived()] == [message.data for message in messages]  # type: ignore[attr-defined]
            assert group.options.order == "total"
        assert there.view == here.view
        assert [info.id for info in ana.groups()] == [here.id]
        assert ana.stats()["groups"][here.id]["sent"] == 2  # type: ignore[index]
        assert await here.leave() == 0
        await until(lambda: people(there) == ["ben"])
        assert ana.groups() == []
        with pytest.raises(NotInGroup):
            await here.send(b"too late")
        await there.leave()
        with pytest.raises(JoinFailed, match="no such group"):
            await ana.join("root", on="store")

    field(story)


def test_batches_and_events_are_in_the_order_of_the_store(field: Any) -> None:
    """An application that rebuilds its state from messages and views would rebuild another one at each node."""

    async def story(place: Field) -> None:
        nodes = [await place.node(name) for name in ("ana", "ben", "cleo")]
        groups = [await nodes[0].create("root", on="store")]
        groups += [await node.join("root", on="store") for node in nodes[1:]]
        await asyncio.gather(*(group.send_many([f"{group.me} {k} {i}".encode() for i in range(40)]) for k in range(5) for group in groups))
        late = await (await place.node("dan")).join("root", on="store", history="none")
        await late.send(b"end")

        async def story_of(group: Group) -> list[Any]:
            told: list[Any] = []
            async for event in group.events():
                if isinstance(event, ViewChange):
                    told.append((event.view.id, event.view.members))
                elif isinstance(event, MessageBatch):
                    told += [message.data for message in event]
                if told and told[-1] == b"end":
                    return told
            return told

        stories = [await asyncio.wait_for(story_of(group), 60) for group in groups]
        last = stories[2]
        for told in stories[:2]:
            assert told[-len(last) + 1 :] == last[1:], "from the third one's view on all are told the same"
        said = [entry for entry in stories[0] if isinstance(entry, bytes)]
        assert len(said) == len(set(said)) == 601
        assert (await story_of(late))[1:] == [b"end"]

    field(story)


def test_typed_messages_and_how_much_of_the_past(field: Any) -> None:
    """Half of what `join` takes would be ignored on a store."""

    class Line(msgspec.Struct):
        text: str

    async def story(place: Field) -> None:
        ana = await place.node("ana")
        group = await ana.create("root", on="store", type=Line, retention_s=60.0, silence_s=5.0)
        await group.send_many([Line(str(number)) for number in range(10)])
        with pytest.raises(UsageError, match="Line"):
            await group.send(b"bytes")
        everything = [str(number) for number in range(10)]
        for name, history, expected in (("b", "all", everything), ("c", "none", []), ("d", ("last", 3), ["9", "b", "c"])):
            node = await place.node(name)
            joined = await node.join("root", on="store", type=Line, history=history)
            await joined.send(Line(name))
            seen = await take(joined, len(expected) + 1)
            assert [line.text for line in seen] == [*expected, name]
            await joined.leave()
        info = await ana.store.topic(f"group/{group.id}").info()
        assert (info.options.shared, info.options.retention_s) == (True, 60.0)

    field(story)


def test_what_a_group_on_a_store_cannot_do_is_said(field: Any) -> None:
    """Somebody would wait for an answer that cannot come, or believe that an option holds."""

    async def story(place: Field) -> None:
        ana = await place.node("ana")
        for wrong, match in (
            ({"order": "causal"}, "order of the store"),
            ({"multicast": "tree"}, "no network"),
            ({"silence_s": 0}, "above 0"),
            ({"retention_s": True}, "above 0"),
            ({"state": bytes}, "state"),
        ):
            with pytest.raises(InvalidOption, match=match):
                await ana.create("root", on="store", **wrong)
        with pytest.raises(InvalidOption, match="'network', or 'store'"):
            await ana.create("root", on="moon")
        group = await ana.create("root", on="store", order="total")
        for history in ("state", ("since", 3.0)):
            with pytest.raises(InvalidOption, match="history"):
                await ana.join("another", on="store", history=history)
        with pytest.raises(UsageError, match="on a store"):
            await group.send(b"hello", to=group.me)
        with pytest.raises(UsageError, match="on a store"):
            await group.ask(b"hello?")
        with pytest.raises(UsageError, match="await send"):
            group.try_send(b"hello")
        with pytest.raises(TooLarge):
            await group.send(bytes(MemoryBackend.value_bytes))
        with pytest.raises(InvalidOption, match="carries bytes"):
            await group.send("text")
        assert await group.send_many([]) == []
        async with antiphon.Node("ben", transport="memory") as ben:
            with pytest.raises(UsageError, match="no store"):
                await ben.create("root", on="store")
            with pytest.raises(JoinFailed, match="this node has none"):
                await ben.create("trip", history_in="store")

    field(story)


def test_a_store_out_of_reach_and_an_outbox(field: Any) -> None:
    """What was sent while the store was away would be lost, repeated, or overtaken by what was sent later."""

    async def story(place: Field) -> None:
        ana, ben = await place.node("ana", outbox=True), await place.node("ben")
        here = await ana.create("root", on="store", silence_s=1.0)
        there = await ben.join("root", on="store")
        await here.send(b"before")
        await until(lambda: len(here.view.members) == 2)
        place.way_by_name["ana"].cut = True
        sent = [f"away {number}".encode() for number in range(20)]
        for text in sent:
            await here.send(text)
        await there.send(b"from ben")
        await until(lambda: people(there) == ["ben"])
        assert here.stats()["store_unreachable"] != 0
        place.way_by_name["ana"].cut = False
        await until(lambda: sorted(people(there)) == ["ana", "ben"] and here.view == there.view)
        await here.send(b"after")
        expected = {b"before", b"from ben", *sent, b"after"}
        stories = [await take(group, len(expected)) for group in (here, there)]
        assert stories[0] == stories[1], "one order"
        assert set(stories[0]) == expected, "each once"
        assert [text for text in stories[0] if text != b"from ben"] == [b"before", *sent, b"after"]

    field(story)


def test_a_node_joins_a_group_once(field: Any) -> None:
    """A node would be twice in its own view, and read everything twice."""

    async def story(place: Field) -> None:
        ana = await place.node("ana")
        outcomes = await asyncio.gather(*(ana.join("root", on="store", create=True) for _ in range(3)), return_exceptions=True)
        groups = [outcome for outcome in outcomes if isinstance(outcome, Group)]
        assert [str(outcome) for outcome in outcomes if not isinstance(outcome, Group)] == [
            "this node is joining root already: wait until that call returns"
        ] * 2
        for again in (ana.join("root", on="store"), ana.join(groups[0].id, on="store"), ana.create("root", on="store")):
            with pytest.raises(UsageError, match="this node is in root already: leave it first"):
                await again
        assert people(groups[0]) == ["ana"]
        await groups[0].leave()
        assert people(await ana.create("root", on="store")) == ["ana"]

    field(story)


def test_a_second_live_node_of_one_name_is_refused(field: Any) -> None:
    """Of two programs that were configured alike the second would be in the group beside the first, or take its place."""

    async def story(place: Field) -> None:
        first, second = await place.node("ana"), await place.node("ana")
        here = await first.create("root", on="store", silence_s=20.0)
        await here.send(b"one")
        with pytest.raises(JoinFailed, match=f"held by the live member {here.me}, until it leaves or has been silent for 20 s"):
            await second.join("root", on="store")
        with pytest.raises(JoinFailed, match="already: join it"):
            await second.create("root", on="store")
        await here.send(b"two")
        assert await take(here, 2) == [b"one", b"two"]
        assert people(here) == ["ana"]
        await here.leave()
        assert people(await second.create("root", on="store")) == ["ana"]

    field(story)


def test_a_node_that_was_replaced_cannot_send_any_more(field: Any) -> None:
    """A process that was suspended for a while would go on as a member, in whose place another is by now."""

    async def story(place: Field) -> None:
        ben = await place.node("ben")
        witness = await ben.create("root", on="store", silence_s=600.0)
        here = await (await place.node("ana")).join("root", on="store")
        cut = place.way_by_name["ana"]
        register = Register(ben.store.backend)
        async with asyncio.timeout(60):
            while (record := (await register.get("root")).record) is None or len(record.readers) < 2:
                await asyncio.sleep(0.01)
        cut.cut = True
        with pytest.raises(JoinFailed, match="has not answered yet: allow a longer time-out"):
            await (await place.node("ana")).join("root", on="store", timeout=0.5)
        there = await (await place.node("ana")).join("root", on="store")
        await until(lambda: people(witness) == ["ben", "ana"])
        assert here.me not in witness.view.members
        cut.cut = False
        with pytest.raises((Fenced, NotInGroup)):
            await here.send(b"from the past")
        await until(lambda: here.departed)
        with pytest.raises(NotInGroup, match=f"replaced by {there.me}"):
            await here.send(b"from the past")
        await there.send(b"now")
        assert await take(witness, 1) == [b"now"]

    field(story)


def test_leaving_says_what_is_still_in_the_outbox(field: Any) -> None:
    """Who leaves while the store is away would believe that everybody has its last words."""

    async def story(place: Field) -> None:
        ana = await place.node("ana", outbox=True)
        group = await ana.create("root", on="store")
        await group.send(b"in the store")
        await take(group, 1)
        place.way_by_name["ana"].cut = True
        await group.send_many([b"in", b"the", b"outbox"])
        with pytest.raises(TimedOut, match="goes on leaving"):
            await group.leave(timeout=0.3)
        leaving = asyncio.create_task(group.leave())
        await asyncio.sleep(0.1)
        group.abandon("the test is over")  # nobody answers: the node would do so when it is closed
        assert await leaving == 3

    field(story)


def test_a_store_out_of_reach_without_an_outbox(field: Any) -> None:
    """A program would hang for ever, or believe that its message was sent."""

    async def story(place: Field) -> None:
        ana, ben = await place.node("ana"), await place.node("ben")
        group = await ana.create("root", on="store")
        place.way_by_name["ana"].cut = True
        with pytest.raises(StoreUnreachable):
            await group.send(b"lost?", timeout=0.2)
        place.way_by_name["ben"].cut = True
        with pytest.raises(JoinFailed, match="cut"):
            await ben.join("root", on="store", timeout=0.3)
        place.way_by_name["ana"].cut = place.way_by_name["ben"].cut = False
        await group.send(b"after")
        said = await take(await ben.join("root", on="store"), 1)
        assert said in ([b"lost?"], [b"after"])
        assert [message.data async for message in group.archived()] in ([b"after"], [b"lost?", b"after"])  # type: ignore[attr-defined]

    field(story)


def test_a_slow_reader_keeps_little_in_memory_and_misses_nothing(field: Any) -> None:
    """One member that does not read would fill its memory, or stop the others."""

    async def story(place: Field) -> None:
        ana, ben = await place.node("ana"), await place.node("ben", inbox_messages=100)
        here = await ana.create("root", on="store")
        there = await ben.join("root", on="store")
        for round_ in range(60):
            await here.send_many([f"{round_} {number}".encode() * 10 for number in range(50)])
        await take(here, 3_000)
        assert int(str(there.stats()["inbox_messages"])) < 3_000
        assert len(set(await take(there, 3_000))) == 3_000

    field(story)


def test_cancelling_any_call_leaves_a_group_that_works(field: Any) -> None:
    """A time-out around one call would spoil the group for the rest of the program."""

    async def story(place: Field) -> None:
        ana, ben = await place.node("ana"), await place.node("ben")
        group = await ana.create("root", on="store")
        for delay in (0.0, 0.001, 0.002, 0.005):
            for call in (
                lambda: group.send(b"perhaps"),
                lambda: group.send_many([b"perhaps"] * 10),
                lambda: anext(aiter(group)),
                lambda: ben.join("root", on="store"),
            ):
                task = asyncio.ensure_future(call())
                await asyncio.sleep(delay)
                task.cancel()
                found = (await asyncio.gather(task, return_exceptions=True))[0]
                if isinstance(found, Group):
                    await found.leave()
        joined = await ben.join("root", on="store", history="none")
        await until(lambda: people(group) == ["ana", "ben"] == people(joined))
        await group.send(b"certainly")
        assert await take(joined, 1) == [b"certainly"]

    field(story)


def test_closing_the_node_leaves_the_group(tmp_path: Path) -> None:
    """Everybody else would have to wait until a node that was closed properly is silent for long enough."""

    async def story() -> None:
        url = f"sqlite:{tmp_path / 'field.db'}"
        async with antiphon.Node("ana", transport="memory", store=url) as ana:
            group = await ana.create("root", on="store")
            async with antiphon.Node("ben", transport="memory", store=url) as ben:
                await ben.join("root", on="store")
                await until(lambda: people(group) == ["ana", "ben"])
            await until(lambda: people(group) == ["ana"])
            backend = ana.store.backend
            assert len(await backend.records("group/")) == 1
        async with antiphon.Node("cleo", transport="memory", store=url) as cleo:
            with pytest.raises(JoinFailed, match="no such group"):
                await cleo.join("root", on="store")

    asyncio.run(asyncio.wait_for(story(), 60))


def test_without_async(tmp_path: Path) -> None:
    """Programs with threads could not use groups on a store."""
    url = f"memory:{tmp_path}"
    with antiphon.sync.Node("ana", transport="memory", store=url) as ana, antiphon.sync.Node("ben", transport="memory", store=url) as ben:
        here = ana.create("root", on="store")
        here.send(b"hello")
        there = ben.join("root", on="store")
        assert there.receive(timeout=60).data == b"hello" == here.receive(timeout=60).data
        assert isinstance(there, StoreGroup)
        there.send_many([b"%d" % number for number in range(2_000)])
        past = there.archived()
        assert [message.data for message in past] == [b"hello", *(b"%d" % number for number in range(2_000))]
        assert next(past, None) is None
        assert there.leave() == 0
