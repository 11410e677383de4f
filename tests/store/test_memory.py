"""What is particular to the store in memory: whom it is shared with, its clock, its room."""

from __future__ import annotations

import asyncio
import threading
from itertools import count

import pytest

from antiphon.errors import BadStore, StoreFull, UnknownTopic
from antiphon.store.contract import Backend
from antiphon.store.memory import MemoryBackend
from antiphon.store.records import Entry

_FRESH = count(1)


def fresh() -> str:
    return f"memory:test{next(_FRESH)}"


async def opened(url: str, **options: object) -> MemoryBackend:
    backend = MemoryBackend(url, **options)  # type: ignore[arg-type]
    await backend.open()
    return backend


def test_a_name_is_shared_and_no_name_is_not() -> None:
    """Two parts of a program would talk past each other, or two tests into each other."""

    async def play() -> None:
        url = fresh()
        one, two, alone = await opened(url), await opened(url), await opened("memory:")
        await one.register("t", "p")
        assert (await two.info("t")).publisher == "p"
        with pytest.raises(UnknownTopic):
            await alone.info("t")
        with pytest.raises(UnknownTopic):
            await (await opened("memory:")).info("t")
        await one.close()
        await two.close()
        assert (await (await opened(url)).info("t")).publisher == "p"

    asyncio.run(play())


def test_a_reader_is_woken_from_another_thread() -> None:
    """A facade without async has its event loop in a thread of its own: a reader there would sleep through what is published here."""
    url, ready, got = fresh(), threading.Event(), list[bytes]()

    async def read() -> None:
        store = await opened(url)
        reader = await store.reader("t", 0)
        waiting = asyncio.ensure_future(reader.take(1, 3600.0))
        await asyncio.sleep(0.05)
        ready.set()
        got.extend(value.data for value in (await asyncio.wait_for(waiting, 30.0)).values)

    async def write() -> None:
        store = await opened(url)
        grant = await store.register("t", "p")
        thread.start()
        assert await asyncio.to_thread(ready.wait, 30.0)
        await store.publish(grant, 1, [Entry(b"from here")])

    thread = threading.Thread(target=lambda: asyncio.run(read()))
    asyncio.run(write())
    thread.join(30.0)
    assert got == [b"from here"]


def test_whoever_waited_in_a_loop_that_is_gone_disturbs_nobody() -> None:
    """A test that ended with its loop would make every later publish fail."""
    url = fresh()

    async def abandon() -> None:
        store = await opened(url)
        await store.register("t", "p")
        reader = await store.reader("t", 0)
        waiting = reader.take(1, 3600.0)
        task = asyncio.ensure_future(waiting)
        await asyncio.sleep(0.01)
        task.cancel()

    async def publish() -> None:
        store = await opened(url)
        grant = await store.register("t", "p")
        assert (await store.publish(grant, 1, [Entry(b"v")])).last == 1

    asyncio.run(abandon())
    asyncio.run(publish())


def test_its_clock_is_given_and_does_not_go_back() -> None:
    """A test that moves time by hand would move it for one handle only, or backwards."""

    async def play() -> None:
        url, times = fresh(), iter((100, 50, 70, 200))
        store = await opened(url, now=lambda: next(times))
        other: Backend = await opened(url)
        assert [await store.time(), await other.time(), await store.time(), await other.time()] == [100, 100, 100, 200]

    asyncio.run(play())


def test_a_full_store_says_so_and_goes_on_when_there_is_room() -> None:
    """A program would grow until the machine kills it."""

    async def play() -> None:
        store = await opened(fresh(), max_bytes=10)
        grant = await store.register("t", "p")
        await store.publish(grant, 1, [Entry(b"12345"), Entry(b"1234")])
        with pytest.raises(StoreFull, match="nothing was written"):
            await store.publish(grant, 3, [Entry(b""), Entry(b"12")])
        assert (await store.info("t")).last == 2
        await store.erase(grant, [1])
        await store.publish(grant, 3, [Entry(b""), Entry(b"12")])
        assert (await store.info("t")).size == 6

    asyncio.run(play())


def test_what_is_no_address_of_it_is_refused() -> None:
    """A path given by mistake would be a store that forgets everything."""
    with pytest.raises(BadStore, match="memory:NAME"):
        MemoryBackend("crash.db")


def test_what_is_in_memory_does_not_claim_to_be_on_disk() -> None:
    """An acknowledgement would mean durable, and the power fails."""

    async def play() -> None:
        store = await opened("memory:")
        grant = await store.register("t", "p")
        assert not (await store.publish(grant, 1, [Entry(b"v")], synced=True)).synced

    asyncio.run(play())
