"""besteffort: one copy to each member, no repair.

Keeps per sender which numbers arrived, as at most 256 ranges: then the lowest gap is given up, and what comes for it later is
dropped as a duplicate. Half-arrived messages are bounded in bytes. There is no credit to run out of: nobody knows who has what.
"""

from __future__ import annotations

from antiphon.model.events import Why
from antiphon.model.frames import Batch, Fragment
from antiphon.model.ids import MemberId, MessageId
from antiphon.protocol.multicast.multicast import Multicast

_RANGES_LIMIT = 256
_UNLIMITED = 1 << 30


class BestEffort(Multicast):
    def receive_batch(self, batch: Batch, wire: bytes, source: MemberId | None) -> None:
        stream = self.stream_of(batch)
        if stream is None or self.refused(batch):
            return
        self.adopt(batch.sent_at)
        fresh = stream.take(batch.first, batch.last)
        if not fresh:
            self.drops["duplicate"] += 1
        if len(stream.above) > _RANGES_LIMIT:
            stream.high = stream.above.pop_up_to(stream.above.lows[0] - 1)
        for low, high in fresh:
            self.accept(batch, low, high)

    def receive_fragment(self, fragment: Fragment, wire: bytes, source: MemberId | None) -> None:
        stream = self.stream_of(fragment)
        if stream is not None and self.add_part(stream, fragment, wire):
            whole = self.assembled(stream, fragment.first)
            if whole is not None:
                self.receive_batch(whole[0], wire, source)

    def credit(self, last: int) -> int:
        return _UNLIMITED

    def congestion(self) -> str:
        return "the view is changing"

    def why(self, message: MessageId) -> Why:
        stream = self.data.get(message.sender)
        if stream is not None and stream.high < message.seqno <= stream.known and message.seqno not in stream.above:
            return Why("missing", "was sent, did not arrive, and is not asked for: the group is besteffort", (message,))
        return super().why(message)

    def why_here(self) -> Why:
        return Why("delivered", "was delivered here, or lost so long ago that it is given up")
