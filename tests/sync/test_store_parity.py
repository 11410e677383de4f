"""Stores without await: the same names, the same parameters, the same behaviour; and threads, which the other does not have."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Coroutine
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import antiphon.sync
from antiphon import store as asynchronous
from antiphon.errors import Fenced, InvalidName, InvalidOption, StoreUnreachable, TimedOut, TooLarge, TopicTaken, UnknownTopic, UsageError
from antiphon.store import Gap, StoreSettings, Value
from antiphon.store.memory import MemoryBackend
from antiphon.store.records import SECOND
from antiphon.sync import store as sync_store

WAIT_S = 30.0
RENAMED = {"__aenter__": "__enter__", "__aexit__": "__exit__", "__aiter__": "__iter__", "__anext__": "__next__"}
# What stores, topics and subscriptions ask of each other.
PAIRS: list[tuple[type, type, set[str], set[str]]] = [
    (asynchronous.Store, antiphon.sync.Store, {"backend", "publisher", "seated", "remember", "forget"}, {"inside", "name", "settings"}),
    (asynchronous.Topic, antiphon.sync.Topic, set(), {"name"}),
    (asynchronous.Subscription, antiphon.sync.Subscription, {"due", "still_due", "settings"}, set()),
]
_FRESH = count(1)


def face(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_") or name in RENAMED or name in RENAMED.values()}


@pytest.mark.parametrize(("one", "other", "inside", "fields"), PAIRS, ids=lambda value: getattr(value, "__name__", ""))
def test_every_name_is_in_both(one: type, other: type, inside: set[str], fields: set[str]) -> None:
    """Somebody who moves a program from one to the other would find half of it missing."""
    assert inside <= face(one), "what is left out on purpose must exist"
    assert face(other) - fields == {RENAMED.get(name, name) for name in face(one) - inside}


@pytest.mark.parametrize(("one", "other", "inside", "fields"), PAIRS, ids=lambda value: getattr(value, "__name__", ""))
def test_every_call_takes_the_same(one: type, other: type, inside: set[str], fields: set[str]) -> None:
    """A parameter that is called otherwise, or has another default, would change what a program does when it is moved."""
    compared = 0
    for name in face(one) - inside:
        theirs, ours = inspect.getattr_static(one, name), inspect.getattr_static(other, RENAMED.get(name, name))
        if inspect.isfunction(theirs):
            assert parameters(ours) == parameters(theirs), name
            assert not inspect.iscoroutinefunction(ours), name
            compared += 1
    assert compared > 3
    assert parameters(antiphon.sync.open_store) == parameters(asynchronous.open_store)


def parameters(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]


# -- one story, told twice -----------------------------------------------------------------------------------------------------


class Awaited:
    async def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        outcome = function(*arguments, **options)
        return await outcome if inspect.isawaitable(outcome) else outcome

    def open(self, url: str, **options: Any) -> Any:
        return asynchronous.open_store(url, **options)

    async def next(self, iterator: Any) -> Any:
        return await anext(aiter(iterator), "the end")


class Waited:
    async def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        return await asyncio.to_thread(function, *arguments, **options)

    def open(self, url: str, **options: Any) -> Any:
        return antiphon.sync.open_store(url, **options)

    async def next(self, iterator: Any) -> Any:
        return await asyncio.to_thread(next, iter(iterator), "the end")


Way = Awaited | Waited


def seen(item: Any) -> Any:
    return item if isinstance(item, Gap) else (item.seq, item.data, item.key)


async def conversation(way: Way, url: str) -> list[Any]:
    store = way.open(url, name="hotline")
    await way.call(store.open)
    topic = store.topic("crash", type=str)
    told: list[Any] = [await way.call(topic.register, retention_s=60.0), await way.call(topic.publish, "one")]
    told += [await way.call(topic.publish_many, ["two", "three", "four", "five"]), topic.number, topic.name, store.name, store.url == url]
    told += [await way.call(topic.erase, [3]), seen(await way.call(topic.at, 3)), seen(await way.call(topic.at, 2))]
    subscription = await way.call(topic.subscribe, 60.0, id="me")
    told += [seen(await way.next(subscription)), seen(await way.call(subscription.read, 20))]
    told += [[seen(item) for item in await way.next(subscription.batches(2))]]
    await way.call(subscription.done, 2, b"state")
    await way.call(subscription.done_one, [5])
    told += [subscription.position, subscription.state, subscription.lag, subscription.lease, subscription.epoch, subscription.expired]
    told += [[(info.id, info.position, info.lag) for info in await way.call(topic.subscribers)]]
    again = await way.call(topic.subscribe, id="me")
    try:
        await way.call(subscription.done, 4)
    except Fenced as error:
        told.append(str(error))
    told += [again.state, seen(await way.next(again)), seen(await way.next(again))]
    await way.call(again.renew, 120.0)
    await way.call(again.done, 5)
    told += [again.lease, [info.last for info in await way.call(store.topics)], (await way.call(topic.info)).last]
    told += [(await way.call(store.collect, ["crash"])).keys(), await way.call(store.time) > 0, sorted(await way.call(store.stats))]
    await way.call(again.unsubscribe)
    await way.call(topic.release)
    told += [await way.call(topic.subscribers), await way.next(again), store.waiting_in_outbox("crash"), repr(topic).startswith("<topic")]
    await way.call(store.close)
    return told


async def refusals(way: Way, url: str) -> list[Any]:
    store = way.open(url, name="hotline", settings=StoreSettings(state_bytes=10))
    await way.call(store.open)
    topic = store.topic("crash")
    await way.call(topic.publish, b"one")
    subscription = await way.call(topic.subscribe)
    other = way.open(url, name="other")
    await way.call(other.open)
    told = [
        await raised(InvalidOption, way, topic.publish, "text"),
        await raised(InvalidName, way, store.topic, ""),
        await raised(TooLarge, way, subscription.done, 1, bytes(11)),
        await raised(UsageError, way, subscription.done, 2),
        await raised(InvalidOption, way, topic.subscribe, -1),
        await raised(InvalidOption, way, subscription.read_many, 0),
        await raised(InvalidOption, way, subscription.batches, 0),
        await raised(UnknownTopic, way, store.topic("none").info),
        await raised(TimedOut, way, topic.at, 2),
    ]
    told.append(await raised(TopicTaken, way, other.topic("crash").publish, b"mine"))
    await way.call(subscription.read, 20)
    told.append(await raised(TimedOut, way, subscription.read, 0.01))
    await way.call(subscription.close)
    kind, why = await raised(UsageError, way, subscription.read, 1)
    told.append((kind, why.replace(subscription.id, "it")))
    await way.call(store.close)
    await way.call(other.close)
    told += [await raised(UsageError, way, topic.publish, b"late"), await raised(UsageError, way, store.open)]
    return told


async def raised(kind: type[Exception], way: Way, function: Callable[..., Any], *arguments: Any) -> Any:
    with pytest.raises(kind) as caught:
        await way.call(function, *arguments)
    return type(caught.value).__name__, str(caught.value)


@pytest.mark.parametrize("back_end", ["memory", "sqlite"])
@pytest.mark.parametrize("story", [conversation, refusals], ids=lambda story: story.__name__)
def test_a_story_is_the_same_in_both(story: Callable[[Way, str], Coroutine[Any, Any, list[Any]]], back_end: str, tmp_path: Path) -> None:
    """The two would drift apart, and a script would behave otherwise than the server that it was copied from."""

    async def bounded(way: Way) -> list[Any]:
        fresh = f"parity{next(_FRESH)}"
        async with asyncio.timeout(WAIT_S):
            told = await story(way, f"memory:{fresh}" if back_end == "memory" else f"sqlite:{tmp_path / fresh}.db")
        return [str(each).replace(fresh, "fresh") for each in told]

    awaited, waited = asyncio.run(bounded(Awaited())), asyncio.run(bounded(Waited()))
    assert waited == awaited
    assert len(awaited) > 5


# -- what only threads can do --------------------------------------------------------------------------------------------------


def test_threads_publish_and_read_at_once(tmp_path: Path) -> None:
    """Workers that share a topic would lose values, or read some twice."""
    with antiphon.sync.open_store(f"sqlite:{tmp_path / 'field.db'}", name="pool") as store:
        topic = store.topic("crash")
        subscription = topic.subscribe(id="pool")
        read: list[list[int]] = [[], [], []]

        def write(writer: int) -> None:
            for number in range(100):
                topic.publish(b"%d/%d" % (writer, number))

        def work(mine: list[int]) -> None:
            for item in subscription:
                assert isinstance(item, Value)
                mine.append(item.seq)

        writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        workers = [threading.Thread(target=work, args=(mine,), daemon=True) for mine in read]
        for thread in writers + workers:
            thread.start()
        for thread in writers:
            thread.join(WAIT_S)
        until = time.monotonic() + WAIT_S
        while sum(map(len, read)) < 400 and time.monotonic() < until:
            time.sleep(0.01)
        subscription.close()
        for thread in workers:
            thread.join(WAIT_S)
        assert not any(thread.is_alive() for thread in workers), "reading ends with the subscription"
        assert sorted(seq for mine in read for seq in mine) == list(range(1, 401))


def test_what_has_been_fetched_for_long_is_judged_by_its_lease_again() -> None:
    """A script that thinks for an hour between two values would be given one that was over half an hour ago."""
    moment = [1_000 * SECOND]
    backend = MemoryBackend("memory:", now=lambda: moment[0])
    with sync_store.Store(asynchronous.Store(backend, name="ana", settings=StoreSettings(clock_s=0.0))) as store:
        topic = store.topic("crash")
        topic.publish_many([b"1", b"2", b"3"])
        subscription = topic.subscribe(10.0)
        assert subscription.read(WAIT_S).seq == 1
        moment[0] += 11 * SECOND
        topic.publish(b"4")
        assert next(subscription).seq == 4
        assert subscription.expired == 2


def test_a_store_out_of_reach_is_an_error_and_an_outbox_helps(tmp_path: Path) -> None:
    """A script would hang, or lose what it has to say."""
    pytest.importorskip("nats")
    quick = StoreSettings(timeout_s=0.5, outbox_s=0.05)
    with pytest.raises(StoreUnreachable):
        antiphon.sync.open_store("nats://127.0.0.1:9", name="ana", settings=quick).open()
    with antiphon.sync.open_store("nats://127.0.0.1:9", name="ana", outbox=tmp_path / "outbox.db", settings=quick) as store:
        assert isinstance(store.topic("crash").publish(b"later"), asynchronous.Queued)
        assert store.waiting_in_outbox("crash") == 1


def test_a_node_without_await_has_topics_too(tmp_path: Path) -> None:
    """Half of a node would be missing in a script."""
    with antiphon.sync.Node("ana", transport="memory", store=f"sqlite:{tmp_path / 'field.db'}", outbox=tmp_path / "outbox.db") as node:
        assert node.topic("crash").publish(b"1").seq == 1
        assert node.store.topic("crash").info().last == 1
    with antiphon.sync.open_store("memory:", name="ben") as store, antiphon.sync.Node("ben", transport="memory", store=store) as node:
        node.topic("crash").publish(b"1")
        assert store.topic("crash").info().last == 1


def test_values_may_come_from_what_waits(tmp_path: Path) -> None:
    """A program that copies one topic into another as it comes, or a pipe, would stop the loop of all its nodes while it waits."""
    with antiphon.sync.open_store(f"memory:{tmp_path}", name="hotline") as store:
        store.topic("crash").publish_many([b"1", b"2", b"3"])
        with store.topic("crash").subscribe(id="copy") as reader:
            copy = store.topic("copy")
            ack = copy.publish_many(reader.read(WAIT_S).data for _ in range(3))  # type: ignore[union-attr]
            assert ack.last == 3  # type: ignore[union-attr]
            reader.done_one(copy.at(number).seq for number in (1, 2, 3))  # type: ignore[union-attr]
            assert reader.position == 3
        assert copy.erase(copy.at(number).seq for number in (1, 2)) == 2  # type: ignore[union-attr]


def test_a_subscription_tells_threads_that_the_store_is_lost(tmp_path: Path) -> None:
    """Programs with threads would take a store that is away for a topic in which nothing happens."""
    url = f"sqlite:{tmp_path / 'field.db'}"
    with antiphon.sync.open_store(url, name="p", settings=StoreSettings(lost_s=0.05, watch_s=0.05)) as store:
        topic = store.topic("t")
        topic.publish(b"1")
        subscription = topic.subscribe(id="s")
        assert subscription.read(WAIT_S).data == b"1"
        events = subscription.events()
        assert subscription.reachable
        subscription._subscription._prefetch._watch = _unreachable
        lost = events.receive(WAIT_S)
        assert isinstance(lost, antiphon.StoreLost)
        assert (lost.why, subscription.reachable) == ("cut", False)
        subscription._subscription._prefetch._watch = _reachable
        assert isinstance(events.receive(WAIT_S), antiphon.StoreRestored)
        assert subscription.reachable
        subscription.close()
        assert list(events) == []


async def _unreachable() -> None:
    raise StoreUnreachable("sqlite:", "cut")


async def _reachable() -> None:
    return None
