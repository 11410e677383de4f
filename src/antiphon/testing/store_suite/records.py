"""Records: small things that change only by compare-and-set."""

from __future__ import annotations

import asyncio

from antiphon.errors import Conflict
from antiphon.testing.store_suite.stage import FOREVER_S, Stage, check, equal, holds, only, refused, soon, together


@check
async def a_record_changes_on_condition(stage: Stage) -> None:
    """Of two joins at once one would be lost."""
    store, other = await stage.open(), await stage.open()
    equal("before", await store.get("groups/g"), None)
    with refused("a change of nothing", Conflict):
        await store.put("groups/g", b"x", 7)
    first = await store.put("groups/g", b"one", 0)
    equal("what was written", (first.key, first.data), ("groups/g", b"one"))
    holds("a revision", first.revision > 0)
    equal("as another sees it", await other.get("groups/g"), first)
    with refused("making it again", Conflict):
        await other.put("groups/g", b"x", 0)
    second = await other.put("groups/g", b"two", first.revision)
    with refused("a change of what was", Conflict):
        await store.put("groups/g", b"x", first.revision)
    with refused("removing what was", Conflict):
        await store.remove("groups/g", first.revision)
    equal("as it is", await store.get("groups/g"), second)
    equal("another key", await store.get("groups/h"), None)


@check
async def a_record_made_again_is_another(stage: Stage) -> None:
    """Somebody who slept would change a new record, believing it to be the old one."""
    store, other = await stage.open(), await stage.open()
    seen: set[int] = set()
    for round_ in range(4):
        made = await store.put("k", b"%d" % round_, 0)
        changed = await other.put("k", b"more", made.revision)
        holds("revisions are new", not seen & {made.revision, changed.revision} and made.revision != changed.revision)
        seen |= {made.revision, changed.revision}
        await store.remove("k", changed.revision)
        equal("gone", await other.get("k"), None)
        equal("not listed", await other.records(""), [])
        for revision in seen:
            with refused("a change of what is gone", Conflict):
                await store.put("k", b"x", revision)
            with refused("removing what is gone", Conflict):
                await store.remove("k", revision)


@check
async def counting_by_compare_and_set_loses_nothing(stage: Stage) -> None:
    """Two who read the same and write at once would both succeed."""
    handles = [await stage.open() for _ in range(3)]
    conflicts = 0

    async def count(at: int) -> None:
        nonlocal conflicts
        for _ in range(6):
            while True:
                record = await handles[at].get("n")
                try:
                    await handles[at].put("n", b"%d" % (int(record.data) + 1 if record else 1), record.revision if record else 0)
                    break
                except Conflict:
                    conflicts += 1
                    await asyncio.sleep(0.001 * at)

    await asyncio.gather(*(count(at) for at in range(3)))
    record = await handles[0].get("n")
    equal("the count", record and record.data, b"18")
    made, errors = await together(*(handle.put("first", b"%d" % at, 0) for at, handle in enumerate(handles)))
    equal("how many made it", len(made), 1)
    only("the others", errors, Conflict)
    equal("whose it is", await handles[1].get("first"), made[0])


@check
async def records_are_listed_by_what_their_keys_begin_with(stage: Stage) -> None:
    """A node would see the groups of another realm, or not all of its own."""
    store, other = await stage.open(), await stage.open()
    keys = ["groups/b", "groups/a", "groups/a/x", "groups2/a", "nodes/ä", "nodes/*", "nodes/a.b", "node"]
    made = {key: await store.put(key, key.encode(), 0) for key in keys}
    equal("all", await other.records(""), [made[key] for key in sorted(keys)])
    equal("groups", await other.records("groups/"), [made[key] for key in ("groups/a", "groups/a/x", "groups/b")])
    equal("nodes", await other.records("nodes/"), [made[key] for key in sorted(("nodes/ä", "nodes/*", "nodes/a.b"))])
    equal("within", await other.records("groups/a/"), [made["groups/a/x"]])
    equal("none", await other.records("nothing/"), [])


@check
async def records_keep_their_data(stage: Stage) -> None:
    """A group record would come back cut off."""
    store, other = await stage.open(), await stage.open()
    for at, data in enumerate((b"", b"\x00", bytes(range(256)) * 300)):
        record = await store.put(f"k{at}", data, 0)
        equal("what is there", await other.get(f"k{at}"), record)
        holds("its data", record.data == data)


@check
async def who_watches_is_woken(stage: Stage) -> None:
    """A view would follow the record only when somebody happens to look."""
    store, other = await stage.open(), await stage.open()
    watching = [asyncio.ensure_future(handle.watch("k", 0, FOREVER_S)) for handle in (store, other, other)]
    await asyncio.sleep(0.02)
    await store.put("another", b"", 0)
    holds("they wait", not any(watch.done() for watch in watching))
    made = await store.put("k", b"1", 0)
    equal("made", [await soon("a watch", watch) for watch in watching], [made] * 3)
    watching = [asyncio.ensure_future(handle.watch("k", made.revision, FOREVER_S)) for handle in (store, other)]
    await asyncio.sleep(0.02)
    changed = await other.put("k", b"2", made.revision)
    equal("changed", [await soon("a watch", watch) for watch in watching], [changed] * 2)
    watching = [asyncio.ensure_future(handle.watch("k", changed.revision, FOREVER_S)) for handle in (store, other)]
    await asyncio.sleep(0.02)
    await store.remove("k", changed.revision)
    equal("removed", [await soon("a watch", watch) for watch in watching], [None] * 2)


@check
async def who_watches_sees_what_has_changed_already(stage: Stage) -> None:
    """A change between the look and the watch would be slept through."""
    store = await stage.open()
    first = await store.put("k", b"1", 0)
    equal("there is one", await soon("a watch", store.watch("k", 0, FOREVER_S)), first)
    second = await store.put("k", b"2", first.revision)
    equal("another", await soon("a watch", store.watch("k", first.revision, FOREVER_S)), second)
    await store.remove("k", second.revision)
    equal("none", await soon("a watch", store.watch("k", second.revision, FOREVER_S)), None)


@check
async def who_watches_gives_up_in_time(stage: Stage) -> None:
    """A program that wants to look after something else meanwhile would never get to it."""
    store = await stage.open()
    for timeout_s in (0, 0.05):
        equal("nothing", await store.watch("k", 0, timeout_s), None)
    record = await store.put("k", b"1", 0)
    for timeout_s in (0, 0.05):
        equal("as it was", await store.watch("k", record.revision, timeout_s), record)
    watching = asyncio.ensure_future(store.watch("k", record.revision, FOREVER_S))
    await asyncio.sleep(0.02)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    equal("afterwards", await soon("a watch", store.watch("k", 0, FOREVER_S)), record)
