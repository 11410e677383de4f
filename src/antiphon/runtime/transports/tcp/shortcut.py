"""The short way between two nodes of one machine: a socket of the kernel's own, that never sees the network.

A node listens under a name made of its address, beside its port, and whoever wants to reach an address on its own host tries that name
first. For each wire, and at both ends, it costs about half of what TCP over the loopback interface does. Only processes of one user go
this way: anybody can take a name, so both ends ask the kernel whose process the other is. Whatever does not work out goes over TCP; so
does everything where there are no names without a file, which is elsewhere than on Linux.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

from antiphon.model.ids import Address

_BUFFER_BYTES = 4 << 20
"""As much as TCP takes by itself; the kernel gives as much of it as it allows."""
_credentials = struct.Struct("iII")
"""Process, user and group."""


def listen(address: Address, backlog: int) -> socket.socket | None:
    """A socket for those who come the short way to this node; None where there is no such way, or somebody has taken the name."""
    sock = _socket()
    if sock is not None:
        try:
            sock.bind(_name_of(address))
            sock.listen(backlog)
        except OSError:
            sock.close()
            return None
    return sock


def connect(address: Address) -> socket.socket | None:
    """A connection to the node at an address of this host; None when nobody of this user can be reached there this way."""
    sock = _socket()
    if sock is not None:
        try:
            sock.connect(_name_of(address))  # never waits
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        except OSError:
            sock.close()
            return None
        if not is_of_this_user(sock):
            sock.close()
            return None
    return sock


def is_of_this_user(sock: socket.socket) -> bool:
    """Whether the process at the other end is of the user that this one is of."""
    try:
        _, user, _ = _credentials.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _credentials.size))
    except (OSError, struct.error):
        return False
    return bool(user == os.geteuid())


def _socket() -> socket.socket | None:
    if sys.platform != "linux":
        return None
    sock = socket.socket(socket.AF_UNIX)
    sock.setblocking(False)
    return sock


def _name_of(address: Address) -> str:
    return f"\0antiphon/{address}"
