"""The endpoint: batching, fragments, flow control, bounds. No driver: the test is the driver."""

from __future__ import annotations

import random

import pytest

from antiphon.errors import InvalidOption, TooLarge, UnknownParent, WouldBlock
from antiphon.model import codec
from antiphon.model.events import Writable
from antiphon.model.frames import Batch
from antiphon.model.ids import GroupId, MemberId, MessageId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint
from antiphon.protocol.outbox import Effects

ANA, BOB, CLEO = (MemberId(name) for name in ("ana#1", "bob#2", "cleo#3"))
GROUP = GroupId("g#0")
VIEW = View(1, (ANA, BOB, CLEO))


def endpoint(me: MemberId = ANA, settings: Settings | None = None, view: View = VIEW, **options: object) -> Endpoint:
    return Endpoint(me, GROUP, view, GroupOptions(**options), rng=random.Random(str(me)), settings=settings)  # type: ignore[arg-type]


def data(effects: Effects) -> list[Batch]:
    frames = [codec.decode(wire) for _, wire in effects.sends]
    return [frame for frame in frames if isinstance(frame, Batch)]


def exchange(members: dict[MemberId, Endpoint], now: float) -> dict[MemberId, list[object]]:
    """Carries everything until nobody has anything to say; returns the events."""
    events: dict[MemberId, list[object]] = {member: [] for member in members}
    for _ in range(1_000):
        moved = False
        for member, speaker in members.items():
            speaker.tick(now)
            effects = speaker.drain(now)
            events[member] += effects.events
            for to, wire in effects.sends:
                moved = True
                for other in to or members:
                    if other != member:
                        members[other].receive(now, member, wire)
        if not moved:
            return events
    raise AssertionError("the exchange does not end")


def group(settings: Settings | None = None, **options: object) -> dict[MemberId, Endpoint]:
    return {member: endpoint(member, settings, **options) for member in VIEW.members}


# -- batching ----------------------------------------------------------------------------------------------------------------------


def test_one_turn_is_one_batch_and_an_idle_member_sends_at_once() -> None:
    """Either every message would pay for a frame of its own, or a lone message would wait for company."""
    ana = endpoint()
    ids = [ana.submit(0.0, b"%d" % number) for number in range(5)]
    assert ids == [MessageId(ANA, number) for number in range(1, 6)]
    assert [(batch.first, batch.payloads) for batch in data(ana.drain(0.0))] == [(1, (b"0", b"1", b"2", b"3", b"4"))]
    ana.submit(1.0, b"alone")
    assert [(batch.first, batch.payloads) for batch in data(ana.drain(1.0))] == [(6, (b"alone",))]


def test_the_frame_of_a_batch_is_at_hand_until_everybody_has_it() -> None:
    """The past would keep an object for each message of a flood; or keep the frame of other messages in their place."""
    members = group()
    ana, bob = members[ANA], members[BOB]
    ana.submit_many(0.0, [b"one", b"two", b"three"])
    sent = ana.drain(0.0)
    (wire,) = (wire for _, wire in sent.sends)
    (batch,) = data(sent)
    bob.receive(0.0, ANA, wire)
    for member in (ana, bob):
        assert member.multicast.frame_of(batch) == wire
        assert member.multicast.frame_of(Batch(GROUP, ANA, 1, 1, (b"one", b"two"))) is None, "cut otherwise"
        assert member.multicast.frame_of(Batch(GROUP, ANA, 2, 1, batch.payloads)) is None, "of another view"
        assert member.multicast.frame_of(Batch(GROUP, MemberId("dora#4"), 1, 1, batch.payloads)) is None, "of a stranger"
    members[CLEO].receive(0.0, ANA, wire)
    for step in range(1, 20):
        exchange(members, 0.3 * step)
    assert [member.multicast.frame_of(batch) for member in members.values()] == [None] * 3


