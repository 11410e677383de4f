"""How the sides of a group find each other again.

A side remembers the members it lost, and where they were. Its coordinator sends them a beacon, ever less often (`seek_s`, doubled up to
`seek_max_s`), and never stops; groups that are found by name alone also send a short one to everyone, and to the contacts that were asked
for the group before it was founded. Whoever gets the beacon of another side passes it to its own coordinator. Of two coordinators the one
with the larger view id proposes a view of both, to those who answer it (`sides`); the other answers with a beacon of its own, so that it
does. View ids are unique, so this does not depend on addresses or names.

A side of one member whose application does not read stays away until it does: to come together would bring it what it does not take, over
and over if it is put out for that each time.

Keeps at most `ABSENT_LIMIT` lost members, the latest. Sends nothing while nobody is missing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from antiphon.model import codec
from antiphon.model.control import Beacon, Gone
from antiphon.model.ids import Address, MemberId
from antiphon.protocol.timers import Timer

if TYPE_CHECKING:
    from antiphon.protocol.membership.membership import Membership

ABSENT_LIMIT = 1_024


class Seeker:
    def __init__(self, member: Membership) -> None:
        self._member, self._port = member, member.port
        self._interval = self._port.settings.seek_s
        self._timer: Timer | None = None

    def on_view(self) -> None:
        self._interval = self._port.settings.seek_s
        if self._timer is not None:
            self._timer.cancel()
        self._seek_later()

    def _seek_later(self) -> None:
        self._timer = self._port.call_in(self._interval * self._port.rng.uniform(0.75, 1.25), self._seek)

    def _seek(self) -> None:
        member = self._member
        self._interval = min(self._interval * 2, self._port.settings.seek_max_s)
        if not member.departed:
            if member.coordinator.leads and not self._stays_away():
                self._send_beacon(tuple(dict.fromkeys((*member.absent.values(), *self._unheard()))))
                if member.public:  # others may have founded the same group without knowing of this side
                    announcement = codec.encode(self._announcement())
                    self._port.announce(announcement)
                    self._port.send_to(member.contacts, announcement)
            self._seek_later()

    def _stays_away(self, others: Collection[MemberId] = ()) -> bool:
        """Whether this side, without those of `others`, is one member that does not read."""
        member = self._member
        return not member.reading and all(who == member.me or who in others for who, _ in member.coordinator.seats())

    def _unheard(self) -> list[Address]:
        """Members of the view that are suspected: where no majority is left no view is made without them, but they may be near."""
        addresses = self._port.address_by_member
        return [addresses[who] for who in self._member.coordinator.suspects if who in addresses]

    def _beacon(self, looking: bool) -> Beacon:
        port = self._port
        view, seats = self._member.agreement.view_id, self._member.coordinator.seats()
        return Beacon(port.group, port.me, view, seats, port.options, looking, True, self._member.origin, self._has_quorum())

    def _has_quorum(self) -> bool:
        """Whether this side goes on, as far as it knows: while it changes its view it may find that it has no majority."""
        return self._member.quorum and not self._member.agreement.changing

    def _announcement(self) -> Beacon:
        """To everyone, so it must not grow with the group."""
        seats = ((self._port.me, self._member.address),)
        view, origin, quorum = self._member.agreement.view_id, self._member.origin, self._has_quorum()
        return Beacon(self._port.group, self._port.me, view, seats, self._port.options, True, False, origin, quorum)

    def _send_beacon(self, addresses: tuple[Address, ...], looking: bool = True) -> None:
        self._port.send_to(tuple(address for address in addresses if address != self._member.address), codec.encode(self._beacon(looking)))

    def receive_beacon(self, frame: Beacon, source: Address) -> None:
        port, coordinator = self._port, self._member.coordinator
        view = port.view
        if view is None or frame.member == port.me:
            return
        if frame.options != port.options:
            port.drops["other_options"] += 1
        elif port.options.partitions == "majority" and frame.origin != self._member.origin:
            self._meet_other_line(frame, source)
        elif frame.view == view.id:
            # A member of this view that was not heard for a while, and those it can reach.
            if frame.member in coordinator.suspects:
                self._member.detector.heard[frame.member] = port.now
        elif self._stays_away(dict(frame.seats)):
            port.drops["reader_paused"] += 1
        elif not frame.whole and coordinator.leads:
            self._send_beacon((dict(frame.seats).get(frame.member, source),))
        elif not coordinator.leads:
            # Also an announcement: where there is no broadcast it reaches the seeds alone.
            if source not in port.address_by_member.values() or frame.member not in view:
                port.send((coordinator.first(),), frame)
        elif frame.view < self._member.agreement.view_id and not frame.looking:
            coordinator.met(frame)
        elif frame.looking:
            # The smaller side's answer proves that both hear each other: to propose a view to who does not hear would hold everybody up.
            larger = frame.view < self._member.agreement.view_id
            self._send_beacon((dict(frame.seats).get(frame.member, source),), looking=larger)

    def _meet_other_line(self, frame: Beacon, source: Address) -> None:
        """All founders have restarted and founded the group again while this member, or the sender, was out of their reach; or a forged
        view had another origin. The lines are never merged: both would claim to be the one that went on. A member that has no majority
        departs if the other line has one, or is the newer one."""
        self._port.drops["other_line"] += 1
        if self._member.short is not None and (frame.quorum or frame.origin > self._member.origin):
            self._member.departure.depart("the group was founded again without this node: join it again")
        elif frame.looking:
            self._send_beacon((dict(frame.seats).get(frame.member, source),), looking=False)

    def receive_gone(self, frame: Gone, source: Address) -> None:
        """There is nobody of this group at that address."""
        member = self._member
        if member.leaving and member.me in frame.members and member.is_of_member(source):
            member.departure.depart("left", member.departure.unproven)
        else:
            member.absent = {who: address for who, address in member.absent.items() if address != source}
