"""Collecting: a value goes when every subscriber is done with it or has let its lease expire, and never before.

Leases are tried to the nanosecond on any clock: the age of a value is read first, and the lease made to fit.
"""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from antiphon.store.contract import Backend
from antiphon.store.records import Moment, TopicOptions, Value
from antiphon.testing.store_suite.stage import HOUR, Stage, check, equal, everything, found, holds, numbered, seqs, texts, until


async def ten(store: Backend, options: TopicOptions | None = None) -> tuple[list[Value], Moment]:
    """A topic with ten values, published one by one, and a time at which all of them have some age."""
    grant = await store.register("t", "p", options=options)
    for number in range(1, 11):
        await store.publish(grant, number, numbered("p", number, 1))
    values = await everything(store, "t")
    return values, await until(store, values[-1].time + 20_000)


@check
async def a_value_stays_until_the_last_subscriber_is_done(stage: Stage) -> None:
    """Collected at the first subscriber that is done, the others would never read it."""
    store, other = await stage.open(), await stage.open()
    _, now = await ten(store)
    slow = await store.subscribe("t", "slow", HOUR)
    await store.subscribe("t", "fast", HOUR, start="latest")
    equal("collected", tuple(await other.collect("t", now)), (0, 0))
    slow = await store.update(replace(slow, position=4))
    equal("collected", tuple(await other.collect("t", now)), (4, 4))
    equal("what is there", seqs(await everything(store, "t")), [5, 6, 7, 8, 9, 10])
    equal("collected again", tuple(await store.collect("t", now)), (4, 0))
    await store.update(replace(slow, position=10))
    equal("collected", tuple(await other.collect("t", now)), (10, 6))
    equal("collected again", tuple(await other.collect("t", now)), (10, 0))


@check
async def a_lease_ends_to_the_nanosecond(stage: Stage) -> None:
    """A value would be gone while it is still due, or be kept for nobody."""
    store = await stage.open()
    values, now = await ten(store)
    fifth = values[4].time
    behind = len([value for value in values if value.time == fifth and value.seq > 5])
    lease = (now - values[-1].time) // 2
    await store.subscribe("t", "s", lease)
    kept = await store.collect("t", fifth + lease)
    holds(f"at its last moment number 5 is due: {kept}", kept.floor < 5)
    holds("it is there", 5 in seqs(await everything(store, "t")))
    gone = await store.collect("t", fifth + lease + 1)
    equal("one nanosecond later it is not", gone.floor, 5 + behind)
    equal("what is there", seqs(await everything(store, "t")), list(range(6 + behind, 11)))


@check
async def the_longest_lease_counts(stage: Stage) -> None:
    """Somebody with a short lease would take away what others have been promised for longer."""
    store, other = await stage.open(), await stage.open()
    values, now = await ten(store)
    await store.subscribe("t", "hasty", 1)
    patient = await store.subscribe("t", "patient", now - values[0].time)
    holds("what is due to the patient one stays", (await other.collect("t", now)).floor == 0)
    patient = await store.update(replace(patient, lease=HOUR))
    holds("also when it has renewed", (await other.collect("t", await until(store, now + 1))).floor == 0)
    patient = await store.update(replace(patient, lease=1))
    equal("not when it has shortened its lease", tuple(await other.collect("t", now)), (10, 10))


@check
async def done_and_expired_add_up(stage: Stage) -> None:
    """Values that one has done and the other has let expire would stay for ever."""
    store = await stage.open()
    _, now = await ten(store)
    await store.subscribe("t", "done", HOUR, start=7)
    await store.subscribe("t", "expired", 1)
    equal("collected", tuple(await store.collect("t", now)), (7, 7))


