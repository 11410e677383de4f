from __future__ import annotations

import random

from antiphon.debugger.pattern import Pattern
from antiphon.debugger.rule import Rule
from antiphon.debugger.tap import Passage, Tap
from antiphon.model import codec
from antiphon.model.frames import Batch, Fragment
from antiphon.model.ids import GroupId, MemberId, MessageId

A, B, C = MemberId("a#1"), MemberId("b#2"), MemberId("c#3")
GROUP = GroupId("g#0")


def data(first: int, source: MemberId = A, destination: MemberId = B, count: int = 1) -> Passage:
    return Passage(source, destination, "data", codec.encode(Batch(GROUP, source, 1, first, [b"x"] * count)))


def tap(*rules: str, limit: int = 100) -> Tap:
    return Tap([Rule.parse(rule) for rule in rules], random.Random(1).random, limit)


def test_without_rules_everything_passes() -> None:
    """A debugger that nobody uses would change the group it watches."""
    assert tap().passing("out", data(1)) == [(data(1), 0.0)]


def test_drop_delay_and_duplicate_work_together_in_their_order() -> None:
    """Two rules for one frame would cancel each other out."""
    assert tap("duplicate data", "delay 50ms data", "delay 10ms data").passing("out", data(1)) == [(data(1), 0.060000000000000005)] * 2
    assert tap("delay 50ms data", "drop data").passing("out", data(1)) == []


def test_reorder_lets_the_next_frame_of_the_same_link_overtake() -> None:
    """A reordered frame would be lost, or swapped with a frame to somebody else."""
    swapping = tap("reorder data from a")
    assert swapping.passing("out", data(1)) == []
    assert swapping.passing("out", data(1, destination=C)) == []
    assert swapping.passing("out", data(2)) == [(data(2), 0.0), (data(1), 0.0)]
    assert swapping.passing("out", data(3)) == []
    assert swapping.passing("out", data(4)) == [(data(4), 0.0), (data(3), 0.0)]
    assert [held.passage for held in swapping.held] == [data(1, destination=C)]


def test_a_reordered_frame_comes_even_when_the_next_one_is_dropped() -> None:
    """Two rules together would lose a frame that neither of them drops."""
    both = tap("reorder data first 1", "drop data every 1st")
    assert both.passing("out", data(1)) == []
    assert both.passing("out", data(2)) == [(data(1), 0.0)]


def test_held_frames_are_released_oldest_first_by_pattern_by_message_and_by_count() -> None:
    """Somebody stepping through an interleaving would get another one."""
    holding = tap("hold data")
    frames = [data(1), data(1, destination=C), data(2), data(3, count=4)]
    for frame in frames:
        assert holding.passing("out", frame) == []
    assert holding.release(Pattern(destination="c")) == [("out", frames[1])]
    assert holding.release(message=MessageId(A, 5)) == [("out", frames[3])]
    assert holding.release(count=1) == [("out", frames[0])]
    assert holding.release(message=MessageId(B, 2)) == []
    assert holding.drop_held() == 1
    assert holding.held == []


def test_a_message_is_found_in_fragments_and_never_in_garbage() -> None:
    """A large message, or a broken frame, could not be released by name."""
    part = Passage(A, B, "fragment", codec.encode(Fragment(GROUP, A, 1, 7, 0, 2, b"half")))
    assert part.carries(MessageId(A, 7))
    assert not part.carries(MessageId(A, 8))
    assert not Passage(A, B, "unknown", b"\xff\xff").carries(MessageId(A, 7))


def test_a_tap_holds_a_bounded_number_of_frames() -> None:
    """A forgotten `hold` rule would eat the memory of the node it debugs."""
    holding = tap("hold data", limit=2)
    for number in range(1, 6):
        holding.passing("out", data(number))
    assert len(holding.held) == 2
    assert holding.overflow == 3
