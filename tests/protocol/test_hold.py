"""Catching up: what is received meanwhile waits below the ordering, and nothing of it is lost, doubled or out of place."""

from __future__ import annotations

import random

import pytest

from antiphon.errors import WouldBlock
from antiphon.model import codec
from antiphon.model.events import Installed, Writable
from antiphon.model.frames import Batch, Digest
from antiphon.model.ids import GroupId, MemberId, MessageId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint
from antiphon.protocol.registry import ORDERS
from antiphon.testing import Pair, pair

ANA, BOB = (MemberId(name) for name in ("ana#1", "bob#2"))
GROUP = GroupId("g#0")
VIEW = View(1, (ANA, BOB))
EVERY_ORDER = sorted(ORDERS)[:5]


def member(me: MemberId = ANA, settings: Settings | None = None, **options: object) -> Endpoint:
    return Endpoint(me, GROUP, VIEW, GroupOptions(**options), rng=random.Random(0), settings=settings)  # type: ignore[arg-type]


def talk(group: Pair, turns: int) -> None:
    for turn in range(turns):
        for name in group.endpoint:
            group.send(name, f"{name}{turn}".encode())
        group.wait(0.05)


@pytest.mark.parametrize("delivery", ["agreed", "safe"])
@pytest.mark.parametrize("multicast", ["reliable", "flood", "tree"])
@pytest.mark.parametrize("order", EVERY_ORDER)
def test_what_was_held_is_delivered_as_if_it_came_now(order: str, multicast: str, delivery: str) -> None:
    """A member that catches up would lose what was sent meanwhile, or break its order."""
    group = pair(order, multicast, delivery=delivery, names=("a", "b", "c"))
    talk(group, 2)
    group.wait(1.0)
    ben = group.endpoint["b"]
    before = len(group.delivered("b"))
    ben.hold(group.now)
    ben.hold(group.now)
    talk(group, 5)
    group.wait(1.0)
    assert ben.holding
    assert len(group.delivered("b")) == before
    # The others do not wait for who catches up; what that one says meanwhile leaves afterwards.
    assert len(group.delivered("a")) == len(group.delivered("c")) == before + 10
    ben.release(group.now)
    group.wait(2.0)
    assert not ben.holding
    assert {len(group.delivered(name)) for name in "abc"} == {21}
    assert group.check() == []


def test_a_sequencer_that_catches_up_numbers_everything_afterwards() -> None:
    """The group's one order would have a hole where its sequencer was busy."""
    group = pair("total", names=("a", "b", "c"))
    group.endpoint["a"].hold(group.now)
    talk(group, 3)
    group.wait(1.0)
    assert group.delivered("c") == []
    assert group.endpoint["a"].why(MessageId(group.id_of["a"], 1)).state == "held"
    group.endpoint["a"].release(group.now)
    group.wait(1.0)
    assert group.delivered("a") == group.delivered("b") == group.delivered("c")
    assert len(group.delivered("c")) == 9


def test_what_waits_is_bounded_and_comes_later() -> None:
    """A long synchronisation in a busy group would fill the memory."""
    group = pair("fifo", settings=Settings(waiting_messages=10), options=GroupOptions(order="fifo", window=64))
    ben = group.endpoint["b"]
    ben.hold(group.now)
    for _ in range(40):
        group.send("a", b"x")
        group.exchange()
    assert ben.multicast.held is not None
    assert ben.multicast.held.messages == 10
    assert ben.context.drops["no_room"] >= 30
    assert ben.credit == 0
    with pytest.raises(WouldBlock, match="caught up"):
        group.send("b", b"own")
    ben.release(group.now)
    group.wait(5.0)
    assert len(group.payloads("b")) == 40
    assert Writable() in group.events["b"]
    assert group.check() == []


def test_large_messages_wait_too() -> None:
    """The parts of a picture would find no room and be taken for lost."""
    group = pair("fifo", settings=Settings(waiting_messages=2, frame_bytes=400, message_bytes=10_000))
    group.endpoint["b"].hold(group.now)
    for number in range(5):
        group.send("a", bytes([65 + number]) * 2_000)
        group.exchange()
    group.wait(1.0)
    assert group.payloads("b") == []
    group.endpoint["b"].release(group.now)
    group.wait(5.0)
    assert group.payloads("b") == [bytes([65 + number]) * 2_000 for number in range(5)]


def test_why_a_message_waits_is_told() -> None:
    """An operator would see a member that receives everything and delivers nothing, and no reason."""
    group = pair("fifo")
    group.endpoint["b"].hold(group.now)
    sent = group.send("a", b"x")
    group.exchange()
    why = group.endpoint["b"].why(sent)
    assert (why.state, "caught up" in why.reason) == ("held", True)