@pytest.mark.parametrize("order", ["fifo", "causal", "total", "semantic"])
def test_no_frame_is_larger_than_the_transport_takes(order: str) -> None:
    """A datagram too long for the network would be cut into pieces by it, or vanish."""
    rng = random.Random(order)
    settings = Settings(frame_bytes=600, batch_messages=9)
    members = group(settings, order=order)
    heard: list[MessageId] = []
    for turn in range(30):
        for member, speaker in members.items():
            for _ in range(rng.randrange(12)):
                parent = rng.choice(heard) if heard and rng.random() < 0.6 else None
                after = [rng.choice(heard) for _ in range(rng.randrange(3))] if heard else []
                speaker.submit(turn * 0.1, b"x" * rng.choice((1, 30, 200, 900)), parent, after)
            effects = speaker.drain(turn * 0.1)
            for batch in data(effects):
                assert len(batch.payloads) <= 9
            for to, wire in effects.sends:
                assert len(wire) <= 600
                for other in to or VIEW.members:
                    if other != member:
                        members[other].receive(turn * 0.1, member, wire)
        heard += [
            MessageId(event[0].sender, event[1])
            for events in exchange(members, turn * 0.1).values()
            for event in events
            if type(event) is tuple
        ][-4:]


def test_a_large_message_travels_in_parts_under_one_number() -> None:
    """A picture could not be sent at all, or would use up the numbers of other messages."""
    members = group(Settings(frame_bytes=1_000))
    big = random.Random(1).randbytes(50_000)
    assert members[ANA].submit(0.0, big).seqno == 1
    assert members[ANA].submit(0.0, b"small").seqno == 2
    events = exchange(members, 0.0)
    for member in members:
        assert [(event[1], event[0].payload(event[1])) for event in events[member]] == [(1, big), (2, b"small")]  # type: ignore[index]


def test_half_arrived_messages_are_bounded_and_the_latest_abandoned() -> None:
    """A sender that dies in the middle of many large messages would fill everyone's memory."""
    ana, bob = endpoint(ANA, Settings(frame_bytes=1_000)), endpoint(BOB, Settings(frame_bytes=1_000, reassembly_bytes=6_000))
    for _ in range(8):
        ana.submit(0.0, b"x" * 2_500)
        wires = [wire for _, wire in ana.drain(0.0).sends if codec.kind_of(wire) == "fragment"]
        for wire in wires[:-1]:
            bob.receive(0.0, ANA, wire)
    stream = bob.multicast.data[ANA]
    assert stream.parts_bytes <= 6_000
    assert len(stream.parts) < 8
    assert bob.stats()["drops"]["abandoned_fragment"] >= 8  # type: ignore[index]


# -- flow control ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["unordered", "fifo", "causal", "total", "semantic"])
@pytest.mark.parametrize("multicast", ["reliable", "flood", "tree"])
def test_a_full_window_refuses_and_room_is_announced(order: str, multicast: str) -> None:
    """A fast sender would bury a slow member, or be told to wait and never be told to go on."""
    members = group(order=order, multicast=multicast, window=16)
    ana = members[ANA]
    for number in range(16):
        ana.submit(0.0, b"%d" % number)
    with pytest.raises(WouldBlock):
        ana.submit(0.0, b"too much")
    assert ana.credit == 0
    events: list[object] = []
    for step in range(40):
        events += exchange(members, step * 0.05)[ANA]
    assert [event for event in events if isinstance(event, Writable)] == [Writable()]
    assert ana.credit == 16
    assert ana.submit(2.0, b"more").seqno == 17


def test_what_was_accepted_is_delivered_whatever_was_refused() -> None:
    """A refused message would leave a hole in the numbers, and everyone would wait for it."""
    members = group(order="fifo", window=4)
    ana, sent = members[ANA], []
    delivered: list[bytes] = []
    for step in range(200):
        for _ in range(3):
            try:
                ana.submit(step * 0.05, b"%d" % len(sent))
                sent.append(b"%d" % len(sent))
            except WouldBlock:
                pass
        for event in exchange(members, step * 0.05)[BOB]:
            if type(event) is tuple:
                delivered += [event[0].payload(seqno) for seqno in range(event[1], event[2] + 1)]
    assert len(sent) > 100
    assert delivered == sent[: len(delivered)]
    assert len(delivered) > len(sent) - 5


def test_bytes_on_their_way_are_bounded_too() -> None:
    """Eight thousand large messages would fit the window and not the memory."""
    ana = endpoint(ANA, Settings(window_bytes=10_000, frame_bytes=2_000))
    while ana.credit > 0:
        ana.submit(0.0, b"x" * 1_000)
        ana.drain(0.0)
    with pytest.raises(WouldBlock, match="bytes"):
        ana.submit(0.0, b"x" * 1_000)
    assert ana.multicast.mine.bytes < 12_000


