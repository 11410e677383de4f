"""The mesh: one link per peer, made when it is needed, and a door for every peer that came. Without TLS, nodes of one host and user meet by
the `shortcut` and not over TCP.

Keeps at most `connections` links and as many doors. When there are more, a link that leads nowhere is closed, or the one that was used
longest ago; and of the host that most doors are from, one that has not said hello, or that was silent longest. Keeps at most
`_HALVES_BYTES` of wires that are not whole yet; above it the connection that has been silent longest in the middle of one is closed.
A broadcast goes to the seeds, and to every node met so far.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from antiphon.errors import InvalidOption
from antiphon.model.ids import Address
from antiphon.model.refusals import Refusals
from antiphon.runtime.transports.contract import WIRE_LIMIT, Take, address_of, host_and_port
from antiphon.runtime.transports.interfaces import reachable_host
from antiphon.runtime.transports.tcp import shortcut
from antiphon.runtime.transports.tcp.backlog import Backlog
from antiphon.runtime.transports.tcp.door import Door
from antiphon.runtime.transports.tcp.hello import Hello
from antiphon.runtime.transports.tcp.link import Link, State, TlsWanted
from antiphon.runtime.transports.tcp.place import place_of

_length = struct.Struct("<I").pack
_ACCEPT_QUEUE = 256
_HALVES_BYTES = 64 << 20
_CLOSE_S = 2.0


class TcpTransport:
    frame_bytes = 240_000
    lossless = True

    def __init__(
        self,
        bind: str = "127.0.0.1:0",
        *,
        name: str = "",
        seeds: Sequence[str] = (),
        contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None = None,
        peer_names: Callable[[Any], tuple[str, ...]] | None = None,
        connections: int = 1_024,
        short_way: bool = True,
    ) -> None:
        """`contexts` are for connections that come and that go out; with them `peer_names` reads a peer's names from its certificate.
        Without `short_way` nodes of one machine meet over TCP, too."""
        self.drops: Counter[str] = Counter()
        self.refusals = Refusals()
        self._bind = host_and_port(bind, "bind")
        self._name, self._connections = name, connections
        self._short_way = short_way and contexts is None
        if isinstance(seeds, str):
            raise InvalidOption("seeds", seeds, "give a list of 'host:port', even for one")
        for seed in seeds:
            host_and_port(seed, "seeds")
        self.seeds = self._seeds = tuple(Address(seed) for seed in seeds)
        self._contexts, self._peer_names = contexts, peer_names
        self.context = None if contexts is None else contexts[0]
        self._links: dict[Address, Link] = {}
        self._leaving: set[asyncio.Future[None]] = set()
        """Links that are closed, and not gone yet."""
        self._backlog = Backlog()
        self._doors: dict[Door, None] = {}
        self._halves: dict[Door, int] = {}
        """How much of a wire has come at each door where one is not whole, the longest silent first."""
        self._halves_bytes = 0
        self._met: dict[Address, str] = {}
        """Nodes that said where they are reached, with the name in their certificate."""
        self._server: asyncio.Server | None = None
        self._side_door: asyncio.Server | None = None
        """Where those come in who take the short way."""
        self._address = Address("")
        self._hello = b""
        self._report_refused: Callable[[Address], None] | None = None
        self._wires = self._bytes = 0

    @property
    def address(self) -> Address:
        return self._address

    @property
    def host(self) -> str:
        return host_and_port(self._address)[0]

    @property
    def guarded(self) -> bool:
        """Whether connections are TLS."""
        return self._contexts is not None

    # -- opening and closing ---------------------------------------------------------------------------------------------------

    async def open(self, take: Take) -> None:
        """Raises OSError when the address cannot be bound."""
        if self._server is not None:
            raise OSError(errno.EISCONN, "the transport is open already: close it first, or make another")
        loop = asyncio.get_running_loop()
        host, port = self._bind
        try:
            server = await loop.create_server(lambda: Door(self, take), host, port, backlog=_ACCEPT_QUEUE, start_serving=False)
        except OSError as error:
            why = "the port is in use: choose another, or 0 for any" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
            raise OSError(error.errno or 0, f"cannot listen at {address_of(host, port)}: {why}") from error
        bound = server.sockets[0].getsockname()
        self._address = address_of(reachable_host(bound[0]), bound[1])
        self._hello = Hello(self._name, self._address).wire()
        self._server = server
        try:
            await server.start_serving()
            if self._short_way and (sock := shortcut.listen(self._address, _ACCEPT_QUEUE)) is not None:
                self._side_door = await loop.create_unix_server(
                    lambda: Door(self, take), sock=sock, backlog=_ACCEPT_QUEUE, start_serving=False
                )
                await self._side_door.start_serving()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """What is written already goes out, as far as the peers take it soon. Whatever comes of it, nothing is left after a moment."""
        server, self._server = self._server, None
        if server is None:
            return
        servers = [server] if self._side_door is None else [server, self._side_door]
        self._side_door = None
        for each in servers:
            each.close()
        for link in self._links.values():
            self._dismiss(link)
        self._links.clear()
        for door in list(self._doors):
            door.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                if self._leaving:
                    await asyncio.wait(self._leaving)
                while self._doors:
                    await asyncio.sleep(0.001)
                for each in servers:
                    await each.wait_closed()

    # -- sending ---------------------------------------------------------------------------------------------------------------

    def send(self, to: tuple[Address, ...], wire: bytes) -> None:
        if self._server is None or len(wire) > WIRE_LIMIT:
            self.drops["closed" if self._server is None else "wire_oversized"] += len(to)
            return
        framed = _length(len(wire)) + wire
        links = self._links
        for address in to:
            link = links.get(address)
            if link is None:
                link = self._link(address)
                if link is None:
                    continue
            link.used = self._wires
            link.send(framed)
        self._wires += len(to)
        self._bytes += len(framed) * len(to)

    def broadcast(self, wire: bytes) -> None:
        everybody = tuple(address for address in dict.fromkeys((*self._seeds, *self._met)) if address != self._address)
        if everybody:
            self.send(everybody, wire)
        else:
            self.drops["nobody_to_ask"] += 1

    def _link(self, address: Address) -> Link | None:
        if place_of(address) is None and address not in self._seeds:
            self.drops["bad_address"] += 1
            return None
        if len(self._links) >= self._connections:
            # Anybody can name addresses at which nobody is: no reason to close a link that leads somewhere.
            missed_least = min(self._links.values(), key=lambda link: (link.state is State.OPEN, link.used))
            self._dismiss(self._links.pop(missed_least.to))
        link = self._links[address] = Link(
            address,
            self._hello,
            self.drops,
            self._backlog,
            source=self.host,
            context=None if self._contexts is None else self._contexts[1],
            short_way=self._short_way,
            check=lambda tls: self._is_known(address, tls),
            fail=lambda error: self.fails(error, address),
            refused=self._tell_refused,
        )
        return link

    def report_refused(self, report: Callable[[Address], None]) -> None:
        """Call `report` from now on with each address to which there was a connection, and that refuses another."""
        self._report_refused = report

    def _tell_refused(self, address: Address) -> None:
        if self._server is not None and self._report_refused is not None:
            self._report_refused(address)

    def _dismiss(self, link: Link) -> None:
        gone = link.close()
        self._leaving.add(gone)
        gone.add_done_callback(self._leaving.discard)

    # -- doors -----------------------------------------------------------------------------------------------------------------

    def admits(self, door: Door) -> bool:
        self._doors[door] = None
        if len(self._doors) > self._connections:
            # Refusing the latest would let whoever holds all connections keep out everybody else.
            hosts = Counter(each.host for each in self._doors)
            most = hosts.most_common(1)[0][0]
            others = (each for each in self._doors if each.host == most and each is not door)
            silent = min(others, key=lambda each: (each.source is not None, each.heard), default=door)
            silent.refuse("too_many_connections")
            self.leaves(silent)
        return self._server is not None

    def keeps(self, door: Door, size: int) -> None:
        halves = self._halves
        self._halves_bytes += size - halves.pop(door, 0)
        if size:
            halves[door] = size
            while self._halves_bytes > _HALVES_BYTES:
                silent = next(iter(halves))
                self._halves_bytes -= halves.pop(silent)
                silent.refuse("half_wires_full")

    def welcomes(self, door: Door, hello: Hello, tls: object) -> bool:
        address, names = Address(hello.address), self._names_in(tls)
        if names is not None and hello.name not in names:
            self.drops["wrong_name"] += 1
            self.refusals.note(address, "wrong_name")
            return False
        if not self._is_known(address, tls):
            return False
        self._met.pop(address, None)
        self._met[address] = hello.name
        if len(self._met) > self._connections:
            here = {each.source for each in self._doors}
            del self._met[next((met for met in self._met if met not in here), next(iter(self._met)))]
        link = self._links.get(address)
        if link is not None:
            link.end_back_off()
        return True

    def leaves(self, door: Door) -> None:
        self._doors.pop(door, None)
        self._halves_bytes -= self._halves.pop(door, 0)

    def fails(self, error: Exception, peer: str) -> None:
        from antiphon.runtime.security import refusal_of

        if isinstance(error, TlsWanted):
            self.refusals.note(Address(peer), "tls")
            return
        reason = refusal_of(error) if isinstance(error, ssl.SSLError) else "no_hello"
        self.drops[reason] += 1
        if isinstance(error, ssl.SSLError):
            self.refusals.note(Address(peer), "no_tls" if reason == "malformed" else reason)

    def _names_in(self, tls: object) -> tuple[str, ...] | None:
        return None if tls is None or self._peer_names is None else self._peer_names(tls)

    def _is_known(self, address: Address, tls: object) -> bool:
        """Whether whoever is at an address has the name that was given there, as long as a connection of that one lasts."""
        names, before = self._names_in(tls), self._met.get(address)
        if names is None or before is None or before in names or not any(door.source == address for door in self._doors):
            return True
        self.drops["forged_address"] += 1
        return False

    # -- watching --------------------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, object]:
        return {
            "kind": "tcp",
            "wires_sent": self._wires,
            "bytes_sent": self._bytes,
            "links": len(self._links),
            "doors": len(self._doors),
            "half_wires_bytes": self._halves_bytes,
            "connections_made": sum(link.connections for link in self._links.values()),
            "drops": dict(self.drops),
        }
