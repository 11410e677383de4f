"""Asking to come in, and to go out, until it happens.

A newcomer asks one contact after the other, again and again, looking for new ones, until it is proposed a view and has installed it, or
`join_s` is over; one that may found the group alone does so when nobody answers, and one that founds it together with others waits for
them at the same time (`founding`). A leaver asks the coordinator until it is out; after a few
changes' time it goes anyway, and the others notice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from antiphon.model import codec
from antiphon.model.control import Join, Leave, Refuse
from antiphon.model.ids import Address
from antiphon.protocol.timers import Timer

if TYPE_CHECKING:
    from antiphon.protocol.membership.membership import Membership

_LEAVE_CHANGES = 3
_FOUND_CHANGES = 2
"""After the time of so many changes a leaver goes, and who would found the group if there were none does."""


class Joining:
    def __init__(self, member: Membership) -> None:
        self._member, self._port = member, member.port
        self._contacts: list[Address] = []
        self._at = 0
        self._until = 0.0
        self._timer: Timer | None = None
        self._no_quorum: tuple[int, int] | None = None
        """How many of how many members are left of a group that cannot let anybody in for want of a majority."""

    def begin(self, contacts: Sequence[Address]) -> None:
        self._contacts = [contact for contact in dict.fromkeys(contacts) if contact != self._member.address]
        self._until = self._port.now + self._port.settings.join_s
        self._ask()

    def end(self) -> None:
        """The member has its first view."""
        if self._timer is not None:
            self._timer.cancel()

    def receive_refuse(self, frame: Refuse) -> None:
        reasons = {"full": "the group is full", "options": "the group has other options than this node was told"}
        if frame.why in reasons:
            self._member.departure.depart(reasons[frame.why])
        elif frame.why == "unknown" and len(self._contacts) > 1:
            self._at += 1

    def hear_no_quorum(self, here: int, of: int) -> None:
        """The group cannot make a view: only `here` of its `of` members are left."""
        self._no_quorum = (here, of)

    def reason(self) -> str:
        """Say why this newcomer is not in the group yet."""
        if self._no_quorum is not None:
            here, of = self._no_quorum
            return (
                f"the group has lost its majority: {here} of the {of} members of its last view are left. If the others do not come back, "
                "close or restart the nodes that are left, too; then all founders can found it again"
            )
        if self._member.founding.active:
            return self._member.founding.reason()
        return "nobody has let this node in" if self._contacts else "nobody of the group is known"

    def ask_to_leave(self) -> None:
        self._until = self._port.now + _LEAVE_CHANGES * self._port.settings.change_s
        self._ask_to_leave()

    def _ask(self) -> None:
        port = self._port
        if self._member.view is not None or self._member.departed:
            return
        founding = self._member.founding.active
        if founding:
            known = self._member.find_contacts(False)
            self._contacts += [address for address in known if address not in self._contacts]
            if self._member.departed:
                return
        if port.now >= self._until or not (self._contacts or founding):
            why = f"nobody let it in within {port.settings.join_s:g} s" if self._contacts else "nobody of the group is known"
            if founding or self._no_quorum is not None:
                why = f"within {port.settings.join_s:g} s {self.reason()}"
            self._member.departure.depart(why)
            return
        alone_at = self._until - port.settings.join_s + _FOUND_CHANGES * port.settings.change_s
        alone = self._member.public and port.options.partitions == "continue"
        if alone and port.now >= alone_at and not self._member.agreement.changing:
            # Whoever was in the group is gone, or out of reach: this member begins it anew, and sides that are still there will be met.
            self._member.found(port.now)
            return
        if self._at and self._contacts and self._at % len(self._contacts) == 0:
            # All were asked, and nobody has let this member in: perhaps they are gone, and others have come.
            self._contacts += [address for address in self._member.find_contacts(True) if address not in self._contacts]
        if self._contacts:
            contact = self._contacts[self._at % len(self._contacts)]
            self._at += 1
            port.send_to((contact,), codec.encode(Join(port.group, port.me, self._member.address, port.options)))
        self._timer = port.call_in(port.settings.retry_s * port.rng.uniform(0.75, 1.25), self._ask)

    def _ask_to_leave(self) -> None:
        port = self._port
        if self._member.departed:
            return
        if port.now >= self._until:
            self._member.departure.depart("left", self._member.departure.unproven)
            return
        if self._member.unsent:
            # What was accepted while catching up would go unsaid.
            self._timer = port.call_in(port.settings.retry_s, self._ask_to_leave)
            return
        # To the coordinator, and to one more: the coordinator may be the one that is not there.
        first = self._member.coordinator.first()
        others = [] if port.view is None else [member for member in port.view.members if member not in (first, port.me)]
        self._member.post((first, *([port.rng.choice(others)] if others else ())), Leave(port.group, port.me))
        self._timer = port.call_in(port.settings.retry_s * port.rng.uniform(0.75, 1.25), self._ask_to_leave)
