"""From one view to another: where streams begin, what is sent again, and whose clock is ahead."""

from __future__ import annotations

import random

import pytest

from antiphon.errors import BadFrame, InvalidOption
from antiphon.model import codec, control
from antiphon.model.events import Installed, Orphaned
from antiphon.model.frames import Batch, Digest
from antiphon.model.ids import GroupId, MemberId, MessageId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint
from antiphon.protocol.registry import ORDERS
from antiphon.testing import batch, delivers, got, holds, nothing, orphans, pair, play, view

ANA, BOB, CLEO = (MemberId(name) for name in ("ana#1", "bob#2", "cleo#3"))
GROUP = GroupId("g#0")
VIEW = View(1, (ANA, BOB, CLEO))
EVERY_ORDER = sorted(ORDERS)[:5]


def member(me: MemberId = ANA, settings: Settings | None = None, **options: object) -> Endpoint:
    return Endpoint(me, GROUP, VIEW, GroupOptions(**options), rng=random.Random(0), settings=settings)  # type: ignore[arg-type]


def batches(endpoint: Endpoint, now: float = 0.0) -> list[Batch]:
    frames = [codec.decode(sent) for _, sent in endpoint.drain(now).sends]
    return [frame for frame in frames if isinstance(frame, Batch)]


# -- starts ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delivery", ["agreed", "safe"])
@pytest.mark.parametrize("multicast", ["reliable", "flood", "tree"])
@pytest.mark.parametrize("order", EVERY_ORDER)
def test_sides_that_heard_nothing_of_each_other_go_on_together(order: str, multicast: str, delivery: str) -> None:
    """After a merge somebody would wait for numbers that were sent on the other side and never come this way."""
    group = pair(order, multicast, delivery=delivery, names=("a", "b", "c", "d"))
    group.send("a", b"together")
    group.wait(1.0)
    for side in ("ab", "cd"):
        assert group.flush(*side)
        group.install(*side, starts={name: group.endpoint[name].sent for name in side})
    for number, name in enumerate("abcd"):
        for _ in range(number + 1):
            group.send(name, b"apart")
            group.wait(0.1)
    group.wait(1.0)
    for side in ("ab", "cd"):
        assert group.flush(*side)
    group.install("c", "a", "d", "b", starts={"a": 2, "b": 2, "c": 3, "d": 4})
    for name in "abcd":
        assert isinstance(group.events[name][-1], Installed)
        group.send(name, f"again {name}".encode())
    group.wait(3.0)
    for name in "abcd":
        assert sorted(group.payloads(name)[-4:]) == [b"again a", b"again b", b"again c", b"again d"]
        assert len(group.payloads(name)) == 1 + (3 if name in "ab" else 7) + 4
    if order == "total":
        assert len({tuple(group.payloads(name)[-4:]) for name in "abcd"}) == 1


@pytest.mark.parametrize("order", EVERY_ORDER)
def test_a_stream_begins_where_the_view_says(order: str) -> None:
    """What came here before would count, though it is the other side's, or come twice."""
    book = play(order, members="ABC") >> got(batch("B", 1)) >> view("A", "B", "C", cut={"A": 0, "B": 5, "C": 2})
    three, six = batch("C", 3, view=2), batch("B", 6, view=2)
    if order == "total":
        book.ordering.flush()
        assert (book >> got(six) >> got(three)).ordering.own_delivered() == 0
    else:
        assert book >> got(six) << delivers("B6") >> got(three) << delivers("C3")


def test_the_application_is_told_the_sides() -> None:
    """A user interface could not say who has come back."""
    ana = member()
    sides = ((ANA,), (BOB, CLEO))
    ana.install(1.0, View(2, VIEW.members), {ANA: 0, BOB: 3, CLEO: 9}, sides)
    assert Installed(View(2, VIEW.members), VIEW, sides) in ana.drain(1.0).events


@pytest.mark.parametrize("order", EVERY_ORDER)
def test_a_view_that_would_reuse_own_numbers_is_refused(order: str) -> None:
    """Two different messages would have one identity."""
    ana = member(order=order)
    ana.submit(0.0, b"one")
    ana.drain(0.0)
    for start in (0, 2):
        assert not ana.can_begin_after(start)
        with pytest.raises(InvalidOption, match="has sent 1 messages"):
            ana.install(0.0, View(2, VIEW.members), {ANA: start, BOB: 0, CLEO: 0})
    assert ana.can_begin_after(1)
    ana.install(0.0, View(2, VIEW.members), {ANA: 1, BOB: 0, CLEO: 0})
    assert ana.submit(0.0, b"two") == MessageId(ANA, 2)


