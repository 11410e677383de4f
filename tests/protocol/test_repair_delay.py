"""When a gap is asked for: not while what is missing is only late, and soon when it is lost."""

from __future__ import annotations

import random

import pytest

from antiphon.bench.repair import ArrivalCondition, row
from antiphon.model import codec
from antiphon.model.frames import Batch, Digest, Fragment, Nack
from antiphon.model.ids import GroupId, MemberId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint
from antiphon.protocol.multicast.reliable import Reliable
from antiphon.sim.network import Constant, Latency, LinkModel, LogNormal, NetworkModel, Uniform
from antiphon.sim.oracles import check
from antiphon.sim.view_world import ViewWorld

ANA, BOB, CLEO = (MemberId(name) for name in ("ana#1", "bob#2", "cleo#3"))
GROUP = GroupId("g#0")
NACK_S = Settings().nack_s


class Listener:
    """One member that receives single messages of bob, and the times at which it asks."""

    def __init__(self, settings: Settings | None = None) -> None:
        options = GroupOptions(order="unordered")
        self.endpoint = Endpoint(ANA, GROUP, View(1, (ANA, BOB, CLEO)), options, rng=random.Random(0), settings=settings)
        self.asked: list[tuple[float, list[tuple[int, int]]]] = []
        """When, and for which numbers of bob."""

    def wait(self, until: float) -> None:
        while (deadline := self.endpoint.deadline) is not None and deadline <= until:
            self.endpoint.tick(deadline)
            self._drain(deadline)

    def get(self, now: float, *numbers: int) -> None:
        self.wait(now)
        for number in numbers:
            self.endpoint.receive(now, BOB, codec.encode(Batch(GROUP, BOB, 1, number, (b"x",))))
        self._drain(now)

    def hear(self, now: float, frame: codec.Frame, source: MemberId = CLEO) -> None:
        self.wait(now)
        self.endpoint.receive(now, source, codec.encode(frame))
        self._drain(now)

    def _drain(self, now: float) -> None:
        for _, wire in self.endpoint.drain(now).sends:
            frame = codec.decode(wire)
            if type(frame) is Nack and frame.wants:
                self.asked.append((now, [(low, high) for _, low, high, _ in frame.wants]))


def test_a_gap_that_closes_leaves_no_deadline_behind() -> None:
    """The next gap would be asked for as soon as it opens, though nothing is lost."""
    ana = Listener()
    for number in range(1, 400, 2):
        # The odd one is late by three quarters of the time that a gap may last: there is a gap almost always, and a new one each time.
        ana.get(number * NACK_S / 2, number + 1)
        ana.get((number + 1.5) * NACK_S / 2, number)
    ana.wait(10.0)
    assert ana.asked == []


def test_a_gap_is_asked_for_by_its_own_age() -> None:
    """A loss right after a gap that closed would be asked for too soon, or only when yet another time has passed."""
    ana = Listener()
    ana.get(0.0, 2)
    ana.get(0.8 * NACK_S, 1)
    ana.get(0.9 * NACK_S, 4)
    ana.wait(1.85 * NACK_S)
    assert ana.asked == []
    ana.wait(2.05 * NACK_S)
    assert [numbers for _, numbers in ana.asked] == [[(3, 3)]]


def test_two_gaps_with_different_ages() -> None:
    """When the older closes in time the younger would be asked for with its deadline."""
    ana = Listener()
    ana.get(0.0, 2)
    ana.get(0.5 * NACK_S, 4)
    ana.get(0.9 * NACK_S, 1)
    ana.wait(1.45 * NACK_S)
    assert ana.asked == []
    ana.wait(1.65 * NACK_S)
    assert [numbers for _, numbers in ana.asked] == [[(3, 3)]]


def test_what_a_digest_tells_of_has_its_own_age_too() -> None:
    """The last messages before a silence, lost, would be asked for with the deadline of a gap that closed."""
    ana = Listener()
    ana.get(0.0, 2)
    ana.get(0.8 * NACK_S, 1)
    ana.hear(0.9 * NACK_S, Digest(GROUP, BOB, 1, [0, 5, 0]), BOB)
    ana.wait(1.85 * NACK_S)
    assert ana.asked == []
    ana.wait(2.05 * NACK_S)
    assert [numbers for _, numbers in ana.asked] == [[(3, 5)]]


def test_what_only_others_tell_of_may_be_on_its_way() -> None:
    """Cleo is nearer to bob than ana is: each of bob's messages would be asked for while it is on its way."""
    ana = Listener()
    for number in range(1, 30):
        ana.hear(number * 0.2, Digest(GROUP, CLEO, 1, [0, number, 0]))
        ana.get(number * 0.2 + 0.15, number)
    assert ana.asked == []


