"""Transports on loopback, strangers that speak to them byte by byte, and every story on both kinds of event loop: over TCP, and, as nodes
of one machine do it, by the short way."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

from antiphon.model.ids import Address
from antiphon.runtime.transports.contract import host_and_port
from antiphon.runtime.transports.tcp import TcpTransport, shortcut
from antiphon.runtime.transports.tcp.hello import Hello

PATIENCE_S = 30.0
"""How long a test waits for what must happen; it goes on as soon as it has."""


@pytest.fixture(params=["asyncio", "uvloop"], autouse=True)
def loop_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["tcp", "shortcut"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How transports of one host reach each other; a stranger always comes over TCP."""
    if request.param == "tcp":
        monkeypatch.setattr(shortcut, "listen", lambda address, backlog: None)
    return str(request.param)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine runs on a loop of its kind. What it leaves behind, or logs as an error, is a failure."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    complaints: list[str] = []

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(repr(context)))
        async with asyncio.timeout(2 * PATIENCE_S):
            await pyfuncitem.obj(**arguments)
            while left := [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]:
                await asyncio.wait(left)

    factory = uvloop.new_event_loop if pyfuncitem.funcargs["loop_kind"] == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(story())
    assert complaints == []
    return True


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.002)


class Station:
    """A transport and what came to it."""

    def __init__(self, transport: TcpTransport) -> None:
        self.transport = transport
        self.wires: list[tuple[Address, bytes]] = []

    @property
    def address(self) -> Address:
        return self.transport.address

    @property
    def drops(self) -> Any:
        return self.transport.drops

    def take(self, source: Address, wires: list[bytes]) -> None:
        self.wires += [(source, wire) for wire in wires]

    def said(self, source: Station) -> list[bytes]:
        """What one of the others said here."""
        return [wire for address, wire in self.wires if address == source.address]

    async def receives(self, count: int) -> list[tuple[Address, bytes]]:
        await until(lambda: len(self.wires) >= count)
        return self.wires

    async def counts(self, reason: str, count: int = 1) -> None:
        await until(lambda: self.drops[reason] >= count)

    async def is_left_alone(self) -> None:
        """Nobody is connected to it, and nothing of what came is kept."""
        await until(lambda: not self.transport._doors)
        assert self.transport._halves_bytes == 0
        assert not self.transport._halves


@asynccontextmanager
async def stations(count: int, bind: str = "127.0.0.1:0", **options: Any) -> AsyncIterator[list[Station]]:
    """Open transports on loopback. With `credentials`, a function of their names (ana, ben, cem), connections are TLS."""
    names, credentials = ("ana", "ben", "cem", "dee")[:count], options.pop("credentials", None)
    made = [Station(TcpTransport(bind, name=name, **options, **guards(credentials, name))) for name in names]
    try:
        for station in made:
            await station.transport.open(station.take)
        yield made
    finally:
        for station in made:
            await station.transport.close()


def guards(credentials: Callable[[str], Any] | None, name: str) -> dict[str, Any]:
    if credentials is None:
        return {}
    from antiphon.runtime.security import peer_names

    mine = credentials(name)
    return {"contexts": (mine.server_context(), mine.client_context()), "peer_names": peer_names}


class Stranger:
    """A plain connection to a transport, which may say anything."""

    def __init__(self, to: Address, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection(host_and_port(to), timeout=PATIENCE_S, source_address=(host, 0))
        self.host = host

    def say(self, *wires: bytes) -> Stranger:
        """Wires, each with its length in front."""
        return self.pour(b"".join(struct.pack("<I", len(wire)) + wire for wire in wires))

    def pour(self, data: bytes) -> Stranger:
        """Bytes as they are; a node that has hung up is not an error here."""
        self.socket.setblocking(False)
        with suppress(OSError):
            self.socket.sendall(data)
        return self

    def greet(self, address: str | None = None, name: str = "eve") -> Stranger:
        """A hello that is well-formed; without an address, one that is its own."""
        return self.say(Hello(name, address or self.address).wire())

    @property
    def address(self) -> str:
        return f"{self.host}:{self.socket.getsockname()[1]}"

    async def is_shown_out(self) -> None:
        """Waits until the node has hung up."""
        loop = asyncio.get_running_loop()
        self.socket.setblocking(False)
        async with asyncio.timeout(PATIENCE_S):
            with suppress(ConnectionError):
                while await loop.sock_recv(self.socket, 4_096):
                    continue

    def close(self) -> None:
        self.socket.close()


@pytest.fixture(name="stations")
def _stations() -> Callable[..., Any]:
    return stations


@pytest.fixture(name="until")
def _until() -> Callable[..., Any]:
    """Waits until something is so."""
    return until


@pytest.fixture
def stranger() -> Iterator[Callable[..., Stranger]]:
    met: list[Stranger] = []

    def meet(to: Address, host: str = "127.0.0.1") -> Stranger:
        met.append(Stranger(to, host))
        return met[-1]

    yield meet
    for each in met:
        each.close()


class Deaf:
    """Listens and takes connections, but reads nothing from them. With `crowded` it does not even take them."""

    def __init__(self, crowded: bool = False) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(0 if crowded else 128)
        self._waiting: list[socket.socket] = []
        self.address = Address(f"127.0.0.1:{self._socket.getsockname()[1]}")
        for _ in range(2 if crowded else 0):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(self._socket.getsockname())
            self._waiting.append(one)

    def close(self) -> None:
        for each in (self._socket, *self._waiting):
            each.close()


@pytest.fixture
def deaf() -> Iterator[Callable[..., Deaf]]:
    made: list[Deaf] = []

    def make(**options: Any) -> Deaf:
        made.append(Deaf(**options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def authority(tmp_path: Path) -> Any:
    """What signs certificates, as the tests of security do; skips where their package is missing."""
    beside = Path(__file__).parents[2] / "security" / "conftest.py"
    spec = importlib.util.spec_from_file_location("antiphon_test_authority", beside)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Authority(tmp_path)


@pytest.fixture(params=["plain", "tls"])
def credentials(request: pytest.FixtureRequest) -> Any:
    """None, or certificates by name: so one story is told on both kinds of connection."""
    return None if request.param == "plain" else request.getfixturevalue("authority").issue


@pytest.fixture
def tls_client(authority: Any) -> Callable[[str], ssl.SSLContext]:
    """The context of a client that has a good certificate of its own."""
    return lambda name: authority.issue(name).client_context()
