"""Programs in virtual time: the nodes and groups that users write against, on a simulated network with every kind of fault.

    world = World(seed=7, network=NetworkModel(loss=0.1))

    async def ana() -> None:
        async with world.node("ana") as node:
            trip = await node.create("trip", order="semantic")
            await trip.send(b"Did you visit Delhi?")
            …

    world.run(ana(), ben())

`world.node` makes the same `Node` that `antiphon.Node` is, only its driver differs. The coroutines run on `VirtualLoop`: asyncio works as
ever and waiting costs nothing. Faults may be set before the run or from within (`await asyncio.sleep(3); world.partition(…)`). `check`
lets the oracles judge what the nodes were told.

A coroutine that opens one node is that node's program: when the node crashes, it is cancelled and counts as done. One that opens several
stands outside; it goes on, and its calls on the crashed node raise NotInGroup. A pause stops a node, not the coroutine that uses it.

The same seed and the same program give the same run. Keeps everything that happened.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine, Sequence
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any, ClassVar, overload

from antiphon.api.node import Node
from antiphon.debugger.tap import Passage
from antiphon.errors import InvalidOption, UsageError
from antiphon.model.control import Wants
from antiphon.model.ids import Address, MemberId
from antiphon.model.options import GroupOptions, Settings
from antiphon.protocol.membership.membership import Membership
from antiphon.protocol.samples import sample
from antiphon.sim.application import Application
from antiphon.sim.convergence import converged
from antiphon.sim.driver import SimDriver
from antiphon.sim.ground import Ground
from antiphon.sim.log import MemberLog
from antiphon.sim.loop import LIMIT_S, VirtualLoop
from antiphon.sim.machine import is_called
from antiphon.sim.network import NetworkModel
from antiphon.sim.oracles import Violation
from antiphon.sim.witness import Chronicle, Witness
from antiphon.trace.recorder import Recorder

_LOOK_S = 0.01
"""How often `settle` looks."""


class World(Ground[SimDriver]):
    called: ClassVar[str] = "nodes"

    def __init__(
        self, seed: int = 1, *, network: NetworkModel | None = None, settings: Settings | None = None, trace: bool | str = False
    ) -> None:
        """With `trace` what happens is recorded (`rows`, `write_trace`)."""
        super().__init__(seed, (), settings, network, trace)
        self.loop = VirtualLoop(self._scheduler)
        self._chronicle = Chronicle(self.logs)
        self._node_by_driver: dict[SimDriver, Node] = {}
        self._witness_by_driver: dict[SimDriver, Witness] = {}
        self._recorder_by_driver: dict[SimDriver, Recorder] = {}
        self._made: Counter[str] = Counter()
        self._programs: dict[asyncio.Task[Any], set[str]] = {}
        """The coroutines of this run, and the nodes that each has opened."""

    # -- programs --------------------------------------------------------------------------------------------------------------

    def node(self, name: str, *, seeds: Sequence[str] | None = None, settings: Settings | None = None, name_server: bool = True) -> Node:
        """A node of this world, to be used with `async with`. Its broadcasts reach all nodes, or only `seeds`. A name whose node was closed
        or has crashed may be used again, by somebody new."""
        if name not in self.names:
            self.names += (name,)
            self._application_by_name[name] = Application()
        settings = settings or self.settings
        driver = SimDriver(
            name,
            self._scheduler,
            self.loop,
            touched=self._touched.append,
            opened=self._open,
            closed=self._close,
            cast=self._cast,
            frame_bytes=settings.frame_bytes,
            seeds=seeds,
        )

        def core(*arguments: Any, **options: Any) -> Witness:
            application, chronicle = self._application_by_name[name], self._chronicle
            if self.tracing is not None:
                options["recorder"] = self._recorder_by_driver[driver] = self.tracing.recorder(name, driver.now)
            witness = Witness(*arguments, chronicle=chronicle, application=application, clock=lambda: self.now, **options)
            self._witness_by_driver[driver] = witness
            return witness

        self._made[name] += 1
        rng = random.Random(f"{self.seed}/node/{name}/{self._made[name]}")
        node = self._node_by_driver[driver] = Node(name, driver, settings=settings, name_server=name_server, rng=rng, core=core)
        return node

    @overload
    def run(self, seconds: float) -> None: ...

    @overload
    def run(self, *coroutines: Coroutine[Any, Any, Any], limit_s: float = LIMIT_S) -> list[Any]: ...

    def run(self, *coroutines: Any, limit_s: float = LIMIT_S, seconds: float | None = None) -> list[Any] | None:
        """Runs these until all are done and returns their results, None for one that a crash ended; or lets so many seconds pass. The first
        error ends the run and is raised; `limit_s` virtual seconds end it with OutOfTime, which says who waits."""
        if seconds is None and len(coroutines) == 1 and isinstance(coroutines[0], int | float):
            seconds, coroutines = coroutines[0], ()
        if seconds is not None:
            self.run_until(self.now + seconds)
            return None
        try:
            return self.loop.run(self._run_all(coroutines), limit_s=limit_s)
        finally:
            for coroutine in coroutines:
                if getcoroutinestate(coroutine) == CORO_CREATED:
                    coroutine.close()  # the run was refused before it began

    def run_until(self, time: float) -> None:
        """Lets everything up to `time` happen."""
        if not time < float("inf"):
            raise InvalidOption("time", time, "give a finite number of virtual seconds")
        self.loop.run(asyncio.sleep(time - self.now), limit_s=max(time - self.now, 0.0) + 1.0)

    async def settle(self, group: str, limit_s: float = 60.0) -> bool:
        """Waits until all who run, are in the group and can reach each other have found together, and nothing that matters is in flight;
        says whether that happened within `limit_s`."""
        limit = self.now + limit_s
        while self.now < limit:
            await asyncio.sleep(_LOOK_S)  # first: what was sent at this instant has yet to leave
            if self.at_rest(group):
                return True
        return False

    async def _run_all(self, coroutines: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
        tasks = [asyncio.create_task(one, name=f"program {place}") for place, one in enumerate(coroutines, 1)]
        self._programs = {task: set() for task in tasks}
        if tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error
        return [None if task.cancelled() else task.result() for task in tasks]

    # -- questions -------------------------------------------------------------------------------------------------------------

    @property
    def wants(self) -> dict[MemberId, Wants]:
        """What those who joined wanted of the time before they came."""
        return self._chronicle.wants

    def logs_of(self, group: str) -> list[MemberLog]:
        """The logs of one group, in the order in which the memberships began."""
        return self._chronicle.logs_of(group)

    def log_of(self, name: str, group: str) -> MemberLog:
        """The log of a node's latest membership in a group."""
        for log in reversed(self.logs_of(group)):
            if is_called(log.member, self._known(name)):
                return log
        raise UsageError(f"{name} was never in {group}")

    def options_of(self, group: str) -> GroupOptions:
        return self._chronicle.options_of(group)

    def check(self, group: str | None = None, *, settled: bool = True) -> list[Violation]:
        """Every promise of a group (None: of all groups) that was broken so far; without `settled`, only what can be said while it is not
        at rest. Those who have left are judged by less than those who are there: ask before the programs end."""
        groups = self._chronicle.groups() if group is None else [group]
        return [violation for one in groups for violation in self._chronicle.check(one, settled=settled)]

    def at_rest(self, group: str) -> bool:
        """Whether the group has converged and nothing that matters is in flight."""
        drivers = [driver for driver in self._process_by_name.values() if driver.alive]
        if self._carrier.in_flight or any(driver.waiting for driver in drivers if driver.taking):
            return False
        found = {driver.name: membership for driver in drivers if driver.taking and (membership := self._membership(driver, group))}
        asleep = {driver.name for driver in drivers if not driver.taking}
        return converged(found, asleep, self._carrier.network.cuts)

    # -- faults ----------------------------------------------------------------------------------------------------------------

    def crash(self, name: str) -> None:
        """Stops a node for ever, in the middle of its turn, and with it its program. Frames in flight from it still arrive."""
        driver = self._process(name)
        if not driver.alive:
            return
        super().crash(name)
        self._sample(driver)
        if driver in self._recorder_by_driver:
            self._recorder_by_driver[driver].crash()
        self._close(driver)
        self._node_by_driver[driver].abandon(f"{name} has crashed")
        for task, names in self._programs.items():
            if names == {name} and task is not asyncio.current_task(self.loop):
                task.cancel(f"{name} has crashed")

    def restart(self, name: str) -> None:
        raise UsageError(f"a program must say what {name} does when it is back: open world.node({name!r}) again")

    # -- what every world does -------------------------------------------------------------------------------------------------

    def _start(self, name: str) -> None:
        """Nodes start when their programs open them."""

    def _open(self, driver: SimDriver) -> None:
        before = self._process_by_name.get(driver.name)
        if before is not None and before.alive:
            raise UsageError(f"there is a node {driver.name} already: close or crash it first")
        self._process_by_name[driver.name] = driver
        self._processes.append(driver)
        task = asyncio.current_task()
        if task in self._programs:
            self._programs[task].add(driver.name)

    def _close(self, driver: SimDriver) -> None:
        if driver in self._witness_by_driver:
            self._witness_by_driver[driver].crash()  # in the groups that it has not left
        if driver in self._recorder_by_driver:
            self._sample(driver)
            self._recorder_by_driver[driver].close()

    def _sample(self, process: SimDriver) -> None:
        if process in self._witness_by_driver:
            for membership in self._witness_by_driver[process].memberships.values():
                sample(membership)

    def _cast(self, source: SimDriver, to: tuple[Address, ...] | None, wire: bytes) -> None:
        if to is None:
            others = [driver for driver in self._process_by_name.values() if driver.alive and driver is not source]
            to = tuple(driver.address for driver in others if source.seeds is None or driver.name in source.seeds)
        self._carrier.cast(source.address, to, wire)

    def _end_turn(self, process: SimDriver) -> None:
        process.arm()

    def _arrive(self, passage: Passage) -> None:
        driver = self._process_by_name.get(passage.destination)
        if driver is not None:
            driver.arrive(passage.source, passage.wire)
        else:
            self._carrier.network.drops["nobody_there"] += 1

    def _membership(self, driver: SimDriver, group: str) -> Membership | None:
        for group_id, membership in self._witness_by_driver[driver].memberships.items():
            if is_called(group_id, group) and not membership.departed:
                return membership
        return None
