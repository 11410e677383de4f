"""Orphans that a member gets by synchronisation: marked with the same missing parents as where they were delivered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from antiphon.debugger.rule import Rule
from antiphon.model.control import Wants
from antiphon.model.events import Orphaned, Recovered
from antiphon.model.ids import MemberId, MessageId
from antiphon.sim.log import Delivered

STRANGER = MessageId(MemberId("z#0000000000000001"), 3)


def orphans(world: Any, name: str) -> dict[MessageId, tuple[MessageId, ...]]:
    return {MessageId(event.batch.sender, event.seqno): event.missing for event in world.told(name, Orphaned)}


def recovered(world: Any, name: str) -> dict[MessageId, tuple[MessageId, ...]]:
    return {
        MessageId(event.batch.sender, seqno): event.missing
        for event in world.told(name, Recovered)
        for seqno in range(event.low, event.high + 1)
    }


def logged(world: Any, name: str) -> dict[MessageId, tuple[MessageId, ...]]:
    return {event.id: event.lost for event in world.log_of(name).events if type(event) is Delivered}


def lose_a_parent(world: Any, bystanders: Sequence[str]) -> tuple[MessageId, MessageId]:
    """Let d answer a question of a that reaches d alone, and both crash: return the question and the answer."""
    world.rules.extend(Rule.parse(f"drop data from a to {name}") for name in bystanders)
    question = world.send("a", b"question")
    world.run(0.01)
    answer = world.send("d", b"answer", reply_to=question)
    world.run(0.002)
    world.crash("a")
    world.crash("d")
    world.rules.clear()
    return question, answer


def forge(world: Any, name: str) -> dict[MessageId, tuple[MessageId, ...]]:
    """Send messages of `name` that name parents which do not exist, among others that are honest."""
    me = world.member(name).me
    first = world.send(name, b"honest")
    never = MessageId(world.member("b").me, 10_000)
    sent = {first: ()}
    for payload, parents in ((b"stranger", (STRANGER,)), (b"never sent", (never,)), (b"own", (MessageId(me, 10_000),))):
        sent[world.send(name, payload, parents[0], unchecked=True)] = parents
    sent[world.send(name, b"mixed", first, (STRANGER, never), unchecked=True)] = (STRANGER, never)
    sent[world.send(name, b"an honest answer", first)] = ()
    return sent


def test_an_orphan_of_another_side_is_marked_after_the_merge(gathered: Any) -> None:
    """The members of one side would show the answer as an orphan, and those of the other as if its question had been delivered."""
    world = gathered("abcdef", order="semantic")
    world.partition(["abcd", "ef"])
    assert world.settle(20.0)
    question, answer = lose_a_parent(world, "bc")
    assert world.settle(20.0)
    assert orphans(world, "b") == orphans(world, "c") == {answer: (question,)}
    world.heal()
    assert world.settle(20.0)
    for name in "ef":
        assert recovered(world, name) == logged(world, name) == {answer: (question,)}
    assert world.check() == []


def test_an_orphan_from_before_its_time_is_marked_for_a_newcomer(gathered: Any) -> None:
    """A newcomer would take the answer for one whose question it has."""
    world = gathered("abcd", order="semantic")
    question, answer = lose_a_parent(world, "bc")
    assert world.settle(20.0)
    assert orphans(world, "b") == {answer: (question,)}
    world.restart("d")
    world.run(0.5)
    world.join("d")
    assert world.settle(20.0)
    assert logged(world, "d") == {answer: (question,)}
    assert recovered(world, "d")[answer] == (question,)
    assert world.check() == []


def test_forged_parents_on_another_side_are_marked_after_the_merge(gathered: Any) -> None:
    """What a faulty node sent would look like an honest answer to those that were elsewhere."""
    world = gathered("abcde", order="semantic")
    world.partition(["abc", "de"])
    assert world.settle(20.0)
    sent = forge(world, "a")
    assert world.settle(20.0)
    marked = {message: parents for message, parents in sent.items() if parents}
    assert orphans(world, "b") == orphans(world, "c") == marked
    world.heal()
    assert world.settle(20.0)
    for name in "de":
        assert recovered(world, name) == logged(world, name) == sent
    assert world.check() == []


@pytest.mark.parametrize("multicast", ["reliable", "flood", "tree", "besteffort"])
def test_forged_parents_are_marked_for_a_newcomer(gathered: Any, multicast: str) -> None:
    """What a faulty node sent would look like an honest answer to whoever joins later."""
    world = gathered("abcd", order="semantic", multicast=multicast)
    world.crash("d")
    assert world.settle(20.0)
    sent = forge(world, "a")
    world.run(1.0)
    assert world.settle(20.0)
    world.restart("d")
    world.run(0.5)
    world.join("d")
    assert world.settle(20.0)
    assert logged(world, "d") == sent
    assert world.check() == []


def test_a_forged_parent_that_is_sent_later_is_missing_before_it(gathered: Any) -> None:
    """A newcomer would get the forged answer before the message it names, and without a mark."""
    world = gathered("abcd", order="semantic")
    world.crash("d")
    assert world.settle(20.0)
    parent = MessageId(world.member("b").me, 1)
    child = world.send("a", b"guess", parent, unchecked=True)
    assert world.settle(20.0)
    assert orphans(world, "c") == {child: (parent,)}
    assert world.send("b", b"guessed") == parent
    assert world.settle(20.0)
    world.restart("d")
    world.run(0.5)
    world.join("d")
    assert world.settle(20.0)
    assert logged(world, "d") == {child: (parent,), parent: ()}
    assert world.check() == []


def test_a_circle_is_marked_where_it_begins_for_a_newcomer(gathered: Any) -> None:
    """A newcomer would get a message of the circle before the one that it names, and without a mark."""
    world = gathered("abcd", order="semantic")
    world.crash("d")
    assert world.settle(20.0)
    one, other = MessageId(world.member("a").me, 1), MessageId(world.member("b").me, 1)
    assert world.send("a", b"one", other, unchecked=True) == one
    assert world.send("b", b"other", one, unchecked=True) == other
    world.run(2.0)
    assert world.settle(20.0)
    assert sorted(world.stream("c")) == sorted((one, other))
    world.restart("d")
    world.run(0.5)
    world.join("d")
    assert world.settle(20.0)
    first, second = world.stream("d")
    assert {first, second} == {one, other}
    assert logged(world, "d") == {first: (second,), second: ()}


def test_a_parent_that_is_lost_to_the_other_side_alone_is_not_missing(gathered: Any) -> None:
    """Members that have delivered a message would be told that it is lost."""
    world = gathered("abcdef", order="semantic")
    world.rules.extend(Rule.parse(f"drop data from a to {name}") for name in "bc")
    world.rules.append(Rule.parse("drop nack"))
    question = world.send("a", b"question")
    world.run(0.01)
    assert world.stream("e") == world.stream("f") == [question]
    world.partition(["bcd", "aef"])
    answer = world.send("d", b"answer", reply_to=question)
    world.run(0.002)
    world.crash("d")
    world.rules.clear()
    assert world.settle(20.0)
    assert orphans(world, "b") == {answer: (question,)}
    world.heal()
    assert world.settle(20.0)
    for name in "aef":
        assert logged(world, name) == {question: (), answer: ()}
    assert world.check() == []


@pytest.mark.parametrize("wants", [Wants("last", 1), Wants("none")])
def test_an_answer_to_what_a_newcomer_did_not_want_is_no_orphan(gathered: Any, wants: Wants) -> None:
    """Every answer to something before a newcomer's time would be called an orphan."""
    world = gathered("abcd", order="semantic")
    world.crash("d")
    assert world.settle(20.0)
    questions = [world.send("a", b"question") for _ in range(3)]
    assert world.settle(20.0)
    answer = world.send("b", b"answer", questions[0], questions[1:])
    assert world.settle(20.0)
    world.restart("d")
    world.run(0.5)
    world.join("d", wants=wants)
    assert world.settle(20.0)
    assert logged(world, "d") == ({answer: ()} if wants.kind == "last" else {})
    assert world.check() == []


@pytest.mark.parametrize("delivery", ["agreed", "safe"])
def test_an_own_message_that_waits_in_a_stopped_minority_is_sent_again(gathered: Any, delivery: str) -> None:
    """A message that its own sender holds would be dropped with the minority's view, and nobody would ever get it."""
    world = gathered("abcde", order="semantic", delivery=delivery, partitions="majority")
    world.partition(["abc", "de"])
    never = MessageId(world.member("b").me, 10_000)
    waiting = world.send("d", b"forged", never, unchecked=True)
    honest = world.send("d", b"honest")
    world.run(0.01)
    assert waiting not in world.stream("d")
    assert world.settle(20.0)
    world.heal()
    assert world.settle(20.0)
    for name in "abcde":
        assert sorted(world.stream(name)) == [waiting, honest]
        assert logged(world, name) == {waiting: (never,), honest: ()}
    assert world.alike("abcde")
    assert world.check() == []