def test_semantic_order_counts_what_synchronisation_brought() -> None:
    """An answer would wait for ever for a question that was delivered long ago, past the ordering."""
    book = play("semantic", members="AB") >> got(batch("B", 2, parents=["B1"])) << holds(1)
    book.ordering.know(MemberId("B"), 1, 1)
    book.ordering.flush()
    assert [event[1] for event in book.context.outbox.drain().events] == [2]  # type: ignore[index]
    book >> got(batch("B", 3, parents=["Z1"])) << orphans("B3", "Z1")
    book.ordering.know(MemberId("Z"), 1, 4)
    assert book >> got(batch("B", 4, parents=["Z4"])) << delivers("B4") >> got(batch("B", 5, parents=["Z5"])) << orphans("B5", "Z5")
    book.ordering.know(MemberId("Z"), 3, 7)
    assert book >> got(batch("B", 6, parents=["Z5"])) << delivers("B6") << holds(0)


def test_a_newcomer_knows_of_strangers_what_synchronisation_says() -> None:
    """One message of a stranger that synchronisation brings would make the newcomer wait for all its others, or take them for delivered
    while the founders see that they never were."""
    cleo = Endpoint(CLEO, GROUP, VIEW, GroupOptions(order="semantic"), rng=random.Random(0), cut={ANA: 3})
    stranger = MemberId("zed#9")
    cleo.know(stranger, 5, 5)
    parents: list[MessageId | None] = [MessageId(stranger, 5), MessageId(stranger, 2), None]
    cleo.receive(0.0, ANA, codec.encode(Batch.compose(GROUP, ANA, 1, 4, [b"answer"] * 3, parents)))
    first, orphan, last = cleo.drain(0.0).events
    assert first[1:] == (4, 4)  # type: ignore[index]
    assert last[1:] == (6, 6)  # type: ignore[index]
    assert isinstance(orphan, Orphaned)
    assert (orphan.seqno, orphan.missing) == (5, (MessageId(stranger, 2),))


def test_what_waits_at_the_end_of_a_view_waits_no_longer_in_the_next() -> None:
    """It would wait for a message that no survivor holds."""
    assert (
        play("semantic", members="AB")
        >> got(batch("B", 2, parents=["B1"]))
        << nothing()
        >> view("A", "B", cut={"A": 0, "B": 2})
        << orphans("B2", "B1")
        << holds(0)
    )


# -- a side that lost the election ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delivery", ["agreed", "safe"])
@pytest.mark.parametrize("order", EVERY_ORDER)
def test_a_minority_drops_what_it_holds_and_sends_its_own_again(order: str, delivery: str) -> None:
    """A message that was accepted in a minority would be lost, or what the majority ordered otherwise be delivered here too."""
    group = pair(order, delivery=delivery, names=("a", "b", "c"), settings=Settings(frame_bytes=300, message_bytes=5_000))
    group.send("a", b"together")
    group.wait(1.0)
    group.rule("drop frames from c to a")
    group.rule("drop frames from c to b")
    group.rule("drop frames from a to c")
    group.rule("drop frames from b to c")
    sent = [group.send("c", payload) for payload in (b"one", b"two" * 300, b"three")]
    answer = group.send("c", b"four", reply_to=sent[0])
    group.wait(0.5)
    cleo = group.endpoint["c"]
    delivered, own = list(group.payloads("c")), cleo.own_delivered()
    assert own == (4 if order in ("unordered", "fifo", "causal", "semantic") and delivery == "agreed" else 0)
    for name in "abc":
        group.endpoint[name].freeze(group.now)
    group.rules.clear()
    group.install("a", "b", "c", starts={"a": 1, "b": 0, "c": own}, minority="c")
    assert cleo.holding
    assert group.payloads("c") == delivered
    assert cleo.drain(group.now).events == []
    cleo.release(group.now)
    group.wait(2.0)
    again = [b"one", b"two" * 300, b"three", b"four"][own:]
    for name in "ab":
        assert sorted(group.payloads(name)) == sorted([b"together", *again])
    assert sorted(group.payloads("c")) == sorted([*delivered, *again])
    if again:
        deliveries = [event for event in group.events["a"] if type(event) is tuple and event[0].sender == cleo.me]
        (last,) = (own for own, low, high in deliveries if low <= 4 <= high)
        assert last.reply_to(4) == sent[0]
        assert last.view == 2
        assert answer.seqno == 4
    assert group.send("c", b"five").seqno == 5
    group.wait(2.0)
    assert group.payloads("b")[-1] == b"five"


def test_what_a_minority_held_of_others_is_superseded() -> None:
    """Two members of one side would deliver what the majority has put elsewhere in its order."""
    cleo = member(CLEO, order="total")
    cleo.receive(0.0, BOB, codec.encode(Batch(GROUP, BOB, 1, 1, (b"no place yet",))))
    cleo.install(1.0, View(2, VIEW.members), {ANA: 0, BOB: 4, CLEO: 0}, minority=True)
    assert [type(event).__name__ for event in cleo.drain(1.0).events] == ["Installed"]
    assert cleo.context.drops["superseded"] == 1
    assert cleo.holding


