"""Bytes into wires, however they are cut."""

from __future__ import annotations

import random
import struct
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antiphon.runtime.transports.tcp.splitter import Splitter

pytestmark = pytest.mark.parametrize(("loop_kind", "way"), [("asyncio", "tcp")], indirect=True)  # neither matters here

LIMIT = 1_000_000
SIZES = st.lists(st.one_of(st.integers(0, 9), st.integers(0, 20_000)), max_size=12)
CUTS = st.lists(st.one_of(st.integers(1, 9), st.integers(1, 30_000)), min_size=1, max_size=40)


def framed(wire: bytes) -> bytes:
    return struct.pack("<I", len(wire)) + wire


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SIZES, CUTS, st.integers())
def test_wires_do_not_depend_on_how_their_bytes_are_cut(sizes: list[int], cuts: list[int], seed: int) -> None:
    """A network that cuts the stream elsewhere would make other frames of it."""
    rng = random.Random(seed)
    wires = [rng.randbytes(size) for size in sizes]
    stream = b"".join(map(framed, wires))
    splitter, found, at = Splitter(), list[bytes](), 0
    while at < len(stream):
        size = cuts[at % len(cuts)]
        split = splitter.split(stream[at : at + size], LIMIT, LIMIT)
        assert split is not None
        found += split
        at += size
    assert found == wires
    assert splitter.kept == 0
    assert all(type(wire) is bytes for wire in found)


@pytest.mark.parametrize("cut", [1, 3, 5, 4_000])
def test_a_wire_that_is_longer_than_any_is_seen_at_once(cut: int) -> None:
    """A node would wait, and keep room, for four gigabytes that somebody merely announces."""
    for before, limits in ((b"", (9, LIMIT)), (framed(b"hello"), (9, 99))):
        splitter, stream = Splitter(), before + struct.pack("<I", 100)
        found = [splitter.split(stream[at : at + cut], *limits) for at in range(0, len(stream), cut)]
        assert found[-1] is None


@pytest.mark.parametrize("cut", [1, 7, 1_400, 70_000])
def test_what_is_kept_costs_about_what_it_is(cut: int) -> None:
    """A stranger that sends single bytes, or ends every packet with the beginning of a wire, could have forty times as much kept as is
    counted, and so fill the memory in spite of all bounds."""
    splitters = [Splitter() for _ in range(4)]
    wire = framed(bytes(300_000))[:-1]
    whole = framed(bytes(200_000))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for splitter in splitters:
            for at in range(0, len(wire), cut):
                splitter.split(bytes(wire[at : at + cut]), LIMIT, LIMIT)
        tails = [Splitter() for _ in range(20)]
        for splitter in tails:
            splitter.split(whole + wire[:5_000], LIMIT, LIMIT)
        cost = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    kept = sum(splitter.kept for splitter in (*splitters, *tails))
    assert kept >= 4 * 299_000
    assert cost < 2.5 * kept
