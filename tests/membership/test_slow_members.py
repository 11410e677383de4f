"""One member that does not read: the others wait for it, or go on without it; nothing is lost and nothing grows without bound."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from antiphon.debugger.rule import Rule
from antiphon.errors import WouldBlock
from antiphon.model.events import Installed, Recovered, Writable

WINDOW = 16


def fill(world: Any, name: str, limit: int = 10_000) -> int:
    """Sends until it is refused; says how many were accepted."""
    for accepted in range(limit):
        try:
            world.send(name, b"x" * 100)
        except WouldBlock:
            return accepted
    raise AssertionError("nothing ever slowed the sender down")


@pytest.mark.parametrize("order", ["fifo", "causal", "total", "semantic"])
def test_blocked_senders_wait_and_nothing_is_lost(gathered: Any, order: str) -> None:
    """One stalled reader would fill the memory of all others, or lose what it had not read."""
    world = gathered("abc", order=order, window=WINDOW, slow="block")
    world.stop_reading("c")
    sent = fill(world, "a")
    assert sent <= WINDOW
    # It lives: it still speaks for itself, only nothing gets in. For as long as nobody takes it for dead, the others wait.
    world.run(0.4)
    with pytest.raises(WouldBlock):
        fill_more(world, "a", WINDOW)
    assert lag(world, "a", "c") > 0
    before = len(world.told("a", Writable))
    world.start_reading("c")
    assert world.settle(20.0)
    assert world.wait_for(lambda: len(world.told("a", Writable)) > before, 1.0)
    sent += fill(world, "a")
    assert world.settle(20.0)
    for name in "abc":
        assert len(world.stream(name)) >= sent
        assert sorted(world.stream(name)) == sorted(world.stream("a"))
    assert world.check() == []


def fill_more(world: Any, name: str, count: int) -> None:
    for _ in range(count):
        world.send(name, b"more")


def lag(world: Any, name: str, whose: str) -> int:
    lags = world.member(name).stats()["lag_by_member"]
    return lags[world.id_of(whose)]  # type: ignore[no-any-return]


def test_a_slow_machine_slows_the_senders_and_stays_in(gathered: Any) -> None:
    """A member that is merely slow would be thrown out, or drown."""
    world = gathered("abc", window=WINDOW, slow="block")
    world.slow("c", 0.01)
    sent = 0
    for _ in range(40):
        for name in "ab":
            try:
                world.send(name, b"x")
                sent += 1
            except WouldBlock:
                pass
        world.run(0.05)
    assert world.seen("a") == "abc"
    world.slow("c", 0.0)
    assert world.settle(20.0)
    assert len(world.stream("c")) == sent
    assert world.check() == []


@pytest.mark.parametrize("order", ["fifo", "total"])
def test_who_stops_reading_is_put_out_and_comes_back(gathered: Any, order: str) -> None:
    """One dead reader would stop a group for ever; or whoever was put out once would stay out, or lack what was said meanwhile."""
    world = gathered("abc", order=order, window=WINDOW, slow="evict", slow_s=2.0)
    stalled = Stalled(world, "c")
    stalled.begin()
    sent = fill(world, "a")
    refused_at = world.now
    assert world.wait_for(lambda: world.seen("a") == world.seen("b") == "ab", 10.0)
    assert world.now - refused_at >= 2.0
    assert world.wait_for(lambda: world.member("a").settled, 5.0)
    meanwhile = fill(world, "a")
    assert meanwhile > 0
    world.run(1.0)
    sent += meanwhile + fill(world, "b")
    world.run(1.0)
    stalled.end()
    assert world.settle(30.0)
    assert world.seen("a") == "abc"
    for name in "abc":
        assert len(world.stream(name)) == sent
    assert world.alike()
    assert any(len(event.sides) == 2 for event in world.told("c", Installed))
    assert world.told("c", Recovered)
    assert world.check() == []


@pytest.mark.parametrize("order", ["fifo", "causal", "total", "semantic"])
def test_a_sender_that_was_refused_and_has_a_little_credit_waits_too(gathered: Any, order: str) -> None:
    """The last acknowledgement of a member that stops reading gives a sender credit, but not enough to be told that it may go on; were that
    not taken for waiting, nobody would be put out and nobody would send, for ever."""
    world = gathered("abc", order=order, window=WINDOW, slow="evict", slow_s=1.0)
    for _ in range(2):
        world.send("a", b"read by all")
    assert world.wait_for(lambda: len(world.stream("c")) == 2, 1.0)
    world.pause_reader("c")
    fill(world, "a")
    before = len(world.told("a", Writable))
    assert world.wait_for(lambda: 0 < world.endpoint("a").credit < WINDOW // 4, 1.0)
    assert world.endpoint("a").blocked
    assert world.wait_for(lambda: world.seen("a") == world.seen("b") == "ab", 10.0)
    assert world.wait_for(lambda: len(world.told("a", Writable)) > before, 5.0)
    assert fill(world, "a") > 0
    world.resume_reader("c")
    assert world.settle(30.0)
    assert world.alike()
    assert world.check() == []


def test_a_reader_that_is_slow_and_makes_progress_stays_in(gathered: Any) -> None:
    """A sender that tries all the time uses up credit as it comes: the lag of a slow reader never falls, and it would be put out although
    it reads."""
    world = gathered("abc", window=WINDOW, slow="evict", slow_s=1.0)
    world.pause_reader("c")
    for step in range(1, 801):
        with suppress(WouldBlock):
            while True:
                world.send("a", b"x")
        world.run(0.005)
        if not step % 80:
            world.resume_reader("c")
            assert world.wait_for(lambda: lag(world, "a", "c") < WINDOW, 1.0)
            world.pause_reader("c")
    assert world.seen("a") == "abc"
    world.resume_reader("c")
    assert world.settle(10.0)
    assert world.check() == []


class Stalled:
    """Lets the data that goes to a node wait, while everything else that it is sent and says goes on: its application does not read, its
    node lives."""

    def __init__(self, world: Any, name: str) -> None:
        self.world = world
        self.rules = [Rule.parse(f"hold {kind} to {name}") for kind in ("data", "record", "fragment")]

    def begin(self) -> None:
        self.world.rules.extend(self.rules)

    def end(self) -> None:
        self.world.rules.clear()
        self.world.release()


def test_with_block_a_member_that_lives_and_does_not_read_is_never_put_out(gathered: Any) -> None:
    """`block` would be `evict` under another name."""
    world = gathered("abc", window=WINDOW, slow="block")
    stalled = Stalled(world, "c")
    stalled.begin()
    sent = fill(world, "a")
    world.run(30.0)
    assert world.seen("a") == "abc"
    with pytest.raises(WouldBlock):
        world.send("a", b"no")
    assert len(world.stream("b")) == sent
    stalled.end()
    assert world.settle(10.0)
    assert fill(world, "a") > 0
    assert world.settle(10.0)
    assert world.check() == []


def test_a_busy_group_puts_nobody_out(gathered: Any) -> None:
    """A member that keeps up, with full windows all the time, would be taken for a slow one."""
    world = gathered("abcd", window=WINDOW, slow="evict", slow_s=0.5)
    for _ in range(200):
        for name in "abcd":
            with suppress(WouldBlock):
                world.send(name, b"x")
        world.run(0.02)
    assert world.settle(10.0)
    assert world.seen("a") == "abcd"
    assert len(world.told("a", Installed)) == len({event.view.id for event in world.told("a", Installed)}) <= 4
    assert world.check() == []
