"""Every public call, cancelled at every wait it makes: nothing is lost, nothing happens twice, and the node goes on.

A call is run again and again in the same world, cancelled at its first wait, its second, and so on until it comes through. At each wait
it is cancelled in two ways: while it waits, and at the very moment at which what it waits for has happened and it has not seen it yet.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeAlias

import pytest

from antiphon.api import Group, Letter, Message, MessageBatch, Node
from antiphon.errors import TimedOut
from antiphon.model.ids import MessageId, name_of
from antiphon.model.options import Settings
from antiphon.sim import NetworkModel
from antiphon.sim.network import Uniform
from antiphon.sim.world import World


class Interrupted:
    """Awaits a coroutine, and cancels the task that does so at the coroutine's `place`-th wait (counted from 1)."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], place: int, late: bool) -> None:
        self._coroutine, self._place, self._late = coroutine, place, late
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[Any], Any] = self._coroutine.send
        argument: Any = None
        while True:
            try:
                waited = step(argument)
            except StopIteration as stop:
                return stop.value
            self.waits += 1
            if self.waits == self._place:
                self._interrupt(waited)
            try:
                argument = yield waited
                step = self._coroutine.send
            except BaseException as error:
                argument, step = error, self._coroutine.throw

    def _interrupt(self, waited: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._late and asyncio.isfuture(waited):
            # Called before the task is told, because the task begins to listen after this.
            waited.add_done_callback(lambda _: task.cancel())
        else:
            asyncio.get_running_loop().call_soon(task.cancel)


class Interrupter:
    """Runs calls that are to be cancelled; says whether they were."""

    def __init__(self, place: int, late: bool) -> None:
        self.place, self.late = place, late
        self.hit = False
        self.result: Any = None

    async def __call__(self, coroutine: Coroutine[Any, Any, Any]) -> bool:
        """Whether the call was cancelled; its result is in `result` otherwise."""
        interrupted = Interrupted(coroutine, self.place, self.late)

        async def call() -> Any:
            return await interrupted

        task = asyncio.create_task(call())
        await asyncio.wait([task])
        self.hit = self.hit or interrupted.waits >= self.place
        if task.cancelled():
            assert self.hit
            return True
        self.result = task.result()
        return False


Story: TypeAlias = Callable[[World, Interrupter], Awaitable[None]]


async def pair(world: World, **options: Any) -> tuple[Group, Group]:
    ana, ben = world.node("ana"), world.node("ben")
    await ana.start()
    await ben.start()
    group = await ana.create("trip", **options)
    other = await ben.join(group.id)
    await members(group, 2)
    assert await world.settle("trip")
    return group, other


async def members(group: Group, count: int) -> None:
    changes = group.views()
    async with asyncio.timeout(60.0):
        while len(group.view.members) != count:
            await anext(changes)


async def rest(group: Group) -> list[bytes]:
    """Whatever can be read before it has been quiet for two seconds."""
    read: list[bytes] = []
    reader = aiter(group)
    while True:
        try:
            async with asyncio.timeout(2.0):
                message = await anext(reader)
        except TimeoutError:
            return read
        read.append(message.data)


async def well(world: World, *groups: Group) -> None:
    """The group works: everybody can send, everybody reads it, and no promise is broken."""
    for group in groups:
        await group.send(b"well, " + name_of(group.me).encode(), timeout=30.0)
    assert await world.settle("trip")
    assert world.check("trip") == []


# -- sending ---------------------------------------------------------------------------------------------------------------------


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
    answering = asyncio.create_task(_answer(ben, asked))
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
    answering = asyncio.create_task(_answer(ben, asked))
    cancelled = await interrupt(ana.ask(b"maybe"))
    assert cancelled or interrupt.result == {ben.me: b"heard maybe"}
    assert ana._questions._by_number == {}
    assert await ana.ask(b"sure") == {ben.me: b"heard sure"}
    answering.cancel()
    await well(world, ana, ben)


async def _answer(group: Group, asked: list[bytes]) -> None:
    async for message in group:
        if isinstance(message, Letter) and message.question:
            asked.append(message.data)
            await message.reply(b"heard " + message.data)


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


# -- reading ---------------------------------------------------------------------------------------------------------------------


async def _reading(world: World, interrupt: Interrupter, kind: str) -> None:
    ana, ben = await pair(world, order="total")
    await rest(ben)
    reader: Any = aiter(ben) if kind == "messages" else getattr(ben, kind)()
    speaking = asyncio.create_task(_speak(ana))
    heard: list[bytes] = []
    for _ in range(4):
        if not await interrupt(_next(reader)):
            heard += _data(interrupt.result)
    while len(heard) < 10:  # the same reader reads on: a cancelled read took nothing
        async with asyncio.timeout(30.0):
            heard += _data(await anext(reader))
    await speaking
    assert heard == [b"%d" % number for number in range(10)]
    await well(world, ana, ben)
    assert await rest(ben) == [b"well, ana", b"well, ben"]


async def _next(reader: Any) -> Any:
    return await anext(reader, None)


async def _speak(group: Group) -> None:
    for number in range(10):
        await asyncio.sleep(0.5)
        if number % 3:
            await group.send(b"%d" % number)
        else:
            group.try_send(b"%d" % number)


def _data(entry: Any) -> list[bytes]:
    if isinstance(entry, Message):
        return [entry.data]
    return [message.data for message in entry] if hasattr(entry, "payloads") else []


async def read_messages(world: World, interrupt: Interrupter) -> None:
    await _reading(world, interrupt, "messages")


async def read_batches(world: World, interrupt: Interrupter) -> None:
    await _reading(world, interrupt, "batches")


async def read_events(world: World, interrupt: Interrupter) -> None:
    await _reading(world, interrupt, "events")


async def read_views(world: World, interrupt: Interrupter) -> None:
    ana, ben = await pair(world)
    changes, sizes = ana.views(), []
    cleo = world.node("cleo")
    starting = asyncio.create_task(_start_and_join(cleo, ana))
    if not await interrupt(_next(changes)):
        sizes.append(len(interrupt.result.view.members))
    await starting
    await ben.leave()
    while len(sizes) < 2:
        async with asyncio.timeout(30.0):
            sizes.append(len((await anext(changes)).view.members))
    assert sizes == [3, 2]


async def _start_and_join(node: Node, group: Group) -> Group:
    await asyncio.sleep(0.5)
    await node.start()
    return await node.join(group.id)


async def discovered(world: World, interrupt: Interrupter) -> None:
    ana, ben = world.node("ana"), world.node("ben")
    await ana.start()
    await ben.start()
    stream, names = ben.discovered(), []

    async def found() -> None:
        for name in ("first", "second"):
            await asyncio.sleep(0.5)
            await ana.create(name)

    founding = asyncio.create_task(found())
    if not await interrupt(_next(stream)):
        names.append(interrupt.result.description)
    while len(names) < 2:
        async with asyncio.timeout(30.0):
            names.append((await anext(stream)).description)
    await founding
    assert names == ["first", "second"]


async def two_readers(world: World, interrupt: Interrupter) -> None:
    ana, ben = await pair(world)
    await rest(ben)
    heard: list[bytes] = []

    async def other() -> None:
        async for message in ben:
            heard.append(message.data)

    first = asyncio.create_task(interrupt(_next(aiter(ben))))
    await asyncio.sleep(0.1)
    reading = asyncio.create_task(other())
    await asyncio.sleep(0.1)
    await ana.send(b"0")
    await asyncio.sleep(1.0)
    assert first.done()
    assert heard == ([b"0"] if first.result() else [])  # one of the two has read it, though nothing came after it
    for number in range(1, 10):
        await ana.send(b"%d" % number)
    await ana.send_many([b"10", b"11", b"12"])
    await asyncio.sleep(2.0)
    await ben.leave()
    if not await first and interrupt.result is not None:
        heard.append(interrupt.result.data)
    await reading
    assert sorted(heard, key=int) == [b"%d" % number for number in range(13)]


# -- coming and going ------------------------------------------------------------------------------------------------------------


async def create(world: World, interrupt: Interrupter) -> None:
    ana, ben = world.node("ana"), world.node("ben")
    await ana.start()
    await ben.start()
    cancelled = await interrupt(ana.create("trip"))
    await asyncio.sleep(2.0)
    if cancelled:
        assert ana.groups() == []  # nobody holds a group of which its creator does not know
        group = await ana.create("trip")
    else:
        group = interrupt.result
    other = await ben.join("trip")
    await well(world, group, other)


async def _joining(world: World, interrupt: Interrupter, **choices: Any) -> None:
    ana, ben = world.node("ana"), world.node("ben")
    await ana.start()
    group = await ana.create("trip", state=lambda: b"state")
    reading = asyncio.create_task(_answer(group, []))
    await group.send(b"before")
    await ben.start()
    if choices.pop("known", False):
        await anext(ben.discovered())
    cancelled = await interrupt(ben.join("trip", **choices))
    if cancelled:
        await asyncio.sleep(1.0)
        await members(group, 1)
        assert not ben.core.memberships
        other = await ben.join("trip", **choices)
    else:
        other = interrupt.result
    await members(group, 2)
    assert other.view.members[-1] == other.me
    reading.cancel()
    await well(world, group, other)


async def join_what_is_known(world: World, interrupt: Interrupter) -> None:
    await _joining(world, interrupt, known=True)


async def join_by_name(world: World, interrupt: Interrupter) -> None:
    await _joining(world, interrupt)


async def join_at_an_address(world: World, interrupt: Interrupter) -> None:
    await _joining(world, interrupt, at=["ana"])


async def join_for_the_state(world: World, interrupt: Interrupter) -> None:
    await _joining(world, interrupt, history="state")


async def join_or_create(world: World, interrupt: Interrupter) -> None:
    ana = world.node("ana")
    await ana.start()
    if await interrupt(ana.join("trip", create=True, order="total")):
        await asyncio.sleep(2.0)
        assert not ana.core.memberships
        group = await ana.join("trip", create=True, order="total")
    else:
        group = interrupt.result
    await well(world, group)


async def leave(world: World, interrupt: Interrupter) -> None:
    ana, ben = await pair(world)
    await ben.send(b"last words")
    await interrupt(ben.leave())
    await members(ana, 1)  # cancelled or not, it leaves
    assert await ben.leave() == 0
    assert await rest(ana) == [b"last words"]
    await ana.send(b"alone")
    again = await ben._node.join("trip")
    await members(ana, 2)
    await well(world, ana, again)


async def close(world: World, interrupt: Interrupter) -> None:
    ana, ben = await pair(world)
    await ben.send(b"last words")
    await interrupt(ben._node.close())
    await ben._node.close()
    assert not world.alive("ben")
    await members(ana, 1)
    assert [message.data async for message in ben] == [b"last words"]
    async with world.node("ben") as node:
        again = await node.join("trip")
        await members(ana, 2)
        await well(world, ana, again)


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
    "read_messages": (read_messages, 1),
    "read_batches": (read_batches, 1),
    "read_events": (read_events, 1),
    "read_views": (read_views, 1),
    "discovered": (discovered, 1),
    "two_readers": (two_readers, 1),
    "create": (create, 1),
    "join_what_is_known": (join_what_is_known, 1),
    "join_by_name": (join_by_name, 2),
    "join_at_an_address": (join_at_an_address, 2),
    "join_for_the_state": (join_for_the_state, 2),
    "join_or_create": (join_or_create, 1),
    "leave": (leave, 1),
    "close": (close, 1),
    "send_outside": (send_outside, 1),
}
"""Every call, and how many waits it makes at least: fewer would mean that nothing was cancelled."""


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "woken"])
@pytest.mark.parametrize("name", STORIES)
def test_a_call_may_be_cancelled_at_any_time(name: str, late: bool, quick: Settings) -> None:
    """A time-out around any call would lose a message, send one twice, leave a half-joined group behind, or break the node."""
    story, least = STORIES[name]
    place = 0
    while True:
        place += 1
        interrupt = Interrupter(place, late)
        # Few private messages may be under way, so that those wait too.
        settings = Settings(**{field: getattr(quick, field) for field in quick.__struct_fields__} | {"private_messages": 2})
        world = World(seed=7, settings=settings)
        try:
            world.run(story(world, interrupt), limit_s=600.0)
        except BaseException as error:
            error.add_note(f"{name}, cancelled at wait {place}, {'woken' if late else 'waiting'}")
            raise
        if not interrupt.hit:
            break
    assert place > least


