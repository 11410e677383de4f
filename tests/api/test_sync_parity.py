"""`antiphon.sync` has what the asynchronous API has: the same names, the same parameters, the same behaviour."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import Struct

import antiphon.sync
from antiphon.api import group as api_group
from antiphon.api import message as api_message
from antiphon.api.archived_group import ArchivedGroup as ApiArchivedGroup
from antiphon.api.node import Node as ApiNode
from antiphon.api.store_group import StoreGroup as ApiStoreGroup
from antiphon.errors import InvalidOption, NotInGroup, SendRefused, TimedOut, TooLarge, UnknownParent, UsageError
from antiphon.model.ids import MessageId, name_of
from antiphon.runtime.node import Node as AsyncNode
from antiphon.sync.archived_group import ArchivedGroup as SyncArchivedGroup
from antiphon.sync.group import Group as SyncGroup
from antiphon.sync.letter import Letter as SyncLetter
from antiphon.sync.node import Node as SyncNode
from antiphon.sync.store_group import StoreGroup as SyncStoreGroup

# What a node and its groups call of each other, and what is for those who look inside.
INSIDE_NODE = {
    *("core", "now", "submit", "submit_many", "submit_to", "ask", "reply", "close_question", "provide_state"),
    *("pause", "resume", "leave", "remember", "forget", "explain"),
}
INSIDE_GROUP = {"ready", "caught_up", "stable", "departed", "abandon", "deliver", "take"}
ONLY_SYNC_GROUP = {"receive"}
RENAMED = {"__aenter__": "__enter__", "__aexit__": "__exit__", "__aiter__": "__iter__"}
PAIRS: list[tuple[type, type, set[str], set[str]]] = [
    (AsyncNode, SyncNode, INSIDE_NODE, set()),
    (api_group.Group, SyncGroup, INSIDE_GROUP, ONLY_SYNC_GROUP),
    (ApiStoreGroup, SyncStoreGroup, INSIDE_GROUP | {"info"}, ONLY_SYNC_GROUP),
    (ApiArchivedGroup, SyncArchivedGroup, INSIDE_GROUP, ONLY_SYNC_GROUP),
    (api_message.Letter, SyncLetter, set(), set()),
]


def face(kind: type) -> set[str]:
    """The public names of a class, with those that its constructor sets, and the special ones that have a counterpart."""
    written = {name for name in dir(kind) if not name.startswith("_") or name in RENAMED or name in RENAMED.values()}
    source = "".join(inspect.getsource(each) for each in kind.__mro__ if each.__module__.startswith("antiphon"))
    return written | {name for name in ("name", "id", "me", "options", "state") if f"self.{name} = " in source or f"self.{name}:" in source}


@pytest.mark.parametrize(("asynchronous", "synchronous", "inside", "only"), PAIRS, ids=lambda value: getattr(value, "__name__", ""))
def test_every_name_is_in_both(asynchronous: type, synchronous: type, inside: set[str], only: set[str]) -> None:
    """Somebody who moves a program from one to the other would find half of it missing."""
    assert inside <= face(asynchronous), "what is left out on purpose must exist"
    wanted = {RENAMED.get(name, name) for name in face(asynchronous) - inside}
    assert face(synchronous) - only == wanted


@pytest.mark.parametrize(("asynchronous", "synchronous", "inside", "only"), PAIRS, ids=lambda value: getattr(value, "__name__", ""))
def test_every_call_takes_the_same(asynchronous: type, synchronous: type, inside: set[str], only: set[str]) -> None:
    """A parameter that is called otherwise, or has another default, would change what a program does when it is moved."""
    compared = 0
    for name in face(asynchronous) - inside:
        theirs, ours = inspect.getattr_static(asynchronous, name, None), inspect.getattr_static(synchronous, RENAMED.get(name, name), None)
        if inspect.isfunction(theirs):
            assert ours is not None, name
            assert parameters(ours) == parameters(theirs), name
            assert not inspect.iscoroutinefunction(ours), name
            compared += 1
    assert compared


def test_a_node_is_made_with_the_same() -> None:
    """An argument such as the credentials would be missing where it matters most."""
    assert parameters(SyncNode.__init__) == parameters(AsyncNode.__init__)
    assert issubclass(AsyncNode, ApiNode)


def parameters(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]


def test_a_message_is_the_same_object_in_both() -> None:
    """Code that works on messages could not be shared."""
    assert antiphon.sync.Letter.reply is not api_message.Letter.reply
    assert issubclass(antiphon.sync.Letter, api_message.Letter)


# -- one story, told twice -----------------------------------------------------------------------------------------------------


class Line(Struct):
    text: str


END = object()


class Awaited:
    """Calls of the asynchronous API."""

    node = AsyncNode

    async def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        outcome = function(*arguments, **options)
        return await outcome if inspect.isawaitable(outcome) else outcome

    def read(self, group: Any) -> Any:
        return aiter(group)

    async def next(self, iterator: Any) -> Any:
        async with asyncio.timeout(20):
            return await anext(iterator, END)


class Waited:
    """The same calls of the synchronous one, from other threads, so that two may wait at once."""

    node = SyncNode

    async def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        return await asyncio.to_thread(function, *arguments, **options)

    def read(self, group: Any) -> Any:
        return iter(group)

    async def next(self, iterator: Any) -> Any:
        async with asyncio.timeout(20):
            return await asyncio.to_thread(next, iterator, END)


Way = Awaited | Waited


@asynccontextmanager
async def nodes(way: Way, *names: str) -> AsyncIterator[list[Any]]:
    opened = [way.node(name, transport="memory") for name in names]
    try:
        for node in opened:
            await way.call(node.start)
        yield opened
    finally:
        for node in reversed(opened):
            await way.call(node.close)


@asynccontextmanager
async def pair(way: Way, **options: Any) -> AsyncIterator[tuple[Any, Any, Any, Any]]:
    """Two nodes, and their memberships in one group."""
    async with nodes(way, "ana", "ben") as (ana, ben):
        here = await way.call(ana.create, "trip", **options)
        there = await way.call(ben.join, here.id, at=[ana.address], timeout=20)
        yield ana, ben, here, there


async def conversation(way: Way) -> list[Any]:
    async with pair(way, order="semantic") as (ana, _, here, there):
        question = await way.call(here.send, b"Did you visit Delhi?")
        reading = way.read(there)
        first = await way.next(reading)
        seen: list[Any] = [(first.data, first.reply_to, name_of(first.sender), first.private, first.id == question)]
        seen.append((await way.call(there.why, question)).state)
        seen.append(await way.call(there.send, b"Yes", reply_to=first.id) == MessageId(there.me, 1))
        seen.append([each.seqno for each in await way.call(here.send_many, [b"one", b"two", b"three"], timeout=20)])
        seen.append(await way.call(here.try_send, b"four") == MessageId(here.me, 5))
        seen.append(sorted([(await way.next(reading)).data for _ in range(5)]))
        batch = await way.next(here.batches())
        seen.append((type(batch).__name__, batch[0].data))
        seen.append(sorted(message.data for message in await way.call(there.history)))
        asked = asyncio.create_task(way.call(here.ask, b"hungry?", there.me, timeout=20))
        letter = await way.next(reading)
        seen.append((letter.data, letter.private, name_of(letter.sender), bool(letter.question)))
        await way.call(letter.reply, b"very")
        seen.append(await asked)
        await way.call(here.send, b"psst", to=there.me)
        whisper = await way.next(reading)
        seen += [whisper.data, str(await raised(UsageError, way, whisper.reply, b"what?"))]
        stats = await way.call(here.stats)
        seen += [stats["sent"], stats["members"], sorted(stats), sorted(await way.call(ana.stats))]
        seen.append(await way.call(there.leave, timeout=20))
        seen.append(await way.next(reading) is END)
    return seen


async def groups_and_views(way: Way) -> list[Any]:
    async with nodes(way, "ana", "ben") as (ana, ben):
        here = await way.call(ana.create, "trip", description="two friends", open=True)
        heard = await way.next(await way.call(ben.discovered))
        seen: list[Any] = [(name_of(heard.id), heard.description, heard.options), ben.name, ben.address != ana.address]
        seen.append(await way.call(ben.send_outside, here.id, b"from outside"))
        seen.append((await way.next(way.read(here))).data)
        changes = await way.call(here.views)
        there = await way.call(ben.join, heard.id, history="none", timeout=20)
        change = await way.next(changes)
        seen += [[name_of(member) for member in change.joined], change.left, changes.missed, len(there.view.members)]
        seen += [there.name, name_of(there.me), there.id == here.id, there.options == here.options, repr(there)]
        seen.append([type(await way.next(there.events())).__name__])
        other = await way.call(ana.create, "other")
        while not any(info.id == other.id for info in await way.call(ben.groups)):
            await way.call(ben.advertise)
            await asyncio.sleep(0.02)
        await way.call(ben.reject, other.id)
        seen.append(sorted(name_of(info.id) for info in await way.call(ben.groups)))
        typed = await way.call(ana.create, "typed", type=Line)
        await way.call(typed.send, Line("hello"))
        seen.append((await way.next(way.read(typed))).data)
        await way.call(ben.abandon, "it crashed")
        seen.append(str(await raised(NotInGroup, way, there.send, b"gone")))
    return seen


async def state_for_a_newcomer(way: Way) -> list[Any]:
    async with nodes(way, "ana", "ben") as (ana, ben):
        told = []
        here = await way.call(ana.create, "trip", state=lambda: b" ".join(told))
        await way.call(here.send_many, [b"one", b"two"])
        reading = way.read(here)
        told += [(await way.next(reading)).data for _ in range(2)]
        joining = asyncio.create_task(way.call(ben.join, here.id, at=[ana.address], history="state", timeout=20))
        waiting = asyncio.create_task(way.next(reading))  # the state is given by a member that reads
        there = await joining
        await way.call(there.send, b"three")
        return [there.state, (await waiting).data]


async def refusals(way: Way) -> list[Any]:
    early = way.node("early", transport="memory")
    seen = [await raised(UsageError, way, early.create, "trip")]
    async with pair(way, order="semantic") as (ana, ben, here, there):
        sent = await way.call(here.send, b"first")
        typed = await way.call(ana.create, "typed", type=Line)
        seen += [
            await raised(InvalidOption, way, here.send, "text"),
            await raised(UnknownParent, way, here.send, b"", reply_to=MessageId(here.me, 99)),
            await raised(TooLarge, way, here.send, bytes(ana.settings.message_bytes + 1)),
            await raised(UsageError, way, here.send, b"", reply_to=sent, to=there.me),
            await raised(TimedOut, way, here.ask, b"anybody?", there.me, timeout=0.01),
            await raised(InvalidOption, way, ana.create, "other", order="sideways"),
            await raised(InvalidOption, way, ben.join, "other", order="total"),
            await raised(SendRefused, way, ben.send_outside, "nowhere", b""),
            await raised(TimedOut, way, ben.join, "nowhere", timeout=0.01),
            await raised(UsageError, way, typed.send, b"bytes"),
        ]
        await way.call(there.leave, timeout=20)
        seen += [await raised(NotInGroup, way, there.send, b"late"), await raised(UsageError, way, ben.start)]
    seen.append(await raised(UsageError, way, ana.create, "late"))
    names = {here.me: "ana", there.me: "ben"}
    return [(type(error).__name__, str(error).replace(here.me, names[here.me]).replace(there.me, names[there.me])) for error in seen]


async def raised(kind: type[Exception], way: Way, function: Callable[..., Any], *arguments: Any, **options: Any) -> Exception:
    with pytest.raises(kind) as caught:
        await way.call(function, *arguments, **options)
    return caught.value


@pytest.mark.parametrize("story", [conversation, groups_and_views, state_for_a_newcomer, refusals], ids=lambda story: story.__name__)
def test_a_story_is_the_same_in_both(story: Callable[[Way], Coroutine[Any, Any, list[Any]]]) -> None:
    """The two would drift apart, and a script would behave otherwise than the server that it was copied from."""
    awaited, waited = asyncio.run(story(Awaited())), asyncio.run(story(Waited()))
    assert waited == awaited
    assert len(awaited) > 1


def test_the_state_is_what_the_reader_had_read() -> None:
    """A newcomer would be given a state that knows of more, or of less, than what it stands for."""
    assert asyncio.run(state_for_a_newcomer(Waited())) == [b"one two", b"three"]
