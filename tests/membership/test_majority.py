"""Only a majority goes on: what the others are told, and what becomes of what they had accepted."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.debugger.rule import Rule
from antiphon.errors import NoQuorum
from antiphon.model import codec
from antiphon.model.control import Install
from antiphon.model.events import NoMajority
from antiphon.model.ids import Address, name_of
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import TAG_BITS

MAJORITY = {"partitions": "majority"}


def test_a_minority_is_told_and_may_not_send(gathered: Any) -> None:
    """A program on the wrong side of a split would go on as if everybody heard it."""
    world = gathered("abcde", **MAJORITY)
    world.partition(["abc", "de"])
    world.run(4.0)
    for name in "de":
        with pytest.raises(NoQuorum) as raised:
            world.send(name, b"does anybody hear me?")
        assert (raised.value.here, raised.value.of) == (2, 5)
        assert len(world.told(name, NoMajority)) == 1
        assert world.seen(name) == "abcde"  # its last view: it has no other
    for name in "abc":
        assert world.seen(name) == "abc"
        assert world.told(name, NoMajority) == []
        world.send(name, b"we go on")
    world.heal()
    assert world.settle(20.0)
    world.send("d", b"back again")
    assert world.settle(5.0)
    assert world.alike()
    assert world.check() == []


@pytest.mark.parametrize("delivery", ["agreed", "safe"])
@pytest.mark.parametrize("order", ["unordered", "fifo", "causal", "total", "semantic"])
def test_what_a_minority_had_accepted_arrives_after_the_merge(gathered: Any, order: str, delivery: str) -> None:
    """A message that was accepted just before a split would be lost, or come twice, or under another name."""
    world = gathered("abcde", order=order, delivery=delivery, **MAJORITY)
    before = world.burst("abcde", 2, "before")
    world.partition(["abc", "de"])
    caught = world.burst("de", 3, "caught")  # accepted: nobody knows yet that there is a split
    assert len(caught) == 6
    world.run(4.0)
    meanwhile = world.burst("abc", 3, "meanwhile")
    assert len(meanwhile) == 9
    world.run(1.0)
    assert set(meanwhile) <= set(world.stream("a"))
    world.heal()
    assert world.settle(20.0)
    after = world.burst("abcde", 1, "after")
    assert world.settle(5.0)
    for name in "abcde":
        assert sorted(world.stream(name)) == sorted([*before, *caught, *meanwhile, *after])
    assert world.alike()
    assert world.check() == []


def test_of_two_the_first_goes_on(gathered: Any) -> None:
    """A pair would stop entirely at every broken cable; or both would go on, each alone."""
    world = gathered("ab", **MAJORITY)
    world.partition(["a", "b"])
    caught = world.send("b", b"caught")
    world.run(4.0)
    alone = world.send("a", b"alone")
    with pytest.raises(NoQuorum) as raised:
        world.send("b", b"no")
    assert (raised.value.here, raised.value.of) == (1, 2)
    assert (world.seen("a"), world.seen("b")) == ("a", "ab")
    world.heal()
    assert world.settle(20.0)
    assert sorted(world.stream("a")) == sorted(world.stream("b")) == sorted([caught, alone])
    assert world.check() == []


def test_of_two_the_second_stops_when_the_first_crashes(gathered: Any) -> None:
    """The second of two would go on although the first may be alive on the other side."""
    world = gathered("ab", **MAJORITY)
    world.crash("a")
    world.run(5.0)
    with pytest.raises(NoQuorum):
        world.send("b", b"no")
    assert len(world.told("b", NoMajority)) == 1


def test_of_two_the_first_goes_on_when_the_second_crashes(gathered: Any) -> None:
    """A pair would be no more available than one machine."""
    world = gathered("ab", **MAJORITY)
    world.crash("b")
    world.run(5.0)
    world.send("a", b"alone")
    assert world.seen("a") == "a"
    assert world.settle(1.0)


def test_a_majority_of_a_majority_goes_on(gathered: Any) -> None:
    """After a second failure a group of five would stop with three living members, or two rival groups of it would go on."""
    world = gathered("abcde", order="total", delivery="safe", **MAJORITY)
    world.partition(["abc", "de"])
    world.run(4.0)
    three = world.burst("abc", 2, "three")
    world.run(0.5)
    world.partition(["ab", "c", "de"])
    world.run(4.0)
    assert [world.seen(name) for name in "abc"] == ["ab", "ab", "abc"]
    two = world.burst("ab", 2, "two")
    assert (len(three), len(two)) == (6, 4)
    for name in "cde":
        with pytest.raises(NoQuorum):
            world.send(name, b"no")
    world.run(0.5)
    # The three that were left behind are a majority of the five, but not of what came after.
    world.heal()
    world.partition(["ab", "cde"])
    world.run(6.0)
    for name in "cde":
        with pytest.raises(NoQuorum):
            world.send(name, b"no")
    world.heal()
    assert world.settle(20.0)
    for name in "abcde":
        assert world.stream(name) == world.stream("a")
        assert set(world.stream(name)) == set(three + two)
    assert world.check() == []


def test_two_halves_both_stop(gathered: Any) -> None:
    """Both halves of an even split would go on, and there would be two truths."""
    world = gathered("abcd", order="total", delivery="safe", **MAJORITY)
    world.partition(["ab", "cd"])
    caught = world.burst("abcd", 2, "caught")
    world.run(4.0)
    for name in "abcd":
        with pytest.raises(NoQuorum) as raised:
            world.send(name, b"no")
        assert (raised.value.here, raised.value.of) == (2, 4)
    world.heal()
    assert world.settle(20.0)
    after = world.burst("abcd", 1, "after")
    assert world.settle(5.0)
    for name in "abcd":
        assert world.stream(name) == world.stream("a")
        assert sorted(world.stream(name)) == sorted(caught + after)
    assert world.check() == []


@pytest.mark.parametrize("meeting", ["ab cd", "ab e", "cd e"])
def test_of_three_sides_two_that_meet_go_on(gathered: Any, meeting: str) -> None:
    """A group in three parts would wait for the last of them for ever, or not know that two parts are a majority."""
    world = gathered("abcde", **MAJORITY)
    world.partition(["ab", "cd", "e"])
    caught = world.burst("abcde", 1, "caught")
    world.run(4.0)
    for name in "abcde":
        with pytest.raises(NoQuorum):
            world.send(name, b"no")
    together = meeting.replace(" ", "")
    world.heal()
    world.partition([together, *({"ab", "cd", "e"} - set(meeting.split()))])
    assert world.settle(20.0)
    assert {world.seen(name) for name in together} == {together}
    met = world.burst(together, 2, "met")
    assert len(met) == 2 * len(together)
    for name in set("abcde") - set(together):
        with pytest.raises(NoQuorum):
            world.send(name, b"no")
    world.heal()
    assert world.settle(20.0)
    for name in "abcde":
        assert sorted(world.stream(name)) == sorted(caught + met)
    assert world.alike()
    assert world.check() == []


@pytest.mark.parametrize("seed", range(4))
def test_safe_total_order_with_a_majority_is_one_stream(gathered: Any, seed: int) -> None:
    """A replicated state machine would take its commands in another order on the side that was cut off."""
    world = gathered("abcde", seed, order="total", delivery="safe", **MAJORITY)
    sent = []
    for round_number, parts in enumerate((["abc", "de"], ["ae", "bcd"], ["b", "acde"])):
        sent += world.burst("abcde", 2, f"together{round_number}")
        world.partition(parts)
        sent += world.burst("abcde", 2, f"caught{round_number}")
        for _ in range(8):
            world.run(0.5)
            sent += world.burst("abcde", 1, f"split{round_number}")
        world.heal()
        world.run(0.3)
        sent += world.burst("abcde", 1, f"merging{round_number}")
        assert world.settle(20.0)
    streams = [world.stream(name) for name in "abcde"]
    assert all(stream == streams[0] for stream in streams)
    assert sorted(streams[0]) == sorted(sent)
    assert world.history("a") == streams[0]
    assert world.check() == []


def test_a_crashed_minority_does_not_hold_the_majority_up(gathered: Any) -> None:
    """A group that asks for a majority would stop for members that will never come back."""
    world = gathered("abcde", delivery="safe", **MAJORITY)
    world.crash("d")
    world.crash("e")
    world.run(5.0)
    assert world.seen("a") == "abc"
    sent = world.burst("abc", 2)
    assert world.settle(5.0)
    assert sorted(world.stream("c")) == sorted(sent)
    # Now three are all there are, and two of them are more than half.
    world.crash("a")
    world.run(5.0)
    assert world.seen("b") == "bc"
    assert len(world.burst("bc", 1)) == 2
    assert world.settle(5.0)
    assert world.check() == []


@pytest.mark.parametrize("seed", range(3))
def test_a_member_that_missed_a_view_does_not_make_a_second_majority(gathered: Any, seed: int) -> None:
    """Three of five would make a view, one of them would miss it and join the other two, and both sides would be a majority."""
    world = gathered("abcde", seed, order="total", delivery="safe", partitions="majority")
    view = world.view_of("a")
    first, second, third, fourth, fifth = (name for member in view.members for name in "abcde" if world.id_of(name) == member)
    world.rules.append(Rule.parse(f"drop install from {third} to {fourth}"))
    world.partition([[first, second], [third, fourth, fifth]])
    assert world.wait_for(lambda: world.view_of(third).id != view.id, 20.0)
    world.heal()
    world.partition([[first, second, fourth], [third, fifth]])
    world.run(10.0)
    for name in (first, second, fourth):
        with pytest.raises(NoQuorum):
            world.send(name, b"now we are three")
    world.rules.clear()
    world.heal()
    assert world.settle(60.0)
    assert len(world.view_of("a").members) == 5
    assert world.check() == []


@pytest.mark.parametrize("seed", range(3))
def test_a_coordinator_cut_off_while_it_installs_does_not_split_the_stream(gathered: Any, seed: int) -> None:
    """It would deliver what it held at the end of the view, the others would go on without that end, and their order would be another."""
    world = gathered("abcd", seed, order="total", delivery="safe", partitions="majority")
    view = world.view_of("a")
    first, second, third, fourth = (name for member in view.members for name in "abcd" if world.id_of(name) == member)
    for name in (third, fourth):
        world.rules.append(Rule.parse(f"drop install from {second} to {name}"))
    world.partition([[first], [second, third, fourth]])
    for name in "abcd":
        world.send(name, name.encode())
    assert world.wait_for(lambda: world.view_of(second).id != view.id, 20.0)
    world.heal()
    world.partition([[second], [first, third, fourth]])
    world.run(10.0)
    world.rules.clear()
    world.heal()
    assert world.settle(60.0)
    assert len({tuple(world.history(name)) for name in "abcd"}) == 1
    assert world.check() == []


def in_join_order(world: Any) -> list[str]:
    return [name_of(member) for member in world.view_of("a").members]


@pytest.mark.parametrize("seed", range(3))
def test_who_alone_has_stored_a_view_does_not_carry_it_out(gathered: Any, seed: int) -> None:
    """It would end the old view with what the two of that view held, while the other went on with the rest, and their order was another."""
    world = gathered("abc", seed, order="total", delivery="safe", partitions="majority")
    first, second, third = in_join_order(world)
    view = world.view_of("a")
    world.rules.append(Rule.parse(f"drop prepare from {second} to {third}"))
    world.partition([[first], [second, third]])
    world.burst("abc", 2)
    stored = world.member(second).agreement
    assert world.wait_for(lambda: bool(stored._prepared[0]), 20.0)
    world.heal()
    world.partition([[second], [first, third]])
    assert world.wait_for(lambda: world.view_of(first).id != view.id, 20.0)
    world.run(10.0)
    assert world.view_of(second) == view
    world.rules.clear()
    world.heal()
    assert world.settle(60.0)
    assert world.alike()
    assert world.check() == []


@pytest.mark.parametrize("seed", range(3))
def test_who_leaves_does_not_help_others_to_a_second_majority(gathered: Any, seed: int) -> None:
    """Of three, one is not heard and one leaves: the first would go on alone, and the other two, who had not stored that, without it."""
    world = gathered("abc", seed, **MAJORITY)
    first, second, third = in_join_order(world)
    world.rules.append(Rule.parse(f"drop prepare from {first} to {second}"))
    world.partition([[first, second], [third]])
    assert world.wait_for(lambda: len(world.member(first).coordinator.suspects) == 1, 20.0)
    world.leave(second)
    assert world.wait_for(lambda: world.member(first).agreement.changing, 20.0)
    world.run(0.1)
    world.heal()
    world.partition([[first], [second, third]])
    assert world.wait_for(lambda: world.seen(third) == third, 20.0)
    world.run(10.0)
    with pytest.raises(NoQuorum):
        world.send(first, b"am I alone?")
    world.rules.clear()
    world.heal()
    assert world.settle(60.0)
    assert world.seen(first) == world.seen(third) == "".join(sorted(first + third))
    assert world.check() == []


@pytest.mark.parametrize("seed", range(4))
def test_the_last_of_a_majority_does_not_leave_with_what_it_decided(gathered: Any, seed: int) -> None:
    """Of three, one missed what the other two did; one of those is lost, and the other leaves just when it meets the one that missed it:
    that one would go on, a majority of nobody, and without what was decided meanwhile."""
    world = gathered("abc", seed, **MAJORITY)
    first, second, third = in_join_order(world)
    world.partition([[first, third], [second]])
    assert world.wait_for(lambda: world.seen(first) == world.seen(third) == "".join(sorted(first + third)), 20.0)
    world.send(first, b"decided by two")
    world.run(2.0)
    world.heal()
    world.partition([[first, second], [third]])
    world.leave(first)
    world.run(20.0)
    world.heal()
    assert world.settle(60.0)
    assert world.seen(second) == world.seen(third) == "".join(sorted(second + third))
    assert world.check() == []


def test_a_stored_view_counts_however_many_changes_have_failed(company: Any) -> None:
    """A member that has stored a view, and cannot know that others carried it out, would forget it when it gives up a later ballot that
    came to nothing, and make a majority with those who have never heard of it."""
    names = "abcde"
    world = company(names, 3, settings=Settings())
    assert world.gather(options=GroupOptions(order="total", partitions="majority"))
    sides, lost, cast = [{"a", "b", "d"}, {"c", "e"}], ["b"], world._carrier.cast

    def cast_within(source: Address, destinations: Any, wire: bytes) -> None:
        to = [name for name in destinations if name == source or any({source, name} <= side for side in sides)]
        if isinstance(codec.decode(wire), Install):
            to = [name for name in to if name not in lost or name == source]
        cast(source, to, wire)

    world._carrier.cast = cast_within
    for name in "abd":  # as if so many changes had come to nothing
        world.member(name).coordinator._highest = world.view_of(name).id + (2_000 << TAG_BITS)
    assert world.wait_for(lambda: world.seen("a") == world.seen("d") == "abd", 60.0)
    assert world.seen("b") == names
    sides[:] = [{"a", "d"}, {"b"}, {"c"}, {"e"}]
    world.run(20.0)
    lost.clear()
    sides[:] = [{"a", "d"}, {"b", "c", "e"}]
    world.run(60.0)
    sides[:] = [set(names)]
    world.run(60.0)
    assert all(world.seen(name) == names for name in names)
    assert world.check() == []
