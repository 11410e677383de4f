"""The publisher takes values back; and a store that has lost the values themselves must not forget their numbers."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.store.records import TopicOptions
from antiphon.testing.store_suite.stage import HOUR, Stage, check, equal, everything, holds, numbered, seqs, texts, until


@check
async def erased_values_are_gone_and_their_numbers_are_not_used_again(stage: Stage) -> None:
    """What was taken back would still be read, or a reader would take the next value for it."""
    store, other = await stage.open(), await stage.open()
    grant = await store.register("t", "p")
    await store.publish(grant, 1, numbered("p", 1, 6))
    equal("how many went", await store.erase(grant, [2, 3, 6, 77, 0, -1]), 3)
    equal("how many went again", await store.erase(grant, [2, 3]), 0)
    equal("nothing", await store.erase(grant, []), 0)
    equal("what is there", seqs(await everything(other, "t")), [1, 4, 5])
    info = await other.info("t")
    equal("the topic", (info.last, info.values, info.floor), (6, 3, 0))
    receipt = await store.publish(grant, 7, numbered("p", 7, 1))
    equal("the next number", receipt.first, 7)


@check
async def a_repeat_is_known_when_its_values_are_gone(stage: Stage) -> None:
    """Erased, the values of a lost acknowledgement would come back with the repeat."""
    store, other = await stage.open(), await stage.open()
    grant = await store.register("t", "p")
    await store.publish(grant, 1, numbered("p", 1, 3))
    await store.erase(grant, [1, 2, 3])
    again = await other.publish(grant, 1, numbered("p", 1, 3))
    equal("the receipt of the repeat", (again.first, again.last), (1, 3))
    equal("what is there", await everything(store, "t"), [])
    fresh = await other.register("t", "p")
    equal("the grant", (fresh.number, fresh.last), (3, 3))
    await other.publish(fresh, 3, numbered("p", 3, 2))
    equal("what is there", [(value.seq, value.data) for value in await everything(store, "t")], [(4, b"p/4")])


@check
async def numbers_go_on_when_everything_is_collected(stage: Stage) -> None:
    """An empty topic would begin with 1 again, below everybody's position: nobody would ever read it."""
    store, other = await stage.open(), await stage.open()
    grant = await store.register("t", "p")
    await store.publish(grant, 1, numbered("p", 1, 3))
    await store.subscribe("t", "s", HOUR, start="latest")
    newest = (await everything(store, "t"))[-1]
    collected = await other.collect("t", await until(store, newest.time + 1))
    equal("collected", (collected.floor, collected.removed), (3, 3))
    info = await other.info("t")
    equal("the topic", (info.last, info.values, info.floor, info.size), (3, 0, 3, 0))
    again = await store.publish(grant, 1, numbered("p", 1, 3))
    equal("the receipt of a repeat", (again.first, again.last), (1, 3))
    fresh = await other.register("t", "p")
    equal("the grant", (fresh.number, fresh.last), (3, 3))
    receipt = await other.publish(fresh, 4, numbered("p", 4, 2))
    equal("the next numbers", (receipt.first, receipt.last), (4, 5))
    equal("what is there", texts(await everything(store, "t")), ["p/4", "p/5"])
    equal("a new one begins at", (await store.subscribe("t", "late", HOUR)).position, 3)


@check
async def numbers_go_on_when_the_newest_were_marked_and_collected(stage: Stage) -> None:
    """The next value would get the number of one that somebody has marked as done, and that somebody would never read it."""
    store, other = await stage.open(), await stage.open()
    for topic, options in (("own", TopicOptions()), ("shared", TopicOptions(shared=True))):
        grant = await store.register(topic, "p", options=options)
        await store.publish(grant, 1, numbered("p", 1, 5))
        reader = await store.subscribe(topic, "s", HOUR)
        await store.update(replace(reader, marks=((2, 2), (4, 5))))
        await other.collect(topic, await store.time())
        equal(f"the newest number of {topic}", (await other.info(topic)).last, 5)
        holds(f"what is there of {topic}", {1, 3} <= set(seqs(await everything(other, topic))) <= {1, 3, 5})
        fresh = await other.register(topic, "p")
        equal(f"the grant of {topic}", (fresh.number, fresh.last), (5, 5))
        await other.publish(fresh, 5, numbered("p", 5, 2))
        equal(f"what comes next in {topic}", [(value.seq, value.data) for value in await everything(store, topic, 5)], [(6, b"p/6")])


@check
async def in_a_topic_of_its_own_a_publisher_erases_what_its_predecessors_wrote(stage: Stage) -> None:
    """After a takeover nobody at all could take back the values of before."""
    store = await stage.open()
    ana = await store.register("t", "ana")
    await store.publish(ana, 1, numbered("ana", 1, 2))
    ben = await store.register("t", "ben", takeover=True)
    equal("erased", await store.erase(ben, [1]), 1)
    equal("what is there", texts(await everything(store, "t")), ["ana/2"])
