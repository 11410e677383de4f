"""The world: members, a network between them, faults, and virtual time, all from one seed.

The endpoints are the real ones; the world is only their driver. All inputs of a member at one instant are one turn: messages sent
at one instant leave as one batch, and when nothing more happens at that instant the endpoint is drained, its frames go on the
links, its events to the log and to the callbacks. Callbacks may send; that is the member's next turn.

    world = World(seed=7, members=("a", "b", "c"), options=GroupOptions(order="causal"))
    question = world.send("a", b"Did you visit Delhi?")
    world.on_deliver("b", lambda message, payload, reply_to: None)
    assert world.settle(10.0)

The same seed and the same calls give the same run, byte for byte, in every process. What happened is in `logs`.

Keeps everything that happened: memory grows with the messages of a run. Cost: five members and 200 messages, 20 to 40 ms over `reliable`
or `tree`; several times that where more frames travel (`flood`, safe delivery).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from antiphon.debugger.pattern import Pattern
from antiphon.debugger.rule import Rule
from antiphon.debugger.tap import Passage, Tap
from antiphon.errors import InvalidOption, UsageError
from antiphon.model.ids import MemberId, MessageId, new_group_id, new_member_id
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint
from antiphon.sim.application import Application, OnDeliver, OnWritable
from antiphon.sim.carrier import Carrier
from antiphon.sim.log import MemberLog, Sent, hash_of
from antiphon.sim.network import NetworkModel
from antiphon.sim.process import Process
from antiphon.sim.scheduler import Scheduler

_SETTLE_STEP_S = 0.01


class World:
    def __init__(
        self,
        seed: int = 1,
        members: Sequence[str] = ("a", "b", "c"),
        options: GroupOptions | None = None,
        settings: Settings | None = None,
        network: NetworkModel | None = None,
    ) -> None:
        """A group of `members`, all in its first view at time 0."""
        self.seed = seed
        self.names: tuple[str, ...] = tuple(members)
        self.options, self.settings = options or GroupOptions(), settings or Settings()
        self.logs: list[MemberLog] = []
        """One log per incarnation, in the order they were created."""
        self._ids = random.Random(f"{seed}/ids")
        self._scheduler = Scheduler(self._end_turns)
        self._carrier = carrier = Carrier(network or NetworkModel(), seed, self._scheduler, self._arrive)
        self.frames: Counter[tuple[str, str, str]] = carrier.frames
        """Frames put on each link, by source, destination and kind."""
        self.rules: list[Rule] = carrier.rules
        """The debugger's rules, applied to every frame in this order; change the list as you like."""
        self.tap: Tap = carrier.tap
        """What the rules hold."""
        self._touched: list[Process] = []
        self._process_by_name: dict[str, Process] = {}
        self._process_by_id: dict[MemberId, Process] = {}
        self._application_by_name = {name: Application() for name in self.names}
        self._group = new_group_id("group", self._ids)
        if len(set(self.names)) != len(self.names):
            raise InvalidOption("members", self.names, "two members need two names")
        for name in self.names:
            self._start(name)
        self._view = View(1, tuple(self._process_by_name[name].id for name in self.names))
        for process in self._process_by_name.values():
            self._join(process, None)

    # -- questions -------------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Virtual seconds since the world began."""
        return self._scheduler.now

    @property
    def view(self) -> View:
        """The view that was installed last."""
        return self._view

    @property
    def drops(self) -> Counter[str]:
        """Frames that reached no endpoint, by reason."""
        return sum((process.drops for process in self._process_by_id.values()), Counter(self._carrier.network.drops))

    @property
    def network(self) -> NetworkModel:
        return self._carrier.network.model

    @network.setter
    def network(self, model: NetworkModel) -> None:
        """Changes the links from now on; frames on their way arrive as they would have."""
        self._carrier.network.model = model

    def id_of(self, name: str) -> MemberId:
        """The member id of the current incarnation."""
        return self._process(name).id

    def endpoint(self, name: str) -> Endpoint:
        """The endpoint of the current incarnation; UsageError while it is in no view."""
        return self._process(name).endpoint

    def alive(self, name: str) -> bool:
        return self._process(name).alive

    def paused(self, name: str) -> bool:
        return self._process(name).paused

    # -- the application -------------------------------------------------------------------------------------------------------

    def at(self, when: float, callback: Callable[[], object]) -> None:
        """Calls back at virtual time `when` (now, if that is past); what the callback returns is of no interest."""
        self._scheduler.at(when, _call, callback)

    def send(self, name: str, payload: bytes, reply_to: MessageId | None = None, after: Sequence[MessageId] = ()) -> MessageId:
        """Sends as the application of `name` would; raises what `Endpoint.submit` raises, and UsageError when it cannot act."""
        process = self._process(name)
        message = process.acting().submit(process.now(), payload, reply_to, after)
        names = (*after,) if reply_to is None else (reply_to, *after)
        process.log.events.append(Sent(self.now, message, names, reply_to is not None, hash_of(payload)))
        return message

    def on_deliver(self, name: str, callback: OnDeliver) -> None:
        """Calls back with every message that `name` delivers, in all its incarnations."""
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

    def settle(self, limit_s: float) -> bool:
        """Runs until the group is at rest, and says whether that happened within `limit_s`. At rest: nothing that matters is in
        flight, and all who live and run in the latest view have the same messages, without gaps, and hold none back."""
        limit = self.now + limit_s
        self.run(0.0)
        while not self._at_rest():
            if self.now >= limit:
                return False
            self.run_until(min(limit, self.now + _SETTLE_STEP_S))
        return True

    # -- faults ----------------------------------------------------------------------------------------------------------------

    def crash(self, name: str) -> None:
        """Stops a member for ever, in the middle of its turn: what it did in it is lost. Frames in flight from it still arrive."""
        process = self._process(name)
        if process.alive:
            process.crash()

    def restart(self, name: str) -> None:
        """Starts a crashed member again, as somebody new: it has a new id and is in no view until `install_view`."""
        if self.alive(name):
            raise UsageError(f"{name} is alive: crash it before it restarts")
        self._start(name)

    def pause(self, name: str) -> None:
        """Stops a member as a debugger or a swapped-out machine does: it does nothing, and what arrives waits."""
        self._living(name).paused = True

    def resume(self, name: str) -> None:
        process = self._living(name)
        if process.paused:
            process.resume()

    def slow(self, name: str, seconds_per_frame: float) -> None:
        """Lets a member take this long for each frame it gets; 0 is full speed."""
        if not 0.0 <= seconds_per_frame < float("inf"):
            raise InvalidOption("seconds_per_frame", seconds_per_frame, "give a number of seconds from 0 upwards")
        self._living(name).service_s = seconds_per_frame

    def skew(self, name: str, offset_s: float = 0.0, rate: float = 1.0) -> None:
        """Lets a member's clock show `now · rate + offset_s`; it never runs backwards."""
        self._living(name).skew(offset_s, rate)

    def partition(self, groups: Sequence[Sequence[str]]) -> None:
        """Cuts the network into parts that cannot reach each other; who is not named is in one further part."""
        named = [name for group in groups for name in group]
        for name in named:
            self._process(name)
        if len(set(named)) != len(named):
            raise InvalidOption("groups", groups, "a member is in one part only")
        self._carrier.network.split([*groups, [name for name in self.names if name not in named]])

    def cut(self, source: str, destination: str) -> None:
        """Lets nothing through from `source` to `destination`; the other direction goes on."""
        self._carrier.network.cuts.add((self._process(source).name, self._process(destination).name))

    def heal(self) -> None:
        """Ends every partition and cut."""
        self._carrier.network.cuts.clear()

    def release(self, pattern: Pattern | None = None, message: MessageId | None = None, count: int | None = None) -> int:
        """Lets frames go on that the rules hold, oldest first: all, or those that match, or the first `count`; says how many."""
        return self._carrier.release(pattern, message, count)

    # -- views -----------------------------------------------------------------------------------------------------------------

    def begin_flush(self, names: Iterable[str]) -> None:
        """Stops the sending of these members until the next view, so that they can become level."""
        for name in names:
            self._process(name).flush()

    def install_view(self, names: Iterable[str]) -> View:
        """Makes the current incarnations of `names` the group, at all of them that live, at once. Call `begin_flush` and `settle`
        first: the living members of the old view must hold the same messages. Newcomers start after what those hold."""
        self._end_turns()
        processes = [self._process(name) for name in names]
        view = View(self._view.id + 1, tuple(process.id for process in processes))
        self._view = view
        veterans = [process for process in processes if process.alive and process.joined]
        cut: dict[MemberId, int] = {}
        for process in veterans:
            process.install(view)
            for sender, position in process.endpoint.multicast.positions().items():
                cut[sender] = max(position, cut.get(sender, 0))
        for process in processes:
            if process.alive and not process.joined:
                self._join(process, {member: cut[member] for member in view.members if member in cut})
        return view

    def _start(self, name: str) -> None:
        process = Process(name, new_member_id(name, self._ids), self._scheduler, self._touched.append)
        self._process_by_name[name] = self._process_by_id[process.id] = process
        self.logs.append(process.log)

    def _join(self, process: Process, cut: dict[MemberId, int] | None) -> None:
        rng = random.Random(f"{self.seed}/member/{process.id}")
        process.join(self._group, self._view, self.options, self.settings, rng, cut)

    # -- one turn --------------------------------------------------------------------------------------------------------------

    def _end_turns(self) -> None:
        while self._touched:
            touched = self._touched[:]
            self._touched.clear()
            for process in touched:
                process.in_turn = False
                if process.alive and not process.paused:
                    self._end_turn(process)

    def _end_turn(self, process: Process) -> None:
        effects, application = process.endpoint.drain(process.now()), self._application_by_name[process.name]
        for destination, wire in effects.sends:
            self._carrier.cast(process.id, process.others if destination is None else destination, wire)
        for event in effects.events:
            if process.alive:  # a callback may crash its own member
                application.hear(self.now, process.log, event)
        process.arm()

    def _arrive(self, passage: Passage) -> None:
        self._process_by_id[passage.destination].arrive(passage.source, passage.wire)

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _at_rest(self) -> bool:
        if self._carrier.in_flight:
            return False
        living = [process for process in map(self._process_by_id.__getitem__, self._view.members) if process.alive and not process.paused]
        endpoints = [process.endpoint for process in living]
        if any(process.waiting for process in living) or any(end.ordering.held or not end.multicast.level() for end in endpoints):
            return False
        if self.options.multicast == "besteffort":
            return True  # what is lost stays lost
        positions = [end.multicast.positions() for end in endpoints]
        if any(position != positions[0] for position in positions):
            return False
        # A safe group may have everything everywhere and not know yet that it has: its latest messages are still held.
        return self.options.delivery != "safe" or not any(
            end.why(MessageId(sender, seqno)).state == "held" for end in endpoints for sender, seqno in positions[0].items()
        )

    def _process(self, name: str) -> Process:
        process = self._process_by_name.get(name)
        if process is None:
            raise InvalidOption("name", name, f"the members of this world are {', '.join(self.names)}")
        return process

    def _application(self, name: str) -> Application:
        return self._application_by_name[self._process(name).name]

    def _living(self, name: str) -> Process:
        process = self._process(name)
        if not process.alive:
            raise UsageError(f"{name} has crashed: restart it first")
        return process


def _call(callback: Callable[[], object], _: Any) -> None:
    callback()
