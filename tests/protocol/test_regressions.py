"""Interleavings that once went wrong, each written out."""

from __future__ import annotations

from contextlib import suppress

import pytest

from antiphon.errors import WouldBlock
from antiphon.model.options import GroupOptions, Settings
from antiphon.sim.view_world import ViewWorld
from antiphon.testing import pair
from antiphon.testing.pair import Pair


def _talk(group: Pair, turns: int, pause_s: float) -> int:
    """b says something in every turn in which it may; how often it could."""
    said = 0
    for _ in range(turns):
        with suppress(WouldBlock):
            group.send("b", b"x")
            said += 1
        group.wait(pause_s)
    return said


@pytest.mark.parametrize("multicast", ["reliable", "flood", "tree"])
@pytest.mark.parametrize("seed", range(12))
def test_a_one_way_cut_does_not_silence_those_who_could_help(multicast: str, seed: int) -> None:
    """a's answers never reach c, but b heard them and kept its own answer back: c would wait for ever."""
    world = ViewWorld(seed=seed, members=("a", "b", "c"), options=GroupOptions(order="fifo", multicast=multicast))
    world.cut("a", "c")
    world.send("a", b"hi")
    assert world.settle(30.0)


def test_causes_that_do_not_come_do_not_fill_the_memory() -> None:
    """c lacks a's first message; b goes on talking, and c, which takes all of it and can deliver none, would keep it all."""
    group = pair("causal", names=("a", "b", "c"), options=GroupOptions(order="causal", window=16), settings=Settings(waiting_messages=20))
    group.rule("drop data to c first 1")
    group.rule("drop nack from c")
    group.send("a", b"cause")
    group.exchange()
    said = _talk(group, turns=300, pause_s=0.01)
    assert group.endpoint["c"].ordering.held <= 20 + 16
    assert said <= 20 + 2 * 16
    group.rules.clear()
    group.wait(20.0)
    assert len(group.delivered("c")) == said + 1
    assert group.check() == []


def test_a_full_store_does_not_keep_survivors_apart() -> None:
    """The question died with its sender; c's store is full of some answers, d's of others, and each refuses the other's: the flush
    would never level them, and they would go on to the next view with different messages."""
    group = pair("semantic", names=("a", "c", "d"), options=GroupOptions(order="semantic"), settings=Settings(waiting_messages=2))
    for rule in ("drop nack", "drop digest", "drop data from a to c first 1", "drop data from a to d first 3"):
        group.rule(rule)
    question = group.send("a", b"question")
    group.exchange()
    for _ in range(2):
        group.send("a", b"for c", reply_to=question)
        group.exchange()
    group.rule("drop data from a to c")
    for _ in range(2):
        group.send("a", b"for d", reply_to=question)
        group.exchange()
    group.rules.clear()
    group.rule("drop frames from a")
    group.rule("drop frames to a")
    group.wait(5.0)
    for name in "cd":
        group.endpoint[name].pause(group.now)
    group.wait(20.0)
    group.install("c", "d")
    group.wait(1.0)
    assert len(group.delivered("c")) == 4
    assert group.check(settled=False) == []


def test_a_member_without_records_does_not_fall_out_of_reach() -> None:
    """The sequencer went on numbering; what c lacked then lay beyond its window, and it refused the repair for ever."""
    group = pair("total", names=("a", "b", "c"), options=GroupOptions(order="total", window=4))
    group.rule("drop record to c")
    said = _talk(group, turns=100, pause_s=0.05)
    assert group.endpoint["c"].ordering.held <= 4 * 3 + 4
    group.rules.clear()
    group.wait(20.0)
    assert len(group.delivered("c")) == said
    assert group.check() == []


def test_a_crowded_sequencer_takes_what_it_can_number_next() -> None:
    """Its store was full of messages that follow a lost one; it refused the lost one too, and numbered nothing ever again."""
    group = pair("total", names=("a", "b"), options=GroupOptions(order="total", window=16), settings=Settings(waiting_messages=3))
    group.rule("drop data from b to a first 1")
    for _ in range(6):
        group.send("b", b"x")
        group.exchange()
    group.wait(10.0)
    assert len(group.delivered("a")) == len(group.delivered("b")) == 6
