"""One node, without I/O: its groups, the groups it has heard of, and the ways to other nodes.

A driver calls, always with its clock's `now`, what the application wants (`create`, `join`, `submit`, …), `receive` for bytes from an
address, and `tick` when `deadline` has passed; then `drain`, which ends the turn and returns what must happen outside: frames with
where they go (None: to every node, by broadcast or to the seeds), then events with the group they belong to.

Nothing received can raise: what is no frame, or makes no sense, is counted in `drops` and forgotten.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from antiphon.errors import BadFrame, InvalidOption, JoinFailed, UsageError
from antiphon.model import codec
from antiphon.model import control as c
from antiphon.model.events import Event
from antiphon.model.frames import Batch
from antiphon.model.ids import Address, GroupId, MemberId, MessageId, name_of, new_group_id, new_member_id
from antiphon.model.options import GroupOptions, Settings
from antiphon.protocol.discovery.directory import Directory
from antiphon.protocol.membership.membership import Membership
from antiphon.protocol.membership.port import Port
from antiphon.protocol.outsider import Outsider
from antiphon.protocol.registry import stages
from antiphon.protocol.routes import Routes
from antiphon.protocol.stage import OnAccept
from antiphon.protocol.timers import Timers

OnAcceptIn: TypeAlias = Callable[[GroupId, Batch, int, int], None]
GROUPS_LIMIT = 1_024
_ENQUIRIES_LIMIT = 1_024
_ABOUT_NODES = frozenset((c.Ended, c.Ping, c.Enquire, c.Pong, c.Vouch))
"""Frames about a group that are not only its members' affair."""
_DISCOVERY_ROUNDS = 4
"""How many times `answer_s` a node waits for groups of a name before it founds one, or says that there is none."""


