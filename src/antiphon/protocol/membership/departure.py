"""The ways out of a group, and what may go unsaid with who takes one.

A member leaves and is out with the next view (`joining` asks for that until it is so), makes that view itself and retires, is put out by
one that was made without it, goes as the last one, or was never let in. It is out once; `Departed` tells the application why, and how many
of its own messages may have reached nobody.

Keeps one number: up to where others had the own messages when this member was left alone, for then nobody is there to say so any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from antiphon.model.control import GroupInfo, Install
from antiphon.model.events import Departed
from antiphon.protocol.membership.seeker import ABSENT_LIMIT

if TYPE_CHECKING:
    from antiphon.protocol.membership.membership import Membership


class Departure:
    def __init__(self, member: Membership) -> None:
        self._member, self._port = member, member.port
        self.ended = False
        """Whether the group went with this member."""
        self._heard: int | None = 0
        """Up to which number others have the own messages, as far as it was known when this member was left alone."""

    def leave(self) -> None:
        """Asks to be out of the next view; Departed says when that is so."""
        member = self._member
        if not member.leaving and not member.departed:
            member.leaving = True
            if member.view is None or (self._is_alone() and not member.unsent):
                self.end()
            else:
                member.joining.ask_to_leave()

    def end(self) -> None:
        """Goes as the last member; the group has ended, unless there is another side."""
        member = self._member
        self.ended = member.view is not None and not member.absent
        self.depart("left", None if self._is_alone() and not member.absent else self.unproven)

    def retire(self) -> None:
        """The change in which this coordinator left is made."""
        member = self._member
        if member.leaving and member.agreement.promised > member.agreement.view_id:
            self.depart("left")

    def put_out(self, frame: Install) -> None:
        """A view was agreed on that this member is not in."""
        member = self._member
        member.leaving = True
        if member.coordinator.change is None or member.coordinator.change.ballot != frame.view:
            # Who was asked for the change has handed over everything; the others went on without this member's latest.
            self.depart("left", None if member.agreement.promised == frame.view else self.unproven)

    def depart(self, reason: str, unsaid: int | None = None) -> None:
        """Is out; `unsaid` of the own messages may have reached nobody (None: those that were never sent)."""
        member = self._member
        if not member.departed:
            member.departed = True
            member.detector.stop()
            member.founding.end()
            member.private.close()
            if member.endpoint is not None:
                # Deliveries of this turn come before Departed, and none comes after it.
                member.deliveries.hear_all(member.endpoint)
            self._port.tell(Departed(reason, member.unsent if unsaid is None else unsaid))

    def left_alone(self) -> None:
        """The next view has no other member: what the others are known to have is remembered while the endpoint still knows."""
        self._heard = self._proven()

    @property
    def unproven(self) -> int:
        """How many of the last own messages are not known to be with all others, or were not when this member was left alone."""
        member, proven = self._member, self._proven()
        return member.unsent if proven is None else max(member.unsent, member.sent - proven)

    def farewell(self) -> GroupInfo:
        """What this member knows of the group when it is out: who was in its last view with it, or may be on another side."""
        member = self._member
        info = member.info()
        others = {who: at for who, at in (*info.members, *member.absent.items()) if at != member.address}
        return structs.replace(info, members=tuple(others.items()), left=(*info.left, member.me)[-ABSENT_LIMIT:])

    def _proven(self) -> int | None:
        endpoint = self._member.endpoint
        if endpoint is None or self._is_alone():
            return self._heard
        return endpoint.multicast.proven()

    def _is_alone(self) -> bool:
        view = self._member.view
        return view is not None and view.members == (self._port.me,)
