"""Repair, bounds and names: more interleavings that once went wrong, each written out."""

from __future__ import annotations

import random
from functools import partial

import pytest

from antiphon.errors import InvalidOption, TooLarge, UnknownParent
from antiphon.model import codec
from antiphon.model.frames import Batch, Digest, Nack
from antiphon.model.ids import GroupId, MemberId, MessageId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint
from antiphon.protocol.multicast.reliable import Reliable
from antiphon.sim.log import Delivered
from antiphon.sim.network import NetworkModel
from antiphon.sim.view_world import ViewWorld
from antiphon.testing import pair

ANA, BOB, CLEO = (MemberId(name) for name in ("ana#1", "bob#2", "cleo#3"))
GROUP = GroupId("g#0")
VIEW = View(1, (ANA, BOB, CLEO))


def member(me: MemberId = ANA, settings: Settings | None = None, view: View = VIEW, **options: object) -> Endpoint:
    return Endpoint(me, GROUP, view, GroupOptions(**options), rng=random.Random(0), settings=settings)  # type: ignore[arg-type]


def test_a_message_that_nobody_holds_is_asked_for_for_days() -> None:
    """The pause between requests was doubled without end; after a thousand of them the member fell over."""
    ana = member()
    ana.receive(0.0, BOB, codec.encode(Digest(GROUP, BOB, 1, [0, 0, 1])))
    asked, now = 0, 0.0
    for _ in range(6_000):
        now = max(now, ana.deadline or now)
        ana.tick(now)
        asked += sum(codec.kind_of(wire) == "nack" for _, wire in ana.drain(now).sends)
    assert asked > 1_100


def test_nobody_can_acknowledge_for_another() -> None:
    """b says that c has everything, so a forgets what c still needs."""
    ana = member()
    ana.submit(0.0, b"one")
    ana.drain(0.0)
    for speaker in (BOB, CLEO):
        ana.receive(0.0, BOB, codec.encode(Digest(GROUP, speaker, 1, [1, 0, 0])))
    assert ana.stats()["lag_by_member"] == {BOB: 0, CLEO: 1}
    assert ana.stats()["drops"] == {"forged": 1}


def test_a_newcomer_takes_answers_to_what_it_never_saw() -> None:
    """c speaks and leaves, d joins, a answers c: d knew nobody of that name and dropped what all others delivered."""
    world = ViewWorld(seed=1, members=("a", "b", "c"), options=GroupOptions(order="semantic"), network=NetworkModel())
    question = world.send("c", b"question")
    assert world.settle(10.0)
    world.crash("c")
    world.restart("c")
    world.install_view(["a", "b", "c"])
    world.run(0.1)
    answer = world.send("a", b"answer", reply_to=question)
    assert world.settle(10.0)
    assert world.endpoint("c").why(answer).state == "delivered"
    assert not [event for event in world.logs[-1].events if isinstance(event, Delivered) and event.lost]


def test_a_chain_within_one_batch_needs_no_room() -> None:
    """A batch whose messages answer each other was refused for ever when it was longer than the waiting store."""
    group = pair("semantic", settings=Settings(waiting_messages=8))
    last = None
    for _ in range(20):
        last = group.send("a", b"on and on", reply_to=last)
    group.wait(2.0)
    assert len(group.delivered("b")) == 20


@pytest.mark.parametrize("name", ["ana", "अनामिका-का-बहुत-लंबा-नाम", "安娜的名字也可以写得很长很长很长"])
def test_a_name_in_any_script_fits_its_frames(name: str) -> None:
    """Names were counted in characters: batches grew beyond the frame, were cut, and were taken by nobody."""
    group = pair("semantic", names=(name, "b"), settings=Settings(frame_bytes=1_400))
    parent = None
    for number in range(200):
        sent = group.send(name, b"x" * (number % 90), reply_to=parent)
        parent = sent if number % 3 == 0 else parent
    group.wait(2.0)
    assert len(group.delivered("b")) == 200
    assert not group.endpoint["b"].stats()["drops"]


