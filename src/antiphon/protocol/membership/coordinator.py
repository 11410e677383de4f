"""What must change, and whether it is this member's turn to change it.

Every member collects joins, leaves, suspicions and sides that were heard of. The lowest-ranked one that it does not suspect is the
coordinator: it makes a view of all that is pending; the others pass on to it what they hear. Joins and leaves wait for a view that is not
stable yet, up to `settle_s`. What comes within `gather_s` is made in one view.

Keeps what is pending, bounded by the size a view can have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon.model.control import Acknowledge, Beacon, Join, Leave, Ping, Pong, Refuse, Seat, Stable, State, Suspect
from antiphon.model.ids import Address, MemberId
from antiphon.model.view import MEMBER_LIMIT, TAG_BITS
from antiphon.protocol.membership.change import Change, Phase
from antiphon.protocol.membership.sides import Sides
from antiphon.protocol.timers import Timer

if TYPE_CHECKING:
    from antiphon.protocol.membership.membership import Membership


class Coordinator:
    def __init__(self, member: Membership) -> None:
        self._member, self._port = member, member.port
        self._joins: dict[MemberId, tuple[Address, float]] = {}
        """Who wants to come in: where it is, and when it last said so."""
        self.callers: dict[MemberId, tuple[Address, float]] = {}
        """Who said so, and was asked whether it hears this member."""
        self._leaves: dict[MemberId, None] = {}
        self.suspects: dict[MemberId, None] = {}
        """Members of the view that are taken for dead, until they are heard again."""
        self._slow: dict[MemberId, None] = {}
        """Members of the view that have held others up for too long."""
        self._unflushed: dict[MemberId, list[list[int]]] = {}
        """Who could not get all that others have of its view before a change was given up, and what it had."""
        self.hopeless: dict[MemberId, None] = {}
        """Those of them that made no progress from one change to the next."""
        self.sides = Sides(self._port, member.address, self._answered)
        self._waiting_since = 0.0
        """Since when a join or a leave waits."""
        self.change: Change | None = None
        self.unfinished = b""
        """The Install of a view that must be finished before another is made."""
        self._unacknowledged: dict[MemberId, None] = {}
        """At the first member of the view: who has not said that it has installed it. The coordinator that made it may have left."""
        self._stopped: frozenset[MemberId] | None = None
        """With whom there was no majority."""
        self._highest = 0
        """The highest ballot heard of."""
        self._gathering: Timer | None = None
        self._settling: Timer | None = None
        self._orphan = False
        """Whether the coordinator of the promised ballot is taken for dead."""
        self._again = False
        """Whether another view must follow when this one is stable: the change that made it took members along that could not end the view
        before it, and only one that all end together tells what each has sent from what was forged in its name."""
        self._stuck = False
        """Whether a member is frozen that cannot make a view itself."""

    # -- who coordinates -------------------------------------------------------------------------------------------------------

    def first(self) -> MemberId:
        """The coordinator, as far as this member can see."""
        view = self._port.view
        members = () if view is None else view.members
        return next((member for member in members if not self._doubted(member)), self._port.me)

    @property
    def leads(self) -> bool:
        return self._port.view is not None and self.first() == self._port.me

    @property
    def pending(self) -> bool:
        """Whether there is anything to change in the view."""
        view = self._port.view
        return view is not None and bool(
            self._member.agreement.changing
            or self._stuck
            or (self._again and self._member.stable)
            or any(member in view for member in (*self.suspects, *self._slow, *self._leaves))
            or self._wishes()
            or self._others()
        )

    # -- what is asked for -----------------------------------------------------------------------------------------------------

    def receive_join(self, frame: Join, source: Address) -> None:
        view = self._port.view
        if source != frame.address and not self._member.is_of_member(source):
            self._port.drops["stranger"] += 1
        elif view is None:
            self._member.post_to(source, Refuse(self._port.group, self._port.me, 0, 0, "unknown"))
        elif len(view.members) + len(self._wishes()) >= MEMBER_LIMIT:
            self._member.post_to(frame.address, Refuse(self._port.group, self._port.me, 0, 0, "full"))
        elif frame.options != self._port.options:
            self._member.post_to(frame.address, Refuse(self._port.group, self._port.me, 0, 0, "options"))
        elif frame.member not in view:
            for member, address in self._port.address_by_member.items():
                if address == frame.address and member in view and member != self._port.me:
                    self._suspect(member)  # its node has started again
            if not self.leads:
                self._pass_on(frame, frame.address, source)
            elif frame.member in self._joins:
                self._joins[frame.member] = (frame.address, self._port.now)
            else:
                if len(self.callers) >= MEMBER_LIMIT:
                    self.callers.clear()  # they did not answer; who still wants to come in says so again
                # Does it hear this member? A change that waits for somebody who does not would hold everybody up.
                self.callers[frame.member] = (frame.address, self._port.now)
                self._member.post_to(frame.address, Ping(0, self._port.group, frame.member, 0))
            self.consider()
        elif self._doubted(frame.member) and self._port.address_by_member.get(frame.member) == frame.address:
            # It is in the view and asks to be let in: the coordinator that made the view died before it could tell this member. It was
            # suspected because it is in no view; a new change brings it the Install that it missed.
            self._pass_on(frame, frame.address, source)
            self._stuck = True
            self._member.detector.heard[frame.member] = self._port.now
            self.suspects.pop(frame.member, None)
            self.consider()

    def receive_pong(self, frame: Pong, source: Address) -> None:
        """Somebody who wants to come in hears this member."""
        address, _ = self.callers.pop(frame.member)
        if frame.here and address == source:
            if not self._joins and not self._leaves:
                self._waiting_since = self._port.now
            recently = self._port.now - self._port.settings.change_s
            self._joins = {member: wish for member, wish in self._joins.items() if wish[1] >= recently}
            self._joins[frame.member] = (address, self._port.now)
            self.consider()

    def receive_leave(self, frame: Leave, source: Address) -> None:
        view = self._port.view
        if view is not None and frame.member in view:
            if not self._member.is_of_member(source):
                self._port.drops["stranger"] += 1
                return
            if not self._joins and not self._leaves:
                self._waiting_since = self._port.now
            self._leaves[frame.member] = None
            self._pass_on(frame, self._port.address_by_member.get(frame.member), source)
            self.consider()
        elif view is not None:
            self._member.tell_gone(frame.member, source)

    def receive_suspect(self, frame: Suspect, source: Address) -> None:
        view = self._port.view
        if view is None or frame.view != view.id or not self._member.is_of_member(source):
            self._port.drops["stale"] += 1
            return
        if not frame.whom and self.leads:
            self._stuck = True
        for member in frame.whom:
            if member in view and member != self._port.me:
                if frame.slow and self._port.options.slow == "evict":
                    self._slow[member] = None
                else:
                    self._member.detector.doubt(member)
        self.consider()

    def lost(self, member: MemberId, gone: bool = False) -> None:
        """The member is silent, or in another view. If it is `gone`, nothing that waits for it has to wait any longer."""
        view = self._port.view
        if view is not None and member in view:
            self.suspects[member] = None
            if gone and self.change is not None and self.change.under_way and member in self.change.silent():
                self.change.give_up()  # it would wait `change_s` for an answer that does not come
            if gone and self._member.agreement.is_leader(member):
                self._orphan = True  # likewise: nobody finishes the promised view
                self._ask_for_view()
            if not self.leads:
                self._member.post((self.first(),), Suspect(self._port.group, self._port.me, view.id, (member,)))
            self.consider()

    def too_slow(self, member: MemberId) -> None:
        """The member has held this one up for too long."""
        view = self._port.view
        if view is not None and member in view:
            self._slow[member] = None
            if not self.leads:
                self._member.post((self.first(),), Suspect(self._port.group, self._port.me, view.id, (member,), True))
            self.consider()

    def found(self, member: MemberId) -> None:
        """A suspected member was heard again."""
        self.suspects.pop(member, None)
        self._ask_for_view()
        self.consider()

    def _ask_for_view(self) -> None:
        """A member that froze itself, or for somebody who is gone, and finds that it is not its turn, needs the coordinator's view."""
        view, agreement = self._port.view, self._member.agreement
        if view is not None and not self.leads and agreement.changing and (self._orphan or agreement.is_leader(self._port.me)):
            self._member.post((self.first(),), Suspect(self._port.group, self._port.me, view.id, ()))

    def request_view(self) -> None:
        """Asks for a new view of the same members, because what is held of this one cannot be true."""
        view = self._port.view
        if view is None:
            return
        if self.leads:
            self._stuck = True
            self.consider()
        else:
            self._member.post((self.first(),), Suspect(self._port.group, self._port.me, view.id, ()))

    def met(self, beacon: Beacon) -> None:
        """Another side is there, and it is this one's to propose a view of both, when those of the other have answered."""
        if self._member.agreement.plausible(beacon.view):
            self.sides.meet(beacon)
        else:
            self._port.drops["malformed"] += 1

    def _answered(self, view: int) -> None:
        self._highest = max(self._highest, view)
        self.consider()

    # -- beginning a change ----------------------------------------------------------------------------------------------------

    def consider(self) -> None:
        """Begins a change soon, if there is reason to, and it is this member's turn."""
        if self._gathering is None and self._may_begin():
            self._gathering = self._port.call_in(self._port.settings.gather_s * self._port.rng.uniform(0.5, 1.5), self._begin)

    def _may_begin(self) -> bool:
        member = self._member
        if not self.leads or not self.pending or member.departed:
            return False
        if self.change is not None and self.change.under_way:
            return False
        if member.agreement.changing and not member.agreement.is_leader(self._port.me) and not self._orphan:
            return False
        if self._stopped is not None and self._stopped == frozenset(self._participants()[0]):
            return False
        urgent = member.agreement.changing or self._stuck or self._others() or self.suspects or self._slow
        until = self._waiting_since + self._port.settings.settle_s
        if urgent or member.stable or self._port.now >= until:
            return True
        # Only joins and leaves, and somebody may not have caught up in this view: they wait, but not for ever.
        if self._settling is None or self._settling.callback is None:
            self._settling = self._port.timers.at(until, self.consider)
        return False

    def _begin(self) -> None:
        self._gathering = None
        if not self._may_begin():
            return
        seats, leaving = self._participants()
        ballot = self._next_ballot()
        self._orphan = False
        if not seats:
            # Everyone leaves: there is no view to be made.
            for member, address in leaving.items():
                if member != self._port.me:
                    self._member.tell_gone(member, address)
            self._member.departure.end()
            return
        self._port.learn(seats | leaving)
        self.change = Change(self._member, ballot, tuple(seats.items()), tuple(leaving.items()))
        self.change.begin()

    def found_together(self, seats: dict[MemberId, Address]) -> None:
        """Propose the first view of the group to all founders."""
        self._port.learn(seats)
        self.change = Change(self._member, self._next_ballot(), tuple(seats.items()), ())
        self.change.begin()

    def _next_ballot(self) -> int:
        agreement = self._member.agreement
        if not agreement.plausible(self._highest + (1 << TAG_BITS)):
            self._highest = 0  # it was forged, and not even this member would promise a higher one
        counter = (max(self._highest, agreement.promised, agreement.view_id) >> TAG_BITS) + 1
        return counter << TAG_BITS | self._port.rng.getrandbits(TAG_BITS)

    def _in_view(self) -> tuple[MemberId, ...]:
        return () if self._port.view is None else self._port.view.members

    def _others(self) -> dict[MemberId, Address]:
        """Members of other sides, the side with the larger view first; some may be in this view, and never have installed it."""
        members = self._in_view()
        return {member: address for member, address in self.sides.seats().items() if member not in members or self._doubted(member)}

    def _participants(self) -> tuple[dict[MemberId, Address], dict[MemberId, Address]]:
        """The seats of the next view, in join order, and those of members that leave with it."""
        addresses = self._port.address_by_member
        staying = {member: addresses[member] for member in self._in_view() if not self._doubted(member)}
        leaving = {member: staying[member] for member in self._leaves if member in staying}
        others = self._others() | self._wishes()
        if others and len(leaving) == len(staying):
            # Nobody would carry into the next view what was delivered and decided in this one; they leave with the view after it.
            leaving = {}
        return {member: address for member, address in staying.items() if member not in leaving} | others, leaving

    def _wishes(self) -> dict[MemberId, Address]:
        """Who wants to come in. Who has not repeated its wish has given it up, or died."""
        members, recently = self._in_view(), self._port.now - self._port.settings.change_s
        return {member: address for member, (address, when) in self._joins.items() if when >= recently and member not in members}

    # -- how a change goes -----------------------------------------------------------------------------------------------------

    def receive_state(self, frame: State, source: Address) -> None:
        change = self.change
        if change is None or not change.under_way or frame.ballot != change.ballot or change.participants.get(frame.member) != source:
            return
        if frame.latest and self._member.agreement.catch_up(frame.latest):
            # This member had missed a view. What it proposed was made of the old one.
            change.give_up()
            self._highest = max(self._highest, frame.ballot)
            self.consider()
        else:
            change.receive_state(frame, source)

    def receive_acknowledge(self, frame: Acknowledge, source: Address) -> None:
        if self.change is not None:
            self.change.receive_acknowledge(frame)
        if frame.view == self._member.agreement.view_id:
            stable = Stable(self._port.group, self._port.me, frame.view)
            if self._port.address_by_member.get(frame.member) != source:
                self._port.drops["stranger"] += 1
            elif self._member.stable:
                self._member.post_to(source, stable)
            elif frame.synchronised and self._unacknowledged.pop(frame.member, self) is None and not self._unacknowledged:
                self._member.post(self._in_view(), stable)

    def receive_refuse(self, frame: Refuse, source: Address) -> None:
        """A participant has promised a higher ballot, or is gone."""
        change = self.change
        if change is None or not change.under_way or frame.ballot != change.ballot or change.participants.get(frame.member) != source:
            return
        if self._member.agreement.plausible(frame.highest):
            self._highest = max(self._highest, frame.highest)
        change.give_up()
        if self._port.view is None:
            self._member.founding.failed([frame.member] if frame.why != "ballot" else [])
            return
        if frame.why != "ballot":
            self._forget(frame.member)
        # Whoever holds the higher ballot may be about to finish: a pause lets it.
        self._port.call_in(self._port.settings.retry_s * self._port.rng.uniform(0.5, 2.0), self.consider)

    def note_unflushed(self, have_by_member: dict[MemberId, list[list[int]]]) -> None:
        """Members that could not get what others have of the view that ends. Who lacks the same twice will not get it: whoever had it has
        forgotten it, because of frames that were forged. It comes into the next view like one that was on another side, and catches up by
        synchronisation."""
        hopeless = [member for member, have in have_by_member.items() if self._unflushed.get(member) == have]
        if len(self._unflushed) > MEMBER_LIMIT:
            self._unflushed, self.hopeless = {}, {}
        self.hopeless.update(dict.fromkeys(hopeless))
        self._unflushed.update(have_by_member)

    def unanswered(self, change: Change, silent: list[MemberId]) -> None:
        if self._port.view is None:
            self._member.founding.failed(silent)
            return
        for member in silent:
            self._forget(member)
        self.consider()

    def finished(self, change: Change) -> None:
        """The view is made, and everyone has acknowledged it or had the time to."""
        self._member.departure.retire()
        self.consider()

    def stopped(self, change: Change, here: int, of: int) -> None:
        """There is no majority: the participants stay frozen until there is."""
        self._stopped = frozenset(dict(change.seats))
        self._member.post(change.participants, Refuse(self._port.group, self._port.me, change.ballot, 0, "quorum", here, of))
        self._slow.clear()  # nobody can be put out
        self.consider()  # others may have been heard meanwhile

    def finish_first(self, install: bytes) -> None:
        """A view may be in force elsewhere that everybody here had stored: those who had install it, then the change goes on from there."""
        self.unfinished = install
        self._member.agreement.catch_up(install)
        self.consider()

    def give_way(self, ballot: int) -> None:
        """Somebody proposes a higher ballot."""
        self._highest = max(self._highest, ballot)
        if self.change is not None and self.change.ballot < ballot and self.change.phase is not Phase.OVER:
            self.change.give_up()

    def forget_ballots(self, highest: int) -> None:
        """Ballots above this one, which were heard of, were forged."""
        self._highest = highest
        if self.change is not None and self.change.ballot > highest:
            self.change.give_up()

    def orphaned(self, leader: MemberId) -> None:
        """The coordinator of the promised ballot is not heard any more."""
        if leader == self._port.me:
            self._ask_for_view()
            self.consider()
            return
        if leader in self._in_view():
            self._suspect(leader)
        elif self.first() != self._port.me and self._orphan:
            self._suspect(self.first())  # it should have taken over
        self._orphan = True
        self._ask_for_view()
        self.consider()

    def on_view(self) -> None:
        """A view was installed: what it brought about is no longer pending."""
        members = self._in_view()
        self._joins = {member: wish for member, wish in self._joins.items() if member not in members}
        recently = self._port.now - self._port.settings.change_s
        self.callers = {member: call for member, call in self.callers.items() if call[1] >= recently}
        self._leaves = {member: None for member in self._leaves if member in members}
        self.suspects.clear()
        self._slow.clear()
        # Those of another side stay as they are: a side whose merger failed makes a view of itself in between.
        self._unflushed = {member: have for member, have in self._unflushed.items() if member not in members}
        self.hopeless = {member: None for member in self.hopeless if member not in members}
        self.sides.clear()
        self._stopped, self._orphan, self._stuck = None, False, False
        self.unfinished = b""
        self._unacknowledged = dict.fromkeys(members)
        made_here = self.change is not None and self.change.ballot == self._member.agreement.view_id
        self._again = self.change is not None and made_here and bool(self.change.hopeless)
        if self.change is not None and not made_here:
            self.change.give_up()
        self.consider()

    def _doubted(self, member: MemberId) -> bool:
        return member in self.suspects or member in self._slow

    def _suspect(self, member: MemberId) -> None:
        self.suspects[member] = None
        self._member.detector.suspect(member)

    def _forget(self, member: MemberId) -> None:
        """The member does not take part: a member of the view is suspected, others must come again."""
        if member in self._in_view() and member != self._port.me:
            self._suspect(member)
        self._joins.pop(member, None)
        self.sides.forget(member)

    def _pass_on(self, frame: Join | Leave, origin: Address | None, source: Address) -> None:
        """Send the coordinator a wish that it may not have heard, if it came from the node that has it. What another member has passed on
        is not passed on again: two members that each take the other for the coordinator would do so without end."""
        if source == origin and not self.leads:
            self._member.post((self.first(),), frame)

    def seats(self) -> tuple[Seat, ...]:
        """The members of this side that are not suspected."""
        addresses = self._port.address_by_member
        return tuple((member, addresses[member]) for member in self._in_view() if not self._doubted(member) and member in addresses)