@pytest.mark.parametrize("proof", ["a later message", "its sender's digest"])
def test_what_others_tell_of_is_asked_for_soon_once_it_should_be_here(proof: str) -> None:
    """A loss that cleo told of first would be repaired only when what she tells of should be here, whenever bob tells of it."""
    ana = Listener()
    ana.hear(0.0, Digest(GROUP, CLEO, 1, [0, 1, 0]))
    if proof == "a later message":
        ana.get(0.1, 2)
    else:
        ana.hear(0.1, Digest(GROUP, BOB, 1, [0, 1, 0]), BOB)
    ana.wait(0.1 + 0.99 * NACK_S)
    assert ana.asked == []
    ana.wait(0.1 + 1.11 * NACK_S)
    assert [numbers for _, numbers in ana.asked] == [[(1, 1)]]


def test_what_others_tell_of_is_asked_for_in_the_end() -> None:
    """Where the link from bob is cut, ana would never ask for what she knows of only from cleo; or always as late as the first time."""
    ana, waited = Listener(), list[float]()
    for number in range(1, 9):
        told_at = number * 10.0
        ana.hear(told_at, Digest(GROUP, CLEO, 1, [0, number, 0]))
        ana.wait(told_at + Settings().nack_max_s)
        waited.append(ana.asked[0][0] - told_at)
        ana.hear(told_at + Settings().nack_max_s, Batch(GROUP, BOB, 1, number, (b"x",)))
        ana.asked.clear()
    assert 5 * NACK_S < waited[0] < Settings().nack_max_s / 2
    assert max(waited[4:]) <= 1.11 * NACK_S


def test_what_others_tell_of_counts_at_once_where_messages_are_here_before_it() -> None:
    """On links that are alike, the loss of a message and of its sender's digest would be repaired late."""
    ana = Listener()
    for number in range(1, 40):
        ana.get(number * 0.1, number)
        ana.hear(number * 0.1 + 0.02, Digest(GROUP, CLEO, 1, [0, number, 0]))
    ana.hear(5.0, Digest(GROUP, CLEO, 1, [0, 40, 0]))
    ana.wait(5.0 + 1.11 * NACK_S)
    assert [numbers for _, numbers in ana.asked] == [[(40, 40)]]


def test_a_sender_whose_messages_come_late_is_given_more_time_and_loses_it_again() -> None:
    """On a network with jitter everything would be asked for though it is on its way; or losses would wait long after the jitter ended."""
    ana, settings = Listener(), Settings()
    assert isinstance(ana.endpoint.multicast, Reliable)
    stream, repair = ana.endpoint.multicast.data[BOB], ana.endpoint.multicast.repair
    now, number = 0.0, 1
    for late_s in [0.01 * step for step in range(1, 16)] * 4:
        ana.get(now, number + 1)
        now += late_s
        ana.get(now, number)
        number += 2
    assert 0.15 < repair._wait_s(stream) <= settings.nack_max_s / 4
    asked = len(ana.asked)
    ana.get(now, number + 1)
    ana.wait(now + 0.15)
    ana.get(now + 0.15, number)
    assert len(ana.asked) == asked
    ana.get(now + 60.0, number + 2)
    assert repair._wait_s(stream) <= NACK_S


@pytest.mark.parametrize("jitter_s", [10.0, 1.0])
def test_the_time_is_bounded(jitter_s: float) -> None:
    """One message that was held up for a minute would make every loss after it last as long."""
    ana, settings = Listener(), Settings(nack_s=1.0, nack_max_s=8.0)
    ana = Listener(settings)
    for turn in range(20):
        ana.get(turn * 100.0, 2 * turn + 2)
        ana.get(turn * 100.0 + jitter_s, 2 * turn + 1)
    assert isinstance(ana.endpoint.multicast, Reliable)
    wait_s = ana.endpoint.multicast.repair._wait_s(ana.endpoint.multicast.data[BOB])
    assert settings.nack_s / 2 <= wait_s <= settings.nack_max_s / 4


def test_any_number_of_gaps_is_kept_in_bounded_memory() -> None:
    """A stream with every second message missing would remember a time for each; or forget the last of them, which is then never asked
    for."""
    ana = Listener()
    for number in range(2, 2_000, 2):
        ana.get(number * 1e-6, number)
    stream = ana.endpoint.multicast.data[BOB]
    assert len(stream.marks) <= 65
    assert stream.marks[-1][1] == stream.known == 1_998
    assert stream.marks == sorted(stream.marks)


# -- on a network ------------------------------------------------------------------------------------------------------------------


