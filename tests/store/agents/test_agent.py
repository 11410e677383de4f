"""What an agent does with what its function says, with what it does not say, and with other nodes that want to run it too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import msgspec
import pytest

from antiphon.errors import InvalidName, InvalidOption, TopicTaken, UsageError
from antiphon.store import Gap, Store, StoreSettings, Value
from antiphon.store.agents import Agent, Outcome
from antiphon.store.agents.deciding import Decision
from antiphon.store.memory import MemoryBackend

_FRESH = count(1)
SETTINGS = StoreSettings(timeout_s=5.0, retry_s=0.001, retry_max_s=0.01, watch_s=0.05, clock_s=0.0, collect_s=0)


class Call(msgspec.Struct, frozen=True):
    place: str
    hurt: int = 0


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 30.0))


def fresh() -> str:
    return f"memory:agent{next(_FRESH)}"


def opened(url: str, name: str = "node") -> Store:
    return Store(MemoryBackend(url), name=name, settings=SETTINGS)


@asynccontextmanager
async def at_work(store: Store, *agents: Agent) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(store.run(agent)) for agent in agents]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():
        await asyncio.sleep(0.002)


async def done(store: Store, agent: Agent, position: int) -> None:
    async def holds() -> bool:
        record = await store.backend.subscriber(agent.topic, agent.subscriber)
        return record is not None and record.position == position

    await until(holds)


async def told(store: Store, name: str, kind: Any = None) -> list[Value]:
    topic = store.topic(name, type=kind)
    found = [await topic.at(seq) for seq in range(1, (await topic.info()).last + 1)]
    return [item for item in found if isinstance(item, Value)]


async def state_of(store: Store, agent: Agent) -> Any:
    record = await store.backend.subscriber(agent.topic, agent.subscriber)
    assert record is not None
    return agent.decode_state(msgspec.msgpack.decode(record.state, type=Decision).state)


def test_values_states_and_outputs_are_of_their_types() -> None:
    """A dispatcher would have to take apart bytes, and would find out in production that it takes them apart wrongly."""

    def dispatch(call: Value, hurt: dict[str, int]) -> Outcome:
        here: Call = call.data
        told: list[tuple[str, Any, str]] = [("cops", here.place, "")]
        return {**hurt, here.place: here.hurt}, told + ([("ambulance", here, here.place)] if here.hurt else [])

    async def story() -> None:
        agent = Agent("911", "crash", dispatch, {"cops": str, "ambulance": Call}, type=Call, state={}, state_type=dict[str, int])
        url = fresh()
        async with opened(url, "911") as before:
            await before.topic("ambulance").register(mutable=True)
        async with opened(url) as store, at_work(store, agent):
            crash = store.topic("crash", type=Call)
            await crash.publish_many([Call("A1"), Call("B2", 3)])
            await done(store, agent, 2)
            assert [value.data for value in await told(store, "cops", str)] == ["A1", "B2"]
            assert [(value.data, value.key) for value in await told(store, "ambulance", Call)] == [(Call("B2", 3), "B2")]
            assert await state_of(store, agent) == {"A1": 0, "B2": 3}
            assert (agent.stats.values, agent.stats.published, agent.stats.taken) == (2, 3, 1)

    run(story())


def test_keys_that_do_not_belong_are_put_aside() -> None:
    """An agent would write what every other publisher is refused: a key where nothing is replaced, or none where something is."""

    def dispatch(value: Value, state: bytes) -> Outcome:
        topic, _, key = value.data.decode().partition(" ")
        return state, [(topic, value.data, key)]

    async def story() -> None:
        agent, url = Agent("911", "crash", dispatch, ["log", "where"], attempts=1), fresh()
        async with opened(url, "911") as before:
            await before.topic("where").register(mutable=True)
        async with opened(url) as store, at_work(store, agent):
            await store.topic("crash").publish_many([b"log", b"log a", b"where", b"where a"])
            await done(store, agent, 4)
            assert [value.data for value in await told(store, "log")] == [b"log"]
            assert [value.data for value in await told(store, "where")] == [b"where a"]
            assert [value.data for value in await told(store, "911/failed")] == [b"log a", b"where"]

    run(story())


def test_a_value_that_cannot_be_done_is_put_aside_and_the_others_go_on() -> None:
    """One bad report would stop the emergency line, or vanish; or half of what it did to the state would stay."""
    asked: list[bytes] = []

    def dispatch(value: Value, state: list[str]) -> Outcome:
        asked.append(value.data)
        state.append(value.data.decode())
        if value.data == b"bad":
            raise ValueError("no such street")
        if value.data == b"once" and asked.count(b"once") == 1:
            raise OSError("try again")
        return state, [("cops", value.data)]

    async def story() -> None:
        agent = Agent("911", "crash", dispatch, ["cops"], state=[], state_type=list[str])
        async with opened(fresh()) as store, at_work(store, agent):
            await store.topic("crash").publish_many([b"a", b"bad", b"once", b"b"])
            await done(store, agent, 4)
            assert [value.data for value in await told(store, "cops")] == [b"a", b"once", b"b"]
            assert [(value.data, value.key) for value in await told(store, "911/failed")] == [(b"bad", "2 ValueError: no such street")]
            assert await state_of(store, agent) == ["a", "once", "b"]
            assert asked == [b"a", b"bad", b"bad", b"bad", b"once", b"once", b"b"]
            assert (agent.stats.failed, agent.stats.retries) == (1, 3)

    run(story())


def nothing(value: Value, state: Any) -> Any:
    return None


def elsewhere(value: Value, state: Any) -> Outcome:
    return state, [("fire", b"x")]


def untyped(value: Value, state: Any) -> Outcome:
    return state, [("cops", "text")]


def too_large(value: Value, state: Any) -> Outcome:
    return state, [("cops", bytes(MemoryBackend.value_bytes + 1))]


def too_many(value: Value, state: Any) -> Outcome:
    return state, [("cops", b"x")] * 10_001


def no_state(value: Value, state: Any) -> Outcome:
    return 7, []


def long_key(value: Value, state: Any) -> Outcome:
    return state, [("cops", b"x", "k" * 257)]


async def for_ever(value: Value, state: Any) -> Outcome:
    await asyncio.Event().wait()
    return state, []


async def waits_for_what_is_cancelled(value: Value, state: Any) -> Outcome:
    lost = asyncio.create_task(asyncio.sleep(60.0))
    lost.cancel()
    await lost
    return state, []


class Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError("what was wrong cannot be said")

    __repr__ = __str__


def speechless(value: Value, state: Any) -> Outcome:
    raise Speechless


@pytest.mark.parametrize(
    "function",
    [
        *(nothing, elsewhere, untyped, too_large, too_many, no_state, long_key, for_ever),
        *(waits_for_what_is_cancelled, speechless),
    ],
)
def test_an_outcome_that_makes_no_sense_is_a_failure(function: Any) -> None:
    """What cannot be published would stop the agent for ever, or be left out in silence."""

    async def story() -> None:
        agent = Agent("911", "crash", function, ["cops"], attempts=2, timeout_s=0.01)
        async with opened(fresh()) as store, at_work(store, agent) as [task]:
            await store.topic("crash").publish(b"a")
            await done(store, agent, 1)
            assert [value.data for value in await told(store, "911/failed")] == [b"a"]
            assert await told(store, "cops") == []
            assert await state_of(store, agent) == b""
            assert not task.done()

    run(story())


def test_a_value_of_another_type_is_a_failure() -> None:
    """One program that speaks an older language would take the dispatcher down."""

    async def story() -> None:
        agent = Agent("911", "crash", elsewhere, type=Call)
        async with opened(fresh()) as store, at_work(store, agent):
            await store.topic("crash").publish(b"\xc1")
            await done(store, agent, 1)
            assert [value.data for value in await told(store, "911/failed")] == [b"\xc1"]
            assert agent.stats.retries == 0

    run(story())


def test_what_was_gone_before_it_was_read_is_told() -> None:
    """A report that its publisher took back would leave no trace with those who were to act on it."""

    def count_gap(gap: Gap, state: int) -> Outcome:
        return state + 100 * (gap.last - gap.first + 1), []

    def count_value(value: Value, state: int) -> Outcome:
        return state + 1, []

    async def story() -> None:
        url = fresh()
        deaf, heedful = Agent("deaf", "crash", count_value, state=0), Agent("heedful", "crash", count_value, state=0, gap=count_gap)
        async with opened(url) as store:
            crash = store.topic("crash")
            await crash.publish_many([b"1", b"2", b"3", b"4"])
            assert await crash.erase([2, 3]) == 2
            async with at_work(store, deaf, heedful):
                for agent, state in ((deaf, 2), (heedful, 202)):
                    await done(store, agent, 4)
                    assert agent.stats.missed == 2
                    assert await state_of(store, agent) == state

    run(story())


def test_who_leaves_hands_it_over_at_once() -> None:
    """A planned restart would cost as much time as a crash."""

    async def story() -> None:
        url = fresh()
        first, second = (Agent("911", "crash", elsewhere, ["fire"], silence_s=86_400.0) for _ in range(2))
        async with opened(url, "caller") as caller, opened(url, "north") as north, opened(url, "south") as south:
            crash = caller.topic("crash")
            async with at_work(north, first):
                await crash.publish(b"1")
                await done(caller, first, 1)
                waiting = asyncio.create_task(south.run(second))
                await asyncio.sleep(0.01)
                assert second.stats.taken == 0
            await crash.publish(b"2")
            await done(caller, second, 2)
            assert (first.stats.values, second.stats.values) == (1, 1)
            assert len(await told(caller, "fire")) == 2
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    run(story())


def test_two_that_both_believe_to_run_it() -> None:
    """A node that does not know that it was replaced would do half of the work a second time."""

    async def story() -> None:
        url = fresh()
        # Each finds the other silent at once, whatever it does.
        agents = [Agent("911", "crash", elsewhere, ["fire"], silence_s=0.000_001) for _ in range(2)]
        async with (
            opened(url, "caller") as caller,
            opened(url, "north") as north,
            opened(url, "south") as south,
            at_work(north, agents[0]),
            at_work(south, agents[1]),
        ):
            for number in range(1, 31):
                await caller.topic("crash").publish(b"%d" % number)
                await asyncio.sleep(0.02)
            await done(caller, agents[0], 30)
            assert len(await told(caller, "fire")) == 30
            assert sum(agent.stats.taken for agent in agents) > 2
            assert sum(agent.stats.fenced for agent in agents) > 0

    run(story())


def test_an_output_of_somebody_else_is_refused() -> None:
    """An agent would take the topic away from its publisher, or wait for it without a word."""

    async def story() -> None:
        url = fresh()
        async with opened(url, "fire brigade") as brigade, opened(url) as store:
            await brigade.topic("fire").publish(b"ours")
            with pytest.raises(TopicTaken):
                await store.run(Agent("911", "crash", elsewhere, ["fire"]))
            assert await store.backend.get("agents/911") is None

    run(story())


def test_an_agent_that_begins_again_under_its_name_is_refused() -> None:
    """Everything it says would be taken for a repeat of what it had said before, and dropped in silence."""

    async def story() -> None:
        url = fresh()
        async with opened(url) as store:
            await store.topic("crash").publish_many([b"1", b"2", b"3"])
            agent = Agent("911", "crash", elsewhere, ["fire"])
            async with at_work(store, agent):
                await done(store, agent, 3)
            await store.topic("flood").publish(b"1")
            with pytest.raises(UsageError, match="another name"):
                await store.run(Agent("911", "flood", elsewhere, ["fire"]))

    run(story())


def test_a_state_of_another_type_is_refused() -> None:
    """After a careless deployment every value would be put aside as a failure."""

    async def story() -> None:
        async with opened(fresh()) as store:
            await store.topic("crash").publish_many([b"1", b"2"])
            agent = Agent("911", "crash", elsewhere, ["fire"], state="text")
            async with at_work(store, agent):
                await done(store, agent, 2)
            await store.topic("crash").publish(b"3")
            with pytest.raises(UsageError, match="another type"):
                await store.run(Agent("911", "crash", elsewhere, ["fire"], state=7))
            record = await store.backend.subscriber("crash", "agent/911")
            assert record is not None
            assert record.position == 2

    run(story())


def test_it_ends_when_the_store_is_closed() -> None:
    """A program would not come to its end because of an agent."""

    async def story() -> None:
        store = await opened(fresh()).open()
        task = asyncio.create_task(store.run(Agent("911", "crash", elsewhere, ["fire"])))
        await store.topic("crash").publish(b"1")
        await asyncio.sleep(0.05)
        await store.close()
        await task

    run(story())


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"name": ""}, InvalidName),
        ({"topic": " x"}, InvalidName),
        ({"function": 3}, InvalidOption),
        ({"outputs": "cops"}, InvalidOption),
        ({"outputs": ["crash"]}, InvalidOption),
        ({"outputs": ["911/failed"]}, InvalidOption),
        ({"lease": -1.0}, InvalidOption),
        ({"attempts": 0}, InvalidOption),
        ({"timeout_s": float("nan")}, InvalidOption),
        ({"silence_s": 0.0}, InvalidOption),
        ({"state": 3, "state_type": str}, UsageError),
    ],
)
def test_bad_options(options: dict[str, Any], error: type[Exception]) -> None:
    """A mistake in the definition of an agent would show when it is too late."""
    given: dict[str, Any] = {"name": "911", "topic": "crash", "function": elsewhere, "outputs": ["fire"], **options}
    with pytest.raises(error):
        Agent(**given)
