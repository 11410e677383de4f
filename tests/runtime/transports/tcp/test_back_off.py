"""Peers that come back at their old address, and peers whose process is gone."""

from __future__ import annotations

import asyncio
from typing import Any

from antiphon.model.ids import Address
from antiphon.runtime.transports.contract import host_and_port
from antiphon.runtime.transports.tcp import TcpTransport
from antiphon.runtime.transports.tcp.link import Link, State

_LONG_S = 3_600.0


async def _answering(**options: Any) -> TcpTransport:
    """A transport that answers each wire in the same turn, as a node answers a question."""
    transport = TcpTransport(name="ana", **options)

    def answer(source: Address, wires: list[bytes]) -> None:
        for wire in wires:
            transport.send((source,), b"answer to " + wire)

    await transport.open(answer)
    return transport


async def _back_off(transport: TcpTransport, to: Address, until: Any) -> None:
    """Fails to connect once, and has to wait an hour before the next attempt."""
    transport.send((to,), b"nobody hears this")
    link = transport._links[to]
    await until(lambda: link.state is State.RESTING)
    link._again_at = asyncio.get_running_loop().time() + _LONG_S
    transport.send((to,), b"nor this")
    assert link.state is State.RESTING, "the link is in back-off"


async def test_an_incoming_hello_ends_the_back_off(stations: Any, until: Any, way: str) -> None:
    """A node restarted at its old address would ask to join, and the others would drop every answer for up to two seconds."""
    async with stations(1) as (ben,):
        place = ben.address
        await ben.transport.close()
        ana = await _answering()
        try:
            await _back_off(ana, place, until)
            ben.transport._bind = host_and_port(place)
            await ben.transport.open(ben.take)
            ben.transport.send((ana.address,), b"question")
            await ben.receives(1)
            assert ben.wires == [(ana.address, b"answer to question")]
            assert ana.drops["unreachable"] == 2, "only what was sent before ben came back"
        finally:
            await ana.close()




async def test_an_attempt_that_fails_after_the_peer_said_hello_is_repeated(stations: Any, monkeypatch: Any) -> None:
    """The answer to a peer's first question would be lost with an attempt that began before the peer listened."""
    attempts, connect = 0, Link._connect
    async with stations(2) as (ana, ben):
        place = ben.address
        await ben.transport.close()
        ben.transport._bind = host_and_port(place)

        async def counted(link: Link) -> None:
            nonlocal attempts
            attempts += 1
            if attempts == 2:
                await ben.transport.open(ben.take)
            await connect(link)

        monkeypatch.setattr(Link, "_connect", counted)
        ana.transport.send((place,), b"answer")
        ana.transport._links[place].end_back_off()
        await ben.receives(1)
        assert (attempts, ben.wires) == (2, [(ana.address, b"answer")])


async def test_a_peer_that_is_gone_is_reported(stations: Any, until: Any, credentials: Any) -> None:
    """The death of a process would be noticed only by its silence, seconds after its connections were closed."""
    refused: list[Address] = []
    async with stations(2, credentials=credentials) as (ana, ben):
        ana.transport.report_refused(refused.append)
        place = ben.address
        ana.transport.send((place,), b"hello")
        await ben.receives(1)
        await ben.transport.close()
        await until(lambda: refused)  # although nothing more is sent to it
        assert set(refused) == {place}


async def test_a_lost_connection_that_can_be_reopened_is_not_reported(stations: Any, until: Any) -> None:
    """A peer at its limit of connections, or a link that flaps, would be taken for a process that died."""
    refused: list[Address] = []
    async with stations(2) as (ana, ben):
        ana.transport.report_refused(refused.append)
        ana.transport.send((ben.address,), b"hello")
        await ben.receives(1)
        for door in list(ben.transport._doors):
            door.close()
        await ana.counts("connection_lost")
        await until(lambda: ana.transport.stats()["connections_made"] == 2)
        assert refused == []


async def test_an_address_where_nobody_ever_was_is_not_reported(stations: Any, until: Any) -> None:
    """Seeds that have not started yet would be reported for as long as they are tried."""
    refused: list[Address] = []
    async with stations(1) as (ana,):
        ana.transport.report_refused(refused.append)
        ana.transport.send((Address("127.0.0.1:1"),), b"hello")
        await ana.counts("unreachable")
        assert refused == []
