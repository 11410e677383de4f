"""Who may write: registration, epochs, fencing, takeover, release."""

from __future__ import annotations

import asyncio

from antiphon.errors import Fenced, InvalidOption, TopicTaken, UnknownTopic
from antiphon.store.records import Grant, TopicOptions
from antiphon.testing.store_suite.stage import (
    HOUR,
    Stage,
    check,
    entries,
    equal,
    everything,
    holds,
    numbered,
    only,
    refused,
    texts,
    together,
)


@check
async def a_topic_has_one_publisher(stage: Stage) -> None:
    """Two programs would write the same topic, each believing the numbers to be its own."""
    store, other = await stage.open(), await stage.open()
    grant = await store.register("t", "ana")
    with refused("a second publisher", TopicTaken):
        await other.register("t", "ben")
    equal("who has it", (await other.info("t")).publisher, "ana")
    equal("its epoch", (await other.info("t")).epoch, grant.epoch)
    await store.publish(grant, 1, entries("still mine"))
    equal("what is there", texts(await everything(other, "t")), ["still mine"])


@check
async def one_of_many_at_once_gets_the_topic(stage: Stage) -> None:
    """A check followed by a write lets two in."""
    handles = [await stage.open() for _ in range(4)]
    grants, errors = await together(*(handle.register("t", f"p{at}") for at, handle in enumerate(handles)))
    equal("how many got it", len(grants), 1)
    only("the others", errors, TopicTaken)
    equal("who has it", (await handles[0].info("t")).publisher, grants[0].publisher)


@check
async def options_are_decided_once(stage: Stage) -> None:
    """Half of the world would take a topic for a shared or mutable one, and the other half would not."""
    store, other = await stage.open(), await stage.open()
    await store.subscribe("t", "s", HOUR)
    options = TopicOptions(shared=True, retention_s=12.5)
    await store.register("t", "a", options=options)
    equal("options", (await other.info("t")).options, options)
    for wrong in (TopicOptions(), TopicOptions(shared=True), TopicOptions(shared=True, mutable=True, retention_s=12.5)):
        with refused(f"{wrong}", InvalidOption):
            await other.register("t", "b", options=wrong)
    await other.register("t", "b", options=options)
    await other.register("t", "c")
    equal("options", [topic.options for topic in await store.topics()], [options])
    await store.register("plain", "a")
    equal("options where nobody said any", (await store.info("plain")).options, TopicOptions())
    with refused("other options", InvalidOption):
        await other.register("plain", "a", options=options)


@check
async def registering_again_fences_the_earlier_grant(stage: Stage) -> None:
    """A program that was taken for dead and restarted elsewhere would come back and write over its successor."""
    old, new = await stage.open(), await stage.open()
    first = await old.register("t", "p")
    await old.publish(first, 1, numbered("p", 1, 2))
    second = await new.register("t", "p")
    holds("the epoch rises", second.epoch > first.epoch)
    equal("where the publisher was", (second.number, second.last), (2, 2))
    with refused("a publish by the earlier one", Fenced):
        await old.publish(first, 3, numbered("p", 3, 1))
    with refused("its repeat of what it has written", Fenced):
        await old.publish(first, 1, numbered("p", 1, 2))
    with refused("its erasing", Fenced):
        await old.erase(first, [1])
    await old.release(first)
    await new.publish(second, 3, numbered("p", 3, 1))
    equal("what is there", texts(await everything(old, "t")), ["p/1", "p/2", "p/3"])


@check
async def a_takeover_fences_who_had_the_topic(stage: Stage) -> None:
    """A frozen publisher that wakes up would write behind the back of whoever took over."""
    store, other = await stage.open(), await stage.open()
    ana = await store.register("t", "ana")
    await store.publish(ana, 1, numbered("ana", 1, 2))
    ben = await other.register("t", "ben", takeover=True)
    holds("the epoch rises", ben.epoch > ana.epoch)
    equal("where ben begins", (ben.number, ben.last), (0, 2))
    with refused("ana's publish", Fenced):
        await store.publish(ana, 3, numbered("ana", 3, 1))
    await store.release(ana)
    with refused("registering without takeover", TopicTaken):
        await store.register("t", "ana")
    receipt = await other.publish(ben, 1, numbered("ben", 1, 1))
    equal("ben's first number", receipt.first, 3)
    back = await store.register("t", "ana", takeover=True)
    holds("the epoch rises again", back.epoch > ben.epoch)
    equal("ana's own number", (back.number, back.last), (2, 3))
    again = await store.publish(back, 2, numbered("ana", 2, 2))
    equal("the newest of a half repeated batch", again.last, 4)
    equal("what is there", texts(await everything(other, "t")), ["ana/1", "ana/2", "ben/1", "ana/3"])


