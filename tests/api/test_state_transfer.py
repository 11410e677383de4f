"""A newcomer's state and the messages after it are together what the provider has, wherever the provider's application is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from talk import members

import antiphon
import antiphon.sync
from antiphon.api import Group
from antiphon.errors import JoinFailed, TimedOut
from antiphon.model.events import MissedMessages
from antiphon.model.ids import name_of
from antiphon.sim.world import World
from antiphon.testing import QUICK

ORDERS = ["unordered", "fifo", "causal", "total", "semantic"]
WAIT_S = 30.0


class Counter:
    """A replicated counter: adds up what it reads."""

    def __init__(self) -> None:
        self.total = 0
        self.asked = 0
        self.group: Any = None

    def state(self) -> bytes:
        self.asked += 1
        return b"%d" % self.total

    def begin(self, group: Any) -> None:
        self.group = group
        self.total = int(group.state or b"0")

    async def read(self, count: int) -> None:
        """Reads so many messages and no more."""
        async for message in self.group if count else _nothing():
            self.total += int(message.data)
            count -= 1
            if not count:
                break

    async def read_until(self, total: int) -> None:
        """Reads until the total is reached, and makes sure that nothing goes beyond it."""
        reader = aiter(self.group)
        async with asyncio.timeout(WAIT_S):
            while self.total < total:
                self.total += int((await anext(reader)).data)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                self.total += int((await anext(reader)).data)
        assert self.total == total


async def _nothing() -> AsyncIterator[Any]:
    return
    yield


@asynccontextmanager
async def on_loopback(*names: str) -> AsyncIterator[list[Any]]:
    """Real nodes over TCP."""
    async with AsyncExitStack() as stack:
        nodes: list[Any] = []
        for name in names:
            options: dict[str, Any] = {"transport": "tcp", "bind": "127.0.0.1:0", "settings": QUICK}
            seeds = [node.address for node in nodes]
            nodes.append(await stack.enter_async_context(antiphon.Node(name, seeds=seeds, **options)))
        yield nodes


def run(where: str, story: Callable[..., Any], *names: str) -> None:
    """Runs a story with nodes of these names, in virtual time or on loopback."""
    if where == "world":
        world = World(seed=7, settings=QUICK)

        async def virtually() -> None:
            async with AsyncExitStack() as stack:
                await story(*[await stack.enter_async_context(world.node(name)) for name in names])

        world.run(virtually())
        for group in ("sum",):
            assert world.check(group) == []
    else:

        async def really() -> None:
            async with asyncio.timeout(2 * WAIT_S), on_loopback(*names) as nodes:
                await story(*nodes)

        asyncio.run(really())


BOTH = pytest.mark.parametrize("where", ["world", "loopback"])
ALL = pytest.mark.parametrize("order", ORDERS)


@BOTH
@ALL
@pytest.mark.parametrize("handed", [0, 7, 20])
def test_a_provider_that_does_not_read_gives_its_state_and_what_it_has_not_read(where: str, order: str, handed: int) -> None:
    """A replicated counter would begin at 0 at a newcomer, and be wrong for ever, because the provider was not reading just then."""

    async def story(one: Any, other: Any) -> None:
        ana, ben = Counter(), Counter()
        ana.begin(await one.create("sum", order=order, state=ana.state))
        for number in range(1, 21):
            await ana.group.send(b"%d" % number)
        async with asyncio.timeout(WAIT_S):
            while ana.group.stats()["delivered"] < 20:
                await asyncio.sleep(0.01)
        await ana.read(handed)  # in the middle of a batch, and then not any more
        ben.begin(await other.join("sum", at=[one.address], history="state", timeout=WAIT_S))
        assert ben.total == ana.total == handed * (handed + 1) // 2
        await ana.group.send(b"1000")
        await ben.group.send(b"2000")
        await ben.read_until(210 + 3000)
        await ana.read_until(210 + 3000)

    run(where, story, "ana", "ben")


@BOTH
@ALL
def test_a_slow_reader_under_load_gives_a_state_that_fits(where: str, order: str) -> None:
    """What is in the provider's inbox would be counted twice at the newcomer, or not at all, while others go on sending."""

    async def story(one: Any, two: Any, other: Any) -> None:
        ana, cleo, ben = Counter(), Counter(), Counter()
        ana.begin(await one.create("sum", order=order, state=ana.state))
        cleo.begin(await two.join("sum", at=[one.address]))
        await members(ana.group, 2)
        done = asyncio.Event()

        async def speak(group: Group) -> None:
            for _ in range(150):
                await group.send(b"1")
                await asyncio.sleep(0.002)

        async def read_slowly() -> None:
            async for message in ana.group:
                await asyncio.sleep(0.01)  # applies it only later
                ana.total += int(message.data)
                if done.is_set():
                    break

        speaking = [asyncio.create_task(speak(counter.group)) for counter in (ana, cleo)]
        reading = asyncio.create_task(read_slowly())
        await asyncio.sleep(0.1)
        ben.begin(await other.join("sum", at=[one.address], history="state", timeout=WAIT_S))
        assert 0 < ben.total < 300
        await asyncio.gather(*speaking)
        await ben.read_until(300)
        done.set()
        await reading
        await ana.read_until(300)

    run(where, story, "ana", "cleo", "ben")


