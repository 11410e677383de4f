"""What happened at each member, in its own order: the only thing the oracles look at.

A log belongs to one incarnation of one member. Times are the world's virtual time, so two events of one turn have the same time.
"""

from __future__ import annotations

import zlib
from typing import TypeAlias

from msgspec import Struct

from antiphon.model.ids import MemberId, MessageId
from antiphon.model.view import View


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
    """The application got `id`; `lost` names the parents that it was told are lost for good."""

    at: float
    id: MessageId
    payload_hash: int = 0
    lost: tuple[MessageId, ...] = ()


class Viewed(Struct, frozen=True):
    """The view became `view`."""

    at: float
    view: View


LogEvent: TypeAlias = Sent | Received | Delivered | Viewed


class MemberLog(Struct):
    """The life of one incarnation. `crashed_at` is None while it lives. `stable` maps a sender to the highest seqno that every
    member of the view was known to hold when this one crashed, and `stable_records` does so for the numbers of the sender's record
    stream (an agreed group judges a crashed member only up to there; a total order needs the record as well as the message)."""

    member: MemberId
    events: list[LogEvent]
    crashed_at: float | None = None
    stable: dict[MemberId, int] = {}
    stable_records: dict[MemberId, int] = {}


def hash_of(payload: bytes) -> int:
    """The hash of a payload that logs carry: the same in every process."""
    return zlib.crc32(payload)
