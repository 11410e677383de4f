"""The mesh on loopback: what is sent arrives, in its order; opening, closing, and what is left afterwards."""

from __future__ import annotations

import asyncio
import random
import socket
import subprocess
import sys
from textwrap import dedent
from typing import Any

import pytest

from antiphon.errors import InvalidOption
from antiphon.model.ids import Address
from antiphon.model.options import Settings
from antiphon.runtime.transports.contract import WIRE_LIMIT, Transport
from antiphon.runtime.transports.tcp import TcpTransport

SIZES = (0, 1, 3, 4, 100, 1_472, 65_535, 65_536, 65_537, 240_000, 262_140, 262_144, 1 << 20, WIRE_LIMIT - 1, WIRE_LIMIT)


async def test_wires_of_every_size_arrive_whole_and_in_order(stations: Any, credentials: Any) -> None:
    """Frames of some sizes would never arrive, arrive damaged, or overtake each other."""
    async with stations(2, credentials=credentials) as (ana, ben):
        sent = [random.Random(size).randbytes(size) for size in (*SIZES, *reversed(SIZES))]
        for wire in sent:
            ana.transport.send((ben.address,), wire)
        await ben.receives(len(sent))
        assert ben.wires == [(ana.address, wire) for wire in sent]
        assert not ana.drops
        assert not ben.drops


async def test_what_is_larger_than_any_frame_is_not_sent(stations: Any) -> None:
    """The peer would take the connection for a stranger's and close it, with everything that is on its way."""
    async with stations(2) as (ana, ben):
        for wire in (b"before", bytes(WIRE_LIMIT + 1), b"after"):
            ana.transport.send((ben.address,), wire)
        await ben.receives(2)
        assert ben.said(ana) == [b"before", b"after"]
        assert ana.drops == {"wire_oversized": 1}
        assert ana.transport.stats()["connections_made"] == 1


async def test_everybody_hears_everybody(stations: Any, credentials: Any) -> None:
    """Two nodes that connect to each other at the same moment would lose one of the connections, and what was on it."""
    async with stations(3, credentials=credentials) as mesh:
        for number in range(300):
            for one in mesh:
                others = tuple(other.address for other in mesh if other is not one)
                one.transport.send(others, b"%d" % number)
            if number % 50 == 0:
                await asyncio.sleep(0)
        for one in mesh:
            await one.receives(600)
            for other in mesh:
                if other is not one:
                    assert one.said(other) == [b"%d" % number for number in range(300)]
            assert not one.drops


async def test_a_broadcast_reaches_seeds_and_whoever_came(stations: Any) -> None:
    """A node that was given one address would find only that one, and nobody would find it."""
    async with stations(1) as (ana,), stations(1, seeds=[ana.address]) as (ben,):
        ana.transport.broadcast(b"is anybody there?")
        assert ana.drops == {"nobody_to_ask": 1}
        ben.transport.broadcast(b"I am")
        await ana.receives(1)
        ana.transport.broadcast(b"so am I")
        await ben.receives(1)
        assert (ana.wires, ben.wires) == ([(ben.address, b"I am")], [(ana.address, b"so am I")])


async def test_a_seed_may_be_a_name_and_a_peer_may_not(stations: Any) -> None:
    """Whoever can send a frame could make this node ask name servers for whatever it likes, and wait for the answers."""
    async with stations(1) as (ana,):
        named = f"localhost:{ana.address.rpartition(':')[2]}"
        async with stations(1, seeds=[named]) as (ben,):
            ben.transport.broadcast(b"by name")
            await ana.receives(1)
            for address in (named, "nowhere.invalid:9", "", "x" * 300 + ":1", "127.0.0.1:٣", "127.0.0.1:0", "127.0.0.1:099"):
                ana.transport.send((Address(address),), b"?")
            assert ana.drops == {"bad_address": 7}
            assert ana.transport.stats()["links"] == 0


async def test_a_name_that_no_host_can_have_is_only_unreachable(stations: Any) -> None:
    """A slip in a list of seeds would stop the link's task and never be noticed."""
    async with stations(1, seeds=["x" * 70 + ".invalid:9"]) as (ana,):
        ana.transport.broadcast(b"anybody?")
        await ana.counts("unreachable")


async def test_who_is_bound_to_one_of_several_addresses_speaks_from_it(stations: Any) -> None:
    """A host with two networks would name one address and come from the other, and be taken for a liar."""
    async with stations(1) as (ana,), stations(1, bind="127.0.0.2:0") as (ben,):
        ben.transport.send((ana.address,), b"hello")
        assert await ana.receives(1) == [(ben.address, b"hello")]
        ana.transport.send((ben.address,), b"yes?")
        assert await ben.receives(1) == [(ana.address, b"yes?")]


