"""Receiving: many datagrams per wake-up, opened, sorted by source and handed on.

Promises: whatever the bytes, nothing is raised; what is no wire for this node is dropped and counted. The wires of one source are handed
on in the order in which they came, all of one turn together, because each call has its price further up.

Cost, with the wake-ups shared by many: 4 µs per small datagram, 7 µs per 60 kB; 25 µs where the C library gives the memory of every such
wire back to the system and fetches it again (glibc: set MALLOC_TOP_PAD_ and MALLOC_TRIM_THRESHOLD_ to some megabytes).
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import Counter
from collections.abc import Callable
from time import monotonic

from antiphon.errors import BadFrame
from antiphon.model.ids import Address
from antiphon.runtime.transports.contract import Take, address_of
from antiphon.runtime.transports.udp import datagram as d
from antiphon.runtime.transports.udp import endpoint
from antiphon.runtime.transports.udp.acquaintances import Acquaintances
from antiphon.runtime.transports.udp.audience import Audiences, Invitations
from antiphon.runtime.transports.udp.reassembly import Reassembly

READS = 64
"""Datagrams taken from a socket before others have their turn."""
_READ_BYTES = 65_536
_EXPIRE_S = 0.5
_PLACES = 4_096
"""Places whose spelling is remembered."""


class Inlet:
    def __init__(
        self,
        address: Address,
        take: Take,
        *,
        drops: Counter[str],
        audiences: Audiences,
        acquaintances: Acquaintances,
        answer: Callable[[bytes, tuple[str, int]], object],
    ) -> None:
        self.address, self._take, self._drops, self._answer = address, take, drops, answer
        self._audiences, self._acquaintances, self._invitations = audiences, acquaintances, Invitations()
        self.reassembly = Reassembly(drops)
        self.received_datagrams = self.received_bytes = 0
        place = endpoint.where(address)
        assert place is not None, f"a bound socket has an address: {address}"
        self._me = endpoint.pack(place)
        self._address_by_place: dict[tuple[str, int], Address] = {}
        self._listening: list[socket.socket] = []
        self._expiry: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def listen(self, sock: socket.socket, *, by_multicast: bool) -> None:
        self._listening.append(sock)
        self._loop.add_reader(sock.fileno(), self._on_readable, sock, by_multicast)

    def close(self) -> None:
        """The sockets are their owners' to close."""
        for each in self._listening:
            self._loop.remove_reader(each.fileno())
        self._listening.clear()
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _on_readable(self, readable: socket.socket, by_multicast: bool) -> None:
        wires_by_source: dict[Address, list[bytes]] = {}
        address_by_place, receive = self._address_by_place, readable.recvfrom
        for _ in range(READS):
            try:
                datagram, place = receive(_READ_BYTES)
            except BlockingIOError:
                break
            except OSError as error:  # news of something sent earlier
                self._drops[f"receive_{errno.errorcode.get(error.errno or 0, 'failed').lower()}"] += 1
                break
            self.received_datagrams += 1
            self.received_bytes += len(datagram)
            source = address_by_place.get(place) or self._spell(place)
            if source == self.address:
                self._drops["own"] += 1
                continue
            if datagram and datagram[0] != d.MARK:
                wire = datagram
            else:
                opened = self._open(datagram, place, source, by_multicast)
                if opened is None:
                    continue
                wire = opened
            wires = wires_by_source.get(source)
            if wires is not None:
                wires.append(wire)
                continue
            wires_by_source[source] = [wire]
            if by_multicast:
                self._acquaintances.hear_by_multicast(source)
            else:
                self._acquaintances.hear(source)
        for source, wires in wires_by_source.items():
            if not self._listening:
                self._drops["closed"] += len(wires)  # by what was handed on before
            else:
                self._take(source, wires)

    def _open(self, datagram: bytes, place: tuple[str, int], source: Address, by_multicast: bool) -> bytes | None:
        """The wire that a datagram with a header carries or completes, if any."""
        try:
            said = d.read(datagram)
        except BadFrame as bad:
            self._drops[bad.reason] += 1
            return None
        if isinstance(said, d.Whole):
            return said.wire
        if isinstance(said, d.RollCall):
            self._hear_call(said, place, source, by_multicast)
            return None
        if isinstance(said, d.Present):
            if by_multicast or not self._audiences.heard(monotonic(), said.audience, source):
                self._drops["present_uncalled"] += 1
            return None
        if said.audience != d.EVERYBODY and not (by_multicast and self._invitations.include(source, said.audience)):
            self._drops["not_for_this_node"] += 1
            return None
        return said.wire if isinstance(said, d.Addressed) else self._add_part(source, said)

    def _hear_call(self, call: d.RollCall, place: tuple[str, int], source: Address, by_multicast: bool) -> None:
        if not by_multicast:
            self._drops["call_by_unicast"] += 1  # to answer would say that multicasts are heard
        elif self._me in call.endpoints:
            self._invitations.accept(source, call.audience)
            self._answer(d.present(call.audience), place)

    def _add_part(self, source: Address, part: d.Part) -> bytes | None:
        wire = self.reassembly.add(monotonic(), source, part)
        self._expire_later()
        return wire

    def _expire(self) -> None:
        self._expiry = None
        self.reassembly.expire(monotonic())
        self._expire_later()

    def _expire_later(self) -> None:
        if self._expiry is None and self.reassembly.held:
            self._expiry = self._loop.call_later(_EXPIRE_S, self._expire)

    def _spell(self, place: tuple[str, int]) -> Address:
        if len(self._address_by_place) >= _PLACES:
            self._address_by_place.clear()
        address = self._address_by_place[place] = address_of(*place)
        return address
