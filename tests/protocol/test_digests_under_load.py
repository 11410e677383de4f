"""Digests while messages come: rarely, but before a sender has to wait for one."""

from __future__ import annotations

import random

import pytest

from antiphon.model import codec
from antiphon.model.frames import Batch, Digest
from antiphon.model.ids import GroupId, MemberId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint

ANA, BOB = MemberId("ana#1"), MemberId("bob#2")
GROUP = GroupId("g#0")


def said_after_each(payloads: list[bytes], window: int, window_bytes: int) -> list[bool]:
    """Whether Ana says how far she is at once, after each of these messages of Bob's."""
    settings = Settings(window_bytes=window_bytes, digest_s=0.5)
    ana = Endpoint(ANA, GROUP, View(1, (ANA, BOB)), GroupOptions(window=window), rng=random.Random(0), settings=settings)
    said = []
    for number, payload in enumerate(payloads, 1):
        ana.receive(0.001, BOB, codec.encode(Batch(GROUP, BOB, 1, number, (payload,))))
        frames = [codec.decode(wire) for _, wire in ana.drain(0.001).sends]
        said.append([frame.have for frame in frames if isinstance(frame, Digest)] == [[0, number]])
    return said


@pytest.mark.parametrize(
    ("size", "window", "window_bytes"),
    [(10, 16, 1_000_000), (1_000, 1_000, 15_000)],
    ids=["messages", "bytes"],
)
def test_a_quarter_of_a_window_is_told_at_once(size: int, window: int, window_bytes: int) -> None:
    """Who sends large messages would wait for a digest after every window of bytes, however fast the network is."""
    assert said_after_each([bytes(size)] * 12, window, window_bytes) == [False, False, False, True] * 3


def test_less_is_not_told_at_once() -> None:
    """Every message would be answered by every member, and wait for the processor behind the answers to the one before."""
    assert not any(said_after_each([b"x" * 100] * 50, 1_000, 1_000_000))
