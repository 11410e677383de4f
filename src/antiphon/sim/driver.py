"""A node's driver in virtual time: the process that a simulated machine runs.

It is `api.driver.Driver`, so a node cannot tell it from the real one, and a `sim.process.Process`, so all faults of the simulator apply:
paused, it hears nothing, its timers stand still and what it sends waits; slow, it takes its time for each frame; skewed, its clock goes
wrong; crashed, it does nothing ever again. Its address is its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from antiphon.api.driver import Receive
from antiphon.errors import UsageError
from antiphon.model.ids import Address, GroupId
from antiphon.protocol.timers import Timer, Timers
from antiphon.sim.process import Process
from antiphon.sim.scheduler import Scheduler

Cast = Callable[["SimDriver", tuple[Address, ...] | None, bytes], None]


class Door:
    """What the process drives in place of a core: the node takes frames here, and its timers ring."""

    def __init__(self, receive: Receive) -> None:
        self.timers = Timers()
        self._receive = receive

    def receive(self, now: float, source: Any, wire: bytes) -> None:
        self._receive(source, (wire,), "")

    def tick(self, now: float) -> None:
        self.timers.run(now)

    @property
    def deadline(self) -> float | None:
        return self.timers.deadline


class SimDriver(Process[Door]):
    idle: ClassVar[str] = "is not open: start its node first"
    lossless = False

    def __init__(
        self,
        name: str,
        scheduler: Scheduler,
        loop: asyncio.AbstractEventLoop,
        *,
        touched: Callable[[Any], None],
        opened: Callable[[SimDriver], None],
        closed: Callable[[SimDriver], None],
        cast: Cast,
        frame_bytes: int,
        seeds: Sequence[str] | None,
    ) -> None:
        """`opened` and `closed` are told when the node comes into the network and goes; `cast` puts a frame on the links. `seeds` are whom
        a frame to everybody reaches (None: everybody)."""
        super().__init__(name, scheduler, touched)
        self.address, self.frame_bytes, self.seeds = Address(name), frame_bytes, seeds
        self.sent = self.received = 0
        self._loop, self._opened, self._closed, self._cast = loop, opened, closed, cast

    async def open(self, receive: Receive) -> None:
        if self._core is not None or not self.alive:
            raise UsageError(f"{self.name} was open already: make another node")
        self._opened(self)
        self._core = Door(receive)

    async def close(self) -> None:
        if self.alive:
            self.alive = False
            self._closed(self)

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        timer = self.core.timers.at(when, callback)
        self.arm()
        return timer

    def call_soon(self, callback: Callable[[], None]) -> object:
        return self._loop.call_soon(self._act, callback)

    def send(self, to: tuple[Address, ...] | None, wire: bytes, group: GroupId | None) -> None:
        if self.alive:
            self.sent += 1
            self.take(lambda _: self._cast(self, to, wire))

    def stats(self) -> dict[str, object]:
        return {"kind": "sim", "frames_sent": self.sent, "frames_received": self.received, "drops": dict(sorted(self.drops.items()))}

    def arrive(self, source: Any, wire: bytes) -> None:
        self.received += 1
        super().arrive(source, wire)

    def _act(self, callback: Callable[[], None]) -> None:
        if self.alive:
            self.take(lambda _: callback())
