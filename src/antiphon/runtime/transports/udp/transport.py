"""The transport: who gets what by which way. The package's docstring has the theory of operation.

Promises: a wire that arrives is one that was sent, whole, with the address of its sender; it may be lost, repeated and reordered. Nothing
waits and nothing raises once the transport is open. What is lost here is counted.

Keeps: two or three sockets, their buffers, and the bounded tables of its parts. Cost on loopback, to three nodes: a wire of 60 kB takes
13 µs to multicast and 24 µs to send to each, one of 1.4 kB 7 and 14; to receive one takes 7 and 4 µs.

How large a frame should be. Where a datagram takes 60 kB (loopback) a frame is one datagram. On Ethernet it is `PARTS` datagrams: a
frame of one would hold a dozen small messages, and what a frame costs above here (6 µs at each end in the core alone) would be shared by
that dozen only, beside 1 µs per 100 bytes that the link costs in any case (measured: 6 µs to send a kB and 4 to receive it, for frames
of 1 to 40 datagrams). A frame is lost with any of its parts, so more of them buy little and cost repairs: of four, a network that loses
one datagram in a thousand loses one frame in 250.
"""

from __future__ import annotations

import errno
import random
import socket
from collections import Counter
from collections.abc import Iterable, Sequence
from time import monotonic

from antiphon.errors import InvalidOption
from antiphon.model.ids import Address
from antiphon.runtime.transports.contract import WIRE_LIMIT, Take, address_of
from antiphon.runtime.transports.udp import datagram as d
from antiphon.runtime.transports.udp import endpoint
from antiphon.runtime.transports.udp.acquaintances import Acquaintances
from antiphon.runtime.transports.udp.audience import Audience, Audiences
from antiphon.runtime.transports.udp.group import MulticastGroup
from antiphon.runtime.transports.udp.inlet import Inlet
from antiphon.runtime.transports.udp.interface import ANY, ETHERNET_MTU, Interface, choose
from antiphon.runtime.transports.udp.outlet import Outlet
from antiphon.runtime.transports.udp.seeds import Seeds
from antiphon.runtime.transports.udp.socket_pair import granted, lost_in_kernel, open_unicast

MULTICAST = "239.255.65.80:26580"
"""Where nodes meet that are told nothing else: a group of the local scope, which routers do not pass on."""
FRAME_BYTES = 60_000
PARTS = 4
"""The most datagrams that a frame takes on a link with a small MTU."""
SEALING_BYTES = 256
"""Left free in a frame's last datagram for what sealing adds."""
_ADDRESSES = 4_096
"""Addresses whose meaning is remembered."""


