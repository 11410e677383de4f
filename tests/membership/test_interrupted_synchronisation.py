"""Views that change again before their members have caught up with each other: nothing that was accepted may fall between two changes."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.debugger.rule import Rule
from antiphon.errors import WouldBlock
from antiphon.model.control import Wants

ORDERS = ["fifo", "causal", "total", "semantic"]


def slow_catching_up(world: Any, names: str) -> list[Rule]:
    """Lets no answer reach these members, so that they go on catching up."""
    rules = [Rule.parse(f"drop sync-answer to {name}") for name in names]
    world.rules.extend(rules)
    return rules


@pytest.mark.parametrize("order", ORDERS)
def test_the_only_one_who_has_caught_up_leaves(gathered: Any, order: str) -> None:
    """What the others said while they were catching up would go away with the one who had it."""
    world = gathered("abcd", order=order)
    world.partition(["abc", "d"])
    world.run(3.0)
    sent = world.burst("abcd", 1, "apart")
    world.run(0.5)
    slow_catching_up(world, "abd")
    world.heal()
    assert world.wait_for(lambda: world.seen("a") == world.seen("b") == "abcd" and world.member("c").synchronised, 10.0)
    assert not world.member("a").synchronised
    assert not world.member("b").synchronised
    # What c says now, nobody else can deliver before c is gone: it goes with c, after the time that a leave waits.
    world.burst("c", 1, "last words")
    sent += world.burst("ab", 2, "meanwhile")
    world.run(0.05)
    world.leave("c")
    assert world.wait_for(lambda: not world.is_member("c"), 10.0)
    world.rules.clear()
    assert world.settle(20.0)
    sent += world.burst("abd", 1, "after")
    assert world.settle(10.0)
    for name in "abd":
        assert sorted(world.stream(name)) == sorted(sent)
    assert world.alike("abd")
    assert world.check() == []


@pytest.mark.parametrize("order", ORDERS)
def test_the_only_one_who_has_caught_up_dies(gathered: Any, order: str) -> None:
    """A living member's own messages would be lost with another member that had been the only one to deliver them."""
    world = gathered("abcd", order=order)
    world.partition(["abc", "d"])
    world.run(3.0)
    apart = world.burst("abcd", 1, "apart")
    world.run(0.5)
    slow_catching_up(world, "abd")
    world.heal()
    assert world.wait_for(lambda: world.seen("a") == world.seen("b") == "abcd" and world.member("c").synchronised, 10.0)
    meanwhile = world.burst("ab", 2, "meanwhile")
    world.run(0.05)
    world.leave("d")
    assert world.wait_for(lambda: world.seen("a") == world.seen("b") == world.seen("c") == "abc", 10.0)
    world.crash("c")
    world.rules.clear()
    assert world.settle(20.0)
    after = world.burst("ab", 1, "after")
    assert world.settle(10.0)
    for name in "ab":
        mine = [message for message in apart + meanwhile + after if message.sender in (world.id_of("a"), world.id_of("b"))]
        assert set(mine) <= set(world.stream(name))
    assert world.alike("ab")
    assert world.check() == []


def test_a_newcomer_that_catches_up_slowly_does_not_stop_the_others(gathered: Any) -> None:
    """One member with a large past to read would keep all others from hearing each other whenever somebody comes or goes."""
    world = gathered("abc", world={"late": "xy"})
    world.burst("abc", 5)
    for name in "xy":
        world.start(name)
    world.run(0.5)
    slow_catching_up(world, "x")
    world.join("x")
    assert world.wait_for(lambda: world.seen("a") == "abcx", 5.0)
    world.join("y")
    assert world.wait_for(lambda: world.seen("a") == "abcxy", 5.0)
    assert not world.member("x").synchronised
    assert all(world.member(name).synchronised for name in "abc")
    sent = world.burst("abc", 2, "meanwhile")
    world.run(0.1)
    for name in "abc":
        assert set(sent) <= set(world.stream(name))
    world.rules.clear()
    assert world.settle(20.0)
    assert world.alike()
    assert world.check() == []


@pytest.mark.parametrize("seed", range(3))
def test_members_that_come_and_go_without_a_pause_do_not_stop_the_others(gathered: Any, seed: int) -> None:
    """A visitor that restarts again and again would keep the members of a group from hearing each other."""
    world = gathered("abcd", seed)
    sent = []
    for change in range(40):
        for name in "ab":
            try:
                sent.append(world.send(name, b"%d" % change))
            except WouldBlock:
                continue
        if change % 2:
            world.join("cd"[change // 2 % 2], wants=Wants("none"))
        else:
            world.leave("cd"[change // 2 % 2])

        def is_done(restless: str = "cd"[change // 2 % 2], comes: bool = bool(change % 2)) -> bool:
            return world.seen("a") == ("abcd" if comes else "abcd".replace(restless, "")) and world.is_member(restless) is comes

        assert world.wait_for(is_done, 20.0)
        # Whatever was said ten changes ago has been heard.
        assert set(sent[:-20]) <= set(world.stream("a")) & set(world.stream("b"))
    assert world.settle(20.0)
    assert set(sent) == set(world.stream("a")) == set(world.stream("b"))
    assert world.check() == []


@pytest.mark.parametrize("order", ORDERS)
def test_a_second_split_in_the_middle_of_a_merge(gathered: Any, order: str) -> None:
    """Two splits in a row would lose what the first one had kept apart."""
    world = gathered("abcdef", order=order)
    world.partition(["abc", "def"])
    world.run(3.0)
    sent = world.burst("abcdef", 2, "apart")
    world.run(0.5)
    slow_catching_up(world, "acdf")
    world.heal()
    assert world.wait_for(lambda: len({world.seen(name) for name in "abcdef"}) == 1, 10.0)
    sent += world.burst("abcdef", 2, "merging")
    world.run(0.1)
    world.partition(["ade", "bcf"])
    world.run(4.0)
    world.rules.clear()
    sent += world.burst("abcdef", 2, "again apart")
    world.run(1.0)
    world.heal()
    assert world.settle(30.0)
    for name in "abcdef":
        assert sorted(world.stream(name)) == sorted(sent)
    assert world.alike()
    assert world.check() == []
