"""One node, without I/O: its groups, the groups it has heard of, and the ways to other nodes.

A driver calls, always with its clock's `now`, what the application wants (`create`, `join`, `submit`, …), `receive` for bytes from an
address, `connection_refused` where its transport has connections, and `tick` when `deadline` has passed; then `drain`, which ends the
turn and returns what must happen outside: frames with
where they go (None: to every node, by broadcast or to the seeds) and the group they are of, then events with the group they belong to.
What is submitted `at_once` leaves before everything else: `hurried` returns its frames. Where nothing but a delivery comes of what is
received, as of nearly every message to an idle member, `receive` says so, and of what was submitted at once `settled`: a driver whose
turn has just begun takes it from `told`, and need not end the turn at all.
An application that does not take what is delivered in a group is `pause`d there, until it `resume`s.

A driver that guards some groups with a key of their own names their realm in `realm_by_name`: it seals what is of such a group for that
realm, and says in which realm what it receives was sealed. A frame of a guarded group counts in its realm alone, and nothing else does
there.

Nothing received can raise: what is no frame, or makes no sense, is counted in `drops` and forgotten.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from antiphon.errors import BadFrame, UsageError
from antiphon.model import codec
from antiphon.model import control as c
from antiphon.model.events import Discovered, Event, NameServerAnswer, NameTaken
from antiphon.model.frames import Batch, Digest, Fragment, Nack, Record
from antiphon.model.ids import Address, GroupId, MemberId, MessageId, name_of, new_member_id
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.recording import Recorder
from antiphon.model.refusals import Refusals, is_worth_a_word
from antiphon.protocol.agenda import Agenda
from antiphon.protocol.discovery.directory import Directory
from antiphon.protocol.entrance import DISCOVERY_ROUNDS, GROUPS_LIMIT, Entrance, OnAcceptIn
from antiphon.protocol.membership.membership import Membership
from antiphon.protocol.outsiders import Outsiders
from antiphon.protocol.probes import Probes
from antiphon.protocol.routes import Routes
from antiphon.protocol.samples import Samples
from antiphon.protocol.sync.unread import UnreadEvent
from antiphon.protocol.timers import NEVER, Timers

Addresses: TypeAlias = tuple[Address, ...] | None
"""Where a frame goes; None: to every node."""
_SEALED = b"\xc1"
"""How a sealed frame begins, and no other: nodes that have credentials send them."""
_NOTICE_BYTES = 12
"""So long is the notice by which such a node says that it has refused something; it is not answered. Frames are longer."""
_DATA = frozenset((Batch, Fragment, Record, Digest, Nack))
_PROBES = frozenset((c.Ping, c.Enquire, c.Pong, c.Vouch))
_ABOUT_NODES = _PROBES | {c.Ended}
"""Frames about a group that are not only its members' affair."""
_FROM_NODES = frozenset((c.Advertise, c.Groups, c.AskGroups, c.Detour))
"""Frames that are of no group."""


class NodeEffects(Struct, gc=False):
    sends: list[tuple[Addresses, bytes, GroupId | None]]
    """To whom, the frame, and the group it is of: None for what is between nodes (discovery, the links themselves)."""
    events: list[tuple[GroupId | None, Event]]