def traffic(latency: Latency, seed: int, **links: float) -> dict[str, int]:
    """2,000 messages from each of two members to three others; requests and repairs of all."""
    world = ViewWorld(seed, "abcd", GroupOptions(order="fifo"), network=NetworkModel(latency=latency, **links))  # type: ignore[arg-type]
    for number in range(2_000):
        for name in "ab":
            world.at(number * 0.001, lambda name=name: world.send(name, b"x"))  # type: ignore[misc]
    world.run(2.0)
    assert world.settle(60.0)
    assert check(world.logs, "fifo") == []
    stats = [world.endpoint(name).stats() for name in "abcd"]
    return {word: sum(found[word] for found in stats) for word in ("requests_sent", "repairs_sent")}  # type: ignore[misc]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("latency", "links"),
    [
        (Constant(0.001), {}),
        (Constant(0.15), {}),
        (Constant(0.001), {"reorder": 0.5, "reorder_s": 0.003}),
        (Constant(0.001), {"reorder": 0.01, "reorder_s": 0.015}),
        (Uniform(0.001, 0.005), {}),
        (Uniform(0.0, 0.9 * NACK_S), {}),
        (LogNormal(0.002, 0.4), {}),
    ],
    ids=["constant", "far", "every second 3 ms late", "some 15 ms late", "1 to 5 ms", "0 to 18 ms", "log-normal"],
)
def test_nothing_is_asked_for_where_nothing_is_lost(latency: Latency, links: dict[str, float], seed: int) -> None:
    """Every message that is overtaken by the next would be asked for, and sent again."""
    assert traffic(latency, seed, **links) == {"requests_sent": 0, "repairs_sent": 0}


@pytest.mark.parametrize("interval_s", [0.002, 0.07])
@pytest.mark.parametrize(
    ("options", "members", "latency_s", "far_s"),
    [
        ({"multicast": "tree"}, 8, 0.03, 0.03),
        ({"multicast": "tree"}, 8, 0.1, 0.1),
        ({"multicast": "tree"}, 8, 0.15, 0.15),
        ({"multicast": "tree", "order": "total"}, 8, 0.005, 0.08),
        ({}, 4, 0.005, 0.08),
        ({"order": "total"}, 4, 0.005, 0.08),
        ({"order": "semantic"}, 4, 0.005, 0.08),
        ({"multicast": "flood"}, 4, 0.005, 0.08),
    ],
)
def test_nothing_is_asked_for_at_constant_delays(
    options: dict[str, str], members: int, latency_s: float, far_s: float, interval_s: float
) -> None:
    """Who hears of a message before it can be here would ask for it, and the answers would be taken for proof that it was lost: on a
    tree with links of 0.1 s, 382,071 frames were sent instead of 10,500."""
    names = [f"m{number}" for number in range(members)]
    far = LinkModel(latency=Constant(far_s))
    network = NetworkModel(latency=Constant(latency_s), links={("m0", "m2"): far, ("m2", "m0"): far})
    world = ViewWorld(1, names, GroupOptions(**{"order": "unordered", **options}), network=network)  # type: ignore[arg-type]
    for number in range(300):
        for name in names[:2]:
            world.at(number * interval_s, lambda name=name: world.send(name, b"x"))  # type: ignore[misc]
    world.run(300 * interval_s)
    assert world.settle(60.0)
    stats = [world.endpoint(name).stats() for name in names]
    assert [(found["requests_sent"], found["repairs_sent"]) for found in stats] == [(0, 0)] * members


def test_what_is_lost_on_a_link_that_is_cut_one_way_comes_soon() -> None:
    """Everything of m0 reaches m2 only as an answer to what others told of: each would wait for a message that never comes by itself."""
    cut = {("m0", "m2"): LinkModel(latency=Constant(0.005), loss=1.0)}
    world = ViewWorld(
        1, ("m0", "m1", "m2", "m3"), GroupOptions(order="unordered"), network=NetworkModel(latency=Constant(0.005), links=cut)
    )
    for number in range(400):
        world.at(number * 0.004, lambda: world.send("m0", b"x"))
    world.run(1.6)
    assert world.settle(5.0)


@pytest.mark.parametrize("seed", range(1, 7))
def test_large_jitter_costs_few_extra_frames(seed: int) -> None:
    """On a network with 0 to 200 ms of delay and no loss four times as many frames were sent as needed."""
    figures = row(ArrivalCondition(0.0, 200.0, 0.0), 5_000, seed)
    assert figures["extra_percent"] < 5.0  # type: ignore[operator]


@pytest.mark.parametrize("seed", range(1, 3))
def test_a_message_that_comes_after_it_was_asked_for_and_once_more_was_only_late(seed: int) -> None:
    """Each of few messages would be asked for before it can be here, and since it came then, asked for even sooner: with jitter of 0 to
    200 ms and a message every 200 ms more than twice as many frames as needed were sent."""
    names = "abcd"
    world = ViewWorld(seed, names, GroupOptions(order="unordered"), network=NetworkModel(latency=Uniform(0.0, 0.2)))
    for number in range(300):
        world.at(number * 0.2, lambda: world.send("a", b"x"))
    world.run(60.0)
    assert world.settle(60.0)
    data = sum(count for (_, _, kind), count in world.frames.items() if kind == "data")
    assert 900 <= data < 1_300


