"""Messages from one member to another, and questions with their replies.

Promises: what is accepted is delivered once, in the order in which it was sent to that member and after the group messages that its
sender had sent before, or else, when the receiver drops out of the view first, comes back as `Undelivered`. What was acknowledged was
delivered; what comes back may have been, if the receipt was under way. Group messages never wait for private ones. A question gets from
every member that it went to one reply or one `Undelivered`; how long to wait is for the asker to say (`close_question`).

Where group messages may be lost for good (`besteffort`) a private message waits for them no longer than `parent_s`.

Keeps per receiver at most `private_messages` not acknowledged, `window_bytes` over all; per sender a few frames held; `QUESTION_LIMIT` open
questions; two numbers for each of `AWAY_LIMIT` members that are out of the view and might come back. Costs one frame and a
share of an acknowledgement per message; nothing while nothing is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from antiphon.errors import InvalidOption, NotAMember, TooLarge, WouldBlock
from antiphon.model.control import Private as PrivateFrame
from antiphon.model.control import Received, Tone
from antiphon.model.events import PrivateMessage, Undelivered, Writable
from antiphon.model.ids import MemberId
from antiphon.model.view import MEMBER_LIMIT, View
from antiphon.protocol.membership.line import Incoming, Letter, Outgoing
from antiphon.protocol.membership.port import Port

QUESTION_LIMIT = 1_024
AWAY_LIMIT = MEMBER_LIMIT


class _Line:
    def __init__(self, outgoing: Outgoing, incoming: Incoming) -> None:
        self.outgoing, self.incoming = outgoing, incoming
        self.owes_receipt = False
        self.patience = False
        """Whether a timer runs that ends the wait for lost group messages."""


class Private:
    def __init__(
        self,
        port: Port,
        *,
        last_sent: Callable[[], int],
        delivered_up_to: Callable[[MemberId], int],
        synchronised: Callable[[], bool] = lambda: True,
    ) -> None:
        """`last_sent` is this member's last group message; `delivered_up_to` says how far a member's group messages have been delivered
        here, or need not be any more; `synchronised`, whether all from before the view have been that ever will."""
        self._port = port
        self._last_sent, self._delivered_up_to, self._synchronised = last_sent, delivered_up_to, synchronised
        self._view = port.view
        self._start_by_member: Mapping[MemberId, int] = {}
        self._line_by_peer: dict[MemberId, _Line] = {}
        self._away: dict[MemberId, tuple[int, int, bytes | None]] = {}
        """Of members that are out of the view: the last number sent to them, the last taken from them, and the part of a message that was
        taken, as `Incoming.begun`: its sender may not have noticed, and goes on after it."""
        self.busy: dict[MemberId, None] = {}
        """Whose line must be looked at when the turn ends."""
        self._highest = 0
        """The highest number on a line that was forgotten: new lines begin above it, so that no number is ever used twice."""
        self._bytes = 0
        self._last_question = 0
        self._asked: dict[int, dict[MemberId, Letter]] = {}
        """Open questions: who has not replied, and the message that asked."""
        self._refused: dict[MemberId | None, None] = {}
        """To whom a message was refused since the last Writable; None: a question, for want of open ones."""

    # -- from the application ----------------------------------------------------------------------------------------------------

    def submit(self, now: float, to: MemberId, data: bytes, kind: Tone = "say", question: int = 0) -> int:
        """Accepts a message to one member and returns its number; or raises NotAMember, WouldBlock or a UsageError and changes nothing."""
        self._port.now = now
        self._check(to, data)
        return self._put(to, data, kind, question).number

    def ask(self, now: float, data: bytes, to: MemberId | None = None) -> int:
        """Asks one member, or every other member of the view, and returns the number that the replies will carry."""
        self._port.now = now
        view = self._view
        askees = (to,) if to is not None else tuple(member for member in view.members if member != self._port.me) if view else ()
        if len(self._asked) >= QUESTION_LIMIT:
            self._refused[None] = None
            raise WouldBlock(f"{QUESTION_LIMIT:,} questions wait for their replies")
        for askee in askees:
            self._check(askee, data)
        self._last_question += 1
        if askees:
            self._asked[self._last_question] = {askee: self._put(askee, data, "ask", self._last_question) for askee in askees}
        return self._last_question

    def reply(self, now: float, to: MemberId, question: int, data: bytes) -> int:
        """Answers the question that came with a `PrivateMessage` of kind `ask`."""
        return self.submit(now, to, data, "reply", question)

    def close_question(self, question: int) -> None:
        """Nobody waits for replies any more; those that still come are dropped."""
        if self._asked.pop(question, None) is not None:
            self._room_was_made()

    # -- from the network --------------------------------------------------------------------------------------------------------

    def receive_private(self, frame: PrivateFrame, source: MemberId | None) -> None:
        """Takes a frame that `source` handed over (None: not known)."""
        if not self._is_of_peer(frame.member, source):
            self._port.drops["private_of_stranger"] += 1
            return
        if frame.to != self._port.me:
            # It is for somebody who was at this address before.
            self._port.drops["not_meant"] += 1
            return
        line = self._line(frame.member)
        line.incoming.receive(frame)
        # Also for what came twice: the receipt may have been lost.
        line.owes_receipt = True
        self.busy[frame.member] = None

    def receive_received(self, frame: Received, source: MemberId | None) -> None:
        if not self._is_of_peer(frame.member, source):
            self._port.drops["private_of_stranger"] += 1
            return
        line = self._line_by_peer.get(frame.member)
        if frame.to != self._port.me:
            self._port.drops["not_meant"] += 1
            return
        if line is None or frame.number > line.outgoing.last:
            self._port.drops["impossible_receipt"] += 1
            return
        self._acknowledge(line, frame.number)

    # -- from the membership -----------------------------------------------------------------------------------------------------

    def review(self) -> None:
        """Ends a turn: delivers what no longer waits, and says what was taken."""
        for peer in list(self.busy):
            line = self._line_by_peer[peer]
            before = line.incoming.taken
            self._deliver(peer, line)
            if line.owes_receipt or line.incoming.taken > before:
                line.owes_receipt = False
                self._port.send((peer,), Received(self._port.group, self._port.me, peer, line.incoming.taken))
            head = line.incoming.head
            if head is None:
                del self.busy[peer]
            elif self._port.options.multicast == "besteffort" and not line.patience:
                line.patience = True
                self._port.call_in(self._port.settings.parent_s, partial(self._stop_waiting, line))

    def on_view(self, view: View, starts: Mapping[MemberId, int]) -> None:
        """There is a new view, which begins after these numbers. To be called while `delivered_up_to` still knows the members of the old
        one: what those who are out had sent, and no longer waits, is delivered first; then comes back what did not reach them."""
        for peer in [peer for peer in self._line_by_peer if peer not in view]:
            self._part_with(peer)
        self._view, self._start_by_member = view, starts

    def close(self) -> None:
        """This member is out of the group: what was not acknowledged comes back."""
        for peer in list(self._line_by_peer):
            self._part_with(peer)
        self._view = None

    @property
    def under_way(self) -> int:
        """How many accepted messages are not acknowledged."""
        return sum(len(line.outgoing.letters) for line in self._line_by_peer.values())

    # -- lines -------------------------------------------------------------------------------------------------------------------

    def _check(self, to: MemberId, data: bytes) -> None:
        settings = self._port.settings
        if type(data) is not bytes:
            raise InvalidOption("data", type(data).__name__, "payloads are bytes")
        if len(data) > settings.message_bytes:
            raise TooLarge(len(data), settings.message_bytes)
        if to == self._port.me:
            raise InvalidOption("to", to, "a member has no need to write to itself")
        if self._view is None or to not in self._view:
            raise NotAMember(to)
        if not self._has_room(to):
            self._refused[to] = None
            raise WouldBlock(f"too many messages to {to} are not acknowledged")

    def _has_room(self, to: MemberId) -> bool:
        line = self._line_by_peer.get(to)
        settings = self._port.settings
        return self._bytes < settings.window_bytes and (line is None or len(line.outgoing.letters) < settings.private_messages)

    def _put(self, to: MemberId, data: bytes, kind: Tone, question: int) -> Letter:
        assert self._view is not None, "checked before"
        outgoing = self._line(to).outgoing
        outgoing.add(self._view.id, self._last_sent(), data, kind, question)
        self._bytes += len(data)
        return outgoing.letters[-1]

    def _line(self, peer: MemberId) -> _Line:
        line = self._line_by_peer.get(peer)
        if line is None:
            sent, taken, begun = self._away.pop(peer, (self._highest, 0, b""))
            line = self._line_by_peer[peer] = _Line(Outgoing(self._port, peer, sent), Incoming(taken, self._port.drops, begun))
        return line

    def _is_of_peer(self, member: MemberId, source: MemberId | None) -> bool:
        return source == member != self._port.me and self._view is not None and member in self._view

    def _acknowledge(self, line: _Line, number: int) -> None:
        done = line.outgoing.acknowledge(number)
        self._bytes -= sum(letter.size for letter in done)
        if done:
            self._room_was_made()

    def _room_was_made(self) -> None:
        if any(len(self._asked) < QUESTION_LIMIT if peer is None else self._has_room(peer) for peer in self._refused):
            self._refused.clear()
            self._port.tell(Writable())

    def _deliver(self, peer: MemberId, line: _Line) -> None:
        for frame, data in line.incoming.take(partial(self._is_ready, peer, line)):
            if frame.kind != "reply":
                self._port.tell(PrivateMessage(peer, data, frame.kind, frame.question))
                continue
            askees = self._asked.get(frame.question, {})
            letter = askees.pop(peer, None)
            if letter is None:
                self._port.drops["unasked_reply"] += 1
                continue
            # Who replies has taken the question, and all before it, even if the receipt was lost.
            self._acknowledge(line, letter.number)
            self._port.tell(PrivateMessage(peer, data, "reply", frame.question))
            if not askees:
                self.close_question(frame.question)

    def _is_ready(self, peer: MemberId, line: _Line, frame: PrivateFrame) -> bool:
        """Whether the group messages sent before this one have been delivered. Those from before the view have, as far as they ever will:
        it begins after them and after what is then synchronised. In a view that is not installed here, numbers mean nothing yet."""
        if self._view is None or frame.view > self._view.id:
            return False
        if frame.after <= self._start_by_member.get(peer, 0) and self._synchronised():
            return True
        return frame.after <= max(line.incoming.excused, self._delivered_up_to(peer))

    def _stop_waiting(self, line: _Line) -> None:
        line.patience = False
        line.incoming.excused = max(line.incoming.excused, line.incoming.latest)

    def _part_with(self, peer: MemberId) -> None:
        line = self._line_by_peer[peer]
        self._deliver(peer, line)
        del self._line_by_peer[peer]
        self.busy.pop(peer, None)
        lost = line.outgoing.abandon()
        self._bytes -= sum(letter.size for letter in lost)
        # An ask that was taken and not replied to is lost as well; one that is in both lists is lost once.
        for question in [question for question, askees in self._asked.items() if peer in askees]:
            askees = self._asked[question]
            lost.append(askees.pop(peer))
            if not askees:
                del self._asked[question]
        for letter in sorted(set(lost)):
            self._port.tell(Undelivered(peer, letter.number, letter.kind, letter.question))
        self._away[peer] = (line.outgoing.last, line.incoming.taken, line.incoming.begun)
        if len(self._away) > AWAY_LIMIT:
            sent, _, _ = self._away.pop(next(iter(self._away)))
            self._highest = max(self._highest, sent)
        # Whoever waits to write to it must learn that it is gone.
        if self._refused:
            self._refused.clear()
            self._port.tell(Writable())
