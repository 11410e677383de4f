"""Cancelling and closing: a call that is given up is done or not done, never half, and the next one works.

What was on its way to a server when it was given up may still happen a little later: the checks that go by what they have just read read
again where somebody, which can only be that call, was faster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from antiphon.errors import AntiphonError, Conflict
from antiphon.store.contract import Backend
from antiphon.store.records import Publication, Subscriber, TopicOptions
from antiphon.testing.store_suite.stage import (
    FOREVER_S,
    HOUR,
    PATIENCE_S,
    Stage,
    check,
    entries,
    equal,
    everything,
    found,
    holds,
    numbered,
    only,
    refused,
    seqs,
    texts,
)

Answer = TypeVar("Answer")

TURNS = (0, 1, 2, 3, 5, 8)
PAUSES_S = (0.0002, 0.001, 0.003, 0.01)


async def given_up(call: Coroutine[Any, Any, object], turns: int, pause_s: float = 0.0) -> None:
    """Begins the call, lets it go on for a few turns of the event loop or a while, and cancels it."""
    task = asyncio.ensure_future(call)
    for _ in range(turns):
        await asyncio.sleep(0)
    if pause_s:
        await asyncio.sleep(pause_s)
    task.cancel()
    outcome = (await asyncio.gather(task, return_exceptions=True))[0]
    if isinstance(outcome, Exception) and not isinstance(outcome, Conflict):
        raise outcome


async def again(call: Callable[..., Awaitable[Answer]], *arguments: object) -> Answer:
    """What comes of it when what was given up before has happened or not."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await call(*arguments)
            except Conflict:
                await asyncio.sleep(0.01)


def moments() -> Iterator[tuple[int, int, float]]:
    """When to cancel, counted from 1."""
    at = 0
    for turns in TURNS:
        yield (at := at + 1), turns, 0.0
    for pause_s in PAUSES_S:
        yield (at := at + 1), 1, pause_s


@check
async def a_publish_given_up_is_whole_or_nothing(stage: Stage) -> None:
    """A program that stops waiting would leave half a batch, or a store that does not answer any more."""
    store, other = await stage.open(), await stage.open()
    grant = await store.register("t", "p")
    number = 1
    for _, turns, pause_s in moments():
        await given_up(store.publish(grant, number, numbered("p", number, 3)), turns, pause_s)
        there = seqs(await everything(other, "t"))
        holds(f"whole batches: {len(there)}", len(there) in (number - 1, number + 2))
        receipt = await store.publish(grant, number, numbered("p", number, 3))
        equal("the receipt of the repeat", (receipt.first, receipt.last), (number, number + 2))
        number += 3
    equal("what is there", texts(await everything(other, "t")), [f"p/{n}" for n in range(1, number)])


@check
async def a_registration_given_up_can_be_made_again(stage: Stage) -> None:
    """A topic would be taken by somebody who does not know it."""
    store = await stage.open()
    number = 1
    for at, turns, pause_s in moments():
        await given_up(store.register("t", "p"), turns, pause_s)
        await given_up(store.register(f"t{at}", "p", options=TopicOptions(shared=True)), turns, pause_s)
        grant = await store.register("t", "p")
        equal("the newest own number", grant.number, number - 1)
        await store.publish(grant, number, numbered("p", number, 1))
        await given_up(store.release(grant), turns, pause_s)
        number += 1
        grant = await store.register(f"t{at}", "p", options=TopicOptions(shared=True))
        await store.publish(grant, 1, entries("v"))
    equal("what is there", texts(await everything(store, "t")), [f"p/{n}" for n in range(1, number)])


@check
async def a_subscriber_given_up_is_as_it_was_or_as_it_should_be(stage: Stage) -> None:
    """A continuation would have a new position and an old state."""
    store, other = await stage.open(), await stage.open()
    await store.subscribe("t", "s", HOUR)
    for at, turns, pause_s in moments():
        before = await found(store, "t", "s")
        wanted = replace(before, position=at, state=b"%d" % at, marks=((at + 2, at + 3),))
        await given_up(store.update(wanted), turns, pause_s)
        after = await found(other, "t", "s")
        holds("old or new", after == before or replace(after, revision=0) == replace(wanted, revision=0))
        await again(renewed, store, at)
        await given_up(store.subscribe("t", f"s{at}", HOUR), turns, pause_s)
        try:
            made = await store.subscribe("t", f"s{at}", HOUR)
        except Conflict:
            made = await found(store, "t", f"s{at}")
        await given_up(store.unsubscribe(made), turns, pause_s)
        await store.unsubscribe(made)
        equal("gone", await other.subscriber("t", f"s{at}"), None)
    equal("the list", [one.id for one in await other.subscribers("t")], ["s"])