def test_the_gate_comes_before_the_hold() -> None:
    """What is not yet safe would be delivered at the end of the hold."""
    ana = member(delivery="safe")
    ana.hold(0.0)
    for number in (1, 2):
        ana.receive(0.0, BOB, codec.encode(Batch(GROUP, BOB, 1, number, (b"x",))))
    ana.submit(0.0, b"own")
    ana.drain(0.0)
    ana.release(0.0)
    assert [event[0].sender for event in ana.drain(0.0).events if type(event) is tuple] == [BOB, BOB]
    ana.receive(0.0, BOB, codec.encode(Digest(GROUP, BOB, 1, [1, 2])))
    assert [event[0].sender for event in ana.drain(0.0).events if type(event) is tuple] == [ANA]


@pytest.mark.parametrize("delivery", ["agreed", "safe"])
@pytest.mark.parametrize("order", EVERY_ORDER)
def test_a_view_that_ends_during_a_hold_is_delivered_first(order: str, delivery: str) -> None:
    """Messages of the old view would be delivered in the new one, or never."""
    group = pair(order, delivery=delivery, names=("a", "b", "c"))
    group.endpoint["b"].hold(group.now)
    talk(group, 3)
    group.wait(0.5)
    assert group.flush("a", "b", "c")
    assert group.delivered("b") == []
    group.install("a", "b", "c", starts={name: group.endpoint[name].cast for name in "abc"})
    ben = group.endpoint["b"]
    assert sorted(group.delivered("b")) == sorted(group.delivered("a"))
    assert isinstance(group.events["b"][-1], Installed)
    assert ben.holding
    talk(group, 1)
    assert len(group.delivered("b")) == 6
    ben.release(group.now)
    group.wait(2.0)
    assert {len(group.delivered(name)) for name in "abc"} == {12}
    assert group.check() == []


def test_a_full_hold_takes_what_a_flush_needs() -> None:
    """A member that catches up could not come along into the next view: it would be put out, or hold the change up."""
    group = pair("fifo", names=("a", "b", "c"), settings=Settings(waiting_messages=3), options=GroupOptions(order="fifo", window=64))
    group.endpoint["c"].hold(group.now)
    for _ in range(20):
        group.send("a", b"x")
        group.exchange()
    group.rule("drop frames from a")
    assert group.flush("b", "c")
    group.install("b", "c", starts={"b": 0, "c": 0})
    assert group.payloads("b") == group.payloads("c") == [b"x"] * 20


def test_a_release_while_the_view_ends_delivers_what_was_here() -> None:
    """It would be kept until the next view, or taken for something outside what was agreed on."""
    ana = member()
    ana.hold(0.0)
    ana.receive(0.0, BOB, codec.encode(Batch(GROUP, BOB, 1, 1, (b"x",))))
    ana.freeze(0.0)
    ana.release(0.0)
    ana.receive(0.0, BOB, codec.encode(Batch(GROUP, BOB, 1, 2, (b"y",))))
    assert [event[1] for event in ana.drain(0.0).events if type(event) is tuple] == [1]
    assert ana.context.drops["flushing"] == 1
    assert ana.why(MessageId(BOB, 1)).state == "delivered"


def test_what_was_accepted_during_a_hold_leaves_with_the_next_view_at_the_latest() -> None:
    """It would leave in a view whose end is agreed on, and be delivered by some, or never leave at all."""
    ana = member()
    ana.hold(0.0)
    ids = [ana.submit(0.0, payload) for payload in (b"one", b"two")]
    ana.freeze(0.0)
    ana.release(0.0)
    assert [codec.kind_of(wire) for _, wire in ana.drain(0.0).sends] == []
    assert ana.holdings() == [[0], [0]]
    ana.install(0.0, View(2, (ANA, BOB)), {ANA: 0, BOB: 0})
    frames = [codec.decode(wire) for _, wire in ana.drain(0.0).sends]
    assert [(frame.view, frame.first, frame.payloads) for frame in frames if isinstance(frame, Batch)] == [(2, 1, (b"one", b"two"))]
    assert ids == [MessageId(ANA, 1), MessageId(ANA, 2)]
    assert ana.submit(0.0, b"three").seqno == 3


def test_an_open_batch_keeps_its_numbers_when_a_hold_begins() -> None:
    """What is accepted in the same turn, before and after, would change places: two messages under the number of the other."""
    group = pair("fifo")
    group.send("a", b"one")
    group.endpoint["a"].hold(group.now)
    group.send("a", b"two")
    group.exchange()
    group.endpoint["a"].release(group.now)
    group.send("a", b"three")
    group.endpoint["a"].hold(group.now)
    group.send("a", b"four")
    group.exchange()
    group.endpoint["a"].release(group.now)
    group.wait(1.0)
    assert group.payloads("b") == group.payloads("a") == [b"one", b"two", b"three", b"four"]
    assert group.check() == []


def test_besteffort_can_be_held() -> None:
    """A group without repair would deliver what it received during a merge before the merge."""
    group = pair("unordered", "besteffort")
    group.endpoint["b"].hold(group.now)
    group.send("a", b"x")
    group.exchange()
    assert group.payloads("b") == []
    group.endpoint["b"].release(group.now)
    group.exchange()
    assert group.payloads("b") == [b"x"]
