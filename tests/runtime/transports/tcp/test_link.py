"""Connections that this node makes: peers that are not there, come back, do not read, or talk back."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

import pytest

from antiphon.model.ids import Address
from antiphon.runtime.transports.contract import host_and_port
from antiphon.runtime.transports.tcp import TcpTransport, backlog, link
from antiphon.runtime.transports.tcp.link import State

NOBODY = Address("127.0.0.1:1")


async def test_who_was_away_is_spoken_to_again(stations: Any, credentials: Any) -> None:
    """A program that was restarted at the same place would be deaf until everybody else is restarted too."""
    async with stations(2, credentials=credentials) as (ana, ben):
        place = ben.address
        for stay in range(3):
            number, heard = 0, len(ben.wires)
            while len(ben.wires) == heard:
                ana.transport.send((place,), b"%d/%d" % (stay, number))
                number += 1
                await asyncio.sleep(0.01)
            ben.transport._bind = host_and_port(place)
            await ben.transport.close()
            ana.transport.send((place,), b"nobody hears this")
            await ben.transport.open(ben.take)
        assert [wire for _, wire in ben.wires if wire.startswith(b"nobody")] == []
        assert ana.transport.stats()["connections_made"] == 3
        assert ana.drops["connection_lost"] == 3


async def test_who_is_not_there_is_not_asked_all_the_time(stations: Any) -> None:
    """One dead address in a list would keep a processor busy with connecting, and the dead host's network too."""
    asked = 0

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server, stations(1) as (ana,):
        busy = Address(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        for _ in range(400):
            ana.transport.send((busy, NOBODY), b"hello?")
            await asyncio.sleep(0.002)
        assert 2 <= asked <= 40
        assert ana.transport._links[busy]._pause_s > link._PAUSE_S
        assert ana.drops["unreachable"] > 400


async def test_the_pause_is_short_again_after_a_connection_that_held(stations: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that was away once would be waited for the longest time at every little interruption after that."""
    monkeypatch.setattr(link, "_PAUSE_MAX_S", 0.1)  # which is also how long a connection has to hold
    async with stations(2) as (ana, ben):
        ana.transport.send((ben.address,), b"hello")
        await ben.receives(1)
        one = ana.transport._links[ben.address]
        one._pause_s = 99.0
        await asyncio.sleep(0.2)
        for door in list(ben.transport._doors):
            door.close()
        await ana.counts("connection_lost")
        assert one._pause_s == 2 * link._PAUSE_S


async def test_who_does_not_answer_is_given_up(stations: Any, deaf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that drops everything would hold what is sent to it, and the link, for ever."""
    monkeypatch.setattr(link, "_CONNECT_S", 0.1)
    async with stations(1) as (ana,):
        silent = deaf(crowded=True).address
        for _ in range(5):
            ana.transport.send((silent,), b"hello?")
        await ana.counts("unreachable", 5)
        assert ana.transport._links[silent].state is State.RESTING
        assert ana.transport._backlog.links == 0


async def test_what_waits_for_a_connection_is_bounded(stations: Any, deaf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender's memory would fill with what is meant for a host that is switched off."""
    monkeypatch.setattr(link, "_WAITING_BYTES", 10_000)
    async with stations(1) as (ana,):
        silent = deaf(crowded=True).address
        for _ in range(30):
            ana.transport.send((silent,), bytes(996))
        assert ana.drops == {"unreachable": 20}


async def test_who_never_reads_costs_only_so_much_and_only_itself(
    stations: Any, deaf: Any, credentials: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One stopped program would fill the memory of all others, or stop what they say to each other."""
    monkeypatch.setattr(backlog, "_LINK_BYTES", 2 << 20)
    async with stations(2, credentials=credentials) as (ana, ben):
        stuck = deaf().address if credentials is None else ben.address
        number = 0
        if credentials is not None:
            ana.transport.send((stuck,), b"hello")
            await ben.receives(1)
            for door in ben.transport._doors:
                door._transport.pause_reading()
        while not ana.drops["peer_behind"]:
            ana.transport.send((stuck,), bytes(100_000))
            number += 1
            assert number < 1_000, "nothing is ever dropped"
            if number % 10 == 0:
                await asyncio.sleep(0)
        written = ana.transport._links[stuck]._transport.get_write_buffer_size()
        assert written <= 2 << 20
        if credentials is None:
            ana.transport.send((ben.address,), b"and you?")
            assert await ben.receives(1) == [(ana.address, b"and you?")]


async def test_many_who_never_read_cost_no_more_than_all_may(stations: Any, deaf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can have answers sent to as many addresses as it likes could fill the memory of a node with them."""
    monkeypatch.setattr(backlog, "_ALL_BYTES", 8 << 20)
    async with stations(1) as (ana,):
        many = tuple(deaf().address for _ in range(12))
        ana.transport.send(many, b"hello")
        links = ana.transport._links
        while not all(links[each].state is State.OPEN for each in many):
            await asyncio.sleep(0.01)
        for _ in range(200):
            ana.transport.send(many, bytes(100_000))
            await asyncio.sleep(0)
        kept = sum(each._transport.get_write_buffer_size() for each in links.values())
        assert kept <= (8 << 20) + len(many) * (link._HIGH_BYTES + 100_004)
        assert ana.drops["peer_behind"] > 0
        assert ana.transport._backlog.links == 12
    assert ana.transport._backlog.links == 0


async def test_who_never_reads_does_not_hold_up_the_end(stations: Any, deaf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program could not end, or would leave its sockets behind, because another one has stopped."""
    monkeypatch.setattr(link, "_FAREWELL_S", 0.05)
    async with stations(1) as (ana,):
        stuck = deaf().address
        ana.transport.send((stuck,), bytes(1_000_000))
        one = ana.transport._links[stuck]
        while one.state is not State.OPEN:
            await asyncio.sleep(0.01)
        for _ in range(10):
            ana.transport.send((stuck,), bytes(1_000_000))
        await ana.transport.close()
        assert one._gone.done()
        assert one._transport is None


async def test_what_is_sent_while_the_connection_breaks_is_counted(stations: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A peer that dies under load would fill the log with a line per wire, and the wires would be counted nowhere."""
    async with stations(1) as (ana,):
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.setblocking(False)
            to = Address(f"127.0.0.1:{server.getsockname()[1]}")
            ana.transport.send((to,), b"hello")
            peer, _ = await asyncio.get_running_loop().sock_accept(server)
            while ana.transport._links[to].state is not State.OPEN:
                await asyncio.sleep(0)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
            for _ in range(50):  # in one turn: nobody has said yet that the connection is lost
                ana.transport.send((to,), bytes(1_000))
            await ana.counts("connection_lost")
            for _ in range(3):
                await asyncio.sleep(0)
        assert caplog.records == []


async def test_who_talks_back_is_not_listened_to(stations: Any) -> None:
    """Somebody that this node connected to could speak without saying who it is, or keep it busy with reading."""
    async with stations(1) as (ana,):
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.setblocking(False)
            ana.transport.send((Address(f"127.0.0.1:{server.getsockname()[1]}"),), b"hello")
            peer, _ = await asyncio.get_running_loop().sock_accept(server)
            with peer:
                peer.send(b"\x00\x00\x00\x00 nothing that you asked for")
                await ana.counts("unexpected_bytes")
                await ana.counts("connection_lost")
        assert ana.wires == []


async def test_what_is_sent_on_a_broken_connection_is_counted(stations: Any) -> None:
    """Somebody would look for a message that no counter knows of."""
    async with stations(2) as (ana, ben):
        for number in range(3):  # until small wires go to the kernel directly
            ana.transport.send((ben.address,), b"%d" % number)
            await ben.receives(number + 1)
        link = ana.transport._links[ben.address]
        link.data_received(b"what nobody asked for")
        ana.transport.send((ben.address,), b"to nobody")
        assert ana.transport.drops["unreachable"] == 1
        await ana.counts("connection_lost")
        assert not link._direct


async def test_links_that_lead_nowhere_make_room_first(stations: Any, deaf: Any) -> None:
    """A stranger that names a thousand addresses could close the connections between members."""
    async with stations(2, connections=4) as (ana, ben):
        ana.transport.send((ben.address,), b"one")
        await ben.receives(1)
        silent = deaf(crowded=True).address
        for port in range(1, 30):
            ana.transport.send((Address(f"127.0.0.1:{port}"), silent), b"?")
            if port % 5 == 0:
                await asyncio.sleep(0.01)
        assert len(ana.transport._links) == 4
        ana.transport.send((ben.address,), b"two")
        await ben.receives(2)
        assert ana.transport._links[ben.address].connections == 1


async def test_the_link_that_was_used_longest_ago_makes_room_next(stations: Any) -> None:
    """A node with many peers would cut off those it talks to most."""
    async with stations(4, connections=2) as (ana, ben, cem, dee):
        for _ in range(2):
            for peer in (ben, cem, ben):
                ana.transport.send((peer.address,), b"?")
                await peer.receives(1)
        ana.transport.send((dee.address,), b"?")
        await dee.receives(1)
        assert set(ana.transport._links) == {ben.address, dee.address}
        await cem.is_left_alone()


@pytest.mark.parametrize("way", ["tcp"], indirect=True)
async def test_a_peer_that_vanishes_without_a_word_is_noticed(stations: Any) -> None:
    """A host that lost its power would be written to for a quarter of an hour before anybody doubts it."""
    async with stations(2) as (ana, ben):
        ana.transport.send((ben.address,), b"hello")
        await ben.receives(1)
        link_socket = ana.transport._links[ben.address]._transport.get_extra_info("socket")
        (door,) = ben.transport._doors
        for each in (link_socket, door._transport.get_extra_info("socket")):
            assert each.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                assert 0 < each.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 30_000


async def test_a_peer_that_does_not_speak_tls_is_counted(stations: Any, authority: Any) -> None:
    """A node without credentials among nodes with them would be a riddle: connections that come and go, and nothing said of why."""
    async with stations(1) as (plain,), stations(1, credentials=authority.issue) as (ana,):
        ana.transport.send((plain.address,), b"hello")
        await ana.counts("unreachable")
        plain.transport.send((ana.address,), b"hello")
        await ana.counts("malformed")
        assert plain.wires == ana.wires == []
        await plain.is_left_alone()
        await ana.is_left_alone()


async def test_two_that_do_not_trust_each_other_say_so(stations: Any, authority: Any, tmp_path: Any) -> None:
    """An authority that was forgotten in one configuration would look like a broken cable."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    others = type(authority)(elsewhere, "others")
    async with stations(1, credentials=authority.issue) as (ana,), stations(1, credentials=others.issue) as (eve,):
        eve.transport.send((ana.address,), b"let me in")
        await eve.counts("untrusted_certificate")
        await ana.counts("no_hello")
        trusting = TcpTransport(name="eve", contexts=_contexts(others.issue("eve", trusts=authority.path)))
        await trusting.open(eve.take)
        trusting.send((ana.address,), b"let me in")
        await ana.counts("untrusted_certificate")
        await trusting.close()
        assert ana.wires == []
        await ana.is_left_alone()


def _contexts(mine: Any) -> Any:
    return mine.server_context(), mine.client_context()
