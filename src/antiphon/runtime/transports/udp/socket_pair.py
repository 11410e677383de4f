"""The unicast socket, and the one beside it that takes what comes in elsewhere.

The first socket is bound to the one address that others are told, so that whatever it sends has that source, on every route. A node bound
to `0.0.0.0` is reached at its other addresses too: a second socket with the same port takes that. The port is shared between exactly
these two: the permission to share it is withdrawn as soon as both are bound, so nobody else can listen in.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import sys

BUFFER_BYTES = 8 << 20
"""What is asked of the kernel for each direction. Datagrams wait here while Python is busy, and what does not fit is lost."""
_FORCE = {socket.SO_RCVBUF: getattr(socket, "SO_RCVBUFFORCE", 33), socket.SO_SNDBUF: getattr(socket, "SO_SNDBUFFORCE", 32)}
_ATTEMPTS = 16
_SO_MEMINFO, _MEMINFO_BYTES, _DROPS_AT = 55, 36, 32


def open_unicast(address: str, port: int, everywhere: bool) -> list[socket.socket]:
    """The socket bound to `address`, and with `everywhere` the one for all other addresses of this machine."""
    for attempt in range(_ATTEMPTS):
        opened = [_new()]
        try:
            first = opened[0]
            first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(everywhere))
            first.bind((address, port))
            if everywhere:
                second = _new()
                opened.append(second)
                second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                second.bind(("0.0.0.0", first.getsockname()[1]))
                for each in opened:
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        except OSError as error:
            for each in opened:
                each.close()
            # A port that was free on one address may be taken on another; where any port will do, the next one is tried.
            if port == 0 and error.errno == errno.EADDRINUSE and attempt + 1 < _ATTEMPTS:
                continue
            why = "the port is in use: choose another, or 0 for any" if error.errno == errno.EADDRINUSE else f"{error.strerror}"
            raise OSError(error.errno, f"cannot listen at {address}:{port}: {why}") from error
        return opened
    raise AssertionError("the last attempt returns or raises")


def enlarge(sock: socket.socket) -> None:
    """Asks for large buffers: beyond the system's limit where this process may, else up to it."""
    for option, force in _FORCE.items():
        try:
            sock.setsockopt(socket.SOL_SOCKET, force, BUFFER_BYTES)
        except OSError:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)


def granted(sock: socket.socket) -> tuple[int, int]:
    """The receive and send buffers that the kernel gave, in its own count, which includes its overhead."""
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF), sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


def lost_in_kernel(sock: socket.socket) -> int:
    """Datagrams that arrived at a socket and that the kernel threw away, mostly because its buffer was full; 0 where it does not tell."""
    try:
        return int.from_bytes(sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO_BYTES)[_DROPS_AT:], sys.byteorder)
    except OSError:
        return 0


def _new() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setblocking(False)
    enlarge(sock)
    return sock
