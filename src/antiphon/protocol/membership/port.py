"""What the parts of a membership are given: who they are, the time, chance, timers, and a way out.

Several parts share one port: agreement on views, failure detection, synchronisation, private messages. Like stages, they open no
socket and read no clock; what must happen outside is collected here and drained after each turn.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable

from antiphon.model import codec
from antiphon.model.events import Event
from antiphon.model.ids import Address, GroupId, MemberId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import MEMBER_LIMIT, View
from antiphon.protocol.timers import Timer, Timers

_ADDRESSES_LIMIT = 4 * MEMBER_LIMIT


class Port:
    def __init__(self, me: MemberId, group: GroupId, options: GroupOptions, settings: Settings, rng: random.Random, now: float) -> None:
        self.me, self.group = me, group
        self.options, self.settings = options, settings
        self.rng, self.now = rng, now
        self.timers = Timers()
        self.drops: Counter[str] = Counter()
        """Everything that was dropped, by reason."""
        self.view: View | None = None
        """The installed view; None before the first."""
        self.address_by_member: dict[MemberId, Address] = {}
        """Where the members of the view are, and those who take part in a change; of those who took part in others that came to nothing,
        too, but no more than `_ADDRESSES_LIMIT` in all."""
        self.sends: list[tuple[tuple[Address, ...] | None, bytes]] = []
        """Frames with where they go; None is everywhere."""
        self.events: list[Event] = []

    def call_in(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return self.timers.at(self.now + seconds, callback)

    def tell(self, event: Event) -> None:
        """Hands an event to the application, after everything told before."""
        self.events.append(event)

    def send(self, members: Iterable[MemberId], frame: codec.Frame) -> None:
        """Sends a frame to these members, as far as it is known where they are."""
        addresses = tuple(self.address_by_member[member] for member in members if member != self.me and member in self.address_by_member)
        self.send_to(addresses, codec.encode(frame))

    def learn(self, seats: dict[MemberId, Address]) -> None:
        """These take part in a change."""
        self.address_by_member |= seats
        if len(self.address_by_member) > _ADDRESSES_LIMIT:
            needed = {*(self.view.members if self.view is not None else ()), *seats}
            self.address_by_member = {member: address for member, address in self.address_by_member.items() if member in needed}

    def broadcast(self, frame: codec.Frame) -> None:
        """Sends a frame to every other member of the view."""
        if self.view is not None:
            self.send(self.view.members, frame)

    def send_to(self, addresses: tuple[Address, ...], wire: bytes) -> None:
        if addresses:
            self.sends.append((addresses, wire))

    def announce(self, wire: bytes) -> None:
        """Sends a frame to every node there is."""
        self.sends.append((None, wire))
