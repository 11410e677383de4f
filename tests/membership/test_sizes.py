"""Messages of every size: nothing at all, and twenty megabytes, whole, in order, and under one number each."""

from __future__ import annotations

import random
from typing import Any

import pytest

from antiphon.errors import TooLarge, WouldBlock
from antiphon.model.options import Settings
from antiphon.sim.network import NetworkModel

MOST = 20 << 20


@pytest.mark.parametrize("frame_bytes", [60_000, 1_200])
@pytest.mark.parametrize("order", ["fifo", "total"])
def test_from_nothing_to_twenty_megabytes(gathered: Any, quick: Any, order: str, frame_bytes: int) -> None:
    """A picture would be refused, arrive in pieces, or hold up everything behind it for ever."""
    world = gathered("ab", order=order, world={"settings": quick(frame_bytes=frame_bytes)})
    large = random.Random(1).randbytes(MOST)
    for payload in (b"", large, b"between", b"", large[: MOST // 3], b"end"):
        world.send("a", payload)
    assert world.settle(60.0)
    assert world.payloads("b") == [b"", large, b"between", b"", large[: MOST // 3], b"end"]
    with pytest.raises(TooLarge, match="20,971,521"):
        world.send("a", large + b"x")
    assert world.check() == []


def test_a_message_larger_than_the_window_is_sent_and_the_next_one_waits_for_it(gathered: Any, quick: Any) -> None:
    """A message that fills the window alone would never be sent, and with it nothing after it."""
    small = quick(window_bytes=100_000, reassembly_bytes=100_000, frame_bytes=1_200)
    world = gathered("abc", world={"settings": small, "network": NetworkModel(loss=0.05)})
    large = random.Random(2).randbytes(1_000_000)
    for turn in range(3):
        world.send("a", b"at once")
        world.send("a", large[turn:])
        world.send("a", b"with it")
        with pytest.raises(WouldBlock, match="bytes are not yet everywhere"):
            world.send("a", b"too much")
        assert world.wait_for(lambda: world.endpoint("a").credit > 0, 60.0)
    world.network = NetworkModel()
    assert world.settle(30.0)
    assert world.payloads("c") == [part for turn in range(3) for part in (b"at once", large[turn:], b"with it")]
    assert world.check() == []


@pytest.mark.parametrize("frame_bytes", [256, 400, 1_200, 60_000, 1 << 20])
def test_every_frame_size_suits_the_largest_message(frame_bytes: int) -> None:
    """Who chooses small frames for a small network would have to find out by error which other setting to change."""
    assert Settings(frame_bytes=frame_bytes).message_bytes == MOST


def test_a_newcomer_gets_a_large_message_too(gathered: Any, quick: Any) -> None:
    """What is too large for one answer would be a gap for everybody who comes later."""
    world = gathered("ab", world={"late": "c", "settings": quick(chunk_bytes=20_000, frame_bytes=1_200)})
    large = random.Random(3).randbytes(2_000_000)
    world.send("a", large)
    world.send("b", b"small")
    assert world.settle(20.0)
    world.start("c")
    world.run(0.5)
    world.join("c")
    assert world.wait_for(lambda: world.seen("c") == "abc", 10.0)
    assert world.settle(60.0)
    assert sorted(world.payloads("c"), key=len) == [b"small", large]
    assert world.check() == []


def test_a_newcomer_gets_the_past_in_the_smallest_frames(gathered: Any, quick: Any) -> None:
    """What a frame has no room for was cut into bytes, and so many parts nobody takes: the newcomer asked for ever."""
    world = gathered("ab", world={"late": "c", "settings": quick(frame_bytes=300)})
    for number in range(30):
        world.send("a", bytes([number]) * 3_000)
        world.run(0.02)
    world.start("c")
    world.run(0.5)
    world.join("c")
    assert world.settle(10.0)
    assert [payload[0] for payload in world.payloads("c")] == list(range(30))
    assert not world.member("c").port.drops["malformed"]
