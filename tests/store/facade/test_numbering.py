"""A publisher's own numbers: counted or said, never both, and a repeat goes where its first attempt would have gone or nowhere."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import StoreFull, StoreUnreachable, UsageError
from antiphon.store import Queued, Store, Value
from antiphon.store.memory import MemoryBackend


async def published(store: Store, topic: str) -> list[bytes]:
    """What a new reader finds."""
    last = (await store.topic(topic).info()).last
    found: list[bytes] = []
    async with await store.topic(topic).subscribe() as reader:
        while len(found) < last:
            found += [item.data for item in await reader.read_many(last, 10.0) if isinstance(item, Value)]
    return found


async def test_a_number_is_not_said_where_values_are_counted(opened: Any, backend: Any) -> None:
    """A heading would be published before the lines of a file, and the first line acknowledged as a repeat of it, and be nowhere."""
    async with opened(backend) as store:
        topic = store.topic("log")
        await topic.publish(b"heading")
        for number in (1, 2):
            with pytest.raises(UsageError, match="for all values of a topic or for none"):
                await topic.publish(b"line", number=number)
        await topic.publish(b"line")
        assert await published(store, "log") == [b"heading", b"line"]


async def test_a_number_is_not_said_where_the_outbox_counts(opened: Any, fickle: Any, tmp_path: Path) -> None:
    """Values in the outbox get high numbers when they are sent: what was said below them would be taken for written."""
    async with opened(fickle, outbox=tmp_path / "box") as store:
        fickle.down = True
        assert isinstance(await store.topic("log").publish(b"one"), Queued)
        with pytest.raises(UsageError, match="for all values of a topic or for none"):
            await store.topic("log").publish(b"two", number=2)
        fickle.down = False
        async with asyncio.timeout(10.0):
            while store.waiting_in_outbox("log"):
                await asyncio.sleep(0.01)
        with pytest.raises(UsageError, match="for all values of a topic or for none"):
            await store.topic("log").publish(b"two", number=2)


async def test_what_found_no_room_is_not_taken_for_written(opened: Any) -> None:
    """The disk was full, a smaller value was written meanwhile: the repeat of the large one would be acknowledged and be nowhere."""
    backend = MemoryBackend(max_bytes=100)
    async with opened(backend) as store:
        topic = store.topic("crash")
        with pytest.raises(StoreFull) as caught:
            await topic.publish(bytes(200))
        await topic.publish(b"small")
        backend._max_bytes = 1_000
        with pytest.raises(UsageError, match="given up"):
            await topic.publish(bytes(200), number=caught.value.number)
        await topic.publish(bytes(200))
        assert await published(store, "crash") == [b"small", bytes(200)]


async def test_a_repeat_in_several_batches_does_not_meet_what_came_between(opened: Any, fickle: Any) -> None:
    """Of a long publish that failed half-way the second half would be dropped as a repeat of what somebody published since."""
    values = [b"%d" % number for number in range(fickle.batch_values + 10)]
    async with opened(fickle) as store:
        topic = store.topic("log")
        await topic.register()
        fickle.faults["publish"] += ["", *["lost"] * 1_000]
        with pytest.raises(StoreUnreachable) as caught:
            await topic.publish_many(values, timeout=0.1)
        fickle.faults.clear()
        assert caught.value.number == 1
        await topic.publish(b"between")
        with pytest.raises(UsageError, match="given up"):
            await topic.publish_many(values, number=1)
        assert (await topic.info()).last == fickle.batch_values + 1


async def test_a_repeat_in_several_batches_writes_what_was_missing(opened: Any, fickle: Any) -> None:
    """A long publish that failed half-way could not be repeated, or its first half would be there twice."""
    values = [b"%d" % number for number in range(fickle.batch_values + 10)]
    async with opened(fickle) as store:
        topic = store.topic("log")
        await topic.publish(b"before")
        fickle.faults["publish"] += ["", *["lost"] * 1_000]
        with pytest.raises(StoreUnreachable) as caught:
            await topic.publish_many(values, timeout=0.1)
        fickle.faults.clear()
        assert (await topic.publish_many(values, number=caught.value.number)).last == len(values) + 1
        assert await published(store, "log") == [b"before", *values]


async def test_of_a_cancelled_publish_nothing_comes_later(opened: Any, fickle: Any) -> None:
    """The end of a long publish would appear without its beginning, long after its caller gave it up, with somebody else's next value."""
    async with opened(fickle) as store:
        topic = store.topic("log")
        await topic.register()
        fickle.faults["publish"].append("hangs")
        cancelled = asyncio.create_task(topic.publish_many([b"old"] * (2 * fickle.batch_values + 1)))
        async with asyncio.timeout(10.0):
            while not fickle.calls["publish"]:
                await asyncio.sleep(0.001)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        await topic.publish(b"new")
        assert await published(store, "log") == [b"new"]