class NodeEffects(NamedTuple):
    sends: list[tuple[tuple[Address, ...] | None, bytes]]
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
    ) -> None:
        self.name, self.address, self.settings = name, address, settings or Settings()
        self.rng, self._now, self._on_accept = rng, now, on_accept
        self.id = new_member_id(name, rng)
        self.memberships: dict[GroupId, Membership] = {}
        self.outsiders: dict[GroupId, Outsider] = {}
        self.drops: Counter[str] = Counter()
        self._touched: dict[GroupId, Membership] = {}
        """Those that had an input in this turn."""
        self._agenda: list[tuple[float, GroupId]] = []
        self._noted: dict[GroupId, float] = {}
        """When memberships want their tick: a heap, and the entry of each that counts."""
        self._timers = Timers()
        self._sends: list[tuple[tuple[Address, ...] | None, bytes]] = []
        self._events: list[tuple[GroupId | None, Event]] = []
        self.routes = Routes(address, self.settings, self._timers, self._put)
        self.directory = Directory(
            self.id,
            address,
            rng=rng,
            settings=self.settings,
            now=now,
            send=self._send_frame,
            tell=lambda event: self._events.append((None, event)),
            mine=lambda: [member.info() for member in self.memberships.values() if member.view is not None],
            timers=self._timers,
            name_server=name_server,
        )
        self._ended: dict[GroupId, None] = {}
        """Groups that ended here: others that were leaving them may not have heard."""
        self._enquiries: dict[tuple[Address, MemberId], int] = {}
        """Who asked about whom, and under which number."""

    # -- groups ----------------------------------------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """The node has come into the network."""
        self.advertise(now)

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
        """Founds a group, alone. Others learn of it."""
        group = new_group_id(name, self.rng)
        member = self._enter(now, group, options or GroupOptions(), description or name)
        member.found(now)
        self.directory.announce(now, group)
        return group

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
        """Asks to be let into a group this node has heard of, by its id or its name. With `create`, founds the group of that name if
        nobody answers for it: all who do so meet, because its id is made of the name alone. Departed says that it failed."""
        infos = self.directory.find(group)
        wanted = infos[0].id if infos else GroupId(group)
        if create is not None and (not infos or any(info.id == _public_id(name_of(group)) for info in infos)):
            wanted = _public_id(name_of(group))
        elif len({info.id for info in infos}) > 1:
            raise JoinFailed(group, f"there are several groups of this name: join one by its id, {', '.join(info.id for info in infos)}")
        info = next((info for info in infos if info.id == wanted), None)
        if info is not None:
            contacts = (*contacts, *(address for _, address in info.members))
            options = info.options
        options = options or create
        if options is None:
            raise JoinFailed(group, "no group of this name is known: advertise, or ask a node that knows it, then join")
        description = info.description if info is not None else name_of(group)
        member = self._enter(now, wanted, options, description, wants, public=create is not None)
        if contacts:
            member.join(now, contacts)
        else:
            self._look_then_found(now, member)
        return wanted

    def leave(self, now: float, group: GroupId) -> None:
        self._now = now
        self._member(group).leave(now)

    def _enter(
        self, now: float, group: GroupId, options: GroupOptions, description: str, wants: c.Wants | None = None, public: bool = False
    ) -> Membership:
        self._now = now
        stages(options)  # refuses what cannot work
        if group in self.memberships:
            raise UsageError(f"this node is in {name_of(group)} already: leave it first")
        if len(self.memberships) >= GROUPS_LIMIT:
            raise InvalidOption("group", group, f"a node is in at most {GROUPS_LIMIT:,} groups")
        me = new_member_id(self.name, self.rng)
        rng = random.Random(self.rng.getrandbits(64))
        port = Port(me, group, options, self.settings, rng, now)
        member = Membership(
            port,
            self.address,
            self.routes,
            description=description,
            wants=wants or c.Wants(),
            find_contacts=lambda: self._find_contacts(group),
            public=public,
            on_accept=self._accepting(group),
        )
        self.memberships[group] = self._touched[group] = member
        return member

    def _accepting(self, group: GroupId) -> OnAccept | None:
        watch = self._on_accept
        return None if watch is None else lambda batch, low, high: watch(group, batch, low, high)

    def _find_contacts(self, group: GroupId) -> list[Address]:
        """Who is known to be in the group now; the answers to this advertisement are known the next time."""
        self.directory.advertise(self._now)
        return [address for info in self.directory.find(group) for _, address in info.members]

    def _look_then_found(self, now: float, member: Membership) -> None:
        """Asks who is in the group, and begins it alone when nobody is heard and it may be begun."""
        self.directory.advertise(now)

        def decide() -> None:
            if member.departed or member.view is not None:
                return
            self._touched[member.group] = member
            infos = [info for info in self.directory.find(member.group) if info.members]
            if infos:
                member.join(self._now, [address for info in infos for _, address in info.members])
            elif member.public:
                member.found(self._now)
                self.directory.announce(self._now, member.group)
            else:
                member.depart("nobody of the group was heard")

        self._timers.at(now + _DISCOVERY_ROUNDS * self.settings.answer_s * self.rng.uniform(0.75, 1.25), decide)

    # -- sending ---------------------------------------------------------------------------------------------------------------

    def submit(
        self, now: float, group: GroupId, payload: bytes, reply_to: MessageId | None = None, after: Sequence[MessageId] = ()
    ) -> MessageId:
        return self._member(group).submit(now, payload, reply_to, after)

    def submit_many(self, now: float, group: GroupId, payloads: Sequence[bytes]) -> int:
        return self._member(group).submit_many(now, payloads)

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

    def provide_state(self, now: float, group: GroupId, snapshot: int, state: bytes) -> None:
        """Gives the application's state, as it was at the event that asked for it."""
        self._private(now, group).snapshot.provide(snapshot, state)

    def submit_guest(self, now: float, group: GroupId, payload: bytes) -> int:
        """Sends to an open group that this node is not in."""
        self._now = now
        if group in self.memberships:
            raise UsageError(f"this node is in {name_of(group)}: use submit")
        outsider = self.outsiders.get(group)
        contacts = [address for info in self.directory.find(group) for _, address in info.members]
        if outsider is None or outsider.why_failed:
            if not contacts:
                raise JoinFailed(group, "the group is not known: advertise, or ask a node that knows it")
            if len(self.outsiders) >= GROUPS_LIMIT:
                raise InvalidOption("group", group, f"a node sends to at most {GROUPS_LIMIT:,} groups from outside")
            me = new_member_id(self.name, self.rng)
            outsider = self.outsiders[group] = Outsider(
                me,
                group,
                contacts,
                rng=self.rng,
                settings=self.settings,
                now=now,
                send=self._send_frame,
                tell=lambda event: self._events.append((group, event)),
                timers=self._timers,
            )
        else:
            outsider.use(now, contacts)
        return outsider.submit(now, payload)

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

    def receive(self, now: float, source: Address, wire: bytes) -> None:
        """Takes bytes that came from an address."""
        self._now = now
        try:
            frame = codec.decode(wire)
            if type(frame) is c.Relay:
                if not self.routes.receive_relay(frame):
                    return
                source, wire = frame.origin, frame.wire
                frame = codec.decode(wire)
                if type(frame) is c.Relay or (type(frame) is c.Pong and not frame.group):
                    self.drops["malformed"] += 1
                    return
        except BadFrame as bad:
            self.drops[bad.reason] += 1
            return
        if type(frame) is c.Advertise or type(frame) is c.Groups or type(frame) is c.AskGroups or type(frame) is c.Detour:
            self._receive_from_node(now, source, frame)
            return
        group: GroupId = frame.group  # type: ignore[union-attr]
        member = self.memberships.get(group)
        if member is not None and type(frame) not in _ABOUT_NODES:
            self._touched[group] = member
            member.receive(now, source, frame, wire)
        elif type(frame) is c.Ended:
            if member is not None and member.leaving:
                self._note_end(group)
            self.directory.receive(now, source, frame)
        elif isinstance(frame, (c.Ping, c.Enquire, c.Pong, c.Vouch)):
            self._receive_probe(now, source, frame, member)
        else:
            self._receive_elsewhere(source, frame)

    def _receive_from_node(self, now: float, source: Address, frame: c.Advertise | c.Groups | c.AskGroups | c.Detour) -> None:
        if isinstance(frame, c.Detour):
            self.routes.receive_detour(now, frame, source)
        else:
            self.directory.receive(now, source, frame)

    def _receive_probe(self, now: float, source: Address, frame: Any, member: Membership | None) -> None:
        if type(frame) is c.Ping:
            here = member is not None and member.me == frame.member and member.agreement.view_id == frame.view
            pong = c.Pong(frame.probe, frame.group, frame.member, here, frame.asker)
            if frame.group:
                self._answer(source, pong)
            else:
                self._put(source, codec.encode(pong))  # about the link itself
        elif type(frame) is c.Enquire:
            if member is not None:
                if len(self._enquiries) >= _ENQUIRIES_LIMIT:
                    self._enquiries.clear()  # questions that were never answered; who still wants to know asks again
                self._enquiries[source, frame.member] = frame.probe
                self._answer(frame.whom, c.Ping(frame.probe, frame.group, frame.member, frame.view, source))
        elif type(frame) is c.Pong:
            if frame.asker and frame.asker != self.address:
                probe = self._enquiries.pop((frame.asker, frame.member), None)
                if probe is not None:
                    self._answer(frame.asker, c.Vouch(probe, frame.group, frame.member, source, frame.here))
            elif not self.routes.receive_pong(frame, source) and member is not None:
                self._touched[member.group] = member
                member.receive(now, source, frame, b"")
        elif member is not None:
            self._touched[member.group] = member
            member.receive(now, source, frame, b"")

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
            self.outsiders[frame.group].receive_taken(self._now, frame, source)
        else:
            self.drops["other_group"] += 1

    def tick(self, now: float) -> None:
        self._now = now
        self._timers.run(now)
        due = []
        while (when := self._next_due()) is not None and when <= now:
            _, group = heapq.heappop(self._agenda)
            del self._noted[group]
            due.append(self.memberships[group])
        for member in due:
            self._touched[member.group] = member
            member.tick(now)

    def drain(self, now: float) -> NodeEffects:
        """Ends the turn and returns its effects."""
        self._now = now
        for group, member in self._touched.items():
            member.end_turn(now)
            port = member.port
            for to, wire in port.sends:
                self._send(to, wire)
            port.sends.clear()
            events = self._events
            for event in port.events:
                events.append((group, event))
            port.events.clear()
            self._note(member)
            if member.departed:
                del self.memberships[group]
                if member.ended or group in self._ended:
                    self.directory.end(now, group, member.agreement.view_id)
                    self._note_end(group)
        self._touched.clear()
        for outsider in self.outsiders.values():
            outsider.end_turn(now)
        effects = NodeEffects(self._sends[:], self._events[:])
        self._sends.clear()
        self._events.clear()
        return effects

    @property
    def deadline(self) -> float | None:
        """When `tick` wants to be called next."""
        deadlines = (self._timers.deadline, self._next_due())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _note(self, member: Membership) -> None:
        """Every membership is in the agenda at its deadline or before, so that a turn costs nothing for those that are idle."""
        deadline, noted = member.deadline, self._noted.get(member.group)
        if deadline is not None and (noted is None or deadline < noted):
            self._noted[member.group] = deadline
            heapq.heappush(self._agenda, (deadline, member.group))

    def _next_due(self) -> float | None:
        """When the first membership wants its tick; entries that are out of date are mended as they come up."""
        agenda = self._agenda
        while agenda:
            when, group = agenda[0]
            member = self.memberships.get(group)
            if self._noted.get(group) == when:
                if member is not None and member.deadline is not None and member.deadline <= when:
                    return when
                del self._noted[group]
            heapq.heappop(agenda)
            if member is not None:
                self._note(member)
        return None

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _note_end(self, group: GroupId) -> None:
        self._ended[group] = None
        if len(self._ended) > GROUPS_LIMIT:
            del self._ended[next(iter(self._ended))]

    def _send(self, to: tuple[Address, ...] | None, wire: bytes) -> None:
        through = self.routes.through
        if to is None or not through or not any(address in through for address in to):
            self._sends.append((to, wire))
            return
        direct = tuple(address for address in to if address not in through)
        if direct:
            self._sends.append((direct, wire))
        for address in to:
            if address in through:
                self.routes.send(address, wire)

    def _put(self, to: Address, wire: bytes) -> None:
        self._sends.append(((to,), wire))

    def _send_frame(self, to: tuple[Address, ...] | None, frame: codec.Frame) -> None:
        self._send(to, codec.encode(frame))

    def _answer(self, to: Address, frame: codec.Frame) -> None:
        if to == self.address:
            return
        self._send((to,), codec.encode(frame))

    def stats(self) -> dict[str, object]:
        return {
            "drops": dict(sorted(self.drops.items())),
            "relayed": self.routes.relayed,
            "routes": dict(self.routes.through),
            "groups": {group: member.stats() for group, member in self.memberships.items()},
        }


def _public_id(name: str) -> GroupId:
    """The id of the group that everybody founds who joins it by this name and does not find it."""
    return GroupId(f"{name}#{0:016x}")
