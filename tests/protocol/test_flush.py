"""The flush: members stop, agree on what they hold of a view, fetch what they lack, and go on with the same."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from antiphon.errors import WouldBlock
from antiphon.model import codec
from antiphon.model.frames import Batch, Digest, Nack
from antiphon.model.ids import GroupId, MemberId, MessageId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint
from antiphon.protocol.registry import ORDERS
from antiphon.testing import Pair, pair

ANA, BOB, CLEO = (MemberId(name) for name in ("ana#1", "bob#2", "cleo#3"))
GROUP = GroupId("g#0")
VIEW = View(1, (ANA, BOB, CLEO))
EVERY_ORDER = sorted(ORDERS)[:5]


def member(me: MemberId = ANA, settings: Settings | None = None, **options: object) -> Endpoint:
    return Endpoint(me, GROUP, VIEW, GroupOptions(**options), rng=random.Random(0), settings=settings)  # type: ignore[arg-type]


def wire(sender: MemberId, first: int, *payloads: bytes) -> bytes:
    return codec.encode(Batch(GROUP, sender, 1, first, payloads or (b"x",)))


def kinds(endpoint: Endpoint, now: float = 0.0) -> list[str]:
    return [codec.kind_of(sent) for _, sent in endpoint.drain(now).sends]


def drops(endpoint: Endpoint) -> dict[str, int]:
    return dict(endpoint.context.drops)


def die(group: Pair, name: str) -> None:
    group.rule(f"drop frames from {name}")
    group.rule(f"drop frames to {name}")


# -- freeze ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", EVERY_ORDER)
def test_who_has_stopped_sends_what_it_accepted_and_takes_no_more(order: str) -> None:
    """Something would be delivered of which this member had not told when it said what it holds."""
    ana = member(order=order)
    ana.submit(0.0, b"accepted")
    ana.freeze(0.0)
    before = ana.holdings()
    ana.receive(0.0, BOB, wire(BOB, 1))
    ana.freeze(0.0)
    assert "data" in kinds(ana)
    assert ana.holdings() == before
    assert before[0] == [1]
    assert drops(ana) == {"flushing": 1}
    with pytest.raises(WouldBlock, match="view is changing"):
        ana.submit(0.0, b"too late")


def test_the_sequencer_says_its_last_record_before_it_tells_what_it_holds() -> None:
    """The record would leave after it was agreed what is in the view: some would order by it, and some would not."""
    ana = member(order="total")
    ana.submit(0.0, b"x")
    ana.freeze(0.0)
    before = ana.holdings()
    assert before[3] == [1]
    ana.drain(0.0)
    ana.drain(1.0)
    assert ana.holdings() == before


def test_who_has_stopped_still_answers_and_acknowledges() -> None:
    """Those who lack something could fetch it from nobody."""
    ana = member()
    ana.submit(0.0, b"one")
    ana.drain(0.0)
    ana.freeze(0.0)
    ana.receive(0.0, BOB, codec.encode(Nack(GROUP, BOB, 1, [(0, 1, 1, 1)])))
    assert "data" in kinds(ana)
    ana.receive(0.0, BOB, codec.encode(Digest(GROUP, BOB, 1, [1, 0, 0])))
    assert ana.stats()["lag_by_member"] == {BOB: 0, CLEO: 1}
    said: list[str] = []
    for _ in range(5):
        ana.tick(ana.deadline or 0.0)
        said += kinds(ana, ana.deadline or 0.0)
    assert "digest" in said


def test_who_has_stopped_asks_for_nothing() -> None:
    """It would fill the network with requests for what it does not take."""
    ana = member()
    ana.receive(0.0, BOB, wire(BOB, 2))
    ana.freeze(0.0)
    ana.receive(0.0, BOB, codec.encode(Digest(GROUP, BOB, 1, [0, 9, 0])))
    now, said = 0.0, list[str]()
    for _ in range(20):
        now = max(now, ana.deadline or now)
        ana.tick(now)
        said += kinds(ana, now)
    assert set(said) == {"digest"}


def test_half_a_message_is_nobodys() -> None:
    """Its parts would take room, and count towards nothing."""
    group = pair("fifo", settings=Settings(frame_bytes=400, message_bytes=10_000))
    group.rule("drop fragment from a to b every 2nd")
    group.send("a", b"x" * 2_000)
    group.exchange()
    ben = group.endpoint["b"]
    assert ben.multicast.data[group.id_of["a"]].parts
    ben.freeze(group.now)
    assert not ben.multicast.data[group.id_of["a"]].parts
    assert ben.holdings() == [[0], [0]]
    assert drops(ben)["abandoned_fragment"] > 0


def test_holdings_are_told_with_their_gaps() -> None:
    """What lies beyond a gap would be thought lost, though somebody may fill the gap."""
    ana = member()
    for first in (1, 3, 4, 9):
        ana.receive(0.0, BOB, wire(BOB, first))
    assert ana.holdings() == [[0], [1, 3, 4, 9, 9], [0]]


# -- aim ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delivery", ["agreed", "safe"])
@pytest.mark.parametrize("multicast", ["reliable", "flood", "tree"])
@pytest.mark.parametrize("order", EVERY_ORDER)
def test_what_one_survivor_holds_all_deliver(order: str, multicast: str, delivery: str) -> None:
    """The first member, also the sequencer, dies; each of the others heard another part of what it said."""
    group = pair(order, multicast, delivery=delivery, names=("a", "b", "c", "d"))
    group.send("a", b"to all")
    group.wait(0.5)
    for lucky in "bcd":
        group.rules.clear()
        for unlucky in "bcd":
            if unlucky != lucky:
                group.rule(f"drop frames from a to {unlucky}")
                group.rule(f"drop frames from {lucky} to {unlucky}")
        group.send("a", f"heard by {lucky}".encode())
        group.send(lucky, f"{lucky} itself".encode())
        group.exchange()
    group.rules.clear()
    die(group, "a")
    assert group.flush("b", "c", "d")
    held = [group.endpoint[name].holdings() for name in "bcd"]
    assert held[0] == held[1] == held[2]
    group.install("b", "c", "d", starts={name: group.endpoint[name].sent for name in "bcd"})
    delivered = [group.payloads(name) for name in "bcd"]
    assert sorted(delivered[0]) == sorted(delivered[1]) == sorted(delivered[2])
    assert {b"to all", b"b itself", b"c itself", b"d itself"} <= set(delivered[0])
    if order == "total":
        assert delivered[0] == delivered[1] == delivered[2]
    group.send("c", b"and on")
    group.wait(2.0)
    assert all(group.payloads(name)[-1] == b"and on" for name in "bcd")


def test_only_what_was_agreed_on_is_taken() -> None:
    """A frame that was late on its way would be delivered by one of the survivors alone."""
    ana = member()
    ana.freeze(0.0)
    ana.aim(0.0, [[0], [2], [0]], (ANA, BOB))
    assert not ana.flushed
    ana.receive(0.0, BOB, wire(BOB, 1))
    ana.receive(0.0, BOB, wire(BOB, 2, b"partly", b"beyond"))
    ana.receive(0.0, CLEO, wire(CLEO, 1))
    assert not ana.flushed
    ana.receive(0.0, BOB, wire(BOB, 2))
    assert ana.flushed
    assert ana.holdings() == [[0], [2], [0]]
    assert drops(ana) == {"outside_target": 2}


def test_what_nobody_has_is_not_waited_for() -> None:
    """The sender died and its first message with it: the flush would never end."""
    ana = member()
    ana.receive(0.0, BOB, wire(BOB, 2))
    ana.aim(0.0, [[0], [0, 2, 2, 5, 5], [0]], (ANA, CLEO))
    (nack,) = (codec.decode(sent) for _, sent in ana.drain(0.0).sends if codec.kind_of(sent) == "nack")
    assert nack.wants == [(1, 5, 5, 1)]  # type: ignore[union-attr]
    ana.receive(0.0, CLEO, wire(BOB, 5))
    assert ana.flushed


def test_requests_go_to_the_holders_and_are_repeated_ever_more_seldom() -> None:
    """A member that is gone would be asked, or a lost request would stop the group."""
    ana = member()
    ana.aim(0.0, [[0], [1], [0]], (ANA, BOB))
    asked: list[tuple[float, object]] = []
    now = 0.0
    while now < 60.0:
        asked += [(now, to) for to, sent in ana.drain(now).sends if codec.kind_of(sent) == "nack"]
        now = max(now, ana.deadline or now)
        ana.tick(now)
    pauses = [later[0] - sooner[0] for sooner, later in pairwise(asked)]
    assert {to for _, to in asked} == {(BOB,)}
    assert pauses[0] < 0.1
    assert 1.5 <= max(pauses) <= 2.5
    assert 30 <= len(asked) <= 60


@pytest.mark.parametrize("frame_bytes", [256, 1_400])
def test_every_request_fits_into_a_frame(frame_bytes: int) -> None:
    """A thousand gaps make a request that no datagram holds."""
    ana = member(settings=Settings(frame_bytes=frame_bytes, message_bytes=10_000))
    ana.aim(0.0, [[0], [0, *(number for low in range(2, 4_000, 2) for number in (low, low))], [0]], (BOB,))
    for _ in range(20):
        for _, sent in ana.drain(ana.context.now).sends:
            assert len(sent) <= frame_bytes
        ana.tick(ana.deadline or 0.0)


@pytest.mark.parametrize(
    "target",
    [
        [],
        [[0], [0]],
        [[0], [0], [0], [0]],
        [[0], [], [0]],
        [[0], [1, 2], [0]],
        [[0], [-1], [0]],
        [[0], [5, 4, 6], [0]],
        [[0], [5, 9, 8], [0]],
        [[0], [1 << 63], [0]],
    ],
)
def test_a_target_that_makes_no_sense_is_ignored(target: list[list[int]]) -> None:
    """A coordinator of another mind would stop this member, or make it wait for ever."""
    ana = member()
    ana.freeze(0.0)
    ana.aim(0.0, target, (BOB,))
    assert not ana.flushed
    assert drops(ana) == {"malformed": 1}
    ana.aim(0.0, [[0], [0], [0]], (BOB,))
    assert ana.flushed


def test_a_second_ballot_stops_what_the_first_allowed() -> None:
    """c answers a request of the first ballot after a has told, for the second, what it holds: a would deliver what others do not."""
    ana = member()
    ana.aim(0.0, [[0], [2], [0]], (BOB, CLEO))
    ana.receive(0.0, CLEO, wire(BOB, 1))
    ana.freeze(0.1)
    assert ana.holdings() == [[0], [1], [0]]
    ana.receive(0.1, CLEO, wire(BOB, 2))
    assert ana.holdings() == [[0], [1], [0]]
    assert not ana.flushed
    ana.aim(0.2, [[0], [1], [0]], (BOB,))
    assert ana.flushed
    ana.receive(0.2, CLEO, wire(BOB, 2))
    assert ana.holdings() == [[0], [1], [0]]
    assert drops(ana) == {"flushing": 1, "outside_target": 1}


def test_large_messages_are_fetched_part_by_part() -> None:
    """A picture that only one survivor had would be lost, or come in more parts than an answer may have."""
    settings = Settings(frame_bytes=300, reassembly_bytes=9_000, repair_frames=5, message_bytes=20_000)
    group = pair("fifo", names=("a", "b", "c"), settings=settings)
    pictures = [random.Random(number).randbytes(8_000) for number in range(3)]
    group.rule("drop fragment from a to c")
    for picture in pictures:
        group.send("a", picture)
    group.exchange()
    die(group, "a")
    group.rule("drop fragment from b to c every 3rd")
    assert group.flush("b", "c")
    group.install("b", "c", starts={"b": 0, "c": 0})
    assert group.payloads("b") == group.payloads("c") == pictures


def test_more_than_a_window_can_be_fetched() -> None:
    """A member further behind than any sender may be ahead would never come along."""
    ana = member(window=2)
    ana.aim(0.0, [[0], [6], [0]], (CLEO,))
    for number in range(6, 0, -1):
        ana.receive(0.0, CLEO, wire(BOB, number))
    assert ana.flushed
    assert [event[1] for event in ana.drain(0.0).events if type(event) is tuple] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("loss", ["nack", "data"])
def test_a_flush_survives_loss(loss: str) -> None:
    """One lost frame would hold the whole group up until somebody gives up."""
    group = pair("causal", names=("a", "b", "c"))
    group.rule("drop data from a to c")
    for number in range(300):
        group.send("a", b"%d" % number)
        group.exchange()
    group.rules.clear()
    die(group, "a")
    group.rule(f"drop {loss} first 9")
    assert group.flush("b", "c")
    group.install("b", "c", starts={"b": 0, "c": 0})
    assert group.payloads("b") == group.payloads("c") == [b"%d" % number for number in range(300)]


def test_a_stopped_gate_opens_only_with_the_view() -> None:
    """A safe group would deliver on acknowledgements from which the others have drawn another conclusion."""
    ana = member(delivery="safe")
    ana.receive(0.0, BOB, wire(BOB, 1))
    ana.freeze(0.0)
    for speaker in (BOB, CLEO):
        ana.receive(0.0, speaker, codec.encode(Digest(GROUP, speaker, 1, [0, 1, 0])))
    assert ana.drain(0.0).events == []
    assert ana.why(MessageId(BOB, 1)).state == "held"
    ana.aim(0.0, [[0], [1], [0]], (BOB,))
    assert ana.drain(0.0).events == []
    ana.install(1.0, View(2, (ANA, BOB)), {ANA: 0, BOB: 1})
    first, second, *_ = ana.drain(1.0).events
    assert first[1:] == (1, 1)  # type: ignore[index]
    assert type(second).__name__ == "Installed"


@pytest.mark.parametrize("order", ["unordered", "semantic"])
def test_where_nothing_is_repaired_nothing_is_waited_for(order: str) -> None:
    """A best-effort group would wait for messages that nobody keeps."""
    ana = member(order=order, multicast="besteffort")
    ana.receive(0.0, BOB, wire(BOB, 2))
    ana.freeze(0.0)
    assert ana.holdings() == [[0], [0, 2, 2], [0]]
    assert not ana.flushed
    ana.aim(0.0, [[3], [7], [0]], (BOB,))
    assert ana.flushed
    ana.receive(0.0, BOB, wire(BOB, 3))
    assert ana.holdings() == [[0], [0, 2, 2], [0]]