@pytest.mark.parametrize("order", ["fifo", "total"])
def test_large_jitter_costs_few_extra_frames_where_all_send(order: str) -> None:
    """Every stream has to learn for itself how late its messages come, and would ask for too much until it has."""
    world = ViewWorld(1, "abcd", GroupOptions(order=order), network=NetworkModel(latency=Uniform(0.0, 0.2)))
    for number in range(1_250):
        for name in "abcd":
            world.at(number * 0.002, lambda name=name: world.send(name, b"x"))  # type: ignore[misc]
    world.run(2.5)
    assert world.settle(60.0)
    assert check(world.logs, order) == []
    data = sum(count for (_, _, kind), count in world.frames.items() if kind == "data")
    assert 15_000 <= data < 15_750


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize(
    ("low_ms", "high_ms", "loss", "p50_ms", "p90_ms"),
    [
        *((1.0, 1.0, 0.01, 24.7, 32.9), (1.0, 1.0, 0.05, 19.4, 40.9), (1.0, 1.0, 0.2, 39.9, 214.8)),
        *((1.0, 5.0, 0.01, 23.4, 36.3), (1.0, 5.0, 0.05, 26.2, 44.3), (1.0, 5.0, 0.2, 37.2, 125.1)),
        *((20.0, 20.0, 0.01, 80.4, 106.8), (20.0, 20.0, 0.05, 88.5, 127.6), (60.0, 60.0, 0.01, 215.0, 272.2)),
        *((100.0, 100.0, 0.01, 342.8, 435.1), (100.0, 100.0, 0.05, 337.4, 388.8), (100.0, 100.0, 0.1, 340.0, 419.0)),
    ],
)
def test_a_loss_is_repaired_no_later_than_before(
    low_ms: float, high_ms: float, loss: float, p50_ms: float, p90_ms: float, seed: int
) -> None:
    """Waiting for late messages would mean to wait for lost ones, too. The limits are what a fixed deadline per stream reached."""
    figures = row(ArrivalCondition(low_ms, high_ms, loss), 3_000, seed)
    assert figures["p50_ms"] <= p50_ms  # type: ignore[operator]
    assert figures["p90_ms"] <= p90_ms  # type: ignore[operator]


@pytest.mark.parametrize(
    ("low_ms", "high_ms", "loss", "p99_ms", "frames"),
    [
        *((1.0, 1.0, 0.05, 68.5, 9_677), (1.0, 5.0, 0.05, 67.0, 9_831), (20.0, 20.0, 0.05, 208.9, 12_000)),
        *((100.0, 100.0, 0.01, 522.3, 10_500), (100.0, 100.0, 0.05, 470.9, 12_434), (100.0, 100.0, 0.1, 564.9, 16_191)),
    ],
)
def test_losses_of_answers_are_repaired_no_later_than_before(
    low_ms: float, high_ms: float, loss: float, p99_ms: float, frames: int
) -> None:
    """Where the request or the answer is lost as well, waiting for the answer first would cost its whole time once more; and to ask all
    members for it would cost several answers for each loss. The means of six runs are no larger than with a fixed deadline per stream."""
    figures = [row(ArrivalCondition(low_ms, high_ms, loss), 3_000, seed) for seed in range(1, 7)]
    assert sum(found["p99_ms"] for found in figures) / 6 <= p99_ms  # type: ignore[misc]
    assert sum(found["data_frames"] for found in figures) / 6 <= frames  # type: ignore[misc]


@pytest.mark.parametrize("seed", range(1, 3))
def test_many_losses_are_asked_for_together_where_messages_come_late(seed: int) -> None:
    """A few of them would be asked for at a time, as long as others come late, and the last of them seconds after that."""
    figures = row(ArrivalCondition(0.0, 200.0, 0.2), 1_500, seed)
    assert figures["max_ms"] <= 4_000  # type: ignore[operator]


def test_a_message_whose_parts_were_abandoned_is_asked_for_after_the_one_before_it() -> None:
    """Message 2 is known by a part that found no room, and was not marked as missing: when 1 is here, nobody would ask for 2."""
    ana = Listener(Settings(reassembly_bytes=100))
    parts = [Fragment(GROUP, BOB, 1, number, index, 2, bytes(80)) for number in (1, 2) for index in (0,)]
    for fragment in parts:
        ana.endpoint.receive(0.0, BOB, codec.encode(fragment))
    stream = ana.endpoint.multicast.data[BOB]
    assert (list(stream.parts), stream.known) == ([1], 2)
    ana.get(0.001, 1)
    assert stream.high == 1
    ana.wait(1.0)
    assert [numbers for _, numbers in ana.asked][:1] == [[(2, 2)]]
