"""Nodes in virtual time: they find groups, join and leave them, agree on views, and split and merge with their network.

Each node runs the real `NodeCore`; the world is only its driver (`sim.ground`). A node's address is its name. A broadcast reaches every
node that runs and that the links let it reach, or only `seeds` where those are given, as on a network without IP multicast.

    world = NodeWorld(seed=7, nodes=("a", "b", "c"))
    assert world.gather(options=GroupOptions(order="causal"))
    world.send("a", b"Did you visit Delhi?")
    world.partition([["a"], ["b", "c"]])
    world.run(10.0)
    world.heal()
    assert world.settle(30.0)

A group is named by its name, or by its id where two have the same name; `"g"` where nothing is said. What happened is in `logs`, one
per membership; a node that crashed and restarts, or leaves and comes back, is somebody new.

Keeps everything that happened. Bounds as in `sim.process`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from msgspec import structs

from antiphon.debugger.tap import Passage
from antiphon.errors import InvalidOption, JoinFailed, UsageError
from antiphon.model.control import GroupInfo, Wants
from antiphon.model.events import Departed, Event, Located, StateArrived, StateWanted
from antiphon.model.ids import Address, GroupId, MemberId, MessageId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint
from antiphon.protocol.membership.membership import Membership
from antiphon.protocol.node import Addresses, NodeCore
from antiphon.protocol.stage import Ordering
from antiphon.sim.application import OnEvent
from antiphon.sim.convergence import converged
from antiphon.sim.ground import Ground
from antiphon.sim.log import Adopted, MemberLog, Sent, hash_of
from antiphon.sim.machine import Machine, is_called
from antiphon.sim.network import NetworkModel
from antiphon.sim.oracles import Violation, check_group

_ASK_AGAIN_S = 1.0
_REFUSED_S = 0.06
"""After how long a node with connections finds out that another's address refuses them."""


@contextmanager
def _check_left_out(ordering: Ordering) -> Iterator[None]:
    """Lets an ordering accept whatever a message names."""
    ordering.check = lambda seqno, names: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        del ordering.check


