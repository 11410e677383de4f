"""Three servers, each of which is killed and comes back: nothing acknowledged is lost, nothing is there twice, all is in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from antiphon.errors import Conflict, StoreUnreachable
from antiphon.store.holdings import Holdings
from antiphon.store.jetstream import JetStreamBackend, LocalServers
from antiphon.store.records import SECOND, Entry
from antiphon.store.ring import RingNode

HOUR = 3_600 * SECOND
PATIENCE_S = 120.0
Opening = Callable[[str], AbstractAsyncContextManager[JetStreamBackend]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalServers]:
    with LocalServers(3, tmp_path) as servers:
        yield servers


def test_every_server_in_turn_is_killed_and_comes_back(cluster: LocalServers, opening: Opening) -> None:
    """One machine that loses power would take the values with it, or stop everybody who writes, reads or counts."""
    acknowledged = 0
    read: list[bytes] = []
    counted = 0
    going, is_written = True, False

    async def write(backend: JetStreamBackend) -> None:
        nonlocal acknowledged, is_written
        grant = await backend.register("t", "p")
        while not is_written:
            with suppress(StoreUnreachable):  # then it is repeated, and not written twice
                first = acknowledged + 1
                receipt = await backend.publish(grant, first, [Entry(b"%d" % number) for number in range(first, first + 7)])
                assert (receipt.first, receipt.last) == (first, first + 6)
                acknowledged += 7
                is_written = not going  # only here: what was given up may be there all the same

    async def follow(backend: JetStreamBackend) -> None:
        record = await backend.subscribe("t", "s", HOUR)
        reader = await backend.reader("t", 0)
        while not is_written or record.position < acknowledged:
            with suppress(StoreUnreachable):
                chunk = await reader.take(100, 0.5)
                read.extend(value.data for value in chunk.values)
                if chunk.values:
                    record = replace(record, position=chunk.values[-1].seq)
            with suppress(StoreUnreachable):
                try:
                    record = await backend.update(record)
                except Conflict:  # an update that was given up has happened after all: nobody else writes this record
                    there = await backend.subscriber("t", "s")
                    assert there is not None
                    record = replace(record, revision=there.revision)

    async def count(backend: JetStreamBackend) -> None:
        nonlocal counted
        while going:
            with suppress(StoreUnreachable, Conflict):
                record = await backend.get("n")
                assert int(record.data if record else 0) >= counted, "a record went back to what it was"
                there = await backend.put("n", b"%d" % (int(record.data if record else 0) + 1), record.revision if record else 0)
                counted = int(there.data)

    async def story() -> None:
        nonlocal going
        async with asyncio.timeout(PATIENCE_S), opening(cluster.url) as one, opening(cluster.url) as two, opening(cluster.url) as three:
            await one.register("t", "p")
            tasks = [asyncio.ensure_future(write(one)), asyncio.ensure_future(follow(two)), asyncio.ensure_future(count(three))]
            for number in (0, 1, 2):
                before = acknowledged, counted
                cluster.kill(number)
                while acknowledged < before[0] + 21 or counted < before[1] + 3:
                    await asyncio.sleep(0.05)
                    assert not any(task.done() for task in tasks), "somebody gave up"
                await asyncio.to_thread(cluster.start, number)
                await settled(one)
            going = False
            await asyncio.gather(*tasks)
            assert read == [b"%d" % number for number in range(1, acknowledged + 1)]
            async with opening(cluster.url) as fresh:
                assert (await fresh.info("t")).last == acknowledged
                record = await fresh.get("n")
                assert record is not None
                assert int(record.data) >= counted

    async def settled(backend: JetStreamBackend) -> None:
        """The one that came back has caught up, so that another may go: two of three must be there."""
        while True:
            with suppress(StoreUnreachable):
                await backend.time()
                if await asyncio.to_thread(cluster.is_current):
                    return
            await asyncio.sleep(0.1)

    asyncio.run(story())


def test_the_ring_goes_round_while_a_server_dies(cluster: LocalServers, opening: Opening) -> None:
    """Nothing could be collected until the third machine is mended; or what a node reads would be, its word lost with a server."""

    async def story() -> None:
        async with asyncio.timeout(PATIENCE_S), opening(cluster.url) as one, opening(cluster.url) as two, opening(cluster.url) as three:
            stores, holdings = (one, two, three), (Holdings(), Holdings(), Holdings())
            # A node that waits for an answer while the leader changes is not silent.
            nodes = [RingNode(store, held, node_timeout_s=20.0) for store, held in zip(stores, holdings, strict=True)]
            for node in nodes:
                node.start()
                await node.ready(PATIENCE_S)
            held = await one.time()
            holdings[1].set(two, held)
            assert (await nodes[0].horizon(PATIENCE_S)).moment <= held
            await asyncio.to_thread(cluster.kill, 0)
            assert await horizon(nodes[2]) <= held
            holdings[1].set(two, None)
            while await horizon(nodes[2]) <= held:
                await asyncio.sleep(0.1)
            assert [node.absences for node in nodes] == [0, 0, 0]
            await asyncio.to_thread(cluster.start, 0)
            for node in nodes:
                await node.stop()

    async def horizon(node: RingNode) -> int:
        while True:
            with suppress(StoreUnreachable):
                return (await node.horizon(PATIENCE_S)).moment

    asyncio.run(story())
