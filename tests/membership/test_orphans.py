"""Messages whose parent died with its sender: delivered all the same, marked so, by all survivors alike, after the flush."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.debugger.rule import Rule
from antiphon.model.events import Installed, Orphaned
from antiphon.model.ids import MessageId
from antiphon.sim.log import Delivered


def orphaned(world: Any, name: str) -> list[tuple[MessageId, tuple[MessageId, ...]]]:
    return [(MessageId(event.batch.sender, event.seqno), event.missing) for event in world.told(name, Orphaned)]


@pytest.mark.parametrize("multicast", ["reliable", "flood"])
def test_an_answer_to_a_message_that_is_lost_is_delivered_and_says_so(gathered: Any, multicast: str) -> None:
    """An answer would wait for ever for a question that died with its sender, or appear as if it had never had one."""
    world = gathered("abcd", order="semantic", multicast=multicast)
    world.rules.extend(Rule.parse(f"drop data from a to {name}") for name in "bc")
    if multicast == "flood":
        world.rules.extend(Rule.parse(f"drop data from d to {name} first 1") for name in "bc")  # what it forwards
    answers: list[MessageId] = []
    world.on_deliver("d", lambda message, payload, reply_to: payload == b"question" and answer(message))

    def answer(question: MessageId) -> None:
        # d answers, its answer reaches the others, and then it and the asker are gone: nobody is left who holds the question.
        world.at(world.now, lambda: answers.append(world.send("d", b"answer", reply_to=question)))
        world.at(world.now + 0.0015, lambda: [world.crash(name) for name in "ad"])

    question = world.send("a", b"question")
    world.run(0.2)
    assert answers
    assert not world.alive("a")
    assert world.stream("b") == world.stream("c") == []
    world.rules.clear()
    assert world.settle(20.0)
    for name in "bc":
        assert orphaned(world, name) == [(answers[0], (question,))]
        assert world.stream(name) == answers
        told = [type(event) for _, event in world.heard[name] if type(event) in (Installed, Orphaned)]
        assert told[-2:] == [Orphaned, Installed]  # it belongs to the view that lost its parent
        (delivered,) = [event for event in world.log_of(name).events if type(event) is Delivered]
        assert delivered.lost == (question,)
    assert world.check() == []


def test_a_parent_that_one_survivor_holds_is_not_lost(gathered: Any) -> None:
    """A question that somebody still has would be reported lost, and then come after its answer."""
    world = gathered("abcd", order="semantic")
    world.rules.append(Rule.parse("drop data from a to b"))
    world.rules.append(Rule.parse("drop nack"))
    question = world.send("a", b"question")
    world.run(0.01)
    reply = world.send("d", b"answer", reply_to=question)
    world.run(0.01)
    assert world.stream("b") == []
    assert world.stream("c") == [question, reply]
    world.crash("a")
    world.rules.clear()
    assert world.settle(20.0)
    for name in "bcd":
        assert world.stream(name) == [question, reply]
        assert orphaned(world, name) == []
    assert world.check() == []


def test_an_orphan_is_an_orphan_for_those_who_come_later(gathered: Any) -> None:
    """A newcomer's synchronisation would never end, because a parent that it needs does not exist any more."""
    world = gathered("abcd", order="semantic")
    world.rules.extend(Rule.parse(f"drop data from a to {name}") for name in "bc")
    question = world.send("a", b"question")
    world.run(0.01)
    world.send("d", b"answer", reply_to=question)
    world.run(0.002)
    world.crash("a")
    world.crash("d")
    world.rules.clear()
    assert world.settle(20.0)
    assert orphaned(world, "b")
    world.restart("d")
    world.run(0.5)
    world.join("d")
    assert world.settle(20.0)
    assert world.history("d") == world.history("b")
    assert world.stream("d") == world.stream("b")
    world.send("d", b"and now?", reply_to=world.stream("d")[0])
    assert world.settle(5.0)
    assert world.alike("bcd")


@pytest.mark.parametrize("order", ["fifo", "causal", "total"])
def test_in_other_orders_what_waits_for_the_lost_is_dropped_by_all_alike(gathered: Any, order: str) -> None:
    """Survivors would differ in what they delivered of a dead sender."""
    world = gathered("abcd", order=order)
    world.rules.extend(Rule.parse(f"drop data from a to {name} first 1") for name in "bcd")
    world.send("a", b"1")
    world.run(0.001)
    world.send("a", b"2")
    world.run(0.0015)
    world.crash("a")
    world.rules.clear()
    sent = world.burst("bcd", 1)
    assert world.settle(20.0)
    for name in "bcd":
        assert sorted(world.stream(name)) == sorted(world.stream("b"))
        assert set(sent) <= set(world.stream(name))
    assert world.alike("bcd")
    assert world.check() == []
