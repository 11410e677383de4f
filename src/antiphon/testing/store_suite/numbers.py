"""Publishing: numbers, batches, and what becomes of a publish whose acknowledgement was lost."""

from __future__ import annotations

from antiphon.errors import Fenced, TooLarge
from antiphon.store.records import Entry, Grant
from antiphon.testing.store_suite.stage import (
    Stage,
    check,
    entries,
    equal,
    everything,
    holds,
    numbered,
    only,
    refused,
    seqs,
    texts,
    together,
)


@check
async def numbers_begin_with_one_and_have_no_holes(stage: Stage) -> None:
    """A reader could not tell a value that is late from one that does not exist."""
    store = await stage.open()
    grant = await store.register("crash", "ana")
    equal("the grant for a new topic", (grant.topic, grant.publisher, grant.number, grant.last), ("crash", "ana", 0, 0))
    receipts = [
        await store.publish(grant, 1, entries("a")),
        await store.publish(grant, 2, entries("b", "c", "d")),
        await store.publish(grant, 5, entries("e")),
    ]
    equal("receipts", [(receipt.first, receipt.last) for receipt in receipts], [(1, 1), (2, 4), (5, 5)])
    values = await everything(await stage.open(), "crash")
    equal("numbers", seqs(values), [1, 2, 3, 4, 5])
    equal("values", texts(values), list("abcde"))
    info = await store.info("crash")
    equal("what the topic says", (info.name, info.publisher, info.last, info.floor, info.values), ("crash", "ana", 5, 0, 5))
    equal("the topics", [one.name for one in await store.topics()], ["crash"])


@check
async def data_comes_back_as_it_went_in(stage: Stage) -> None:
    """A byte, an empty value or a key that is changed on the way is a wrong answer that nobody notices."""
    store = await stage.open()
    grant = await store.register("t", "p")
    given = [Entry(bytes(range(256))), Entry(b""), Entry(b"\x00" * 3), Entry(b"x", "a key"), Entry(b"y" * 70_000, "ключ/*.>"), Entry(b"")]
    await store.publish(grant, 1, given)
    equal("the values", [Entry(bytes(value.data), value.key) for value in await everything(store, "t")], given)
    holds("data is bytes", all(isinstance(value.data, bytes) for value in await everything(store, "t")))


@check
async def a_batch_is_written_whole_or_not_at_all(stage: Stage) -> None:
    """Half an order would be executed."""
    store = await stage.open()
    grant = await store.register("t", "p")
    await store.publish(grant, 1, entries("a"))
    broken = [*entries("b", "c"), Entry(bytes(store.value_bytes + 1)), *entries("d")]
    with refused("a batch with a value above value_bytes", TooLarge):
        await store.publish(grant, 2, broken)
    equal("what is there", texts(await everything(store, "t")), ["a"])
    equal("the newest number", (await store.info("t")).last, 1)
    receipt = await store.publish(grant, 2, entries("b", "c"))
    equal("the same own numbers are free", (receipt.first, receipt.last), (2, 3))


@check
async def a_repeat_is_not_written_again(stage: Stage) -> None:
    """Whoever lost an acknowledgement and repeats would have paid twice; told other numbers, it would name the wrong values."""
    store, other = await stage.open(), await stage.open()
    grant = await store.register("t", "p")
    first = await store.publish(grant, 1, numbered("p", 1, 3))
    for handle in (store, other, store):
        again = await handle.publish(grant, 1, numbered("p", 1, 3))
        equal("the receipt of a repeat", (again.first, again.last), (first.first, first.last))
    second = await store.publish(grant, 4, numbered("p", 4, 2))
    equal("the next numbers", (second.first, second.last), (4, 5))
    older = await other.publish(grant, 1, numbered("p", 1, 3))
    equal("the receipt of an older batch", (older.first, older.last), (1, 3))
    equal("what is there", texts(await everything(other, "t")), [f"p/{number}" for number in range(1, 6)])


