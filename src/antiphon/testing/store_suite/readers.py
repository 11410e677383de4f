"""Reading: from anywhere, in order, waiting, woken, given up, and never past something that is there."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from antiphon.store.records import Entry, TopicOptions
from antiphon.testing.store_suite.stage import (
    FOREVER_S,
    HOUR,
    Stage,
    check,
    entries,
    equal,
    everything,
    holds,
    numbered,
    seqs,
    soon,
    texts,
)


@check
async def one_reads_from_anywhere(stage: Stage) -> None:
    """Whoever comes back would read something again, or skip something."""
    store, other = await stage.open(), await stage.open()
    grant = await store.register("t", "p")
    for number in range(1, 20, 4):
        await store.publish(grant, number, numbered("p", number, 4))
    values = await everything(store, "t")
    equal("all", seqs(values), list(range(1, 21)))
    for handle in (store, other):
        for after in (0, 1, 7, 19):
            for place in {0, values[after - 1].place if after else 0}:
                reader = await handle.reader("t", after, place)
                chunk = await reader.take(3, 0)
                equal(f"after {after} with place {place}", seqs(chunk.values), list(range(after + 1, min(after + 3, 20) + 1)))
                equal("the topic, as the chunk has it", (chunk.floor, chunk.last), (0, 20))
                equal("the rest", seqs((await reader.take(100, 0)).values), list(range(after + 4, 21)))
                await reader.close()
    reader = await other.reader("t", 20, values[-1].place)
    equal("nothing is left", list((await reader.take(10, 0)).values), [])
    await reader.close()


@check
async def a_reader_keeps_to_its_limit_and_its_order(stage: Stage) -> None:
    """A reader with a small buffer would be given more than it can hold, or lose what did not fit."""
    store = await stage.open()
    grant = await store.register("t", "p")
    number = 1
    for _ in range(5):
        await store.publish(grant, number, numbered("p", number, 500))
        number += 500
    reader = await store.reader("t", 0)
    found: list[str] = []
    while (chunk := await reader.take(333, 0)).values:
        holds("no more than the limit", len(chunk.values) <= 333)
        holds("the newest number is known", chunk.last == 2500)
        found += texts(chunk.values)
    equal("what was read", found, [f"p/{number}" for number in range(1, 2501)])
    await reader.close()


@check
async def a_reader_waits_for_what_is_not_yet_published(stage: Stage) -> None:
    """Readers would have to ask again and again, or sleep through it."""
    store, other = await stage.open(), await stage.open()
    grant = await store.register("t", "p")
    readers = [await store.reader("t", 0), await other.reader("t", 0), await other.reader("t", 0)]
    for round_ in range(1, 4):
        waiting = [asyncio.ensure_future(reader.take(10, FOREVER_S)) for reader in readers]
        await asyncio.sleep(0.02)
        holds("they wait", not any(take.done() for take in waiting))
        await store.publish(grant, round_, entries(f"v{round_}"))
        for take in waiting:
            chunk = await soon("a reader that waits", take)
            equal("what woke them", (texts(chunk.values), chunk.last), ([f"v{round_}"], round_))
    for reader in readers:
        await reader.close()


@check
async def a_reader_gives_up_in_time(stage: Stage) -> None:
    """A program that wants to look after something else meanwhile would never get to it."""
    store = await stage.open()
    grant = await store.register("t", "p")
    await store.publish(grant, 1, entries("a"))
    reader = await store.reader("t", 1)
    for timeout_s in (0, 0.05):
        chunk = await reader.take(10, timeout_s)
        equal("nothing", (list(chunk.values), chunk.floor, chunk.last), ([], 0, 1))
        holds("the time", chunk.time > 0)
    await store.publish(grant, 2, entries("b"))
    equal("then something", texts((await soon("a reader", reader.take(10, FOREVER_S))).values), ["b"])
    await reader.close()


@check
async def a_take_that_is_cancelled_loses_nothing(stage: Stage) -> None:
    """A value that was on its way to somebody who gave up would never be read by anybody."""
    store, other = await stage.open(), await stage.open()
    grant = await store.register("t", "p")
    reader = await other.reader("t", 0)
    found: list[int] = []
    for number in range(1, 31):
        waiting = asyncio.ensure_future(reader.take(10, FOREVER_S))
        publishing = asyncio.ensure_future(store.publish(grant, number, entries(f"{number}")))
        for _ in range(number % 6):
            await asyncio.sleep(0)
        if number % 3 == 0:
            await publishing
            await asyncio.sleep(0.001 * (number % 7))
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            found += seqs((await waiting).values)
        await publishing
    while (chunk := await reader.take(10, 0)).values:
        found += seqs(chunk.values)
    equal("what was read", found, list(range(1, 31)))
    await reader.close()


@check
async def a_topic_that_has_only_subscribers_can_be_read(stage: Stage) -> None:
    """Whoever subscribes before the first publish would be told that there is no topic, and miss the first value."""
    store, other = await stage.open(), await stage.open()
    await store.subscribe("t", "early", HOUR)
    info = await other.info("t")
    equal("the topic", (info.publisher, info.last, info.values), ("", 0, 0))
    reader = await store.reader("t", 0)
    waiting = asyncio.ensure_future(reader.take(10, FOREVER_S))
    await asyncio.sleep(0.02)
    grant = await other.register("t", "p")
    await other.publish(grant, 1, entries("first"))
    equal("what comes", texts((await soon("a reader that waits", waiting)).values), ["first"])
    await reader.close()


@check
async def a_reader_is_told_what_is_gone(stage: Stage) -> None:
    """Values that were collected would be passed over in silence."""
    store, other = await stage.open(), await stage.open()
    grant = await store.register("t", "p")
    await store.publish(grant, 1, numbered("p", 1, 10))
    old = await store.reader("t", 0)
    equal("the first two", seqs((await old.take(2, 0)).values), [1, 2])
    place = (await everything(store, "t"))[2].place
    await store.subscribe("t", "s", HOUR, start=5)
    await other.collect("t", await store.time())
    await store.erase(grant, [7, 8])
    seen: list[int] = []
    while (chunk := await old.take(100, 0)).values:
        seen += seqs(chunk.values)
        equal("the floor", chunk.floor, 5)
    # A reader that was open already may have taken along what went meanwhile, but what is there it must see.
    equal("what the open reader goes on with", [seq for seq in seen if seq in (6, 9, 10)], [6, 9, 10])
    equal("its order", seen, sorted(set(seen)))
    for after, hint in ((0, 0), (3, place), (5, 0), (6, 0), (7, 0)):
        reader = await other.reader("t", after, hint)
        chunk = await reader.take(100, 0)
        equal(f"after {after}", (seqs(chunk.values), chunk.floor, chunk.last), ([seq for seq in (6, 9, 10) if seq > after], 5, 10))
        await reader.close()
    await old.close()


@check
async def readers_do_not_disturb_each_other(stage: Stage) -> None:
    """One reader that is slow, or closed, would stop the others or move them."""
    store = await stage.open()
    grant = await store.register("t", "p")
    other = await store.register("u", "p")
    await store.publish(grant, 1, numbered("p", 1, 50))
    await store.publish(other, 1, numbered("q", 1, 50))
    readers = [await store.reader("tu"[at % 2], at) for at in range(12)]
    await readers[5].close()
    await readers[5].close()
    del readers[5]
    starts = [at for at in range(12) if at != 5]
    for turn in range(3):
        chunks = await asyncio.gather(*(reader.take(7, 0) for reader in readers))
        for at, chunk in zip(starts, chunks, strict=True):
            first = at + 7 * turn + 1
            equal(f"the reader after {at}", texts(chunk.values), [f"{'pq'[at % 2]}/{number}" for number in range(first, first + 7)])
    for reader in readers:
        await reader.close()


@check
async def what_is_acknowledged_can_be_read_at_once(stage: Stage) -> None:
    """A publisher tells a friend "it is there", and the friend does not find it."""
    store, other = await stage.open(), await stage.open()
    grant = await store.register("t", "p")
    reader = await other.reader("t", 0)
    for number in range(1, 21):
        await store.publish(grant, number, entries(f"{number}"))
        equal("read by another, without waiting", seqs((await reader.take(10, 0)).values), [number])
    await reader.close()


@check
async def that_the_newest_are_gone_is_said_before_the_next_comes(stage: Stage) -> None:
    """Who reads up to the newest number would wait, perhaps for ever, for values that were taken back."""
    store, other = await stage.open(), await stage.open()
    for topic, options in (("own", TopicOptions()), ("shared", TopicOptions(shared=True)), ("mutable", TopicOptions(mutable=True))):
        grant = await store.register(topic, "p", options=options)
        keyed = [Entry(b"%d" % number, f"key {number}") for number in range(1, 6)]
        await store.publish(grant, 1, keyed)
        values = await everything(store, topic)
        early = await other.reader(topic, 0)
        equal(f"what is there of {topic}", len((await early.take(10, 0)).values), 5)
        await store.erase(grant, [2, 4, 5])
        for after in range(5):
            for place in {0, values[after - 1].place if after else 0}:
                reader = await other.reader(topic, after, place)
                there = [number for number in (1, 3) if number > after]
                equal(f"what is left of {topic} after {after}", seqs((await reader.take(10, 0)).values), there)
                end = await reader.take(10, 0)
                equal(f"the end of {topic} after {after}", (list(end.values), end.last, end.gone), ([], 5, 5))
                await reader.close()
        last = await store.publish(grant, 6, keyed[:1])
        equal(f"what comes next in {topic}", seqs((await early.take(10, 0)).values), [last.last])
        await early.close()


@check
async def what_is_on_its_way_is_not_said_to_be_gone(stage: Stage) -> None:
    """A reader would be told that a value was removed which was published just then, and would never look for it."""
    store, other = await stage.open(), await stage.open()
    grant = await store.register("t", "p")
    reader, newest = await other.reader("t", 0), 0

    async def publish() -> None:
        for number in range(1, 201):
            await store.publish(grant, number, numbered("p", number, 1))
            if number % 10 == 5:
                await store.erase(grant, [number])

    publishing = asyncio.ensure_future(publish())
    try:
        while newest < 200:
            is_over = publishing.done()
            chunk = await reader.take(7, 0)
            for value in chunk.values:
                holds(f"{value.seq} was said to be gone, up to {newest}", value.seq > newest)
                newest = value.seq
            newest = max(newest, chunk.gone)
            holds(f"all that is left is read, or told: {newest}", not is_over or chunk.values or newest == 200)
        await publishing
    finally:
        publishing.cancel()
        await asyncio.wait((publishing,))
        await reader.close()
