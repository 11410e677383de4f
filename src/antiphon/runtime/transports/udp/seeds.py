"""Nodes that are known beforehand, and what their names mean now.

A seed is an address or a name. Names are looked up when the transport opens and, while some mean nothing, again with what is broadcast
later: a seed may come into the name service after this node. A look-up takes at most `LOOKUP_S`; the event loop does not wait for it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from antiphon.errors import InvalidOption
from antiphon.model.ids import Address
from antiphon.runtime.transports.udp import endpoint

LOOKUP_S = 5.0
AGAIN_S = 10.0
"""How long a name that meant nothing is left alone."""
SEEDS_LIMIT = 1_024


class Seeds:
    def __init__(self, seeds: Sequence[Address]) -> None:
        if isinstance(seeds, str):
            raise InvalidOption("seeds", seeds, "give a list of 'host:port', even for one")
        if len(seeds) > SEEDS_LIMIT:
            raise InvalidOption("seeds", len(seeds), f"give at most {SEEDS_LIMIT:,}; one that is up is enough to find all others")
        self.known: dict[tuple[str, int], None] = {}
        """Where the seeds are, in the order given."""
        self.unknown: list[tuple[str, int]] = []
        for seed in seeds:
            host, port = endpoint.read(seed, "seeds")
            if port == 0:
                raise InvalidOption("seeds", seed, "a seed needs the port that it listens at")
            if endpoint.is_numeric(host):
                self.known[host, port] = None
            else:
                self.unknown.append((host, port))
        self._again_at = 0.0
        self._looking: asyncio.Task[None] | None = None

    async def look_up(self) -> None:
        """Finds what the names mean."""
        found = await asyncio.gather(*(_meaning(host, port) for host, port in self.unknown))
        for where in found:
            if where is not None:
                self.known[where] = None
        self.unknown = [name for name, where in zip(self.unknown, found, strict=True) if where is None]
        self._again_at = asyncio.get_running_loop().time() + AGAIN_S

    def look_again(self) -> None:
        """Looks up, in the background and not too often, what meant nothing so far."""
        loop = asyncio.get_running_loop()
        if self.unknown and loop.time() >= self._again_at and (self._looking is None or self._looking.done()):
            self._looking = loop.create_task(self.look_up())

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking], timeout=LOOKUP_S)
            self._looking = None


async def _meaning(host: str, port: int) -> tuple[str, int] | None:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(LOOKUP_S):
            answers = await loop.getaddrinfo(host, port, family=socket.AF_INET, type=socket.SOCK_DGRAM)
    except (OSError, TimeoutError, UnicodeError):
        return None
    return (str(answers[0][4][0]), port) if answers else None
