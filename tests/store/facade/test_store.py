"""A store as a whole: opening and closing, what it counts, what it keeps for others, and what its addresses mean."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from textwrap import dedent
from typing import Any

import pytest

from antiphon.errors import BadStore, InvalidOption, StoreUnreachable, UsageError
from antiphon.store import Gap, StoreSettings, open_store
from antiphon.store.memory import MemoryBackend


async def test_a_store_is_opened_in_three_ways(url: str) -> None:
    """A notebook, a script and a server would each need another way in."""
    async with open_store(url, name="ana") as store:
        await store.topic("crash").publish(b"1")
    opened = await open_store(url, name="ana")
    again = open_store(url, name="ben")
    assert await again.open() is again
    ways = (opened, again)
    for way in ways:
        if not url.startswith("memory:"):
            assert (await way.topic("crash").info()).last == 1
        await way.close()
        await way.close()


async def test_a_store_that_is_closed_while_it_is_cancelled_is_closed(url: str) -> None:
    """A program that is interrupted while it ends would leave threads and files behind."""
    store = await open_store(url, name="ana")
    await store.topic("crash").publish(b"1")
    await store.topic("crash").subscribe()
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await store.close()
    with pytest.raises(UsageError, match="closed"):
        await store.time()
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert left == []


async def test_nothing_runs_on_after_closing(url: str) -> None:
    """A program that opens stores now and then would collect tasks until it is slow."""
    for _ in range(3):
        async with open_store(url, name="ana") as store:
            topic = store.topic("crash")
            await topic.publish(b"1")
            subscription = await topic.subscribe()
            await subscription.read(20)
            await subscription.done(1)
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert left == []


@pytest.mark.parametrize("call", ["topics", "collect", "time"])
async def test_cancelling_a_call_leaves_the_store_whole(opened: Any, backend: Any, call: str) -> None:
    """A program that times out would have to open its store anew."""
    async with opened(backend) as store:
        topic = store.topic("crash")
        await topic.publish_many([b"1", b"2", b"3"])
        subscription = await topic.subscribe()
        for turns in range(12):
            task = asyncio.create_task(getattr(store, call)())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert [item.seq for item in [await subscription.read(20) for _ in range(3)]] == [1, 2, 3], "nothing went that was not done"
        assert await getattr(store, call)()


async def test_a_store_that_nobody_opened_says_so(url: str) -> None:
    """Whoever forgot the `await` would wait half a minute, and then look for what is wrong with a store that is well."""
    store = open_store(url, name="ana")
    topic = store.topic("crash")
    async with asyncio.timeout(20):
        for call in (topic.publish(b"1"), topic.register(), topic.subscribe(), topic.at(1), topic.info(), store.topics(), store.time()):
            with pytest.raises(UsageError, match="was not opened"):
                await call
    async with store:
        assert (await topic.publish(b"1")).seq == 1


async def test_opening_that_is_cancelled_leaves_nothing_behind(url: str, tmp_path: Any) -> None:
    """A program that gives up on a slow store would find its outbox locked when it tries again."""
    for turns in range(10):
        opening = asyncio.create_task(open_store(url, name="ana", outbox=tmp_path / "outbox.db").open())
        for _ in range(turns):
            await asyncio.sleep(0.001)
        opening.cancel()
        outcome = (await asyncio.gather(opening, return_exceptions=True))[0]
        if not isinstance(outcome, BaseException):
            await outcome.close()
    async with open_store(url, name="ana", outbox=tmp_path / "outbox.db") as store:
        assert (await store.topic("crash").publish(b"1")).seq == 1
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert left == []


async def test_what_is_being_read_is_not_collected(opened: Any, fickle: Any, hand: Any) -> None:
    """A dispatcher that works on a value for long would find it gone when it starts anew."""
    async with opened(fickle, node_timeout_s=30.0) as reader, opened(fickle, "other") as other:
        topic = reader.topic("crash")
        await topic.publish_many([b"1", b"2", b"3"])
        subscription = await topic.subscribe(lease=10, id="slow")
        assert (await subscription.read(20)).seq == 1
        hand.move(11)  # the lease is over for all three, and yet they are in somebody's hands
        assert (await other.collect(["crash"]))["crash"].floor == 0
        again = await reader.topic("crash").at(1)
        assert not isinstance(again, Gap)
        await subscription.done(3)
        for _ in range(3):
            await reader.collect(["crash"])
        assert (await reader.collect(["crash"]))["crash"].floor == 3


async def test_counters_say_what_happened(opened: Any, fickle: Any) -> None:
    """Nobody could see from outside whether a store is slow, away, or not used at all."""
    async with opened(fickle) as store:
        topic = store.topic("crash")
        await topic.publish_many([b"1", b"2", b"3"])
        await topic.erase(2)
        subscription = await topic.subscribe()
        await subscription.read_many(3, 20)
        await subscription.done(3)
        fickle.faults["publish"].append("lost")
        await topic.publish(b"4")
        stats = store.stats()
        expected = {"published": 4, "batches": 2, "read": 2, "gaps": 1, "done": 1, "retries": 1, "unreachable": 1, "subscriptions": 1}
        assert {name: stats[name] for name in expected} == expected
        assert stats["ring"]["member"] is True  # type: ignore[index]


def test_settings_that_cannot_work_are_refused() -> None:
    """A store would wait for ever, or keep nothing at all, because of a slip in a file."""
    nan, infinite = float("nan"), float("inf")
    wrong = {"timeout_s": 0, "retry_s": -1, "outbox_s": infinite, "clock_s": -0.1, "collect_s": nan, "queue_values": 0, "marks": 0}
    for field, value in [*wrong.items(), ("timeout_s", "30"), ("clock_s", None), ("prefetch_values", 1.5), ("marks", True)]:
        with pytest.raises(InvalidOption, match=field):
            StoreSettings(**{field: value})
    with pytest.raises(TypeError):
        StoreSettings(patience=3)  # type: ignore[call-arg]


async def test_what_is_no_store_is_refused(tmp_path: Any) -> None:
    """Somebody's file would be written over, or a store silently made where none was meant."""
    (tmp_path / "notes.txt").write_text("these are notes and no database at all, and they go on for a while\n" * 50)
    for address in (f"sqlite:{tmp_path / 'notes.txt'}", f"sqlite:{tmp_path}", f"sqlite:{tmp_path / 'none' / 'x.db'}"):
        with pytest.raises(BadStore):
            async with open_store(address):
                pass


def test_an_extra_that_is_missing_is_named_with_its_command() -> None:
    """Somebody would read a traceback about a package that they have never heard of."""
    program = dedent("""
        import sys
        sys.modules["nats"] = None
        import antiphon, asyncio
        async def opened():
            async with antiphon.open_store("nats://127.0.0.1:4222"):
                pass
        try:
            asyncio.run(opened())
        except antiphon.UsageError as error:
            print(error)
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "pip install 'antiphon[nats]'" in done.stdout, done.stderr


async def test_whoever_closes_before_it_is_open_has_nothing_left(fickle: Any, opened: Any) -> None:
    """A store that could not be opened would leave its outbox locked."""
    fickle.down = True
    for _ in range(2):
        with pytest.raises(StoreUnreachable):
            async with opened(fickle, timeout_s=0.02):
                pass
    async with opened(MemoryBackend()) as store:
        assert await store.topics() == []
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert left == []
