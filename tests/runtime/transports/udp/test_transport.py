"""Real sockets on loopback."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from antiphon.errors import InvalidOption
from antiphon.model.ids import Address
from antiphon.model.options import Settings
from antiphon.runtime.transports.contract import WIRE_LIMIT, Transport
from antiphon.runtime.transports.udp import UdpTransport
from antiphon.runtime.transports.udp import datagram as d
from antiphon.runtime.transports.udp import transport as udp

Play = Callable[[Coroutine[Any, Any, None]], None]
SIZES = (0, 1, 2, 100, 1_400, 1_472, 1_473, 60_000, 65_505, 65_506, 65_507, 65_508, 200_000, 1 << 20, WIRE_LIMIT)


def raw() -> socket.socket:
    """A plain socket on loopback, to send what no transport would."""
    plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    plain.bind(("127.0.0.1", 0))
    return plain


def place(address: Address) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


@pytest.mark.parametrize("datagram_bytes", [None, 1_472])
def test_wires_of_every_size_arrive_whole(play: Play, stations: Any, datagram_bytes: int | None) -> None:
    """Frames of some sizes would never arrive, or arrive damaged."""

    async def story() -> None:
        async with stations(2, datagram_bytes=datagram_bytes) as (ana, ben):
            sent = [random.Random(size).randbytes(size) for size in SIZES]
            for count, wire in enumerate(sent, 1):
                ana.transport.send((ben.address,), wire)
                await ben.receives(count)
            assert ben.wires == [(ana.address, wire) for wire in sent]
            assert not ben.transport.drops

    play(story())


def test_a_wire_that_looks_like_a_header_is_carried_as_it_is(play: Play, stations: Any) -> None:
    """Sealed frames, which may begin with any byte, would now and then be taken for something else."""

    async def story() -> None:
        async with stations(2) as (ana, ben):
            wires = [bytes([first]) + b"sealed" for first in range(256)] + [d.present(7), d._WHOLE_HEADER, bytes([d.MARK])]
            for wire in wires:
                ana.transport.send((ben.address,), wire)
            assert [wire for _, wire in await ben.receives(len(wires))] == wires

    play(story())


def test_what_waits_is_handed_on_together_and_in_order(play: Play, stations: Any) -> None:
    """Every datagram would wake the whole stack, or one sender's frames would overtake each other on the way up."""

    async def story() -> None:
        async with stations(3) as (ana, ben, cat):
            for number in range(200):  # nobody reads meanwhile
                ana.transport.send((cat.address,), b"ana %d" % number)
                ben.transport.send((cat.address,), b"ben %d" % number)
            await cat.receives(400)
            for sender, name in ((ana, b"ana"), (ben, b"ben")):
                assert [wire for source, wire in cat.wires if source == sender.address] == [b"%s %d" % (name, n) for n in range(200)]
            assert len(cat.calls) <= 2 * (400 // 64 + 1)

    play(story())


def test_one_wire_to_several_reaches_each(play: Play, stations: Any) -> None:
    """Without multicast a group of three would be a group of two."""

    async def story() -> None:
        async with stations(4) as (ana, *others):
            ana.transport.send((*(other.address for other in others), ana.address), bytes(150_000))
            for other in others:
                assert await other.receives(1) == [(ana.address, bytes(150_000))]
            assert ana.wires == [], "a node does not send to itself"

    play(story())


def test_seeds_hear_what_is_for_everybody(play: Play, stations: Any) -> None:
    """Where there is no multicast nobody would find anybody."""

    async def story() -> None:
        async with stations(2) as (ana, ben):
            port = ben.address.rpartition(":")[2]
            async with stations(1, seeds=[ana.address, f"localhost:{port}"]) as (cat,):
                cat.transport.broadcast(b"who is there?")
                assert await ana.receives(1) == [(cat.address, b"who is there?")]
                assert await ben.receives(1) == [(cat.address, b"who is there?")]
                assert not cat.transport.drops

    play(story())


def test_a_seed_does_not_ask_itself(play: Play, stations: Any) -> None:
    """One list of seeds for all nodes, which is what people write, would make each seed talk to itself."""

    async def story() -> None:
        async with stations(1) as (free,):
            address = free.address
        async with stations(1, bind=address, seeds=[address]) as (ana,):
            ana.transport.broadcast(b"anybody?")
            await ana.drops("nobody_to_ask")
            assert ana.transport.stats()["sent_datagrams"] == 0

    play(story())


def test_nodes_met_before_hear_what_is_for_everybody(play: Play, stations: Any) -> None:
    """A seed, which knows nobody itself, could not tell anyone about a group that it founds."""

    async def story() -> None:
        async with stations(1) as (seed,), stations(1, seeds=[seed.address]) as (ana,):
            seed.transport.broadcast(b"nobody yet")
            assert seed.transport.drops["nobody_to_ask"] == 1
            ana.transport.broadcast(b"who is there?")
            await seed.receives(1)
            seed.transport.send((ana.address,), b"I am")
            seed.transport.broadcast(b"a new group")
            assert await ana.receives(2) == [(seed.address, b"I am"), (seed.address, b"a new group")]

    play(story())


def test_a_name_that_means_nothing_does_not_keep_a_node_from_starting(play: Play, stations: Any) -> None:
    """A seed that is not set up yet would stop every node that names it."""

    async def story() -> None:
        async with stations(1, seeds=["seed.invalid:4000"]) as (ana,):
            assert ana.transport.stats()["seeds"] == {"known": 0, "unknown": 1}
            ana.transport.broadcast(b"anybody?")
            await ana.drops("nobody_to_ask")

    play(story())


def test_junk_is_counted_and_disturbs_nobody(play: Play, stations: Any) -> None:
    """Anybody who can reach the port could stop the node."""

    async def story() -> None:
        rng = random.Random(7)
        async with stations(2) as (ana, ben):
            with raw() as stranger:
                whole = d.write(bytes(5_000), 1_472, 0, 9)
                for number in range(4_000):
                    junk = bytearray(rng.choice([*whole, d.present(3), d.roll_calls(4, [b"\x7f\0\0\1\0\1"], 999)[0], b"\xc1\x12\0\0\0\1x"]))
                    for _ in range(rng.randrange(3)):
                        junk[rng.randrange(1, min(len(junk), 14))] = rng.randrange(256)
                    del junk[rng.randrange(1, len(junk) + 1) :]
                    junk[0] = d.MARK
                    stranger.sendto(junk, place(ben.address))
                    if number % 50 == 0:
                        ana.transport.send((ben.address,), bytes(100_000))
                        await asyncio.sleep(0)
                stranger.sendto(b"", place(ben.address))
            await ben.until(lambda: sum(source == ana.address for source, _ in ben.wires) == 80)
            drops = ben.transport.drops
            assert {"datagram_truncated", "datagram_malformed", "not_for_this_node", "present_uncalled", "call_by_unicast"} <= set(drops)
            assert ben.transport.stats()["reassembly"]["held_bytes"] < 5 << 20

    play(story())


def test_an_incomplete_wire_is_forgotten_in_time(play: Play, stations: Any) -> None:
    """Where datagrams are lost every day the memory of a node would fill in a week."""

    async def story() -> None:
        async with stations(1) as (ana,):
            with raw() as stranger:
                first, *_ = d.write(bytes(5_000), 1_472, 0, 9)
                stranger.sendto(first, place(ana.address))
                await ana.drops("wire_incomplete")
                assert ana.transport.stats()["reassembly"]["held_bytes"] == 0

    play(story())


def test_nothing_is_raised_for_what_cannot_be_sent(play: Play, stations: Any) -> None:
    """A peer with a strange address, or a frame too many, would stop the node."""

    async def story() -> None:
        async with stations(1) as (ana,), stations(1) as (gone,):
            await gone.transport.close()
            bad = ("", "nowhere", "name:1", "1.2.3.4", "1.2.3.4:", "1.2.3.4:0", "1.2.3.4:70000", "1.2.3.4:x", "[::1]:5", "1.2.3:5", "\0:5")
            for address in bad:
                ana.transport.send((Address(address),), b"x")
            assert ana.transport.drops == {"bad_address": len(bad)}
            ana.transport.send((Address("127.0.0.1:1"),), bytes(WIRE_LIMIT + 1))
            ana.transport.broadcast(bytes(WIRE_LIMIT + 1))
            assert ana.transport.drops["wire_oversized"] == 2
            for _ in range(20):  # nobody listens there; the system may say so with the next datagram
                ana.transport.send((gone.address,), b"x")
            ana.transport.send((Address("255.255.255.255:9"),), b"x")
            assert ana.transport.drops["send_eacces"] == 1
            gone.transport.send((ana.address,), b"x")
            gone.transport.broadcast(b"x")
            assert gone.transport.drops["closed"] == 2
            assert gone.transport.stats()["state"] == "closed"

    play(story())


def test_a_node_for_all_addresses_is_reached_and_known_at_one(play: Play, stations: Any) -> None:
    """Its answers would come from another address than the one it was asked at, and be taken for a third node's."""

    async def story() -> None:
        async with stations(1, bind="0.0.0.0:0", interface="127.0.0.1") as (ana,), stations(1) as (ben,):
            host, port = place(ana.address)
            assert host == "127.0.0.1"
            ben.transport.send((Address(f"127.0.0.2:{port}"),), b"by another of its addresses")
            await ana.receives(1)
            ana.transport.send((ben.address,), b"answer")
            assert await ben.receives(1) == [(ana.address, b"answer")]
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as thief:
                thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                with pytest.raises(OSError, match="in use"):
                    thief.bind((host, port))

    play(story())


def test_a_port_in_use_is_said_so(play: Play, stations: Any) -> None:
    """Two nodes with one port would each get half of the datagrams."""

    async def story() -> None:
        async with stations(1) as (ana,):
            with pytest.raises(OSError, match="choose another"):
                await UdpTransport(ana.address, multicast=None).open(lambda source, wires: None)
            with pytest.raises(OSError, match="open already"):
                await ana.transport.open(lambda source, wires: None)

    play(story())


def test_a_multicast_port_that_another_program_keeps_is_said_so(play: Play) -> None:
    """The node would start, and hear nobody."""

    async def story() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as selfish:
            selfish.bind(("239.255.65.80", 0))  # hears nothing: it has not joined
            transport = UdpTransport("127.0.0.1:0", multicast=f"239.255.65.80:{selfish.getsockname()[1]}")
            with pytest.raises(OSError, match="choose another group"):
                await transport.open(lambda source, wires: None)
            assert transport.stats()["state"] == "closed"

    play(story())


def test_closed_and_opened_again_it_works(play: Play, stations: Any) -> None:
    """A node that is restarted within a program would stay deaf, or leak its sockets."""

    async def story() -> None:
        async with stations(2) as (ana, ben):
            await ben.transport.close()
            await ben.transport.close()
            await ben.transport.open(lambda source, wires: ben.calls.append((source, wires)))
            ana.transport.send((ben.address,), b"again")
            await ben.receives(1)

    play(story())


def test_a_receiver_may_close_the_transport_while_it_is_handed_wires(play: Play, stations: Any) -> None:
    """A program that closes its node in answer to a message would be handed more of them afterwards."""

    async def story() -> None:
        async with stations(2) as (ana, ben):
            cat = UdpTransport("127.0.0.1:0", multicast=None)
            taken: list[bytes] = []

            def take(source: Address, wires: list[bytes]) -> None:
                taken.extend(wires)
                with pytest.raises(StopIteration):
                    cat.close().send(None)  # closes at once: there is nothing to wait for

            await cat.open(take)
            ana.transport.send((cat.address,), b"first")
            ben.transport.send((cat.address,), b"second")
            await ana.until(lambda: cat.drops["closed"] == 1)
            assert taken == [b"first"]

    play(story())


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"bind": "127.0.0.1"}, "host:port"),
        ({"bind": "localhost:0"}, "IPv4 address"),
        ({"bind": "[::1]:0"}, "tcp"),
        ({"seeds": ["ana"]}, "host:port"),
        ({"seeds": ["10.0.0.1:0"]}, "needs the port"),
        ({"seeds": "10.0.0.1:4000"}, "a list"),
        ({"seeds": ["10.0.0.1:4000"] * 2_000}, "at most"),
        ({"multicast": "10.0.0.1:4000"}, "224.0.0.0"),
        ({"multicast": "239.1.2.3:0"}, "a port"),
        ({"ttl": 256}, "255"),
        ({"datagram_bytes": 100}, "548"),
        ({"datagram_bytes": 70_000}, "65,507"),
    ],
)
def test_what_cannot_work_is_refused_with_what_to_do(options: dict[str, Any], complaint: str) -> None:
    """A mistake in the configuration would show as silence."""
    with pytest.raises(InvalidOption, match=complaint):
        UdpTransport(**options)


