"""Topics with many publishers: the store alone decides the order."""

from __future__ import annotations

import asyncio
from itertools import groupby, pairwise

from antiphon.errors import Fenced
from antiphon.store.contract import Backend
from antiphon.store.records import Grant, TopicOptions
from antiphon.testing.store_suite.stage import Stage, check, equal, everything, holds, numbered, refused, texts

SHARED = TopicOptions(shared=True)


@check
async def many_write_a_shared_topic_each_by_its_own_numbers(stage: Stage) -> None:
    """Publishers would shut each other out, or take each other's values for repeats of their own."""
    store, other = await stage.open(), await stage.open()
    ana = await store.register("t", "ana", options=SHARED)
    ben = await other.register("t", "ben")
    equal("who has it", (await store.info("t")).publisher, "")
    await store.publish(ana, 1, numbered("ana", 1, 2))
    receipt = await other.publish(ben, 1, numbered("ben", 1, 2))
    equal("ben's numbers", (receipt.first, receipt.last), (3, 4))
    await store.publish(ana, 3, numbered("ana", 3, 1))
    equal("what is there", texts(await everything(other, "t")), ["ana/1", "ana/2", "ben/1", "ben/2", "ana/3"])
    again = await store.register("t", "ana")
    equal("ana's own number, and the topic's", (again.number, again.last), (3, 5))


@check
async def a_repeat_in_a_shared_topic_is_found_among_the_others(stage: Stage) -> None:
    """Others have written meanwhile: who looks only at the end of the topic would write again, or name somebody else's values."""
    store, other = await stage.open(), await stage.open()
    ana = await store.register("t", "ana", options=SHARED)
    ben = await other.register("t", "ben", options=SHARED)
    await other.publish(ben, 1, numbered("ben", 1, 1))
    first = await store.publish(ana, 7, numbered("ana", 7, 3))
    await other.publish(ben, 2, numbered("ben", 2, 4))
    again = await store.publish(ana, 7, numbered("ana", 7, 3))
    equal("ana's receipt again", (again.first, again.last), (first.first, first.last))
    part = await store.publish(ana, 9, numbered("ana", 9, 1))
    equal("the receipt of her last one", (part.first, part.last), (4, 4))
    longer = await store.publish(ana, 8, numbered("ana", 8, 3))
    equal("the receipt of a batch half new", (longer.first, longer.last), (3, 9))
    wanted = ["ben/1", "ana/7", "ana/8", "ana/9", "ben/2", "ben/3", "ben/4", "ben/5", "ana/10"]
    equal("what is there", texts(await everything(store, "t")), wanted)


@check
async def what_many_write_at_once_is_there_once_and_in_order(stage: Stage) -> None:
    """Two writers would get the same number, or one would overwrite, split or lose the other's batch."""
    handles = [await stage.open() for _ in range(4)]
    await handles[0].register("t", "w0", options=SHARED)

    async def write(handle: Backend, name: str) -> list[tuple[int, int, int]]:
        grant, receipts, number = await handle.register("t", name), [], 1
        for count in (1, 5, 2, 9, 1, 1, 4, 3):
            receipt = await handle.publish(grant, number, numbered(name, number, count))
            equal("how many it says to have written", receipt.last - receipt.first + 1, count)
            receipts.append((number, receipt.first, count))
            number += count
        return receipts

    receipts = await asyncio.gather(*(write(handle, f"w{at}") for at, handle in enumerate(handles)))
    values = await everything(handles[3], "t")
    equal("numbers", [value.seq for value in values], list(range(1, 4 * 26 + 1)))
    written = texts(values)
    for at, mine in enumerate(receipts):
        equal(f"the values of w{at}", [text for text in written if text.startswith(f"w{at}/")], [f"w{at}/{n}" for n in range(1, 27)])
        for number, first, count in mine:
            equal("a batch, where the receipt says", written[first - 1 : first - 1 + count], texts_of(f"w{at}", number, count))
    holds("times never fall", all(before.time <= after.time for before, after in pairwise(values)))
    holds("the topic is mixed or not, but whole", len(list(groupby(text.split("/")[0] for text in written))) >= 4)


def texts_of(name: str, first: int, count: int) -> list[str]:
    return [f"{name}/{number}" for number in range(first, first + count)]


@check
async def in_a_shared_topic_everybody_has_an_epoch_of_its_own(stage: Stage) -> None:
    """A publisher that comes back would fence all the others, or not even its own ghost."""
    store, other = await stage.open(), await stage.open()
    ana = await store.register("t", "ana", options=SHARED)
    ben = await other.register("t", "ben")
    await store.publish(ana, 1, numbered("ana", 1, 1))
    anew = await other.register("t", "ana", takeover=True)
    holds("the epoch rises", anew.epoch > ana.epoch)
    with refused("the earlier ana", Fenced):
        await store.publish(ana, 2, numbered("ana", 2, 1))
    await other.publish(ben, 1, numbered("ben", 1, 1))
    await other.publish(anew, 2, numbered("ana", 2, 1))
    await other.release(anew)
    with refused("ana, who has released it", Fenced):
        await other.publish(anew, 3, numbered("ana", 3, 1))
    await other.publish(ben, 2, numbered("ben", 2, 1))
    back = await store.register("t", "ana")
    holds("the epoch rises after a release", back.epoch > anew.epoch)
    equal("where ana was", back.number, 2)
    equal("what is there", texts(await everything(store, "t")), ["ana/1", "ben/1", "ana/2", "ben/2"])


@check
async def in_a_shared_topic_one_erases_only_ones_own(stage: Stage) -> None:
    """Anybody who may write could take back what others have said."""
    store = await stage.open()
    grants: dict[str, Grant] = {name: await store.register("t", name, options=SHARED) for name in ("ana", "ben")}
    for number in (1, 2, 3):
        for name, grant in grants.items():
            await store.publish(grant, number, numbered(name, number, 1))
    equal("how many of 1 … 4 were ana's", await store.erase(grants["ana"], [1, 2, 3, 4]), 2)
    equal("what is there", texts(await everything(store, "t")), ["ben/1", "ben/2", "ana/3", "ben/3"])
