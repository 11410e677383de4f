"""An IPv4 address and a port: as people write it, as sockets take it, and as six bytes."""

from __future__ import annotations

import socket
import struct

from antiphon.errors import InvalidOption
from antiphon.model.ids import Address
from antiphon.runtime.transports.contract import host_and_port

_PACKED = struct.Struct("!4sH")


def read(text: str, what: str) -> tuple[str, int]:
    """The host, by name or address, and the port of a setting; raises InvalidOption for anything else."""
    host, port = host_and_port(text, what)
    if ":" in host:
        raise InvalidOption(what, text, "datagrams go over IPv4 here: give an IPv4 address, or use transport='tcp'")
    return host, port


def read_numeric(text: str, what: str) -> tuple[str, int]:
    """The same where a name will not do."""
    host, port = read(text, what)
    if not is_numeric(host):
        raise InvalidOption(what, text, "give the host as an IPv4 address, for example 192.168.1.7")
    return host, port


def is_numeric(host: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET, host)
    except (OSError, ValueError):
        return False
    return True


def where(address: Address) -> tuple[str, int] | None:
    """Where a peer's address points; None if nothing can be sent there. Names are not looked up: a peer gives its address in numbers."""
    host, _, port = address.rpartition(":")
    if not is_numeric(host) or not port.isascii() or not port.isdecimal() or not 0 < int(port) <= 65_535:
        return None
    return host, int(port)


def pack(place: tuple[str, int]) -> bytes:
    return _PACKED.pack(socket.inet_pton(socket.AF_INET, place[0]), place[1])
