"""Gives the application's state to newcomers.

Asked for a snapshot, it tells its application StateWanted in the stream of events and notes what has been delivered up to there. What the
application gives it, whenever it comes, is the state at exactly that point; or an earlier one with the messages between the two (`unread`).
Until then newcomers that ask are told to wait. Newcomers that ask at the same point share a snapshot. The pieces of it are sent as they
are asked for, the first without asking.

Keeps up to four snapshots of at most `state_bytes` each, for a minute after the last request. A fifth replaces one that is not needed:
its newcomers have left the view, have asked for another since, or were sent all of it and have requested nothing for `_QUIET` times
`retry_s`; of several, the one requested longest ago. If all four are needed, the newcomer is refused and asks again later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from antiphon.errors import InvalidOption
from antiphon.model.control import AskState, Holdings, StatePiece
from antiphon.model.events import StateWanted
from antiphon.model.ids import MemberId
from antiphon.protocol.membership.port import Port
from antiphon.protocol.sync.history import History
from antiphon.protocol.sync.packing import room
from antiphon.protocol.sync.unread import UnreadEvent, write
from antiphon.protocol.timers import Timer

NOT_YET = (
    "its application has not given it yet: it is handling a message, or has not asked for the next one (a program is done with a message"
    " when the task or thread that read it reads the same iterator again, or when that iterator is dropped)"
)
CATCHING_UP = "it is catching up itself"
NO_STATE = "it gives no state (create or join the group with state=…)"
_REASON_BYTES = 400
WINDOW = 32
"""Pieces that are asked for and sent together."""
_LIMIT = 4
_KEEP_S = 60.0
_QUIET = 2
"""A newcomer that lacks pieces asks for them every `retry_s`; from one that was sent all and asked for nothing for so many of them, none is
lacking."""


class Provider:
    def __init__(self, port: Port, history: History, busy: Callable[[], bool], guests: Callable[[], Holdings]) -> None:
        """While this member is `busy` catching up it keeps silent; the newcomer asks again. `guests` tells what outsiders sent that has
        been delivered."""
        self.port, self.history, self._busy, self._guests = port, history, busy, guests
        self.taken = 0
        """How many snapshots the application was asked for; the number of the last one."""
        self._snapshots: dict[int, Taken] = {}

    def provide(self, snapshot: int, state: bytes | None, unread: Sequence[UnreadEvent] = (), reason: str = "") -> None:
        """Take the application's answer to StateWanted: its state as it was before the `unread` events, which are the last before
        StateWanted; or None, and the `reason` why it gives none. With the reason `NOT_YET`, the next request of the newcomer
        raises StateWanted again, at a later point of the stream."""
        if state is not None and len(state) > self.port.settings.state_bytes:
            limit = self.port.settings.state_bytes
            raise InvalidOption("state", f"{len(state):,} bytes", f"a state may have {limit:,}: give a smaller one, or raise state_bytes")
        taken = self._snapshots.get(snapshot)
        if taken is None:
            return
        if state is None:
            self._drop(snapshot)
            for asker, number in taken.number_by_asker.items():
                self._refuse(asker, number, snapshot, reason or NO_STATE, index=int(reason == NOT_YET))
            return
        taken.state = bytes(state)
        taken.preamble = msgspec.msgpack.encode((taken.head, write(unread)))
        for asker in taken.number_by_asker:
            self._give(snapshot, taken, asker, range(WINDOW))

    def receive(self, frame: AskState, member: MemberId) -> None:
        if self.port.view is None or frame.view != self.port.view.id:
            self.port.drops["other_view"] += 1
            return
        if frame.snapshot:
            snapshot, taken = frame.snapshot, self._snapshots.get(frame.snapshot)
            if taken is None or taken.number_by_asker.get(member) != frame.number:
                self._refuse(member, frame.number, snapshot, "it has forgotten the snapshot")
                return
        elif self._busy():
            self._refuse(member, frame.number, 0, CATCHING_UP, index=1)
            return
        else:
            found = self._for(member, frame.number)
            if found is None:
                given = all(taken.state is not None for taken in self._snapshots.values())
                self._refuse(member, frame.number, 0, "it gives its state to others" if given else NOT_YET, index=1)
                return
            snapshot, taken = found
        self._keep(snapshot, taken)
        if taken.state is not None:
            self._give(snapshot, taken, member, frame.pieces[:WINDOW] or range(WINDOW))
        elif taken.asked:
            self._refuse(member, frame.number, 0, NOT_YET, index=1)
        taken.asked = True

    def _for(self, asker: MemberId, number: int) -> tuple[int, Taken] | None:
        """The snapshot for a question: the one taken for it, one that was taken at this very point, or a new one."""
        for snapshot, taken in self._snapshots.items():
            if taken.number_by_asker.get(asker) == number:
                return snapshot, taken
        head = msgspec.msgpack.encode((self.history.have(), self.history.live_from(), self._guests()))
        for snapshot, taken in self._snapshots.items():
            if taken.head == head:
                taken.number_by_asker[asker] = number
                return snapshot, taken
        if len(self._snapshots) >= _LIMIT and not self._make_room():
            return None
        self.taken += 1
        taken = self._snapshots[self.taken] = Taken(head, asker, number)
        self.port.tell(StateWanted(self.taken))
        return self.taken, taken

    def _make_room(self) -> bool:
        """Drop a snapshot that nobody needs any more, if there is one: first those that nobody waits for, then those given in full."""
        members = () if self.port.view is None else self.port.view.members
        numbers: dict[MemberId, int] = {}
        for taken in self._snapshots.values():
            for asker, number in taken.number_by_asker.items():
                numbers[asker] = max(number, numbers.get(asker, 0))
        quiet_since = self.port.now - _QUIET * self.port.settings.retry_s
        found: list[tuple[bool, float, int]] = []
        for snapshot, taken in self._snapshots.items():
            askers = {asker for asker, number in taken.number_by_asker.items() if number == numbers[asker] and asker in members}
            if not askers or (askers <= taken.given_to and taken.asked_at <= quiet_since):
                found.append((bool(askers), taken.asked_at, snapshot))
        if found:
            self._drop(min(found)[2])
        return bool(found)

    def _keep(self, snapshot: int, taken: Taken) -> None:
        taken.asked_at = self.port.now
        if taken.timer is not None:
            taken.timer.cancel()
        taken.timer = self.port.call_in(_KEEP_S, lambda: self._drop(snapshot))

    def _drop(self, snapshot: int) -> None:
        taken = self._snapshots.pop(snapshot, None)
        if taken is not None and taken.timer is not None:
            taken.timer.cancel()

    def _give(self, snapshot: int, taken: Taken, asker: MemberId, indexes: range | tuple[int, ...]) -> None:
        port, state = self.port, taken.state
        assert port.view is not None, "who was asked for a state is in a view"
        assert state is not None, "only a state that is here is given"
        length = room(port.settings.frame_bytes, port.group, port.me)
        heads = -(-len(taken.preamble) // length)
        count = heads + -(-len(state) // length)
        for index in indexes:
            if index < count:
                source, at = (taken.preamble, index) if index < heads else (state, index - heads)
                piece = source[at * length : (at + 1) * length]
                number = taken.number_by_asker[asker]
                port.send((asker,), StatePiece(port.group, port.me, port.view.id, number, snapshot, index, count, heads, piece))
                if index == count - 1:
                    taken.given_to.add(asker)

    def _refuse(self, asker: MemberId, number: int, snapshot: int, reason: str, index: int = 0) -> None:
        """Say that there is no state, or (`index` 1) not yet, and why."""
        port = self.port
        if port.view is not None:
            why = reason.encode()[:_REASON_BYTES]
            port.send((asker,), StatePiece(port.group, port.me, port.view.id, number, snapshot, index, 0, 0, why))


class Taken:
    """A snapshot at its provider: what had been delivered, and (once the application has given it) the state."""

    def __init__(self, head: bytes, asker: MemberId, number: int) -> None:
        self.head = head
        self.state: bytes | None = None
        self.preamble = b""
        """What is sent before the state: the head, and the messages that follow the state."""
        self.asked = False
        """Whether a newcomer has asked for it again since it was begun."""
        self.asked_at = 0.0
        """When a newcomer last asked for it or for pieces of it."""
        self.number_by_asker = {asker: number}
        self.given_to: set[MemberId] = set()
        """Newcomers to which the last piece was sent."""
        self.timer: Timer | None = None
