"""The sessions that have proven themselves, by where they are.

Promises: an address has one session, so that nothing recorded of a node before its restart is believed after it.
Keeps: 4,096 channels, each about 1.5 kB; when there are more, the one that has been silent longest is forgotten. If that one goes on, it
proves itself anew.
"""

from __future__ import annotations

from collections import Counter

from antiphon.model.ids import Address
from antiphon.runtime.security.channel import Channel
from antiphon.runtime.security.introductions import Peer
from antiphon.runtime.security.realm import Realm

SESSIONS = 4_096


class Sessions:
    def __init__(self, node_realm: Realm, drops: Counter[str]) -> None:
        self.by_source: dict[Address, dict[bytes, Channel]] = {}
        """Channels by address, then by key id and session: the sealer looks here for every datagram."""
        self._node_realm, self._drops = node_realm, drops
        self._peers: dict[tuple[Address, bytes], Peer] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def peer(self, source: Address, session: bytes) -> Peer | None:
        """With certificates: how this session introduced itself."""
        return self._peers.get((source, session))

    def name_at(self, source: Address) -> str | None:
        peers = (self._peers.get((source, channel.session)) for channel in self.by_source.get(source, {}).values())
        return next((peer.name for peer in peers if peer is not None), None)

    def trust(self, now: float, channel: Channel, peer: Peer | None = None) -> None:
        for old in tuple(self.by_source.get(channel.source, {}).values()):
            if old.session != channel.session:
                self.forget(old)
        if self._count >= SESSIONS:
            self._drops["too_many_sessions"] += 1
            self.forget(min((one for channels in self.by_source.values() for one in channels.values()), key=lambda one: one.used))
        self.by_source.setdefault(channel.source, {})[channel.key] = channel
        self._count += 1
        channel.used = now
        if peer is not None:
            self._peers[peer.source, peer.session] = peer

    def forget(self, channel: Channel) -> None:
        channels = self.by_source[channel.source]
        del channels[channel.key]
        self._count -= 1
        if not channels:
            del self.by_source[channel.source]
        if channel.realm is self._node_realm:
            self._peers.pop((channel.source, channel.session), None)
