"""flood: whoever receives a frame for the first time sends it on to everyone else, then hands it up.

A frame reaches every member that any path of working links reaches, at the price of (n − 1)² frames per batch for n members;
repair as in `reliable` for what every copy lost. Digests and requests are not sent on: a member whose digests do not reach a sender
stops that sender's credit after a window, though the messages reach it.
"""

from __future__ import annotations

from antiphon.model.ids import MemberId
from antiphon.protocol.multicast.reliable import Reliable
from antiphon.protocol.multicast.stream import Stream


class Flood(Reliable):
    forwards = True

    def forward(self, stream: Stream, wire: bytes, source: MemberId | None) -> None:
        others = tuple(member for member in self.data if member not in (self.me, source, stream.sender))
        if others:
            self.frames_sent += len(others)
            self.sends.append((others, wire))