@check
async def without_subscribers_retention_counts(stage: Stage) -> None:
    """A topic that nobody reads yet would be empty when somebody does, or grow without end."""
    store = await stage.open()
    values, now = await ten(store, TopicOptions(retention_s=0.00001))  # 10,000 ns
    third = values[2].time
    behind = len([value for value in values if value.time == third and value.seq > 3])
    holds("at its last moment number 3 is kept", (await store.collect("t", third + 10_000)).floor < 3)
    equal("one nanosecond later it is not", (await store.collect("t", third + 10_001)).floor, 3 + behind)
    late = await store.subscribe("t", "s", HOUR)
    equal("with a subscriber retention does not count", tuple(await store.collect("t", now)), (3 + behind, 0))
    await store.unsubscribe(late)
    equal("without it does", tuple(await store.collect("t", now)), (10, 7 - behind))


@check
async def by_default_nothing_goes_for_days(stage: Stage) -> None:
    """The first subscriber would find nothing, because the collector had come by a second after the publish."""
    store = await stage.open()
    _, now = await ten(store)
    equal("collected", tuple(await store.collect("t", now)), (0, 0))
    await store.subscribe("t", "s", HOUR)
    equal("collected", tuple(await store.collect("t", now)), (0, 0))
    equal("what is there", len(await everything(store, "t")), 10)


@check
async def what_all_have_marked_goes_one_by_one(stage: Stage) -> None:
    """One value that is not done would keep everything after it, or go with it."""
    store, other = await stage.open(), await stage.open()
    _, now = await ten(store)
    one = await store.subscribe("t", "one", HOUR)
    two = await store.subscribe("t", "two", HOUR)
    one = await store.update(replace(one, marks=((2, 4), (6, 7), (9, 9))))
    await store.update(replace(two, position=3, marks=((6, 6), (8, 10))))
    equal("collected", tuple(await other.collect("t", now)), (0, 4))
    equal("what is there", seqs(await everything(other, "t")), [1, 4, 5, 7, 8, 10])
    info = await other.info("t")
    equal("the topic", (info.floor, info.last, info.values), (0, 10, 6))
    await store.update(replace(one, position=4, marks=((6, 7), (9, 9))))
    equal("collected", tuple(await other.collect("t", now)), (3, 1))
    equal("what is there", seqs(await everything(other, "t")), [4, 5, 7, 8, 10])


@check
async def what_is_marked_in_advance_is_published_all_the_same(stage: Stage) -> None:
    """Somebody who is done with numbers that do not exist yet would have them collected before anybody has read them."""
    store = await stage.open()
    _, now = await ten(store)
    one = await store.subscribe("t", "one", HOUR)
    await store.update(replace(one, position=10, marks=((12, 14),)))
    equal("collected", tuple(await store.collect("t", now)), (10, 10))
    await store.update(replace(await found(store, "t", "one"), position=12, marks=((14, 99),)))
    equal("collected", tuple(await store.collect("t", now)), (10, 0))
    late = await store.subscribe("t", "late", HOUR)
    grant = await store.register("t", "p")
    await store.publish(grant, 11, numbered("p", 11, 3))
    equal("what a late one reads", seqs(await everything(store, "t", late.position)), [11, 12, 13])


@check
async def the_horizon_holds_back_what_has_only_expired(stage: Stage) -> None:
    """What somebody is still reading, or has not sent yet, would be gone because the clock went on."""
    store = await stage.open()
    values, now = await ten(store)
    await store.subscribe("t", "s", 1)
    equal("a horizon of long ago", tuple(await store.collect("t", 0)), (0, 0))
    same = len([value for value in values if value.time == values[5].time and value.seq >= 6])
    equal("a horizon in the middle", (await store.collect("t", values[5].time + 2)).floor, 5 + same)
    equal("now", (await store.collect("t", now)).floor, 10)


@check
async def a_horizon_beyond_the_time_is_the_time(stage: Stage) -> None:
    """A collector whose clock runs ahead would take away what is due."""
    store = await stage.open()
    _, now = await ten(store)
    await store.subscribe("t", "s", 10 * HOUR)
    equal("collected", tuple(await store.collect("t", now + 1_000 * HOUR)), (0, 0))
    equal("what is there", len(await everything(store, "t")), 10)


