"""Frames that are well-formed and wrong: of every kind, with any fields, from members and strangers, at any moment."""

from __future__ import annotations

import random
import typing
from collections.abc import Callable
from typing import Any, get_args, get_origin

import msgspec
import pytest

from antiphon.errors import AntiphonError
from antiphon.model import codec
from antiphon.model import control as c
from antiphon.model.control import Wants
from antiphon.model.frames import SEQNO_LIMIT, Batch, DataFrame, Digest
from antiphon.model.ids import Address, GroupId, MemberId
from antiphon.model.options import GroupOptions

KINDS: tuple[type[Any], ...] = (*get_args(c.Control), *get_args(DataFrame))


class Forger:
    """Makes frames of any kind, with fields that are often those of the real group: its ids, addresses and views, and numbers near those
    that it uses. Everything comes from one generator, so a frame that breaks something can be made again."""

    def __init__(self, world: Any, seed: str) -> None:
        self.rng = random.Random(seed)
        self.world = world
        self.own_group: GroupId = world.member("a").group

    def frame(self, kind: type[Any]) -> Any:
        return self.struct(kind)

    def wire(self, kind: type[Any]) -> bytes:
        """The frame's bytes; sometimes one of them is another."""
        wire = bytearray(codec.encode(self.frame(kind)))
        if self.rng.random() < 0.1:
            wire[self.rng.randrange(len(wire))] = self.rng.randrange(256)
        return bytes(wire)

    def struct(self, kind: type[Any]) -> Any:
        hints = typing.get_type_hints(kind, include_extras=True)
        for _ in range(20):
            values = {field.name: self.value(hints[field.name]) for field in msgspec.structs.fields(kind)}
            try:
                return kind(**values)
            except Exception:
                continue  # options that cannot be: nobody can even write them down
        return kind(**{field.name: values[field.name] for field in msgspec.structs.fields(kind) if field.required})

    def value(self, hint: Any) -> Any:
        rng = self.rng
        if (named := self.named().get(hint)) is not None:
            return named()
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is typing.Annotated:
            limits = next((limit for limit in arguments[1:] if isinstance(limit, msgspec.Meta)), msgspec.Meta())
            if arguments[0] is int:
                low, high = limits.ge or 0, limits.le if limits.le is not None else (limits.lt or SEQNO_LIMIT + 1) - 1
                return min(max(self.number(), low), high)
            value = self.value(arguments[0])
            return value or (b"x",) if limits.min_length else value
        if origin is typing.Literal:
            return rng.choice(arguments)
        if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(self.value(arguments[0]) for _ in range(rng.choice((0, 1, 1, 2, 5))))
        if origin is tuple:
            return tuple(self.value(argument) for argument in arguments)
        if origin is list:
            return [self.value(arguments[0]) for _ in range(rng.choice((0, 1, 2, 4, 8)))]
        if origin is dict:
            return {self.value(arguments[0]): self.value(arguments[1]) for _ in range(rng.choice((0, 1, 2)))}
        if arguments:  # one of several
            return self.value(rng.choice(arguments))
        return self.struct(hint)

    def named(self) -> dict[Any, Callable[[], Any]]:
        rng = self.rng
        return {
            MemberId: self.member,
            GroupId: self.group,
            Address: lambda: Address(rng.choice((*self.world.names, "nowhere", ""))),
            GroupOptions: lambda: rng.choice((self.options(), GroupOptions(), GroupOptions(order="total", open=True))),
            Wants: lambda: Wants(rng.choice(("all", "none", "last", "since", "state", "")), self.number(), rng.choice((0.0, 1e9))),
            int: self.number,
            float: lambda: rng.choice((0.0, -1.0, 5.0, 1e300, float("inf"), float("nan"))),
            bool: lambda: rng.random() < 0.5,
            str: lambda: rng.choice(("", "ballot", "quorum", "options", "full", "unknown", "closed", "gone", "x" * 300)),
            bytes: self.data,
            type(None): lambda: None,
        }

    def member(self) -> MemberId:
        members = [log.member for log in self.world.logs]
        return MemberId(self.rng.choice((*members, *members, "x#0000000000000001", "", "y" * 200)))

    def group(self) -> GroupId:
        return self.rng.choice([self.own_group] * 9 + [GroupId("h#0000000000000002"), GroupId("")])

    def options(self) -> GroupOptions:
        return self.world.options_of()  # type: ignore[no-any-return]

    def number(self) -> int:
        views = [self.world.view_of(name) for name in "abcd"]
        view = max((view.id for view in views if view is not None), default=1 << 32)
        near = (view, view, view, view + 1, view + (1 << 32), view + (1 << 32), view + (2 << 32), view - 1)
        return self.rng.choice((0, 0, 1, 1, 2, 3, 5, 10, 1_000, SEQNO_LIMIT, *near))

    def data(self) -> bytes:
        choice = self.rng.random()
        if choice < 0.2:
            return codec.encode(Batch.compose(self.group(), self.member(), self.number(), max(self.number(), 1), [b"forged"]))
        if choice < 0.3:
            return codec.encode(self.struct(self.rng.choice((c.Install, c.Propose, c.Ping, c.Pong, c.Relay))))
        return self.rng.choice((b"", b"x", b"forged", bytes(100)))


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
    forger = Forger(world, f"{seed}/{order}/anybody")
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


HARMLESS = tuple(kind for kind in KINDS if kind not in (c.Propose, c.Target, c.Install, c.Relay))
"""What a stranger may send without playing a coordinator (which it cannot be kept from as long as nobody has to prove who he is)."""


@pytest.mark.parametrize("order", ["fifo", "causal", "total", "semantic"])
@pytest.mark.parametrize("seed", range(6))
def test_a_stranger_breaks_no_promise(company: Any, order: str, seed: int) -> None:
    """Whoever can send a datagram could make members lose, repeat or reorder each other's messages, or throw them out."""
    world = busy(company, order, seed)
    forger = Forger(world, f"{seed}/{order}/stranger")
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
    forger = Forger(world, f"speaking as another/{kind.__name__}")
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
    forger = Forger(world, f"{seed}/false coordinator")
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
