"""The comparison: same arrivals for all orders, own promises kept, broken ones seen."""

from __future__ import annotations

import json
from functools import cache

import pytest

from antiphon.errors import InvalidOption
from antiphon.model.ids import MessageId
from antiphon.model.options import GroupOptions, Settings
from antiphon.sim.compare import ORDERS, Comparison, compare, settings_for
from antiphon.sim.conversation import Conversation, Line, load, shipped
from antiphon.sim.log import Received, Sent
from antiphon.sim.network import NetworkModel, Uniform
from antiphon.sim.replay import Replay
from antiphon.sim.view_world import ViewWorld


@cache
def choir() -> Comparison:
    """The shipped conversation, fast enough that lines cross each other on their way."""
    return compare(shipped(), loss=0.05, rate=20.0, seed=3)


def test_no_order_breaks_its_own_promise():
    """The table would advertise an order that does not do what it says."""
    for result in choir().results:
        assert result.settled, f"{result.order} did not come to an end"
        assert result.broken == {}
        assert result.hold_back.deliveries == 120 * 7, f"{result.order} delivered less than everything"
    assert choir().ok


def test_what_is_not_promised_is_seen_to_break():
    """The conversation would be too tame to show what an order is for, or the oracles blind."""
    violations = {result.order: result.violations for result in choir().results}
    for promise in ("fifo", "causal", "total", "parent_before_child"):
        assert violations["unordered"][promise] > 0, promise
    assert violations["fifo"]["parent_before_child"] > 0
    assert violations["causal"]["total"] > 0
    assert violations["semantic"]["causal"] > 0


def test_the_stronger_promise_waits_longer():
    """The picture that this project was started for would be wrong."""
    held = {result.order: result.hold_back for result in choir().results}
    assert held["unordered"].held == 0
    assert 0 < held["semantic"].held < held["causal"].held < held["total"].held
    assert held["semantic"].mean_s < held["causal"].mean_s < held["total"].mean_s
    for one in held.values():
        assert one.p50_s <= one.p99_s <= one.max_s <= one.end_to_end_mean_s + 10.0
        assert one.held_share == one.held / one.deliveries


def arrivals(talk: Conversation, order: str, loss: float) -> tuple[list[MessageId], dict[tuple[MessageId, str], float]]:
    """The message of each line, and how long it travelled to each member that it reached; nothing is repaired."""
    settings = Settings(nack_s=1_000.0, nack_max_s=1_000.0, parent_s=1_000.0, batch_messages=1)
    network = NetworkModel(latency=Uniform(0.02, 0.2), loss=loss, keyed=True)
    world = ViewWorld(seed=5, members=tuple("abcd"), options=GroupOptions(order=order), settings=settings, network=network)
    replay = Replay(world, talk, [0.1 * place for place in range(len(talk.lines))])
    world.run(60.0)
    sent_at = {event.id: event.at for log in world.logs for event in log.events if type(event) is Sent}
    journeys = {
        (event.id, log.member): event.at - sent_at[event.id] for log in world.logs for event in log.events if type(event) is Received
    }
    return [replay.message(line.id) for line in talk.lines], journeys


def test_the_same_message_travels_equally_long_in_every_order():
    """The orders would be compared on different networks, and chance called the order's doing."""
    talk = shipped().part(0, 60)
    messages, journeys = arrivals(talk, "unordered", loss=0.0)
    assert len(journeys) == 60 * 4
    for order in ORDERS[1:]:
        numbered, others = arrivals(talk, order, loss=0.0)
        assert numbered == messages, "a line has the same number in every order"
        assert others == pytest.approx(journeys, abs=1e-9)


def test_the_same_messages_are_lost_in_every_order():
    """One order would look slow because it had bad luck."""
    monologues = Conversation("talk", tuple(Line(line.id, line.author, (), line.text) for line in shipped().lines))
    _, journeys = arrivals(monologues, "unordered", loss=0.1)
    assert 0.6 * 480 < len(journeys) < 480, "some copies were lost"
    for order in ORDERS[1:]:
        # Nobody answers, so nothing is postponed, and the times are the very same.
        assert arrivals(monologues, order, loss=0.1)[1] == journeys


def test_an_answer_is_postponed_until_its_question_was_read_and_later_lines_queue_behind_it():
    """Members would answer what they cannot have read, or swap their own lines."""
    lines = (Line("q", "ana", (), "?"), Line("a", "bo", ("q",), "!"), Line("b", "bo", (), "by the way"))
    world = ViewWorld(seed=1, members=("x", "y"), options=GroupOptions(order="semantic"), network=NetworkModel(latency=Uniform(0.5, 0.5)))
    replay = Replay(world, Conversation("talk", lines), [1.0, 1.1, 1.2])
    world.run(1.3)
    assert replay.left == 2
    world.run(1.0)
    assert replay.left == 0
    assert replay.postponed_s == pytest.approx([0.4, 0.3])
    assert [replay.message(line).seqno for line in "ab"] == [1, 2]


