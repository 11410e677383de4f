"""What every world stands on: processes that run in virtual time, the links between them, and the faults of both.

A ground is a driver. All inputs of a process at one instant are one turn: when nothing more happens at that instant its core is
drained, its frames go on the links, its events to the log and to the callbacks. Callbacks may act; that is the process's next turn.
What runs in the processes, and what their events mean, is the world's (`ViewWorld`: one group of endpoints whose views are given;
`NodeWorld`: nodes that find, join and leave groups by themselves).

The same seed and the same calls give the same run, byte for byte, in every process of the real machine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from antiphon.debugger.pattern import Pattern
from antiphon.debugger.rule import Rule
from antiphon.debugger.tap import Passage, Tap
from antiphon.errors import InvalidOption, UsageError
from antiphon.model.ids import MessageId
from antiphon.model.options import Settings
from antiphon.sim.application import Application, OnDeliver, OnWritable
from antiphon.sim.carrier import Carrier
from antiphon.sim.log import MemberLog
from antiphon.sim.network import NetworkModel
from antiphon.sim.process import Process
from antiphon.sim.scheduler import Scheduler
from antiphon.sim.tracing import Tracing
from antiphon.trace.row import Row

_STEP_S = 0.01
"""How often a condition that is waited for is looked at."""

ProcessT = TypeVar("ProcessT", bound=Process[Any])


class Ground(ABC, Generic[ProcessT]):
    called: ClassVar[str] = "members"
    """What those are called whose names a world is given."""

    def __init__(
        self, seed: int, names: Sequence[str], settings: Settings | None, network: NetworkModel | None, trace: bool | str = False
    ) -> None:
        """With `trace` everything that happens is recorded, under this name of the run if one is given."""
        self.seed = seed
        self.names: tuple[str, ...] = tuple(names)
        self.settings = settings or Settings()
        self.logs: list[MemberLog] = []
        """One log per life of a member, in the order they began."""
        if len(set(self.names)) != len(self.names):
            raise InvalidOption(self.called, self.names, f"two {self.called} need two names")
        self._scheduler = Scheduler(self._end_turns)
        self._carrier = carrier = Carrier(network or NetworkModel(), seed, self._scheduler, self._arrive)
        self.frames: Counter[tuple[str, str, str]] = carrier.frames
        """Frames put on each link, by source, destination and kind."""
        self.bytes: Counter[tuple[str, str, str]] = carrier.bytes
        """Their lengths."""
        self.rules: list[Rule] = carrier.rules
        """The debugger's rules, applied to every frame in this order; change the list as you like."""
        self.tap: Tap = carrier.tap
        """What the rules hold."""
        self.tracing: Tracing | None = None
        if trace:
            self.tracing = Tracing(trace if isinstance(trace, str) else f"seed-{seed}", lambda: self.now)
        self._touched: list[ProcessT] = []
        self._processes: list[ProcessT] = []
        """All that ever ran, in the order they started."""
        self._process_by_name: dict[str, ProcessT] = {}
        self._application_by_name = {name: Application() for name in self.names}

    # -- questions -------------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Virtual seconds since the world began."""
        return self._scheduler.now

    @property
    def drops(self) -> Counter[str]:
        """Frames that reached no core, by reason."""
        return sum((process.drops for process in self._processes), Counter(self._carrier.network.drops))

    @property
    def network(self) -> NetworkModel:
        return self._carrier.network.model

    @network.setter
    def network(self, model: NetworkModel) -> None:
        """Changes the links from now on; frames on their way arrive as they would have."""
        self._carrier.network.model = model

    def alive(self, name: str) -> bool:
        return self._process(name).alive

    def paused(self, name: str) -> bool:
        return self._process(name).paused

    def rows(self) -> list[Row]:
        """The trace of everything so far, writer after writer: ask at the end, for those that still run are closed in it."""
        return self._traced().rows()

    def write_trace(self, directory: Path | str) -> Path:
        """Writes the trace of everything so far as a file below `directory`, and says which."""
        return self._traced().write(directory)

    def _traced(self) -> Tracing:
        if self.tracing is None:
            raise UsageError("this world is not recorded: make it with trace=True")
        for process in self._processes:
            if process.alive:
                self._sample(process)
        return self.tracing

    # -- the application -------------------------------------------------------------------------------------------------------

    def at(self, when: float, callback: Callable[[], object]) -> None:
        """Calls back at virtual time `when` (now, if that is past); what the callback returns is of no interest."""
        self._scheduler.at(when, _call, callback)

    def on_deliver(self, name: str, callback: OnDeliver) -> None:
        """Calls back with every message that `name` delivers, in all its lives."""
        self._application(name).on_deliver.append(callback)

    def on_writable(self, name: str, callback: OnWritable) -> None:
        """Calls back when a send that was refused would be accepted."""
        self._application(name).on_writable.append(callback)

    # -- time ------------------------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        self.run_until(self.now + seconds)

    def run_until(self, time: float) -> None:
        """Lets everything up to and including `time` happen."""
        self._scheduler.run_until(time)

    def wait_for(self, condition: Callable[[], bool], limit_s: float) -> bool:
        """Runs until the condition holds, and says whether that happened within `limit_s`; it is looked at every 10 ms."""
        limit = self.now + limit_s
        self.run(0.0)
        while not condition():
            if self.now >= limit:
                return False
            self.run_until(min(limit, self.now + _STEP_S))
        return True

    # -- faults ----------------------------------------------------------------------------------------------------------------

    def crash(self, name: str) -> None:
        """Stops a process for ever, in the middle of its turn: what it did in it is lost. Frames in flight from it still arrive."""
        process = self._process(name)
        if process.alive:
            process.crash()

    def restart(self, name: str) -> None:
        """Starts a crashed process again, as somebody new: it has a new id and is in no view."""
        if self.alive(name):
            raise UsageError(f"{name} is alive: crash it before it restarts")
        self._start(name)

    def pause(self, name: str) -> None:
        """Stops a process as a debugger or a swapped-out machine does: it does nothing, and what arrives waits."""
        self._living(name).paused = True

    def resume(self, name: str) -> None:
        process = self._living(name)
        if process.paused:
            process.resume()

    def slow(self, name: str, seconds_per_frame: float) -> None:
        """Lets a process take this long for each frame it gets; 0 is full speed."""
        if not 0.0 <= seconds_per_frame < float("inf"):
            raise InvalidOption("seconds_per_frame", seconds_per_frame, "give a number of seconds from 0 upwards")
        self._living(name).service_s = seconds_per_frame

    def skew(self, name: str, offset_s: float = 0.0, rate: float = 1.0) -> None:
        """Lets a process's clock show `now · rate + offset_s`; it never runs backwards."""
        self._living(name).skew(offset_s, rate)

    def partition(self, groups: Sequence[Sequence[str]]) -> None:
        """Cuts the network into parts that cannot reach each other; who is not named is in one further part."""
        named = [self._known(name) for group in groups for name in group]
        if len(set(named)) != len(named):
            raise InvalidOption("groups", groups, "a member is in one part only")
        self._carrier.network.split([*groups, [name for name in self.names if name not in named]])

    def cut(self, source: str, destination: str) -> None:
        """Lets nothing through from `source` to `destination`; the other direction goes on."""
        self._carrier.network.cuts.add((self._known(source), self._known(destination)))

    def heal(self) -> None:
        """Ends every partition and cut."""
        self._carrier.network.cuts.clear()

    def release(self, pattern: Pattern | None = None, message: MessageId | None = None, count: int | None = None) -> int:
        """Lets frames go on that the rules hold, oldest first: all, or those that match, or the first `count`; says how many."""
        return self._carrier.release(pattern, message, count)

    # -- what a world adds -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def _start(self, name: str) -> None:
        """Starts a new process under this name."""

    @abstractmethod
    def _end_turn(self, process: ProcessT) -> None:
        """Drains the core, puts its frames on the links and tells its events; then arms its timer."""

    @abstractmethod
    def _sample(self, process: ProcessT) -> None:
        """Records how things stand at a process."""

    @abstractmethod
    def _arrive(self, passage: Passage) -> None:
        """A frame has come out of its link."""

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _end_turns(self) -> None:
        while self._touched:
            touched = self._touched[:]
            self._touched.clear()
            for process in touched:
                process.in_turn = False
                if process.alive and not process.paused:
                    self._end_turn(process)

    def _known(self, name: str) -> str:
        if name not in self._application_by_name:
            raise InvalidOption("name", name, f"the {self.called} of this world are {', '.join(self.names)}")
        return name

    def _process(self, name: str) -> ProcessT:
        process = self._process_by_name.get(self._known(name))
        if process is None:
            raise UsageError(f"{name} has not started: start it first")
        return process

    def _application(self, name: str) -> Application:
        return self._application_by_name[self._known(name)]

    def _living(self, name: str) -> ProcessT:
        process = self._process(name)
        if not process.alive:
            raise UsageError(f"{name} has crashed: restart it first")
        return process


def _call(callback: Callable[[], object], _: Any) -> None:
    callback()
