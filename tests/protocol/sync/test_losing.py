"""What nobody keeps any more, members that keep only ids, and peers that talk nonsense."""

from __future__ import annotations

import random
from typing import Any

import pytest

from antiphon.model import codec
from antiphon.model.control import Epoch, Item, SyncAgain, SyncAnswer, SyncRequest, Wants
from antiphon.model.events import MissedMessages
from antiphon.model.ids import GroupId, MemberId

GROUP = GroupId("trip#1")


@pytest.mark.parametrize("order", ["fifo", "total"])
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_what_everybody_forgot_is_a_gap(make_bus: Any, order: str, loss: float) -> None:
    """A member that was away too long would wait for ever, or believe that it has everything."""
    bus = make_bus(1, order, loss=loss)
    bus.add("A", "B", "N", history_messages=5)
    bus.install("A", "B")
    for _ in range(20):
        bus.send("A")
    bus.install("A", "B", "N")
    bus.until("N", seconds=300)
    newcomer = bus.members["N"]
    assert newcomer.delivered == [f"A{number}" for number in range(16, 21)]
    assert newcomer.gaps == [MissedMessages({MemberId("A"): [1, 15]})]
    assert newcomer.history.have() == {MemberId("A"): [1, 20]}


def test_one_who_remembers_is_enough(make_bus: Any) -> None:
    """Those who forgot would speak for those who did not, and the application would be told of a loss that is none."""
    for seed in range(10):
        bus = make_bus(seed, loss=0.2)
        bus.add("A", "B", history_messages=5)
        bus.add("C", "N")
        bus.install("A", "B", "C")
        for _ in range(20):
            bus.send("A")
        bus.install("A", "B", "C", "N")
        bus.until("N")
        assert bus.members["N"].delivered == [f"A{number}" for number in range(1, 21)]
        assert not bus.members["N"].gaps


def test_one_side_remembers_what_another_forgot(make_bus: Any) -> None:
    """A side of one that lacks the past would declare it lost for everybody who comes."""
    bus = make_bus(2)
    bus.add("A", "P", "N")
    bus.install("A")
    bus.send("A", 5)
    bus.members["P"].wants = Wants("none")
    bus.install("A", "P")
    bus.until("P")
    bus.install("A")
    bus.install("P")
    bus.install("A", "P", "N")
    bus.until("A", "P", "N")
    assert bus.members["N"].delivered == [f"A{number}" for number in range(1, 6)]
    assert bus.members["P"].delivered == []
    assert not bus.members["N"].gaps


def test_members_that_keep_only_ids(make_bus: Any) -> None:
    """A member with little memory would answer with nothing in place of those who have the messages."""
    for seed in range(10):
        bus = make_bus(seed)
        bus.add("A", "B", retention="ids")
        bus.add("C", "N")
        bus.install("A", "B", "C")
        bus.send("A", 5)
        bus.install("A", "B", "C", "N")
        bus.until("N")
        assert bus.members["N"].delivered == [f"A{number}" for number in range(1, 6)]


def test_when_all_keep_only_ids_there_is_a_gap(make_bus: Any) -> None:
    """Nobody would say that the messages are gone."""
    bus = make_bus(3)
    bus.add("A", "B", "N", retention="ids")
    bus.install("A", "B")
    bus.send("A", 5)
    bus.install("A", "B", "N")
    bus.until("N")
    assert bus.members["N"].gaps == [MissedMessages({MemberId("A"): [1, 5]})]


def test_many_who_forgot_do_not_all_say_so(make_bus: Any) -> None:
    """A hundred members would each send their list of what is lost."""
    names = [f"m{number:02}x" for number in range(30)]
    bus = make_bus(4)
    bus.add(*names, "N", history_messages=1)
    bus.install(*names)
    bus.send(names[0], 1)
    bus.send(names[0], 1)
    bus.install(*names, "N")
    bus.until("N")
    assert bus.members["N"].gaps
    assert bus.sent["sync-answer"] <= 25


def test_a_side_that_is_dead_is_given_up(make_bus: Any) -> None:
    """A member would catch up with the dead for ever, and its application would never see the new view's messages."""
    bus = make_bus(5)
    bus.add("A", "B", "C")
    bus.install("A")
    bus.install("B", "C")
    bus.send("A", 2)
    bus.send("B", 2)
    bus.install("A", "B", "C")
    bus.members["A"].alive = False
    bus.run(300)
    assert bus.members["B"].done == bus.members["C"].done == 1
    assert bus.members["B"].port.drops["sides_given_up"] == 1