def test_unlinked_answers_leave_at_their_time_in_every_order():
    """A fast replay could only be compared at whatever rate each order happens to reach."""
    comparison = compare(shipped(), loss=0.05, rate=50.0, unread="unlink")
    assert comparison.ok
    assert len({result.spoken_rate for result in comparison.results}) == 1
    for result in comparison.results:
        assert result.postponed == 0
        assert 0 < result.unlinked < comparison.links
    slow = compare(shipped(), loss=0.05, rate=50.0)
    assert slow["total"].spoken_rate < slow["semantic"].spoken_rate < 50.0
    assert slow["total"].unlinked == 0


def test_refused_lines_are_said_when_there_is_room_again():
    """With a small window a conversation would lose lines."""
    lines = tuple(Line(str(number), "ana", (), "x") for number in range(20))
    world = ViewWorld(seed=1, members=("x", "y"), options=GroupOptions(order="fifo", window=2))
    replay = Replay(world, Conversation("talk", lines), [0.0] * 20)
    for _ in range(100):
        world.run(0.1)
    assert replay.left == 0
    assert replay.postponed_s


def test_the_same_seed_gives_the_same_numbers():
    """Nobody could check a published table."""
    talk = shipped()

    def once(seed: int) -> Comparison:
        return compare(talk, loss=0.05, rate=20.0, seed=seed, limit=30, orders=("causal", "semantic"))

    assert once(3) == once(3)
    assert once(3) != once(4)


def test_the_result_is_plain_data():
    """A table could be printed but not computed with."""
    plain = json.loads(json.dumps(choir().as_dict()))
    assert plain["messages"] == 120
    assert [result["order"] for result in plain["results"]] == list(ORDERS)
    assert plain["results"][0]["hold_back"]["mean_s"] == 0.0
    with pytest.raises(KeyError, match="was not compared"):
        choir()["alphabetic"]


def test_progress_is_told_and_ends_with_everything_sent():
    """A long comparison would look like a hanging one."""
    told: list[tuple[str, int, int]] = []
    compare(shipped(), loss=0.0, rate=20.0, limit=20, orders=("fifo", "total"), progress=lambda *news: told.append(news))
    assert {order for order, _, _ in told} == {"fifo", "total"}
    assert told[-1] == ("total", 20, 20)


def test_settings_do_not_ask_for_what_may_still_be_on_its_way():
    """Half of the traffic would be repairs of messages that were not lost."""
    chosen = settings_for((0.02, 0.2))
    assert chosen.nack_s >= 0.2 - 0.02
    assert chosen.parent_s >= 0.2 - 0.02
    assert chosen.batch_messages == 1
    assert settings_for((0.0, 0.0)).nack_s == Settings().nack_s


@pytest.mark.parametrize(
    ("wrong", "story"),
    [
        ({"loss": 1.0}, "loss"),
        ({"loss": -0.1}, "loss"),
        ({"rate": 0.0}, "rate"),
        ({"rate": float("nan")}, "rate"),
        ({"delay": (0.2, 0.1)}, "delay"),
        ({"delay": (-0.1, 0.1)}, "delay"),
        ({"members": 1}, "members"),
        ({"members": 1_000}, "members"),
        ({"orders": ()}, "orders"),
        ({"orders": ("fifo", "fifo")}, "orders"),
        ({"orders": ("alphabetic",)}, "order"),
        ({"multicast": "pigeon"}, "multicast"),
        ({"multicast": "besteffort"}, "besteffort"),
        ({"limit": 0}, "limit"),
        ({"unread": "guess"}, "postpone, unlink"),
    ],
)
def test_what_cannot_be_compared_is_refused(wrong, story):
    """A slip in an option would give a table that means nothing."""
    options = {"loss": 0.0, "rate": 10.0, **wrong}
    with pytest.raises(InvalidOption, match=story):
        compare(shipped(), **options)


def test_a_real_conversation(annotated_chat):
    """What holds for a conversation that we wrote would not hold for one that happened."""
    comparison = compare(load(annotated_chat, limit=300), loss=0.02, rate=10.0)
    assert comparison.ok, {result.order: result.broken for result in comparison.results}
    assert comparison["unordered"].violations["parent_before_child"] > 0
    assert comparison["semantic"].hold_back.held < comparison["causal"].hold_back.held
    assert comparison["semantic"].hold_back.mean_s < comparison["total"].hold_back.mean_s / 10
