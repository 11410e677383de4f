"""Connections that others make: whoever they are, they cost only so much, and those who belong here are still heard."""

from __future__ import annotations

import asyncio
import random
import struct
from typing import Any

import pytest

from antiphon.runtime.transports.contract import WIRE_LIMIT
from antiphon.runtime.transports.tcp import door, transport
from antiphon.runtime.transports.tcp.hello import HELLO_LIMIT, Hello

HERE = "127.0.0.1:4000"


def framed(wire: bytes) -> bytes:
    return struct.pack("<I", len(wire)) + wire


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (framed(b""), "no_hello"),
        (framed(b"GET / HTTP/1.1\r\n\r\n"), "no_hello"),
        (framed(Hello("eve", HERE).wire()[:-1]), "no_hello"),
        (framed(Hello("eve", HERE).wire() + b"more"), "no_hello"),
        (framed(b"antiphon\x02" + Hello("eve", HERE).wire()[9:]), "no_hello"),
        (framed(b"antiphon\x01" + b"\x91" * 400), "no_hello"),
        (framed(b"antiphon\x01\x92\xa1\xff\xa1\xff"), "no_hello"),
        (b"GET / HTTP/1.1\r\nHost: nowhere\r\n\r\n", "oversized"),
        (struct.pack("<I", HELLO_LIMIT + 1), "oversized"),
        (struct.pack("<I", 0xFFFFFFFF), "oversized"),
        (framed(Hello("eve", HERE).wire()) + struct.pack("<I", WIRE_LIMIT + 1), "oversized"),
        (framed(Hello("eve", "10.0.0.1:4000").wire()), "forged_address"),
        (framed(Hello("eve", "127.0.0.2:4000").wire()), "forged_address"),
        (framed(Hello("eve", "localhost:4000").wire()), "forged_address"),
        (framed(Hello("eve", "127.0.0.1:0").wire()), "forged_address"),
        (framed(Hello("eve", "127.0.0.1:99999").wire()), "forged_address"),
        (framed(Hello("eve", "127.0.0.1:04000").wire()), "forged_address"),
        (framed(Hello("eve", "127.0.0.1:٤٠٠٠").wire()), "forged_address"),
        (framed(Hello("eve", "").wire()), "forged_address"),
    ],
)
async def test_who_does_not_say_who_it_is_is_shown_out(stations: Any, stranger: Any, first: bytes, reason: str) -> None:
    """A port scanner, a browser or a liar would be listened to."""
    async with stations(1) as (ana,):
        eve = stranger(ana.address).pour(first)
        await eve.is_shown_out()
        assert ana.drops == {reason: 1}
        assert ana.wires == []
        await ana.is_left_alone()


