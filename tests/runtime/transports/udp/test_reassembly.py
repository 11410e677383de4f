"""Wires of which some parts have come."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.model.ids import Address
from antiphon.runtime.transports.contract import WIRE_LIMIT
from antiphon.runtime.transports.udp import datagram as d
from antiphon.runtime.transports.udp import reassembly as r

ANA, BEN = Address("10.0.0.1:1"), Address("10.0.0.2:1")


@pytest.fixture
def drops() -> Counter[str]:
    return Counter()


@pytest.fixture
def reassembly(drops: Counter[str]) -> r.Reassembly:
    return r.Reassembly(drops)


def parts(wire: bytes, wire_id: int, limit: int = d.DATAGRAM_MINIMUM) -> list[d.Part]:
    return [part for datagram in d.write(wire, limit, 0, wire_id) if isinstance(part := d.read(datagram), d.Part)]


def part(wire_id: int, index: int = 0, count: int = 2, size: int = 100) -> d.Part:
    return d.Part(index, count, 0, wire_id, bytes(size))


@given(seed=st.integers(0, 2**32 - 1))
def test_parts_may_come_in_any_order_twice_and_mixed(seed: int) -> None:
    """A network that reorders or repeats datagrams would garble frames, or deliver one twice."""
    rng = random.Random(seed)
    wires = {(source, number): rng.randbytes(rng.randrange(600, 6_000)) for source in (ANA, BEN) for number in range(4)}
    coming = [(source, one) for (source, number), wire in wires.items() for one in parts(wire, number)]
    coming += rng.sample(coming, len(coming) // 3)
    rng.shuffle(coming)
    reassembly, came = r.Reassembly(Counter()), []
    for source, one in coming:
        wire = reassembly.add(0.0, source, one)
        if wire is not None:
            came.append((source, wire))
    assert sorted(came) == sorted((source, wire) for (source, _), wire in wires.items())
    assert reassembly.held == 0


def test_a_wire_that_stays_incomplete_is_given_up(reassembly: r.Reassembly, drops: Counter[str]) -> None:
    """Every lost datagram would cost memory for ever, and nobody would know of the loss."""
    first, *rest = parts(bytes(2_000), 1)
    reassembly.add(0.0, ANA, first)
    reassembly.expire(r.PATIENCE_S - 0.1)
    assert reassembly.held > 0
    reassembly.expire(r.PATIENCE_S)
    assert reassembly.held == 0
    assert drops == {"wire_incomplete": 1}
    assert reassembly.stats()["strangers"] == 0
    for one in rest:
        reassembly.add(r.PATIENCE_S, ANA, one)
    assert reassembly.stats()["wires"] == 1, "a stranger of whom nothing is known any more starts anew"


def test_late_parts_of_a_wire_given_up_do_not_open_it_again(reassembly: r.Reassembly, drops: Counter[str]) -> None:
    """A slow path would fill the room with wires that can never be completed."""
    for one in parts(bytes(2_000), 1):
        whole = reassembly.add(0.0, ANA, one)
    assert whole is not None
    late = parts(bytes(2_000), 2)
    reassembly.add(0.0, ANA, late[0])
    reassembly.expire(r.PATIENCE_S)
    for one in late[1:]:
        reassembly.add(r.PATIENCE_S, ANA, one)
    assert reassembly.held == 0
    assert drops == {"wire_incomplete": 1, "part_again": len(late) - 1}


def test_parts_that_contradict_each_other_do_not_mix(reassembly: r.Reassembly, drops: Counter[str]) -> None:
    """Two wires under one number, or a forged part, would be glued together."""
    reassembly.add(0.0, ANA, part(1, index=0, count=2))
    assert reassembly.add(0.0, ANA, part(1, index=1, count=3)) is None
    assert drops == {"part_contradicts": 1}
    assert reassembly.add(0.0, BEN, part(1, index=1, count=2)) is None, "another source's parts are another wire's"
    assert reassembly.add(0.0, ANA, part(1, index=1, count=2)) == bytes(200)


def test_parts_that_add_up_to_too_much_are_dropped(reassembly: r.Reassembly, drops: Counter[str]) -> None:
    """A sender could make a receiver hold a wire of any size."""
    for index in range(WIRE_LIMIT // 60_000 + 1):
        assert reassembly.add(0.0, ANA, part(1, index=index, count=d.PARTS_LIMIT, size=60_000)) is None
    assert drops == {"wire_oversized": 1}
    assert reassembly.held == 0


@pytest.mark.parametrize("size", [1, 60_000])
def test_one_source_holds_no_more_than_its_share(reassembly: r.Reassembly, drops: Counter[str], size: int) -> None:
    """A source that never finishes anything would take all the memory there is."""
    for number in range(5_000):
        reassembly.add(0.0, ANA, part(number, size=size))
        assert reassembly.held <= r.SOURCE_BYTES
        assert reassembly.stats()["wires"] <= r.SOURCE_WIRES  # type: ignore[operator]
    assert drops["reassembly_full"] >= 5_000 - r.SOURCE_WIRES


def test_many_tiny_parts_are_no_way_around_the_bounds(reassembly: r.Reassembly) -> None:
    """A flood of one-byte parts would hold hundreds of times the memory that is counted."""
    for number in range(200):
        for index in range(1_000):
            reassembly.add(0.0, ANA, part(number, index=index, count=d.PARTS_LIMIT, size=1))
    assert reassembly.stats()["wires"] <= r.SOURCE_BYTES // (1_000 * 128)  # type: ignore[operator]


def test_a_flood_under_invented_addresses_does_not_disturb_a_peer(reassembly: r.Reassembly, drops: Counter[str]) -> None:
    """Anybody on the network could stop two nodes from exchanging large frames, by sending rubbish."""
    for one in parts(bytes(2_000), 1):
        reassembly.add(0.0, ANA, one)
    mine = parts(bytes(range(256)) * 20, 2)
    came = None
    for index, one in enumerate(mine):
        came = reassembly.add(0.0, ANA, one)
        for stranger in range(1_000):
            reassembly.add(0.0, Address(f"10.9.{index}.{stranger}:1"), part(1, size=60_000))
    assert came == bytes(range(256)) * 20
    assert reassembly.held <= r.STRANGERS_BYTES
    assert reassembly.stats()["strangers"] <= r.STRANGERS  # type: ignore[operator]
    assert drops["reassembly_full"] > 8_000


def test_proven_sources_are_bounded_too(reassembly: r.Reassembly) -> None:
    """A flood that does complete its wires would grow without end."""
    for number in range(r.PROVEN + 500):
        source = Address(f"10.8.{number >> 8}.{number & 255}:1")
        reassembly.add(0.0, source, part(1, index=0))
        assert reassembly.add(0.0, source, part(1, index=1)) is not None
        reassembly.add(0.0, source, part(2, size=60_000))
    assert reassembly.stats()["sources"] == min(r.PROVEN, r.PROVEN_BYTES // (60_000 + 128 + 512))
    assert reassembly.held <= r.PROVEN_BYTES
