"""Frames that are well-formed and wrong: of every kind, with any fields, from members and strangers, at any moment."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from antiphon.errors import AntiphonError
from antiphon.model import codec
from antiphon.model import control as c
from antiphon.model.control import Wants
from antiphon.model.frames import Batch, Digest
from antiphon.model.ids import Address, GroupId, MemberId
from antiphon.model.options import GroupOptions
from antiphon.testing.forger import HARMLESS, KINDS, Forger


class WorldHearsay:
    """What is known of the group of a simulated world, now."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self.group: GroupId = world.member("a").group
        self.addresses: tuple[str, ...] = tuple(world.names)

    @property
    def members(self) -> list[MemberId]:
        return [log.member for log in self._world.logs]

    @property
    def options(self) -> GroupOptions:
        return self._world.options_of()  # type: ignore[no-any-return]

    @property
    def view(self) -> int:
        views = [self._world.view_of(name) for name in "abcd"]
        return max((view.id for view in views if view is not None), default=1 << 32)


def forger_in(world: Any, seed: str) -> Forger:
    return Forger(WorldHearsay(world), random.Random(seed))


def hand_over(world: Any, to: str, source: str, wire: bytes) -> None:
    """Lets a node get bytes as if they came from an address."""
    world._process(to).arrive(Address(source), wire)


def busy(company: Any, order: str, seed: int, **options: Any) -> Any:
    """A group in which something is going on: messages, a newcomer, a departure, a question, state being taken."""
    world = company("abcd", seed, late="exy")
    assert world.gather(options=GroupOptions(order=order, **options))
    for name in "abcd":
        world.on_state(name, lambda: b"state" * 100, lambda state: None)
    for name in "ey":
        world.start(name)
    world.burst("abcd", 3)
    world.run(0.3)
    return world


def stir(world: Any, step: int) -> None:
    """The next thing that honest nodes do."""
    acts: list[Callable[[], Any]] = [
        lambda: world.burst("abcd", 1),
        lambda: world.join("e", wants=Wants("state")),
        lambda: world.send_to("a", "b", b"private"),
        lambda: world.leave("d"),
        lambda: world.ask("a", b"question"),
        lambda: world.partition(["ab", "ce"]),
        world.heal,
        lambda: [world.join(name) for name in "dcba" if not world.is_member(name)],
        lambda: world.advertise("b"),
    ]
    try:
        acts[step % len(acts)]()
    except AntiphonError:
        return  # a refusal with a sentence, not an accident


