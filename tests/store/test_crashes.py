"""Whatever is killed, whenever: nothing that was acknowledged is lost, given twice to a consumer with a continuation, or out of order."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.testing.store_campaign import Worker, begin, campaign
from antiphon.testing.store_journal import Acknowledged, AnyEvent, Intended, read_journal
from antiphon.testing.store_oracle import Evidence, judge
from antiphon.testing.store_processes import evidence, orders_for
from antiphon.testing.store_worker import Order

WAIT_S = 120.0


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[[int], Any]]:
    """Starts so many JetStream servers; they end with the test."""
    started: list[Any] = []

    def serve(count: int) -> Any:
        if find_spec("nats") is None:
            pytest.skip("nats-py is not installed: pip install 'antiphon[nats]'")
        from antiphon.store.jetstream import LocalServers

        started.append(LocalServers(count, tmp_path / "servers"))
        started[-1].start()
        return started[-1]

    yield serve
    for servers in started:
        servers.stop()


def test_twenty_kills_on_sqlite(tmp_path: Path) -> None:
    """A program that dies would take what others were told to be safe with it, or what it has done would happen again."""
    report = asyncio.run(campaign(lambda number: f"sqlite:{tmp_path}/{number}.db", tmp_path / "journals", kills=20, seed=20, values=250))
    assert report.violations == []
    assert report.killed == 20
    assert {"writer", "subscriber"} <= set(report.kills)


def test_twenty_kills_on_jetstream(tmp_path: Path, serving: Callable[[int], Any]) -> None:
    """The same, where a step has parts, and between the program and the disk there is a network."""
    servers = serving(1)
    report = asyncio.run(campaign(lambda number: f"{servers.url}&prefix=r{number}", tmp_path / "journals", kills=20, seed=21, values=250))
    assert report.violations == []
    assert report.killed == 20
    assert {"writer", "subscriber"} <= set(report.kills)


def test_kills_of_programs_and_servers(tmp_path: Path, serving: Callable[[int], Any]) -> None:
    """One server of three and one program after the other: what two servers have acknowledged would be lost with the third."""
    servers = serving(3)
    told: list[str] = []
    report = asyncio.run(
        campaign(
            lambda number: f"{servers.url}&prefix=r{number}",
            tmp_path / "journals",
            kills=12,
            seed=24,
            values=250,
            servers=servers,
            tell=told.append,
        )
    )
    assert report.violations == []
    assert report.killed == 12
    assert report.kills["server"] >= 1
    assert told


def test_what_the_disk_has_while_all_stand_still(tmp_path: Path, stopped: Any) -> None:
    """The power goes: after it the file would not open, lack what was acknowledged, or have half of what belongs together."""
    asyncio.run(power_lost(tmp_path, Random(5), stopped))


async def power_lost(directory: Path, chance: Random, stopped: Callable[[int], Awaitable[None]]) -> None:
    (directory / "journals").mkdir()
    orders = [
        replace(order, pause_s=0.01)
        for order in orders_for(f"sqlite:{directory}/store.db", directory / "journals", writers=2, values=300, seconds=WAIT_S)
    ]
    workers = [Worker(order) for order in orders]
    pictures: list[tuple[Path, list[Order]]] = []
    try:
        await begin(workers)
        for number in range(5):
            await working(orders, 20 * (number + 1))
            await asyncio.sleep(0.1 * chance.random())
            alive = [worker.process for worker in workers if worker.process is not None and worker.alive]
            for process in alive:
                with suppress(ProcessLookupError):  # it has just done all it was told to
                    process.send_signal(signal.SIGSTOP)
            try:
                for process in alive:
                    await stopped(process.pid)
                pictures.append(picture(directory, number, orders))
            finally:
                for process in alive:
                    with suppress(ProcessLookupError):
                        process.send_signal(signal.SIGCONT)
        assert [failure for failure in [await worker.ended() for worker in workers] if failure] == []
    finally:
        for worker in workers:
            await worker.kill()
    assert judge(await evidence(orders[0].url, orders)) == []
    for folder, then in pictures:
        found = (await evidence(f"sqlite:{folder}/store.db", then))._replace(expected={})
        assert judge(found) == [], f"in the picture {folder.name}"
        assert half_batches(found) == [], f"in the picture {folder.name}"


def picture(directory: Path, number: int, orders: Sequence[Order]) -> tuple[Path, list[Order]]:
    """What a disk would have: the file and its log, and not what is only in shared memory; and what was written down by then."""
    folder = directory / f"picture{number}"
    folder.mkdir()
    for name in ("store.db", "store.db-wal"):
        if (directory / name).exists():
            shutil.copy(directory / name, folder / name)
    then = []
    for order in orders:
        journal = folder / Path(order.journal).name
        if Path(order.journal).exists():
            shutil.copy(order.journal, journal)
        then.append(replace(order, journal=str(journal)))
    return folder, then


def half_batches(found: Evidence) -> list[str]:
    """Batches of which some values are in the store and others are not, although none can have been collected."""
    halves = []
    for journal in found.journals:
        for event in journal:
            if isinstance(event, Intended) and found.left[event.topic].floor == 0:
                numbers = {value.number for value in found.left[event.topic].values if value.publisher == event.name}
                there = sum(number in numbers for number in range(event.first, event.last + 1))
                if 0 < there < event.last - event.first + 1:
                    halves.append(f"{event}: {there} are there")
    return halves


async def working(orders: Sequence[Order], many: int) -> None:
    """Waits until the workers have had so many acknowledgements."""

    def acknowledged() -> int:
        events: list[AnyEvent] = [event for order in orders for event in read_journal(Path(order.journal))]
        return sum(isinstance(event, Acknowledged) for event in events)

    async with asyncio.timeout(WAIT_S):
        while acknowledged() < many:
            await asyncio.sleep(0.05)
