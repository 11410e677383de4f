"""The multicast group: joined on one interface, given up while the system refuses it, tried again later.

Keeps the listening socket. Everything is *sent* from the node's unicast socket, which this file only prepares.

A node on the same machine must hear these multicasts, so the kernel also returns each to its own sender. Where the kernel can be told
(Linux) a filter on the listening socket throws those away before they wake anybody: with four busy nodes that is a quarter of all that
they would read. Elsewhere the transport drops them by their source.
"""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
import sys

from antiphon.runtime.transports.udp.interface import Interface
from antiphon.runtime.transports.udp.socket_pair import enlarge, lost_in_kernel

PAUSE_S, PAUSE_MAX_S = 0.5, 30.0
"""How long multicast rests after it was refused, at first and at most."""
_IP_MULTICAST_ALL = 49
_SO_ATTACH_FILTER = 26


class MulticastGroup:
    def __init__(self, host: str, port: int, interface: Interface, *, ttl: int, loop: bool) -> None:
        self.endpoint = (host, port)
        self.interface, self._ttl, self._loop = interface, ttl, loop
        self.listening: socket.socket | None = None
        self.joined = False
        self.filters_own = False
        self.sent = 0
        """Datagrams sent to the group."""
        self._resume_at, self._pause_s = 0.0, PAUSE_S
        self._paused = False

    def open(self, sending: socket.socket) -> socket.socket:
        """Joins the group, and makes `sending` send to it through the interface; returns where to listen. A join that the system refuses
        is tried again by `resume`."""
        listening = self.listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        listening.setblocking(False)
        enlarge(listening)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform != "linux" and hasattr(socket, "SO_REUSEPORT"):
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # on Linux it would be for one user's processes only
        if sys.platform == "linux":
            # Without this the socket would hear the group on every interface on which anybody has joined it.
            listening.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
        try:
            listening.bind(self.endpoint)
        except OSError as error:
            why = "another program has the port for itself: choose another group (multicast=…), or none (multicast=None) and seeds"
            raise OSError(error.errno, f"cannot listen to {self.endpoint[0]}:{self.endpoint[1]}, {error.strerror}: {why}") from error
        sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, self._ttl)
        sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, int(self._loop))
        if self._loop:
            self.filters_own = _ignore(listening, *sending.getsockname())
        self._join(sending)
        return listening

    def resume(self, now: float, sending: socket.socket) -> bool:
        """Whether to send to the group now. After a pause the group is joined again: the interface may be another by the same name."""
        if now < self._resume_at:
            return False
        if self._paused or not self.joined:
            self._paused = False
            self._join(sending)
            if not self.joined:
                self.refused(now)
                return False
        return True

    def refused(self, now: float) -> None:
        """The system would not send."""
        if self._paused:
            return
        self._paused = True
        self._resume_at = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)

    def worked(self) -> None:
        self._pause_s = PAUSE_S

    def close(self) -> None:
        if self.listening is not None:
            self.listening.close()
            self.listening = None

    def lost_in_kernel(self) -> int:
        """Datagrams that came for this socket and did not fit. The kernel counts those that the filter refused as well."""
        if self.listening is None:
            return 0
        return max(0, lost_in_kernel(self.listening) - (self.sent if self.filters_own else 0))

    def stats(self, now: float) -> dict[str, object]:
        state = "paused" if now < self._resume_at else "on" if self.joined else "not joined"
        return {"group": "{}:{}".format(*self.endpoint), "state": state, "sent_datagrams": self.sent, "filters_own": self.filters_own}

    def _join(self, sending: socket.socket) -> None:
        """Joins, or joins again; `joined` says whether it worked."""
        host = socket.inet_aton(self.endpoint[0])
        if self.interface.index:
            # The interface by number, because several may have one address; by its name, because a new one has a new number.
            try:
                index = socket.if_nametoindex(self.interface.name)
            except OSError:
                self.joined = False
                return
            way = struct.pack("4si", socket.inet_aton(self.interface.address), index)
        else:
            way = socket.inet_aton(self.interface.address)
        assert self.listening is not None, "the group is joined by an open transport only"
        try:
            sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, (host + way) if self.interface.index else way)
            self.listening.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, host + way)
        except OSError as error:
            self.joined = error.errno == errno.EADDRINUSE  # already in it
        else:
            self.joined = True


def _ignore(listening: socket.socket, host: str, port: int) -> bool:
    """Makes the kernel drop what comes from this address and port; False where it cannot."""
    if sys.platform != "linux":
        return False
    load_word, load_half, jump_if_equal, give = 0x20, 0x28, 0x15, 0x06
    network_header = 0xFFF00000  # where the kernel's filters find the IP header; 0 is the UDP header
    (source,) = struct.unpack("!I", socket.inet_aton(host))
    program = b"".join(
        struct.pack("HBBI", *instruction)
        for instruction in (
            (load_word, 0, 0, network_header + 12),  # the source address
            (jump_if_equal, 0, 3, source),
            (load_half, 0, 0, 0),  # the source port
            (jump_if_equal, 0, 1, port),
            (give, 0, 0, 0),  # nothing of it
            (give, 0, 0, 0xFFFFFFFF),  # all of it
        )
    )
    buffer = ctypes.create_string_buffer(program, len(program))
    try:
        listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", len(program) // 8, ctypes.addressof(buffer)))
    except OSError:
        return False
    return True
