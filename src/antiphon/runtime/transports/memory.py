"""Nodes within one process: wires are handed over in the next round of the receiver's event loop.

Loses nothing. Nodes may live on different loops in different threads. Keeps at most `_QUEUE` wires for a receiver that does not run;
above it they are dropped and counted.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from itertools import count

from antiphon.model.ids import Address
from antiphon.runtime.transports.contract import Take

_QUEUE = 65_536
_lock = threading.Lock()
_open_by_address: dict[Address, MemoryTransport] = {}
_numbers = count(1)


class MemoryTransport:
    frame_bytes = 240_000
    lossless = True

    def __init__(self, seeds: Sequence[Address] = ()) -> None:
        """Broadcasts reach every node of the process; `seeds` are taken for the sake of uniformity."""
        self.drops: Counter[str] = Counter()
        self._seeds = tuple(seeds)
        self._address = Address("")
        self._waiting: list[tuple[Address, bytes]] = []
        self._sent = 0

    @property
    def address(self) -> Address:
        return self._address

    async def open(self, take: Take) -> None:
        self._take, self._loop = take, asyncio.get_running_loop()
        with _lock:
            self._address = Address(f"memory:{next(_numbers)}")
            _open_by_address[self._address] = self

    def send(self, to: tuple[Address, ...], wire: bytes) -> None:
        for address in to:
            peer = _open_by_address.get(address)
            if peer is None:
                self.drops["unreachable"] += 1
            else:
                self._sent += 1
                peer.put(self._address, wire)

    def broadcast(self, wire: bytes) -> None:
        with _lock:
            others = tuple(address for address in _open_by_address if address != self._address)
        self.send(others, wire)

    async def close(self) -> None:
        with _lock:
            _open_by_address.pop(self._address, None)

    def stats(self) -> dict[str, object]:
        return {"kind": "memory", "wires_sent": self._sent, "drops": dict(self.drops)}

    def put(self, source: Address, wire: bytes) -> None:
        """Called by the sender, perhaps from another thread."""
        with _lock:
            first = not self._waiting
            if len(self._waiting) >= _QUEUE:
                self.drops["receiver_behind"] += 1
                return
            self._waiting.append((source, wire))
        if first:
            try:
                self._loop.call_soon_threadsafe(self._hand_over)
            except RuntimeError:
                self.drops["unreachable"] += 1  # its loop has ended without closing the node

    def _hand_over(self) -> None:
        with _lock:
            waiting, self._waiting = self._waiting, []
            closed = self._address not in _open_by_address
        if closed:
            return
        by_source: dict[Address, list[bytes]] = {}
        for source, wire in waiting:
            by_source.setdefault(source, []).append(wire)
        for source, wires in by_source.items():
            self._take(source, wires)