@pytest.mark.skipif(not socket.has_ipv6, reason="this Python has no IPv6")
async def test_ipv6_works_the_same(stations: Any) -> None:
    """Networks without IPv4 would have no nodes."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError as error:
        pytest.skip(f"this machine has no IPv6 loopback: {error}")
    async with stations(2, bind="[::1]:0") as (ana, ben):
        assert ana.address.startswith("[::1]:")
        ana.transport.send((ben.address,), b"hello")
        assert await ben.receives(1) == [(ana.address, b"hello")]


# -- opening and closing -------------------------------------------------------------------------------------------------------------


async def test_a_port_that_is_taken_is_named(stations: Any) -> None:
    """Somebody who starts a program twice would be told a number."""
    async with stations(1) as (ana,):
        other = TcpTransport(ana.address)
        with pytest.raises(OSError, match=rf"cannot listen at {ana.address}: the port is in use: choose another, or 0 for any"):
            await other.open(ana.take)
        await other.close()
        ana.transport.send((Address("127.0.0.1:9"),), b"the first goes on")


async def test_a_host_that_is_not_here_is_named(stations: Any) -> None:
    """A typing error in `bind` would be a traceback from the depths of the event loop."""
    with pytest.raises(OSError, match=r"cannot listen at 192\.0\.2\.1:0: "):
        await TcpTransport("192.0.2.1:0").open(lambda source, wires: None)
    for wrong in ("", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", ":1"):
        with pytest.raises(InvalidOption, match="host:port"):
            TcpTransport(wrong)
        with pytest.raises(InvalidOption, match="host:port"):
            TcpTransport(seeds=[wrong])


async def test_it_is_a_transport_whose_frames_the_core_can_use(stations: Any) -> None:
    """A transport that says the wrong things of itself would be found out only by the first large message."""
    async with stations(1) as (ana,):
        transport: Transport = ana.transport
        assert Settings(frame_bytes=transport.frame_bytes).frame_bytes == transport.frame_bytes
        assert transport.lossless


async def test_it_closes_once_and_for_all(stations: Any) -> None:
    """What is sent after the end would open connections that nobody closes."""
    async with stations(2) as (ana, ben):
        ana.transport.send((ben.address,), b"hello")
        await ben.receives(1)
        never = TcpTransport()
        await never.close()
        never.send((ben.address,), b"before the beginning")
        assert never.drops == {"closed": 1}
        with pytest.raises(OSError, match="open already"):
            await ana.transport.open(ana.take)
        await ana.transport.close()
        await ana.transport.close()
        ana.transport.send((ben.address, Address("127.0.0.1:9")), b"after the end")
        assert ana.drops == {"closed": 2}
        assert ana.transport.stats()["links"] == ana.transport.stats()["doors"] == 0
        await ben.is_left_alone()


async def test_the_last_words_are_heard(stations: Any, credentials: Any) -> None:
    """A node that leaves would be taken for dead, because its goodbye was thrown away with the connection."""
    async with stations(2, credentials=credentials) as (ana, ben):
        ana.transport.send((ben.address,), b"hello")
        await ben.receives(1)
        ana.transport.send((ben.address,), bytes(500_000))
        ana.transport.send((ben.address,), b"goodbye")
        await ana.transport.close()
        await ben.receives(3)
        assert ben.wires[-1] == (ana.address, b"goodbye")


async def test_it_can_be_opened_again(stations: Any) -> None:
    """A node that was stopped and started would be deaf."""
    async with stations(2) as (ana, ben):
        await ben.transport.close()
        await ben.transport.open(ben.take)
        ana.transport.send((ben.address,), b"again")
        ben.transport.send((ana.address,), b"again")
        await ben.receives(1)
        await ana.receives(1)


@pytest.mark.parametrize("steps", range(4))
async def test_opening_may_be_cancelled_at_any_time(steps: int) -> None:
    """A program that gives up while it starts would leave a port behind on which somebody listens for nobody."""
    transport = TcpTransport()
    opening = asyncio.ensure_future(transport.open(lambda source, wires: None))
    for _ in range(steps):
        await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait([opening])
    port = int(transport.address.rpartition(":")[2] or 0)
    await transport.close()
    if port:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5.0).close()


@pytest.mark.parametrize("steps", range(3))
async def test_closing_may_be_cancelled_at_any_time(stations: Any, deaf: Any, steps: int) -> None:
    """A program that is stopped while it stops would leave connections open."""
    async with stations(2) as (ana, ben):
        ana.transport.send((ben.address, deaf().address), bytes(1 << 20))
        await ben.receives(1)
        closing = asyncio.ensure_future(ana.transport.close())
        for _ in range(steps):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        await ana.transport.close()
        await ben.is_left_alone()


async def test_a_connection_that_has_not_come_about_does_not_outlive_it(stations: Any, deaf: Any) -> None:
    """A node that is closed would go on to knock at the doors of others."""
    async with stations(1) as (ana,):
        ana.transport.send((deaf(crowded=True).address,), b"hello?")
        await asyncio.sleep(0)
        await ana.transport.close()
        assert ana.drops == {"closed": 1}
        assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


def test_nothing_is_left_in_the_interpreter(loop_kind: str) -> None:
    """Sockets and tasks would pile up in a program that opens and closes many nodes."""
    program = dedent("""
        import asyncio, gc, sys
        from antiphon.runtime.node import Node

        async def story(transport, **options):
            asyncio.get_running_loop().slow_callback_duration = 60.0  # a busy machine is no news
            async with Node("ana", transport=transport, bind="127.0.0.1:0", **options) as ana:
                async with Node("ben", transport=transport, bind="127.0.0.1:0", seeds=[ana.address], **options) as ben:
                    trip = await ana.create("trip", order="total")
                    same = await ben.join("trip", at=[ana.address], timeout=30.0)
                    await same.send(b"hello")
                    async for message in trip:
                        break
            left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            assert not left, left

        for transport, options in (("tcp", {}), ("udp", {"multicast": None}), ("memory", {})):
            if sys.argv[1] == "uvloop":
                import uvloop
                uvloop.run(story(transport, **options))
            else:
                asyncio.run(story(transport, **options))
            gc.collect()
        print("clean")
    """)
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", program, loop_kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("clean\n", "")