@check
async def a_step_given_up_is_finished_by_its_repeat(stage: Stage) -> None:
    """An agent that is stopped in a step would do it twice, or half."""
    store, other = await stage.open(), await stage.open()
    record = await store.subscribe("in", "agent", HOUR)
    one, two = await store.register("one", "agent"), await store.register("two", "agent")
    last = 0
    for at, turns, pause_s in moments():
        step = replace(record, position=at, state=b"%d" % at)
        publications = [Publication(one, at, numbered("a", at, 1)), Publication(two, at, numbered("a", at, 1))]
        await given_up(store.step(step, publications), turns, pause_s)
        holds("the agent is before or after the step", (await found(other, "in", "agent")).position in (at - 1, at))
        record = await again(stepped, store, step, publications)
        last = at
    for topic in ("one", "two"):
        equal(topic, texts(await everything(other, topic)), [f"a/{number}" for number in range(1, last + 1)])


@check
async def a_record_given_up_is_old_or_new(stage: Stage) -> None:
    """A group record would be lost because somebody closed a window."""
    store, other = await stage.open(), await stage.open()
    for at, turns, pause_s in moments():
        before = await other.get("k")
        await given_up(store.put("k", b"%d" % at, before.revision if before else 0), turns, pause_s)
        after = await other.get("k")
        holds("old or new", after == before or (after is not None and after.data == b"%d" % at))
        if after is not None and at % 2:
            await given_up(store.remove("k", after.revision), turns, pause_s)
            left = await other.get("k")
            holds("as it was, or gone", left in (after, None) or (left is not None and left.data == b"%d" % at))
        latest = await other.get("k")
        await given_up(store.watch("k", latest.revision if latest else 0, FOREVER_S), turns, pause_s)
        await given_up(store.records(""), turns, pause_s)
        await given_up(store.get("k"), turns, pause_s)


@check
async def erasing_and_collecting_given_up_can_be_done_again(stage: Stage) -> None:
    """The floor would be above what is there, or below what is gone."""
    store, other = await stage.open(), await stage.open()
    grant = await store.register("t", "p")
    record = await store.subscribe("t", "s", HOUR)
    number = 1
    for _, turns, pause_s in moments():
        await store.publish(grant, number, numbered("p", number, 4))
        await given_up(store.erase(grant, [number + 1]), turns, pause_s)
        await store.erase(grant, [number + 1])
        record = await store.update(replace(record, position=number + 2))
        await given_up(store.collect("t", await store.time()), turns, pause_s)
        collected = await other.collect("t", await other.time())
        equal("the floor", collected.floor, number + 2)
        equal("what is there", seqs(await everything(other, "t")), [number + 3])
        looks = (store.info("t"), store.topics(), store.subscribers("t"), store.subscriber("t", "s"), store.time(), store.reader("t", 0))
        for call in looks:
            await given_up(call, turns, pause_s)
        number += 4


@check
async def closing_ends_what_waits(stage: Stage) -> None:
    """A program that wants to end would hang for as long as nobody publishes."""
    store, other = await stage.open(), await stage.open()
    grant = await other.register("t", "p")
    readers = [await store.reader("t", 0) for _ in range(2)]
    waiting: list[asyncio.Future[object]] = [asyncio.ensure_future(reader.take(1, FOREVER_S)) for reader in readers]
    waiting.append(asyncio.ensure_future(store.watch("k", 0, FOREVER_S)))
    await asyncio.sleep(0.05)
    holds("they wait", not any(one.done() for one in waiting))
    await store.close()
    done, pending = await asyncio.wait(waiting, timeout=PATIENCE_S)
    for one in pending:
        one.cancel()
    equal("still waiting", len(pending), 0)
    only("what they were told", [error for one in done if isinstance(error := one.exception(), Exception)], AntiphonError)
    await other.publish(grant, 1, entries("others go on"))
    equal("what is there", texts(await everything(other, "t")), ["others go on"])


@check
async def a_closed_store_says_so(stage: Stage) -> None:
    """A call on a closed store would hang, or fail with something nobody can catch by name."""
    store = await stage.open()
    grant = await store.register("t", "p")
    await closed(store)
    for call in (store.time(), store.info("t"), store.publish(grant, 1, entries("a")), store.get("k"), store.subscribe("t", "s", HOUR)):
        with refused("a call after close", AntiphonError):
            await call
    fresh = await stage.open()
    equal("what is there", await everything(fresh, "t"), [])


async def renewed(store: Backend, at: int) -> Subscriber:
    return await store.update(replace(await found(store, "t", "s"), position=at, state=b"%d" % at))


async def stepped(store: Backend, step: Subscriber, publications: Sequence[Publication]) -> Subscriber:
    there = await found(store, "in", "agent")
    return there if there.position == step.position else await store.step(replace(step, revision=there.revision), publications)


async def closed(store: Backend) -> None:
    await store.close()
    await store.close()
