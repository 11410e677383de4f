"""Views: who is in them, who made them, when they are stable; and every way in which members come and go."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.debugger.rule import Rule
from antiphon.errors import JoinFailed, UsageError
from antiphon.model.events import Departed, Discovered, Installed, Stabilised
from antiphon.model.ids import MemberId, name_of
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.sim.network import NetworkModel, Uniform

BAD = NetworkModel(latency=Uniform(0.001, 0.03), loss=0.1, duplicate=0.05, reorder=0.1)


def views(world: Any, name: str, group: str = "g") -> list[View]:
    return [event.view for its_group, event in world.heard[name] if type(event) is Installed and name_of(its_group) == group]


def names(members: tuple[MemberId, ...]) -> str:
    return "".join(name_of(member) for member in members)


def test_views_follow_each_other_and_say_who_made_them(company: Any) -> None:
    """Members would not know which of two views is the newer one, nor who came or went."""
    world = company("abc")
    world.create("a")
    world.run(0.5)
    world.join("b")
    assert world.settle(10.0)
    world.join("c")
    assert world.settle(10.0)
    world.leave("b")
    assert world.settle(10.0)
    world.crash("c")
    world.run(5.0)
    told = views(world, "a")
    assert [names(view.members) for view in told] == ["a", "ab", "abc", "ac", "a"]
    assert [names(view.makers) for view in told] == ["a", "b", "c", "b", "c"]
    ids = [view.id for view in told]
    assert ids == sorted(set(ids))
    assert [view.number for view in told] == sorted({view.number for view in told})
    assert [view.id for view in views(world, "c")] == ids[2:4]
    assert [view.members for view in views(world, "c")] == [view.members for view in told[2:4]]


def test_a_view_is_stable_when_everyone_has_it(gathered: Any) -> None:
    """Somebody would act on a view that others have never heard of, and believe it shared."""
    world = gathered("abc")
    world.rules.append(Rule.parse("hold install to c"))
    world.leave("b")
    world.run(0.3)
    assert world.seen("a") == "ac"
    assert not world.member("a").stable
    before = len(world.told("a", Stabilised))
    world.rules.clear()
    world.release()
    assert world.settle(10.0)
    assert world.member("a").stable
    assert [event.view for event in world.told("a", Stabilised)[before:]] == [world.view_of("a")]
    for name in "ac":
        kinds = [(type(event), event.view.id) for _, event in world.heard[name] if type(event) in (Installed, Stabilised)]
        for kind, view in kinds:
            if kind is Stabilised:
                assert (Installed, view) in kinds[: kinds.index((Stabilised, view))]
        assert kinds[-1] == (Stabilised, world.view_of("a").id)


@pytest.mark.parametrize("seed", range(10))
def test_two_joins_at_once_both_come_in(company: Any, seed: int) -> None:
    """Of two who knock at the same moment one would be forgotten."""
    world = company("abcd", seed, network=BAD)
    world.create("a")
    assert world.wait_for(lambda: all(world.known(name) for name in "bcd"), 20.0) or repeat(world, "bcd")
    world.join("b")
    assert world.settle(20.0)
    world.join("c")
    world.join("d")
    assert world.settle(20.0)
    assert {world.seen(name) for name in "abcd"} == {"abcd"}
    assert world.check() == []


def repeat(world: Any, outside: str) -> bool:
    """Advertises until everybody outside has heard of the group."""
    for _ in range(20):
        for name in outside:
            world.advertise(name)
        if world.wait_for(lambda: all(world.known(name) for name in outside), 1.0):
            return True
    return False


def test_twenty_at_once_come_in_with_few_views(company: Any) -> None:
    """A class that opens its laptops would cost one view change per pupil."""
    world = company([f"n{number:02}" for number in range(21)])
    world.create("n00")
    world.run(0.5)
    for name in world.names[1:]:
        world.join(name)
    assert world.settle(20.0)
    assert all(len(world.view_of(name).members) == 21 for name in world.names)
    assert len(views(world, "n00")) <= 5


def test_a_join_waits_for_an_unstable_view_but_not_for_ever(gathered: Any) -> None:
    """Either every join would disturb a change that is not finished; or one silent member would keep newcomers out."""
    world = gathered("abc", world={"late": "x"})
    world.start("x")
    world.run(0.5)
    world.rules.append(Rule.parse("drop acknowledge from c"))
    world.leave("b")
    assert world.wait_for(lambda: world.seen("a") == world.seen("c") == "ac", 5.0)
    asked_at = world.now
    assert not world.member("a").stable
    world.join("x")
    assert world.wait_for(lambda: world.seen("a") == "acx", 10.0)
    assert world.settings.settle_s <= world.now - asked_at <= world.settings.settle_s + 1.0
    world.rules.clear()
    assert world.settle(10.0)
    assert world.check() == []


@pytest.mark.parametrize("leavers", ["a", "ab", "ba", "abc", "d", "abcd"])
@pytest.mark.parametrize("seed", range(3))
def test_leaving_in_any_company(gathered: Any, leavers: str, seed: int) -> None:
    """A group would stop when its coordinator leaves, or both it and whoever should have taken over."""
    world = gathered("abcde", seed, order="total")
    sent = world.burst("abcde", 2)
    for name in leavers:
        world.leave(name)
    world.run(0.2)
    rest = "".join(name for name in "abcde" if name not in leavers)
    sent += world.burst(rest, 2, "after")
    assert world.settle(20.0)
    for name in leavers:
        assert [event.reason for event in world.told(name, Departed)] == ["left"]
        assert not world.is_member(name)
    for name in rest:
        assert world.seen(name) == rest
        assert sorted(world.stream(name)) == sorted(sent)
        assert {name_of(member) for member in world.member(name).info().left} == set(leavers)
    assert world.check() == []


@pytest.mark.parametrize("seed", range(3))
def test_all_leave_at_once(gathered: Any, seed: int) -> None:
    """The last to leave would wait for each other for ever."""
    world = gathered("abc", seed)
    for name in "abc":
        world.leave(name)
    world.run(10.0)
    for name in "abc":
        assert [event.reason for event in world.told(name, Departed)] == ["left"]
        assert not world.is_member(name)


def test_who_leaves_before_it_can_speak_is_told_what_went_unsaid(gathered: Any) -> None:
    """Messages that were accepted while catching up would be gone with their sender, and nobody would know."""
    world = gathered(world={"settings": Settings(chunk_bytes=2_100)})
    world.partition(["ab", "c"])
    world.run(6.0)
    for _ in range(900):
        world.send("a", b"y" * 2_000)
        world.run(0.01)
    world.heal()
    assert world.wait_for(lambda: not world.member("c").synchronised, 60.0)
    sent = [world.send("c", b"mine") for _ in range(3)]
    world.leave("c")
    world.run(20.0)
    (departed,) = world.told("c", Departed)
    assert departed.unsaid == len(sent)
    assert not set(sent) & set(world.stream("a"))


@pytest.mark.parametrize("alone_s", [0.0, 6.0], ids=["still in the old view", "in a view of its own"])
def test_who_is_cut_off_and_leaves_is_told_that_nobody_may_have_heard(gathered: Any, alone_s: float) -> None:
    """Messages that were sent into a cut line would be gone with their sender, who was told that all was said."""
    world = gathered("abc")
    heard = [world.send("c", b"heard") for _ in range(2)]
    world.run(1.0)
    world.partition(["ab", "c"])
    world.run(alone_s)
    lost = [world.send("c", b"into the void") for _ in range(3)]
    world.leave("c")
    world.run(30.0)
    (departed,) = world.told("c", Departed)
    assert departed.unsaid == len(lost)
    assert set(heard) <= set(world.stream("a"))
    assert not set(lost) & set(world.stream("a"))


def test_who_leaves_in_order_is_told_that_all_was_said(gathered: Any) -> None:
    """Who left in peace would send again what everybody has."""
    world = gathered("abc")
    sent = [world.send("c", b"last words") for _ in range(3)]
    world.leave("c")
    world.run(10.0)
    assert [event.unsaid for event in world.told("c", Departed)] == [0]
    assert set(sent) <= set(world.stream("a"))


def test_who_leaves_while_the_coordinator_crashes_gets_out(gathered: Any) -> None:
    """A request to leave would be lost with the one it was made to."""
    world = gathered("abcd")
    world.crash("a")
    world.leave("c")
    world.run(10.0)
    assert world.told("c", Departed)
    assert world.settle(10.0)
    assert world.seen("b") == world.seen("d") == "bd"
    assert world.check() == []


def test_who_missed_a_view_knows_who_left_in_it(gathered: Any) -> None:
    """A member that was away for one view would tell newcomers for ever that somebody is in the group who has left it."""
    world = gathered("abcd")
    world.partition(["abc", "d"])
    world.run(3.0)
    world.leave("b")
    world.run(2.0)
    world.heal()
    assert world.settle(20.0)
    assert {world.seen(name) for name in "acd"} == {"acd"}
    for name in "acd":
        assert {name_of(member) for member in world.member(name).info().left} == {"b"}


def test_who_comes_back_is_somebody_new(gathered: Any) -> None:
    """Numbers of a former life would be taken for new messages, or new messages for repetitions."""
    world = gathered("abc")
    world.burst("abc", 2, "early")
    assert world.settle(5.0)
    first = world.id_of("c")
    world.leave("c")
    assert world.settle(10.0)
    world.join("c")
    assert world.settle(10.0)
    second = world.id_of("c")
    assert first != second
    assert name_of(first) == name_of(second) == "c"
    mine = world.send("c", b"back")
    assert mine == (second, 1)
    assert world.settle(5.0)
    world.crash("c")
    world.restart("c")
    world.run(0.5)
    world.join("c")
    assert world.settle(20.0)
    assert len({first, second, world.id_of("c")}) == 3
    assert names(world.view_of("a").members) == "abc"
    assert len(world.stream("c")) == 7
    assert world.alike()
    assert world.check() == []


@pytest.mark.parametrize("pause_s", [0.0, 0.2, 1.0])
def test_a_node_that_restarts_before_anybody_missed_it(gathered: Any, pause_s: float) -> None:
    """A quick restart would leave two members of one node in the view, one of them dead."""
    world = gathered("abc")
    world.burst("abc", 1)
    assert world.settle(5.0)
    world.crash("b")
    world.run(pause_s)
    world.restart("b")
    world.run(0.3)
    world.join("b")
    assert world.settle(20.0)
    assert sorted(names(world.view_of("a").members)) == list("abc")
    assert world.id_of("b") in world.view_of("a")
    assert world.check() == []


def test_groups_on_the_same_nodes_are_independent(company: Any) -> None:
    """A crash, a split or a departure in one group would shake another, or their messages would mix."""
    world = company("abcd")
    for group, members, order in (("one", "abc", "total"), ("two", "bcd", "causal"), ("three", "ad", "semantic")):
        world.create(members[0], group, GroupOptions(order=order))
        world.run(0.3)
        for name in members[1:]:
            world.join(name, group)
    assert all(world.settle(10.0, group) for group in ("one", "two", "three"))
    before = {name: len(views(world, name, "two")) for name in "bcd"}
    world.leave("a", "one")
    assert world.settle(10.0, "one")
    for group, members in (("one", "bc"), ("two", "bcd"), ("three", "ad")):
        for name in members:
            world.send(name, f"{name} to {group}".encode(), group=group)
    for group, members in (("one", "bc"), ("two", "bcd"), ("three", "ad")):
        assert world.settle(10.0, group)
        for name in members:
            assert sorted(world.payloads(name, group)) == sorted(f"{other} to {group}".encode() for other in members)
    assert {name: len(views(world, name, "two")) for name in "bcd"} == before
    world.crash("d")
    world.run(4.0)
    assert [world.seen("b", "two"), world.seen("a", "three"), world.seen("b", "one")] == ["bc", "a", "bc"]
    for group in ("one", "two", "three"):
        assert world.settle(10.0, group)
        assert world.check(group) == []


def test_a_group_is_joined_by_its_name_by_its_id_and_by_an_address(company: Any) -> None:
    """Who knows a group only by name, only by id, or only where somebody of it is, could not come in."""
    world = company("abcd", seeds=())
    group = world.create("a")
    world.ask_groups("b", "a")
    world.ask_groups("c", "a")
    world.run(0.5)
    world.join("b", "g")
    world.join("c", group)
    assert world.settle(10.0)
    world.crash("a")  # what is told of the group may be old: somebody of it is enough
    world.ask_groups("d", "c")
    world.run(0.5)
    world.join("d", "g", contacts=("c",))
    assert world.settle(20.0)
    assert world.seen("b") == "bcd"
    assert world.check() == []


def test_an_unknown_group_is_refused_with_a_hint(company: Any) -> None:
    """Who mistypes a name would wait for ever."""
    world = company("ab")
    world.create("a")
    world.run(0.5)
    with pytest.raises(JoinFailed) as failed:
        world.join("b", "h")
    assert failed.value.group == "h"
    assert "advertise" in failed.value.why


def test_a_group_that_does_not_answer_is_given_up(gathered: Any) -> None:
    """A join to machines that are switched off would never end."""
    world = gathered("ab", world={"late": "x"})
    world.start("x")
    world.run(0.5)
    for name in "ab":
        world.crash(name)
    world.join("x")
    world.run(15.0)
    (departed,) = world.told("x", Departed)
    assert "within 10 s" in departed.reason
    assert not world.is_member("x")


def test_nobody_is_in_a_group_twice(gathered: Any) -> None:
    """One program would count as two members."""
    world = gathered("ab")
    with pytest.raises(UsageError, match="leave it first"):
        world.join("b")


@pytest.mark.parametrize("seed", range(3))
def test_twenty_nodes_that_found_one_group_at_once_are_one_group(company: Any, seed: int) -> None:
    """Programs that start together would each sit in a group of their own."""
    world = company([f"n{number:02}" for number in range(20)], seed)
    for name in world.names:
        world.join(name, create=GroupOptions(order="total"))
    assert world.settle(30.0)
    assert len({world.view_of(name).id for name in world.names}) == 1
    assert len(world.view_of("n00").members) == 20
    assert len({world.member(name).group for name in world.names}) == 1
    sent = [world.send(name, name.encode()) for name in world.names]
    assert world.settle(10.0)
    assert all(sorted(world.stream(name)) == sorted(sent) for name in world.names)
    assert len({tuple(world.stream(name)) for name in world.names}) == 1
    assert world.check() == []


def test_founders_that_cannot_reach_each_other_meet_later(company: Any) -> None:
    """Two halves of a network that start apart would stay two groups of one name for ever."""
    world = company("abcd")
    world.partition(["ab", "cd"])
    for name in "abcd":
        world.join(name, create=GroupOptions())
    world.run(3.0)
    assert [world.seen(name) for name in "abcd"] == ["ab", "ab", "cd", "cd"]
    sent = world.burst("abcd", 2)
    world.heal()
    assert world.settle(20.0)
    assert {world.seen(name) for name in "abcd"} == {"abcd"}
    assert sorted(world.stream("a")) == sorted(sent)
    assert world.alike()
    assert world.check() == []


def test_other_options_than_the_groups_are_refused(company: Any) -> None:
    """A member that believes in total order would sit in a group that has none."""
    world = company("abc", seeds=())
    group = world.create("a", options=GroupOptions(order="total"))
    core = world.node("b")
    core.join(world.now, group, contacts=("a",), options=GroupOptions(order="fifo"))
    world.run(5.0)
    assert world.seen("a") == "a"
    assert [event.reason for event in world.told("b", Departed)] == ["the group has other options than this node was told"]


def test_founders_with_other_options_do_not_merge(company: Any) -> None:
    """Two groups of one name and different promises would become one that keeps neither."""
    world = company("ab")
    world.partition(["a", "b"])
    world.join("a", create=GroupOptions(order="total"))
    world.join("b", create=GroupOptions(order="fifo"))
    world.run(3.0)
    world.heal()
    world.run(10.0)
    assert (world.seen("a"), world.seen("b")) == ("a", "b")
    assert world.node("a").memberships[world.member("a").group].port.drops["other_options"] > 0


def test_who_joins_with_create_gets_the_group_that_is_there(company: Any) -> None:
    """Every program that starts later would found its own group beside the one that is there."""
    world = company("ab", late="c")
    world.join("a", create=GroupOptions(order="causal"))
    world.run(3.0)
    world.join("b", create=GroupOptions(order="causal"))
    assert world.settle(10.0)
    world.start("c")
    world.join("c", create=GroupOptions(order="causal"))
    assert world.settle(10.0)
    assert {world.seen(name) for name in "abc"} == {"abc"}
    assert len(world.told("b", Discovered)) <= 1


@pytest.mark.parametrize("victims", ["a", "ab", "e", "ace"])
@pytest.mark.parametrize("seed", range(4))
def test_crashes_in_the_middle_of_a_change(gathered: Any, victims: str, seed: int) -> None:
    """A change whose coordinator dies would leave the others frozen."""
    world = gathered("abcdef", seed, order="total", world={"network": BAD})
    world.burst("abcdef", 2)
    world.leave("f")
    world.run(0.01 + 0.04 * seed)
    for name in victims:
        world.crash(name)
    rest = "".join(name for name in "abcde" if name not in victims)
    world.network = NetworkModel()
    assert world.settle(30.0)
    world.burst(rest, 2, "after")
    assert world.settle(20.0)
    assert {world.seen(name) for name in rest} == {rest}
    assert world.alike(rest)
    assert world.check() == []


def test_a_false_suspicion_is_refuted(gathered: Any) -> None:
    """A member that was silent for a moment would be thrown out by the first who missed it."""
    world = gathered("abcd")
    before = len(views(world, "a"))
    world.cut("d", "a")
    world.run(0.5)  # not long enough to be dead
    world.heal()
    world.run(5.0)
    assert len(views(world, "a")) == before
    assert world.seen("a") == "abcd"


def test_a_crash_is_seen_within_a_few_seconds_with_the_defaults(company: Any) -> None:
    """With the settings that everybody uses, the dead would stay in the view for minutes."""
    world = company("abcde", settings=Settings())
    assert world.gather()
    world.crash("c")
    assert world.wait_for(lambda: world.seen("a") == "abde", 8.0)