async def test_who_says_nothing_is_shown_out(stations: Any, stranger: Any, credentials: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections on which nothing ever comes would use up those that a node can have."""
    monkeypatch.setattr(door, "_HELLO_S", 0.1)
    async with stations(1, credentials=credentials) as (ana,):
        for hint in (b"", b"\x16\x03\x01", b"\x05"):
            await stranger(ana.address).pour(hint).is_shown_out()
        assert ana.drops == {"no_hello": 3}
        await ana.is_left_alone()


async def test_bytes_may_come_in_any_portions(stations: Any, stranger: Any) -> None:
    """A slow or busy network, which cuts the stream where it likes, would make frames of halves."""
    async with stations(1) as (ana,):
        eve, rng = stranger(ana.address), random.Random(7)
        wires = [rng.randbytes(size) for size in (0, 1, 5, 300, 0, 70_000, 3)]
        stream = framed(Hello("eve", eve.address).wire()) + b"".join(map(framed, wires))
        at = 0
        while at < len(stream):
            size = 1 if at < 400 else rng.choice((1, 2, 3, 4, 5, 1_000, 30_000))
            eve.pour(stream[at : at + size])
            at += size
            await asyncio.sleep(0)
        await ana.receives(len(wires))
        assert ana.wires == [(eve.address, wire) for wire in wires]
        assert ana.transport.stats()["half_wires_bytes"] == 0


async def test_what_comes_with_the_hello_counts(stations: Any, stranger: Any) -> None:
    """The first words of a peer, which often come in one packet with its hello, would be lost."""
    async with stations(1) as (ana,):
        eve = stranger(ana.address)
        eve.say(Hello("eve", eve.address).wire(), b"first", b"second")
        assert await ana.receives(2) == [(eve.address, b"first"), (eve.address, b"second")]


async def test_what_comes_with_the_end_of_the_handshake_counts(stations: Any, authority: Any) -> None:
    """The first words on a TLS connection would be lost or taken for a part of the handshake, on a fast enough network."""
    async with stations(2, credentials=authority.issue) as (ana, ben):
        wires = [bytes([number]) * 100_000 for number in range(20)]
        for wire in wires:
            ben.transport.send((ana.address,), wire)
        await ana.receives(20)
        assert ana.said(ben) == wires
        assert not ana.drops


async def test_handshakes_that_come_to_nothing_leave_nothing(stations: Any, stranger: Any, authority: Any) -> None:
    """After a thousand port scans nobody could connect any more."""
    async with stations(1, credentials=authority.issue, connections=8) as (ana,):
        for number in range(30):
            eve = stranger(ana.address)
            if number % 3 == 0:
                await eve.greet().is_shown_out()  # no TLS at all
            elif number % 3 == 1:
                await eve.pour(b"\x16\x03\x01\x00\x05junk!").is_shown_out()
            else:
                eve.close()
        await ana.counts("no_hello", 10)
        await ana.is_left_alone()
        assert ana.drops == {"malformed": 20, "no_hello": 10}
        assert ana.wires == []


async def test_half_wires_are_bounded_in_all(stations: Any, stranger: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred strangers that each send a megabyte less one byte would fill the memory of a node."""
    monkeypatch.setattr(transport, "_HALVES_BYTES", 3 << 20)
    async with stations(2) as (ana, ben):
        ben.transport.send((ana.address,), b"before")
        await ana.receives(1)
        half = struct.pack("<I", WIRE_LIMIT) + bytes(100_000)
        strangers = [stranger(ana.address).greet() for _ in range(60)]
        for eve in strangers:
            eve.pour(half)
            await asyncio.sleep(0.001)
        await ana.counts("half_wires_full", 20)
        assert ana.transport._halves_bytes <= 3 << 20
        ben.transport.send((ana.address,), bytes(WIRE_LIMIT))
        await ana.receives(2)
        assert len(ana.said(ben)[1]) == WIRE_LIMIT
        for eve in strangers:
            eve.close()
        while len(ana.transport._doors) > 1:
            await asyncio.sleep(0.01)
        assert ana.transport._halves_bytes == 0


@pytest.mark.parametrize("polite", [False, True], ids=["that say nothing", "that say hello"])
async def test_a_crowd_does_not_keep_out_those_who_belong_here(stations: Any, stranger: Any, polite: bool) -> None:
    """Whoever opens enough connections could keep every other node out, and part those that are connected."""
    async with stations(3, connections=10) as (ana, ben, cem):
        ben.transport.send((ana.address,), b"first")
        await ana.receives(1)
        for _ in range(60):
            eve = stranger(ana.address)
            if polite:
                eve.greet()
            ben.transport.send((ana.address,), b"on and on")
            await asyncio.sleep(0.002)
        await ana.counts("too_many_connections", 20)
        cem.transport.send((ana.address,), b"may I come in?")
        while not ana.said(cem):
            await asyncio.sleep(0.01)
        ben.transport.send((ana.address,), b"last")
        while ana.said(ben)[-1] != b"last":
            await asyncio.sleep(0.01)
        assert len(ana.transport._doors) <= 10
        assert ben.transport._links[ana.address].connections == 1
        assert ben.transport._links[ana.address].state.name == "OPEN"


async def test_a_crowd_from_one_host_makes_room_among_itself(stations: Any, stranger: Any) -> None:
    """One host with a fault would push out all others, who are quiet and well-behaved."""
    async with stations(1, connections=6) as (ana,):
        quiet = stranger(ana.address, "127.0.0.3").greet()
        await _met(ana, quiet)
        for _ in range(30):
            eve = stranger(ana.address, "127.0.0.4").greet()
            eve.say(b"noise")
            await asyncio.sleep(0.002)
        await ana.counts("too_many_connections", 20)
        quiet.say(b"still here")
        while (quiet.address, b"still here") not in ana.wires:
            await asyncio.sleep(0.01)


async def test_strangers_do_not_crowd_out_those_to_whom_a_broadcast_goes(stations: Any, stranger: Any) -> None:
    """Whoever says hello under many addresses could make a node forget where the others are."""
    async with stations(2, connections=5) as (ana, ben):
        ben.transport.send((ana.address,), b"hello")
        await ana.receives(1)
        for port in range(5_000, 5_040):
            eve = stranger(ana.address).greet(f"127.0.0.1:{port}")
            await _met(ana, eve, f"127.0.0.1:{port}")
            eve.close()
            ben.transport.send((ana.address,), b"still here")
            await asyncio.sleep(0)
        assert len(ana.transport._met) <= 5
        ana.transport.broadcast(b"who is there?")
        assert await ben.receives(1) == [(ana.address, b"who is there?")]


async def test_nothing_is_handed_on_after_the_end(stations: Any, stranger: Any) -> None:
    """A node that is closed would still be called, by then with nobody to answer."""
    async with stations(1) as (ana,):
        eve = stranger(ana.address).greet()
        await _met(ana, eve)
        (only,) = ana.transport._doors
        await ana.transport.close()
        only.data_received(framed(b"late"))
        assert ana.wires == []
        await eve.is_shown_out()


async def test_with_certificates_an_address_belongs_to_whoever_is_there(stations: Any, authority: Any) -> None:
    """One node with a certificate of its own could take the place of another, and get what is meant for it."""
    async with stations(2, credentials=authority.issue) as (ana, ben):
        ben.transport.send((ana.address,), b"it is me")
        await ana.receives(1)
        async with stations(1, credentials=lambda _: authority.issue("eve")) as (eve,):
            for name, reason in (("ben", "wrong_name"), ("eve", "forged_address")):
                eve.transport._hello = Hello(name, ben.address).wire()
                eve.transport._links.clear()
                eve.transport.send((ana.address,), b"no, it is me")
                await ana.counts(reason)
        assert ana.wires == [(ben.address, b"it is me")]


async def _met(station: Any, eve: Any, address: str | None = None) -> None:
    """Waits until a hello has been heard."""
    while (address or eve.address) not in {each.source for each in station.transport._doors}:
        await asyncio.sleep(0.002)