@BOTH
def test_a_provider_inside_of_a_handler_is_waited_for(where: str) -> None:
    """The state would be taken while a message is half applied: it is neither in the state nor among what follows."""

    async def story(one: Any, other: Any) -> None:
        ana, ben, go_on = Counter(), Counter(), asyncio.Event()
        ana.begin(await one.create("sum", order="total", state=ana.state))

        async def handle() -> None:
            async for message in ana.group:
                await go_on.wait()
                ana.total += int(message.data)

        handling = asyncio.create_task(handle())
        await ana.group.send(b"5")
        await ana.group.send(b"6")
        await asyncio.sleep(0.1)
        joining = asyncio.create_task(other.join("sum", at=[one.address], history="state", timeout=WAIT_S))
        await asyncio.sleep(1.0)
        assert not joining.done()
        assert ana.asked == 0
        go_on.set()
        ben.begin(await joining)
        assert ben.total in (5, 11)
        await ben.read_until(11)
        handling.cancel()

    run(where, story, "ana", "ben")


@BOTH
def test_a_handler_that_never_ends_fails_the_join_with_the_reason(where: str) -> None:
    """A newcomer would wait for ever, or begin without a state and not know."""

    async def story(one: Any, other: Any) -> None:
        ana = Counter()
        ana.begin(await one.create("sum", state=ana.state))
        await ana.group.send(b"5")
        reader = aiter(ana.group)
        await anext(reader)
        with pytest.raises(JoinFailed, match="ana: its application has not given it yet: it is handling a message"):
            await other.join("sum", at=[one.address], history="state")
        del reader  # the reader is gone: what it was handed is applied
        ben = await other.join("sum", at=[one.address], history="state", timeout=WAIT_S)
        assert ben.state == b"0"

    run(where, story, "ana", "ben")


@BOTH
def test_a_reader_that_breaks_off_while_the_state_is_wanted(where: str) -> None:
    """A loop that is left with `break`, or a task that ends, would look like a handler that never returns."""

    async def story(one: Any, other: Any) -> None:
        ana, ben, go_on = Counter(), Counter(), asyncio.Event()
        ana.begin(await one.create("sum", state=ana.state))
        for number in (1, 2, 3):
            await ana.group.send(b"%d" % number)

        async def handle_one() -> None:
            async for message in ana.group:
                await go_on.wait()
                ana.total += int(message.data)
                break

        handling = asyncio.create_task(handle_one())
        await asyncio.sleep(0.1)
        joining = asyncio.create_task(other.join("sum", at=[one.address], history="state", timeout=WAIT_S))
        await asyncio.sleep(0.5)
        go_on.set()
        await handling
        ben.begin(await joining)
        assert ben.total == 1
        await ben.read_until(6)

    run(where, story, "ana", "ben")


async def _by_wait_for(reader: Any) -> Any:
    return await asyncio.wait_for(anext(reader), WAIT_S)


