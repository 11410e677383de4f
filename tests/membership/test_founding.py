"""A group of which only a majority goes on is founded by all its founders together, and never a second time beside them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from msgspec import structs

from antiphon.debugger.rule import Rule
from antiphon.errors import InvalidOption, JoinFailed, WorldError
from antiphon.model import codec
from antiphon.model.control import Install, Propose, Side, State
from antiphon.model.events import Departed, JoinWaiting, NoMajority
from antiphon.model.ids import Address, name_of
from antiphon.model.options import GroupOptions
from antiphon.model.view import TAG_BITS
from antiphon.protocol.membership.change import Change, Phase

OPTIONS = GroupOptions(order="total", delivery="safe", partitions="majority")


def founded(company: Any, nodes: str = "abcd", seed: int = 7, **more: Any) -> Any:
    """A world whose nodes have founded the group together."""
    world = company(nodes, seed, **more)
    for name in nodes:
        world.join(name, create=OPTIONS, expect=len(nodes))
    assert world.settle(20.0)
    assert world.seen("a") == nodes
    return world


def rejoin(world: Any, name: str, expect: int | Sequence[str] = 4) -> None:
    world.restart(name)
    world.join(name, create=OPTIONS, expect=expect)


def only_reason(world: Any, name: str) -> str:
    (departed,) = world.told(name, Departed)
    return str(departed.reason)


@pytest.mark.parametrize("create", [OPTIONS, GroupOptions(partitions="majority")])
def test_without_founders_it_is_refused(company: Any, create: GroupOptions) -> None:
    """A node that is cut off would found the group alone, and two sides would go on."""
    world = company("ab")
    with pytest.raises(InvalidOption, match=r"expect=N, .* expect=\['a', 'b', 'c'\]"):
        world.join("a", create=create)


def test_a_founder_that_creates_is_told_how_to_found_it(company: Any) -> None:
    """One founder would be alone in a group of its own, and the others would wait for it."""
    world = company("ab")
    with pytest.raises(InvalidOption, match=r"join\(…, create=True, expect=…\)"):
        world.create("a", options=structs.replace(OPTIONS, expect=2))


@pytest.mark.parametrize("expect", [4, ("a", "b", "c", "d")])
def test_the_first_view_has_all_founders(company: Any, expect: Any) -> None:
    """Some would send in a group that the others are not in, and a majority would be one of fewer members than the user said."""
    world = company("abcd")
    for index, name in enumerate("cadb"):
        world.at(0.3 * index, partial(world.join, name, create=OPTIONS, expect=expect))
    assert world.wait_for(lambda: world.view_of("a") is not None, 20.0)
    assert [event.view.members for event in (world.log_of(name).events[0] for name in "abcd")] == [world.view_of("a").members] * 4
    assert world.settle(20.0)
    world.burst("abcd", 3)
    assert world.settle(20.0)
    assert world.alike()
    assert world.check() == []


def test_it_waits_for_the_last_founder_and_says_so(company: Any) -> None:
    """Three of four would begin without the fourth, which might be in the group already with others; or wait without a word."""
    world = company("abc", late="d")
    for name in "abc":
        world.join(name, create=OPTIONS, expect=("a", "b", "c", "d"))
    world.run(5.0)
    assert [world.view_of(name) for name in "abc"] == [None] * 3
    (waiting,) = world.told("b", JoinWaiting)
    assert "3 of 4 founders were heard (a, b, c; missing: d)" in waiting.reason
    world.start("d")
    world.join("d", create=OPTIONS, expect=("a", "b", "c", "d"))
    assert world.settle(20.0)
    assert world.seen("a") == "abcd"


def test_a_founder_that_stays_alone_is_told_why(company: Any) -> None:
    """A cut-off machine would fail without a word about the machines that it waits for."""
    world = company("ab")
    for name in "ab":
        world.join(name, create=OPTIONS, expect=3)
    world.run(12.0)
    for name in "ab":
        assert "2 of 3 founders were heard (a, b)" in only_reason(world, name)
        assert "within 10 s" in only_reason(world, name)


@pytest.mark.parametrize("expect", [5, ("a", "b", "x")])
def test_founders_that_do_not_agree_are_told_both_values(company: Any, expect: Any) -> None:
    """A typing error in one configuration would make everybody wait for ever."""
    world = company("abc")
    world.join("a", create=OPTIONS, expect=3)
    world.join("b", create=OPTIONS, expect=expect)
    world.run(3.0)
    shown = f"expect={list(expect) if isinstance(expect, tuple) else expect!r}"
    for name in "ab":
        assert "expect=3" in only_reason(world, name)
        assert shown in only_reason(world, name)


def test_a_founder_with_another_number_is_not_let_into_the_group(company: Any) -> None:
    """After a restart with a changed configuration the node would count another majority."""
    world = founded(company)
    world.crash("d")
    world.restart("d")
    world.run(1.0)
    with pytest.raises(JoinFailed, match=r"expect=4.*expect=3"):
        world.join("d", create=OPTIONS, expect=3)


def test_more_candidates_than_founders_are_refused(company: Any) -> None:
    """Of four nodes that expect two, every pair could found a group of its own."""
    world = company("abc")
    for name in "abc":
        world.join(name, create=OPTIONS, expect=2)
    world.run(0.1)
    world.partition(["a", "b", "c"])
    world.run(2.0)
    world.heal()
    world.run(3.0)
    assert sum("3 nodes want to found it (a, b, c)" in only_reason(world, name) for name in "abc" if world.told(name, Departed)) > 0
    assert all(world.view_of(name) is None for name in "abc")


def test_a_node_that_is_no_founder_joins(company: Any) -> None:
    """Nodes that share one configuration would have to know which of them may found the group."""
    world = company("abe")
    for name in "abe":
        world.look_for(name, create=OPTIONS, expect=("a", "b"))
    assert world.settle(20.0)
    assert world.wait_for(lambda: world.seen("e") == "abe", 20.0)


@pytest.mark.parametrize("waits", [0.0, 0.05, 0.5, 3.0])
def test_a_member_that_restarts_while_cut_off_founds_nothing(company: Any, waits: float) -> None:
    """It would deliver messages in a group of its own, and after healing there would be two histories."""
    world = founded(company)
    world.partition(["abc", "d"])
    world.run(waits)
    world.crash("d")
    rejoin(world, "d")
    world.run(5.0)
    assert world.view_of("d") is None
    sent = world.burst("abc", 3)
    world.run(3.0)
    world.heal()
    assert world.wait_for(lambda: world.seen("d") == "abcd", 30.0)
    assert world.settle(20.0)
    assert sorted(world.stream("d")) == sorted(sent)
    assert world.alike()
    assert world.check() == []


@pytest.mark.parametrize("after", [0.0, 0.2, 1.0, 3.0])
@pytest.mark.parametrize("who", "ad")
def test_a_member_that_restarts_returns(company: Any, who: str, after: float) -> None:
    """A program that is killed and started again would be alone."""
    world = founded(company)
    world.burst("abcd", 2)
    world.crash(who)
    world.run(after)
    rejoin(world, who)
    assert world.wait_for(lambda: world.seen(who) == "abcd", 30.0)
    world.burst("abcd", 2)
    assert world.settle(20.0)
    assert world.check() == []


def test_all_that_restart_found_it_again(company: Any) -> None:
    """After a power failure nobody would ever begin."""
    world = founded(company)
    world.burst("abcd", 2)
    assert world.settle(5.0)
    for name in "abcd":
        world.crash(name)
    for index, name in enumerate("dbca"):
        world.at(world.now + 0.7 * index, partial(rejoin, world, name))
    assert world.wait_for(lambda: all(world.seen(name) == "abcd" for name in "abcd"), 30.0)
    world.burst("abcd", 2)
    assert world.settle(20.0)
    assert world.check() == []


def test_a_group_that_lost_its_majority_is_not_founded_beside_it(company: Any) -> None:
    """Two of four restart at once: they would go on with a new group while the other two still hold the old one."""
    world = founded(company)
    for name in "cd":
        world.crash(name)
    for name in "cd":
        rejoin(world, name)
    world.run(12.0)
    for name in "ab":
        assert len(world.told(name, NoMajority)) == 1
    assert "lost its majority: 2 of the 4 members" in only_reason(world, "c")
    assert "restart the nodes that are left" in only_reason(world, "c")
    for name in "abcd":
        world.crash(name)
    for name in "abcd":
        rejoin(world, name)
    assert world.wait_for(lambda: all(world.seen(name) == "abcd" for name in "abcd"), 30.0)
    assert world.settle(20.0)
    assert world.check() == []


def test_a_member_of_a_former_group_does_not_stop_the_new_one(company: Any) -> None:
    """All founders restart while another member is out of reach; when it is back, its old view would stop everybody, or be merged."""
    world = founded(company, "abc", late="e")
    world.start("e")
    world.run(1.0)
    world.join("e")
    assert world.wait_for(lambda: world.seen("e") == "abce", 20.0)
    assert world.settle(10.0)
    world.partition(["abc", "e"])
    for name in "abc":
        world.crash(name)
    for name in "abc":
        rejoin(world, name, 3)
    assert world.wait_for(lambda: all(world.seen(name) == "abc" for name in "abc"), 30.0)
    world.heal()
    sent = world.burst("abc", 2)
    assert world.wait_for(lambda: bool(world.told("e", Departed)), 30.0)
    assert "founded again" in only_reason(world, "e")
    assert world.settle(20.0)
    assert all(set(sent) <= set(world.stream(name)) for name in "abc")
    assert all(world.told(name, NoMajority) == [] for name in "abc")
    world.join("e")
    assert world.wait_for(lambda: world.seen("e") == "abce", 20.0)


@pytest.mark.parametrize(("expect", "cut"), [(("a", "b"), "ab"), (2, "cd")], ids=["by name", "by number"])
def test_founders_that_remember_more_others_found_nothing(company: Any, expect: Any, cut: str) -> None:
    """All that may found the group restart out of reach of the other members: they would begin a second one, and both would go on."""
    world = company("abcde")
    for name in "ab":
        world.join(name, create=OPTIONS, expect=expect)
    assert world.settle(20.0)
    for name in "cde":
        world.join(name)
    assert world.wait_for(lambda: world.seen("a") == "abcde", 20.0)
    assert world.settle(20.0)
    rest = "".join(sorted(set("abcde") - set(cut)))
    world.partition([cut, rest])
    former = tuple(name_of(member) for member in world.view_of("a").members)
    for name in cut:
        world.crash(name)
        world.restart(name)
        world._process(name).core.former_by_name["g"] = former
        world.look_for(name, create=OPTIONS, expect=expect)
    world.run(8.0)
    assert [world.view_of(name) for name in cut] == [None, None]
    assert "others were most of its members" in world._process(cut[0]).core.why_waiting("g#0000000000000000")
    world.burst(rest, 3)
    world.heal()
    assert world.wait_for(lambda: all(world.seen(name) == "abcde" for name in "abcde"), 30.0)
    world.burst("abcde", 2)
    assert world.settle(20.0)
    assert world.check() == []


def test_founders_that_were_half_of_the_group_found_it_again(company: Any) -> None:
    """After a power failure the group would wait for nodes that do not found it."""
    world = company("ab")
    for name in "ab":
        world._process(name).core.former_by_name["g"] = ("a", "c", "b", "d")
        world.join(name, create=OPTIONS, expect=2)
    assert world.wait_for(lambda: world.seen("a") == "ab", 20.0)


@pytest.mark.parametrize("fault", ["crash", "cut"])
@pytest.mark.parametrize("phase", [Phase.ASKING, Phase.PREPARING, Phase.INSTALLING])
@pytest.mark.parametrize("count", [2, 4])
def test_the_founder_that_proposes_fails_at_any_point(company: Any, fault: str, phase: Phase, count: int) -> None:
    """A view that only some have installed would be lost with them, or be a second beginning."""
    nodes = "abcd"[:count]
    world = company(nodes)
    for name in nodes:
        world.join(name, create=OPTIONS, expect=count)
    lost = {Phase.ASKING: "state", Phase.PREPARING: "prepared", Phase.INSTALLING: "install"}[phase]
    world.rules.append(Rule.parse(f"drop {lost}"))

    def reached() -> bool:
        change = world.member("a").coordinator.change
        return change is not None and change.phase is phase

    assert world.wait_for(reached, 10.0)
    world.rules.clear()
    if fault == "crash":
        world.crash("a")
    else:
        world.partition(["a", nodes[1:]])
    world.run(3.0)
    if count > 2:
        assert all(world.view_of(name) is None or world.member(name).short for name in nodes[1:])
    if fault == "crash":
        rejoin(world, "a", count)
    world.heal()
    assert world.wait_for(lambda: all(world.seen(name) == nodes for name in nodes), 40.0)
    world.burst(nodes, 2)
    assert world.settle(20.0)
    assert world.check() == []


def test_an_install_that_reached_only_one_other_is_handed_on(company: Any) -> None:
    """The proposer dies when one of three others has the first view: the others could neither go on nor join."""
    world = company("abcd")
    world.rules += [Rule.parse("drop install to c"), Rule.parse("drop install to d")]
    for name in "abcd":
        world.join(name, create=OPTIONS, expect=4)
    assert world.wait_for(lambda: world.view_of("b") is not None, 10.0)
    world.crash("a")
    world.rules.clear()
    assert world.wait_for(lambda: all(world.seen(name) == "bcd" for name in "bcd"), 30.0)
    world.burst("bcd", 2)
    assert world.settle(20.0)
    assert world.check() == []


def test_a_candidate_that_restarts_is_a_new_one(company: Any) -> None:
    """The promise of a process that is dead would count, and the first view would have a member that never comes."""
    world = company("abc")
    for name in "ab":
        world.join(name, create=OPTIONS, expect=3)
    world.run(1.0)
    world.crash("b")
    rejoin(world, "b", 3)
    world.join("c", create=OPTIONS, expect=3)
    assert world.wait_for(lambda: all(world.seen(name) == "abc" for name in "abc"), 20.0)
    assert world.id_of("b") in world.view_of("a").members
    assert world.settle(10.0)
    assert world.check() == []


def test_a_member_takes_no_part_in_another_first_view(company: Any) -> None:
    """A candidate that has not heard of the group would make its members promise a second beginning, and freeze them."""
    world = founded(company)
    member = world.member("b")
    seats = tuple((world.id_of(name), Address(name)) for name in "abcd")
    ballot = member.agreement.view_id + (5 << TAG_BITS)
    world._process("b").arrive(Address("a"), codec.encode(Propose(member.group, world.id_of("a"), ballot, 0, seats)))
    world.run(0.1)
    assert not member.agreement.changing
    world.burst("abcd", 1)
    assert world.settle(5.0)


@pytest.mark.parametrize("first", [True, False])
def test_a_first_view_that_was_stored_is_not_finished_by_others(company: Any, first: bool) -> None:
    """A view that only its proposer may carry out would be installed by a change of another group of members."""
    world = founded(company, "ab")
    member = world.member("a")
    seats = tuple((world.id_of(name), Address(name)) for name in "ab")
    ballot = member.agreement.view_id + (1 << TAG_BITS)
    sides = (Side(0 if first else member.agreement.view_id, tuple(who for who, _ in seats)),)
    wire = codec.encode(Install(member.group, seats[1][0], ballot, seats, [0, 0], sides, member.port.options))
    change = Change(member, ballot + (1 << TAG_BITS), seats, ())
    view = 0 if first else member.agreement.view_id
    change._states = {who: State(member.group, who, change.ballot, view, [], 0, 0, prepared=wire) for who, _ in seats}
    assert change._unfinished(majority=True) == (b"" if first else wire)


@pytest.mark.parametrize("seed", range(40))
def test_kills_cuts_and_restarts_never_make_two_lines(company: Any, seed: int) -> None:
    """Two sides would go on, and a replicated state machine would have two states."""
    rng = random.Random(f"founding/{seed}")
    nodes = "abcd"[: rng.choice((2, 3, 4))]
    world = company(nodes, seed)
    expect: Any = rng.choice((len(nodes), tuple(nodes)))

    def join(name: str) -> None:
        if world.alive(name) and not world.is_member(name):
            try:
                world.join(name, create=OPTIONS, expect=expect)
            except WorldError:
                world.at(world.now + 0.3, partial(join, name))

    def come_back(name: str, group: Any, event: Any) -> None:
        if type(event) is Departed:
            world.at(world.now + 0.3, partial(join, name))

    def restart(name: str) -> None:
        if not world.alive(name):
            world.restart(name)
            join(name)

    for name in nodes:
        world.on_event(name, partial(come_back, name))
        world.at(rng.uniform(0.0, 1.0), partial(join, name))
    for _ in range(rng.randint(3, 9)):
        world.run(rng.choice((0.0, 0.05, 0.3, 1.0, 3.0)))
        act = rng.random()
        if act < 0.45:
            name = rng.choice(nodes)
            if world.alive(name):
                world.crash(name)
                world.at(world.now + rng.choice((0.0, 0.1, 1.0, 4.0)), partial(restart, name))
        elif act < 0.75:
            sides = [name for name in nodes if rng.random() < 0.4]
            world.heal()
            if 0 < len(sides) < len(nodes):
                world.partition(["".join(sides), "".join(set(nodes) - set(sides))])
        else:
            world.heal()
        for name in nodes:
            if world.alive(name) and world.is_member(name) and world.view_of(name) is not None:
                world.burst(name, 2)
    world.heal()

    def together() -> bool:
        if not all(world.alive(name) and world.is_member(name) for name in nodes):
            return False
        members = [world.member(name) for name in nodes]
        # A group that lost its majority stays as it is until the members that are left are restarted, too.
        stopped = any(member.short for member in members) and all(member.short or member.view is None for member in members)
        return stopped or (all(world.seen(name) == nodes for name in nodes) and bool(world.at_rest()))

    assert world.wait_for(together, 120.0), [(name, str(world.view_of(name))) for name in nodes]
    assert [violation for violation in world.check(settled=False) if violation.promise != "convergence"] == []
