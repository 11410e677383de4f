"""Groups with a key of their own: what is of them counts in their realm alone, and nothing else does there. The test is the network."""

from __future__ import annotations

import random

import pytest

from antiphon.model import codec
from antiphon.model import control as c
from antiphon.model.frames import Batch
from antiphon.model.ids import Address, GroupId, MemberId
from antiphon.model.options import GroupOptions
from antiphon.protocol.node import NodeCore

NAMES = ("ana", "bob", "cleo")
REALM = "vault"


class Net:
    """Carries everything at once; remembers in which realm each frame was sent."""

    def __init__(self, guarded: bool = True) -> None:
        self.now = 0.0
        self.cores = {Address(name): NodeCore(name, Address(name), rng=random.Random(name)) for name in NAMES}
        self.sent: list[tuple[Address, codec.Frame, GroupId | None]] = []
        self.cut: set[tuple[str, str]] = set()
        for core in self.cores.values():
            if guarded:
                core.realm_by_name["safe"] = REALM
            core.start(0.0)

    def realm(self, group: GroupId | None) -> str:
        return self.cores[Address("ana")].realm_by_name.get((group or "").partition("#")[0], "")

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now += 0.01
            for address, core in self.cores.items():
                core.tick(self.now)
                for to, wire, group in core.drain(self.now).sends:
                    self.sent.append((address, codec.decode(wire), group))
                    for other in self.cores if to is None else to:
                        if other != address and (address, other) not in self.cut:
                            self.cores[other].receive(self.now, address, wire, self.realm(group))

    def gather(self, name: str) -> GroupId:
        first, *others = self.cores.values()
        group = first.create(self.now, name, GroupOptions())
        self.run(0.5)
        for core in others:
            core.join(self.now, group)
        self.run(3.0)
        assert all(len(core.memberships[group].view.members) == 3 for core in self.cores.values())  # type: ignore[union-attr]
        return group

    def delivered(self, name: str, group: GroupId) -> list[bytes]:
        return [batch.payload(number) for batch, low, high in self.history(name, group) for number in range(low, high + 1)]

    def history(self, name: str, group: GroupId) -> list[tuple[Batch, int, int]]:
        return self.cores[Address(name)].memberships[group].history()


def test_every_frame_of_a_group_is_sent_as_the_groups() -> None:
    """The driver would seal a secret group's frames with a key that others have as well; or shout a node's advertisement into a group."""
    net = Net()
    group = net.gather("safe")
    net.cores[Address("bob")].submit(net.now, group, b"secret")
    net.run(0.5)
    assert net.delivered("cleo", group) == [b"secret"]
    for _, frame, told in net.sent:
        about = frame.wire if type(frame) is c.Relay else None
        assert told == (getattr(codec.decode(about) if about else frame, "group", None) or None)
    assert {type(frame) for _, frame, told in net.sent if told is None} <= {c.Advertise, c.Groups, c.AskGroups, c.Detour, c.Ping, c.Pong}
    assert not any(core.drops["wrong_realm"] for core in net.cores.values())


@pytest.mark.parametrize("realm", ["", "other"])
def test_who_has_not_the_key_of_the_group_can_say_nothing_in_it(realm: str) -> None:
    """A node that may be in the network but not in the group could speak in it, or put its members out."""
    net = Net()
    group = net.gather("safe")
    victim, member = net.cores[Address("cleo")], net.cores[Address("bob")].memberships[group]
    view = member.view
    assert view is not None
    forged: list[codec.Frame] = [
        Batch(group, member.me, view.id, 1, (b"forged",)),
        c.Join(group, MemberId("eve#1"), Address("eve"), member.port.options),
        c.Leave(group, member.me),
        c.Ended(group, view.id + 1),
        c.Ping(1, group, member.me, view.id),
        c.Guest(group, MemberId("eve#1"), 1, (b"forged",)),
    ]
    for frame in forged:
        victim.receive(net.now, Address("bob"), codec.encode(frame), realm)
    assert victim.drops["wrong_realm"] == len(forged)
    net.run(1.0)
    assert net.delivered("cleo", group) == []
    assert all(len(core.memberships[group].view.members) == 3 for core in net.cores.values())  # type: ignore[union-attr]


def test_who_has_the_key_of_one_group_cannot_speak_in_another_nor_for_the_node() -> None:
    """A member of one group could forge messages of every other, or send the node's frames astray."""
    net = Net()
    group = net.gather("open")
    victim, member = net.cores[Address("cleo")], net.cores[Address("bob")].memberships[group]
    assert member.view is not None
    forged: list[codec.Frame] = [
        Batch(group, member.me, member.view.id, 1, (b"forged",)),
        c.Detour(Address("eve")),
        c.Advertise(MemberId("eve#1")),
    ]
    for frame in forged:
        victim.receive(net.now, Address("bob"), codec.encode(frame), REALM)
    assert victim.drops["wrong_realm"] == len(forged)
    assert not victim.routes.through


@pytest.mark.parametrize("to", ["cleo", "ana"])
def test_what_a_relay_carries_is_looked_at_too(to: str) -> None:
    """Wrapped into a frame that is passed on, a forged one would get in where it is not let in bare; or through one node to the next."""
    net = Net()
    group = net.gather("safe")
    victim, member = net.cores[Address("cleo")], net.cores[Address("bob")].memberships[group]
    assert member.view is not None
    wire = codec.encode(Batch(group, member.me, member.view.id, 1, (b"forged",)))
    relay = codec.encode(c.Relay(Address("bob"), Address(to), 4, wire))
    victim.receive(net.now, Address("bob"), relay, "")
    assert victim.drops["wrong_realm"] == 1
    assert victim.routes.relayed == 0
    victim.receive(net.now, Address("bob"), relay, REALM)
    assert victim.drops["wrong_realm"] == 1
    assert (victim.routes.relayed, len(victim.drain(net.now).events)) == ((1, 0) if to == "ana" else (0, 1))


def test_a_guarded_group_finds_its_way_around_a_broken_link() -> None:
    """A relayed frame would be sealed for the wrong realm, and a group with a key would fall apart where one without holds."""
    net = Net()
    group = net.gather("safe")
    net.cut |= {("bob", "cleo"), ("cleo", "bob")}
    net.run(8.0)
    net.cores[Address("bob")].submit(net.now, group, b"around")
    net.run(2.0)
    assert net.delivered("cleo", group) == [b"around"]
    assert all(len(core.memberships[group].view.members) == 3 for core in net.cores.values())  # type: ignore[union-attr]
    assert net.cores[Address("ana")].stats()["relayed"]
    assert not any(core.drops["wrong_realm"] for core in net.cores.values())
