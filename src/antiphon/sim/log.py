"""What happened at each member, in its own order: the only thing the oracles look at.

A log belongs to one incarnation of one member. Times are the world's virtual time, so two events of one turn have the same time.
"""

from __future__ import annotations

import zlib
from typing import TypeAlias

from msgspec import Struct

from antiphon.model.control import Holdings
from antiphon.model.frames import Batch
from antiphon.model.ids import MemberId, MessageId
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint
from antiphon.protocol.multicast.reliable import Reliable


class Sent(Struct, frozen=True):
    """The application sent `id`; it answers or follows `names` (the answered one first; `answers` says whether there is one)."""

    at: float
    id: MessageId
    names: tuple[MessageId, ...] = ()
    answers: bool = False
    payload_hash: int = 0


class Received(Struct, frozen=True):
    """The ordering accepted `id` (own messages too). From here on, waiting is hold-back."""

    at: float
    id: MessageId


class Delivered(Struct, frozen=True):
    """The application got `id`; `lost` names the parents that it was told are lost for good. `view` is the id of the view in which the
    message was sent; `recovered` messages came by synchronisation, from another side or from before the member's time."""

    at: float
    id: MessageId
    payload_hash: int = 0
    lost: tuple[MessageId, ...] = ()
    view: int = 0
    recovered: bool = False


class Viewed(Struct, frozen=True):
    """The view became `view`; `previous` is the id of the one before (0: none). `sides` as in `Installed`."""

    at: float
    view: View
    previous: int = 0
    sides: tuple[tuple[MemberId, ...], ...] = ()


class Missed(Struct, frozen=True):
    """The application was told that these messages are lost to it: flat ranges by sender."""

    at: float
    lost: Holdings


class Adopted(Struct, frozen=True):
    """The application was given a state that stands for these messages: flat ranges by sender."""

    at: float
    have: Holdings


class SentPrivately(Struct, frozen=True):
    """The application sent number `number` to `to` alone, after its group messages up to `after`."""

    at: float
    to: MemberId
    number: int
    after: int
    payload_hash: int = 0


class GotPrivately(Struct, frozen=True):
    at: float
    sender: MemberId
    payload_hash: int = 0


class Returned(Struct, frozen=True):
    """The application was told that its private message `number` to `to` cannot arrive."""

    at: float
    to: MemberId
    number: int


LogEvent: TypeAlias = Sent | Received | Delivered | Viewed | Missed | Adopted | SentPrivately | GotPrivately | Returned


class MemberLog(Struct):
    """The life of one incarnation. `crashed_at` is None while it lives. `stable` maps a sender to the highest seqno that every
    member of the view was known to hold when this one crashed, and `stable_records` does so for the numbers of the sender's record
    stream (an agreed group judges a crashed member only up to there; a total order needs the record as well as the message)."""

    member: MemberId
    events: list[LogEvent]
    crashed_at: float | None = None
    stable: dict[MemberId, int] = {}
    stable_records: dict[MemberId, int] = {}
    departed_at: float | None = None
    """When it was out of the group: it had left, or could not come in."""

    def received(self, now: float, batch: Batch, low: int, high: int) -> None:
        """The ordering accepted messages `low … high` of a batch."""
        sender, append = batch.sender, self.events.append
        for seqno in range(low, high + 1):
            append(Received(now, MessageId(sender, seqno)))

    def crash(self, now: float, endpoint: Endpoint | None) -> None:
        """The member died; what was stable then is asked of its endpoint."""
        self.crashed_at = now
        if endpoint is not None:
            multicast = endpoint.multicast
            self.stable = multicast.stable_positions()
            if isinstance(multicast, Reliable) and endpoint.ordering.makes_records:
                self.stable_records = {sender: stream.stable for sender, stream in multicast.record_streams.items()}


def hash_of(payload: bytes) -> int:
    """The hash of a payload that logs carry: the same in every process."""
    return zlib.crc32(payload)