def test_every_frame_fits_however_large_the_group() -> None:
    """Records, digests and requests of a large group were longer than a datagram, and later than a receiver takes at all."""
    names = tuple(f"m{number}" for number in range(120))
    limit = 1_400
    options = GroupOptions(order="total", window=64)
    world = ViewWorld(seed=2, members=names, options=options, settings=Settings(frame_bytes=limit), network=NetworkModel(loss=0.2))
    longest: dict[str, int] = {}
    for name in names:
        endpoint = world.endpoint(name)
        drain = endpoint.drain

        def watched(now: float, drain=drain):  # type: ignore[no-untyped-def]
            effects = drain(now)
            for _, wire in effects.sends:
                longest[codec.kind_of(wire)] = max(longest.get(codec.kind_of(wire), 0), len(wire))
            return effects

        endpoint.drain = watched  # type: ignore[method-assign]
    for name in names:
        for turn in range(3):
            world.at(0.1 * turn, partial(world.send, name, b"hello"))
    world.run(1.5)
    assert set(longest) >= {"data", "record", "digest", "nack"}
    assert max(longest.values()) <= limit, longest


def test_a_sequencer_says_as_much_as_there_is_room_for() -> None:
    """One member that ignored its window made the unsaid numbering longer than the room: nothing was ever numbered again."""
    ana = member(order="total", window=4)
    for number in range(1, 15):
        ana.receive(0.0, CLEO, codec.encode(Batch(GROUP, CLEO, 1, number, (b"greedy",))))
    ana.receive(0.0, BOB, codec.encode(Batch(GROUP, BOB, 1, 1, (b"honest",))))
    records = [codec.decode(wire) for _, wire in ana.drain(0.0).sends if codec.kind_of(wire) == "record"]
    assert [record.body for record in records] == [[2, 1, 12]]  # type: ignore[union-attr]
    for speaker in (BOB, CLEO):
        ana.receive(0.1, speaker, codec.encode(Digest(GROUP, speaker, 1, [0, 1, 14, 12, 0, 0])))
    records = [codec.decode(wire) for _, wire in ana.drain(0.1).sends if codec.kind_of(wire) == "record"]
    assert [record.body for record in records] == [[2, 13, 14, 1, 1, 1]]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "settings",
    [
        {"frame_bytes": 2 << 20},
        {"batch_messages": 100_000},
        {"message_bytes": 100 << 20},
        {"frame_bytes": 256, "message_bytes": 40 << 20},
    ],
)
def test_settings_that_no_receiver_takes_are_refused(settings: dict[str, int]) -> None:
    """Messages were accepted and could never be delivered."""
    with pytest.raises(InvalidOption):
        Settings(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ["fifo", "causal", "total", "semantic", "unordered"])
def test_a_name_that_makes_no_sense_is_refused_in_every_order(order: str) -> None:
    """Receivers took no frame with such a name, and then nothing of its sender any more."""
    group = pair(order)
    half = MemberId("\ud800")
    for name in (MessageId(ANA, 0), MessageId(ANA, -1), MessageId(ANA, 2**64), MessageId(MemberId("x" * 500), 1), MessageId(half, 1)):
        with pytest.raises(UnknownParent):
            group.send("a", b"x", reply_to=name)
    for strange in ((ANA, 1), "ana:1", 7, MessageId(ANA, "1"), MessageId(ANA, True)):  # type: ignore[arg-type]
        with pytest.raises(InvalidOption):
            group.send("a", b"x", after=[strange])  # type: ignore[list-item]
    group.send("a", b"later")
    group.wait(1.0)
    assert group.payloads("b") == [b"later"]


def test_others_repair_while_the_sender_goes_on_talking() -> None:
    """Every new frame counted as progress, so the request was never a repeated one and nobody but the sender answered."""
    world = ViewWorld(seed=3, members=("a", "b", "c"), options=GroupOptions(order="fifo"), network=NetworkModel())
    world.cut("a", "c")
    world.send("a", b"lost")
    world.run(0.005)
    world.heal()
    world.cut("c", "a")
    for turn in range(200):
        world.at(0.005 + turn * 0.01, partial(world.send, "a", b"more"))
    world.run(2.5)
    assert world.endpoint("c").multicast.positions()[world.id_of("a")] == 201


def test_a_new_gap_does_not_wait_for_the_deadline_of_an_old_one() -> None:
    """A gap that had been asked for many times left a deadline two seconds ahead, and the next gap inherited it."""
    ana = member()
    ana.receive(0.0, BOB, codec.encode(Digest(GROUP, BOB, 1, [0, 1, 0])))
    now = 0.0
    for _ in range(40):
        now = max(now, ana.deadline or now)
        ana.tick(now)
        ana.drain(now)
    ana.receive(now, BOB, codec.encode(Batch(GROUP, BOB, 1, 1, (b"at last",))))
    ana.receive(now, BOB, codec.encode(Batch(GROUP, BOB, 1, 3, (b"a new gap",))))
    ana.drain(now)
    later = now + 0.05
    ana.tick(later)
    assert "nack" in [codec.kind_of(wire) for _, wire in ana.drain(later).sends]