def test_an_interface_that_is_not_there_is_refused(play: Play) -> None:
    """A misspelt interface would put the node on another network."""

    async def story() -> None:
        with pytest.raises(InvalidOption, match=r"there are: .*127\.0\.0\.1"):
            await UdpTransport("127.0.0.1:0", multicast=None, interface="eth99").open(lambda source, wires: None)

    play(story())


@pytest.mark.parametrize("datagram_bytes", [d.DATAGRAM_MINIMUM, 1_372, 1_472, 8_972, 65_507])
def test_a_frame_of_the_size_that_it_asks_for_takes_few_datagrams(datagram_bytes: int) -> None:
    """Frames would be cut into many parts, one of which is always lost, or be refused by the core."""
    transport: Transport = UdpTransport(multicast=None, datagram_bytes=datagram_bytes)
    Settings(frame_bytes=transport.frame_bytes)
    sealed = bytes(transport.frame_bytes + udp.SEALING_BYTES)
    assert len(d.write(sealed, datagram_bytes, 1, 1)) <= (1 if datagram_bytes > 60_000 else udp.PARTS)


def test_a_socket_tells_what_the_kernel_gave_and_lost(play: Play, stations: Any) -> None:
    """Loss in a full buffer, the commonest there is, would look like loss in the network."""

    async def story() -> None:
        async with stations(2) as (ana, ben):
            stats = ben.transport.stats()
            assert stats["receive_buffer_bytes"] > 100_000
            enough = 4 * stats["receive_buffer_bytes"] // 60_000
            for _ in range(enough):  # nobody reads
                ana.transport.send((ben.address,), bytes(60_000))
            await ben.until(lambda: len(ben.wires) + ben.transport.stats()["drops"].get("kernel_buffer_full", 0) == enough)
            assert ben.transport.stats()["drops"]["kernel_buffer_full"] > 0

    play(story())
