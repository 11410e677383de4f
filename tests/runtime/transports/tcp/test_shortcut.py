"""The short way between nodes of one machine: who may take it, and that nothing is lost where it cannot be taken."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from antiphon.model.ids import Address
from antiphon.runtime.transports.tcp import link, shortcut
from antiphon.runtime.transports.tcp.hello import Hello

pytestmark = [
    pytest.mark.parametrize("way", ["shortcut"], indirect=True),
    pytest.mark.skipif(sys.platform != "linux", reason="there is no short way on this system"),
]

_NOBODY = 65_534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


async def test_nodes_of_one_host_meet_by_it(stations: Any) -> None:
    """What costs half for each wire would not be used."""
    async with stations(2) as (ana, ben):
        ana.transport.send((ben.address,), b"short")
        ben.transport.send((ana.address,), b"way")
        assert await ben.receives(1) == [(ana.address, b"short")]
        assert await ana.receives(1) == [(ben.address, b"way")]
        assert _families(ana) == _families(ben) == {socket.AF_UNIX}
        assert not ana.drops + ben.drops


async def test_with_tls_everything_goes_over_tcp(stations: Any, authority: Any) -> None:
    """A connection past the certificates would let in who has none."""
    async with stations(2, credentials=authority.issue) as (ana, ben):
        ana.transport.send((ben.address,), b"guarded")
        await ben.receives(1)
        assert _families(ana) == _families(ben) == {socket.AF_INET}
        assert shortcut.connect(ben.address) is None


async def test_a_name_that_somebody_has_taken_leaves_tcp(stations: Any, until: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node could not start, or not be reached, because of a name that is a convenience: even one of the same user's who hangs up."""
    listen = shortcut.listen

    async def rude(reader: Any, writer: Any) -> None:
        writer.close()

    elsewhere = [_free_address(), _free_address()]
    taken = [await asyncio.start_unix_server(rude, sock=listen(address, 8)) for address in elsewhere]
    monkeypatch.setattr(shortcut, "listen", lambda address, backlog: None)
    async with stations(2) as (ana, ben):
        names = dict(zip((ana.address, ben.address), elsewhere, strict=True))
        monkeypatch.setattr(link, "connect", lambda address: shortcut.connect(names[address]))

        def arrives() -> bool:
            ana.transport.send((ben.address,), b"all the same")
            return bool(ben.wires)

        await until(arrives)
        assert _families(ana) == {socket.AF_INET}
    for server in taken:
        server.close()