@check
async def nothing_of_the_fenced_comes_after_the_takeover(stage: Stage) -> None:
    """The new publisher would begin after a number, and the old one's values in flight would slip in behind it."""
    store, other = await stage.open(), await stage.open()
    ana = await store.register("t", "ana")
    acknowledged, too_late, taken_over = 0, 0, False

    async def write() -> None:
        nonlocal acknowledged, too_late
        number = 1
        while too_late < 100:
            receipt = await store.publish(ana, number, numbered("ana", number, 2))
            acknowledged, number = receipt.last, number + 2
            too_late += taken_over

    writing = asyncio.ensure_future(write())
    while acknowledged < 10 and not writing.done():
        await asyncio.sleep(0.001)
    ben = await other.register("t", "ben", takeover=True)
    taken_over = True
    await other.publish(ben, 1, numbered("ben", 1, 1))
    with refused("writing on and on", Fenced):
        await writing
    values = await everything(other, "t")
    holds("what was acknowledged is there", acknowledged <= ben.last)
    wanted = [f"ana/{number}" for number in range(1, ben.last + 1)] + ["ben/1"]
    equal("what is there", texts(values), wanted)


@check
async def the_latest_of_several_takeovers_has_the_topic(stage: Stage) -> None:
    """Two who take over at once would both believe to have it."""
    handles = [await stage.open() for _ in range(4)]
    await handles[0].register("t", "old")
    grants = list(await asyncio.gather(*(handle.register("t", f"p{at}", takeover=True) for at, handle in enumerate(handles))))
    equal("epochs of their own", len({grant.epoch for grant in grants}), len(grants))
    grants.sort(key=lambda grant: grant.epoch)
    for grant in grants[:-1]:
        with refused(f"{grant}", Fenced):
            await handles[0].publish(grant, 1, entries("no"))
    await handles[0].publish(grants[-1], 1, entries("yes"))
    equal("who has it", (await handles[1].info("t")).publisher, grants[-1].publisher)


@check
async def who_releases_lets_another_in(stage: Stage) -> None:
    """A topic could be left only by dying."""
    store, other = await stage.open(), await stage.open()
    ana = await store.register("t", "ana")
    await store.publish(ana, 1, numbered("ana", 1, 1))
    await store.release(ana)
    equal("who has it", (await other.info("t")).publisher, "")
    with refused("a publish after the release", Fenced):
        await store.publish(ana, 2, numbered("ana", 2, 1))
    await store.release(ana)
    ben = await other.register("t", "ben")
    equal("where ben begins", (ben.number, ben.last), (0, 1))
    await store.release(ana)
    await other.publish(ben, 1, numbered("ben", 1, 1))
    await other.release(ben)
    back = await store.register("t", "ana")
    holds("epochs rise", ana.epoch < ben.epoch < back.epoch)
    equal("ana's own number", (back.number, back.last), (1, 2))


@check
async def a_topic_that_is_not_there_is_said_to_be_unknown(stage: Stage) -> None:
    """A misspelt name would wait for ever for its first value, or make a topic of the mistake."""
    store = await stage.open()
    with refused("info", UnknownTopic):
        await store.info("nowhere")
    with refused("reader", UnknownTopic):
        await store.reader("nowhere", 0)
    with refused("collect", UnknownTopic):
        await store.collect("nowhere", await store.time())
    with refused("subscribers", UnknownTopic):
        await store.subscribers("nowhere")
    forged = Grant("nowhere", "p", 1, 0, 0)
    with refused("publish", UnknownTopic, Fenced):
        await store.publish(forged, 1, entries("a"))
    with refused("erase", UnknownTopic, Fenced):
        await store.erase(forged, [1])
    await store.release(forged)
    equal("somebody's record", await store.subscriber("nowhere", "s"), None)
    equal("topics", await store.topics(), [])


@check
async def a_forged_grant_is_worth_nothing(stage: Stage) -> None:
    """Whoever knows the name of a topic could write to it without registering."""
    store = await stage.open()
    grant = await store.register("t", "ana")
    for forged in (
        grant._replace(publisher="ben"),
        grant._replace(epoch=grant.epoch + 1),
        grant._replace(epoch=0),
        grant._replace(epoch=-1),
    ):
        with refused(f"{forged}", Fenced):
            await store.publish(forged, 1, entries("no"))
    await store.publish(grant, 1, entries("yes"))
    equal("what is there", texts(await everything(store, "t")), ["yes"])
