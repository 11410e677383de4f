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
from antiphon.testing.store_journal import Acknowledged, read_journal
from antiphon.testing.store_processes import run_processes
from antiphon.testing.store_suite import CHECKS, Check
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
