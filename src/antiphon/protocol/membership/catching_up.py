"""What a member must have before the messages of its view may be delivered: those of the other sides, and a newcomer its past.

A newcomer that wants a state asks for that first (`snapshot`), then for what has come since; everybody else asks for messages (`sync`). The
endpoint holds what is sent in the view meanwhile, and releases it in `_caught_up`. A change that comes between stops all of it, and the
next view begins it again with what is still wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from antiphon.model.control import Side, Wants
from antiphon.model.events import Synchronised
from antiphon.model.frames import Batch
from antiphon.model.view import View
from antiphon.protocol.sync.ledger import Ledger
from antiphon.protocol.sync.snapshot import Snapshot
from antiphon.protocol.sync.sync import Sync

if TYPE_CHECKING:
    from antiphon.protocol.membership.membership import Membership


class CatchingUp:
    def __init__(self, member: Membership, wants: Wants) -> None:
        self._member, self._port, self._past = member, member.port, member.past
        self.wants = wants
        self.synchronised = True
        """Whether what is sent in the view may be delivered: other sides' messages, and a newcomer's history, come first."""
        self._sides: tuple[Side, ...] = ()
        self._needed: tuple[Side, ...] = ()
        self.sync = Sync(self._port, self._past, on_done=self._caught_up, on_recovered=self._recover, on_lost=self._know)
        self.snapshot = Snapshot(
            self._port,
            self._past,
            on_done=self._synchronise,
            busy=lambda: not self.synchronised,
            guests=member.guests.delivered,
            adopt_guests=member.guests.adopt,
        )

    def on_view(self, view: View, sides: tuple[Side, ...], side: Side) -> None:
        """A view of these sides is installed; this member comes from `side`."""
        endpoint = self._member.endpoint
        assert endpoint is not None, "who has a view has an endpoint in it"
        self.sync.on_view(view, sides)
        # Who has ended its old view has all that those have who were still catching up in it: it needs nothing of them.
        needed = tuple(other for other in sides if other.view and other is not side and not (side.ends and other.view == side.view))
        self._sides, self._needed = sides, needed
        newcomer = not side.view or self.wants.kind != "all"
        if needed and (newcomer or endpoint.multicast.repairs()):
            self.synchronised = False
            endpoint.hold(self._port.now)
            if newcomer and self.wants.kind == "state":
                self.snapshot.begin(view, sides)
            else:
                self._synchronise()
        else:
            self._caught_up()

    def stop(self) -> None:
        """The view is ending."""
        self.sync.stop()
        self.snapshot.stop()

    def _synchronise(self) -> None:
        assert self._port.view is not None
        if self.wants.kind == "state":
            self._know(self._past.adopted)
            self._know(self.snapshot.unread)
            transcript = self._member.transcript
            if transcript is not None and self.snapshot.arrived:
                transcript.adopted(self._past.adopted.flat())
        wants = Wants() if self.wants.kind == "state" else self.wants
        self.sync.begin(self._port.view, self._sides, wants, self._needed)

    def _know(self, ledger: Ledger) -> None:
        """Nothing waits for these: a state stands for them, or they are lost and the application knows."""
        endpoint = self._member.endpoint
        if endpoint is not None:
            for sender, low, high in ledger:
                endpoint.know(sender, low, high)

    def _recover(self, batch: Batch, low: int, high: int) -> None:
        endpoint = self._member.endpoint
        if endpoint is not None:
            endpoint.know(batch.sender, low, high)
        self._member.deliveries.recover(batch, low, high)

    def _caught_up(self) -> None:
        """The messages of this view may be delivered."""
        member, view, endpoint = self._member, self._port.view, self._member.endpoint
        assert view is not None, "a member catches up in a view"
        assert endpoint is not None, "and has an endpoint in it"
        if self.wants.kind == "state" and not self.synchronised and not self._needed and not self.snapshot.arrived:
            self.snapshot.fail()  # those that could have given it are gone
        self.wants = Wants()
        if not self.synchronised:
            self.synchronised = True
            # Also of what it did not want a member must know that it existed: an answer to it is no orphan, here as elsewhere.
            self._know(self._past.before())
            member.deliveries.hear_all(endpoint)
            self._port.tell(Synchronised(view))
        if endpoint.holding:
            endpoint.release(self._port.now)
        member.agreement.caught_up()
