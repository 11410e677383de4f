"""A group's description names what it promises: outsiders and audits go by these names."""

from __future__ import annotations

from itertools import product
from typing import ClassVar

import pytest

from antiphon.errors import InvalidOption
from antiphon.model import codec
from antiphon.model.control import PROMISES_LIMIT, GroupInfo, Groups
from antiphon.model.ids import Address, GroupId, MemberId
from antiphon.model.options import GroupOptions
from antiphon.protocol.discovery.hints import merge
from antiphon.protocol.ordering.unordered import Unordered
from antiphon.protocol.registry import COMMON_PROMISES, MULTICASTS, ORDERS, promises_of, stages
from antiphon.sim.node_world import NodeWorld
from antiphon.sim.oracles import promised

A = MemberId("a#1")


@pytest.mark.parametrize(("order", "multicast", "delivery"), [*product(ORDERS, MULTICASTS, ("agreed", "safe"))])
def test_stages_declare_what_the_oracles_judge(order: str, multicast: str, delivery: str) -> None:
    """A promise that is judged in the simulator would not be judged in traces, or the reverse."""
    names = promises_of(GroupOptions(order=order, multicast=multicast, delivery=delivery))
    extra = {"views"} | ({"nothing_lost"} if multicast != "besteffort" else set()) | ({"safe"} if delivery == "safe" else set())
    assert {*names} == promised(order, multicast) | extra
    assert len(names) == len({*names})
    assert names[: len(COMMON_PROMISES)] == COMMON_PROMISES


class Silent(Unordered):
    """An order whose author declares nothing."""

    promises: ClassVar[tuple[str, ...] | None] = None


class Talkative(Unordered):
    promises = tuple(f"promise{number}" for number in range(PROMISES_LIMIT))


def test_an_order_that_declares_nothing_is_named_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its groups would look as if they promised nothing of their own, and an audit as if it had judged everything."""
    monkeypatch.setitem(ORDERS, "silent", Silent)
    assert promises_of(GroupOptions(order="silent"))[-1] == "silent"
    assert promises_of(GroupOptions(order="unheard_of"))[-1] == "unheard_of"


def test_more_promises_than_a_frame_may_carry_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others could not read what the group's members tell about it."""
    monkeypatch.setitem(ORDERS, "talkative", Talkative)
    with pytest.raises(InvalidOption, match="shorten the promises of Talkative: at most 64"):
        stages(GroupOptions(order="talkative"))


def test_the_description_of_a_group_carries_its_promises() -> None:
    """Who looks for a group would not know what it is told."""
    world = NodeWorld(1, ("a", "b"))
    group = world.create("a", "trip", GroupOptions(order="causal"))
    world.run(2.0)
    expected = promises_of(GroupOptions(order="causal"))
    assert world.member("a", "trip").info().promises == expected
    assert [info.promises for info in world.known("b") if info.id == group] == [expected]


def test_a_frame_of_an_older_node_names_no_promises() -> None:
    """Nodes of two versions could not find each other's groups."""
    info = GroupInfo(GroupId("g#1"), "", GroupOptions(), 1, ((A, Address("a")),), (), ("fifo",))
    wire = codec.encode(Groups(A, (info,)))
    assert codec.decode(wire).groups == (info,)
    older = GroupInfo(GroupId("g#1"), "", GroupOptions(), 2, ((A, Address("a")),))
    assert merge(info, older).promises == ("fifo",)
    assert merge(older, info).promises == ("fifo",)
