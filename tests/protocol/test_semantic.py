"""Semantic order at scale and at its bounds. The rule itself is in the playbooks; how long it takes, in `antiphon bench semantic`."""

from __future__ import annotations

import random
import sys

import pytest

from antiphon.bench.semantic import LARGE, backwards, listener
from antiphon.model import codec
from antiphon.model.events import Orphaned
from antiphon.model.frames import Batch
from antiphon.model.ids import GroupId, MemberId, MessageId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint
from antiphon.protocol.ordering.semantic import Semantic

ANA, BOB, CLEO = (MemberId(name) for name in ("ana#1", "bob#2", "cleo#3"))
GROUP = GroupId("g#0")


def wire(sender: MemberId, first: int, parents: list[MessageId | None], after: dict[int, list[MessageId]] | None = None) -> bytes:
    return codec.encode(Batch.compose(GROUP, sender, 1, first, [b"x"] * len(parents), parents, None, 0.0, after))


def member(settings: Settings | None = None, multicast: str = "reliable", window: int = 8_192) -> Endpoint:
    options = GroupOptions(order="semantic", multicast=multicast, window=window)
    return Endpoint(ANA, GROUP, View(1, (ANA, BOB, CLEO)), options, rng=random.Random(0), settings=settings)


@pytest.mark.parametrize("shape", ["chain", "star"])
def test_a_hundred_thousand_replies_before_their_question(shape: str) -> None:
    """A long thread that arrives backwards would overflow the stack, or take for ever."""
    endpoint = listener(LARGE)
    limit = sys.getrecursionlimit()
    wires = backwards(shape, LARGE)
    for frame in wires[:-1]:
        endpoint.receive(0.0, None, frame)
    assert endpoint.ordering.held == LARGE - 1
    assert endpoint.drain(0.0).events == []
    sys.setrecursionlimit(200)
    try:
        endpoint.receive(0.0, None, wires[-1])
    finally:
        sys.setrecursionlimit(limit)
    events = endpoint.drain(0.0).events
    assert endpoint.ordering.held == 0
    numbers = [event[1] for event in events if type(event) is tuple]
    assert numbers[0] == 1
    # A chain has one order only; a star is released as it arrived.
    assert numbers[1:] == (list(range(2, LARGE + 1)) if shape == "chain" else list(range(LARGE, 1, -1)))


def test_the_ordering_list_is_as_long_as_the_list_of_senders() -> None:
    """Memory would grow with history even when nothing is ever out of order."""
    ana = member(window=20_000)
    for number in range(1, 5_001):
        for sender, other in ((BOB, CLEO), (CLEO, BOB)):
            parent = MessageId(other, number - 1) if number > 1 and number % 3 == 0 else None
            ana.receive(0.0, None, wire(sender, number, [parent]))
        ana.drain(0.0)
    ranges = ana.ordering.state()["delivered_by_sender"]
    assert ranges == {ANA: [], BOB: [(1, 5_000)], CLEO: [(1, 5_000)]}
    assert isinstance(ana.ordering, Semantic)
    assert not any(sender.accepted or sender.waiting or sender.children for sender in ana.ordering._senders.values())


def test_a_message_after_several_waits_for_the_last_of_them() -> None:
    """It would be shown before one of the messages it sums up."""
    ana = member()
    ana.receive(0.0, None, wire(BOB, 1, [None], {1: [MessageId(CLEO, 1), MessageId(CLEO, 3)]}))
    assert ana.why(MessageId(BOB, 1)).waits_for == (MessageId(CLEO, 1), MessageId(CLEO, 3))
    ana.receive(0.0, None, wire(CLEO, 1, [None]))
    assert ana.why(MessageId(BOB, 1)).waits_for == (MessageId(CLEO, 3),)
    assert [event[0].sender for event in ana.drain(0.0).events] == [CLEO]  # type: ignore[index]
    ana.receive(0.0, None, wire(CLEO, 3, [None]))
    assert [(event[0].sender, event[1]) for event in ana.drain(0.0).events] == [(CLEO, 3), (BOB, 1)]  # type: ignore[index]
    assert ana.why(MessageId(BOB, 1)).state == "delivered"


def test_a_full_store_slows_the_sender_and_asks_for_the_parents() -> None:
    """Replies to a lost question would fill the memory; or the question, when it comes, would find no room either."""
    ana = member(Settings(waiting_messages=10))
    question = MessageId(CLEO, 5)
    for number in range(1, 31):
        ana.receive(0.0, None, wire(BOB, number, [question]))
    assert ana.ordering.held == 10
    assert ana.stats()["drops"] == {"no_room": 20}
    # Bob sees that his messages are not taken: his credit does not come back.
    assert ana.multicast.positions()[BOB] == 10
    # The question is asked for at once, not after the time-out.
    ana.tick(0.1)
    assert "nack" in [codec.kind_of(sent) for _, sent in ana.drain(0.1).sends]
    # It comes together with one that would itself have to wait: it is taken all the same.
    ana.receive(0.2, None, wire(CLEO, 1, [None] * 4))
    ana.receive(0.2, None, wire(CLEO, 5, [None, MessageId(BOB, 30)]))
    assert ana.ordering.held == 1
    for number in range(11, 31):
        ana.receive(0.3, None, wire(BOB, number, [question]))
    assert ana.ordering.held == 0
    assert sum(event[2] - event[1] + 1 for event in ana.drain(0.3).events if type(event) is tuple) == 36


