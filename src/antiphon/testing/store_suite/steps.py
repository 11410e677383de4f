"""Steps of agents: what is published and how far the agent is belong together, whatever happens in between."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.errors import Conflict, Fenced, TooLarge
from antiphon.store.contract import Backend
from antiphon.store.records import Entry, Grant, Publication, Subscriber, TopicOptions
from antiphon.testing.store_suite.stage import (
    HOUR,
    Stage,
    check,
    entries,
    equal,
    everything,
    found,
    numbered,
    only,
    refused,
    texts,
    together,
)


async def agent(store: Backend) -> tuple[Subscriber, Grant, Grant]:
    """An agent that reads `in` and publishes to `out` and to the shared `log`."""
    source = await store.register("in", "p")
    await store.publish(source, 1, numbered("p", 1, 5))
    record = await store.subscribe("in", "agent", HOUR)
    return record, await store.register("out", "agent"), await store.register("log", "agent", options=TopicOptions(shared=True))


@check
async def a_step_publishes_and_goes_on(stage: Stage) -> None:
    """An agent would be done with a value without having said what follows from it, or the reverse."""
    store, other = await stage.open(), await stage.open()
    record, out, log = await agent(store)
    publications = [Publication(out, 1, entries("a", "b")), Publication(log, 1, entries("l")), Publication(out, 3, entries("c"))]
    fresh = await store.step(replace(record, position=1, state=b"one"), publications)
    equal("the agent", (fresh.position, fresh.state), (1, b"one"))
    equal("as others see it", await other.subscriber("in", "agent"), fresh)
    equal("out", texts(await everything(other, "out")), ["a", "b", "c"])
    equal("log", texts(await everything(other, "log")), ["l"])
    last = await store.step(replace(fresh, position=2, state=b"two"), [])
    equal("a step without publications", await other.subscriber("in", "agent"), last)


@check
async def a_step_done_again_publishes_nothing_twice(stage: Stage) -> None:
    """Killed after the step and before it knew, an agent would send the ambulance twice."""
    store, other = await stage.open(), await stage.open()
    record, out, log = await agent(store)
    step = replace(record, position=1, state=b"one")
    publications = [Publication(out, 1, entries("a")), Publication(log, 1, entries("l"))]
    fresh = await store.step(step, publications)
    for handle in (store, other):
        with refused("the same step again", Conflict):
            await handle.step(step, publications)
    equal("the agent", await other.subscriber("in", "agent"), fresh)
    fresh = await other.step(replace(fresh, position=2, state=b"two"), [Publication(out, 1, entries("a", "b"))])
    equal("out", texts(await everything(store, "out")), ["a", "b"])
    equal("log", texts(await everything(store, "log")), ["l"])


@check
async def a_step_cut_in_two_is_finished_by_its_repeat(stage: Stage) -> None:
    """Where a store has no transactions a step may stop between its parts: the repeat would write the first ones again, or none."""
    store, other = await stage.open(), await stage.open()
    record, out, log = await agent(store)
    publications = [Publication(out, 4, entries("a", "b")), Publication(log, 9, entries("l")), Publication(out, 6, entries("c"))]
    await store.publish(out, 4, entries("a"))
    await store.publish(log, 9, entries("l"))
    fresh = await other.step(replace(record, position=1), publications)
    equal("the agent", await store.subscriber("in", "agent"), fresh)
    equal("out", texts(await everything(store, "out")), ["a", "b", "c"])
    equal("log", texts(await everything(store, "log")), ["l"])


@check
async def a_step_of_a_fenced_agent_does_not_happen(stage: Stage) -> None:
    """An agent that was moved to another node would go on here as well."""
    store, other = await stage.open(), await stage.open()
    record, out, log = await agent(store)
    anew = await other.register("out", "agent")
    with refused("a step with an old grant", Fenced):
        await store.step(replace(record, position=1), [Publication(out, 1, entries("old"))])
    equal("the agent", await other.subscriber("in", "agent"), record)
    theirs = await other.update(replace(record, epoch=2))
    with refused("a step of an old subscriber", Conflict, Fenced):
        await store.step(replace(record, position=1), [Publication(log, 1, entries("same"))])
    equal("the agent", await other.subscriber("in", "agent"), theirs)
    await other.step(replace(theirs, position=1), [Publication(anew, 1, entries("new")), Publication(log, 1, entries("same"))])
    equal("out", texts(await everything(store, "out")), ["new"])
    equal("log", texts(await everything(store, "log")), ["same"])


@check
async def of_equal_steps_at_once_one_happens(stage: Stage) -> None:
    """Two nodes that both believe to run the agent would both be told that they did."""
    handles = [await stage.open() for _ in range(3)]
    record, out, log = await agent(handles[0])
    for number in range(1, 5):
        publications = [Publication(out, number, numbered("o", number, 1)), Publication(log, number, numbered("l", number, 1))]
        step = replace(record, position=number)
        done, errors = await together(*(handle.step(step, publications) for handle in handles))
        equal("how many succeeded", len(done), 1)
        only("the others", errors, Conflict)
        record = await found(handles[1], "in", "agent")
        equal("the agent", record, done[0])
    equal("out", texts(await everything(handles[2], "out")), [f"o/{number}" for number in range(1, 5)])
    equal("log", texts(await everything(handles[2], "log")), [f"l/{number}" for number in range(1, 5)])


@check
async def a_step_that_is_refused_leaves_the_agent_where_it_was(stage: Stage) -> None:
    """An agent whose publication is too large would lose the value that it was working on."""
    store = await stage.open()
    record, out, log = await agent(store)
    large = [Publication(log, 1, entries("l")), Publication(out, 1, [Entry(bytes(store.value_bytes + 1))])]
    with refused("a value that is too large", TooLarge):
        await store.step(replace(record, position=1), large)
    equal("the agent", await store.subscriber("in", "agent"), record)
    equal("out", await everything(store, "out"), [])
    await store.step(replace(record, position=1), [Publication(log, 1, entries("l"))])
    equal("log", texts(await everything(store, "log")), ["l"])
