"""What a node keeps beside its groups is bounded, and what it counts can be read in one place."""

from __future__ import annotations

import random

import pytest

from antiphon.errors import InvalidName, InvalidOption
from antiphon.model import codec
from antiphon.model import control as c
from antiphon.model.events import GuestRefused
from antiphon.model.ids import Address, GroupId, MemberId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import MEMBER_LIMIT
from antiphon.protocol import outsiders
from antiphon.protocol.membership.port import Port
from antiphon.protocol.node import NodeCore

BEN = Address("ben")
QUICK = Settings(seek_max_s=1.0, suspect_s=0.5)


def node(settings: Settings = QUICK) -> NodeCore:
    return NodeCore("ana", Address("ana"), rng=random.Random(1), settings=settings)


def group_id(number: int) -> GroupId:
    return GroupId(f"g{number}#{number:016x}")


def hear_of(core: NodeCore, numbers: range) -> None:
    """A node hears that somebody at BEN is in these open groups."""
    seats = ((MemberId("ben#1"), BEN),)
    for number in numbers:
        info = c.GroupInfo(group_id(number), "", GroupOptions(open=True), 1, seats)
        core.receive(0.0, BEN, codec.encode(c.Groups(MemberId("ben#1"), (info,))))


def test_an_outsider_that_was_refused_is_forgotten_and_the_next_is_somebody_new() -> None:
    """A node that once sent to a group that has gone could never send to it again, and would keep what it has of it for ever."""
    core = node()
    hear_of(core, range(1))
    core.submit_guest(0.0, group_id(0), b"hello")
    [guest] = [codec.decode(wire) for _, wire, _ in core.drain(0.0).sends if codec.kind_of(wire) == "guest"]
    assert isinstance(guest, c.Guest)
    core.receive(0.1, BEN, codec.encode(c.Taken(group_id(0), guest.member, 0, "closed")))
    assert GuestRefused in [type(event) for _, event in core.drain(0.1).events]
    assert core.stats()["outsiders"] == 0
    assert core.submit_guest(0.2, group_id(0), b"again") == 1
    assert core.stats()["outsiders"] == 1
    core.receive(0.3, BEN, codec.encode(c.Taken(group_id(0), MemberId("eve#1"), 1)))
    assert core.stats()["drops"]["taken_of_stranger"] == 1  # type: ignore[index]


def test_outsiders_with_nothing_to_say_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that greets every open group once would be refused after the thousandth."""
    monkeypatch.setattr(outsiders, "OUTSIDERS_LIMIT", 4)
    core = node()
    hear_of(core, range(6))
    for number in range(4):
        core.submit_guest(0.0, group_id(number), b"hello")
    with pytest.raises(InvalidOption, match="at most 4"):
        core.submit_guest(0.0, group_id(4), b"hello")
    member = next(
        frame.member
        for _, wire, group in core.drain(0.0).sends
        if isinstance(frame := codec.decode(wire), c.Guest) and group == group_id(2)
    )
    core.receive(0.1, BEN, codec.encode(c.Taken(group_id(2), member, 1)))
    core.submit_guest(0.1, group_id(4), b"hello")
    assert core.stats()["outsiders"] == 4


def test_a_way_around_that_nobody_uses_is_forgotten() -> None:
    """Every node that ever asked for a detour and went away would be pinged for ever."""
    core = node()
    core.memberships[core.create(0.0, "trip")].port.learn({MemberId("ben#1"): BEN})
    core.receive(0.0, BEN, codec.encode(c.Detour(Address("cem"))))
    assert core.stats()["routes"] == {BEN: "cem"}
    now, pings = 0.0, 0
    while now < 10.0:
        now += 0.25
        core.tick(now)
        pings += sum(codec.kind_of(wire) == "ping" for _, wire, _ in core.drain(now).sends)
    assert core.stats()["routes"] == {}
    assert 2 <= pings <= 6


def test_a_stranger_cannot_ask_for_a_way_around() -> None:
    """Strangers could fill the table, so that members that do not hear each other find no way any more."""
    core = node()
    core.create(0.0, "trip")
    core.receive(0.0, BEN, codec.encode(c.Detour(Address("cem"))))
    assert core.stats()["routes"] == {}
    assert core.stats()["drops"] == {"stranger": 1}


@pytest.mark.parametrize("name", ["", "a#b", "a#0123456789ABCDEF", " a", "a\n", "#0123456789abcdef", "n" * 65])
@pytest.mark.parametrize("create", [None, GroupOptions()])
def test_what_cannot_be_a_groups_name_is_not_looked_for(name: str, create: GroupOptions | None) -> None:
    """A slip of the pen would found a group that nobody else can create or name, or be looked for until the time is over."""
    core = node()
    with pytest.raises(InvalidName):
        core.join(0.0, name, create=create)
    assert core.stats()["searches"] == 0
    assert core.join(0.0, "a#0123456789abcdef", contacts=(BEN,)) == "a#0123456789abcdef"


def test_participants_of_changes_that_came_to_nothing_are_forgotten() -> None:
    """A group whose views are never made, and that strangers ask to join again and again, would remember every one of them."""
    port = Port(MemberId("ana#1"), GroupId("g#1"), GroupOptions(), Settings(), random.Random(1), 0.0)
    for number in range(100):
        port.learn({MemberId(f"n{number}-{each}#1"): Address(f"{number}-{each}") for each in range(500)})
        assert f"n{number}-499#1" in port.address_by_member
    assert len(port.address_by_member) <= 4 * MEMBER_LIMIT


def test_the_numbers_of_a_node_have_one_shape() -> None:
    """A dashboard would have to know which part of the inside counts what."""
    core = node()
    group = core.create(0.0, "trip", GroupOptions(order="total"))
    core.submit_many(0.0, group, [b"one", b"two"])
    core.drain(0.0)
    core.receive(0.1, BEN, b"no frame")
    core.receive(0.1, BEN, codec.encode(c.Groups(MemberId("ben#1"), (), question=9)))
    core.receive(0.1, BEN, codec.encode(c.Acknowledge(group, MemberId("ben#1"), core.memberships[group].agreement.view_id)))
    core.drain(0.1)
    stats = core.stats()
    assert stats["drops"] == {"unasked_groups": 1, "unknown_version": 1}
    assert {key: stats[key] for key in ("relayed", "routes", "known_groups", "searches", "outsiders")} == {
        "relayed": 0,
        "routes": {},
        "known_groups": 1,
        "searches": 0,
        "outsiders": 0,
    }
    [(told, inside)] = stats["groups"].items()  # type: ignore[attr-defined]
    assert told == group
    assert inside["drops"] == {"stranger": 1}
    assert (inside["sent"], inside["history_messages"], inside["members"], inside["reading"]) == (2, 2, 1, True)
    assert {"view", "credit", "lag_by_member", "kept_frames", "history_bytes", "sync_questions", "recovered", "private_under_way"} <= set(
        inside
    )