async def test_where_no_such_socket_may_be_made_everything_goes_over_tcp(stations: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that is allowed Internet sockets alone, as many are, could not start."""
    make = socket.socket

    def forbidding(family: int = socket.AF_INET, *more: Any, **named: Any) -> socket.socket:
        if family == socket.AF_UNIX:
            raise OSError(errno.EAFNOSUPPORT, "address family not supported by protocol")
        return make(family, *more, **named)

    monkeypatch.setattr(shortcut, "socket", _Shadow(socket, socket=forbidding))
    async with stations(2) as (ana, ben):
        ana.transport.send((ben.address,), b"all the same")
        await ben.receives(1)
        assert _families(ana) == {socket.AF_INET}


async def test_it_can_be_left_out(stations: Any) -> None:
    """Who looks at the wires with a sniffer, or cuts them with a filter, would wonder where they are."""
    async with stations(2, short_way=False) as (ana, ben):
        ana.transport.send((ben.address,), b"over TCP")
        await ben.receives(1)
        assert _families(ana) == {socket.AF_INET}
        assert shortcut.connect(ben.address) is None


async def test_a_peer_that_takes_nothing_is_given_up(stations: Any, until: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped process would keep what was written to it for ever, and with it the others' share of what may be kept."""
    monkeypatch.setattr(link, "_SILENCE_S", 0.2)
    async with stations(1) as (ana,):
        address = _free_address()
        deaf = shortcut.listen(address, 8)
        assert deaf is not None
        with deaf:
            ana.transport.send((address,), b"?")
            await until(lambda: ana.transport._links[address].state is link.State.OPEN)
            for _ in range(40):
                ana.transport.send((address,), bytes(1_000_000))
            assert ana.transport._backlog.links == 1
            await ana.counts("connection_lost")
        await until(lambda: ana.transport._backlog.links == 0)


async def test_a_slow_peer_is_not_given_up(stations: Any, until: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads slowly would lose its connection, and what is in it, again and again."""
    monkeypatch.setattr(link, "_SILENCE_S", 0.2)
    async with stations(1) as (ana,):
        address = _free_address()
        slow = shortcut.listen(address, 8)
        assert slow is not None
        with slow:
            ana.transport.send((address,), b"?")
            await until(lambda: ana.transport._links[address].state is link.State.OPEN)
            for _ in range(20):
                ana.transport.send((address,), bytes(1_000_000))
            reader, _ = slow.accept()
            with reader:
                reader.setblocking(False)
                taken = 0
                while taken < 20_000_000:
                    await asyncio.sleep(0.02)
                    with suppress(BlockingIOError):
                        taken += len(reader.recv(1 << 20))
                assert ana.drops["connection_lost"] == 0


@as_root
async def test_nobody_is_reached_under_a_name_that_another_user_has_taken(stations: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any user of the machine could take the name of a node, and get what is meant for it."""
    monkeypatch.setattr(shortcut, "listen", lambda address, backlog: None)
    async with stations(2) as (ana, ben):
        with _somebody_else(lambda sock: (sock.bind(_name(ben.address)), sock.listen())):
            assert shortcut.connect(ben.address) is None
            ana.transport.send((ben.address,), b"for ben alone")
            assert await ben.receives(1) == [(ana.address, b"for ben alone")]
            assert _families(ana) == {socket.AF_INET}


@as_root
async def test_another_user_does_not_come_in_this_way(stations: Any) -> None:
    """Over TCP the kernel says where a stranger comes from; here it can only say who it is."""
    async with stations(1) as (ana,):
        with _somebody_else(lambda sock: sock.connect(_name(ana.address))):
            await ana.counts("another_user")
            await ana.is_left_alone()


async def test_who_comes_this_way_is_of_this_host(stations: Any) -> None:
    """A process of this machine could speak for a node of another one."""
    async with stations(1) as (ana,):
        sock = shortcut.connect(ana.address)
        assert sock is not None
        with sock:
            hello = Hello("eve", "192.0.2.7:4040").wire()
            sock.sendall(len(hello).to_bytes(4, "little") + hello)
            await ana.counts("forged_address")
            await ana.is_left_alone()


async def test_a_closed_transport_leaves_no_name(stations: Any) -> None:
    """A node that starts anew at its address would not be reached any more."""
    async with stations(1) as (ana,):
        address = ana.address
        sock = shortcut.connect(address)
        assert sock is not None
        sock.close()
    assert shortcut.connect(address) is None
    again = shortcut.listen(address, 1)
    assert again is not None
    again.close()


class _Shadow:
    """A module, but for some of its names."""

    def __init__(self, module: Any, **names: Any) -> None:
        self._module = module
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _families(station: Any) -> set[int]:
    """What kinds of sockets lead from and to a transport."""
    ends = [*station.transport._links.values(), *station.transport._doors]
    return {end._transport.get_extra_info("socket").family for end in ends}


def _free_address() -> Address:
    """Where nobody is."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return Address(f"127.0.0.1:{server.getsockname()[1]}")


def _name(address: Address) -> str:
    return f"\0antiphon/{address}"


@contextmanager
def _somebody_else(do: Callable[[socket.socket], object]) -> Iterator[None]:
    """A process of another user, which has done this with a socket and keeps it."""
    done, said = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setuid(_NOBODY)
            sock = socket.socket(socket.AF_UNIX)
            do(sock)
            os.write(said, b".")
            signal.pause()
        finally:
            os._exit(1)
    os.close(said)
    try:
        assert os.read(done, 1) == b"."
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(done)
