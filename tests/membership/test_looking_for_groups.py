"""Joining a group that a node has not heard of: it looks for it, everywhere or where it is told to, and says so when there is none."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.debugger.rule import Rule
from antiphon.errors import UsageError
from antiphon.model import codec
from antiphon.model.control import GroupInfo, Groups, Wants
from antiphon.model.events import Departed, JoinWaiting, Located, NameServerAnswer, NameTaken
from antiphon.model.ids import Address, GroupId, MemberId, name_of
from antiphon.model.options import GroupOptions


def silent(company: Any, nodes: str = "abc", **more: Any) -> Any:
    """A world without broadcasts, in which nobody has heard of anybody."""
    return company(nodes, seeds=(), **more)


@pytest.mark.parametrize("by_id", [False, True])
def test_a_group_is_joined_through_the_address_of_a_member(company: Any, by_id: bool) -> None:
    """Where broadcasts do not reach, who is told an address could not come in."""
    world = silent(company)
    group = world.create("a", options=GroupOptions(order="total"))
    world.send("a", b"before")
    world.look_for("b", group if by_id else "g", contacts="a")
    assert world.wait_for(lambda: world.seen("a") == world.seen("b") == "ab", 10.0)
    assert world.told("b", Located) == [Located(group if by_id else "g")]
    assert world.settle(10.0)
    assert world.member("b").port.options.order == "total"
    assert world.told("b", NameServerAnswer) == []
    assert world.alike("ab")
    world.send("b", b"after")
    assert world.settle(10.0)
    assert world.check() == []


def test_a_contact_that_is_no_member_but_knows_one_is_enough(company: Any) -> None:
    """The address of a seed would be of no use: only those of members."""
    world = silent(company)
    world.create("a")
    world.look_for("b", contacts="a")
    assert world.wait_for(lambda: world.seen("b") == "ab", 10.0)
    assert world.settle(10.0)
    world.leave("b")
    world.run(3.0)
    assert world.known("b")
    world.look_for("c", contacts="b", wants=Wants("none"))
    assert world.wait_for(lambda: world.seen("a") == world.seen("c") == "ac", 10.0)
    assert world.settle(10.0)
    assert world.check() == []


def test_who_left_a_group_finds_it_again(company: Any) -> None:
    """Who leaves a group that it founded, and wants back in, would be told that nobody of it is known: it remembered only itself."""
    world = silent(company, "ab")
    world.look_for("a", create=GroupOptions())
    world.run(2.0)
    world.look_for("b", contacts="a")
    assert world.wait_for(lambda: world.seen("a") == world.seen("b") == "ab", 10.0)
    assert world.settle(10.0)
    world.leave("a")
    assert world.wait_for(lambda: world.seen("b") == "b", 10.0)
    world.run(1.0)
    world.look_for("a", create=GroupOptions())
    assert world.wait_for(lambda: world.seen("a") == world.seen("b") == "ab", 10.0)
    assert world.settle(10.0)
    assert world.check() == []


def test_who_knows_only_itself_of_a_group_founds_it(company: Any) -> None:
    """A node that started again, and heard of its own former seat, would be told that nobody is known instead of beginning the group."""
    world = silent(company, "ab")
    former = GroupInfo(GroupId(f"g#{0:016x}"), "g", GroupOptions(), 1, ((MemberId("a#1"), Address("a")),))
    world._process("a").arrive(Address("b"), codec.encode(Groups(MemberId("b#1"), (former,))))
    world.look_for("a", create=GroupOptions())
    assert world.wait_for(lambda: world.seen("a") == "a", 10.0)


def test_contacts_that_are_dead_or_know_nothing_do_not_stand_in_the_way(company: Any) -> None:
    """Of three addresses in a configuration two are always out of date."""
    world = silent(company, "abcd")
    world.create("a")
    world.crash("c")
    world.look_for("b", contacts="cda")
    assert world.wait_for(lambda: world.seen("b") == "ab", 10.0)


def test_a_group_that_is_founded_while_it_is_looked_for_is_found(company: Any) -> None:
    """Two programs that are started together would meet only if the right one is faster."""
    world = silent(company, "ab")
    world.look_for("b", contacts="a")
    world.run(4.0)
    world.create("a")
    assert world.wait_for(lambda: world.seen("b") == "ab", 6.0)


def test_when_nobody_knows_it_that_is_said(company: Any) -> None:
    """A mistyped name would be looked for without end, or fail without a reason."""
    world = silent(company, "abc", name_servers="b")
    world.crash("c")
    world.look_for("a", "nowhere", contacts="bc")
    world.run(9.0)
    assert world.told("a", Departed) == []
    world.run(3.0)
    [(group, departed)] = [(group, event) for group, event in world.heard["a"] if type(event) is Departed]
    assert group == "nowhere"
    assert "within 10 s" in departed.reason
    assert "b knows no such group" in departed.reason
    assert "c did not answer" in departed.reason
    world.look_for("b", "nowhere", contacts="a")
    world.run(12.0)
    assert "a refused to tell" in world.told("b", Departed)[0].reason
    # And it may be tried again.
    world.create("b", "nowhere")
    world.look_for("a", "nowhere", contacts="b")
    assert world.wait_for(lambda: world.seen("a", "nowhere") == "ab", 10.0)


def test_a_name_is_looked_for_by_advertising(company: Any) -> None:
    """Who joins in the moment in which its node starts would be told that there is no such group."""
    world = company("a", late="b")
    world.create("a")
    world.run(0.5)
    world.start("b")
    world.look_for("b")
    assert world.wait_for(lambda: world.seen("a") == world.seen("b") == "ab", 5.0)
    assert world.told("b", Located) == [Located("g")]
    assert world.check() == []


def test_a_lost_answer_does_not_end_the_search(company: Any) -> None:
    """One lost datagram would be taken for the absence of a group."""
    world = company("a", late="b")
    world.create("a")
    world.run(0.5)
    world.rules.append(Rule.parse("drop groups to b"))
    world.start("b")
    world.look_for("b")
    world.run(0.12)
    world.rules.clear()
    assert world.wait_for(lambda: world.seen("b") == "ab", 5.0)


def test_a_name_that_nobody_answers_for_is_given_up_after_a_while(company: Any) -> None:
    """A mistyped name would be looked for without end, or without a word about what is waited for."""
    world = company("ab")
    world.look_for("b", "nowhere")
    world.run(2.0)
    assert world.told("b", JoinWaiting) == [JoinWaiting("nowhere", "no group of this name was heard of")]
    assert world.told("b", Departed) == []
    assert world.wait_for(lambda: bool(world.told("b", Departed)), 10.0)
    assert "no group of this name was heard of within 10 s" in world.told("b", Departed)[0].reason


@pytest.mark.parametrize("after", [0.2, 2.0, 8.0])
def test_a_join_that_comes_before_the_group_waits_for_it(company: Any, after: float) -> None:
    """Of two programs that are started together the one that joins would fail if it is the faster one."""
    world = company("ab")
    world.look_for("b")
    world.run(after)
    world.create("a")
    assert world.wait_for(lambda: world.seen("b") == "ab", 5.0)
    assert len(world.told("b", JoinWaiting)) == (after > 1.0)


def test_a_second_group_of_the_same_name_is_reported(company: Any) -> None:
    """Two programs that create at the same moment would talk past each other, and nobody would be told."""
    world = company("ab")
    first, second = world.create("a"), world.create("b")
    world.run(1.0)
    assert world.told("a", NameTaken) == [NameTaken(second)]
    assert world.told("b", NameTaken) == [NameTaken(first)]


def test_two_groups_of_one_name_are_not_told_apart_by_chance(company: Any) -> None:
    """Whichever answers first would be joined."""
    world = company("ab", late="c")
    first, second = world.create("a"), world.create("b")
    world.run(0.5)
    world.start("c")
    world.look_for("c")
    assert world.wait_for(lambda: bool(world.told("c", Departed)), 2.0)
    assert first in world.told("c", Departed)[0].reason
    assert second in world.told("c", Departed)[0].reason


@pytest.mark.parametrize("known_as", ["created", "public"])
def test_who_may_found_it_asks_first(company: Any, known_as: str) -> None:
    """Every program that may found a group would found its own, where broadcasts do not reach."""
    world = silent(company)
    if known_as == "created":
        world.create("a")
    else:
        world.look_for("a", create=GroupOptions(order="total"), contacts="b")
        assert world.wait_for(lambda: world.seen("a") == "a", 5.0)
    for name in "bc":
        world.look_for(name, create=GroupOptions(order="total"), contacts="a")
    assert world.wait_for(lambda: all(world.seen(name) == "abc" for name in "abc"), 15.0)
    assert {name_of(info.id) for info in world.known("c")} == {"g"}
    assert len(world.known("c")) == 1
    assert world.settle(10.0)


def test_who_may_found_it_does_when_nobody_has_it(company: Any) -> None:
    """The first to come would wait for a group that nobody else will begin."""
    world = silent(company)
    world.crash("c")
    for name, other in ("ab", "ba"):
        world.look_for(name, create=GroupOptions(order="causal"), contacts=(other, "c"))
    assert world.wait_for(lambda: all(world.seen(name) == "ab" for name in "ab"), 20.0)
    assert world.settle(10.0)
    assert world.check() == []


def test_a_search_can_be_ended_and_is_not_begun_twice(company: Any) -> None:
    """A program that has given up would be in the group half a minute later; or two searches would join twice."""
    world = silent(company, "ab")
    world.look_for("b", contacts="a")
    with pytest.raises(UsageError, match="looking"):
        world.look_for("b", contacts="a")
    machine = world._process("b")
    machine.acting().leave(machine.now(), "g")
    world.create("a")
    world.run(12.0)
    assert [event.reason for event in world.told("b", Departed)] == ["left"]
    assert not world.is_member("b")


def test_a_group_of_a_kind_that_this_node_does_not_know_is_not_joined(company: Any) -> None:
    """One node of a newer version would stop the programs of all others that look for its group."""
    world = company("a", late="b")
    world.start("b")
    strange = GroupInfo(GroupId("g#00000000000000aa"), "", GroupOptions(order="hopeful"), 1, ((MemberId("a#1"), Address("a")),))
    world.look_for("b")
    world._process("b").arrive(Address("a"), codec.encode(Groups(MemberId("a#1"), (strange,))))
    assert world.wait_for(lambda: bool(world.told("b", Departed)), 2.0)
    assert "hopeful" in world.told("b", Departed)[0].reason
