"""Subscribers: where they begin, how their record changes, who may change it."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from antiphon.errors import Conflict, InvalidOption
from antiphon.store.records import Subscriber, TopicOptions
from antiphon.testing.store_suite.stage import (
    HOUR,
    Stage,
    check,
    equal,
    everything,
    found,
    holds,
    numbered,
    only,
    refused,
    seqs,
    together,
    until,
)


@check
async def a_subscriber_is_kept_as_it_is(stage: Stage) -> None:
    """A subscriber that comes back would find another state or position than it left."""
    store, other = await stage.open(), await stage.open()
    grant = await store.register("t", "p")
    await store.publish(grant, 1, numbered("p", 1, 9))
    fresh = await store.subscribe("t", "s", HOUR, start=2)
    fields = (fresh.topic, fresh.id, fresh.lease, fresh.position, fresh.marks, fresh.state, fresh.epoch)
    equal("a new subscriber", fields, ("t", "s", HOUR, 2, (), b"", 1))
    equal("as another sees it", await other.subscriber("t", "s"), fresh)
    place = (await everything(store, "t"))[4].place
    changed = replace(fresh, lease=77, position=5, marks=((7, 7), (9, 12)), state=bytes(range(256)), epoch=9, place=place)
    kept = await store.update(changed)
    holds("the revision is another", kept.revision != fresh.revision)
    equal("what the update says", replace(kept, revision=0), replace(changed, revision=0))
    equal("as another sees it", await other.subscriber("t", "s"), kept)
    equal("in the list", await other.subscribers("t"), [kept])
    equal("one that is not there", await other.subscriber("t", "nobody"), None)


@check
async def subscribers_are_listed_by_id(stage: Stage) -> None:
    """The list would be another each time, or show the subscribers of other topics."""
    store = await stage.open()
    for topic in ("t", "tt"):
        await store.subscribe(topic, "s", HOUR)
    for name in ("z", "a", "m.1", "m", "M"):
        await store.subscribe("t", name, HOUR)
    listed = await store.subscribers("t")
    equal("ids", [one.id for one in listed], ["M", "a", "m", "m.1", "s", "z"])
    equal("topics", {one.topic for one in listed}, {"t"})
    equal("topics that are there", [topic.name for topic in await store.topics()], ["t", "tt"])


@check
async def a_subscriber_begins_where_it_says(stage: Stage) -> None:
    """A new subscriber would miss what it asked for, or be flooded with what it did not."""
    store = await stage.open()
    equal("before anything", (await store.subscribe("t", "first", HOUR, start="latest")).position, 0)
    grant = await store.register("t", "p")
    await store.publish(grant, 1, numbered("p", 1, 9))
    equal("earliest", (await store.subscribe("t", "earliest", HOUR)).position, 0)
    equal("latest", (await store.subscribe("t", "latest", HOUR, start="latest")).position, 9)
    equal("number", (await store.subscribe("t", "number", HOUR, start=4)).position, 4)
    equal("zero", (await store.subscribe("t", "zero", HOUR, start=0)).position, 0)
    one = await store.subscribe("t", "last", HOUR, start=9)
    equal("the newest number", (one.position, seqs(await everything(store, "t", one.position))), (9, []))


@check
async def nobody_begins_below_the_floor(stage: Stage) -> None:
    """A new subscriber would wait for values that are gone, and hold up the collector for ever."""
    store, other = await stage.open(), await stage.open()
    grant = await store.register("t", "p")
    await store.publish(grant, 1, numbered("p", 1, 9))
    await store.subscribe("t", "done", HOUR, start=6)
    await other.collect("t", await store.time())
    for name, start, wanted in (("a", "earliest", 6), ("b", 0, 6), ("c", 3, 6), ("d", 6, 6), ("e", 7, 7), ("f", "latest", 9)):
        one = await store.subscribe("t", name, HOUR, start=start)  # type: ignore[arg-type]
        equal(f"start={start}", one.position, wanted)
        equal("what it reads", seqs(await everything(other, "t", one.position)), list(range(wanted + 1, 10)))


@check
async def an_id_is_given_once(stage: Stage) -> None:
    """Two programs would share one position, each losing what the other has read."""
    handles = [await stage.open() for _ in range(4)]
    first = await handles[0].subscribe("t", "s", HOUR)
    with refused("the same id", Conflict):
        await handles[1].subscribe("t", "s", 2 * HOUR, start="latest")
    equal("the record", await handles[1].subscriber("t", "s"), first)
    made, errors = await together(*(handle.subscribe("t", "race", HOUR + at) for at, handle in enumerate(handles)))
    equal("how many made it", len(made), 1)
    only("the others", errors, Conflict)
    equal("the record", await handles[2].subscriber("t", "race"), made[0])


@check
async def an_update_replaces_only_what_it_has_seen(stage: Stage) -> None:
    """A subscriber that was taken over would set the position back behind its successor's."""
    store, other = await stage.open(), await stage.open()
    mine = await store.subscribe("t", "s", HOUR)
    theirs = await found(other, "t", "s")
    theirs = await other.update(replace(theirs, epoch=theirs.epoch + 1))
    with refused("an update by who was before", Conflict):
        await store.update(replace(mine, position=5, state=b"mine"))
    with refused("unsubscribing by who was before", Conflict):
        await store.unsubscribe(mine)
    equal("the record", await store.subscriber("t", "s"), theirs)
    for position in range(1, 6):
        theirs = await other.update(replace(theirs, position=position, state=b"%d" % position))
    equal("the record", await store.subscriber("t", "s"), theirs)
    with refused("an update of nobody", Conflict):
        await store.update(replace(theirs, id="nobody"))
    with refused("an update in no topic", Conflict):
        await store.update(replace(theirs, topic="nowhere"))


