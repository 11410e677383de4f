"""Finding groups without a server, and asking one where there is one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from antiphon.errors import InvalidOption, JoinFailed
from antiphon.model import codec
from antiphon.model.control import Groups
from antiphon.model.events import Departed, Discovered, NameServerAnswer, Vanished
from antiphon.model.ids import Address, GroupId, name_of
from antiphon.model.options import GroupOptions


def names(world: Any, name: str) -> list[str]:
    return sorted(name_of(info.id) for info in world.known(name))


def discovered(world: Any, name: str) -> list[str]:
    return [name_of(event.info.id) for event in world.told(name, Discovered)]


def vanished(world: Any, name: str) -> list[str]:
    return [name_of(event.group) for event in world.told(name, Vanished)]


def test_the_illustration_of_joining_and_leaving(company: Any) -> None:
    """The worked example of discovery: who comes, goes, refuses and comes back would learn of the wrong groups."""
    world = company("a", late="bcd")
    world.run(0.5)
    world.create("a", "G1")
    world.start("b")
    world.run(0.5)
    assert discovered(world, "b") == ["G1"]
    world.join("b", "G1")
    assert world.settle(5.0, "G1")
    world.start("c")
    world.run(0.5)
    assert discovered(world, "c") == ["G1"]
    world.reject("c", "G1")
    world.create("c", "G2")
    world.run(0.5)
    assert discovered(world, "a") == discovered(world, "b")[1:] == ["G2"]
    world.crash("a")
    world.crash("b")
    world.start("d")
    world.run(0.5)
    assert discovered(world, "d") == ["G2"]
    assert names(world, "d") == ["G2"]
    world.join("d", "G2")
    assert world.settle(10.0, "G2")
    world.restart("a")
    world.create("a", "G1")
    world.advertise("c")
    world.run(0.5)
    assert "G2" in names(world, "a")
    for name in "cd":
        assert set(names(world, name)) == {"G1", "G2"}


def test_a_rejected_group_is_not_told_again_until_the_node_advertises(company: Any) -> None:
    """An application that has said no would be asked again at every stranger's arrival; or could never change its mind."""
    world = company("ab", late="cd")
    world.create("a")
    world.run(0.5)
    assert discovered(world, "b") == ["g"]
    world.reject("b")
    assert names(world, "b") == []
    world.start("c")
    world.run(0.5)
    world.advertise("a")
    world.run(0.5)
    world.advertise("c")
    world.run(0.5)
    assert discovered(world, "b") == ["g"]
    assert names(world, "b") == []
    world.advertise("b")
    world.run(0.5)
    assert discovered(world, "b") == ["g", "g"]
    assert names(world, "b") == ["g"]


def test_a_rejected_group_is_not_passed_on(company: Any) -> None:
    """A name server would recommend what it has itself refused."""
    world = company("abc")
    world.create("a", "wanted")
    world.create("a", "unwanted")
    world.run(0.5)
    world.reject("b", "unwanted")
    world.crash("a")
    world.ask_groups("c", "b")
    world.run(0.5)
    (answer,) = world.told("c", NameServerAnswer)
    assert [name_of(info.id) for info in answer.groups] == ["wanted"]
    world.ask_groups("b", "c")
    world.run(0.5)
    assert names(world, "b") == ["wanted"]


def test_an_own_group_cannot_be_rejected(company: Any) -> None:
    """A member would be in a group that it does not tell of."""
    world = company("a")
    world.create("a")
    with pytest.raises(InvalidOption, match="leave it instead"):
        world.reject("a")


def test_a_node_may_refuse_to_be_a_name_server(company: Any) -> None:
    """A small device could not keep strangers from asking; or who asks would wait for it."""
    world = company("abc", name_servers="b")
    world.create("a")
    world.run(0.5)
    question = world.ask_groups("c", "a")
    other = world.ask_groups("c", "b")
    world.run(0.5)
    answers = {answer.question: answer for answer in world.told("c", NameServerAnswer)}
    assert answers[question].refused
    assert answers[question].groups == ()
    assert not answers[other].refused
    assert [name_of(info.id) for info in answers[other].groups] == ["g"]
    assert answers[other].reason == ""


