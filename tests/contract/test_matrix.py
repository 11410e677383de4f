"""The matrix: every order against every promise, under loss, duplication and disorder.

What an order promises is never broken; and what it does not promise is seen broken, because an oracle that never sees anything
proves nothing.
"""

from __future__ import annotations

from collections import Counter

import pytest

from antiphon.model.options import GroupOptions, Settings
from antiphon.protocol.registry import ORDERS
from antiphon.sim.network import NetworkModel, Uniform
from antiphon.sim.oracles import ORACLES, check_all, promised
from antiphon.sim.view_world import ViewWorld
from antiphon.sim.workload import Workload

SEEDS = (1, 2, 3)

MUST_BE_SEEN: dict[tuple[str, str], set[str]] = {
    ("unordered", "besteffort"): {"agreement", "virtual_synchrony", "fifo", "causal", "total", "parent_before_child"},
    ("semantic", "besteffort"): {"agreement", "virtual_synchrony", "fifo", "causal", "total"},
    ("unordered", "reliable"): {"fifo", "causal", "total", "parent_before_child"},
    ("fifo", "reliable"): {"causal", "total", "parent_before_child", "minimality"},
    ("causal", "reliable"): {"total", "minimality"},
    ("total", "reliable"): {"minimality"},
    ("semantic", "reliable"): {"fifo", "causal", "total"},
}


def violations(order: str, multicast: str, delivery: str = "agreed") -> Counter[str]:
    """How often each promise was broken in a few bad runs, each with a view change after it."""
    counted: Counter[str] = Counter(dict.fromkeys(ORACLES, 0))
    for seed in SEEDS:
        network = NetworkModel(latency=Uniform(0.001, 0.06), loss=0.1, duplicate=0.1, reorder=0.2, reorder_s=0.1)
        options = GroupOptions(order=order, multicast=multicast, delivery=delivery)
        world = ViewWorld(seed, "abcde", options, Settings(parent_s=0.2), network)
        workload = Workload(world, seed, messages=150, span_s=2.0)
        world.run(2.0)
        workload.stop()
        world.settle(60.0 if multicast != "besteffort" else 1.0)
        world.run(5.0)
        world.install_view("abcde")
        world.run(1.0)
        for promise, found in check_all(world.logs, multicast, delivery).items():
            counted[promise] += len(found)
    return counted


def table(rows: dict[tuple[str, str], Counter[str]]) -> str:
    width = max(map(len, ORACLES))
    lines = [" " * 22 + "  ".join(promise.rjust(width) for promise in ORACLES)]
    for (order, multicast), counted in rows.items():
        kept = promised(order, multicast)
        cells = [f"{counted[promise]}{'!' if promise in kept and counted[promise] else ''}".rjust(width) for promise in ORACLES]
        lines.append(f"{order} {multicast}".ljust(22) + "  ".join(cells))
    return "\n".join(lines)


def test_the_matrix() -> None:
    """An order that breaks its promise loses somebody's work; an oracle that is blind hides it."""
    rows = {group: violations(*group) for group in MUST_BE_SEEN}
    for (order, multicast), seen in MUST_BE_SEEN.items():
        broken = {promise for promise, count in rows[order, multicast].items() if count}
        assert not broken & promised(order, multicast), f"{order} over {multicast} broke its promise\n{table(rows)}"
        assert seen <= broken, f"{order} over {multicast} should have broken {seen - broken}\n{table(rows)}"


@pytest.mark.parametrize("delivery", ["agreed", "safe"])
@pytest.mark.parametrize("multicast", ["flood", "tree"])
@pytest.mark.parametrize("order", list(ORDERS))
def test_other_ways_to_travel_keep_the_same_promises(order: str, multicast: str, delivery: str) -> None:
    """A promise that depends on how frames travel, or on how many must have them first, would not be the order's promise."""
    counted = violations(order, multicast, delivery)
    assert not {promise for promise in promised(order, multicast) if counted[promise]}, table({(order, multicast): counted})


def test_every_order_is_in_the_matrix() -> None:
    """A new order without a line here would be an order nobody judged."""
    assert {order for order, _ in MUST_BE_SEEN} == set(ORDERS)
