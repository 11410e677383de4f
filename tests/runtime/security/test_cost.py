"""What sealing costs on the machine at hand: `pytest -s tests/runtime/security/test_cost.py` prints the table."""

from __future__ import annotations

import time
from typing import Any

import pytest

from antiphon.model.ids import Address
from antiphon.runtime.security import SEAL_BYTES, PreSharedKey


@pytest.mark.parametrize("size", [100, 1_024, 60_000])
def test_what_a_frame_costs(network: Any, size: int) -> None:
    """Frames would become longer or be lost, and nobody could say what security costs; times are printed and not judged."""
    key = PreSharedKey("the nodes' own: 7b1e0f4a93")
    ana, ben = network.start("ana", key), network.start("ben", key)
    wire, rounds, seals, opens = b"x" * size, 30, [], []
    network.say("ana", "ben", wire)
    for _ in range(rounds):
        begun = time.perf_counter()
        sealed = [ana.seal(wire, "") for _ in range(50)]
        between = time.perf_counter()
        opened = [ben.open(network.now, Address("ana"), datagram) for datagram in sealed]
        ended = time.perf_counter()
        seals.append((between - begun) / 50 * 1e6)
        opens.append((ended - between) / 50 * 1e6)
        assert opened == [[(wire, "")]] * 50
        assert {len(datagram) for datagram in sealed} == {size + SEAL_BYTES}
    print(f"\n{size:>6} B: seal {min(seals):5.1f} µs, open {min(opens):5.1f} µs")
