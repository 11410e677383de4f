"""Mutable topics: a key has one value, the newest, for as long as nobody takes it back."""

from __future__ import annotations

import asyncio

from antiphon.store.records import KEY_BYTES, Entry, TopicOptions
from antiphon.testing.store_suite.stage import FOREVER_S, HOUR, Stage, check, equal, everything, seqs, soon, texts, until

MUTABLE = TopicOptions(mutable=True, retention_s=0.0)


@check
async def a_new_value_of_a_key_replaces_the_one_before(stage: Stage) -> None:
    """Whoever comes late would read where everybody has been instead of where everybody is, or miss somebody."""
    store = await stage.open()
    grant = await store.register("where", "p", options=MUTABLE)
    await store.publish(grant, 1, [Entry(b"a1", "a"), Entry(b"b1", "b")])
    await store.publish(grant, 3, [Entry(b"a2", "a")])
    await store.publish(grant, 4, [Entry(b"c1", "c"), Entry(b"c2", "c"), Entry(b"a3", "a"), Entry(b"c3", "c")])
    values = await everything(await stage.open(), "where")
    equal("what is there", [(value.seq, value.key, value.data) for value in values], [(2, "b", b"b1"), (6, "a", b"a3"), (7, "c", b"c3")])
    info = await store.info("where")
    equal("the topic", (info.last, info.values, info.floor), (7, 3, 0))


@check
async def a_repeat_does_not_bring_an_older_value_back(stage: Stage) -> None:
    """A delayed repeat would set the object back to what it was."""
    store = await stage.open()
    grant = await store.register("where", "p", options=MUTABLE)
    await store.publish(grant, 1, [Entry(b"old", "a")])
    await store.publish(grant, 2, [Entry(b"new", "a")])
    await store.publish(grant, 1, [Entry(b"old", "a")])
    receipt = await store.publish(grant, 1, [Entry(b"old", "a"), Entry(b"new", "a"), Entry(b"newer", "a")])
    equal("the newest number", receipt.last, 3)
    equal("what is there", [(value.seq, value.data) for value in await everything(store, "where")], [(3, b"newer")])


@check
async def the_newest_value_of_a_key_is_never_collected(stage: Stage) -> None:
    """The last known position of a ship would be gone because everybody had read it once."""
    store = await stage.open()
    grant = await store.register("where", "p", options=MUTABLE)
    await store.publish(grant, 1, [Entry(b"a", "a"), Entry(b"b", "b"), Entry(b"b", "b")])
    newest = (await everything(store, "where"))[-1]
    now = await until(store, newest.time + 2)
    equal("removed without subscribers", (await store.collect("where", now)).removed, 0)
    await store.subscribe("where", "s", 1, start="latest")
    equal("removed with one that is done", (await store.collect("where", now)).removed, 0)
    equal("what is there", seqs(await everything(store, "where")), [1, 3])
    late = await store.subscribe("where", "late", HOUR, start="earliest")
    equal("what a late one reads", seqs(await everything(store, "where", late.position)), [1, 3])


@check
async def keys_of_every_kind_are_keys(stage: Stage) -> None:
    """Two objects whose names look alike to the back end would overwrite each other."""
    store = await stage.open()
    grant = await store.register("where", "p", options=MUTABLE)
    keys = ["a", "A", "a.b", "a*", "*", ">", "a>", "a b", " a", "a/b", "", "ä", "日本", "%41", "'", "\\", "$KV.x", "_", "-", "=", "a\tb"]
    keys.append("k" * KEY_BYTES)
    await store.publish(grant, 1, [Entry(b"old", key) for key in keys])
    await store.publish(grant, 1 + len(keys), [Entry(key.encode(), key) for key in keys])
    values = await everything(store, "where")
    equal("what is there", [(value.key, value.data) for value in values], [(key, key.encode()) for key in keys])


@check
async def a_reader_of_a_mutable_topic_sees_what_is_new(stage: Stage) -> None:
    """A reader that waits would be told nothing when a value replaces another, or stumble over those that are gone."""
    store, other = await stage.open(), await stage.open()
    grant = await store.register("where", "p", options=MUTABLE)
    await store.publish(grant, 1, [Entry(b"%d" % number, "ab"[number % 2]) for number in range(10)])
    reader = await other.reader("where", 3)
    chunk = await reader.take(100, 0)
    equal("what is there", (texts(chunk.values), chunk.last), (["8", "9"], 10))
    waiting = asyncio.ensure_future(reader.take(100, FOREVER_S))
    await asyncio.sleep(0.01)
    await store.publish(grant, 11, [Entry(b"new", "a")])
    equal("what comes", seqs((await soon("a reader that waits", waiting)).values), [11])
    await reader.close()


@check
async def the_value_of_a_key_can_be_taken_back(stage: Stage) -> None:
    """A ship that was scrapped would stay on the map for ever."""
    store = await stage.open()
    grant = await store.register("where", "p", options=MUTABLE)
    await store.publish(grant, 1, [Entry(b"a", "a"), Entry(b"b", "b")])
    equal("erased", await store.erase(grant, [1]), 1)
    await store.publish(grant, 3, [Entry(b"b2", "b")])
    equal("what is there", seqs(await everything(store, "where")), [3])
    equal("erased", await store.erase(grant, [3]), 1)
    await store.publish(grant, 2, [Entry(b"b", "b"), Entry(b"b2", "b"), Entry(b"a2", "a")])
    equal("what is there", texts(await everything(store, "where")), ["a2"])
