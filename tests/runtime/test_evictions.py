"""Evictions with real nodes on loopback TCP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon.bench.evictions import evict
from antiphon.model.options import Settings

LIMIT_S = 60.0


@pytest.mark.parametrize(
    ("order", "how"),
    [
        ("fifo", {"batch": 1}),
        ("total", {"batch": 100}),
        ("fifo", {"polls": True, "settings": Settings(inbox_messages=4_000)}),
        ("causal", {"settings": Settings(inbox_messages=1_000, window_bytes=100_000)}),
    ],
    ids=["one-at-a-time", "batches", "polling", "window-in-bytes"],
)
def test_a_member_that_does_not_read_is_evicted_and_the_senders_go_on(order: str, how: dict[str, Any]) -> None:
    """A group whose policy is to evict would stand still, because of one application that does not read."""
    took = asyncio.run(evict(order=order, slow_s=1.0, limit_s=LIMIT_S, **how))
    assert took is not None, f"not evicted within {LIMIT_S:g} s"
