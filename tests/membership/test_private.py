"""Speaking to one member, and asking one or all of them."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.debugger.rule import Rule
from antiphon.errors import InvalidOption, NotAMember, TooLarge, WouldBlock
from antiphon.model.events import Installed, PrivateMessage, Undelivered, Writable
from antiphon.model.ids import name_of
from antiphon.sim.network import NetworkModel, Uniform

LOSSY = NetworkModel(latency=Uniform(0.001, 0.02), loss=0.3, duplicate=0.1, reorder=0.2)


def said(world: Any, name: str) -> list[bytes]:
    return [event.data for event in world.told(name, PrivateMessage) if event.kind == "say"]


def replies(world: Any, name: str, question: int) -> dict[str, bytes]:
    told = [event for event in world.told(name, PrivateMessage) if event.kind == "reply" and event.question == question]
    assert len({event.sender for event in told}) == len(told)
    return {name_of(event.sender): event.data for event in told}


def answering(world: Any, name: str) -> None:
    """Lets the application of a node answer whatever it is asked."""

    def answer(_: Any, event: Any) -> None:
        if type(event) is PrivateMessage and event.kind == "ask":
            world.reply(name, event.sender, event.question, name.encode() + event.data)

    world.on_event(name, answer)


@pytest.mark.parametrize("seed", range(3))
def test_a_message_to_one_arrives_once_in_order_and_at_nobody_else(gathered: Any, seed: int) -> None:
    """On a bad network private messages would be lost, doubled or overtaken, or be read by others."""
    world = gathered("abc", seed)
    world.network = LOSSY
    for number in range(40):
        world.send_to("a", "b", b"%d" % number)
        if number % 3 == 0:
            world.run(0.05)
    world.run(5.0)
    world.network = NetworkModel()
    assert world.settle(20.0)
    assert world.wait_for(lambda: len(said(world, "b")) >= 40, 20.0)
    assert said(world, "b") == [b"%d" % number for number in range(40)]
    assert said(world, "a") == said(world, "c") == []
    assert world.check() == []


@pytest.mark.parametrize("order", ["unordered", "fifo", "causal", "total", "semantic"])
def test_it_comes_after_what_its_sender_had_told_the_group(gathered: Any, order: str) -> None:
    """“See what I just wrote to all” would arrive before what was written."""
    world = gathered("abc", order=order, world={"network": NetworkModel(latency=Uniform(0.001, 0.05), loss=0.1)})
    heard: list[bytes] = []

    def hear(_: Any, event: Any) -> None:
        if type(event) is tuple:
            heard.extend(event[0].payload(seqno) for seqno in range(event[1], event[2] + 1))
        elif type(event) is PrivateMessage:
            heard.append(event.data)

    world.on_event("c", hear)
    for number in range(20):
        world.send("a", b"all %d" % number)
        world.send_to("a", "c", b"one %d" % number)
        world.run(0.01)
    world.network = NetworkModel()
    assert world.settle(20.0)
    assert world.wait_for(lambda: len(heard) >= 40, 10.0)
    for number in range(20):
        assert heard.index(b"all %d" % number) < heard.index(b"one %d" % number)
    assert world.check() == []


def test_the_group_never_waits_for_it(gathered: Any) -> None:
    """One lost private message would hold up everybody."""
    world = gathered("abc", order="total")
    world.rules.append(Rule.parse("drop private"))
    world.send_to("a", "b", b"never arrives")
    sent = world.burst("abc", 3)
    assert world.wait_for(lambda: all(len(world.stream(name)) == 9 for name in "abc"), 2.0)
    assert set(world.stream("b")) == set(sent)
    assert said(world, "b") == []
    world.rules.clear()
    assert world.wait_for(lambda: said(world, "b") == [b"never arrives"], 10.0)
    assert world.check() == []


def test_it_survives_view_changes(gathered: Any) -> None:
    """A message to one member would be lost or doubled whenever somebody else comes or goes."""
    world = gathered("abcd", world={"network": LOSSY})
    sent = []

    def speak(count: int) -> None:
        for _ in range(count):
            sent.append(b"%d" % len(sent))
            world.send_to("a", "b", sent[-1])
            world.run(0.02)

    speak(5)
    world.leave("d")
    speak(30)
    world.crash("c")
    speak(60)
    world.join("d")
    speak(60)
    world.network = NetworkModel()
    assert world.settle(20.0)
    assert world.seen("a") == "abd"
    assert world.wait_for(lambda: len(said(world, "b")) >= len(sent), 10.0)
    assert said(world, "b") == sent
    assert world.told("a", Undelivered) == []
    assert world.check() == []


def test_what_cannot_arrive_comes_back(gathered: Any) -> None:
    """A sender would believe for ever that its message to a dead member was under way."""
    world = gathered("abc")
    early = world.send_to("a", "c", b"taken")
    world.run(0.5)
    world.crash("c")
    numbers = [world.send_to("a", "c", b"lost %d" % number) for number in range(3)]
    world.run(5.0)
    gone = world.id_of("c")
    assert [(event.to, event.number, event.kind) for event in world.told("a", Undelivered)] == [(gone, number, "say") for number in numbers]
    assert early not in numbers
    with pytest.raises(NotAMember) as raised:
        world.send_to("a", "c", b"too late")
    assert raised.value.member == gone
    assert world.settle(5.0)
    assert world.check() == []


def test_between_two_sides_it_comes_back(gathered: Any) -> None:
    """A message to somebody on the other side would be delivered days later, after its sender was told that it never would be."""
    world = gathered("abcd")
    world.partition(["ab", "cd"])
    number = world.send_to("a", "c", b"are you there?")
    world.run(4.0)
    assert [event.number for event in world.told("a", Undelivered)] == [number]
    world.heal()
    assert world.settle(20.0)
    world.send_to("a", "c", b"hello again")
    world.run(1.0)
    assert said(world, "c") == [b"hello again"]
    assert world.check() == []


def test_only_members_can_be_written_to(gathered: Any) -> None:
    """A mistyped id would be a message that nobody ever misses."""
    world = gathered("abc")
    with pytest.raises(NotAMember, match="look at `view`"):
        world.send_to("a", "x#0000000000000001", b"hello")
    with pytest.raises(InvalidOption, match="itself"):
        world.send_to("a", "a", b"hello")
    with pytest.raises(TooLarge):
        world.send_to("a", "b", bytes(world.settings.message_bytes + 1))


def test_it_may_be_larger_than_a_frame(gathered: Any) -> None:
    """A picture sent to one member would be refused by the network."""
    world = gathered("abc", world={"network": LOSSY})
    picture = bytes(range(256)) * 2_000
    world.send_to("a", "b", b"before")
    world.send_to("a", "b", picture)
    world.send_to("a", "b", b"after")
    assert world.wait_for(lambda: len(said(world, "b")) == 3, 30.0)
    assert said(world, "b") == [b"before", picture, b"after"]


def test_a_receiver_that_is_silent_slows_its_sender_down(gathered: Any) -> None:
    """Messages to a member that sleeps would fill the sender's memory."""
    world = gathered("abc")
    world.pause("b")
    accepted = world.settings.private_messages
    for _ in range(accepted):
        world.send_to("a", "b", b"zzz")
    with pytest.raises(WouldBlock):
        world.send_to("a", "b", b"one too many")
    world.send_to("a", "c", b"others are not held up")
    world.run(0.2)
    assert said(world, "c") == [b"others are not held up"]
    before = len(world.told("a", Writable))
    world.resume("b")
    assert world.wait_for(lambda: len(said(world, "b")) == accepted, 20.0)
    assert len(world.told("a", Writable)) > before
    world.send_to("a", "b", b"awake")
    world.run(1.0)
    assert said(world, "b")[-1] == b"awake"
    assert world.settle(5.0)
    assert world.check() == []


