"""besteffort: one copy to each member, no repair; and what every multicast shares: sending, fragments, no duplicates.

Keeps per sender which numbers arrived, as at most 256 ranges: then the lowest gap is given up, and what comes for it later is
dropped as late. Half-arrived messages are bounded in bytes. There is no credit to run out of: nobody knows who has what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from antiphon.errors import BadFrame
from antiphon.model import codec
from antiphon.model.events import Why
from antiphon.model.frames import Batch, Digest, Fragment, Nack, Record, Stamp
from antiphon.model.ids import MemberId, MessageId
from antiphon.model.view import View
from antiphon.protocol.multicast.stream import Stream
from antiphon.protocol.stage import Context, OnAccept, Ordering

_RANGES_LIMIT = 256
_UNLIMITED = 1 << 30


class BestEffort:
    def __init__(self, context: Context, ordering: Ordering, on_accept: OnAccept | None) -> None:
        self.context, self.ordering, self.settings = context, ordering, context.settings
        self.me, self.drops, self.sends = context.me, context.drops, context.outbox.sends
        self.frames_sent = 0
        self.accept = self._accepting(on_accept)
        self.handlers: dict[type, Callable[[Any, bytes, MemberId | None], None]] = {
            **dict.fromkeys((Record, Digest, Nack), self.receive_unexpected),
            Batch: self.receive_batch,
            Fragment: self.receive_fragment,
        }
        self.data: dict[MemberId, Stream] = {
            member: Stream(rank, member, context.cut.get(member, 0)) for rank, member in enumerate(context.view.members)
        }
        self.mine = self.data[self.me]

    # -- sending ---------------------------------------------------------------------------------------------------------------

    def cast(self, batch: Batch) -> None:
        """Sends the batch to every other member and to the own ordering."""
        wire = codec.encode(batch)
        stream = self.mine
        stream.high = stream.top = stream.known = last = batch.last
        wires = (wire,) if len(wire) <= self.settings.frame_bytes else self._fragments(batch, wire)
        self.keep(stream, batch.first, last, wires)
        for part in wires:
            self.send(part)
        self.accept(batch, batch.first, last)

    def send(self, wire: bytes) -> None:
        """Puts an own frame on its way."""
        self.sends.append((None, wire))
        self.frames_sent += 1

    def keep(self, stream: Stream, first: int, last: int, wires: Sequence[bytes]) -> None:
        """Keeps a frame for repairs: here, not."""

    def cast_record(self, count: int, body: Stamp) -> None:
        raise AssertionError("an ordering that makes records was put over besteffort; the registry refuses that")

    def record_room(self) -> int:
        return 0

    def _fragments(self, batch: Batch, wire: bytes) -> tuple[bytes, ...]:
        room = self.settings.frame_bytes - 64 - len(self.me) - len(batch.group)
        pieces = [wire[at : at + room] for at in range(0, len(wire), room)]
        return tuple(
            codec.encode(Fragment(batch.group, self.me, batch.view, batch.first, index, len(pieces), piece))
            for index, piece in enumerate(pieces)
        )

    # -- receiving -------------------------------------------------------------------------------------------------------------

    def receive_batch(self, batch: Batch, wire: bytes, source: MemberId | None) -> None:
        stream = self.data.get(batch.sender)
        if stream is None or stream is self.mine:
            self.drops["not_a_member" if stream is None else "own_frame"] += 1
            return
        reason = None if batch.parents is None and batch.stamp is None else self.ordering.refuses(batch)
        if reason is not None:
            self.drops[reason] += 1
        else:
            fresh = stream.take(batch.first, batch.last)
            if not fresh:
                self.drops["duplicate"] += 1
            if len(stream.above) > _RANGES_LIMIT:
                stream.high = stream.above.pop_up_to(stream.above.lows[0] - 1)
            for low, high in fresh:
                self.accept(batch, low, high)

    def receive_fragment(self, fragment: Fragment, wire: bytes, source: MemberId | None) -> None:
        stream = self.data.get(fragment.sender)
        if stream is None or stream is self.mine:
            self.drops["not_a_member" if stream is None else "own_frame"] += 1
        elif self.add_part(stream, fragment, wire):
            whole = self.assembled(stream, fragment.first)
            if whole is not None:
                self.receive_batch(whole[0], wire, source)

    def receive_unexpected(self, frame: Record | Digest | Nack, wire: bytes, source: MemberId | None) -> None:
        """Takes a frame that only the other kinds of multicast use."""
        self.drops["unexpected_frame"] += 1

    def add_part(self, stream: Stream, fragment: Fragment, wire: bytes) -> bool:
        """Keeps a part of a message; False when it was here already."""
        first = fragment.first
        if first <= stream.high or first in stream.above:
            self.drops["duplicate"] += 1
            return False
        new, abandoned = stream.add_part(fragment, wire, self.settings.reassembly_bytes)
        if abandoned:
            self.drops["abandoned_fragment"] += abandoned
        if not new:
            self.drops["duplicate"] += 1
        return new

    def assembled(self, stream: Stream, number: int) -> tuple[Batch, list[bytes]] | None:
        """The message and its frames, once the last part is here."""
        count, by_index = stream.parts[number]
        if len(by_index) < count:
            return None
        wires = [by_index[index] for index in range(count)]
        stream.drop_parts(number)
        try:
            whole = b"".join(codec.decode(wire).part for wire in wires)  # type: ignore[union-attr]
            batch = codec.decode(whole, self.settings.message_bytes + self.settings.frame_bytes)
        except BadFrame as bad:
            self.drops[bad.reason] += 1
            return None
        if type(batch) is not Batch or batch.sender != stream.sender or batch.first != number or batch.last != number:
            self.drops["malformed"] += 1
            return None
        return batch, wires

    def _accepting(self, on_accept: OnAccept | None) -> OnAccept:
        accept = self.ordering.accept
        if on_accept is None:
            return accept
        watch = on_accept

        def watched(batch: Batch, low: int, high: int) -> None:
            watch(batch, low, high)
            accept(batch, low, high)

        return watched

    # -- the turn, the view ----------------------------------------------------------------------------------------------------

    def release(self) -> bool:
        """Hands up what has become safe; whether there was any."""
        return False

    def flush(self) -> None:
        """The turn ends."""

    def before_view(self, previous: View) -> None:
        """Hands up whatever is held back only because of the old view."""

    def on_view(self, view: View, previous: View, cut: dict[MemberId, int]) -> None:
        old = self.data
        self.data = {}
        for rank, member in enumerate(view.members):
            stream = old.get(member) or Stream(rank, member, cut.get(member, 0))
            stream.index = rank
            self.data[member] = stream

    # -- questions -------------------------------------------------------------------------------------------------------------

    def credit(self, last: int) -> int:
        """How many messages may be sent after number `last`."""
        return _UNLIMITED

    def congestion(self) -> str:
        return "the group is congested"

    def want(self, ids: Iterable[MessageId]) -> None:
        """Asks for messages: here, in vain."""

    def repairs(self) -> bool:
        """Whether a missing message can still come."""
        return False

    def level(self) -> bool:
        """Whether nothing is known to be missing here."""
        return True

    def positions(self) -> dict[MemberId, int]:
        """How far each sender's messages are here without a gap."""
        return {member: stream.high for member, stream in self.data.items()}

    def stable_positions(self) -> dict[MemberId, int]:
        """How far every member of the view is known to have each sender's messages."""
        return {}

    def why(self, message: MessageId) -> Why:
        stream = self.data.get(message.sender)
        if stream is None:
            return Why("unknown", "is of a sender that is not in the view")
        if message.seqno <= stream.high or message.seqno in stream.above:
            return Why("delivered", "was delivered here")
        if message.seqno <= stream.known:
            return Why("missing", "was sent, did not arrive, and is not asked for: the group is besteffort", (message,))
        return Why("unknown", "has not been heard of")

    def stats(self) -> dict[str, object]:
        return {"frames_sent": self.frames_sent}
