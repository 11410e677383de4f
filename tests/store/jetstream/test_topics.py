"""What is particular to topics on JetStream: claims, large states, what accumulates, what is full."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from antiphon.errors import Fenced, StoreFull
from antiphon.store.jetstream import JetStreamBackend, LocalServers, objects
from antiphon.store.jetstream.connection import Connection
from antiphon.store.jetstream.stream import Stream
from antiphon.store.records import SECOND, Entry, Grant, TopicOptions

HOUR = 3_600 * SECOND
PATIENCE_S = 60.0
Opening = Callable[[str], AbstractAsyncContextManager[JetStreamBackend]]


async def messages(backend: JetStreamBackend, subjects: str) -> int:
    """How many messages the server has under these subjects."""
    connection = Connection(backend._address)
    await connection.open()
    try:
        prefix = backend._address.prefix
        name = {"t": f"{prefix}-t-t", "o": f"{prefix}-o", "r": f"{prefix}-r"}[subjects[0]]
        return sum(((await Stream(connection, name).state(f"{prefix}.{subjects}")).subjects or {}).values())
    finally:
        await connection.close()


@pytest.mark.parametrize("shared", [False, True])
def test_whoever_must_get_through_gets_through(url: str, opening: Opening, shared: bool) -> None:
    """A publisher that never pauses would keep out everybody else: nobody could take over from a program that has run wild."""

    async def story() -> None:
        async with opening(url) as wild, opening(url) as other:
            options = TopicOptions(shared=shared)
            grant = await wild.register("t", "wild", options=options)
            written = 0

            async def write() -> None:
                nonlocal written
                while True:
                    await wild.publish(grant, written + 1, [Entry(b"w")])
                    written += 1

            writing = asyncio.ensure_future(write())
            while written < 50:
                await asyncio.sleep(0.01)
            calm = await other.register("t", "calm", takeover=True)
            receipts = [await other.publish(calm, number, [Entry(b"c")]) for number in range(1, 6)]
            assert all(before.last < after.first for before, after in pairwise(receipts))
            if shared:
                goal = written + 20
                while written < goal and not writing.done():
                    await asyncio.sleep(0.01)
                assert not writing.done(), "the one that never pauses was shut out itself"
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
            else:
                with pytest.raises(Fenced):
                    await writing

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


def test_receipts_say_synced_only_where_the_servers_are_said_to_sync(url: str, opening: Opening) -> None:
    """An acknowledgement would promise what nobody has promised."""

    async def story() -> None:
        async with opening(url) as told, opening(url.replace("sync=always&", "")) as untold:
            grant = await told.register("t", "p")
            assert (await told.publish(grant, 1, [Entry(b"")])).synced
            assert not (await untold.publish(grant, 2, [Entry(b"")])).synced
            assert not (await untold.publish(grant, 1, [Entry(b"")])).synced

    asyncio.run(story())


def test_records_do_not_pile_up(url: str, opening: Opening) -> None:
    """A subscriber that says "done" a thousand times a day would fill the disk with what it has said before."""

    async def story() -> None:
        async with opening(url) as backend:
            grant = await backend.register("t", "p", options=TopicOptions(mutable=True))
            record = await backend.subscribe("t", "s", HOUR)
            note = await backend.put("k", b"", 0)
            for number in range(1, 31):
                await backend.publish(grant, number, [Entry(b"v", "key")])
                record = await backend.update(replace(record, position=number))
                note = await backend.put("k", b"", note.revision)
            assert await messages(backend, "t.t.c.sub.*") == 1
            assert await messages(backend, "t.t.>") == 4  # the value, the holder, the subscriber, the floor
            assert await messages(backend, "r.>") == 1
            await backend.unsubscribe(record)
            await backend.collect("t", await backend.time())
            assert await messages(backend, "t.t.c.sub.*") == 0

    asyncio.run(story())


def test_a_large_state_is_kept_apart_and_old_ones_go(url: str, opening: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    """A continuation above the size of a message would be refused; or every state that ever was would stay for ever."""

    async def story() -> None:
        async with opening(url) as backend, opening(url) as other:
            record = await backend.subscribe("t", "s", HOUR)
            for size in (3 * backend.value_bytes + 1, backend.value_bytes):
                record = await backend.update(replace(record, state=b"%09d" % size * (size // 9)))
                assert await other.subscriber("t", "s") == record
            before = await messages(backend, "o.>")
            await other.collect("t", await other.time())
            assert await messages(backend, "o.>") == before, "what was written a moment ago may be named in a moment"
            monkeypatch.setattr(objects, "GRACE", 0)
            await other.collect("t", await other.time())
            assert 0 < await messages(backend, "o.>") < before
            assert await other.subscriber("t", "s") == record
            record = await backend.update(replace(record, state=b"small"))
            await other.collect("t", await other.time())
            assert await messages(backend, "o.>") == 0
            assert await other.subscriber("t", "s") == record

    asyncio.run(story())


def test_a_full_server_refuses_whole_batches_and_goes_on_when_there_is_room(tmp_path: Path, opening: Opening) -> None:
    """Half a batch would be there; or the store would stay shut after room was made."""

    async def story(servers: LocalServers) -> None:
        async with opening(servers.url) as backend:
            grant = await backend.register("t", "p")
            record = await backend.subscribe("t", "s", HOUR)
            batch, number = [Entry(b"v" * 50_000)] * 4, 1
            while await fits(backend, grant, number, batch):
                number += 4
            assert number > 4
            info = await backend.info("t")
            assert info.values == number - 1, "a part of the batch is there"
            with pytest.raises(StoreFull, match="nothing was written"):
                await backend.publish(grant, number, batch)
            await backend.update(replace(record, position=info.last))
            await backend.collect("t", await backend.time())
            receipt = await backend.publish(grant, number, batch)
            assert receipt.last - receipt.first == 3
            reader = await backend.reader("t", 0)
            assert [value.seq for value in (await reader.take(10, 0)).values] == list(range(receipt.first, receipt.last + 1))

    async def fits(backend: JetStreamBackend, grant: Grant, number: int, batch: list[Entry]) -> bool:
        try:
            await backend.publish(grant, number, batch)
        except StoreFull:
            return False
        return True

    with LocalServers(1, tmp_path, disk_bytes=8 << 20) as servers:
        asyncio.run(asyncio.wait_for(story(servers), PATIENCE_S))


def test_reading_costs_the_same_wherever_one_begins(url: str, opening: Opening) -> None:
    """A subscriber without a hint would read the whole topic to find its place."""

    async def story() -> None:
        async with opening(url) as backend:
            grant = await backend.register("t", "p")
            for first in range(1, 5_000, 500):
                await backend.publish(grant, first, [Entry(b"%d" % number) for number in range(first, first + 500)])
            connection = backend._opened()
            for after in (1, 2_499, 4_998):
                asked = connection._asked
                reader = await backend.reader("t", after)
                chunk = await reader.take(1, 0)
                assert [(value.seq, value.data) for value in chunk.values] == [(after + 1, b"%d" % (after + 1))]
                assert connection._asked - asked < 30
                await reader.close()

    asyncio.run(story())