class NodeWorld(Ground[Machine]):
    called: ClassVar[str] = "nodes"

    def __init__(
        self,
        seed: int = 1,
        nodes: Sequence[str] = ("a", "b", "c"),
        settings: Settings | None = None,
        network: NetworkModel | None = None,
        seeds: Sequence[str] | None = None,
        late: Sequence[str] = (),
        name_servers: Sequence[str] | None = None,
        trace: bool | str = False,
        connections: bool = False,
    ) -> None:
        """All `nodes` run from time 0, in no group; those in `late` when `start` says so. `seeds` are the nodes that a broadcast
        reaches (None: all), `name_servers` those that answer when they are asked for groups (None: all). With `trace` what
        happens is recorded (`rows`, `write_trace`). With `connections` nodes notice, as over TCP, that the address of a crashed one refuses
        connections."""
        super().__init__(seed, (*nodes, *late), settings, network, trace)
        for option, names in (("seeds", seeds), ("name_servers", name_servers)):
            for name in names or ():
                if name not in self.names:
                    raise InvalidOption(option, name, f"the nodes of this world are {', '.join(self.names)}")
        self._seeds, self._name_servers, self._connections = seeds, name_servers, connections
        self.wants: dict[MemberId, Wants] = {}
        """What those who joined wanted of the time before they came."""
        self._options: dict[str, GroupOptions] = {}
        self._sought: dict[tuple[str, str], tuple[Wants | None, GroupOptions | None]] = {}
        """What nodes look for to join it, and how."""
        self._starts: Counter[str] = Counter()
        for name in nodes:
            self._start(name)

    # -- questions -------------------------------------------------------------------------------------------------------------

    def node(self, name: str) -> NodeCore:
        return self._process(name).core

    def started(self, name: str) -> bool:
        return self._known(name) in self._process_by_name

    def is_member(self, name: str, group: str = "g") -> bool:
        """Whether a living node takes part in a group: it has joined or is about to."""
        return self.started(name) and self.alive(name) and self._process(name).membership(group) is not None

    def member(self, name: str, group: str = "g") -> Membership:
        """The membership of a node in a group; UsageError when it is not in it."""
        membership = self._process(name).membership(group)
        if membership is None:
            raise UsageError(f"{name} is not in {group}: let it join first")
        return membership

    def endpoint(self, name: str, group: str = "g") -> Endpoint:
        """The endpoint of a member; UsageError while it is in no view."""
        endpoint = self.member(name, group).endpoint
        if endpoint is None:
            raise UsageError(f"{name} is in no view of {group} yet: let some time pass")
        return endpoint

    def was_member(self, name: str, group: str = "g") -> bool:
        """Whether a node is, or was, or tried to be in a group."""
        self._known(name)
        machines = [machine for machine in self._processes if machine.name == name]
        return any(is_called(group_id, group) for machine in machines for group_id in machine.group_by_member.values())

    def view_of(self, name: str, group: str = "g") -> View | None:
        """The view that a node is in; None when it is in none."""
        membership = self._process(name).membership(group)
        return None if membership is None else membership.view

    def history(self, name: str, group: str = "g") -> list[MessageId]:
        """What a member has, in the canonical order, which is the same at all members."""
        told = self.member(name, group).history()
        return [MessageId(batch.sender, seqno) for batch, low, high in told for seqno in range(low, high + 1)]

    def known(self, name: str) -> tuple[GroupInfo, ...]:
        """The groups that a node is in, as it would tell others, and those that it has heard of."""
        core = self.node(name)
        return (*(membership.info() for membership in core.memberships.values() if membership.view is not None), *core.known())

    def id_of(self, name: str, group: str = "g") -> MemberId:
        """The latest member id of a node in a group, in which it need not be any more."""
        self._known(name)
        for machine in reversed(self._processes):
            if machine.name == name:
                for member, group_id in reversed(machine.group_by_member.items()):
                    if is_called(group_id, group):
                        return member
        raise UsageError(f"{name} was never in {group}")

    def logs_of(self, group: str = "g") -> list[MemberLog]:
        """The logs of one group, in the order in which the memberships began."""
        group_by_member = {member: group_id for machine in self._processes for member, group_id in machine.group_by_member.items()}
        return [log for log in self.logs if is_called(group_by_member[log.member], group)]

    def log_of(self, name: str, group: str = "g") -> MemberLog:
        """The log of a node's latest membership in a group."""
        member = self.id_of(name, group)
        (log,) = (log for log in self.logs if log.member == member)
        return log

    def options_of(self, group: str = "g") -> GroupOptions:
        """What was chosen when a group was created."""
        for known, options in self._options.items():
            if is_called(known, group):
                return options
        raise UsageError(f"nobody has created {group}")

    def check(self, group: str = "g", *, settled: bool = True) -> list[Violation]:
        """Every promise of a group that was broken so far; without `settled`, only what can be said while it is not at rest."""
        return check_group(self.logs_of(group), self.options_of(group), self.wants, settled=settled)

    # -- groups ----------------------------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Starts a node that was to come late."""
        if self.started(name):
            raise UsageError(f"{name} has started already")
        self._start(name)

    def create(self, name: str, group: str = "g", options: GroupOptions | None = None, description: str = "") -> GroupId:
        """Founds a group, with this node as its only member."""
        machine = self._process(name)
        core = machine.acting()
        options = options or GroupOptions()
        group_id = core.create(machine.now(), group, options, description)
        self._options[group_id] = options
        self.logs.append(machine.begin(group_id))
        return group_id

    def join(
        self,
        name: str,
        group: str = "g",
        wants: Wants | None = None,
        create: GroupOptions | None = None,
        contacts: Sequence[str] = (),
        expect: int | Sequence[str] = 0,
    ) -> MemberId:
        """Begins to join a group that the node has heard of. With `create` the group is founded if nobody has it, together with the
        founders in `expect` where that is given; `contacts` are nodes known to be in it. Raises what `NodeCore.join` raises, and
        returns the id of the new member."""
        machine = self._process(name)
        create = _with_founders(create, expect)
        core, addresses = machine.acting(), tuple(Address(self._known(contact)) for contact in contacts)
        if not core.directory.find(group) and (create is None or contacts):
            raise JoinFailed(group, "no group of this name is known: advertise, or ask a node that knows it, then join")
        if self.is_ambiguous(name, group):
            raise JoinFailed(group, "several groups of this name are known: look for it")
        group_id = core.join(machine.now(), group, wants=wants, contacts=addresses, create=create)
        return self._begin(machine, group_id, wants, create)

    def is_ambiguous(self, name: str, group: str = "g") -> bool:
        """Whether a node has heard of several groups of this name, one of which may be forged or gone."""
        return len(self._process(name).core.directory.find(group)) > 1

    def seeks(self, name: str, group: str = "g") -> bool:
        """Whether a node is looking for a group."""
        return (name, group) in self._sought

    def look_for(
        self,
        name: str,
        group: str = "g",
        wants: Wants | None = None,
        create: GroupOptions | None = None,
        contacts: Sequence[str] = (),
        expect: int | Sequence[str] = 0,
    ) -> None:
        """Looks for a group that the node has not heard of, everywhere or at `contacts`, and joins it when it is found; with `create` it
        is founded when it is not."""
        machine = self._process(name)
        create = _with_founders(create, expect)
        addresses = tuple(Address(self._known(contact)) for contact in contacts)
        group_id = machine.acting().join(machine.now(), group, wants=wants, contacts=addresses, create=create)
        if group_id in machine.core.memberships:
            self._begin(machine, group_id, wants, create)
        else:
            self._sought[name, group] = (wants, create)

    def _begin(self, machine: Machine, group: GroupId, wants: Wants | None, create: GroupOptions | None) -> MemberId:
        log = machine.begin(group)
        self.logs.append(log)
        self.wants[log.member] = wants or Wants()
        if create is not None:
            self._options.setdefault(group, create)
        return log.member

    def leave(self, name: str, group: str = "g") -> None:
        machine = self._process(name)
        machine.acting().leave(machine.now(), machine.group_id(group))

    def reject(self, name: str, group: str = "g") -> None:
        """Wants to hear no more of a group, until the node advertises again."""
        machine = self._process(name)
        machine.acting().reject(machine.now(), machine.group_id(group))

    def advertise(self, name: str) -> None:
        machine = self._process(name)
        machine.acting().advertise(machine.now())

    def ask_groups(self, name: str, other: str) -> int:
        """Asks `other` as a name server; returns the number of the question."""
        machine = self._process(name)
        return machine.acting().ask_groups(machine.now(), Address(self._known(other)))

    def gather(self, group: str = "g", options: GroupOptions | None = None, limit_s: float = 30.0) -> bool:
        """Lets the first node that runs create a group and every other one join it when it has heard of it, and runs until they are in
        one stable view; says whether that happened within `limit_s`."""
        first, *others = [machine for machine in self._process_by_name.values() if machine.taking]
        group_id = self.create(first.name, group, options)
        outside = {machine.name: machine for machine in others}
        asked_at = self.now

        def joined() -> bool:
            nonlocal asked_at
            asks = self.now - asked_at >= _ASK_AGAIN_S
            asked_at = self.now if asks else asked_at
            for name, machine in list(outside.items()):
                if any(info.id == group_id for info in machine.core.known()):
                    self.join(name, group_id)
                    del outside[name]
                elif asks:
                    self.advertise(name)  # the first answer was lost
            return not outside and self.converged(group_id)

        return self.wait_for(joined, limit_s)

    # -- the application -------------------------------------------------------------------------------------------------------

    def send(
        self,
        name: str,
        payload: bytes,
        reply_to: MessageId | None = None,
        after: Sequence[MessageId] = (),
        group: str = "g",
        unchecked: bool = False,
    ) -> MessageId:
        """Sends as the application of `name` would; raises what `NodeCore.submit` raises, and UsageError when it cannot act.
        `unchecked`: as a faulty node would, which does not ask its ordering whether the messages exist that this one names."""
        machine, membership = self._process(name), self.member(name, group)
        if unchecked:
            with _check_left_out(self.endpoint(name, group).ordering):
                return self.send(name, payload, reply_to, after, group)
        first, core, events = not machine.in_turn, machine.acting(), machine.log_by_member[membership.me].events
        written = len(events)
        message = core.submit(machine.now(), membership.group, payload, reply_to, after, at_once=first)
        names = (*after,) if reply_to is None else (reply_to, *after)
        # What leaves at once has been accepted here by now: that comes after it.
        events.insert(written if first else len(events), Sent(self.now, message, names, reply_to is not None, hash_of(payload)))
        if first:
            self._cast(machine, core.hurried())
            core.settled()  # what is to be told is told at the end of the turn all the same: nothing else happens before
        return message

    def send_to(self, name: str, to: str, data: bytes, group: str = "g") -> int:
        """Sends to one member alone, given by its node's name or by its id; returns the number of the message."""
        machine, membership, receiver = self._process(name), self.member(name, group), self._member_id(to, group)
        number = machine.acting().submit_to(machine.now(), membership.group, receiver, data)
        machine.log_private(membership, receiver, data, number)
        return number

    def ask(self, name: str, data: bytes, to: str | None = None, group: str = "g") -> int:
        """Asks one member, or every other one of the view; returns the number of the question."""
        machine, membership = self._process(name), self.member(name, group)
        receiver = None if to is None else self._member_id(to, group)
        question = machine.acting().ask(machine.now(), membership.group, data, receiver)
        everyone = () if membership.view is None else membership.view.members
        for member in everyone if receiver is None else (receiver,):
            if member != membership.me:
                machine.log_private(membership, member, data)
        return question

    def reply(self, name: str, to: str, question: int, data: bytes, group: str = "g") -> int:
        """Answers question number `question` of another member; returns the number of the message."""
        machine, membership, receiver = self._process(name), self.member(name, group), self._member_id(to, group)
        number = machine.acting().reply(machine.now(), membership.group, receiver, question, data)
        machine.log_private(membership, receiver, data, number)
        return number

    def send_guest(self, name: str, payload: bytes, group: str = "g") -> int:
        """Sends to an open group from outside; returns the outsider's own number for the message."""
        machine = self._process(name)
        return machine.acting().submit_guest(machine.now(), machine.group_id(group), payload)

    def on_event(self, name: str, callback: OnEvent) -> None:
        """Calls back with every event of a node, deliveries included, after it was logged."""
        self._application(name).on_event.append(callback)

    def on_state(self, name: str, get: Callable[[], bytes], put: Callable[[bytes], None]) -> None:
        """`get` is asked for the application's state when a newcomer wants it, at that point of the events; `put` is given the state
        when this node is the newcomer."""
        application = self._application(name)
        application.get_state, application.set_state = get, put

    def stop_reading(self, name: str) -> None:
        """The application of a node takes nothing any more: frames wait, as in a socket's buffer that fills up; its timers go on."""
        self._living(name).reading = False

    def start_reading(self, name: str) -> None:
        self._living(name).read()

    def pause_reader(self, name: str, group: str = "g") -> None:
        """The application of a node does not take what is delivered in one group; its node, which knows, goes on."""
        machine, membership = self._process(name), self.member(name, group)
        machine.acting().pause(machine.now(), membership.group)

    def resume_reader(self, name: str, group: str = "g") -> None:
        machine, membership = self._process(name), self.member(name, group)
        machine.acting().resume(machine.now(), membership.group)

    # -- connections -----------------------------------------------------------------------------------------------------------

    def crash(self, name: str) -> None:
        """Stops a node for ever, in the middle of its turn. With `connections` those that can reach it find that its address refuses
        them, unless it has been restarted by then."""
        was_alive = self.alive(name)
        super().crash(name)
        if was_alive and self._connections:
            self.at(self.now + _REFUSED_S, lambda: self._refuse_all(name))

    def refuse_connection(self, name: str, by: str) -> None:
        """Lets `name` find that the address of `by` refuses connections, as its transport would report it. It need not be true."""
        machine, address = self._living(name), Address(self._known(by))
        machine.take(lambda core: core.connection_refused(machine.now(), address))

    def _refuse_all(self, name: str) -> None:
        if not self.alive(name):
            cuts = self._carrier.network.cuts
            for machine in list(self._process_by_name.values()):
                if machine.alive and (machine.name, name) not in cuts and (name, machine.name) not in cuts:
                    self.refuse_connection(machine.name, by=name)

    # -- rest ------------------------------------------------------------------------------------------------------------------

    def converged(self, group: str = "g") -> bool:
        """Whether all who run, are in the group and can reach each other have found together (`sim.convergence`)."""
        machines = list(self._process_by_name.values())
        awake = [machine for machine in machines if machine.taking]
        found = {machine.name: machine.membership(group) for machine in awake}
        asleep = {machine.name for machine in machines if machine.alive and not machine.taking}
        members = {name: membership for name, membership in found.items() if membership is not None}
        return converged(members, asleep, self._carrier.network.cuts)

    def settle(self, limit_s: float, group: str = "g") -> bool:
        """Runs until the group is at rest; says whether that happened within `limit_s`."""
        return self.wait_for(lambda: self.at_rest(group), limit_s)

    def at_rest(self, group: str = "g") -> bool:
        """Whether the group has converged and nothing that matters is in flight."""
        if self._carrier.in_flight or any(machine.waiting for machine in self._process_by_name.values() if machine.taking):
            return False
        return self.converged(group)

    # -- one turn --------------------------------------------------------------------------------------------------------------

    def _start(self, name: str) -> None:
        self._starts[name] += 1
        rng = random.Random(f"{self.seed}/node/{name}/{self._starts[name]}")
        answers = self._name_servers is None or name in self._name_servers
        machine = Machine(name, rng, self.settings, self._scheduler, self._touched.append, answers, self.tracing)
        self._process_by_name[name] = machine
        self._processes.append(machine)
        for key in [key for key in self._sought if key[0] == name]:
            del self._sought[key]
        machine.touch()
        machine.core.start(machine.now())

    def _end_turn(self, process: Machine) -> None:
        effects = process.core.drain(process.now())
        self._cast(process, effects.sends)
        for group, event in effects.events:
            if process.alive:  # a callback may crash its own node
                self._hear(process, group, event)
        process.arm()

    def _cast(self, source: Machine, sends: list[tuple[Addresses, bytes, GroupId | None]]) -> None:
        for destination, wire, _ in sends:
            self._carrier.cast(source.address, self._everyone(source) if destination is None else destination, wire)

    def _everyone(self, source: Machine) -> list[Address]:
        """Whom a broadcast reaches, if the links let it through."""
        machines = [machine for machine in self._process_by_name.values() if machine.alive and machine is not source]
        return [machine.address for machine in machines if self._seeds is None or machine.name in self._seeds]

    def _hear(self, machine: Machine, group: GroupId | None, event: Event) -> None:
        application = self._application_by_name[machine.name]
        if type(event) is Located and group is not None:
            self._begin(machine, group, *self._sought.pop((machine.name, event.asked)))
        elif type(event) is Departed and group is not None:
            self._sought.pop((machine.name, group), None)
        log = None if group is None else machine.log_of(group)
        if log is not None:
            if type(event) is StateArrived and group is not None:
                log.events.append(Adopted(self.now, machine.adopted(group)))
            application.hear(self.now, log, event)
        if type(event) is StateArrived and application.set_state is not None:
            application.set_state(event.state)
        elif type(event) is StateWanted and group is not None:
            machine.touch()
            state = None if application.get_state is None else application.get_state()
            machine.core.provide_state(machine.now(), group, event.snapshot, state)
        for callback in application.on_event:
            if machine.alive:
                callback(group, event)

    def _sample(self, process: Machine) -> None:
        process.sample()

    def _arrive(self, passage: Passage) -> None:
        machine = self._process_by_name.get(passage.destination)
        if machine is not None:
            machine.arrive(passage.source, passage.wire)
        else:
            self._carrier.network.drops["nobody_there"] += 1

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _member_id(self, who: str, group: str) -> MemberId:
        return self.id_of(who, group) if who in self.names else MemberId(who)


def _with_founders(create: GroupOptions | None, expect: int | Sequence[str]) -> GroupOptions | None:
    if create is None or not expect:
        return create
    return structs.replace(create, expect=expect if isinstance(expect, int) else tuple(expect))
