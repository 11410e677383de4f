"""What every order over every multicast must do, whatever its own promise: the same small tests over all of them."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.errors import InvalidOption, TooLarge, UsageError, WouldBlock
from antiphon.model.ids import MemberId, MessageId
from antiphon.model.options import GroupOptions, Settings
from antiphon.protocol.registry import MULTICASTS, ORDERS
from antiphon.sim.network import NetworkModel, Uniform
from antiphon.sim.oracles import check
from antiphon.sim.view_world import ViewWorld
from antiphon.sim.workload import Workload
from antiphon.testing import Pair, pair

BESTEFFORT = [(order, "besteffort") for order in ORDERS if ORDERS[order].over_besteffort]
REPAIRED = [(order, multicast) for multicast in MULTICASTS if multicast != "besteffort" for order in ORDERS]
DELIVERED_ALIKE = [(order, multicast, delivery) for order, multicast in REPAIRED for delivery in ("agreed", "safe")]

every_group = pytest.mark.parametrize(("order", "multicast"), BESTEFFORT + REPAIRED)
every_repaired_group = pytest.mark.parametrize(("order", "multicast", "delivery"), DELIVERED_ALIKE)


def three(order: str, multicast: str, delivery: str = "agreed", settings: Settings | None = None, **options: int) -> Pair:
    chosen = GroupOptions(order=order, multicast=multicast, delivery=delivery, **options)
    return pair(names=("a", "b", "c"), options=chosen, settings=settings)


@every_group
def test_everybody_gets_everything_over_good_links(order: str, multicast: str) -> None:
    """Without any fault, a message that does not arrive everywhere, once and unchanged, is a message lost by the protocol."""
    group = three(order, multicast)
    question = group.send("a", b"question")
    group.wait(0.5)
    group.send("b", b"answer", reply_to=question)
    group.send("c", b"both", after=[question])
    group.wait(0.5)
    for name in "abc":
        assert sorted(group.payloads(name)) == [b"answer", b"both", b"question"]
        assert group.endpoint[name].ordering.held == 0
    assert group.check() == []


@every_repaired_group
def test_what_is_lost_is_repaired(order: str, multicast: str, delivery: str) -> None:
    """Every second frame is lost for a while, the last before a silence too: who repairs only on new traffic never notices."""
    group = three(order, multicast, delivery)
    group.rule("drop data every 2nd")
    group.rule("drop record first 3")
    for number in range(8):
        for name in "abc":
            group.send(name, b"%d" % number)
        group.wait(0.01)
    group.rules.clear()
    group.wait(20.0)
    assert {len(group.payloads(name)) for name in "abc"} == {24}
    assert group.check() == []


@every_group
def test_nothing_is_delivered_twice_when_every_frame_comes_twice(order: str, multicast: str) -> None:
    """A duplicate that reaches the application is a payment made twice."""
    group = three(order, multicast)
    group.rule("duplicate frames")
    for number in range(5):
        group.send("b", b"%d" % number)
        group.wait(0.1)
    group.wait(2.0)
    assert {len(group.payloads(name)) for name in "abc"} == {5}
    assert group.check() == []


@every_group
def test_a_message_larger_than_a_frame_arrives_whole(order: str, multicast: str) -> None:
    """A photograph must arrive like a word does."""
    group = three(order, multicast, settings=Settings(frame_bytes=400))
    large = random.Random(1).randbytes(5_000)
    group.send("a", b"before")
    group.send("a", large)
    group.send("a", b"after")
    group.wait(3.0)
    for name in "abc":
        assert sorted(group.payloads(name)) == sorted([b"before", large, b"after"])
    assert group.check() == []


@every_group
def test_what_is_no_frame_is_counted_and_forgotten(order: str, multicast: str) -> None:
    """A port scanner, or a broken peer, must not be able to stop a member."""
    group = three(order, multicast)
    endpoint = group.endpoint["a"]
    for wire in (b"", b"\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x01\x95" + b"\xff" * 40, b"\x02\x00\x00", bytes(2_000_000)):
        endpoint.receive(0.0, None, wire)
    assert sum(endpoint.context.drops.values()) == 6
    group.send("b", b"still here")
    group.wait(1.0)
    assert group.payloads("a") == [b"still here"]


@every_group
@given(seed=st.integers(0, 2**32))
@settings(max_examples=30)
def test_no_bytes_raise(order: str, multicast: str, seed: int) -> None:
    """One flipped bit in a frame must never become an exception in the event loop."""
    rng = random.Random(seed)
    group = three(order, multicast, settings=Settings(frame_bytes=400))
    wires: list[bytes] = []
    for name in "abc":
        group.send(name, rng.randbytes(rng.choice((3, 900))))
        wires += [wire for _, wire in group.endpoint[name].drain(0.0).sends]
    endpoint = group.endpoint["a"]
    for wire in wires * 3:
        broken = bytearray(wire)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        endpoint.receive(0.0, group.id_of["b"], bytes(broken[: rng.randint(1, len(broken))] if rng.random() < 0.3 else broken))
    endpoint.tick(10.0)
    endpoint.drain(10.0)


@every_repaired_group
def test_credit_is_whole_again_after_a_view_change(order: str, multicast: str, delivery: str) -> None:
    """Credit that a dead member took with it would block the others for ever."""
    group = three(order, multicast, delivery, window=4)
    group.wait(0.1)
    group.rule("drop frames from c")
    for _ in range(4):
        group.send("a", b"x")
    with pytest.raises(WouldBlock):
        group.send("a", b"x")
    group.wait(3.0)
    assert group.endpoint["a"].credit == 0
    group.install("a", "b")
    assert group.endpoint["a"].credit == 4
    group.send("a", b"y")
    group.wait(3.0)
    assert len(group.payloads("b")) == len(group.payloads("a")) == 5


@every_group
def test_a_refused_send_changes_nothing(order: str, multicast: str) -> None:
    """A message that was refused must not leave a gap in its sender's numbers, for which all others would wait."""
    group = three(order, multicast, settings=Settings(message_bytes=100))
    with pytest.raises(TooLarge, match="split it"):
        group.send("a", bytes(101))
    with pytest.raises(InvalidOption, match="bytes"):
        group.send("a", "text")  # type: ignore[arg-type]
    sent = group.send("a", b"x")
    group.wait(1.0)
    assert sent.seqno == 1
    assert group.payloads("c") == [b"x"]


