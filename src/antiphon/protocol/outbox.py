"""What must happen outside after an input, in one ordered place.

A driver drains it after each input, or after all inputs of one turn of its loop: durable writes, then sends, then events. User
code can therefore never re-enter a half-finished step.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from antiphon.model.events import Event
from antiphon.model.ids import MemberId

Destination: TypeAlias = tuple[MemberId, ...] | None
"""To whom: these members, or (None) every other member of the view, one datagram where the transport has IP multicast."""


class Effects(NamedTuple):
    """One drained outbox."""

    writes: list[bytes]
    sends: list[tuple[Destination, bytes]]
    events: list[Event]


class Outbox:
    """The lists keep their identity for the endpoint's life, so a stage may hold on to `events.append`."""

    __slots__ = ("events", "sends", "writes")

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.sends: list[tuple[Destination, bytes]] = []
        self.events: list[Event] = []

    def drain(self) -> Effects:
        effects = Effects(self.writes[:], self.sends[:], self.events[:])
        self.writes.clear()
        self.sends.clear()
        self.events.clear()
        return effects
