"""Transports on loopback, and processes with a transport each on hosts of a made network."""

from __future__ import annotations

import asyncio
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from antiphon.model.ids import Address
from antiphon.runtime.transports.udp import UdpTransport

PATIENCE_S = 20.0
"""How long a test waits for what must happen; it goes on as soon as it has."""


class Station:
    """A transport and what came to it."""

    def __init__(self, transport: UdpTransport) -> None:
        self.transport = transport
        self.calls: list[tuple[Address, list[bytes]]] = []

    @property
    def address(self) -> Address:
        return self.transport.address

    @property
    def wires(self) -> list[tuple[Address, bytes]]:
        return [(source, wire) for source, wires in self.calls for wire in wires]

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.002)

    async def receives(self, count: int) -> list[tuple[Address, bytes]]:
        """Waits for `count` wires in all."""
        await self.until(lambda: len(self.wires) >= count)
        return self.wires

    async def drops(self, reason: str, count: int = 1) -> None:
        """Waits until so many drops of a kind are counted."""
        await self.until(lambda: self.transport.drops[reason] >= count)
        assert self.transport.drops[reason] == count


@asynccontextmanager
async def stations(count: int, bind: str = "127.0.0.1:0", **options: Any) -> AsyncIterator[list[Station]]:
    """Open transports on loopback, without multicast, which must not leave a test."""
    made = [Station(UdpTransport(bind, multicast=None, **options)) for _ in range(count)]
    try:
        for station in made:
            await station.transport.open(lambda source, wires, station=station: station.calls.append((source, wires)))  # type: ignore[misc]
        yield made
    finally:
        for station in made:
            await station.transport.close()


@pytest.fixture(name="stations")
def _stations() -> Callable[..., Any]:
    return stations


@pytest.fixture(params=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Runs a coroutine on either kind of event loop."""
    return asyncio.run if request.param == "asyncio" else uvloop.run


class Speaker:
    """A process with a transport on a host of a made network."""

    def __init__(self, network: Any, host: int, **options: Any) -> None:
        program = str(Path(__file__).with_name("speaker.py"))
        self._process: subprocess.Popen[str] = network.start(host, [sys.executable, program, json.dumps(options)])
        self._lines: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.heard: list[tuple[str, str]] = []
        self.address = str(self._answer("address"))

    def broadcast(self, text: str) -> None:
        self._say({"broadcast": text})

    def send(self, to: list[Speaker], text: str, size: int = 0) -> None:
        self._say({"send": [speaker.address for speaker in to], "text": text, "size": size})

    def hears(self, source: Speaker, text: str) -> None:
        """Waits for a wire."""
        self._until(lambda: (source.address, text) in self.heard, f"{source.address} says {text!r}")

    def stats(self) -> dict[str, Any]:
        self._say({"stats": True})
        return dict(self._answer("stats"))

    def until(self, condition: Callable[[dict[str, Any]], object], what: str) -> dict[str, Any]:
        """Waits until the transport's stats are as they should be."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            stats = self.stats()
            if condition(stats):
                return stats
            time.sleep(0.05)
        raise AssertionError(f"in {PATIENCE_S} s not {what}: {stats}")

    def _say(self, command: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(json.loads(line))

    def _answer(self, key: str) -> Any:
        while True:
            said = self._lines.get(timeout=PATIENCE_S)
            if key in said:
                return said[key]
            self.heard.append(tuple(said["heard"]))  # type: ignore[arg-type]

    def _until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            try:
                said = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"in {PATIENCE_S} s not heard at {self.address}: {what}; heard {self.heard[-10:]}") from None
            self.heard.append(tuple(said["heard"]))  # type: ignore[arg-type]


@pytest.fixture
def speaker() -> type[Speaker]:
    return Speaker
