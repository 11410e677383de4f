"""Broken links between members that can reach each other through a third: the group stays one."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.model.events import Installed


def relays(world: Any, name: str) -> int:
    return int(world.node(name).stats()["relayed"])


def ways(world: Any, name: str) -> dict[str, str]:
    return dict(world.node(name).stats()["routes"])


@pytest.mark.parametrize("order", ["fifo", "causal", "total"])
@pytest.mark.parametrize("members", ["abc", "abcde"])
@pytest.mark.parametrize("both", [True, False])
def test_two_that_do_not_hear_each_other_stay_in_one_view(gathered: Any, order: str, members: str, both: bool) -> None:
    """One broken cable between two machines would throw one of them out, or split a group that is connected."""
    world = gathered(members, order=order)
    world.cut("a", "b")
    if both:
        world.cut("b", "a")
    sent = []
    for _ in range(10):
        sent += world.burst(members, 1)
        world.run(0.5)
    for _ in range(4):
        sent += world.burst(members, 1)
        world.run(0.5)
    assert world.settle(20.0)
    assert {world.seen(name) for name in members} == {members}
    views = [event.view for event in world.told("a", Installed)]
    # Nobody was put out on the way: the group was made once.
    assert [len(view.members) for view in views] == sorted(len(view.members) for view in views)
    assert all(sorted(world.stream(name)) == sorted(sent) for name in members)
    assert sum(relays(world, name) for name in members) > 0
    assert world.check() == []


def test_when_the_link_is_back_nobody_relays_any_more(gathered: Any) -> None:
    """A detour that was needed once would be taken for ever."""
    world = gathered("abc")
    world.cut("a", "b")
    world.cut("b", "a")
    world.run(6.0)
    assert ways(world, "a") == {"b": "c"}
    assert ways(world, "b") == {"a": "c"}
    world.heal()
    world.run(5.0)
    assert ways(world, "a") == ways(world, "b") == {}
    before = relays(world, "c")
    world.burst("abc", 5)
    world.run(5.0)
    assert world.settle(5.0)
    assert relays(world, "c") == before
    assert world.seen("a") == "abc"
    assert world.check() == []


def test_when_the_relay_dies_too_the_two_part(gathered: Any) -> None:
    """Two that can no longer reach each other at all would wait for each other for ever."""
    world = gathered("abc")
    world.cut("a", "b")
    world.cut("b", "a")
    world.run(6.0)
    world.crash("c")
    world.run(10.0)
    assert (world.seen("a"), world.seen("b")) == ("a", "b")
    sent = world.burst("ab", 2)
    world.heal()
    assert world.settle(20.0)
    assert world.seen("a") == "ab"
    assert set(sent) <= set(world.stream("a")) & set(world.stream("b"))
    assert world.check() == []


def test_when_the_relay_dies_another_takes_over(gathered: Any) -> None:
    """The way around a broken link would end with the first machine on it."""
    world = gathered("abcd")
    world.cut("a", "b")
    world.cut("b", "a")
    world.run(6.0)
    relay = ways(world, "a")["b"]
    world.crash(relay)
    rest = "abcd".replace(relay, "")
    world.run(10.0)
    assert world.settle(30.0)
    assert {world.seen(name) for name in rest} == {rest}
    sent = world.burst(rest, 2)
    assert world.settle(20.0)
    assert all(set(sent) <= set(world.stream(name)) for name in rest)
    assert world.check() == []


def test_a_chain_is_one_group(gathered: Any) -> None:
    """Machines in a row, each of which hears only its neighbours, would never be one group although they are connected."""
    world = gathered("abcd")
    for source in "abcd":
        for destination in "abcd":
            if abs(ord(source) - ord(destination)) > 1:
                world.cut(source, destination)
    world.run(20.0)
    sent = world.burst("abcd", 3)
    world.run(10.0)
    # Whatever the views went through, what is said at one end is heard at the other.
    assert all(set(sent) <= set(world.stream(name)) for name in "abcd")
    world.heal()
    assert world.settle(30.0)
    assert {world.seen(name) for name in "abcd"} == {"abcd"}
    assert world.alike()
    assert world.check() == []


def test_a_hub_that_alone_hears_all_is_enough(gathered: Any) -> None:
    """A group of machines that only meet at one access point would fall into pieces."""
    world = gathered("habcd")
    for source in "abcd":
        for destination in "abcd":
            if source != destination:
                world.cut(source, destination)
    world.run(15.0)
    sent = world.burst("habcd", 2)
    assert world.settle(30.0)
    assert all(set(sent) <= set(world.stream(name)) for name in "habcd")
    assert {world.seen(name) for name in "habcd"} == {"abcdh"}
    assert world.check() == []


@pytest.mark.parametrize("seed", range(3))
def test_a_flapping_link_makes_no_views(gathered: Any, seed: int) -> None:
    """A bad plug between two of many would keep everybody busy with new views."""
    world = gathered("abcd", seed)
    before = len(world.told("c", Installed))
    for _ in range(20):
        world.cut("a", "b")
        world.cut("b", "a")
        world.burst("abcd", 1)
        world.run(1.0)
        world.heal()
        world.run(1.0)
    assert world.settle(20.0)
    assert len(world.told("c", Installed)) == before
    assert world.alike()
    assert world.check() == []