@check
async def a_repeat_in_part_writes_only_the_rest(stage: Stage) -> None:
    """After a crash an outbox makes other batches of the same values: those that are there would be written twice, or the rest lost."""
    store = await stage.open()
    grant = await store.register("t", "p")
    await store.publish(grant, 1, numbered("p", 1, 3))
    receipt = await store.publish(grant, 2, numbered("p", 2, 4))
    equal("receipt", (receipt.first, receipt.last), (2, 5))
    receipt = await store.publish(grant, 5, numbered("p", 5, 1))
    equal("receipt of the last one alone", (receipt.first, receipt.last), (5, 5))
    receipt = await store.publish(grant, 1, numbered("p", 1, 7))
    equal("receipt of all from the beginning", (receipt.first, receipt.last), (1, 7))
    equal("what is there", texts(await everything(store, "t")), [f"p/{number}" for number in range(1, 8)])


@check
async def a_publishers_own_numbers_may_have_gaps(stage: Stage) -> None:
    """An agent numbers what it publishes by its input: a gap taken for something missing would block it, or write it twice."""
    store = await stage.open()
    grant = await store.register("t", "p")
    receipts = [await store.publish(grant, first, numbered("p", first, count)) for first, count in ((1, 1), (10, 2), (1 << 40, 1))]
    equal("receipts", [(receipt.first, receipt.last) for receipt in receipts], [(1, 1), (2, 3), (4, 4)])
    again = await store.publish(grant, 1 << 40, numbered("p", 1 << 40, 1))
    equal("receipt of the newest again", (again.first, again.last), (4, 4))
    await store.publish(grant, 10, numbered("p", 10, 2))
    await store.publish(grant, 500, numbered("p", 500, 3))
    equal("what is there", texts(await everything(store, "t")), ["p/1", "p/10", "p/11", f"p/{1 << 40}"])
    equal("the newest own number", (await store.register("t", "p")).number, 1 << 40)


@check
async def no_entries_are_a_batch_too(stage: Stage) -> None:
    """A program that had nothing to say in this round would crash, or make a value of nothing."""
    store = await stage.open()
    grant = await store.register("t", "p")
    receipt = await store.publish(grant, 1, [])
    equal("an empty receipt", receipt.last - receipt.first, -1)
    await store.publish(grant, 1, entries("a"))
    receipt = await store.publish(grant, 2, [])
    equal("an empty receipt", receipt.last - receipt.first, -1)
    equal("what is there", seqs(await everything(store, "t")), [1])


@check
async def weaker_writes_are_values_like_others(stage: Stage) -> None:
    """What was written without waiting for the disk would be out of order, or overtaken, or missing."""
    store = await stage.open()
    grant = await store.register("t", "p")
    await store.publish(grant, 1, entries("a"), synced=False)
    await store.publish(grant, 2, entries("b"), synced=True)
    again = await store.publish(grant, 1, entries("a", "b", "c"), synced=False)
    equal("receipt", (again.first, again.last), (1, 3))
    equal("what is there", texts(await everything(await stage.open(), "t")), ["a", "b", "c"])


@check
async def what_is_published_at_once_in_many_topics_stays_apart(stage: Stage) -> None:
    """Writes that share a commit would share an error, a number or an acknowledgement."""
    store, other = await stage.open(), await stage.open()
    grants = [await store.register(f"t{at}", "p") for at in range(6)]
    lost = grants[5]
    await other.register("t5", "p")

    async def publish(grant: Grant, first: int) -> int:
        return (await store.publish(grant, first, numbered(grant.topic, first, 3))).last

    for first in (1, 4, 7):
        answers, errors = await together(*(publish(grant, first) for grant in grants))
        equal("the newest numbers", answers, [first + 2] * 5)
        equal("errors", len(errors), 1)
        only("the one that was fenced", errors, Fenced)
    for grant in grants[:5]:
        equal(f"what is in {grant.topic}", texts(await everything(other, grant.topic)), [f"{grant.topic}/{n}" for n in range(1, 10)])
    equal("what is in the fenced one's", await everything(other, lost.topic), [])