def test_what_a_name_server_knows_is_enough_to_join(company: Any) -> None:
    """Where broadcasts do not reach, a group known by a seed could still not be joined."""
    world = company("abc", seeds="b")
    world.create("a", options=GroupOptions(order="total"))
    world.advertise("a")
    world.run(0.5)
    assert names(world, "b") == ["g"]
    assert names(world, "c") == []
    world.ask_groups("c", "b")
    world.run(0.5)
    world.join("c")
    assert world.settle(10.0)
    assert world.seen("a") == "ac"


def test_a_question_to_a_dead_address_times_out(company: Any) -> None:
    """Who asks a machine that is switched off would wait for ever."""
    world = company("ab")
    world.crash("b")
    question = world.ask_groups("a", "b")
    world.run(10.0)
    (answer,) = world.told("a", NameServerAnswer)
    assert answer.question == question
    assert not answer.refused
    assert answer.reason


@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_group_whose_last_member_leaves_is_gone_everywhere(company: Any, one_by_one: bool) -> None:
    """Directories would fill with groups that nobody is in."""
    world = company("abcd")
    world.create("a")
    world.run(0.5)
    world.join("b")
    world.join("c")
    assert world.settle(10.0)
    assert names(world, "d") == ["g"]
    for name in "abc":
        world.leave(name)
        if one_by_one:
            world.run(3.0)
            assert vanished(world, "d") == ([] if name != "c" else ["g"])
    world.run(10.0)
    assert [event.reason for name in "abc" for event in world.told(name, Departed)] == ["left"] * 3
    assert vanished(world, "d") == ["g"]
    for name in "abcd":
        assert names(world, name) == []
    world.advertise("d")
    world.run(0.5)
    assert names(world, "d") == []
    assert discovered(world, "d") == ["g"]


def test_a_group_that_one_side_has_left_lives_on_the_other(company: Any) -> None:
    """A side that ends itself in a partition would take the other side's group with it."""
    world = company("abcd")
    world.create("a")
    world.run(0.5)
    world.join("b")
    assert world.settle(10.0)
    world.partition(["ac", "bd"])
    world.run(3.0)
    world.leave("a")
    world.run(3.0)
    world.heal()
    world.run(3.0)
    world.advertise("c")
    world.run(1.0)
    assert world.seen("b") == "b"
    assert names(world, "c") == names(world, "d") == ["g"]
    world.send("b", b"still here")
    assert world.settle(5.0)


def test_a_hundred_nodes_do_not_answer_at_once(company: Any) -> None:
    """One newcomer in a large group would set off a storm of answers."""
    world = company([f"n{number:02}" for number in range(40)], late=["late"])
    assert world.gather()
    before = world.frames.copy()
    world.start("late")
    world.run(1.0)
    answers = sum(count for (_, destination, kind), count in (world.frames - before).items() if kind == "groups" and destination == "late")
    assert 1 <= answers <= 10
    assert names(world, "late") == ["g"]


def test_joining_the_unknown_fails_with_a_hint(company: Any) -> None:
    """A mistyped name would look like a group that does not answer."""
    world = company("ab")
    world.run(0.5)
    with pytest.raises(JoinFailed, match="advertise"):
        world.join("b", "nowhere")


def test_two_groups_of_one_name_are_joined_by_id(company: Any) -> None:
    """Who joins by name would land in one of two groups by chance."""
    world = company("abc")
    first, second = world.create("a"), world.create("b")
    world.run(0.5)
    world.look_for("c")
    world.run(2.0)
    (departed,) = world.told("c", Departed)
    assert first in departed.reason
    assert second in departed.reason
    world.join("c", second)
    assert world.settle(10.0, second)
    assert world.seen("b", second) == "bc"
    assert world.seen("a", first) == "a"


def test_a_forged_group_of_the_same_name_does_not_prevent_a_join(company: Any) -> None:
    """One altered frame would make the name ambiguous, and nobody could join by it any more."""
    world = company("abc")
    group = world.create("a")
    world.run(0.5)
    (info,) = world.node("c").directory.find("g")
    forged = msgspec.structs.replace(info, id=GroupId("g#00000000deadbeef"))
    world._process("c").arrive(Address("a"), codec.encode(Groups(world.id_of("a"), (forged,))))
    world.run(0.5)
    assert len(world.node("c").directory.find("g")) == 2
    world.look_for("c")
    world.run(3.0)
    assert world.seen("a", group) == "ac"
