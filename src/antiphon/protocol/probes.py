"""Is that one there? The questions of other nodes about members, answered here or passed on.

A node answers a ping for whichever member it has, and asks on behalf of others who do not hear a member themselves (`Enquire`): what it
hears then, it vouches for. The answers to its own questions are its detectors' affair.

Keeps who asked about whom, at most `ENQUIRIES_LIMIT`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from antiphon.model.codec import Frame
from antiphon.model.control import Enquire, Ping, Pong, Vouch
from antiphon.model.ids import Address, MemberId
from antiphon.protocol.membership.membership import Membership
from antiphon.protocol.routes import Routes

ENQUIRIES_LIMIT = 1_024

Probe: TypeAlias = Ping | Enquire | Pong | Vouch


class Probes:
    def __init__(
        self, address: Address, routes: Routes, answer: Callable[[Address, Frame], None], answer_directly: Callable[[Address, Frame], None]
    ) -> None:
        """`answer` sends to a node around what is broken, `answer_directly` does not."""
        self._address, self._routes, self._answer, self._answer_directly = address, routes, answer, answer_directly
        self._enquiries: dict[tuple[Address, MemberId], int] = {}
        """Who asked about whom, and under which number."""

    def receive(self, source: Address, frame: Probe, member: Membership | None) -> bool:
        """Takes a frame about a group, of which this node may have a `member`; whether it is for that one."""
        if type(frame) is Ping:
            here = member is not None and member.me == frame.member and member.agreement.view_id == frame.view
            pong = Pong(frame.probe, frame.group, frame.member, here, frame.asker)
            if frame.group:
                self._answer(source, pong)
            else:
                self._answer_directly(source, pong)  # about the link itself
        elif type(frame) is Enquire:
            if member is not None:
                if len(self._enquiries) >= ENQUIRIES_LIMIT:
                    self._enquiries.clear()  # questions that were never answered; who still wants to know asks again
                self._enquiries[source, frame.member] = frame.probe
                self._answer(frame.whom, Ping(frame.probe, frame.group, frame.member, frame.view, source))
        elif type(frame) is Pong and frame.asker and frame.asker != self._address:
            probe = self._enquiries.pop((frame.asker, frame.member), None)
            if probe is not None:
                self._answer(frame.asker, Vouch(probe, frame.group, frame.member, source, frame.here))
        else:
            return not (type(frame) is Pong and self._routes.receive_pong(frame, source)) and member is not None
        return False