@pytest.mark.parametrize(
    ("parents", "after"),
    [
        ([MessageId(BOB, 1)], None),
        ([MessageId(BOB, 7)], None),
        ([MessageId(MemberId("nobody#9"), 1)], None),
        ([None], {1: [MessageId(CLEO, 1), MessageId(MemberId("nobody#9"), 1)]}),
        ([None], {1: [MessageId(CLEO, 1), MessageId(BOB, 1)]}),
    ],
    ids=["itself", "its own future", "a stranger's", "also a stranger's", "also itself"],
)
def test_a_parent_that_cannot_exist_is_not_waited_for(parents: list[MessageId | None], after: dict[int, list[MessageId]] | None) -> None:
    """The message, and all that answer it, would wait for ever; or be dropped here and delivered by members that joined later."""
    ana = member()
    ana.receive(0.0, None, wire(CLEO, 1, [None]))
    ana.drain(0.0)
    ana.receive(0.0, None, wire(BOB, 1, parents, after))
    assert ana.ordering.held == 0
    (orphan,) = ana.drain(0.0).events
    assert isinstance(orphan, Orphaned)
    assert (orphan.seqno, orphan.missing) == (1, (parents[0] if after is None else after[1][-1],))
    ana.receive(0.0, None, wire(BOB, 2, [MessageId(BOB, 1)]))
    assert ana.ordering.held == 0
    assert [event[1:] for event in ana.drain(0.0).events] == [(2, 2)]  # type: ignore[index]
    assert not ana.stats()["drops"]


def test_a_missing_parent_is_asked_for_after_a_while() -> None:
    """Its sender may be dead and its number unheard of: nobody else would ever ask."""
    ana = member(Settings(parent_s=0.5))
    ana.receive(0.0, None, wire(BOB, 1, [MessageId(CLEO, 3)]))
    asked = []
    for step in range(1, 40):
        ana.tick(step * 0.1)
        asked += [codec.decode(sent) for _, sent in ana.drain(step * 0.1).sends if codec.kind_of(sent) == "nack"]
    assert asked[0].wants[0][:3] == (2, 1, 3)  # type: ignore[union-attr]
    assert "exists" in ana.why(MessageId(CLEO, 3)).reason


def test_over_besteffort_a_lost_parent_is_given_up_and_said_so() -> None:
    """The answer would never be seen, or be seen as if it answered nothing."""
    ana = member(Settings(parent_s=0.5), multicast="besteffort")
    ana.receive(0.0, None, wire(BOB, 1, [MessageId(CLEO, 3), MessageId(BOB, 1)]))
    events: list[object] = []
    for step in range(1, 20):
        ana.tick(step * 0.1)
        events += ana.drain(step * 0.1).events
    orphan, child = events
    assert isinstance(orphan, Orphaned)
    assert (orphan.seqno, orphan.missing) == (1, (MessageId(CLEO, 3),))
    assert child[1:] == (2, 2)  # type: ignore[index]
    assert ana.ordering.held == 0


def test_a_departed_sender_releases_what_waits_for_it() -> None:
    """An answer to a question that died with its sender would wait for ever."""
    ana = member()
    ana.receive(0.0, None, wire(BOB, 1, [MessageId(CLEO, 3), None, MessageId(BOB, 1)]))
    assert ana.ordering.held == 2
    ana.install(1.0, View(2, (ANA, BOB)))
    kinds = [event if isinstance(event, tuple) else type(event).__name__ for event in ana.drain(1.0).events]
    assert [kind if isinstance(kind, str) else kind[1:] for kind in kinds] == [(2, 2), "Orphaned", (3, 3), "Installed"]


def test_messages_that_name_each_other_do_not_stay_for_ever() -> None:
    """Two members that lie together could fill the store with circles that no message and no view would ever open."""
    ana = member()
    ana.receive(0.0, None, wire(BOB, 1, [MessageId(CLEO, 1)]))
    ana.receive(0.0, None, wire(CLEO, 1, [MessageId(BOB, 1)]))
    assert ana.ordering.held == 2
    ana.install(1.0, View(2, (ANA, BOB)))
    assert ana.ordering.held == 0
    orphan, follower, _ = ana.drain(1.0).events
    assert isinstance(orphan, Orphaned)
    assert (orphan.batch.sender, orphan.missing) == (BOB, (MessageId(CLEO, 1),))
    assert follower[0].sender == CLEO  # type: ignore[index]


def test_what_came_by_synchronisation_and_is_sent_again_waits_for_nothing() -> None:
    """Answers to a message that everybody has would wait with the second copy of it, for a parent that does not exist."""
    ana = member()
    never = MessageId(CLEO, 10_000)
    ana.know(BOB, 2, 3)
    ana.receive(0.0, None, wire(BOB, 1, [None, never, None, never, None]))
    assert [event[1:] for event in ana.drain(0.0).events] == [(1, 1), (5, 5)]
    ana.receive(0.0, None, wire(CLEO, 1, [MessageId(BOB, 2), MessageId(BOB, 4)]))
    assert [event[1:] for event in ana.drain(0.0).events] == [(1, 1)]
    assert ana.ordering.held == 2
