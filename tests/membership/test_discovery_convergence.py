"""Nodes that could not reach each other when they started come to know each other's groups without being told to look again."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.model.events import Discovered
from antiphon.model.ids import name_of
from antiphon.model.options import GroupOptions, Settings
from antiphon.sim.network import NetworkModel

PATIENCE_S = 2 * Settings().seek_max_s
"""The longest pause between two advertisements is one and a half times `seek_max_s`."""


def names(world: Any, name: str) -> set[str]:
    return {name_of(info.id) for info in world.known(name)}


def all_know(world: Any, nodes: str, *groups: str) -> bool:
    return all(names(world, name) >= set(groups) for name in nodes)


def count(world: Any, kind: str) -> int:
    """How many frames of a kind were sent so far; one to n nodes counts n times."""
    return sum(sent for (_, _, sent_kind), sent in world.frames.items() if sent_kind == kind)


@pytest.mark.parametrize("healed_after_s", [1.0, 60.0, 600.0])
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_a_node_that_starts_while_cut_off_learns_of_all_groups(company: Any, healed_after_s: float, loss: float) -> None:
    """A laptop that boots before its network would not see any group until its user looked for them again."""
    world = company("abc", settings=Settings(), late="d", network=NetworkModel(loss=loss))
    world.create("a", "G1")
    assert world.wait_for(lambda: all_know(world, "bc", "G1"), PATIENCE_S)
    world.join("b", "G1")
    world.partition([["a", "b", "c"], ["d"]])
    world.start("d")
    world.create("d", "G2")
    world.run(healed_after_s)
    assert names(world, "d") == {"G2"}
    assert "G2" not in names(world, "a")
    world.heal()
    assert world.wait_for(lambda: all_know(world, "abcd", "G1", "G2"), PATIENCE_S * (5 if loss else 1))
    world.join("d", "G1")
    assert world.settle(30.0, "G1")
    assert world.seen("a", "G1") == "abd"


@pytest.mark.parametrize("seed", range(5))
def test_islands_with_their_own_groups_learn_of_each_other(company: Any, seed: int) -> None:
    """Two halves of a site that came up without the line between them would stay unknown to each other: no node of them is alone."""
    world = company("abcdef", seed, settings=Settings(), network=NetworkModel())
    world.partition([["a", "b", "c"], ["d", "e", "f"]])
    world.run(1.0)
    for name, group in (("a", "G1"), ("b", "G2"), ("e", "G3")):
        world.create(name, group)
    world.run(120.0)
    assert names(world, "c") == {"G1", "G2"}
    assert names(world, "d") == {"G3"}
    world.heal()
    assert world.wait_for(lambda: all_know(world, "abcdef", "G1", "G2", "G3"), PATIENCE_S)


def test_members_inside_a_group_learn_of_the_newcomers_groups_too(company: Any) -> None:
    """Only the node that came back would learn of the others."""
    world = company("ab", settings=Settings(), late="c")
    assert world.gather("G1")
    world.partition([["a", "b"], ["c"]])
    world.start("c")
    world.create("c", "G2")
    world.run(100.0)
    world.heal()
    assert world.wait_for(lambda: all_know(world, "abc", "G1", "G2"), PATIENCE_S)
    for name in "ab":
        assert [name_of(event.info.id) for event in world.told(name, Discovered)].count("G2") == 1


def test_a_node_whose_seed_starts_later_learns_of_its_groups(company: Any) -> None:
    """Where there is no multicast, a node would have to be started after the node that it was told to find others through."""
    world = company("a", settings=Settings(), late="s", seeds="s")
    world.create("a", "G1")
    world.run(200.0)
    world.start("s")
    world.create("s", "G2")
    assert world.wait_for(lambda: all_know(world, "as", "G1", "G2"), PATIENCE_S)


def test_a_node_that_could_not_reach_its_seed_learns_of_its_groups(company: Any) -> None:
    """A node that was started before its line to the seed would stay without groups, and the seed would not know of its own."""
    world = company("asb", settings=Settings(), seeds="s")
    world.partition([["a"], ["s", "b"]])
    world.create("a", "G1")
    world.create("s", "G2")
    world.run(300.0)
    assert names(world, "a") == {"G1"}
    world.heal()
    assert world.wait_for(lambda: all_know(world, "as", "G1", "G2"), PATIENCE_S)


def test_a_lost_announcement_is_made_up_for(company: Any) -> None:
    """A group that was created while the line was down for a moment would stay unknown."""
    world = company("abc", settings=Settings())
    world.run(100.0)
    world.partition([["a"], ["b", "c"]])
    world.create("a", "G1")
    world.run(0.5)
    world.heal()
    assert world.wait_for(lambda: all_know(world, "abc", "G1"), PATIENCE_S)


def test_idle_nodes_send_two_advertisements_a_minute_together_and_no_answers(company: Any) -> None:
    """Discovery would be the loudest thing on an idle network, and louder with every node."""
    nodes = "abcdefghij"
    world = company(nodes, settings=Settings())
    assert world.gather("G1")
    world.create("c", "G2")
    world.run(180.0)
    advertised, answered = count(world, "advertise"), count(world, "groups")
    world.run(600.0)
    # One broadcast of ten nodes is nine frames. Each interval is 30 s long.
    assert (count(world, "advertise") - advertised) / 9 <= 2 * 10 + 4
    assert count(world, "groups") == answered


def test_a_node_that_nobody_hears_advertises_twice_a_minute(company: Any) -> None:
    """A node alone would fill its network with questions, or ask so rarely that it seems dead."""
    world = company("ab", settings=Settings())
    world.partition([["a"], ["b"]])
    world.run(180.0)
    before = count(world, "advertise")
    world.run(600.0)
    assert 2 * 10 * 2 - 4 <= count(world, "advertise") - before <= 2 * 10 * 2 + 4  # two such nodes


def test_nodes_that_know_different_groups_stay_quiet_too(company: Any) -> None:
    """A group that only some remember, because its members have crashed, would make all others ask for it for ever."""
    world = company("abcdx", settings=Settings(), late="ef")
    world.create("x", "G1")
    world.run(1.0)
    world.crash("x")
    world.start("e")
    world.start("f")
    world.create("e", "G2")
    world.run(180.0)
    assert names(world, "e") == {"G2"}
    advertised, answered = count(world, "advertise"), count(world, "groups")
    world.run(600.0)
    assert (count(world, "advertise") - advertised) / 5 <= 6 * (2 * 10 + 4)
    assert count(world, "groups") == answered


def test_a_hundred_members_answer_a_returning_node_about_once(company: Any) -> None:
    """When the line to a large group heals, all its members would answer the first advertisement that comes through."""
    members = [f"n{number:02}" for number in range(100)]
    world = company(members[:1], settings=Settings(), late=[*members[1:], "late"])
    group = world.create(members[0])
    for name in members[1:]:
        world.start(name)
        world.wait_for(lambda name=name: names(world, name) == {"g"}, 5.0)
        world.join(name, group)
    assert world.settle(120.0)
    world.partition([members, ["late"]])
    world.start("late")
    world.run(40.0)
    before = world.frames.copy()
    world.heal()
    assert world.wait_for(lambda: names(world, "late") == {"g"}, PATIENCE_S)
    world.run(1.0)
    frames = world.frames - before
    answers = sum(sent for (_, destination, kind), sent in frames.items() if kind == "groups" and destination == "late")
    assert 1 <= answers <= 10


def test_a_rejected_group_is_not_told_again_by_what_a_node_does_unasked(company: Any) -> None:
    """A rejection would be forgotten within seconds, by an advertisement that nobody asked for."""
    world = company("ab", settings=Settings())
    world.create("a")
    world.run(1.0)
    world.reject("b")
    world.run(200.0)
    assert names(world, "b") == set()
    assert len(world.told("b", Discovered)) == 1


@pytest.mark.parametrize("order", ["fifo", "total"])
def test_sides_of_a_public_group_meet_where_neither_has_heard_of_the_other(company: Any, order: str) -> None:
    """Two nodes that found the same group by its name while they cannot reach each other would stay in two groups of one id."""
    world = company("ab", settings=Settings())
    world.partition([["a"], ["b"]])
    options = GroupOptions(order=order)
    for name in "ab":
        world.join(name, "hall", create=options)
    world.run(100.0)
    assert (world.seen("a", "hall"), world.seen("b", "hall")) == ("a", "b")
    world.heal()
    assert world.wait_for(lambda: world.seen("a", "hall") == world.seen("b", "hall") == "ab", 2 * PATIENCE_S)
