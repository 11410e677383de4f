"""Answers to messages that nobody in the group knows: refused where they are sent, and orphans everywhere if they come all the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from antiphon.errors import UnknownParent
from antiphon.model.control import Wants
from antiphon.model.ids import MemberId, MessageId
from antiphon.model.options import GroupOptions, Settings
from antiphon.sim.log import Delivered
from antiphon.sim.network import NetworkModel, Uniform
from antiphon.sim.node_world import NodeWorld
from antiphon.testing import pair

STRANGER = MessageId(MemberId("zed#0123456789abcdef"), 1)
"""A message of another group."""
HISTORIES = {"d": Wants("none"), "e": Wants(), "f": Wants("last", count=1), "g": Wants("state"), "h": Wants("since", since=1e9)}
"""What those who join later want of the past."""


def grown(seed: int, multicast: str = "reliable", network: NetworkModel | None = None) -> tuple[NodeWorld, MessageId]:
    """Founders a and b; c, who sent three messages and left; and members that joined since, each with another history. Returns the last
    message of c too."""
    world = NodeWorld(seed, "abc", late=[*HISTORIES], settings=Settings(parent_s=0.5), network=network)
    assert world.gather(options=GroupOptions(order="semantic", multicast=multicast))
    for name in "abc":
        world.on_state(name, lambda: b"state", lambda state: None)
    for _ in range(3):
        last = world.send("c", b"from c")
        world.send("a", b"from a")
        world.run(0.2)
    world.leave("c")
    assert world.wait_for(lambda: len(world.member("a").view.members) == 2, 20.0)  # type: ignore[union-attr]
    for name, wants in HISTORIES.items():
        world.start(name)
        world.on_state(name, lambda: b"state", lambda state: None)
        assert world.wait_for(lambda name=name: bool(world.known(name)), 20.0)  # type: ignore[misc]
        world.join(name, wants=wants)
        assert world.wait_for(lambda name=name: world.is_member(name) and world.converged(), 30.0)  # type: ignore[misc]
    assert world.settle(20.0)
    return world, last


def everyone(world: NodeWorld) -> str:
    return "".join(name for name in "abdefgh" if world.is_member(name))


def lie(world: NodeWorld, name: str) -> None:
    """From now on this member names whatever it is told to, as a faulty or older peer would."""
    world.endpoint(name).ordering.check = lambda seqno, names: None  # type: ignore[method-assign]


def lost_by_member(world: NodeWorld, message: MessageId) -> dict[str, tuple[MessageId, ...] | None]:
    """What each member was told is lost when the message was delivered to it; None where it was not delivered."""
    found: dict[str, tuple[MessageId, ...] | None] = {}
    for name in everyone(world):
        events = [event for event in world.log_of(name).events if isinstance(event, Delivered) and event.id == message]
        found[name] = events[0].lost if len(events) == 1 else None
    return found


Naming = Callable[[NodeWorld, MessageId], MessageId]
UNKNOWN: dict[str, Naming] = {
    "another group": lambda world, last: STRANGER,
    "a number that a departed member never used": lambda world, last: MessageId(last.sender, last.seqno + 1),
    "a number that a member has not used yet": lambda world, last: MessageId(world.id_of("a"), 50),
    "the next number of a member": lambda world, last: MessageId(world.id_of("b"), world.endpoint("b").sent + 1),
    "a number beyond the window of a member": lambda world, last: MessageId(world.id_of("a"), 1_000_000),
}


@pytest.mark.parametrize("multicast", ["reliable", "tree", "besteffort"])
@pytest.mark.parametrize("what", list(UNKNOWN))
def test_an_answer_to_what_nobody_knows_is_refused(what: str, multicast: str) -> None:
    """It would be accepted by who joined late, and the others could only drop it or wait."""
    world, last = grown(1, multicast)
    unknown = UNKNOWN[what](world, last)
    for name in everyone(world):
        sent = world.endpoint(name).sent
        for reply_to, after in ((unknown, ()), (None, (unknown,)), (None, (last, unknown))):
            with pytest.raises(UnknownParent, match=r"answer a message|only earlier messages"):
                world.send(name, b"?", reply_to=reply_to, after=after)
        assert world.endpoint(name).sent == sent


@pytest.mark.parametrize("seed", range(3))
def test_everybody_may_answer_the_past_of_the_group(seed: int) -> None:
    """A member that joined late, and wanted nothing of the past, could not answer a message that its state or its user knows."""
    world, last = grown(seed)
    answers = [world.send(name, b"!", reply_to=last, after=[MessageId(last.sender, 1)]) for name in everyone(world)]
    assert world.settle(20.0)
    for answer in answers:
        assert lost_by_member(world, answer) == dict.fromkeys(everyone(world), ())
    assert world.check() == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("liar", ["a", "d", "e", "g"])
@pytest.mark.parametrize("what", list(UNKNOWN))
def test_what_names_the_unknown_is_an_orphan_at_every_member(what: str, liar: str, seed: int) -> None:
    """Founders would drop it, members that joined later deliver it as if all were well, and others hold it until the next view."""
    network = NetworkModel(latency=Uniform(0.001, 0.05), loss=0.02 * seed)
    world, last = grown(seed, network=network)
    unknown, views = UNKNOWN[what](world, last), {name: world.view_of(name) for name in everyone(world)}
    lie(world, liar)
    orphans = [world.send(liar, b"?", reply_to=unknown), world.send(liar, b"?", after=[last, unknown])]
    child = world.send("f", b"as ever")
    world.run(0.2)
    grandchild = world.send(liar, b"and so", reply_to=orphans[0])
    world.run(6.0)
    members = everyone(world)
    assert {name: world.view_of(name) for name in members} == views
    for orphan in orphans:
        assert lost_by_member(world, orphan) == dict.fromkeys(members, (unknown,))
    assert lost_by_member(world, child) == lost_by_member(world, grandchild) == dict.fromkeys(members, ())
    assert not any(world.endpoint(name).ordering.held for name in members)
    assert world.settle(20.0)
    assert world.check() == []


@pytest.mark.parametrize("seed", range(5))
def test_a_guessed_number_that_is_used_later_holds_nobody_up(seed: int) -> None:
    """Some would hold the message, or drop it, while the others have it."""
    world, _ = grown(seed, network=NetworkModel(latency=Uniform(0.001, 0.05)))
    lie(world, "d")
    guess = MessageId(world.id_of("b"), world.endpoint("b").sent + 1)
    answer = world.send("d", b"?", reply_to=guess)
    world.run(1.5 * seed)
    assert world.send("b", b"as guessed") == guess
    world.run(6.0)
    for message in (answer, guess):
        assert None not in lost_by_member(world, message).values()
    assert world.settle(20.0)
    assert world.check() == []


def test_over_besteffort_it_is_an_orphan_at_every_member_too() -> None:
    """It would be dropped by who was there from the beginning."""
    world, last = grown(2, "besteffort")
    lie(world, "d")
    answers = {what: world.send("d", b"?", reply_to=naming(world, last)) for what, naming in UNKNOWN.items()}
    world.run(3.0)
    for what, answer in answers.items():
        assert lost_by_member(world, answer) == dict.fromkeys(everyone(world), (UNKNOWN[what](world, last),))


def test_an_honest_parent_is_waited_for_however_long_it_takes() -> None:
    """b answers a; c hears nothing of a's question for ten seconds, only that a is alive: the answer would be taken for an orphan."""
    group = pair("semantic", names="abc", settings=Settings(parent_s=0.2))
    question = group.send("a", b"question")
    group.rule("drop data from a to c")
    group.rule("drop data from b to c first 1")
    group.rule("drop nack from c")
    group.exchange()
    answer = group.send("b", b"answer", reply_to=question)
    group.wait(0.01)
    group.send("b", b"more")
    group.wait(10.0)
    assert group.payloads("c") in ([], [b"more"])
    group.rules.clear()
    group.wait(5.0)
    assert set(group.payloads("c")) == {b"question", b"answer", b"more"}
    assert answer in group.delivered("c")
    assert group.check() == []


def test_a_number_that_was_never_sent_is_not_asked_for_for_ever() -> None:
    """Every member would ask every other one for it until the next view."""
    world, _ = grown(4)
    lie(world, "d")
    world.send("d", b"?", reply_to=MessageId(world.id_of("a"), 50))
    world.run(5.0)
    asked = {name: world.endpoint(name).stats()["requests_sent"] for name in everyone(world)}
    world.run(10.0)
    assert {name: world.endpoint(name).stats()["requests_sent"] for name in everyone(world)} == asked
    assert world.settle(1.0)
