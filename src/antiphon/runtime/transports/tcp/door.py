"""One connection that was made to this node: wires come in on it.

Its first wire must be a hello, within `_HELLO_S`, that names an address at the host the connection comes from. A wire that is longer than
any can be ends the connection: whoever sends it does not speak this protocol. What has come of a wire that is not whole yet is kept, and
the house knows how much that is at all its doors.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections import Counter
from time import monotonic
from typing import Protocol, cast

from antiphon.model.ids import Address
from antiphon.model.refusals import Refusals
from antiphon.runtime.transports.contract import WIRE_LIMIT, Take
from antiphon.runtime.transports.tcp.guard import Guard
from antiphon.runtime.transports.tcp.hello import HELLO_LIMIT, Hello
from antiphon.runtime.transports.tcp.link import tune
from antiphon.runtime.transports.tcp.place import place_of
from antiphon.runtime.transports.tcp.shortcut import is_of_this_user
from antiphon.runtime.transports.tcp.splitter import Splitter

_HELLO_S = 5.0
_TLS_HELLO = b"\x16\x03"
"""How a TLS handshake begins."""
_length = struct.Struct("<I").unpack_from


class House(Protocol):
    """What a door needs of the transport behind it."""

    drops: Counter[str]

    context: ssl.SSLContext | None

    @property
    def host(self) -> str:
        """Where the house is."""
        ...

    def admits(self, door: Door) -> bool:
        """Whether one more connection is welcome; another one may have to make room."""
        ...

    def keeps(self, door: Door, size: int) -> None:
        """So much has come of a wire that is not whole yet."""
        ...

    refusals: Refusals

    def fails(self, error: Exception, peer: str) -> None:
        """A handshake with a peer came to nothing."""
        ...

    def welcomes(self, door: Door, hello: Hello, tls: object) -> bool:
        """Whether the peer is who it says it is."""
        ...

    def leaves(self, door: Door) -> None: ...


class Door(asyncio.Protocol):
    def __init__(self, house: House, take: Take) -> None:
        self.source: Address | None = None
        """Where the peer is reached, once it has said so."""
        self.host = ""
        """Where the connection comes from."""
        self.heard = 0.0
        """When something last came; only compared with other doors, so the cheapest clock does."""
        self._house, self._take = house, take
        self._loop = asyncio.get_running_loop()
        self._splitter = Splitter()
        self._transport: asyncio.Transport | None = None
        self._guard: Guard | None = None
        self._between: Address | None = None
        """The peer's address while what comes next is the beginning of a wire, as it is: after a hello, and without TLS."""
        self._late: asyncio.TimerHandle | None = None
        self._closed = False

    def close(self) -> None:
        self._closed, self._between = True, None
        if self._transport is not None:
            self._transport.abort()

    def refuse(self, reason: str) -> None:
        if not self._closed:
            self._house.drops[reason] += 1
        self.close()

    # -- what asyncio tells ----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer, sock = transport.get_extra_info("peername"), transport.get_extra_info("socket")
        nearby = sock is not None and sock.family == socket.AF_UNIX
        self.host, self.heard = self._house.host if nearby else peer[0] if peer else "", monotonic()
        if nearby and not is_of_this_user(sock):
            self.refuse("another_user")
            return
        if not self._house.admits(self):
            self.refuse("closed")
            return
        tune(sock)
        if self._house.context is not None:
            self._guard = Guard(self._house.context, self._transport.write)
        self._late = self._loop.call_later(_HELLO_S, self.refuse, "no_hello")

    def connection_lost(self, error: Exception | None) -> None:
        if self._late is not None:
            self._late.cancel()
        if self.source is None and not self._closed:
            self._house.drops["no_hello"] += 1
        self._closed, self._between = True, None
        self._splitter = Splitter()
        self._house.leaves(self)

    def data_received(self, data: bytes) -> None:
        self.heard = monotonic()
        source = self._between
        if source is not None and len(data) >= 4 and _length(data, 0)[0] == len(data) - 4 <= WIRE_LIMIT:
            self._take(source, [data[4:]])  # one whole wire, as nearly always where there is no load
        elif self._closed:
            return
        elif self._guard is not None:
            try:
                data = self._guard.open(data)
            except ssl.SSLError as error:
                self._house.fails(error, self.host)
                self._hang_up()
                return
            self._read(data)
            if self._guard.over:
                self._hang_up()
        else:
            self._read(data)
            self._between = None if self._closed or self._splitter.busy else self.source

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _hang_up(self) -> None:
        """Closes when what was written, at most an alert, is out; who does not take that is shown out by the clock."""
        self._closed = True
        if self._transport is not None:
            self._transport.close()

    def _read(self, data: bytes) -> None:
        splitter, kept = self._splitter, self._splitter.kept
        wires = splitter.split(data, HELLO_LIMIT if self.source is None else WIRE_LIMIT, WIRE_LIMIT)
        if wires is None:
            if self.source is None and data.startswith(_TLS_HELLO):
                self._house.refusals.note(Address(self.host), "tls")
            self.refuse("oversized")
            return
        if kept or splitter.kept:
            self._house.keeps(self, splitter.kept)
        if wires:
            self._hand_on(wires)

    def _hand_on(self, wires: list[bytes]) -> None:
        if self.source is None:
            hello = Hello.read(wires.pop(0))
            if hello is None:
                self.refuse("no_hello")
                return
            if not self._is_at(hello.address):
                self.refuse("forged_address")
                return
            if not self._house.welcomes(self, hello, None if self._guard is None else self._guard.connection):
                self.close()
                return
            self.source = Address(hello.address)
            if self._late is not None:
                self._late.cancel()
        if wires:
            self._take(self.source, wires)

    def _is_at(self, address: str) -> bool:
        """Whether an address is at the host that this connection comes from."""
        place = place_of(address)
        return place is not None and place[0] == self.host