async def _by_gather(reader: Any) -> Any:
    return (await asyncio.gather(anext(reader)))[0]


async def _by_task(reader: Any) -> Any:
    task = asyncio.create_task(anext(reader))
    try:
        await asyncio.wait({task})
    finally:
        task.cancel()
    return task.result()


async def _by_task_group(reader: Any) -> Any:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(anext(reader))
    return task.result()


async def _by_helper(reader: Any) -> Any:
    async def read() -> Any:
        return await anext(reader)

    return await asyncio.wait_for(read(), WAIT_S)


async def _by_timeout(reader: Any) -> Any:
    async with asyncio.timeout(WAIT_S):
        return await anext(reader)


@BOTH
@pytest.mark.parametrize("take", [_by_wait_for, _by_gather, _by_task, _by_task_group, _by_helper, _by_timeout])
def test_a_message_read_in_a_task_of_its_own_is_in_the_state(where: str, take: Callable[[Any], Any]) -> None:
    """The task that reads has ended before the message is applied: the state would be given without it, and nobody would know."""

    async def story(one: Any, other: Any) -> None:
        ana, ben, go_on = Counter(), Counter(), asyncio.Event()
        ana.begin(await one.create("sum", order="total", state=ana.state))

        async def handle() -> None:
            reader = aiter(ana.group)
            while True:
                message = await take(reader)
                await go_on.wait()
                ana.total += int(message.data)

        handling = asyncio.create_task(handle())
        await ana.group.send(b"5")
        await asyncio.sleep(0.1)
        joining = asyncio.create_task(other.join("sum", at=[one.address], history="state", timeout=WAIT_S))
        await asyncio.sleep(1.0)
        assert not joining.done()
        assert ana.asked == 0
        go_on.set()
        ben.begin(await joining)
        assert ben.total == 5
        await ana.group.send(b"7")
        await ben.read_until(12)
        handling.cancel()

    run(where, story, "ana", "ben")


@BOTH
def test_a_task_that_ended_with_a_message_and_never_came_back_fails_the_join(where: str) -> None:
    """A message that was passed on is applied nobody knows when: a state that is given meanwhile may lack it."""

    async def story(one: Any, other: Any) -> None:
        ana = Counter()
        ana.begin(await one.create("sum", state=ana.state))
        await ana.group.send(b"5")
        reader = aiter(ana.group)
        await asyncio.create_task(_by_timeout(reader))
        with pytest.raises(JoinFailed, match=r"ana: .*is done with a message when the task or thread that read it reads the same iterator"):
            await other.join("sum", at=[one.address], history="state")
        assert ana.asked == 0
        joining = asyncio.create_task(other.join("sum", at=[one.address], history="state", timeout=WAIT_S))
        await asyncio.sleep(0.5)
        reading = asyncio.create_task(_by_timeout(reader))  # it comes back, in another task
        assert (await joining).state == b"0"
        reading.cancel()

    run(where, story, "ana", "ben")


@BOTH
@pytest.mark.parametrize("shared", [False, True], ids=["an iterator each", "one iterator"])
def test_while_one_of_two_readers_handles_a_message_no_state_is_given(where: str, shared: bool) -> None:
    """The state would lack what the other reader is still applying, because this one comes back, or comes to the request in the stream."""

    async def story(one: Any, other: Any) -> None:
        ana, ben, go_on = Counter(), Counter(), asyncio.Event()
        ana.begin(await one.create("sum", order="total", state=ana.state))
        first = aiter(ana.group)
        second = first if shared else aiter(ana.group)

        async def handle_slowly() -> None:
            async for message in first:
                await go_on.wait()
                ana.total += int(message.data)

        async def handle() -> None:
            async for message in second:
                ana.total += int(message.data)

        slow = asyncio.create_task(handle_slowly())
        await asyncio.sleep(0.1)
        await ana.group.send(b"5")
        await asyncio.sleep(0.1)
        fast = asyncio.create_task(handle())
        joining = asyncio.create_task(other.join("sum", at=[one.address], history="state", timeout=WAIT_S))
        await asyncio.sleep(0.5)
        for _ in range(5):
            await ana.group.send(b"100")
            await asyncio.sleep(0.2)
        assert not joining.done()
        assert (ana.asked, ana.total) == (0, 500)
        go_on.set()
        ben.begin(await joining)
        assert ben.total == 505
        await ben.read_until(505)
        slow.cancel()
        fast.cancel()

    run(where, story, "ana", "ben")


