"""The short way between two nodes of one machine: a socket of the kernel's own, that never sees the network.

A node listens under a name made of its address, beside its port, and whoever wants to reach an address on its own host tries that name
first. For each wire, and at both ends, it costs about half of what TCP over the loopback interface does. Only processes of one user go
this way: anybody can take a name, so both ends ask the kernel whose process the other is. Whatever does not work out goes over TCP, also
when a connection was made and did not last; so does everything where there are no names without a file, which is elsewhere than on Linux.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Callable

from antiphon.model.ids import Address

_BUFFER_BYTES = 4 << 20
"""As much as TCP takes by itself; the kernel gives as much of it as it allows."""
_NOBODY_IN_PARTICULAR = 65_534
"""What the kernel says for every user that has no number in this namespace."""
_credentials = struct.Struct("iII")
"""Process, user and group."""


def listen(address: Address, backlog: int) -> socket.socket | None:
    """A socket for those who come the short way to this node; None where there is no such way, or somebody has taken the name."""

    def begin(sock: socket.socket) -> None:
        sock.bind(_name_of(address))
        sock.listen(backlog)

    return _begun(begin)


def connect(address: Address) -> socket.socket | None:
    """A connection to the node at an address of this host; None when nobody of this user can be reached there this way."""

    def begin(sock: socket.socket) -> None:
        sock.connect(_name_of(address))  # never waits
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)

    sock = _begun(begin)
    if sock is not None and not is_of_this_user(sock):
        sock.close()
        return None
    return sock


def is_of_this_user(sock: socket.socket) -> bool:
    """Whether the process at the other end is of the user that this one is of."""
    try:
        _, user, _ = _credentials.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _credentials.size))
    except (OSError, struct.error):
        return False
    return bool(user == os.geteuid() != _NOBODY_IN_PARTICULAR)


def _begun(begin: Callable[[socket.socket], None]) -> socket.socket | None:
    """A socket with which something was begun; None where that, or any such socket, cannot be."""
    if sys.platform != "linux":
        return None
    try:
        sock = socket.socket(socket.AF_UNIX)
    except OSError:
        return None  # services are often allowed Internet sockets alone
    try:
        sock.setblocking(False)
        begin(sock)
    except OSError:
        sock.close()
        return None
    return sock


def _name_of(address: Address) -> str:
    return f"\0antiphon/{address}"