@check
async def of_updates_at_once_one_wins(stage: Stage) -> None:
    """Both would be told that they succeeded, and one would be forgotten."""
    handles = [await stage.open() for _ in range(4)]
    record = await handles[0].subscribe("t", "s", HOUR)
    for round_ in range(1, 4):
        changes = [replace(record, position=10 * round_ + at) for at in range(4)]
        won, errors = await together(*(handle.update(change) for handle, change in zip(handles, changes, strict=True)))
        equal("how many won", len(won), 1)
        only("the others", errors, Conflict)
        record = await found(handles[round_], "t", "s")
        equal("the record", record, won[0])


@check
async def updates_at_once_are_all_kept_when_tried_again(stage: Stage) -> None:
    """Steps that retry after a conflict would still lose one another."""
    handles = [await stage.open() for _ in range(3)]
    await handles[0].subscribe("t", "s", HOUR)

    async def count(at: int) -> None:
        for _ in range(5):
            while True:
                record = await found(handles[at], "t", "s")
                try:
                    await handles[at].update(replace(record, position=record.position + 1))
                    break
                except Conflict:
                    await asyncio.sleep(0.001 * at)

    await asyncio.gather(*(count(at) for at in range(3)))
    equal("the count", (await found(handles[0], "t", "s")).position, 15)


@check
async def who_has_unsubscribed_is_gone(stage: Stage) -> None:
    """A subscriber that left would hold up the collector; one made anew under the same id would be changed by the ghost of the old."""
    store, other = await stage.open(), await stage.open()
    old = await store.subscribe("t", "s", HOUR)
    old = await store.update(replace(old, position=3, state=b"old"))
    await other.unsubscribe(old)
    equal("the record", await store.subscriber("t", "s"), None)
    equal("the list", await store.subscribers("t"), [])
    await store.unsubscribe(old)
    with refused("an update of who is gone", Conflict):
        await store.update(old)
    anew = await store.subscribe("t", "s", 2 * HOUR)
    equal("made anew", (anew.position, anew.state, anew.lease), (0, b"", 2 * HOUR))
    with refused("an update by the ghost", Conflict):
        await store.update(old)
    with refused("unsubscribing by the ghost", Conflict):
        await store.unsubscribe(old)
    equal("the record", await other.subscriber("t", "s"), anew)


@check
async def states_may_be_large(stage: Stage) -> None:
    """A continuation that has grown would be refused in the middle of the night, or come back cut off."""
    store, other = await stage.open(), await stage.open()
    record = await store.subscribe("t", "s", HOUR)
    for size in (0, 1, 65_536, store.value_bytes, store.value_bytes + 1, 3):
        state = (b"%d-" % size * (size // 2 + 1))[:size]
        record = await store.update(replace(record, state=state))
        holds(f"a state of {size:,} bytes", (await found(other, "t", "s")).state == state)
        holds("as the list has it", [one.state for one in await other.subscribers("t")] == [state])


@check
async def marks_may_be_many(stage: Stage) -> None:
    """A subscriber that works out of order would lose what it has marked done."""
    store, other = await stage.open(), await stage.open()
    record = await store.subscribe("t", "s", HOUR)
    marks = tuple((at * 3 + 2, at * 3 + 3) for at in range(1_000))
    record = await store.update(replace(record, marks=marks))
    equal("the record", await other.subscriber("t", "s"), record)
    equal("its marks", (await found(other, "t", "s")).marks, marks)


@check
async def who_subscribes_while_others_collect_misses_nothing(stage: Stage) -> None:
    """A collector that has just counted the subscribers would remove what a new one is about to read."""
    store, other, third = await stage.open(), await stage.open(), await stage.open()
    grant = await store.register("t", "p", options=TopicOptions(retention_s=0.0))
    number = 1
    for round_ in range(12):
        receipt = await store.publish(grant, number, numbered("p", number, 4))
        number += 4
        await until(store, (await everything(store, "t", receipt.first - 1))[-1].time + 1)

        async def subscribe(round_: int = round_) -> Subscriber:
            await asyncio.sleep(0.001 * (round_ % 4))
            return await third.subscribe("t", f"s{round_}", HOUR, start="earliest" if round_ % 2 else 0)

        now = await store.time()
        record, *_ = await asyncio.gather(subscribe(), other.collect("t", now), store.collect("t", now))
        await other.collect("t", await other.time())
        numbers = seqs(await everything(store, "t", record.position))
        equal(f"what there is after {record.position}", numbers, list(range(record.position + 1, receipt.last + 1)))
        await third.unsubscribe(record)


@check
async def a_start_that_is_not_published_is_refused(stage: Stage) -> None:
    """The values up to it would be passed over in silence when they come; or a mistyped number would make a topic."""
    store = await stage.open()
    grant = await store.register("t", "p")
    await store.publish(grant, 1, numbered("p", 1, 2))
    for start in (3, 99, -1):
        with refused(f"a start of {start} in a topic of two", InvalidOption):
            await store.subscribe("t", "s", HOUR, start=start)
        with refused(f"a start of {start} where there is nothing", InvalidOption):
            await store.subscribe("new", "s", HOUR, start=start)
    equal("the subscribers", await store.subscribers("t"), [])
    equal("the topics", [info.name for info in await store.topics()], ["t"])
    equal("the last one", (await store.subscribe("t", "last", HOUR, start=2)).position, 2)
    equal("the first one", (await store.subscribe("t", "first", HOUR, start=0)).position, 0)
    equal("before the first value", (await store.subscribe("new", "s", HOUR, start=0)).position, 0)
