"""Every back end keeps the contract of stores: the conformance suite on each of them, alone and with several processes at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from antiphon.errors import BadStore
from antiphon.store.records import Entry
from antiphon.testing.store_journal import Acknowledged, read_journal
from antiphon.testing.store_processes import run_processes
from antiphon.testing.store_suite import CHECKS, Check, Factory, run_suite
from antiphon.testing.store_worker import Order, open_backend

_FRESH = count(1)


class Place(NamedTuple):
    """Where stores of one kind are made."""

    kind: str
    directory: Path
    servers: Any = None
    """The LocalServers, where there are any."""

    def fresh_url(self) -> str:
        """The address of a store that is empty."""
        name = f"s{next(_FRESH)}"
        if self.servers is not None:
            return f"{self.servers.url}&prefix={name}"
        return f"memory:{name}" if self.kind == "memory" else f"sqlite:{self.directory / name}.db"


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp(request.param)
    servers = {"jetstream": 1, "cluster": 3}.get(request.param)
    if servers is None:
        yield Place(request.param, directory)
        return
    if find_spec("nats") is None:
        pytest.skip("nats-py is not installed: pip install 'antiphon[nats]'")
    from antiphon.store.jetstream import LocalServers

    running = LocalServers(servers, directory)
    try:
        running.start()
        yield Place(request.param, directory, running)
    except BadStore as missing:
        pytest.skip(str(missing))
    finally:
        running.stop()


@pytest.mark.parametrize("place", ["memory", "sqlite", "jetstream"], indirect=True)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(place: Place, check: Check) -> None:
    """A program that works on one store would lose, repeat or reorder values on another; each check says which."""
    url = place.fresh_url()

    async def run() -> None:
        await check(lambda: open_backend(url))

    asyncio.run(run())


@pytest.mark.parametrize("place", ["cluster"], indirect=True)
def test_conformance_of_a_cluster_while_a_server_dies_and_comes_back(place: Place) -> None:
    """Three machines would promise less than one, or less after one of them was mended."""

    async def fresh() -> Factory:
        url = place.fresh_url()
        return lambda: open_backend(url)

    async def run() -> None:
        half = len(CHECKS) // 2
        failures = await run_suite(fresh, CHECKS[:half])
        await asyncio.to_thread(place.servers.kill, 1)
        await asyncio.to_thread(place.servers.start, 1)
        async with asyncio.timeout(60.0):
            while not await asyncio.to_thread(place.servers.is_current):
                await asyncio.sleep(0.1)
        assert failures | await run_suite(fresh, CHECKS[half:]) == {}

    asyncio.run(run())


async def written(backend: Any, topic: str) -> list[bytes]:
    reader = await backend.reader(topic, 0)
    try:
        return [value.data for value in (await reader.take(1_000, 0.0)).values]
    finally:
        await reader.close()


@pytest.mark.parametrize("place", ["memory", "sqlite", "jetstream"], indirect=True)
def test_publishes_of_one_grant_take_effect_in_the_order_of_the_calls(place: Place) -> None:
    """One that overtook another, because it had less to ask before, would make that one's lower numbers look as if they were there."""

    async def run() -> None:
        backend = await open_backend(place.fresh_url())
        clock: Any = getattr(backend, "_clock", None)
        try:
            grant = await backend.register("crash", "hotline")
            calls: list[asyncio.Task[Any]] = []
            for number in range(1, 301):
                if number % 100 == 1 and hasattr(clock, "_ticked_at"):
                    await asyncio.gather(*calls)
                    clock._ticked_at = None  # the time was not asked for in a while
                calls.append(asyncio.create_task(backend.publish(grant, number, [Entry(b"%d" % number)])))
                await asyncio.sleep(0)  # one call in each turn of the loop: somebody comes at every moment of the first one's way
            await asyncio.gather(*calls)
            assert await written(backend, "crash") == [b"%d" % number for number in range(1, 301)]
        finally:
            await backend.close()

    asyncio.run(run())


@pytest.mark.parametrize("place", ["memory", "sqlite", "jetstream"], indirect=True)
def test_a_publish_that_was_cancelled_does_not_happen_after_the_next(place: Place) -> None:
    """What a program gave up would turn up behind what it published instead."""

    async def run() -> None:
        backend = await open_backend(place.fresh_url())
        try:
            grant = await backend.register("crash", "hotline")
            number, kept = 0, []
            for turns in range(40):
                number += 1
                call = asyncio.create_task(backend.publish(grant, number, [Entry(b"given up %d" % number)]))
                for _ in range(turns):
                    await asyncio.sleep(0)
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
                number += 1
                await backend.publish(grant, number, [Entry(b"%d" % number)])
                kept.append(b"%d" % number)
            await asyncio.sleep(0.1)
            found = await written(backend, "crash")
            assert [data for data in found if not data.startswith(b"given up")] == kept
            places = {int(data.split()[-1]): at for at, data in enumerate(found)}
            assert list(places) == sorted(places), "in the order of the calls"
        finally:
            await backend.close()

    asyncio.run(run())


@pytest.mark.parametrize("place", ["memory", "sqlite", "jetstream"], indirect=True)
def test_a_reader_beyond_the_end_says_where_the_end_is(place: Place) -> None:
    """Whoever begins with a number that is yet to come would be told that all before it are published, and be behind by as many."""

    async def run() -> None:
        backend = await open_backend(place.fresh_url())
        try:
            grant = await backend.register("crash", "hotline")
            await backend.publish(grant, 1, [Entry(b"1"), Entry(b"2")])
            reader = await backend.reader("crash", 100)
            try:
                assert (await reader.take(10, 0.0)).last == 2
                await backend.publish(grant, 3, [Entry(b"%d" % number) for number in range(3, 103)])
                chunk = await reader.take(10, 5.0)
                assert ([value.seq for value in chunk.values], chunk.last) == ([101, 102], 102)
            finally:
                await reader.close()
        finally:
            await backend.close()

    asyncio.run(run())


@pytest.mark.parametrize("place", ["sqlite", "jetstream"], indirect=True)
def test_several_processes_at_once(place: Place, tmp_path: Path) -> None:
    """What holds within one process would not hold between two: a value lost, twice or out of order, collected early, a step done twice."""
    assert asyncio.run(run_processes(place.fresh_url(), tmp_path)) == []


@pytest.mark.parametrize("place", ["cluster"], indirect=True)
def test_several_processes_while_a_server_dies_and_comes_back(place: Place, tmp_path: Path) -> None:
    """One machine of three would take acknowledged values with it, or leave everybody waiting until it is mended."""
    happened: list[str] = []

    async def meanwhile(orders: Sequence[Order]) -> None:
        await acknowledged(orders, 30)
        await asyncio.to_thread(place.servers.kill, 1)
        happened.append("killed")
        await acknowledged(orders, 60)
        await asyncio.to_thread(place.servers.start, 1)
        happened.append("back")

    assert asyncio.run(run_processes(place.fresh_url(), tmp_path, meanwhile=meanwhile)) == []
    assert happened == ["killed", "back"]


async def acknowledged(orders: Sequence[Order], many: int) -> None:
    """Waits until the workers have had so many acknowledgements, or are all done."""
    async with asyncio.timeout(60.0):
        while sum(isinstance(event, Acknowledged) for order in orders for event in read_journal(Path(order.journal))) < many:
            await asyncio.sleep(0.1)
