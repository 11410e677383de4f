"""Processes that work on a store are killed at random points, over and over; then the oracle judges what is left.

A round is a fresh store with writers (of topics of their own, and of a shared one), subscribers, a stepper and collectors, as in
`store_processes.py`. Whoever has done something in its present life may be killed at any moment, by SIGKILL, and is started again with the
same order; one server of three too. When as many were killed as wanted, or all are done with their work, the rest is left in peace, and
what they wrote down is judged: nothing acknowledged is lost, nothing is given twice to a consumer that uses its continuation, nothing is
out of order, nothing is collected early. There are as many rounds as it takes.

The seed decides who is killed and after what pause; at which instruction that finds it is the machine's to decide.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import Process
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import msgspec
from msgspec.structs import replace

from antiphon.store.jetstream.server import LocalServers
from antiphon.testing.store_journal import Acknowledged, Subscribed, read_journal
from antiphon.testing.store_oracle import Violation, judge
from antiphon.testing.store_processes import ended, evidence, orders_for, start
from antiphon.testing.store_worker import Order

_PAUSE_S = 0.15
"""Between two kills, at most."""
_LIFE_S = 180.0
_SERVER_SHARE = 0.1
_HEALED_S = 60.0


class Report(msgspec.Struct, kw_only=True):
    seed: int
    kills: dict[str, int] = {}
    """How many of each role were killed."""
    rounds: int = 0
    acknowledged: int = 0
    """Values that writers and steppers were told to be in the store."""
    violations: list[str] = []

    @property
    def killed(self) -> int:
        return sum(self.kills.values())


class Worker:
    """One order, and the process that carries it out at present."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self._journal = Path(order.journal)
        self._began = 0
        self.process: Process | None = None

    async def start(self) -> None:
        self._began = self._size()
        self.process = await start(self.order)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.returncode is None

    @property
    def subscribed(self) -> bool:
        """Whether there is a subscriber of its name, so that nothing is collected that it has not read."""
        return any(isinstance(event, Subscribed) for event in read_journal(self._journal))

    @property
    def at_work(self) -> bool:
        """Whether this life has come so far as to write something down: dying before that would prove nothing."""
        return self.alive and self._size() > self._began + len(b"\n\n")

    async def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.communicate()

    async def ended(self) -> Violation | None:
        """None when it did all it was told to; else what it said last."""
        return None if self.process is None else await ended(self.order, self.process)

    def _size(self) -> int:
        return self._journal.stat().st_size if self._journal.exists() else 0


async def campaign(
    url_of_round: Callable[[int], str],
    directory: Path,
    *,
    kills: int,
    seed: int,
    values: int = 400,
    per_round: int = 20,
    servers: LocalServers | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Report:
    """`values` are those of each writer and topic. With `servers` (a cluster) one of them is killed now and then, and brought back."""
    report = Report(seed=seed)
    while report.killed < kills:
        number = report.rounds + 1
        folder = directory / str(number)
        folder.mkdir(parents=True)
        orders = [_at_ease(order) for order in orders_for(url_of_round(number), folder, writers=2, values=values, seconds=_LIFE_S)]
        wanted = min(per_round, kills - report.killed)
        await _round(orders, wanted, Random(f"{seed}/{number}"), report, servers)
        report.rounds = number
        events = [event for order in orders for event in read_journal(Path(order.journal))]
        report.acknowledged += sum(event.last - event.first + 1 for event in events if isinstance(event, Acknowledged))
        shown = ", ".join(f"{role} {count}" for role, count in sorted(report.kills.items()))
        tell(f"round {number}: {report.killed} of {kills} killed ({shown}); {len(report.violations)} violations")
    return report


async def _round(orders: list[Order], wanted: int, chance: Random, report: Report, servers: LocalServers | None) -> None:
    workers = [Worker(order) for order in orders]
    healing: asyncio.Future[None] | None = None
    try:
        await begin(workers)
        until = report.killed + wanted
        while report.killed < until and any(worker.alive for worker in workers):
            await asyncio.sleep(_PAUSE_S * chance.random())
            # A server is the first to go, and from then on now and then.
            if servers is not None and (healing is None or (healing.done() and chance.random() < _SERVER_SHARE)):
                healing = asyncio.ensure_future(_kill_a_server(servers, chance.randrange(len(servers.ports)), chance.random()))
                report.kills["server"] = report.kills.get("server", 0) + 1
                continue
            if mortal := [worker for worker in workers if worker.at_work]:
                # By role first: there are more readers than collectors.
                role = chance.choice(sorted({worker.order.role for worker in mortal}))
                victim = chance.choice([worker for worker in mortal if worker.order.role == role])
                await victim.kill()
                report.kills[role] = report.kills.get(role, 0) + 1
                await victim.start()
        if healing is not None:
            await healing
        failures = await asyncio.gather(*(worker.ended() for worker in workers))
    finally:
        for worker in workers:
            await worker.kill()
    found = [failure for failure in failures if failure] + judge(await evidence(orders[0].url, orders))
    report.violations += [f"round {report.rounds + 1}: {violation.rule}: {violation.what}" for violation in found]


async def begin(workers: Sequence[Worker]) -> None:
    """Readers first: what is collected before somebody is subscribed it never sees, and others would wait for what follows from it."""
    readers = [worker for worker in workers if worker.order.role in ("subscriber", "stepper")]
    for worker in readers:
        await worker.start()
    async with asyncio.timeout(_LIFE_S):
        while not all(worker.subscribed or not worker.alive for worker in readers):
            await asyncio.sleep(0.05)
    for worker in workers:
        if worker not in readers:
            await worker.start()


async def _kill_a_server(servers: LocalServers, number: int, pause_s: float) -> None:
    """Kills it, leaves the others alone for a while, brings it back, and waits until any one may go again."""
    await asyncio.to_thread(servers.kill, number)
    await asyncio.sleep(pause_s)
    await asyncio.to_thread(servers.start, number)
    async with asyncio.timeout(_HEALED_S):
        while not await asyncio.to_thread(servers.is_current):
            await asyncio.sleep(0.1)


def _at_ease(order: Order) -> Order:
    """Slowly enough that there is time to be killed in."""
    return replace(order, pause_s=0.03, batch=min(order.batch, 8), seed=order.seed + 1)


def say(line: str) -> None:
    """For `tell`: progress that does not mix with the result."""
    print(line, file=sys.stderr, flush=True)