class UdpTransport:
    lossless = False

    def __init__(
        self,
        bind: str = "0.0.0.0:0",
        *,
        seeds: Sequence[Address] = (),
        multicast: str | None = MULTICAST,
        interface: str | None = None,
        ttl: int = 1,
        loop: bool = True,
        datagram_bytes: int | None = None,
    ) -> None:
        """`multicast` is the group's address and port (None: none, only seeds). `interface` is a name or an address: where to multicast,
        and the address others are told if `bind` is for all. `ttl` is how many routers a multicast may pass, plus one; `loop` whether
        nodes on this machine hear it. `datagram_bytes` is for links whose MTU is smaller on the way than here."""
        self._bind = endpoint.read_numeric(bind, "bind")
        self._group_at = None if multicast is None else endpoint.read_numeric(multicast, "multicast")
        if self._group_at is not None and (not 224 <= int(self._group_at[0].split(".", 1)[0]) <= 239 or not self._group_at[1]):
            raise InvalidOption("multicast", multicast, f"give a group from 224.0.0.0 to 239.255.255.255 and a port, as in {MULTICAST}")
        if not 0 <= ttl <= 255:
            raise InvalidOption("ttl", ttl, "choose from 0, this machine, to 255; 1 is the local network")
        if datagram_bytes is not None and not d.DATAGRAM_MINIMUM <= datagram_bytes <= d.DATAGRAM_LIMIT:
            raise InvalidOption("datagram_bytes", datagram_bytes, f"choose from {d.DATAGRAM_MINIMUM} to {d.DATAGRAM_LIMIT:,}")
        self._seeds = Seeds(seeds)
        self._wanted_interface, self._ttl, self._loop_back = interface, ttl, loop
        self._wanted_bytes = datagram_bytes
        self.drops: Counter[str] = Counter()
        self.address = Address("")
        self.interface: Interface | None = None
        self.datagram_bytes = datagram_bytes or ETHERNET_MTU - 28
        self.frame_bytes = _frame_bytes(self.datagram_bytes)
        self._unicast: list[socket.socket] = []
        self._group: MulticastGroup | None = None
        self._outlet: Outlet | None = None
        self._inlet: Inlet | None = None
        rng = random.SystemRandom()
        self._audiences, self._acquaintances = Audiences(rng), Acquaintances()
        self._wire_id = rng.getrandbits(32)
        self._place_by_address: dict[Address, tuple[str, int] | None] = {}

    @property
    def seeds(self) -> tuple[Address, ...]:
        """Where the seeds are, as far as their names could be looked up."""
        return tuple(address_of(*place) for place in self._seeds.known)

    # -- opening and closing -----------------------------------------------------------------------------------------------------

    async def open(self, take: Take) -> None:
        """Raises OSError if the address cannot be bound, InvalidOption if there is no such interface. Without working multicast it opens
        too: it is tried again whenever there is something to send."""
        if self._unicast:
            raise OSError(errno.EISCONN, "the transport is open already: close it first, or make another")
        await self._seeds.look_up()
        host, port = self._bind
        self.interface = choose(host, self._wanted_interface, self._group_at)
        self._unicast = open_unicast(self.interface.address if host == ANY else host, port, everywhere=host == ANY)
        try:
            self._start(self._unicast[0], self.interface, take)
        except BaseException:
            await self.close()
            raise

    def _start(self, sending: socket.socket, interface: Interface, take: Take) -> None:
        self.address = address_of(*sending.getsockname())
        self.datagram_bytes = self._wanted_bytes or max(d.DATAGRAM_MINIMUM, interface.datagram_bytes)
        self.frame_bytes = _frame_bytes(self.datagram_bytes)
        self._outlet = Outlet(sending, self.drops, self._on_refused)
        inlet = self._inlet = Inlet(
            self.address, take, drops=self.drops, audiences=self._audiences, acquaintances=self._acquaintances, answer=self._outlet.put
        )
        for each in self._unicast:
            inlet.listen(each, by_multicast=False)
        if self._group_at is not None:
            self._group = MulticastGroup(*self._group_at, interface, ttl=self._ttl, loop=self._loop_back)
            inlet.listen(self._group.open(sending), by_multicast=True)
            if not self._group.joined:
                self._multicast_refused()

    async def close(self) -> None:
        """What waits in the queue is tried once more."""
        if self._inlet is not None:
            self._inlet.close()
        if self._outlet is not None:
            self._outlet.close()
        if self._group is not None:
            self._group.close()
        for each in self._unicast:
            each.close()
        self._unicast, self._inlet, self._outlet, self._group = [], None, None, None
        await self._seeds.close()

    # -- sending -----------------------------------------------------------------------------------------------------------------

    def send(self, to: tuple[Address, ...], wire: bytes) -> None:
        outlet = self._outlet
        if outlet is None or len(wire) > WIRE_LIMIT:
            self.drops["closed" if outlet is None else "wire_oversized"] += len(to)
            return
        rest = to
        if len(to) > 1 and self._group is not None:
            now = monotonic()
            if self._group.resume(now, self._unicast[0]):
                rest = self._send_to_audience(now, to, wire)
        elif len(to) == 1:
            self._acquaintances.address(to[0])
        if rest:
            self._send_to_each(rest, wire)

    def broadcast(self, wire: bytes) -> None:
        outlet = self._outlet
        if outlet is None or len(wire) > WIRE_LIMIT:
            self.drops["closed" if outlet is None else "wire_oversized"] += 1
            return
        now = monotonic()
        by_multicast = self._group is not None and self._group.resume(now, self._unicast[0]) and self._multicast(wire, d.EVERYBODY)
        self._seeds.look_again()
        others = dict.fromkeys(address_of(*place) for place in self._seeds.known) | self._acquaintances.met
        others.pop(self.address, None)
        if others:
            self._send_to_each(others, wire)
        elif not by_multicast:
            self.drops["nobody_to_ask"] += 1

    def _send_to_audience(self, now: float, to: tuple[Address, ...], wire: bytes) -> tuple[Address, ...]:
        """Multicasts to those who hear; returns those who need their own copies."""
        audience = self._audiences.of(now, to)
        if audience is None:
            return to
        if audience.is_call_due(now) and not self._call(audience):
            return to
        if audience.hearing(now) < 2 or not self._multicast(wire, audience.number):
            return to
        return audience.deaf(now)

    def _call(self, audience: Audience) -> bool:
        places = [place for place in map(self._place, audience.members) if place is not None]
        calls = d.roll_calls(audience.number, [endpoint.pack(place) for place in places], self.datagram_bytes)
        return self._put_to_group(calls)

    def _multicast(self, wire: bytes, audience: int) -> bool:
        return self._put_to_group(d.write(wire, self.datagram_bytes, audience, self._next_wire_id()))

    def _put_to_group(self, datagrams: Sequence[bytes]) -> bool:
        """Sends to the group; False if the system refuses."""
        group, outlet = self._group, self._outlet
        assert group is not None, "only asked of a transport that multicasts"
        assert outlet is not None, "only asked of an open transport"
        for datagram in datagrams:
            if not outlet.put(datagram, group.endpoint):
                self._multicast_refused()
                return False
            group.sent += 1
        group.worked()
        return True

    def _send_to_each(self, to: Iterable[Address], wire: bytes) -> None:
        outlet = self._outlet
        assert outlet is not None, "only asked of an open transport"
        datagrams = d.write(wire, self.datagram_bytes, d.EVERYBODY, self._next_wire_id())
        for address in to:
            place = self._place(address)
            if place is None:
                self.drops["bad_address"] += 1
            elif address != self.address:
                for datagram in datagrams:
                    outlet.put(datagram, place)

    def _next_wire_id(self) -> int:
        self._wire_id = (self._wire_id + 1) & 0xFFFFFFFF
        return self._wire_id

    def _place(self, address: Address) -> tuple[str, int] | None:
        try:
            return self._place_by_address[address]
        except KeyError:
            if len(self._place_by_address) >= _ADDRESSES:
                self._place_by_address.clear()
            place = self._place_by_address[address] = endpoint.where(address)
            return place

    def _on_refused(self, place: tuple[str, int]) -> None:
        if self._group is not None and place == self._group.endpoint:
            self._multicast_refused()

    def _multicast_refused(self) -> None:
        assert self._group is not None, "only asked of a transport that multicasts"
        self.drops["multicast_refused"] += 1
        self._group.refused(monotonic())
        self._audiences.silence()
        self._acquaintances.forget_multicast()

    # -- watching ----------------------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, object]:
        now, inlet, outlet, group = monotonic(), self._inlet, self._outlet, self._group
        if inlet is None or outlet is None:
            return {"state": "closed", "drops": dict(sorted(self.drops.items()))}
        receive_buffer, send_buffer = granted(self._unicast[0])
        lost = sum(lost_in_kernel(each) for each in self._unicast) + (group.lost_in_kernel() if group is not None else 0)
        return {
            "state": "open",
            "address": self.address,
            "interface": self.interface.name if self.interface is not None else "",
            "datagram_bytes": self.datagram_bytes,
            "frame_bytes": self.frame_bytes,
            "receive_buffer_bytes": receive_buffer,
            "send_buffer_bytes": send_buffer,
            "sent_datagrams": outlet.sent_datagrams,
            "sent_bytes": outlet.sent_bytes,
            "send_queue_bytes": outlet.waiting_bytes,
            "received_datagrams": inlet.received_datagrams,
            "received_bytes": inlet.received_bytes,
            "reassembly": inlet.reassembly.stats(),
            "multicast": {**group.stats(now), **self._audiences.stats(now)} if group is not None else {"state": "off"},
            "seeds": {"known": len(self._seeds.known), "unknown": len(self._seeds.unknown)},
            "met": len(self._acquaintances.met),
            "drops": {**dict(sorted(self.drops.items())), **({"kernel_buffer_full": lost} if lost else {})},
        }


def _frame_bytes(datagram_bytes: int) -> int:
    if datagram_bytes >= FRAME_BYTES + SEALING_BYTES + d.PART_OVERHEAD:
        return FRAME_BYTES
    return min(FRAME_BYTES, PARTS * (datagram_bytes - d.PART_OVERHEAD) - SEALING_BYTES)
