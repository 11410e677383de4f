"""What every transport does: it carries wires between addresses, in whatever way, and may lose, repeat and reorder them.

A wire is one frame of the core, sealed or not. Nothing here waits, and nothing raises for the world's faults: what cannot be sent now, and
what comes and makes no sense, is counted in `drops` under its reason, and the core repairs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol, TypeAlias

from antiphon.errors import InvalidOption
from antiphon.model.frames import FRAME_LIMIT
from antiphon.model.ids import Address

Take: TypeAlias = Callable[[Address, list[bytes]], None]
"""Takes wires that came from an address, in the order they came."""
WIRE_LIMIT = FRAME_LIMIT + 4_096
"""The largest wire that is carried: a frame, and what sealing adds."""


class Transport(Protocol):
    drops: Counter[str]
    frame_bytes: int
    """How large a frame should be at most on this transport."""
    lossless: bool
    """Whether wires are lost only with their connection: then a gap is nearly always a wire that is still on its way."""

    @property
    def address(self) -> Address:
        """Where other nodes reach this one; known once it is open."""
        ...

    async def open(self, take: Take) -> None:
        """Raises OSError when the address cannot be bound."""
        ...

    def send(self, to: tuple[Address, ...], wire: bytes) -> None: ...

    def broadcast(self, wire: bytes) -> None:
        """Sends to every node that can be found: by multicast, or to the seeds and the nodes met so far."""
        ...

    async def close(self) -> None: ...

    def stats(self) -> dict[str, object]: ...


def host_and_port(address: str, what: str = "address") -> tuple[str, int]:
    """The two parts of `host:port` or `[v6]:port`; raises InvalidOption for anything else."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise InvalidOption(what, address, "write it as host:port, for example 192.168.1.7:4040 (port 0: any free one)")
    return host, int(port)


def address_of(host: str, port: int) -> Address:
    return Address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
