"""Ways around broken links: frames that go through a third node.

A member that is silent is asked for through others (`Enquire`). If only they hear it, the two ends send to each other through one that
does (`Detour`, `Relay`), until a direct ping is answered again. So a link that fails in one direction, or between two nodes only,
looks to the groups as if it worked, only slower. A relay sends on by its own routes, so a way may have several hops, at most `HOPS`.

Keeps one entry per broken link, at most `ROUTES_LIMIT`; one over which nothing was sent for twice `seek_max_s` leads to somebody who is
gone, and is forgotten. Costs nothing while there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from antiphon.model import codec
from antiphon.model.control import Detour, Ping, Pong, Relay
from antiphon.model.ids import Address, GroupId, MemberId
from antiphon.model.options import Settings
from antiphon.protocol.timers import Timers

HOPS = 4
ROUTES_LIMIT = 4_096
_DIRECT = GroupId("")
_NOBODY = MemberId("")
"""The group and member of a ping that asks about the link itself."""


Put: TypeAlias = Callable[[Address, bytes, GroupId | None], None]
"""Puts a frame on the link to a node; the group is the one that it is about."""


class Routes:
    def __init__(self, address: Address, settings: Settings, timers: Timers, put: Put) -> None:
        self.address, self._settings, self._timers, self._put = address, settings, timers, put
        self.through: dict[Address, Address] = {}
        """Where frames to a node go instead."""
        self.relayed = 0
        """Frames sent on for others."""
        self._checking = False
        self._used: dict[Address, int] = {}
        """For each way around: so many checks ago something was last sent over it."""
        self._unused_limit = max(round(2 * settings.seek_max_s / settings.suspect_s), 1)

    def send(self, to: Address, wire: bytes, group: GroupId | None) -> None:
        """Sends a frame of a group to a node, around what is broken."""
        through = self.through.get(to)
        if through is None:
            self._put(to, wire, group)
        else:
            self._used[to] = 0
            self._put(through, codec.encode(Relay(self.address, to, HOPS, wire)), group)

    def go_through(self, now: float, to: Address, through: Address) -> None:
        """From now on, to and from `to` through another node, which hears both."""
        if to == through or len(self.through) >= ROUTES_LIMIT:
            return
        self.through[to] = through
        self.send(to, codec.encode(Detour(through)), None)
        self._check_later(now)

    def receive_detour(self, now: float, frame: Detour, source: Address) -> None:
        """`source` does not hear this node, or does again."""
        if not frame.through:
            self._forget(source)
        elif frame.through not in (source, self.address) and len(self.through) < ROUTES_LIMIT:
            self.through[source] = frame.through
            self._used[source] = 0
            self._check_later(now)

    def receive_relay(self, frame: Relay, group: GroupId | None) -> bool:
        """Whether the relayed frame, which is of a group, is for this node; otherwise it is sent on. One that claims to come from this node
        is forged, or has gone in a circle."""
        if frame.origin == self.address:
            return False
        if frame.to == self.address:
            return True
        if frame.hops > 0:
            self.relayed += 1
            onward = codec.encode(Relay(frame.origin, frame.to, frame.hops - 1, frame.wire))
            self._put(self.through.get(frame.to, frame.to), onward, group)
        return False

    def receive_pong(self, frame: Pong, source: Address) -> bool:
        """Whether the answer was about a link: it works again."""
        if frame.group != _DIRECT:
            return False
        if self._forget(source):
            self._put(source, codec.encode(Detour(Address(""))), None)
        return True

    def _forget(self, to: Address) -> bool:
        self._used.pop(to, None)
        return self.through.pop(to, None) is not None

    def _check_later(self, now: float) -> None:
        if not self._checking and self.through:
            self._checking = True
            self._timers.at(now + self._settings.suspect_s, lambda: self._check(now + self._settings.suspect_s))

    def _check(self, now: float) -> None:
        self._checking = False
        for to in list(self.through):
            self._used[to] = self._used.get(to, 0) + 1
            if self._used[to] > self._unused_limit:
                self._forget(to)
            else:
                self._put(to, codec.encode(Ping(0, _DIRECT, _NOBODY, 0)), None)
        self._check_later(now)