def test_a_join_is_given_up_at_the_moment_when_the_group_is_founded(quick: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node would be in a group that the program does not have, and could neither join it nor leave it."""

    def join(cancelled_at: int) -> int:
        """Which frame tells the node that it may found the group; the join is cancelled just before frame `cancelled_at` is taken."""
        world = World(seed=7, settings=quick)
        frames, telling = 0, 0

        async def story() -> None:
            ana, ben = world.node("ana"), world.node("ben")
            receive = ben._receive

            def watch(*arguments: Any) -> None:
                nonlocal frames, telling
                frames += 1
                if frames == cancelled_at:
                    joining.cancel()
                receive(*arguments)
                if ben.core.memberships and not telling:
                    telling = frames

            monkeypatch.setattr(ben, "_receive", watch)
            await ana.start()
            await ben.start()
            joining = asyncio.create_task(ben.join("trip", create=True, at=["ana"]))  # ana will answer that it knows no such group
            await asyncio.wait([joining])
            if cancelled_at:
                assert joining.cancelled()
                await asyncio.sleep(5.0)
                assert not ben.core.memberships
                await well(world, await ben.join("trip", create=True, at=["ana"]))

        world.run(story())
        return telling

    telling = join(0)
    assert telling > 0
    assert join(telling) == telling


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


def test_polling_a_quiet_group_keeps_nothing(quick: Settings) -> None:
    """A program that looks every second whether there is news would grow for ever."""
    world = World(seed=7, settings=quick)

    async def story() -> None:
        ana, ben = await pair(world)
        await rest(ben)
        reader = aiter(ben)
        for _ in range(100):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(reader), 0.01)
        assert len(ben._inbox._readers) == 0
        await ana.send(b"news")
        assert (await anext(reader)).data == b"news"

    world.run(story())