def test_many_are_accepted_as_far_as_there_is_room() -> None:
    """A caller with a list would not know which of it were sent."""
    ana = endpoint(window=10)
    assert ana.submit_many(0.0, [b"x"] * 7) == 7
    assert ana.submit_many(0.0, [b"x"] * 7) == 3
    with pytest.raises(WouldBlock):
        ana.submit_many(0.0, [b"x"])


def test_sending_pauses_while_the_view_changes() -> None:
    """A message sent during the flush would belong to no view."""
    ana = endpoint()
    ana.submit(0.0, b"before")
    ana.pause(0.0)
    with pytest.raises(WouldBlock, match="view is changing"):
        ana.submit(0.0, b"during")
    assert [batch.view for batch in data(ana.drain(0.0))] == [1]
    ana.install(1.0, View(2, (ANA, BOB)))
    assert Writable() in ana.drain(1.0).events
    ana.submit(1.0, b"after")
    assert [batch.view for batch in data(ana.drain(1.0))] == [2]


def test_a_new_view_makes_the_credit_whole_again() -> None:
    """Credit lost with a member that left would be lost for ever: a permanent stall."""
    members = group(window=8)
    ana, bob = members[ANA], members[BOB]
    for _ in range(8):
        ana.submit(0.0, b"x")
    two = {ANA: ana, BOB: bob}  # cleo is dead and acknowledges nothing
    for step in range(40):
        exchange_to(two, step * 0.05)
    assert ana.credit == 0
    for member in two.values():
        member.install(3.0, View(2, (ANA, BOB)))
    assert ana.credit == 8


def exchange_to(members: dict[MemberId, Endpoint], now: float) -> None:
    for member, speaker in members.items():
        speaker.tick(now)
        for to, wire in speaker.drain(now).sends:
            for other in to or VIEW.members:
                if other != member and other in members:
                    members[other].receive(now, member, wire)


# -- bad calls ---------------------------------------------------------------------------------------------------------------------


def test_a_call_that_cannot_work_changes_nothing() -> None:
    """A refused message would be half sent."""
    ana = endpoint(ANA, Settings(message_bytes=100, frame_bytes=300), order="semantic")
    with pytest.raises(TooLarge, match="101"):
        ana.submit(0.0, b"x" * 101)
    with pytest.raises(InvalidOption, match="bytes"):
        ana.submit(0.0, "text")  # type: ignore[arg-type]
    with pytest.raises(UnknownParent, match="has not been delivered"):
        ana.submit(0.0, b"x", MessageId(BOB, 1))
    with pytest.raises(UnknownParent, match="earlier"):
        ana.submit(0.0, b"x", MessageId(ANA, 1))
    with pytest.raises(UnknownParent):
        ana.submit(0.0, b"x", after=[MessageId(BOB, 4)])
    question = ana.submit(0.0, b"question")
    with pytest.raises(InvalidOption, match="at most"):
        ana.submit(0.0, b"x", after=[question] * 100)
    assert question.seqno == 1
    assert ana.submit(0.0, b"answer to myself", question).seqno == 2
    assert len(data(ana.drain(0.0))) == 1


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"order": "alphabetical"}, "semantic"),
        ({"multicast": "pigeon"}, "flood"),
        ({"order": "fifo", "multicast": "besteffort"}, "wait for ever"),
        ({"order": "causal", "multicast": "besteffort"}, "wait for ever"),
        ({"order": "total", "multicast": "besteffort"}, "wait for ever"),
        ({"order": "unordered", "multicast": "besteffort", "delivery": "safe"}, "does not know who holds"),
        ({"delivery": "maybe"}, "agreed"),
        ({"window": 0}, "window"),
        ({"fanout": 0}, "fanout"),
    ],
)
def test_a_group_that_cannot_work_is_refused_at_creation(options: dict[str, object], word: str) -> None:
    """The group would be created, and hang on the first lost message."""
    with pytest.raises(InvalidOption, match=word):
        endpoint(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", [{"frame_bytes": 10}, {"nack_s": 0.0}, {"digest_s": 5.0}, {"nack_s": 3.0}, {"waiting_messages": -1}])
def test_settings_that_cannot_work_are_refused(settings: dict[str, float]) -> None:
    """A typing error in a configuration would show as a mystery on the network."""
    with pytest.raises(InvalidOption):
        Settings(**settings)  # type: ignore[arg-type]