def test_late_and_doubled_frames_change_nothing(make_bus: Any) -> None:
    """A frame that was delayed by a minute would be answered, or delivered, again."""
    bus = make_bus(6)
    bus.add("A", "B", "C")
    bus.install("A", "B")
    bus.send("A", 3)
    bus.send("B", 3)
    bus.install("A", "B", "C")
    bus.until("C")
    frames = [codec.encode(frame) for _, frame in bus.log]
    answers = bus.sent["sync-answer"]
    for wire in frames * 2:
        for member in bus.members.values():
            member.receive(wire)
    bus.run(10)
    assert bus.sent["sync-answer"] == answers
    assert bus.members["C"].delivered == bus.members["A"].delivered
    bus.install("A", "B", "C")
    for wire in frames:
        bus.members["A"].receive(wire)
    assert bus.members["A"].port.drops["other_view"] == len(frames)


def test_an_answer_that_makes_no_sense_does_not_put_the_next_question_off(make_bus: Any) -> None:
    """The other parts of it would be taken for a new answer, which is fetched again, makes no sense again, and so on for ever."""
    bus = make_bus(6)
    bus.add("A", "B")
    bus.install("A")
    bus.send("A", 3)
    bus.install("A", "B")
    bus.members["A"].alive = False
    while not bus.sent["sync-request"]:
        bus.run(0.01)
    nonsense = SyncAnswer(GROUP, MemberId("A"), 2, MemberId("B"), 1, 0, 2, (Item(9, MemberId("A"), 1, 3),))
    rest = SyncAnswer(GROUP, MemberId("A"), 2, MemberId("B"), 1, 1, 2)
    for _ in range(20):
        bus.members["B"].receive(codec.encode(nonsense))
        bus.members["B"].receive(codec.encode(rest))
        bus.run(0.2)
    assert bus.sent["sync-request"] > 2
    bus.members["A"].alive = True
    bus.until("B")
    assert bus.members["B"].delivered == ["A1", "A2", "A3"]


def test_who_sees_in_a_question_that_it_lacks_something_asks(make_bus: Any) -> None:
    """A member that had given a side up would never get what that side has after all."""
    bus = make_bus(7)
    bus.add("A", "B")
    bus.install("A")
    bus.install("B")
    bus.send("A", 2)
    bus.send("B", 2)
    bus.install("A", "B")
    lazy = bus.members["A"]
    lazy.sync._asker._attempt = 99
    lazy.sync._asker._ask()
    assert lazy.done == 1
    bus.run(10)
    assert sorted(lazy.delivered) == ["A1", "A2", "B1", "B2"]
    assert lazy.done == 1


@pytest.mark.parametrize("order", ["fifo", "total"])
@pytest.mark.parametrize("seed", range(20))
def test_nonsense_is_dropped(make_bus: Any, order: str, seed: int) -> None:
    """A peer with a fault would stop every member that hears it."""
    rng = random.Random(seed)
    bus = make_bus(seed, order)
    bus.add(*"ABC", chunk_bytes=200)
    bus.install("A")
    bus.install("B", "C")
    bus.send("A", 5)
    batch = bus.send("B", 5)
    bus.install(*"ABC")
    wire = codec.encode(batch)

    def number() -> int:
        return rng.choice([0, 1, 1, 2, 3, 4, 5, 7, 1 << 61])

    def holdings() -> dict[MemberId, list[int]]:
        return {MemberId(rng.choice("ABCX")): [number() for _ in range(rng.randint(0, 4))] for _ in range(rng.randint(0, 2))}

    def item() -> Item:
        body = rng.choice([b"", wire, wire[:9], b"\x01\x95", codec.encode(SyncAgain(GROUP, MemberId("B"), 3, MemberId("A"), 1, ()))])
        return Item(rng.choice([0, 0, 1, 9]), MemberId(rng.choice("ABX")), number() or 1, number() or 1, body, rng.random() < 0.2)

    for _ in range(400):
        bus.run(0.01)
        who = MemberId(rng.choice("BC"))
        request = SyncRequest(
            *(GROUP, who, 3, number() or 1, number(), number() or 1, tuple(number() for _ in range(rng.randint(0, 3)))),
            Wants(
                rng.choice(["all", "none", "last", "since", "state", "???"]), number(), rng.choice([0.0, -1.0, float("nan"), float("inf")])
            ),
            *(holdings(), tuple(number() for _ in range(2)), ((number(), number(), number()),), holdings(), number()),
        )
        answer = SyncAnswer(
            *(GROUP, who, 3, MemberId(rng.choice("ABCX")), number() or 1, rng.choice([0, 0, 1, 5]), rng.choice([1, 1, 2, 1 << 61])),
            *(tuple(item() for _ in range(rng.randint(0, 3))), ((number(), number(), number()),)),
            *((Epoch(number(), number(), (number(), number())),), holdings(), holdings(), holdings(), rng.random() < 0.5),
        )
        again = SyncAgain(GROUP, who, 3, MemberId(rng.choice("ABC")), number() or 1, (number(), number()))
        for frame in (request, answer, again):
            bus.members["A"].receive(codec.encode(frame))
        bus.members["A"].history.messages()
    bus.run(60)
    assert len(bus.members["A"].delivered) == len(set(bus.members["A"].delivered))