@every_group
def test_one_can_always_ask_why(order: str, multicast: str) -> None:
    """Nobody can see why a message waits: the complaint about every other system."""
    group = three(order, multicast)
    sent = group.send("b", b"x")
    assert group.endpoint["b"].why(sent).state == "held"
    group.wait(1.0)
    assert group.endpoint["a"].why(sent).state == "delivered"
    assert group.endpoint["a"].why(MessageId(sent.sender, 99)).state == "unknown"
    assert group.endpoint["a"].why(MessageId(MemberId("nobody#0"), 1)).state == "unknown"
    for name in "abc":
        assert json.loads(json.dumps(group.endpoint[name].stats()))


@every_repaired_group
def test_every_promise_in_bad_weather(order: str, multicast: str, delivery: str) -> None:
    """The promise of a group is for bad days; five members, loss, duplicates and disorder, and every oracle of the order."""
    network = NetworkModel(latency=Uniform(0.001, 0.05), loss=0.1, duplicate=0.1, reorder=0.2)
    world = ViewWorld(11, "abcde", GroupOptions(order=order, multicast=multicast, delivery=delivery), None, network)
    workload = Workload(world, 11, messages=60, span_s=1.0)
    world.run(1.0)
    workload.stop()
    world.settle(60.0)
    world.run(5.0)
    assert workload.waiting == 0
    assert check(world.logs, order, multicast, delivery) == []


def test_combinations_that_cannot_work_are_refused_with_the_reason() -> None:
    """A group that would wait for ever must not be created."""
    for order in ORDERS:
        if not ORDERS[order].over_besteffort:
            with pytest.raises(InvalidOption, match="for ever"):
                pair(order, "besteffort")
    with pytest.raises(InvalidOption, match="besteffort does not know"):
        pair("unordered", "besteffort", delivery="safe")
    with pytest.raises(UsageError, match="choose one of"):
        pair("alphabetical")
    with pytest.raises(UsageError, match="choose one of"):
        pair("fifo", "pigeon")


def test_a_dead_sequencer_leaves_no_answer_before_its_question() -> None:
    """The sequencer read a question in an order it could tell nobody, answered, and died: the survivors hold question and answer, and no
    number for either. The question is delivered; the answer may be to something that died with the sequencer, and goes with it."""
    group = three("total", "reliable")
    group.rule("drop record from a")
    question = group.send("b", b"question")
    group.exchange()
    answer = group.send("a", b"answer", reply_to=question)
    group.exchange()
    group.wait(0.01)
    group.rule("drop frames from a")
    group.install("b", "c")
    assert group.delivered("b") == group.delivered("c") == [question]
    assert answer not in group.delivered("b")
    assert group.endpoint["b"].stats()["drops"]["lost_predecessor"] == 1  # type: ignore[index]