@pytest.mark.parametrize("order", ["fifo", "causal", "total", "semantic"])
@pytest.mark.parametrize("seed", range(6))
def test_nothing_that_is_received_raises(company: Any, order: str, seed: int) -> None:
    """One member with a bug, or one stranger, would bring down every node of a group."""
    world = busy(company, order, seed, open=True)
    forger = forger_in(world, f"{seed}/{order}/anybody")
    for step in range(60):
        for _ in range(12):
            to, source = forger.rng.choice("abcdey"), forger.rng.choice("abcdexy")
            kind = forger.rng.choice(KINDS)
            wire = forger.wire(kind)
            try:
                hand_over(world, to, source, wire)
            except Exception as error:
                raise AssertionError(f"step {step}: a {kind.__name__} from {source} to {to}") from error
        if step % 3 == 2:
            stir(world, step // 3)
        world.run(forger.rng.choice((0.0, 0.005, 0.05, 0.5)))
    world.run(5.0)


@pytest.mark.parametrize("order", ["fifo", "causal", "total", "semantic"])
@pytest.mark.parametrize("seed", range(6))
def test_a_stranger_breaks_no_promise(company: Any, order: str, seed: int) -> None:
    """Whoever can send a datagram could make members lose, repeat or reorder each other's messages, or throw them out."""
    world = busy(company, order, seed)
    forger = forger_in(world, f"{seed}/{order}/stranger")
    for _ in range(40):
        for _ in range(10):
            kind = forger.rng.choice(HARMLESS)
            hand_over(world, forger.rng.choice("abcd"), "x", forger.wire(kind))
        world.burst("abcd", 1)
        world.run(forger.rng.choice((0.0, 0.005, 0.05, 0.3)))
    assert world.settle(30.0)
    assert {world.seen(name) for name in "abcd"} == {"abcd"}
    assert world.check() == []


@pytest.mark.parametrize("order", ["unordered", "fifo", "causal", "semantic"])
def test_a_stranger_cannot_send_in_a_members_name(company: Any, order: str) -> None:
    """Anybody who can send a datagram could put words into a member's mouth, and the member's own words would be dropped as repetitions."""
    world = busy(company, order, 3)
    view, group = world.view_of("b"), world.member("b").group
    number = world.member("a").sent + 1
    forged = Batch.compose(group, world.id_of("a"), view.id, number, [b"forged"])
    digest = Digest(group, world.id_of("a"), view.id, [number + 5] * len(view.members))
    for name in "bcd":
        hand_over(world, name, "x", codec.encode(forged))
        hand_over(world, name, "x", codec.encode(digest))
    world.run(0.5)
    assert all((world.id_of("a"), number) not in world.stream(name) for name in "bcd")
    real = world.send("a", b"real")
    assert real == (world.id_of("a"), number)
    assert world.settle(10.0)
    assert all(real in world.stream(name) for name in "abcd")
    assert world.check() == []


def test_a_stranger_cannot_make_a_member_doubt_itself(company: Any) -> None:
    """One datagram that says that a member's node has started again would stop the group for ever."""
    world = busy(company, "fifo", 3)
    joining = c.Join(world.member("a").group, MemberId("a#00000000000000ff"), Address("a"), world.options_of())
    for name in "abcd":
        hand_over(world, name, "x", codec.encode(joining))
    world.run(5.0)
    assert world.settle(20.0)
    sent = world.burst("abcd", 1)
    assert len(sent) == 4
    assert world.settle(10.0)
    assert {world.seen(name) for name in "abcd"} == {"abcd"}
    assert world.check() == []


SPOKEN_AS_MEMBER = (c.Leave, c.Suspect, c.Beacon, c.Gone, c.Refuse, c.State, c.Flushed, c.Acknowledge, c.Stable, c.Ended, c.Pong, c.Vouch)


@pytest.mark.parametrize("kind", SPOKEN_AS_MEMBER)
def test_a_stranger_cannot_speak_for_a_member(company: Any, kind: type[Any]) -> None:
    """A member would be put out, declared dead or silenced by somebody who only knows its name."""
    world = busy(company, "fifo", 3)
    forger = forger_in(world, f"speaking as another/{kind.__name__}")
    before = world.view_of("a")
    for _ in range(100):
        hand_over(world, forger.rng.choice("abcd"), "x", codec.encode(forger.frame(kind)))
        world.run(0.01)
    sent = world.burst("abcd", 1)
    assert world.settle(20.0)
    assert {world.seen(name) for name in "abcd"} == {"abcd"}
    assert world.view_of("a").members == before.members
    assert all(set(sent) <= set(world.stream(name)) for name in "abcd")
    assert world.check() == []


@pytest.mark.parametrize("seed", range(4))
def test_even_a_false_coordinator_only_costs_time(company: Any, seed: int) -> None:
    """One false proposal would freeze a group for ever."""
    world = busy(company, "fifo", seed)
    forger = forger_in(world, f"{seed}/false coordinator")
    for _ in range(10):
        hand_over(world, forger.rng.choice("abcd"), "x", codec.encode(forger.frame(c.Propose)))
        world.run(0.2)
    assert world.settle(60.0)
    assert {world.seen(name) for name in "abcd"} == {"abcd"}
    sent = world.burst("abcd", 1)
    assert len(sent) == 4
    assert world.settle(20.0)
    assert all(set(sent) <= set(world.stream(name)) for name in "abcd")
    assert world.check() == []
