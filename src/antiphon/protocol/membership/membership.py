"""One member of one group, through all its views.

It owns the endpoint that sends and delivers within the current view, and everything that leads from one view to the next: agreement,
coordination, failure detection, the search for other sides, history and synchronisation; and what goes to or comes from one peer alone.

`receive` and `tick` take inputs, `end_turn` finishes a turn; frames to send and events are then in `port`. All events of a member,
deliveries and view changes alike, are in one list in the order that is promised.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from zlib import crc32

from antiphon.errors import NoQuorum, WouldBlock
from antiphon.model import codec
from antiphon.model import control as c
from antiphon.model.events import Delivery, Installed, Stabilised, Writable
from antiphon.model.frames import Batch, Digest, Fragment, Nack, Record
from antiphon.model.ids import Address, MemberId, MessageId
from antiphon.model.recording import Transcript
from antiphon.model.view import TAG_BITS, View
from antiphon.protocol.endpoint import Endpoint
from antiphon.protocol.membership.agreement import Agreement
from antiphon.protocol.membership.catching_up import CatchingUp
from antiphon.protocol.membership.consistency import ConsistencyCheck
from antiphon.protocol.membership.coordinator import Coordinator
from antiphon.protocol.membership.deliveries import Deliveries
from antiphon.protocol.membership.departure import Departure
from antiphon.protocol.membership.detector import Detector
from antiphon.protocol.membership.dispatch import Dispatch
from antiphon.protocol.membership.founding import Founding
from antiphon.protocol.membership.guests import Guests
from antiphon.protocol.membership.joining import Joining
from antiphon.protocol.membership.port import Port
from antiphon.protocol.membership.private import Private
from antiphon.protocol.membership.quorum import Chain
from antiphon.protocol.membership.seeker import ABSENT_LIMIT, Seeker
from antiphon.protocol.membership.slowness import Slowness
from antiphon.protocol.outbox import Destination
from antiphon.protocol.registry import promises_of
from antiphon.protocol.routes import Routes
from antiphon.protocol.stage import Context, OnAccept
from antiphon.protocol.sync.history import History
from antiphon.protocol.timers import NEVER, earlier

_DATA = frozenset((Batch, Fragment, Record, Digest, Nack))
_ORIGIN_BITS = 12
_CHAIN_LIMIT = 64
"""Views that may follow each other without becoming stable before the oldest between are no longer counted."""


class Membership:
    def __init__(
        self,
        port: Port,
        address: Address,
        routes: Routes,
        *,
        description: str = "",
        wants: c.Wants,
        find_contacts: Callable[[bool], list[Address]],
        public: bool = False,
        on_accept: OnAccept | None = None,
        transcript: Transcript | None = None,
    ) -> None:
        self.port, self.address, self.description = port, address, description
        self.me, self.group = port.me, port.group
        self.find_contacts, self.public = find_contacts, public
        self._on_accept, self.transcript = on_accept, transcript
        self.endpoint: Endpoint | None = None
        self.stable = False
        self.departed = self.leaving = False
        """Changed by `departure` alone; here because every frame asks."""
        self.contacts: tuple[Address, ...] = ()
        """Nodes that may know of another side of a group that was founded here."""
        self.reading = True
        """Whether the application takes what is delivered."""
        self.short: tuple[int, int] | None = None
        """How many of how many members are here, while that is no majority."""
        self.chain: Chain = ()
        self.origin = 0
        """Which founding of the group this member's view grew from; 0 before the first view."""
        self.absent: dict[MemberId, Address] = {}
        """Former members that did not leave: they may be on another side."""
        self.left: dict[MemberId, None] = {}
        """Former members that left, the latest."""
        self._refused = False
        """Whether a message was refused for want of a view or a majority since the last Writable."""
        self._local: deque[codec.Frame] = deque()
        """Frames to this member itself: a coordinator takes part in its own changes."""
        self.noted = NEVER
        """When the node's agenda has it that this member wants its tick."""
        self.member_by_address: dict[Address, MemberId] = {}
        self._others: tuple[Address, ...] = ()
        one_line = port.options.partitions == "majority" and port.options.delivery == "safe"
        self.past = History(port.options.order, port.settings, one_line=one_line, frame_of=self._frame_of)
        self.guests = Guests(port, self._submit_guest)
        self.catching_up = CatchingUp(self, wants)
        self.private = Private(
            port,
            last_sent=lambda: self.sent,
            delivered_up_to=self.past.delivered_up_to,
            synchronised=lambda: self.synchronised,
        )
        self.deliveries = Deliveries(port, self.past, self.guests)
        self.agreement = Agreement(self)
        self.coordinator = Coordinator(self)
        self.detector = Detector(port, routes, self.coordinator.lost, self.coordinator.found, self.coordinator.first)
        self.seeker = Seeker(self)
        self.joining = Joining(self)
        self.founding = Founding(self)
        self.departure = Departure(self)
        self.slowness = Slowness(self)
        self.consistency = ConsistencyCheck(self)
        self.dispatch = Dispatch(self)

    # -- coming and going ------------------------------------------------------------------------------------------------------

    def found(self, now: float) -> None:
        """Begins the group, alone."""
        port = self.port
        port.now = now
        view = 1 << TAG_BITS | port.rng.getrandbits(TAG_BITS)
        seats = ((self.me, self.address),)
        frame = c.Install(
            port.group, self.me, view, seats, [0], (), port.options, (self.me,), (), (), self.description, self.new_origin()
        )
        self.agreement.found(frame, codec.encode(frame))

    def new_origin(self) -> int:
        """Return the origin of a group that is founded now: later foundings have larger ones, as far as clocks agree."""
        return max(0, int(self.port.now * 1_000)) << _ORIGIN_BITS | crc32(self.me.encode()) % (1 << _ORIGIN_BITS)

    def join(self, now: float, contacts: Sequence[Address]) -> None:
        """Asks to be in the next view."""
        self.port.now = now
        self.joining.begin(contacts)

    def found_with_others(self, now: float, contacts: Sequence[Address], on_founded: Callable[[], None]) -> None:
        """Found the group together with the other founders, or join it if it is there."""
        self.port.now = now
        self.founding.begin(contacts, on_founded)

    def leave(self, now: float) -> None:
        """Asks to be out of the next view; Departed says when that is so."""
        self.port.now = now
        self.departure.leave()

    # -- the reader ------------------------------------------------------------------------------------------------------------

    def stop_reading(self, now: float) -> None:
        """The application does not take what is delivered: see `Endpoint.stop_reading`. A side of this member alone stays alone."""
        self.port.now = now
        self.reading = False
        if self.endpoint is not None:
            self.endpoint.stop_reading(now)

    def start_reading(self, now: float) -> None:
        self.port.now = now
        if not self.reading:
            self.reading = True
            if self.endpoint is not None:
                self.endpoint.start_reading(now)
            if self.view is not None:
                self.seeker.on_view()

    # -- sending ---------------------------------------------------------------------------------------------------------------

    def submit(
        self,
        now: float,
        payload: bytes,
        reply_to: MessageId | None = None,
        after: Sequence[MessageId] = (),
        guest: tuple[MemberId, int] | None = None,
        at_once: bool = False,
    ) -> MessageId:
        """Accepts one message, or raises what `Endpoint.submit` raises, or NoQuorum. `at_once`: it is in `port` now, if this
        member has caught up."""
        self.port.now = now
        endpoint = self.endpoint
        if endpoint is None or self.short is not None or self.departed:
            raise self._refusal()
        accepted = endpoint.submit(now, payload, reply_to, after, guest, at_once)
        if at_once:
            self._take_sends(endpoint.context.outbox.sends)
        return accepted

    def delivered_at_once(self) -> Delivery | None:
        """After something was submitted at once: its delivery here, if that is all that is left to be done about it."""
        endpoint = self.endpoint
        if endpoint is None or not endpoint.multicast.is_calm():
            return None
        return self._lone_delivery(endpoint.context)

    def submit_many(self, now: float, payloads: Sequence[bytes]) -> int:
        self.port.now = now
        if self.endpoint is None or self.short is not None or self.departed:
            raise self._refusal()
        return self.endpoint.submit_many(now, payloads)

    def _refusal(self) -> NoQuorum | WouldBlock:
        """Why nothing is accepted; a Writable will say when it is."""
        self._refused = True
        if self.short is not None:
            return NoQuorum(*self.short)
        return WouldBlock("this member is not in the group" if self.departed else "this member is not in a view yet")

    def _submit_guest(self, payload: bytes, guest: tuple[MemberId, int]) -> MessageId:
        return self.submit(self.port.now, payload, guest=guest)

    # -- inputs ----------------------------------------------------------------------------------------------------------------

    def receive(self, now: float, source: Address, frame: Any, wire: bytes) -> Delivery | None:
        """Takes a frame of this group. What it returns is to be told to the application at once: it is all that has come of the frame, and
        the turn need not be finished for it."""
        port = self.port
        port.now = now
        kind = type(frame)
        if self.departed:
            return None
        if kind in _DATA:
            endpoint, member = self.endpoint, self.member_by_address.get(source)
            if member is None or endpoint is None:
                port.drops["stranger" if member is None else "outside_view"] += 1
                return None
            context = endpoint.context
            context.now = now
            if frame.view != context.view.id:
                context.drops["other_view"] += 1
                return None
            calm = endpoint.handlers[kind](frame, wire, member)
            self.detector.heard[member] = now
            if calm:
                return self._lone_delivery(context)
        elif kind is c.Install:
            self.agreement.receive_install(frame, wire, source)
        else:
            self.dispatch.receive(frame, source)
        if self._local:
            self._take_own()
        return None

    def connection_refused(self, now: float, address: Address) -> None:
        """Doubts the member at an address whose connection was closed and that refuses another."""
        self.port.now = now
        member = self.member_by_address.get(address)
        if member is not None and not self.departed:
            self.detector.suspect_early(member)

    def _lone_delivery(self, context: Context) -> Delivery | None:
        """What the endpoint, which is calm, has delivered, if nothing else is to be done here at the end of the turn."""
        # Nothing has to be recorded, no timer was set, nothing here waits for what is delivered.
        if self.noted <= context.timers.quiet_until and self.transcript is None and not self.private.busy and not self._local:
            events = context.outbox.events
            event = events[0] if len(events) == 1 else None
            if type(event) is tuple and event[0].guests is None and self.past.follow(event):
                events.clear()
                return event
        return None

    def _take_own(self) -> None:
        """Takes the frames to itself at once, so that what a coordinator tells others is done here before anything else comes in."""
        taken = self._local
        self._local = deque()
        while taken:
            frame = taken.popleft()
            self.receive(self.port.now, self.address, frame, codec.encode(frame) if type(frame) is c.Install else b"")

    def tick(self, now: float) -> None:
        self.port.now = now
        self.port.timers.run(now)
        if self.endpoint is not None and self.endpoint.deadline is not None and self.endpoint.deadline <= now:
            self.endpoint.tick(now)

    def _take_sends(self, sends: list[tuple[Destination, bytes]]) -> None:
        for destination, wire in sends:
            addresses = self._others if destination is None else self._addresses_of(destination)
            if addresses:
                self.port.sends.append((addresses, wire))
        sends.clear()

    def end_turn(self, now: float) -> None:
        """Finishes the turn: afterwards everything to send and to tell is in `port`."""
        self.port.now = now
        while True:
            if self._local:
                self._take_own()
            if self.endpoint is not None:
                self.endpoint.end_turn(now)
                outbox = self.endpoint.context.outbox
                if outbox.sends:
                    self._take_sends(outbox.sends)
                if outbox.events:
                    if not self.departed:
                        self.deliveries.take(outbox.events)
                    outbox.events.clear()
            if self.agreement.aimed:
                self.agreement.review()
            if not self._local:
                break
        if self.private.busy:
            self.private.review()
        self.past.review()

    def record_turn(self, now: float) -> None:
        """Tells the transcript, where there is one, what the application is about to be told."""
        transcript, endpoint, events = self.transcript, self.endpoint, self.port.events
        if transcript is not None:
            latest, waits = (0.0, None) if endpoint is None else (endpoint.context.latest, endpoint.waits)
            transcript.end_turn(now, latest, events, waits)

    @property
    def deadline(self) -> float | None:
        return earlier(self.port.timers.deadline, None if self.endpoint is None else self.endpoint.deadline)

    # -- frames to others, and to itself ---------------------------------------------------------------------------------------

    def post(self, members: Iterable[MemberId], frame: codec.Frame) -> None:
        """Sends a frame to members, this one perhaps among them."""
        members = tuple(members)
        if self.me in members:
            self._local.append(frame)
        self.port.send(members, frame)

    def post_to(self, address: Address, frame: codec.Frame) -> None:
        if address == self.address:
            self._local.append(frame)
        else:
            self.port.send_to((address,), codec.encode(frame))

    def is_of_member(self, address: Address) -> bool:
        """Whether a member of the view is at this address."""
        return address in self.member_by_address

    def tell_gone(self, member: MemberId, address: Address) -> None:
        self.post_to(address, c.Gone(self.group, (member,)))

    def _frame_of(self, batch: Batch) -> bytes | None:
        return None if self.endpoint is None else self.endpoint.multicast.frame_of(batch)

    def _addresses_of(self, members: tuple[MemberId, ...]) -> tuple[Address, ...]:
        addresses = self.port.address_by_member
        return tuple(addresses[member] for member in members if member in addresses)

    # -- from one view to the next ---------------------------------------------------------------------------------------------

    def freeze(self) -> None:
        """A change has begun: nothing is sent or delivered until the next view, but what its target says."""
        self.catching_up.stop()
        if self.endpoint is not None:
            self.endpoint.freeze(self.port.now)

    def install(self, frame: c.Install) -> None:
        """Goes on in the view that was agreed on, or out of the group."""
        port = self.port
        seats = dict(frame.seats)
        self.absent = dict(frame.absent)
        self.origin = frame.origin
        self.left.update(dict.fromkeys(frame.left))
        while len(self.left) > ABSENT_LIMIT:
            del self.left[next(iter(self.left))]
        if self.me not in seats:
            self.departure.put_out(frame)
            return
        members = tuple(seats)
        if members == (self.me,):
            self.departure.left_alone()
        view = View(frame.view, members, frame.makers)
        starts = dict(zip(members, frame.starts, strict=True))
        side = next((side for side in frame.sides if self.me in side.members), c.Side(0, (self.me,)))
        sides = tuple(other.members for other in frame.sides if other.view)
        port.view = view
        port.address_by_member = seats
        self.member_by_address = {address: member for member, address in seats.items()}
        self._others = tuple(dict.fromkeys(address for member, address in seats.items() if member != self.me))
        parents = tuple(sorted({other.view for other in frame.sides if other.view}))
        self.deliveries.epoch = c.Epoch(view.id, len(members), parents)
        if self.transcript is not None:
            self.transcript.begins(starts if frame.sides else {})
        stopped = {member for other in frame.sides if not other.ends for member in other.members}
        if self.endpoint is None:
            self.endpoint = Endpoint(
                self.me,
                self.group,
                view,
                port.options,
                rng=port.rng,
                settings=port.settings,
                now=port.now,
                cut=starts if frame.sides else None,
                on_accept=self._on_accept,
                transcript=self.transcript,
            )
            if not self.reading:
                self.endpoint.stop_reading(port.now)
            self.deliveries.hear(Installed(view, None, sides))
            self.joining.end()
            self.founding.end()
        else:
            self.endpoint.install(port.now, view, starts, sides, minority=not side.ends)
            self.deliveries.hear_all(self.endpoint)
            # A member that was stopped sends again what it has not delivered itself; some of that was delivered here.
            for member in [member for member in starts if member in stopped]:
                for low, high in self.past.beyond(member, starts[member]):
                    self.endpoint.know(member, low, high)
        # Now that everything is delivered that belongs to the old view.
        self.past.bound({member: start for member, start in starts.items() if member not in stopped})
        self.stable, self.short = False, None
        self.chain = (*self.chain[:1], *self.chain[1:][-_CHAIN_LIMIT:], (view.id, members))
        self.detector.on_view()
        self.private.on_view(view, starts)
        self.seeker.on_view()
        self.slowness.on_view()
        self.consistency.on_view()
        self.catching_up.on_view(view, frame.sides, side)
        self.coordinator.on_view()
        if self._refused:
            self._refused = False
            port.tell(Writable())

    def on_stable(self) -> None:
        """Every member has installed the view."""
        view = self.port.view
        if view is not None and not self.stable:
            self.stable = True
            self.chain = ((view.id, view.members),)
            self.port.tell(Stabilised(view))
            self.coordinator.consider()

    def still_absent(self, absent: dict[MemberId, Address], seats: Sequence[c.Seat], leaving: Sequence[c.Seat]) -> tuple[c.Seat, ...]:
        """Those who may be on another side: not those who are here, left, or have come back under another id."""
        known, places = dict((*seats, *leaving)), {address for _, address in seats}
        missing = {who: at for who, at in absent.items() if who not in known and who not in self.left and at not in places}
        return tuple(missing.items())[-ABSENT_LIMIT:]

    # -- questions -------------------------------------------------------------------------------------------------------------

    @property
    def view(self) -> View | None:
        return self.port.view

    @property
    def quorum(self) -> bool:
        return self.short is None

    @property
    def synchronised(self) -> bool:
        return self.catching_up.synchronised

    @property
    def synchronising(self) -> bool:
        return not self.synchronised

    @property
    def settled(self) -> bool:
        """Whether the view is stable and nothing is to be changed in it or caught up with."""
        return self.stable and self.synchronised and not self.agreement.changing and not self.coordinator.pending

    @property
    def sent(self) -> int:
        """The number of this member's last message."""
        return 0 if self.endpoint is None else self.endpoint.sent

    @property
    def unsent(self) -> int:
        """How many messages were accepted and wait until this member has caught up."""
        return 0 if self.endpoint is None else self.endpoint.unsent

    @property
    def delivered(self) -> int:
        return 0 if self.endpoint is None else self.endpoint.own_delivered()

    def history(self) -> list[Delivery]:
        """Everything that is kept, in the canonical order: the same at all members that have the same messages."""
        return self.past.messages()

    def info(self) -> c.GroupInfo:
        """What outsiders are told."""
        view = self.port.view
        seats = () if view is None else tuple((member, self.port.address_by_member[member]) for member in view.members)
        left, options = tuple(self.left)[-ABSENT_LIMIT:], self.port.options
        return c.GroupInfo(self.group, self.description, options, self.agreement.view_id, seats, left, promises_of(options))

    def stats(self) -> dict[str, object]:
        """Counters and gauges, plain values in one flat dictionary: those of the endpoint, the history and synchronisation, and of the
        membership itself. `drops` has everything that was dropped, by reason."""
        inside = {} if self.endpoint is None else self.endpoint.stats()
        drops = self.port.drops if self.endpoint is None else self.port.drops + self.endpoint.context.drops
        return {
            **inside,
            **self.past.stats(),
            **self.catching_up.sync.stats(),
            "drops": dict(sorted(drops.items())),
            "members": 0 if self.port.view is None else len(self.port.view.members),
            "stable": self.stable,
            "synchronised": self.synchronised,
            "reading": self.reading,
            "unsent": self.unsent,
            "private_under_way": self.private.under_way,
            "suspects": list(self.coordinator.suspects),
            "absent": list(self.absent),
        }