class NodeCore:
    def __init__(
        self,
        name: str,
        address: Address,
        *,
        rng: random.Random,
        settings: Settings | None = None,
        now: float = 0.0,
        name_server: bool = True,
        on_accept: OnAcceptIn | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.name, self.address, self.settings = name, address, settings or Settings()
        self.rng, self._now = rng, now
        self.id = new_member_id(name, rng)
        self.memberships: dict[GroupId, Membership] = {}
        self.realm_by_name: dict[str, str] = {}
        """The realm of each guarded group, by the group's name; all others are in the realm of the node, which has no name."""
        self.former_by_name: dict[str, tuple[str, ...]] = {}
        """By group name, the names in the last view that an earlier start of this node was in, in join order. A driver that remembers them
        enters them: this node then takes no part in founding a group again that others may go on with."""
        self.drops: Counter[str] = Counter()
        self.refusals = Refusals()
        """What was refused for want of credentials; a driver that has some counts here, too."""
        self._touched: dict[GroupId, Membership] = {}
        """Those that had an input in this turn."""
        self._hurrying: Membership | None = None
        """Where a message was submitted at once, as the first thing that happened in this turn."""
        self._agenda = Agenda(self.memberships)
        self._timers = Timers()
        self._sends: list[tuple[Addresses, bytes, GroupId | None]] = []
        self._events: list[tuple[GroupId | None, Event]] = []
        self.routes = Routes(address, self.settings, self._timers, self._put)
        self._probes = Probes(address, self.routes, self._answer, self._answer_directly)
        self.directory = Directory(
            self.id,
            address,
            rng=rng,
            settings=self.settings,
            now=now,
            send=self._send_frame,
            tell=self._hear_directory,
            mine=lambda: [member.info() for member in self.memberships.values() if member.view is not None],
            timers=self._timers,
            name_server=name_server,
        )
        self.outsiders = Outsiders(
            name,
            rng=rng,
            settings=self.settings,
            send=self._send_frame,
            tell=self._tell,
            timers=self._timers,
        )
        self._entrance = Entrance(
            name,
            address,
            self.memberships,
            rng=rng,
            settings=self.settings,
            directory=self.directory,
            routes=self.routes,
            timers=self._timers,
            clock=lambda: self._now,
            touch=self._touch,
            tell=self._tell,
            on_accept=on_accept,
            recorder=recorder,
            former_by_name=self.former_by_name,
        )
        self._samples = None if recorder is None else Samples(self.memberships)
        if recorder is not None:
            recorder.begin(self.id)
        self.deadline: float | None = None
        """When `tick` wants to be called next, or a little before: as of the last `drain`."""
        self.listened_at = now
        """When the answers to the node's first advertisement have come."""
        self._ended: dict[GroupId, None] = {}
        """Groups that ended here: others that were leaving them may not have heard."""

    # -- groups ----------------------------------------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Make the node known, and repeat it from now on with growing pauses: others may come into reach later."""
        self._now = now
        self.listened_at = now + DISCOVERY_ROUNDS * self.settings.answer_s
        self.directory.start(now)

    def advertise(self, now: float) -> None:
        self._now = now
        self.directory.advertise(now)

    def reject(self, now: float, group: GroupId) -> None:
        self._now = now
        self.directory.reject(now, group)

    def ask_groups(self, now: float, address: Address) -> int:
        self._now = now
        return self.directory.ask(now, address)

    def known(self) -> tuple[c.GroupInfo, ...]:
        """The groups this node has heard of and is not in."""
        return self.directory.known()

    def create(self, now: float, name: str, options: GroupOptions | None = None, description: str = "") -> GroupId:
        """Found a group, alone, whether or not there is another of this name (`check_new` raises if there is). Others learn of it."""
        self._now = now
        return self._entrance.create(name, options or GroupOptions(), description or name)

    def check_new(self, name: str) -> None:
        """Raise GroupExists if this node is in a group of this name or has heard of one."""
        self._entrance.check_new(name)

    def why_waiting(self, asked: str) -> str:
        """Say why a join, by what was asked for or the id it returned, has not succeeded yet; empty if it has, or is not known."""
        return self._entrance.reason(asked)

    def join(
        self,
        now: float,
        group: GroupId | str,
        *,
        wants: c.Wants | None = None,
        contacts: tuple[Address, ...] = (),
        create: GroupOptions | None = None,
        options: GroupOptions | None = None,
    ) -> GroupId:
        """Asks to be let into a group, by its id or its name; `contacts` are nodes that know it or are in it. With `create`, founds the
        group of that name if nobody answers for it: all who do so meet, because its id is made of the name alone; under the `majority`
        policy, together with the founders in `create.expect`. Departed says that it failed. Returns the id of the group. If that is not
        known yet, and so no membership of `memberships`, it is what was asked for: Located then says which group that is, or Departed
        that none was found."""
        self._now = now
        return self._entrance.join(group, wants or c.Wants(), contacts, create, options)

    def leave(self, now: float, group: GroupId) -> None:
        """Asks to be out of a group, or no longer looks for it; Departed says when that is so."""
        self._now = now
        if not self._entrance.give_up(group):
            self._member(group).leave(now)

    def pause(self, now: float, group: GroupId) -> None:
        """The application does not take what is delivered in this group. Until `resume`, what others send is not taken either, so that
        they slow down, and nothing is accepted from the application. What a change of the view needs is still delivered."""
        self._member(group).stop_reading(now)

    def resume(self, now: float, group: GroupId) -> None:
        """The application takes again: what it missed is asked for at once."""
        self._member(group).start_reading(now)

    # -- sending ---------------------------------------------------------------------------------------------------------------

    def submit(
        self,
        now: float,
        group: GroupId,
        payload: bytes,
        reply_to: MessageId | None = None,
        after: Sequence[MessageId] = (),
        at_once: bool = False,
    ) -> MessageId:
        """Accepts one message. `at_once`: `hurried` has its frames, and what else is to be sent, before the end of the turn."""
        member = self.memberships.get(group)
        if member is None:
            member = self._member(group)  # raises
        self._hurrying = member if at_once and not self._touched else None
        self._touched[group] = member
        accepted = member.submit(now, payload, reply_to, after, None, at_once)
        if at_once and member.port.sends:
            self._take_sends(member.port.sends, group)
        return accepted

    def hurried(self) -> list[tuple[Addresses, bytes, GroupId | None]]:
        """Takes what is to be sent so far."""
        sends, self._sends = self._sends, []
        return sends

    def settled(self) -> bool:
        """Asked when what was submitted at once is on its way, and before anything else happens. True: all that was left to be done is to
        tell what is in `told`, and the turn need not end for it."""
        member = self._hurrying
        delivery = None if member is None else member.delivered_at_once()
        if member is None or delivery is None:
            return False
        self._hurrying = None
        self._touched.clear()
        self._events.append((member.group, delivery))
        return True

    def submit_many(self, now: float, group: GroupId, payloads: Sequence[bytes]) -> int:
        """Accepts as many as there is credit for and says how many: they are those up to `last_sent`."""
        return self._member(group).submit_many(now, payloads)

    def last_sent(self, group: GroupId) -> MessageId:
        """The last message that was accepted for a group; its number is 0 before the first."""
        member = self._member(group)
        return MessageId(member.me, member.sent)

    def submit_to(self, now: float, group: GroupId, to: MemberId, data: bytes) -> int:
        """Accepts a message to one member; returns its number, which an Undelivered names."""
        return self._private(now, group).private.submit(now, to, data)

    def ask(self, now: float, group: GroupId, data: bytes, to: MemberId | None = None) -> int:
        """Asks one member, or all others; returns the question's number, which the replies carry."""
        return self._private(now, group).private.ask(now, data, to)

    def reply(self, now: float, group: GroupId, to: MemberId, question: int, data: bytes) -> int:
        return self._private(now, group).private.reply(now, to, question, data)

    def close_question(self, now: float, group: GroupId, question: int) -> None:
        """The asker waits no longer: replies that still come are dropped."""
        self._private(now, group).private.close_question(question)

    def provide_state(
        self, now: float, group: GroupId, snapshot: int, state: bytes | None, unread: Sequence[UnreadEvent] = (), reason: str = ""
    ) -> None:
        """Give the application's state, as it was at the event that asked for it, or before the `unread` events, the last ones before that;
        None: it gives none, for this `reason`."""
        self._private(now, group).catching_up.snapshot.provide(snapshot, state, unread, reason)

    def submit_guest(self, now: float, group: GroupId, payload: bytes) -> int:
        """Sends to an open group that this node is not in."""
        self._now = now
        if group in self.memberships:
            raise UsageError(f"this node is in {name_of(group)}: use submit")
        contacts = [address for info in self.directory.find(group) for _, address in info.members]
        return self.outsiders.submit(now, group, payload, contacts)

    def _member(self, group: GroupId) -> Membership:
        member = self.memberships.get(group)
        if member is None:
            raise UsageError(f"this node is not in {name_of(group)}: join it first")
        self._touched[group] = member
        return member

    def _private(self, now: float, group: GroupId) -> Membership:
        member = self._member(group)
        self._now = member.port.now = now
        return member

    # -- inputs ----------------------------------------------------------------------------------------------------------------

    def receive(self, now: float, source: Address, wire: bytes, realm: str = "") -> bool:
        """Takes bytes that came from an address, sealed for a realm (empty: that of the node itself). True: all that has come of them is in
        `told`, and the turn need not end for it."""
        self._now = now
        try:
            frame = codec.decode(wire)
            if type(frame) is c.Relay:
                relay, frame = frame, codec.decode(frame.wire)
                if type(frame) is c.Relay or (type(frame) is c.Pong and not frame.group):
                    self.drops["malformed"] += 1
                    return False
                if self._is_misplaced(source, frame, realm) or not self.routes.receive_relay(relay, _group_of(frame)):
                    return False
                source, wire = relay.origin, relay.wire
        except BadFrame as bad:
            self._refuse(source, wire, bad.reason)
            return False
        if (realm or self.realm_by_name) and self._is_misplaced(source, frame, realm):
            return False
        kind = type(frame)
        if kind in _FROM_NODES:
            self._receive_from_node(now, source, frame)
            return False
        group: GroupId = frame.group  # type: ignore[union-attr]
        member = self.memberships.get(group)
        if kind is c.FoundingCandidate and (member is None or member.view is not None):
            if member is not None:
                self.directory.introduce(now, source, member.info())  # there is nothing to found
        elif member is not None and (kind in _DATA or kind not in _ABOUT_NODES):
            delivery = member.receive(now, source, frame, wire)
            if delivery is None:
                self._touched[group] = member
            elif group in self._touched:
                member.port.events.append(delivery)
            else:
                self._events.append((group, delivery))
                return True
        elif kind in _PROBES:
            if self._probes.receive(source, frame, member) and member is not None:  # type: ignore[arg-type]
                self._touched[group] = member
                member.receive(now, source, frame, b"")
        elif type(frame) is c.Ended:
            if member is not None and member.leaving:
                self._note_end(group)
            self.directory.receive(now, source, frame)
        else:
            self._receive_elsewhere(source, frame)
        return False

    def _refuse(self, source: Address, wire: bytes, reason: str) -> None:
        """Counts what cannot be read. A node with credentials is told, by a frame that it refuses in turn, that this one has none."""
        if wire[:1] != _SEALED:
            self.drops[reason] += 1
            return
        self.drops["sealed"] += 1
        if is_worth_a_word(self.refusals.note(source, "sealed")) and len(wire) > _NOTICE_BYTES:
            self._answer_directly(source, c.Detour(Address("")))

    def connection_refused(self, now: float, address: Address) -> None:
        """Takes a transport's report: the connection to the node at an address was closed, and the address refuses another. Groups with a
        member there ask at once whether it lives."""
        self._now = now
        for group, member in self.memberships.items():
            if member.is_of_member(address):
                self._touched[group] = member
                member.connection_refused(now, address)

    def told(self) -> list[tuple[GroupId | None, Event]]:
        """Takes what there is to tell so far."""
        events, self._events = self._events, []
        return events

    def _is_misplaced(self, source: Address, frame: codec.Frame, realm: str) -> bool:
        """Whether a frame was sealed for another realm than that of its group; counts it, as a refusal if this node guards that group.
        Who has the key of one group, or of the node alone, must not be able to speak in another."""
        wanted = self.realm_by_name.get(name_of(_group_of(frame) or ""), "")
        if wanted == realm:
            return False
        if wanted:
            count = self.refusals.note(source, "wrong_realm")
            if type(frame) is c.Join and is_worth_a_word(count):
                # Notify a newcomer without the group's key by a frame that it refuses in turn, and so counts.
                self._answer_directly(source, c.Gone(frame.group, ()))
        self.drops["wrong_realm"] += 1
        return True

    def _receive_from_node(self, now: float, source: Address, frame: Any) -> None:
        if type(frame) is c.Detour:
            if any(source in member.port.address_by_member.values() for member in self.memberships.values()):
                self.routes.receive_detour(now, frame, source)
            elif not frame.through and any(
                member.view is None and name_of(group) in self.realm_by_name for group, member in self.memberships.items()
            ):
                # As `_refuse` tells it: this node asks to be let into a guarded group, and the other one has no key for it.
                self.refusals.note(source, "no_key")
            else:
                self.drops["stranger"] += 1
            return
        self.directory.receive(now, source, frame)
        if type(frame) is c.Groups:
            self._entrance.review()

    def _hear_directory(self, event: Event) -> None:
        if type(event) is Discovered:
            for group, member in self.memberships.items():
                if name_of(group) == name_of(event.info.id) and group != event.info.id and member.view is not None:
                    self._tell(group, NameTaken(event.info.id))
        if type(event) is not NameServerAnswer or not self._entrance.hear(event):
            self._tell(None, event)

    def _receive_elsewhere(self, source: Address, frame: Any) -> None:
        """A frame for a group that this node is not in."""
        if type(frame) is c.Join:
            self._answer(frame.address, c.Refuse(frame.group, self.id, 0, 0, "unknown"))
        elif type(frame) is c.Beacon:
            self._answer(source, c.Gone(frame.group, ()))
        elif type(frame) is c.Leave:
            if frame.group in self._ended:
                self._answer(source, c.Gone(frame.group, (frame.member,)))
        elif type(frame) is c.Propose:
            gone = [member for member, address in (*frame.seats, *frame.leaving) if address == self.address]
            if gone:
                self._answer(source, c.Refuse(frame.group, gone[0], frame.ballot, 0, "unknown"))
        elif type(frame) is c.Guest:
            self._answer(source, c.Taken(frame.group, frame.member, 0, "gone"))
        elif type(frame) is c.Taken and frame.group in self.outsiders:
            self.outsiders.receive(self._now, frame, source)
        else:
            self.drops["other_group"] += 1

    def tick(self, now: float) -> None:
        self._now = now
        self._timers.run(now)
        for member in self._agenda.due(now):
            self._touched[member.group] = member
            member.tick(now)

    def drain(self, now: float) -> NodeEffects:
        """Ends the turn and returns its effects."""
        self._now, self._hurrying = now, None
        for group, member in self._touched.items():
            member.end_turn(now)
            port = member.port
            if member.transcript is not None:
                member.record_turn(now)
            if port.sends:
                self._take_sends(port.sends, group)
            if port.events:
                for event in port.events:
                    self._events.append((group, event))
                port.events.clear()
            when, endpoint = port.timers.quiet_until, member.endpoint
            if endpoint is not None and endpoint.context.timers.quiet_until < when:
                when = endpoint.context.timers.quiet_until
            if when < member.noted:
                self._agenda.note(member, when)
            if member.departed:
                del self.memberships[group]
                if member.departure.ended or group in self._ended:
                    self.directory.end(now, group, member.agreement.view_id)
                    self._note_end(group)
                elif (info := member.departure.farewell()).members:
                    self.directory.leave(now, info)
                elif member.view is None and not member.leaving:
                    self.directory.doubt(group)
        self._touched.clear()
        if self._samples is not None:
            self._samples.take(now)
        if self.outsiders.touched:
            self.outsiders.end_turn(now)
        deadline, other = self._timers.quiet_until, self._agenda.quiet_until
        if other < deadline:
            deadline = other
        self.deadline = None if deadline == NEVER else deadline
        effects = NodeEffects(self._sends, self._events)
        self._sends, self._events = [], []
        return effects

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _touch(self, member: Membership) -> None:
        self._touched[member.group] = member

    def _tell(self, group: GroupId | None, event: Event) -> None:
        self._events.append((group, event))

    def _note_end(self, group: GroupId) -> None:
        self._ended[group] = None
        if len(self._ended) > GROUPS_LIMIT:
            del self._ended[next(iter(self._ended))]

    def _take_sends(self, sends: list[tuple[Addresses, bytes]], group: GroupId) -> None:
        if self.routes.through:
            for to, wire in sends:
                self._send(to, wire, group)
        else:
            for to, wire in sends:
                self._sends.append((to, wire, group))
        sends.clear()

    def _send(self, to: Addresses, wire: bytes, group: GroupId | None) -> None:
        through = self.routes.through
        if to is None or not through or not any(address in through for address in to):
            self._sends.append((to, wire, group))
            return
        direct = tuple(address for address in to if address not in through)
        if direct:
            self._sends.append((direct, wire, group))
        for address in to:
            if address in through:
                self.routes.send(address, wire, group)

    def _put(self, to: Address, wire: bytes, group: GroupId | None) -> None:
        self._sends.append(((to,), wire, group))

    def _send_frame(self, to: Addresses, frame: codec.Frame) -> None:
        self._send(to, codec.encode(frame), _group_of(frame))

    def _answer(self, to: Address, frame: codec.Frame) -> None:
        if to != self.address:
            self._send((to,), codec.encode(frame), _group_of(frame))

    def _answer_directly(self, to: Address, frame: codec.Frame) -> None:
        self._put(to, codec.encode(frame), _group_of(frame))

    def stats(self) -> dict[str, object]:
        """Counters and gauges, plain values. `refused` has what was refused for want of the right credentials, by cause, `refused_by_peer`
        the same by address. `drops` has what was dropped before it reached a group, by reason; `groups` has, by id, what
        each membership tells of itself (`Membership.stats`)."""
        return {
            **self.refusals.stats(),
            "drops": dict(sorted((self.drops + self.directory.drops + self.outsiders.drops).items())),
            "relayed": self.routes.relayed,
            "routes": dict(self.routes.through),
            "known_groups": len(self.directory),
            "searches": len(self._entrance),
            "outsiders": len(self.outsiders),
            "groups": {group: member.stats() for group, member in self.memberships.items()},
        }


def _group_of(frame: codec.Frame) -> GroupId | None:
    """The group that a frame is about; None for what is between nodes."""
    group: GroupId | None = getattr(frame, "group", None)
    return group or None