def test_one_member_is_asked_and_answers(gathered: Any) -> None:
    """A question would get no answer, somebody else's, or two."""
    world = gathered("abc", world={"network": LOSSY})
    for name in "abc":
        answering(world, name)
    questions = [world.ask("a", b"?%d" % number, "b") for number in range(10)]
    assert world.wait_for(lambda: all(replies(world, "a", question) for question in questions), 20.0)
    for number, question in enumerate(questions):
        assert replies(world, "a", question) == {"b": b"b?%d" % number}
    assert world.told("c", PrivateMessage) == []


def test_all_are_asked_and_answer(gathered: Any) -> None:
    """A vote would miss a voter, count one twice, or count the asker."""
    world = gathered("abcde", world={"network": LOSSY})
    for name in "abcde":
        answering(world, name)
    question = world.ask("c", b"!")
    assert world.wait_for(lambda: len(replies(world, "c", question)) == 4, 20.0)
    assert replies(world, "c", question) == {name: name.encode() + b"!" for name in "abde"}


def test_who_is_asked_and_dies_is_named(gathered: Any) -> None:
    """Who waits for all answers would wait for the dead."""
    world = gathered("abcd")
    answering(world, "b")
    question = world.ask("a", b"?")  # c and d take it and say nothing
    world.run(0.5)
    world.crash("c")
    world.run(5.0)
    assert set(replies(world, "a", question)) == {"b"}
    (lost,) = world.told("a", Undelivered)
    assert (lost.to, lost.kind, lost.question) == (world.id_of("c"), "ask", question)
    world.reply("d", "a", question, b"late")
    world.run(0.5)
    assert set(replies(world, "a", question)) == {"b", "d"}


def test_nothing_is_said_twice_when_the_asker_gives_up(gathered: Any) -> None:
    """An answer that comes after the time-out would be taken for the answer to another question."""
    world = gathered("abc")
    first = world.ask("a", b"slow?", "b")
    world.run(0.5)
    world.node("a").close_question(world.now, world.member("a").group, first)
    second = world.ask("a", b"quick?", "b")
    world.run(0.5)
    world.reply("b", "a", first, b"to the first")
    world.reply("b", "a", second, b"to the second")
    world.run(0.5)
    assert replies(world, "a", first) == {}
    assert replies(world, "a", second) == {"b": b"to the second"}


def test_what_one_who_leaves_said_before_is_heard(gathered: Any) -> None:
    """The last words of a member that leaves in peace would be lost."""
    world = gathered("abc", world={"network": LOSSY})
    world.send_to("a", "b", b"goodbye")
    world.run(1.0)
    world.leave("a")
    world.run(5.0)
    world.network = NetworkModel()
    assert world.settle(20.0)
    assert said(world, "b") == [b"goodbye"]
    events = [type(event) for _, event in world.heard["b"] if type(event) in (PrivateMessage, Installed)]
    assert events[-1] is Installed
    assert world.check() == []
