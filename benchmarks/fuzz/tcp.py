"""Throwing connections, and wires on them: talkers, liars, the silent, the slow, crowds, and those that stop in the middle of a wire."""

from __future__ import annotations

import random
import selectors
import socket
import struct
from collections import deque
from contextlib import suppress
from itertools import islice

from antiphon.model.ids import Address
from antiphon.runtime.transports.contract import WIRE_LIMIT, address_of, host_and_port
from antiphon.runtime.transports.tcp.hello import Hello
from fuzz.arsenal import Arsenal

_TALKERS, _LEAVING, _HALVES, _CROWD = 12, 12, 40, 400
_WIRES, _COMPANIONS = 100, 20
_PATIENCE_S = 30.0
_HOSTS = ("127.0.0.1", "127.0.0.1", "127.0.0.2", "127.9.9.9")


class TcpThrower:
    def __init__(self, rng: random.Random) -> None:
        self.notes: list[str] = []
        self._rng = rng
        self._ear, self._deaf = _listening(), _listening()
        """Two places where strangers can be reached: one reads what it is told, the other never does."""
        self._hearing = selectors.DefaultSelector()
        self._hearing.register(self._ear, selectors.EVENT_READ, None)
        self._talkers: deque[socket.socket] = deque()
        self._leaving: deque[socket.socket] = deque()
        self._halves: deque[socket.socket] = deque()
        self._crowd: deque[socket.socket] = deque()

    @property
    def addresses(self) -> tuple[Address, ...]:
        return tuple(address_of(*each.getsockname()) for each in (self._ear, self._deaf))

    def aim(self, target: Address, members: list[Address], arsenal: Arsenal, *, guarded: bool) -> None:
        self._target, self._arsenal, self._guarded = host_and_port(target), arsenal, guarded
        self._others = [each for each in members if each != target]

    def throw(self, count: int) -> int:
        thrown = 0
        acts = (self._talk, self._mishello, self._stop_half_way, self._crowd_in, self._claim)
        while thrown < count:
            self.listen()
            act = self._rng.choices(acts, (70, 12, 6, 4, 8))[0]
            try:
                thrown += act()
            except OSError:
                thrown += 1  # shown out in the middle of it
        return thrown

    def listen(self) -> None:
        """Hears what members, and the target, say to the stranger that is their seed."""
        for key, _ in self._hearing.select(0):
            if key.data is None:
                came, _ = self._ear.accept()
                came.setblocking(False)
                self._hearing.register(came, selectors.EVENT_READ, _Member())
                continue
            with suppress(BlockingIOError):
                try:
                    data = key.fileobj.recv(1 << 18)  # type: ignore[union-attr]
                except ConnectionError:
                    data = b""
                if not data:
                    self._hearing.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
                for wire in key.data.hear(data):
                    if key.data.address in self._others:
                        self._arsenal.record(key.data.address, wire)

    def finish(self) -> None:
        """Waits until everything that was said has been heard, or the target has hung up."""
        for talker in (*self._leaving, *self._talkers):
            _let_go(talker)

    def close(self) -> None:
        heard = [key.fileobj for key in self._hearing.get_map().values()]
        for each in (*heard, self._deaf, *self._leaving, *self._talkers, *self._halves, *self._crowd):
            each.close()  # type: ignore[union-attr]
        self._hearing.close()

    # -- acts ------------------------------------------------------------------------------------------------------------------

    def _talk(self) -> int:
        """Says who it is, truthfully or not, and then anything but the truth."""
        if len(self._talkers) < _TALKERS:
            stranger = self._come()
            here = address_of(*stranger.getsockname())
            address = self._rng.choice((here, here, *self.addresses) if stranger.getsockname()[0] == "127.0.0.1" else (here,))
            stranger.sendall(_framed(Hello("eve", address).wire()))
            self._talkers.append(stranger)
        stranger = self._talkers.popleft()
        try:
            stranger.sendall(b"".join(map(_framed, self._arsenal.wires(_WIRES))))
        except OSError:
            stranger.close()
            raise
        if self._rng.random() < 0.9:
            self._talkers.append(stranger)
        else:
            self._leave(stranger)
        return _WIRES

    def _claim(self) -> int:
        """Claims to be a member. Without a key anybody on the same host can do that, and is believed: then it may only make noise."""
        member, arsenal = self._rng.choice(self._others), self._arsenal
        wires = [*arsenal.replays(member, 50), *arsenal.wires(150)] if self._guarded else arsenal.noise(50)
        liar = self._come("127.0.0.1")
        self._leave(liar)
        liar.sendall(b"".join(map(_framed, (Hello("ben", member).wire(), *wires))))
        return len(wires)

    def _leave(self, stranger: socket.socket) -> None:
        """Hangs up, when what it said has been heard."""
        self._leaving.append(stranger)
        if len(self._leaving) > _LEAVING:
            _let_go(self._leaving.popleft())

    def _mishello(self) -> int:
        """Says something else than hello first."""
        rng, good = self._rng, Hello("eve", "127.0.0.1:9").wire()
        first = rng.choice(
            (
                rng.randbytes(rng.choice((1, 4, 60, 4_000))),
                b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
                b"\x16\x03\x01\x02\x00\x01" + rng.randbytes(300),
                struct.pack("<I", rng.choice((0, 513, WIRE_LIMIT, WIRE_LIMIT + 1, 0xFFFFFFFF))) + rng.randbytes(100),
                _framed(self._arsenal.damage(good)),
                _framed(Hello("eve" * 30, rng.choice(("10.0.0.1:9", "localhost:9", "127.0.0.1:0", "", "x" * 99))).wire()),
                _framed(self._arsenal.wires(1)[0]),
            )
        )
        with self._come() as stranger:
            stranger.sendall(first)
        self._arsenal.thrown["hellos"] += 1
        return 1

    def _stop_half_way(self) -> int:
        """Begins a wire, or a hello, and stays; or goes on a byte at a time."""
        rng = self._rng
        stranger = self._come()
        self._halves.append(stranger)
        if len(self._halves) > _HALVES:
            self._halves.popleft().close()
        if rng.random() < 0.8:
            stranger.sendall(_framed(Hello("eve", address_of(*stranger.getsockname())).wire()))
            stranger.sendall(struct.pack("<I", WIRE_LIMIT) + bytes(rng.choice((0, 10, 100_000, WIRE_LIMIT - 1))))
        for slow in islice(self._halves, 8):
            with suppress(OSError):
                slow.sendall(b"\0")
        self._arsenal.thrown["half wires"] += 1
        return 1

    def _crowd_in(self) -> int:
        """Comes with many and says nothing."""
        for _ in range(_COMPANIONS):
            self._crowd.append(self._come())
        while len(self._crowd) > _CROWD:
            self._crowd.popleft().close()
        self._arsenal.thrown["silent connections"] += _COMPANIONS
        return _COMPANIONS

    def _come(self, host: str = "") -> socket.socket:
        source = (host or self._rng.choice(_HOSTS), 0)
        try:
            return socket.create_connection(self._target, _PATIENCE_S, source)
        except OSError:
            return socket.create_connection(self._target, _PATIENCE_S)  # not every system has more than one loopback address


def _listening() -> socket.socket:
    ear = socket.create_server(("127.0.0.1", 0), backlog=64)
    ear.setblocking(False)
    return ear


def _let_go(stranger: socket.socket) -> None:
    with suppress(OSError), stranger:
        stranger.shutdown(socket.SHUT_WR)
        while stranger.recv(4_096):
            continue


def _framed(wire: bytes) -> bytes:
    wire = wire[:WIRE_LIMIT]
    return struct.pack("<I", len(wire)) + wire


class _Member:
    """A connection that a node made to a stranger: who it is, and what it says."""

    def __init__(self) -> None:
        self.address = Address("")
        self._stream = bytearray()

    def hear(self, data: bytes) -> list[bytes]:
        stream, wires = self._stream, list[bytes]()
        stream += data
        while len(stream) >= 4 and len(stream) >= 4 + (size := struct.unpack_from("<I", stream)[0]):
            wires.append(bytes(stream[4 : 4 + size]))
            del stream[: 4 + size]
        if wires and not self.address and (hello := Hello.read(wires.pop(0))) is not None:
            self.address = Address(hello.address)
        return wires