def test_two_large_messages_do_not_evict_each_other() -> None:
    """With room for one, each part of the second threw out the first, and the other way round, for ever."""
    settings = Settings(frame_bytes=300, reassembly_bytes=1_200, repair_frames=3, message_bytes=10_000)
    group = pair("fifo", settings=settings)
    group.rule("drop fragment from a to b first 6")
    for number in range(2):
        group.send("a", bytes([65 + number]) * 900)
        group.exchange()
    group.wait(10.0)
    assert len(group.delivered("b")) == 2


def test_a_view_may_come_while_a_batch_is_open() -> None:
    """In a safe causal group the open batch was closed in the middle of the change, half in the old view and half in the new."""
    ana = member(order="causal", delivery="safe")
    ana.receive(0.0, BOB, codec.encode(Batch(GROUP, BOB, 1, 1, (b"not yet safe",))))
    ana.submit(0.0, b"open")
    ana.install(0.0, View(2, (ANA, BOB)))
    batches = [codec.decode(wire) for _, wire in ana.drain(0.0).sends if codec.kind_of(wire) == "data"]
    assert [(batch.view, batch.stamp) for batch in batches] == [(2, [1, 1])]  # type: ignore[union-attr]


def test_a_view_that_was_not_flushed_is_refused() -> None:
    """Going on over a gap, the group would wait for a message that nobody will ever ask for again."""
    ana = member()
    ana.receive(0.0, BOB, codec.encode(Batch(GROUP, BOB, 1, 2, (b"two",))))
    with pytest.raises(InvalidOption, match="bob:1 is missing here and its sender stays"):
        ana.install(0.0, View(2, (ANA, BOB)))
    assert ana.view == VIEW
    ana.install(0.0, View(2, (ANA, CLEO)))


def test_who_asks_without_end_does_not_keep_others_from_asking() -> None:
    """c asked for a's message every few milliseconds; b, which lacked it too, put itself off each time."""
    ana = member(BOB)
    ana.receive(0.0, ANA, codec.encode(Digest(GROUP, ANA, 1, [1, 0, 0])))
    asked = 0
    for step in range(300):
        now = step * 0.01
        ana.receive(now, CLEO, codec.encode(codec.decode(_request(CLEO))))
        ana.tick(now)
        asked += sum(codec.kind_of(wire) == "nack" for _, wire in ana.drain(now).sends)
    assert asked > 1


def _request(who: MemberId) -> bytes:
    other = Endpoint(who, GROUP, VIEW, GroupOptions(), rng=random.Random(0))
    other.receive(0.0, ANA, codec.encode(Digest(GROUP, ANA, 1, [1, 0, 0])))
    other.tick(1.0)
    (wire,) = (wire for _, wire in other.drain(1.0).sends if codec.kind_of(wire) == "nack")
    return wire


def test_many_payloads_are_all_looked_at_before_any_is_sent() -> None:
    """One too large in the middle raised after the ones before it had been accepted: a retry sent them twice."""
    ana = member(settings=Settings(message_bytes=10))
    with pytest.raises(TooLarge):
        ana.submit_many(0.0, [b"fine", b"x" * 11])
    assert ana.stats()["sent"] == 0


def test_a_busy_safe_group_leaves_no_timers_behind() -> None:
    """Every turn left a cancelled timer in the heap until its time would have come."""
    ana = member(delivery="safe")
    for number in range(1, 5_001):
        ana.receive(number * 1e-5, BOB, codec.encode(Batch(GROUP, BOB, 1, number, (b"x",))))
        ana.drain(number * 1e-5)
    assert len(ana.context.timers._heap) < 100


def test_a_message_may_not_name_the_whole_world() -> None:
    """A frame that named a hundred thousand messages cost a second and thirty megabytes, and counted as one message."""
    batch = Batch(GROUP, BOB, 1, 1, (b"x",), (0,), None, 0.0, (CLEO,), b"\0", {1: [(0, number) for number in range(1, 1_000)]})
    ana = member(order="semantic")
    ana.receive(0.0, BOB, codec.encode(batch))
    assert ana.stats()["drops"] == {"malformed": 1}


