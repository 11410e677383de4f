"""Which part of a member takes which control frame: two tables, and a few frames that several parts may be waiting for.

What only members of the view may send is taken only from them, and only for themselves; whatever nobody takes is counted and dropped. Data
does not come this way, nor does a view (`Membership.receive`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from antiphon.model import control as c
from antiphon.model.events import NoMajority
from antiphon.model.ids import Address, MemberId

if TYPE_CHECKING:
    from antiphon.protocol.membership.membership import Membership


class Dispatch:
    def __init__(self, member: Membership) -> None:
        self._member, self._port = member, member.port
        self._handlers: dict[type, Callable[[Any, Address], None]] = {
            c.Join: member.coordinator.receive_join,
            c.Leave: member.coordinator.receive_leave,
            c.Suspect: member.coordinator.receive_suspect,
            c.Propose: member.agreement.receive_propose,
            c.State: member.coordinator.receive_state,
            c.Target: member.agreement.receive_target,
            c.Flushed: self._receive_flushed,
            c.Prepare: member.agreement.receive_prepare,
            c.Prepared: self._receive_prepared,
            c.Acknowledge: member.coordinator.receive_acknowledge,
            c.Stable: member.agreement.receive_stable,
            c.Refuse: self._receive_refuse,
            c.Beacon: member.seeker.receive_beacon,
            c.Gone: member.seeker.receive_gone,
            c.Beat: self._receive_beat,
            c.Pong: self._receive_pong,
            c.Vouch: member.detector.receive_vouch,
            c.Guest: member.guests.receive_guest,
            c.FoundingCandidate: member.founding.receive_candidate,
        }
        self._from_members: dict[type, Callable[[Any, MemberId], None]] = {
            c.SyncRequest: member.catching_up.sync.receive_request,
            c.SyncAnswer: member.catching_up.sync.receive_answer,
            c.SyncAgain: member.catching_up.sync.receive_again,
            c.AskState: member.catching_up.snapshot.receive_ask,
            c.StatePiece: member.catching_up.snapshot.receive_piece,
            c.Private: member.private.receive_private,
            c.Received: member.private.receive_received,
        }
        """Frames that only members of the view may send, for themselves."""

    def receive(self, frame: Any, source: Address) -> None:
        kind = type(frame)
        if (handler := self._handlers.get(kind)) is not None:
            handler(frame, source)
        elif (from_member := self._from_members.get(kind)) is not None:
            member = self._member.member_by_address.get(source)
            if member is None or member != frame.member:
                self._port.drops["not_a_member" if member is None else "forged"] += 1
            else:
                from_member(frame, member)
        else:
            self._port.drops["unexpected_frame"] += 1

    def _receive_flushed(self, frame: c.Flushed, source: Address) -> None:
        change = self._member.coordinator.change
        if change is not None:
            change.receive_flushed(frame, source)

    def _receive_prepared(self, frame: c.Prepared, source: Address) -> None:
        change = self._member.coordinator.change
        if change is not None:
            change.receive_prepared(frame, source)

    def _receive_pong(self, frame: c.Pong, source: Address) -> None:
        coordinator = self._member.coordinator
        if frame.member in coordinator.callers:
            coordinator.receive_pong(frame, source)
        elif not coordinator.sides.receive_pong(frame, source):
            self._member.detector.receive_pong(frame, source)

    def _receive_beat(self, frame: c.Beat, source: Address) -> None:
        member = self._member
        if member.member_by_address.get(source) == frame.member and frame.view == member.agreement.view_id:
            member.detector.heard[frame.member] = self._port.now

    def _receive_refuse(self, frame: c.Refuse, source: Address) -> None:
        member = self._member
        if frame.why == "quorum":
            view, agreement = self._port.view, member.agreement
            promised = agreement.changing and (frame.ballot, source) == (agreement.promised, agreement.leader[1])
            if promised and member.short is None and view is not None:
                member.short = (frame.here, frame.of)
                self._port.tell(NoMajority(view))
            elif promised and view is None:
                member.joining.hear_no_quorum(frame.here, frame.of)
        elif self._port.view is None and (member.coordinator.change is None or frame.ballot != member.coordinator.change.ballot):
            member.joining.receive_refuse(frame)
        else:
            member.coordinator.receive_refuse(frame, source)