@check
async def who_leaves_holds_up_nothing(stage: Stage) -> None:
    """A subscriber that is gone would keep values for ever."""
    store = await stage.open()
    _, now = await ten(store)
    gone = await store.subscribe("t", "gone", HOUR)
    await store.subscribe("t", "here", HOUR, start=8)
    equal("collected", tuple(await store.collect("t", now)), (0, 0))
    await store.unsubscribe(gone)
    equal("collected", tuple(await store.collect("t", now)), (8, 8))


@check
async def the_floor_never_goes_back(stage: Stage) -> None:
    """Whoever was told that values are gone would be told that they are there, and wait for them."""
    store = await stage.open()
    _, now = await ten(store)
    one = await store.subscribe("t", "one", HOUR, start=6)
    equal("collected", tuple(await store.collect("t", now)), (6, 6))
    await store.update(replace(one, position=2))
    equal("collected after somebody has gone back", tuple(await store.collect("t", now)), (6, 0))
    await store.subscribe("t", "two", HOUR)
    equal("collected with a new one", tuple(await store.collect("t", 0)), (6, 0))
    equal("the topic", (await store.info("t")).floor, 6)


@check
async def several_collect_while_others_write_read_and_finish(stage: Stage) -> None:
    """Collectors that meet would take away what is not done, or the floor of one would fall behind the other's."""
    store, reading, one, two = [await stage.open() for _ in range(4)]
    grant = await store.register("t", "p")
    await reading.subscribe("t", "slow", HOUR)
    writing = True
    read: list[str] = []

    async def collect(handle: Backend) -> None:
        floor = 0
        while writing or floor < 120:
            collected = await handle.collect("t", await handle.time())
            holds("the floor does not go back", collected.floor >= floor)
            floor = collected.floor
            await asyncio.sleep(0.002)

    async def consume() -> None:
        reader = await reading.reader("t", 0)
        record = await found(reading, "t", "slow")
        while record.position < 120:
            chunk = await reader.take(7, 5.0)
            if chunk.values:
                equal("the next number", chunk.values[0].seq, record.position + 1)
                read.extend(texts(chunk.values))
                record = await reading.update(replace(record, position=chunk.values[-1].seq))
        await reader.close()

    async def write() -> None:
        nonlocal writing
        for number in range(1, 121, 5):
            await store.publish(grant, number, numbered("p", number, 5))
        writing = False

    await asyncio.gather(write(), consume(), collect(one), collect(two))
    equal("what was read", read, [f"p/{number}" for number in range(1, 121)])
    info = await store.info("t")
    equal("the topic", (info.floor, info.last, info.values), (120, 120, 0))


@check
async def an_empty_topic_can_be_collected(stage: Stage) -> None:
    """The collector would stop at the first topic in which there is nothing yet."""
    store = await stage.open()
    await store.register("published", "p")
    await store.subscribe("subscribed", "s", HOUR)
    for topic in ("published", "subscribed"):
        equal(topic, tuple(await store.collect(topic, await store.time())), (0, 0))


@check
async def a_large_topic_is_collected_whole(stage: Stage) -> None:
    """Deleting in pieces, a collector would stop after the first, or take away values of the neighbouring topic."""
    store = await stage.open()
    for topic in ("s", "t", "u"):
        grant = await store.register(topic, "p")
        for number in range(1, 2_500, 500):
            await store.publish(grant, number, numbered("p", number, 500))
    await store.subscribe("t", "s", HOUR, start=2_499)
    collected = await store.collect("t", await store.time())
    equal("collected", tuple(collected), (2_499, 2_499))
    equal("what is there", seqs(await everything(store, "t")), [2_500])
    for topic in ("s", "u"):
        equal(f"what is in {topic}", len(await everything(store, topic)), 2_500)
