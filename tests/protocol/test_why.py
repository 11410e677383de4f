"""`why`, for every order: the one question people ask when a message does not come."""

from __future__ import annotations

import pytest

from antiphon.model.ids import MessageId
from antiphon.model.options import GroupOptions
from antiphon.sim.network import NetworkModel
from antiphon.sim.view_world import ViewWorld


def world(order: str, delivery: str = "agreed") -> ViewWorld:
    return ViewWorld(seed=1, members=("a", "b", "c", "d"), options=GroupOptions(order=order, delivery=delivery), network=NetworkModel())


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ("fifo", "waits for b:1, the next of its sender"),
        ("causal", "waits for b:1, which its sender had delivered or sent before it"),
        ("total", "waits for its place: the sequencer a has not numbered it"),
        ("semantic", "waits for b:1, which it names"),
    ],
)
def test_a_held_message_says_what_it_waits_for(order: str, reason: str) -> None:
    """Nobody could see why a message waits."""
    here = world(order)
    here.cut("b", "c")
    here.cut("a", "c")
    first = here.send("b", b"first")
    here.run(0.005)
    here.heal()
    here.cut("a", "c")
    second = here.send("b", b"second", reply_to=first)
    here.run(0.005)
    why = here.endpoint("c").why(second)
    assert (why.state, why.reason) == ("held", reason)
    assert order == "total" or why.waits_for == (first,)
    # Asked on, the missing one says that it is missing, or that nobody here has heard of it.
    assert here.endpoint("c").why(first).state in {"missing", "unknown", "held"}
    here.heal()
    here.run(10.0)
    assert here.endpoint("c").why(second).state == "delivered"


def test_a_place_behind_a_missing_message() -> None:
    """In total order a message that is here and numbered may wait for one that is not here."""
    here = world("total")
    here.cut("b", "c")
    first = here.send("b", b"first")
    here.run(0.004)
    second = here.send("d", b"second")
    here.run(0.004)
    why = here.endpoint("c").why(second)
    assert (why.state, why.reason, why.waits_for) == ("held", "is number 2 of its view and waits for b:1, number 1", (first,))


def test_a_message_that_is_not_yet_safe() -> None:
    """In a safe group everything waits a little, and that must not look like a fault."""
    here = world("fifo", delivery="safe")
    here.partition([["a"], ["b", "c", "d"]])
    mine = here.send("a", b"mine")
    here.run(1.0)
    assert here.endpoint("a").why(mine).reason == "is here and waits until a majority of the view has it"
    assert here.endpoint("b").why(mine).state == "unknown"
    here.heal()
    here.run(10.0)
    assert here.endpoint("a").why(mine).state == "delivered"


def test_messages_that_do_not_exist() -> None:
    """A typing error would be answered as if the message were on its way."""
    here = world("fifo")
    a = here.endpoint("a")
    assert a.why(MessageId(here.id_of("a"), 1)).state == "unknown"
    assert a.why(MessageId(here.id_of("b"), 1)).state == "unknown"
    mine = a.submit(0.0, b"x")
    assert "open batch" in a.why(mine).reason