def test_a_sender_that_ignores_its_window_fills_no_memory() -> None:
    """It may flood the network, but not everybody's store of frames for repair."""
    ana = member(window=16)
    for number in range(1, 5_001):
        ana.receive(number * 0.001, BOB, codec.encode(Batch(GROUP, BOB, 1, number, (b"x",))))
        ana.tick(number * 0.001)
        ana.drain(number * 0.001)
    assert int(ana.stats()["kept_frames"]) <= 3 * 16  # type: ignore[call-overload]


def test_names_that_leave_no_room_in_a_frame_are_refused() -> None:
    """A member with a long name and short frames could ask for nothing, and asked for it all the time."""
    long = MemberId("अ" * 60 + "#1")
    with pytest.raises(InvalidOption, match="frame_bytes"):
        Endpoint(long, GROUP, View(1, (long,)), GroupOptions(), rng=random.Random(0), settings=Settings(frame_bytes=256))


def test_over_besteffort_dead_halves_make_room() -> None:
    """Messages that lost a part filled the room for half-arrived ones for good: no large message was ever delivered again."""
    group = pair("unordered", "besteffort", settings=Settings(frame_bytes=300, reassembly_bytes=2_000, message_bytes=10_000))
    group.rule("drop fragment from a to b every 3rd")
    for _ in range(20):
        group.send("a", b"x" * 900)
        group.exchange()
    assert group.delivered("b") == []
    group.rules.clear()
    for _ in range(10):
        group.send("a", b"y" * 900)
        group.exchange()
    assert group.payloads("b") == [b"y" * 900] * 10


def test_over_besteffort_a_full_store_gives_up_what_it_waits_for() -> None:
    """What was refused for want of room never came again: answers were lost that had arrived."""
    group = pair("semantic", "besteffort", settings=Settings(waiting_messages=3))
    group.rule("drop data from a to b first 1")
    question = group.send("a", b"question")
    group.exchange()
    for _ in range(8):
        group.send("a", b"answer", reply_to=question)
        group.exchange()
    group.wait(5.0)
    assert len(group.delivered("b")) == 8
    assert group.endpoint["b"].ordering.held == 0


def test_a_flood_carries_messages_but_not_digests() -> None:
    """The limit that the guarantee card states: what a cut digest costs is credit, never a message."""
    options = GroupOptions(order="fifo", multicast="flood", window=8)
    world = ViewWorld(seed=4, members=("a", "b", "c"), options=options, network=NetworkModel())
    world.cut("c", "a")
    sent = 0
    for _ in range(100):
        if world.endpoint("a").credit > 0:
            world.send("a", b"x")
            sent += 1
        world.run(0.05)
    assert sent == 8
    assert world.endpoint("c").multicast.positions()[world.id_of("a")] == 8


def test_the_first_half_arrived_message_is_asked_for_first() -> None:
    """Gaps behind it filled the request, answers to them were abandoned for want of room, and its last part was never asked for."""
    group = pair("fifo", settings=Settings(frame_bytes=256, reassembly_bytes=1, message_bytes=10_000))
    group.rule("drop fragment from a to b every 3rd")
    for _ in range(10):
        group.send("a", b"x" * 500)
        group.exchange()
        group.send("a", b"small")
        group.exchange()
    group.rules.clear()
    group.wait(20.0)
    assert len(group.delivered("b")) == 20


def test_an_answer_begins_with_the_lowest_number() -> None:
    """With one frame per answer, parts of a later message, for which the asker had no room, kept the next message from coming."""
    ana = member(settings=Settings(frame_bytes=256, repair_frames=1, message_bytes=10_000))
    ana.submit(0.0, b"small")
    ana.submit(0.0, b"x" * 500)
    ana.drain(0.0)
    ana.receive(1.0, BOB, codec.encode(Nack(GROUP, BOB, 1, [(0, 1, 1, 0)], [(0, 2, [1, 2], 0)])))
    assert [codec.kind_of(wire) for _, wire in ana.drain(1.0).sends] == ["data"]


def test_a_member_with_a_gap_counts_what_the_sender_says_it_has() -> None:
    """In a safe group it took the sender to hold no more than itself, and delivered later than a majority allowed."""
    ana = member(delivery="safe", view=View(1, (ANA, BOB, CLEO)))
    for speaker in (BOB, CLEO):
        ana.receive(0.0, speaker, codec.encode(Digest(GROUP, speaker, 1, [0, 2, 0])))
    assert isinstance(ana.multicast, Reliable)
    assert ana.multicast.stability.safe(ana.multicast.streams[1]) == 2