@BOTH
def test_one_member_of_many_gives_a_state(where: str) -> None:
    """A newcomer that asks a few members only would miss the one that has a state."""

    async def story(*nodes: Any) -> None:
        ana, ben = Counter(), Counter()
        ana.begin(await nodes[0].create("sum", state=ana.state))
        for node in nodes[1:-1]:
            await node.join("sum", at=[nodes[0].address])
        await members(ana.group, len(nodes) - 1)
        await ana.group.send(b"7")
        await ana.read(1)
        for _ in range(3):
            ben.begin(await nodes[-1].join("sum", at=[nodes[0].address], history="state", timeout=WAIT_S))
            assert ben.total == 7
            await ben.group.leave()

    run(where, story, *(f"n{number}" for number in range(8)))


@BOTH
def test_a_callback_that_fails_is_reported_and_another_member_is_asked(where: str, caplog: pytest.LogCaptureFixture) -> None:
    """A mistake in one program would keep newcomers out of the group, or let them begin without a state."""

    async def story(one: Any, two: Any, other: Any) -> None:
        def broken() -> bytes:
            raise ZeroDivisionError("no state today")

        ana = await one.create("sum", state=broken)
        cleo = await two.join("sum", at=[one.address], state=lambda: b"42")
        await members(ana, 2)
        for _ in range(4):
            ben = await other.join("sum", at=[one.address], history="state", timeout=WAIT_S)
            assert ben.state == b"42"
            await ben.leave()
        await cleo.leave()
        with pytest.raises(JoinFailed, match="ana: its state callback raised ZeroDivisionError: no state today"):
            await other.join("sum", at=[one.address], history="state", timeout=WAIT_S)

    run(where, story, "ana", "cleo", "ben")
    assert "no state today" in caplog.text


@pytest.mark.parametrize("wrong", [None, "text", {"a": 1}, bytes(5_000)], ids=["none", "text", "dict", "too large"])
def test_a_callback_that_gives_no_bytes_is_named(wrong: Any) -> None:
    """The newcomer would fail, or take something else for the state."""
    world = World(seed=7, settings=antiphon.Settings(state_bytes=1_000))

    async def story() -> None:
        async with world.node("ana") as one, world.node("ben") as other:
            await one.create("sum", state=lambda: wrong)
            with pytest.raises(JoinFailed, match=r"ana: .*(returned None|returned str|returned dict|state_bytes)"):
                await other.join("sum", at=[one.address], history="state")

    world.run(story())


@ALL
@pytest.mark.parametrize("seed", range(4))
def test_the_provider_crashes_in_the_middle_and_another_is_asked(order: str, seed: int) -> None:
    """A newcomer would put two halves together, wait for the dead, or begin without a state."""
    world = World(seed=seed, settings=QUICK)

    async def story() -> None:
        async with world.node("ana") as one, world.node("cleo") as two, world.node("dan") as three, world.node("ben") as other:
            counters = [Counter() for _ in range(3)]
            counters[0].begin(await one.create("sum", order=order, state=lambda: b"%d|" % counters[0].total + bytes(300_000)))
            for counter, node in zip(counters[1:], (two, three), strict=True):

                def state(counter: Counter = counter) -> bytes:
                    return b"%d|" % counter.total + bytes(300_000)

                counter.begin(await node.join("sum", state=state))
            await members(counters[0].group, 3)
            for number in range(30):
                await counters[number % 3].group.send(b"1")
            await asyncio.sleep(1.0)
            await counters[0].read(10)  # each is somewhere else in its stream
            await counters[1].read(20)
            joining = asyncio.create_task(other.join("sum", history="state", timeout=WAIT_S))
            await asyncio.sleep(0.25 + seed / 50)
            world.crash("cleo" if seed % 2 else "dan")
            joined = await joining
            total = int(joined.state.partition(b"|")[0])
            assert total in (0, 10, 20)
            async with asyncio.timeout(WAIT_S):
                async for message in joined:
                    total += int(message.data)
                    if total == 30:
                        break
            assert await world.settle("sum")

    world.run(story())
    assert world.check("sum") == []


