"""Credit through view changes: it is derived from the view, so no change can lose any of it."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.errors import WouldBlock
from antiphon.model.control import Wants
from antiphon.sim.network import NetworkModel, Uniform

WINDOW = 8


@pytest.mark.parametrize("order", ["fifo", "total"])
def test_credit_is_whole_again_after_two_hundred_view_changes(gathered: Any, order: str) -> None:
    """A group would come to a stop after days, because every change of its view cost a sender a little of its window."""
    world = gathered("abcd", order=order, window=WINDOW, world={"network": NetworkModel(latency=Uniform(0.001, 0.01), loss=0.02)})
    first = world.view_of("a").number
    sent = 0
    for change in range(200):
        for name in "ab":
            for _ in range(WINDOW):
                try:
                    world.send(name, b"under load")
                    sent += 1
                except WouldBlock:
                    break
        restless, comes = "cd"[change // 2 % 2], bool(change % 2)
        if comes:
            world.join(restless, wants=Wants("none"))
        else:
            world.leave(restless)

        def is_done(restless: str = restless, comes: bool = comes) -> bool:
            return world.seen("a") == ("abcd" if comes else "abcd".replace(restless, "")) and world.is_member(restless) is comes

        assert world.wait_for(is_done, 20.0)
    assert world.view_of("a").number >= first + 200
    world.network = NetworkModel()
    assert world.settle(20.0)
    assert world.wait_for(lambda: all(world.endpoint(name).credit == WINDOW for name in "ab"), 5.0)
    for name in "ab":
        for _ in range(WINDOW):
            world.send(name, b"a whole window at once")
    assert world.settle(20.0)
    assert len(world.stream("a")) == len(world.stream("b")) == sent + 2 * WINDOW
    assert sent > 400
    assert world.check() == []


@pytest.mark.parametrize("delivery", ["agreed", "safe"])
def test_whoever_was_held_up_by_the_dead_goes_on(gathered: Any, delivery: str) -> None:
    """A sender whose window was full of what a dead member did not take would wait for it for ever."""
    world = gathered("abc", window=WINDOW, delivery=delivery)
    world.crash("c")
    for _ in range(WINDOW):
        world.send("a", b"x")
    with pytest.raises(WouldBlock):
        world.send("a", b"one too many")
    writable: list[float] = []
    world.on_writable("a", lambda: writable.append(world.now))
    assert world.settle(20.0)
    assert world.wait_for(lambda: bool(writable), 5.0)
    for _ in range(WINDOW):
        world.send("a", b"y")
    assert world.settle(10.0)
    assert len(world.stream("b")) == 2 * WINDOW
    assert world.check() == []


def test_sending_waits_while_a_view_changes_and_is_told_when_it_may_go_on(gathered: Any) -> None:
    """A message sent in the middle of a change would belong to no view; or its sender would never learn that it may send again."""
    world = gathered("abc")
    refused: list[float] = []
    writable: list[float] = []
    world.on_writable("a", lambda: writable.append(world.now))
    world.leave("c")
    sent = 0
    for _ in range(100):
        try:
            world.send("a", b"x")
            sent += 1
        except WouldBlock:
            refused.append(world.now)
        world.run(0.005)
    assert refused
    assert [moment for moment in writable if moment >= refused[-1]]
    assert world.settle(10.0)
    assert len(world.stream("b")) == sent
    assert world.check() == []


@pytest.mark.parametrize("seed", range(3))
def test_a_group_that_splits_and_merges_under_load_never_stalls(gathered: Any, seed: int) -> None:
    """Merges would leave a sender with a window that nobody empties."""
    world = gathered("abcd", seed, window=WINDOW, order="causal")
    sent = []
    for parts in (["ab", "cd"], ["a", "bcd"], ["ac", "bd"], ["abc", "d"]):
        world.partition(parts)
        for _ in range(15):
            sent += world.burst("abcd", 3)
            world.run(0.2)
        world.heal()
        for _ in range(10):
            sent += world.burst("abcd", 3)
            world.run(0.2)
    assert world.settle(30.0)
    assert world.wait_for(lambda: all(world.endpoint(name).credit == WINDOW for name in "abcd"), 5.0)
    for name in "abcd":
        assert sorted(world.stream(name)) == sorted(sent)
    assert world.alike()
    assert world.check() == []