def test_own_messages_that_everyone_has_cannot_be_sent_again() -> None:
    """A view that begins before them would make this member repeat what it no longer keeps."""
    ana = member()
    ana.submit(0.0, b"one")
    ana.submit(0.0, b"two")
    ana.drain(0.0)
    for speaker in (BOB, CLEO):
        ana.receive(0.0, speaker, codec.encode(Digest(GROUP, speaker, 1, [1, 0, 0])))
    ana.multicast.stable_positions()
    assert not ana.can_begin_after(0, minority=True)
    assert ana.can_begin_after(1, minority=True)
    with pytest.raises(InvalidOption):
        ana.install(0.0, View(2, VIEW.members), {ANA: 0, BOB: 0, CLEO: 0}, minority=True)


def test_own_delivery_waits_for_gate_and_hold() -> None:
    """The group would believe that a message was delivered that its own sender had not seen."""
    ana = member(delivery="safe")
    ana.submit(0.0, b"one")
    ana.drain(0.0)
    assert (ana.sent, ana.own_delivered()) == (1, 0)
    ana.hold(0.0)
    ana.receive(0.0, BOB, codec.encode(Digest(GROUP, BOB, 1, [1, 0, 0])))
    ana.drain(0.0)
    assert ana.own_delivered() == 0
    ana.release(0.0)
    ana.drain(0.0)
    assert ana.own_delivered() == 1


# -- frames and clocks ---------------------------------------------------------------------------------------------------------------


def test_frames_of_others_are_counted_by_what_they_are_of() -> None:
    ana = member()
    frames = [
        Batch(GROUP, BOB, 1, 1, (b"x",)),
        Batch(GROUP, BOB, 7, 1, (b"x",)),
        Batch(GroupId("other#1"), BOB, 1, 1, (b"x",)),
        Digest(GROUP, CLEO, 1, [0, 1, 0]),
        control.Beat(GROUP, BOB, 1),
        control.AskGroups(BOB, 1),
    ]
    for frame in frames:
        ana.receive(0.0, frame.sender if isinstance(frame, Batch) else CLEO, codec.encode(frame))
    assert ana.stats()["drops"] == {"other_group": 1, "other_view": 1, "unexpected_frame": 2}


def test_an_answer_is_later_than_its_question_whatever_the_clocks_say() -> None:
    """Sorted by time, a conversation would show answers above their questions."""
    ana, bob = member(ANA), member(BOB)
    ana.submit(50.0, b"question")
    (question,) = batches(ana, 50.0)
    bob.receive(3.0, ANA, codec.encode(question))
    bob.submit(3.0, b"answer", MessageId(ANA, 1))
    (answer,) = batches(bob, 3.0)
    bob.submit(3.0, b"more")
    (more,) = batches(bob, 3.0)
    assert 50.0 == question.sent_at < answer.sent_at < more.sent_at < 50.001
    bob.submit(60.0, b"later")
    assert [own.sent_at for own in batches(bob, 60.0)] == [60.0]


@pytest.mark.parametrize("multicast", ["besteffort", "reliable"])
@pytest.mark.parametrize("sent_at", [1e300, float("inf"), 4_000.0, float("nan")])
def test_a_clock_that_is_far_ahead_is_not_followed(multicast: str, sent_at: float) -> None:
    """One member with a wrong date would date everyone's messages into the far future, for good."""
    ana = member(order="unordered", multicast=multicast)
    ana.receive(5.0, BOB, codec.encode(Batch(GROUP, BOB, 1, 1, (b"x",), None, None, sent_at)))
    ana.submit(5.0, b"y")
    (own,) = batches(ana, 5.0)
    assert own.sent_at == 5.0
    assert ana.context.drops["clock_ahead"] == (0 if sent_at != sent_at else 1)


def test_a_guests_message_carries_its_name() -> None:
    """Members could not tell two guests apart, nor a guest's message that was sent through two of them."""
    ana = member(settings=Settings(frame_bytes=300))
    guest = MemberId("visitor#5")
    ana.submit(0.0, b"own")
    ana.submit(0.0, b"hello", guest=(guest, 7))
    (sent,) = batches(ana)
    assert sent.guests == {2: (guest, 7)}
    for number in range(30):
        ana.submit(0.0, b"x", guest=(guest, number + 1))
    assert all(len(wire) <= 300 for _, wire in ana.drain(0.0).sends)
    with pytest.raises(BadFrame, match="malformed"):
        codec.decode(codec.encode(Batch(GROUP, ANA, 1, 1, (b"x",), guests={2: (guest, 1)})))