def test_when_all_that_had_the_state_have_gone_the_join_fails() -> None:
    """A newcomer that is left alone in a group would take itself for one that begins with an empty state."""
    world = World(seed=3, settings=QUICK)

    async def story() -> None:
        async with world.node("ana") as one, world.node("ben") as other:
            group = await one.create("sum", state=lambda: bytes(50_000_000))
            joining = asyncio.create_task(other.join(group.id, at=[one.address], history="state", timeout=60.0))
            async with asyncio.timeout(WAIT_S):
                while len(group.view.members) < 2:
                    await asyncio.sleep(0.001)
            world.crash("ana")
            with pytest.raises(JoinFailed, match="no member gives its state"):
                await joining

    world.run(story())


@ALL
def test_nothing_is_missed_when_the_provider_keeps_less_than_it_has_not_read(order: str) -> None:
    """What waits in the provider's inbox may be older than its history: the newcomer would be told of a gap right after its state."""
    world = World(seed=5, settings=antiphon.Settings(history_messages=64))

    async def story() -> None:
        async with world.node("ana") as one, world.node("ben") as other:
            ana, ben = Counter(), Counter()
            ana.begin(await one.create("sum", order=order, state=ana.state))
            for _ in range(5):
                await ana.group.send_many([b"1"] * 100)
            ben.begin(await other.join("sum", at=[one.address], history="state", timeout=WAIT_S))
            assert ben.total == 0
            events = ben.group.events()
            async with asyncio.timeout(WAIT_S):
                while ben.total < 500:
                    event = await anext(events)
                    assert not isinstance(event, MissedMessages)
                    if isinstance(event, antiphon.MessageBatch):
                        ben.total += len(event)
            assert ben.total == 500

    world.run(story())
    assert world.check("sum") == []


# -- without await -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["never", "receive", "loop", "break"])
def test_the_same_without_await(how: str) -> None:
    """A program without async that does other things for a while would give no state, or a wrong one."""
    options: dict[str, Any] = {"transport": "tcp", "bind": "127.0.0.1:0", "settings": QUICK}
    with antiphon.sync.Node("ana", **options) as one, antiphon.sync.Node("ben", seeds=[one.address], **options) as other:
        total, threads = 0, set()

        def state() -> bytes:
            threads.add(threading.current_thread().name)
            return b"%d" % total

        here = one.create("sum", order="total", state=state)
        here.send_many([b"%d" % number for number in range(1, 21)])
        if how == "receive":
            for _ in range(5):
                total += int(here.receive(timeout=WAIT_S).data)
            joined: list[Any] = []
            joining = threading.Thread(target=lambda: joined.append(other.join("sum", at=[one.address], history="state", timeout=WAIT_S)))
            joining.start()
            joining.join(0.5)
            assert not joined, "this thread may still be applying what it received"
            total += int(here.receive(timeout=WAIT_S).data)  # it comes back
            joining.join(WAIT_S)
            (there,) = joined
            assert int(there.state) == 15
            assert threads == {threading.current_thread().name}
        else:
            if how == "loop":

                def read() -> None:
                    nonlocal total
                    for message in here:
                        total += int(message.data)

                threading.Thread(target=read, daemon=True, name="reader").start()
            elif how == "break":
                for message in here:
                    total += int(message.data)
                    if total == 15:
                        break
            there = other.join("sum", at=[one.address], history="state", timeout=WAIT_S)
            expected = {"never": (0,), "break": (15,), "loop": tuple(number * (number + 1) // 2 for number in range(21))}[how]
            assert int(there.state) in expected
        mine = int(there.state)
        here.send(b"1000")
        while mine < 1210:
            mine += int(there.receive(timeout=WAIT_S).data)
        assert mine == 1210
        with pytest.raises(TimedOut):
            there.receive(timeout=0.3)
        assert name_of(there.me) == "ben"
