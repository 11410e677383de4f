"""One incarnation of something that runs in the world: its core, its clock, and the queue its kernel keeps.

A core is the protocol without I/O, an `Endpoint` or a `NodeCore`: it is handed frames and the time, and says when it wants to be
called next. A process takes inputs only while it runs. While it is paused, what arrives waits in order, at most `BACKLOG_LIMIT`
frames (later ones are dropped and counted as `backlog_full`), and is taken in one turn when it resumes. While its application does
not read, frames wait in the same way, but its timers go on. A slow process takes `service_s` per frame, one after the other, with the
same bound. A crashed one takes nothing, ever.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from antiphon.errors import UsageError
from antiphon.model import codec
from antiphon.sim.carrier import Place, matters
from antiphon.sim.clock import Clock
from antiphon.sim.scheduler import Scheduler

BACKLOG_LIMIT = 10_000


class Core(Protocol):
    """What a process drives. `source` is whoever handed the frame over, as this core names others: by member id or by address."""

    def receive(self, now: float, source: Any, wire: bytes, /) -> object: ...

    def tick(self, now: float, /) -> None: ...

    @property
    def deadline(self) -> float | None: ...


CoreT = TypeVar("CoreT", bound=Core)


class Process(Generic[CoreT]):
    idle: ClassVar[str] = "runs nothing"
    """What is said of a process that has no core, and what to do about it."""

    def __init__(self, name: str, scheduler: Scheduler, touched: Callable[[Any], None]) -> None:
        """`touched` is told once per turn that this process had an input, so that its turn must be ended."""
        self.name = name
        self.alive, self.paused, self.reading = True, False, True
        self.clock = Clock()
        self.drops: Counter[str] = Counter()
        """Frames that reached this machine and not the core: `dead`, `outside_view`, `backlog_full`."""
        self.service_s = 0.0
        self.waiting = 0
        """Frames that matter and that a slow process has yet to take."""
        self.in_turn = False
        self._core: CoreT | None = None
        self._scheduler, self._touched = scheduler, touched
        self._backlog: deque[Callable[[CoreT], object]] = deque()
        self._serving, self._busy_until = 0, 0.0
        self._armed: float | None = None

    @property
    def core(self) -> CoreT:
        if self._core is None:
            raise UsageError(f"{self.name} {self.idle}")
        return self._core

    @property
    def taking(self) -> bool:
        """Whether this process takes the frames that arrive."""
        return self.alive and not self.paused and self.reading

    def acting(self) -> CoreT:
        """The core, for an input of the application; UsageError when this process cannot act."""
        if not self.alive or self.paused:
            raise UsageError(f"{self.name} {'is paused: resume' if self.alive else 'has crashed: restart'} it before it sends")
        core = self.core
        self.touch()
        return core

    def now(self) -> float:
        return self.clock.local(self._scheduler.now)

    def touch(self) -> None:
        """This process had an input: its turn must be ended."""
        if not self.in_turn and self._core is not None:
            self.in_turn = True
            self._touched(self)

    # -- inputs ----------------------------------------------------------------------------------------------------------------

    def arrive(self, source: Place, wire: bytes) -> None:
        """A frame reaches this machine."""
        if not self.alive or self._core is None:
            self.drops["dead" if not self.alive else "outside_view"] += 1
        elif not self.taking:
            self._queue(source, wire)
        elif self.service_s:
            if self._serving >= BACKLOG_LIMIT:
                self.drops["backlog_full"] += 1
                return
            self._busy_until = max(self._scheduler.now, self._busy_until) + self.service_s
            self._serving += 1
            self.waiting += matters(codec.kind_of(wire))
            self._scheduler.at(self._busy_until, self._serve, source, wire)
        else:
            self.touch()
            self._core.receive(self.now(), source, wire)

    def take(self, action: Callable[[CoreT], object]) -> None:
        """Does something to the core, after what waits in the kernel's queue."""
        if self.paused:
            self._backlog.append(action)
        else:
            self.touch()
            action(self.core)

    def crash(self) -> None:
        """Never acts again."""
        self.alive = False
        self._backlog.clear()

    def resume(self) -> None:
        self.paused = False
        self.touch()  # a turn that the pause interrupted is still to be ended
        self._take_waiting()
        self.arm()

    def read(self) -> None:
        """The application reads again."""
        self.reading = True
        self._take_waiting()

    def skew(self, offset_s: float, rate: float) -> None:
        self.clock.set(offset_s, rate)
        self._armed = None
        self.arm()

    # -- the one timer ---------------------------------------------------------------------------------------------------------

    def arm(self) -> None:
        """Arms the timer for the core's deadline. A deadline that moved later is noticed when the timer comes up."""
        if self._core is None or not self.alive or self.paused:
            return
        deadline = self._core.deadline
        if deadline is not None:
            when = self.clock.world(deadline)
            if self._armed is None or when < self._armed:
                self._armed = when
                self._scheduler.at(when, self._ring, when)

    def _ring(self, armed: float, _: Any) -> None:
        if armed != self._armed:
            return  # an earlier or later timer has taken its place
        self._armed = None
        if self._core is None or not self.alive or self.paused:
            return
        deadline = self._core.deadline
        if deadline is None or self.clock.world(deadline) > self._scheduler.now:
            self.arm()
            return
        self.clock.reach(deadline)
        self.touch()
        self._core.tick(self.now())

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _take_waiting(self) -> None:
        while self._backlog and self.taking:
            self.take(self._backlog.popleft())

    def _queue(self, source: Place, wire: bytes) -> None:
        if len(self._backlog) >= BACKLOG_LIMIT:
            self.drops["backlog_full"] += 1
        else:
            self._backlog.append(lambda core: core.receive(self.now(), source, wire))

    def _serve(self, source: Place, wire: bytes) -> None:
        self._serving -= 1
        self.waiting -= matters(codec.kind_of(wire))
        if not self.alive:
            return
        if not self.taking:
            self._queue(source, wire)
        else:
            self.touch()
            self.core.receive(self.now(), source, wire)
