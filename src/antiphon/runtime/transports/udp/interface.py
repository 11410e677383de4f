"""Which network interface a node uses, its address and its MTU.

Chosen by name or address if the caller does; else the one that has the address the node is bound to; else the one through which the
system would send to the multicast group; else, where no route leads there, the first that is up; else loopback, so that nodes on one
machine meet without a network.

Linux tells every interface with its address, index and MTU. Elsewhere the address is all that is asked for, the MTU is taken for
Ethernet's, and an interface is chosen by its address.
"""

from __future__ import annotations

import socket
import struct
import sys

from msgspec import Struct, structs

from antiphon.errors import InvalidOption
from antiphon.runtime.transports.udp.datagram import DATAGRAM_LIMIT
from antiphon.runtime.transports.udp.endpoint import is_numeric

ETHERNET_MTU = 1_500
ANY = "0.0.0.0"
_IP_AND_UDP_HEADERS = 28
_LOOPBACK_MTU_ELSEWHERE = 9_216
"""What BSD systems allow for a datagram."""
_SIOCGIFCONF, _SIOCGIFFLAGS, _SIOCGIFMTU = 0x8912, 0x8913, 0x8921
_UP = 0x1
_NAME_BYTES = 16
_IFREQ_BYTES = 40 if struct.calcsize("P") == 8 else 32
_INTERFACES_LIMIT = 4_096


class Interface(Struct, frozen=True):
    name: str
    address: str
    index: int
    """0 where the system does not tell."""
    mtu: int
    up: bool = True

    @property
    def datagram_bytes(self) -> int:
        """The largest datagram that crosses it in one piece."""
        return min(self.mtu - _IP_AND_UDP_HEADERS, DATAGRAM_LIMIT)

    @property
    def is_loopback(self) -> bool:
        return self.address.startswith("127.")


def choose(bind: str, wanted: str | None, group: tuple[str, int] | None) -> Interface:
    """The interface for a node bound to the address `bind`; `wanted` is what the caller asked for."""
    present = interfaces()
    if wanted is not None:
        for interface in present:
            if wanted in (interface.name, interface.address):
                return interface
        if not present and is_numeric(wanted):
            return _unlisted(wanted)
        there = ", ".join(f"{interface.name} ({interface.address})" for interface in present) or "unknown: give an address"
        raise InvalidOption("interface", wanted, f"no interface has this name or address, and IPv4; there are: {there}")
    address = bind if bind != ANY else _towards(group) or _first(present)
    for interface in present:
        if interface.address == address:
            return interface
    for interface in present:
        if interface.is_loopback and address.startswith("127."):
            return structs.replace(interface, address=address)  # all of 127/8 is the loopback interface's
    return _unlisted(address)


def interfaces() -> list[Interface]:
    """Every interface with an IPv4 address; empty where the system does not tell."""
    if sys.platform != "linux":
        return []
    import array
    import fcntl

    room = array.array("B", bytes(_IFREQ_BYTES * _INTERFACES_LIMIT))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        answer = fcntl.ioctl(asking.fileno(), _SIOCGIFCONF, struct.pack("iP", len(room), room.buffer_info()[0]))
        (size,) = struct.unpack_from("i", answer)
        entries, found = room.tobytes()[:size], []
        for at in range(0, size, _IFREQ_BYTES):
            label = entries[at : at + _NAME_BYTES].split(b"\0", 1)[0]
            address = socket.inet_ntoa(entries[at + _NAME_BYTES + 4 : at + _NAME_BYTES + 8])
            name = label.decode(errors="replace").partition(":")[0]  # eth0:1 is another address of eth0
            try:
                mtu, flags = (_ask(asking.fileno(), question, label) for question in (_SIOCGIFMTU, _SIOCGIFFLAGS))
                index = socket.if_nametoindex(name)
            except OSError:
                continue  # gone since
            found.append(Interface(name, address, index, mtu, bool(flags & _UP)))
    return found


def _ask(descriptor: int, question: int, label: bytes) -> int:
    import fcntl

    answer = fcntl.ioctl(descriptor, question, label.ljust(_IFREQ_BYTES, b"\0"))
    return int(struct.unpack_from("i" if question == _SIOCGIFMTU else "H", answer, _NAME_BYTES)[0])


def _towards(group: tuple[str, int] | None) -> str:
    """The own address that the system would send to the group from; empty if no route leads there. Connecting a datagram socket sends
    nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(group or ("192.0.2.1", 9))  # an address that belongs to nobody, for the default route
            address = str(asking.getsockname()[0])
        except OSError:
            return ""
    return address if address != ANY else ""


def _first(present: list[Interface]) -> str:
    return next((interface.address for interface in present if interface.up and not interface.is_loopback), "127.0.0.1")


def _unlisted(address: str) -> Interface:
    return Interface("", address, 0, _LOOPBACK_MTU_ELSEWHERE + _IP_AND_UDP_HEADERS if address.startswith("127.") else ETHERNET_MTU)
