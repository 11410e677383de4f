"""Throwing datagrams: from several strangers' addresses, and where this process may write its own IP headers, from members' too.

A flood that merely fills the receiver's socket would test the kernel, and take the members' own datagrams with it; so this looks at how
much waits there (Linux says), and pauses.
"""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from antiphon.model.ids import Address
from antiphon.runtime.transports.contract import address_of, host_and_port
from antiphon.runtime.transports.udp import datagram as d
from fuzz.arsenal import Arsenal

_BURST = 64
_WAITING_BYTES = 48 << 10
_HOSTS = ("127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.3", "127.9.9.9")
_PATIENCE_S = 30.0
_PART = struct.Struct("!BBHHII")


class UdpThrower:
    def __init__(self, rng: random.Random) -> None:
        self.notes: list[str] = []
        """What could not be done here, and why."""
        self._rng = rng
        self._strangers = [_bound(host) for host in _HOSTS]
        self._raw: socket.socket | None = None

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where the strangers are; members that have the first as a seed tell it things."""
        return tuple(address_of(*each.getsockname()) for each in self._strangers)

    def aim(self, target: Address, members: list[Address], arsenal: Arsenal, *, guarded: bool) -> None:
        self._target, self._arsenal = host_and_port(target), arsenal
        self._others = [host_and_port(each) for each in members if each != target]
        if guarded:
            try:
                self._raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
            except OSError as error:
                self.notes.append(f"nothing was sent from members' addresses: raw sockets are not allowed here ({error.strerror})")

    def throw(self, count: int) -> int:
        """Throws about so many; says how many."""
        rng, thrown = self._rng, 0
        while thrown < count:
            self.listen()
            if self._raw is not None and rng.random() < 0.3:
                thrown += self._pretend(self._raw)
            else:
                for number, wire in enumerate(self._arsenal.wires(_BURST)):
                    datagrams = self._headers(wire) if number % 8 == 0 else self._as_carried(wire)
                    for datagram in datagrams:
                        with suppress(OSError):  # an answer that nobody listens, to something sent earlier
                            rng.choice(self._strangers).sendto(datagram, self._target)
                    thrown += len(datagrams)
            self._pause()
        return thrown

    def listen(self) -> None:
        """Hears what members, and the target, say to the strangers."""
        for number, each in enumerate(self._strangers):
            with suppress(OSError):
                for _ in range(256):
                    datagram, source = each.recvfrom(65_536)
                    if number == 0 and source in self._others:
                        self._arsenal.record(address_of(*source), datagram.removeprefix(d._WHOLE_HEADER))

    def finish(self) -> None:
        """Waits until everything that was thrown has been read."""
        self._pause(0)

    def close(self) -> None:
        for each in (*self._strangers, *([self._raw] if self._raw else [])):
            each.close()

    def _pretend(self, raw: socket.socket) -> int:
        """Comes from a member's address: with what it said before, and with anything."""
        source = self._rng.choice(self._others)
        wires = [*self._arsenal.replays(address_of(*source), _BURST // 2), *self._arsenal.wires(_BURST // 2)]
        for wire in wires:
            for datagram in self._as_carried(wire):
                with suppress(OSError):
                    raw.sendto(_packet(datagram, source, self._target), self._target)
        return len(wires)

    def _as_carried(self, wire: bytes) -> Sequence[bytes]:
        """As a transport would send it; now and then as it is, whatever it begins with."""
        if self._rng.random() < 0.2:
            return (wire[: d.DATAGRAM_LIMIT],)
        return d.write(wire, d.DATAGRAM_LIMIT, d.EVERYBODY, self._rng.getrandbits(32))

    def _headers(self, wire: bytes) -> list[bytes]:
        """Headers of every kind with any fields, and wires in parts of which some are missing, doubled, or say otherwise."""
        rng, how = self._rng, self._rng.randrange(5)
        self._arsenal.thrown["headers"] += 1
        if how == 0:
            fields = rng.randrange(65_536), rng.choice((0, 1, 2, 4_096, 65_535)), rng.choice((0, 0, 7)), rng.getrandbits(32)
            return [_PART.pack(d.MARK, 0x11, *fields) + wire[:1_400]]
        if how == 1:
            return [bytes((d.MARK, rng.randrange(256))) + struct.pack("!I", rng.choice((0, 1, rng.getrandbits(32)))) + wire[:1_400]]
        if how == 2:
            return [d.present(rng.getrandbits(32)), *d.roll_calls(rng.getrandbits(32), [rng.randbytes(6) for _ in range(9)], 1_400)]
        wire_id = rng.randrange(500)
        parts = [_PART.pack(d.MARK, 0x11, index, 4, 0, wire_id) + wire[index : index + 200] for index in rng.sample(range(4), 3)]
        return parts if how == 3 else [*parts, parts[0], _PART.pack(d.MARK, 0x11, 3, 5, 0, wire_id) + bytes(60_000)]

    def _pause(self, most: int = _WAITING_BYTES) -> None:
        until = time.monotonic() + _PATIENCE_S
        while _waiting_bytes(self._target[1]) > most and time.monotonic() < until:
            time.sleep(0.0005)
            self.listen()


def _bound(host: str) -> socket.socket:
    stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        stranger.bind((host, 0))
    except OSError:
        stranger.bind(("127.0.0.1", 0))  # not every system has more than one loopback address
    stranger.setblocking(False)
    return stranger


def _waiting_bytes(port: int) -> int:
    """What waits at a socket of this machine to be read."""
    try:
        table = Path("/proc/net/udp").read_text()
    except OSError:
        time.sleep(0.001)  # nobody tells: slowly, then
        return 0
    end = f":{port:04X}"
    return sum(int(row[4].partition(":")[2], 16) for line in table.splitlines()[1:] if (row := line.split())[1].endswith(end))


def _packet(datagram: bytes, source: tuple[str, int], to: tuple[str, int]) -> bytes:
    """An IPv4 packet; its checksums are the kernel's affair, or may be left out."""
    size = 20 + 8 + len(datagram)
    hosts = socket.inet_aton(source[0]) + socket.inet_aton(to[0])
    ip = struct.pack("!BBHHHBBH", 0x45, 0, min(size, 65_535), 0, 0, 64, socket.IPPROTO_UDP, 0)
    return ip + hosts + struct.pack("!HHHH", source[1], to[1], 8 + len(datagram), 0) + datagram
