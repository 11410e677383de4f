"""`history()`: one order for everybody, whatever the sides were and in whichever order they met."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.model.events import MissedMessages, Recovered
from antiphon.model.ids import MemberId, MessageId
from antiphon.model.options import GroupOptions

SIDES = ["ab", "cd", "ef"]
MEETINGS = {
    "all at once": [],
    "first two": [["abcd", "ef"]],
    "last two": [["ab", "cdef"]],
    "outer two": [["abef", "cd"]],
    "first two, then others": [["abcd", "ef"], ["ab", "cdef"]],
    "in a circle": [["abcd", "ef"], ["ab", "cdef"], ["abef", "cd"]],
}
ORDERS = ["unordered", "fifo", "causal", "total", "semantic"]


def speak(world: Any, names: str, answers: bool) -> list[MessageId]:
    """Each says something, and answers the last thing that it heard."""
    sent = []
    for name in names:
        sent.append(world.send(name, f"{name} at {world.now:.2f}".encode()))
        heard = world.stream(name)
        if answers and heard:
            sent.append(world.send(name, b"yes", reply_to=heard[-1]))
        world.run(0.02)
    return sent


@pytest.mark.parametrize("meeting", MEETINGS)
@pytest.mark.parametrize("order", ORDERS)
def test_three_sides_meet_in_any_order(gathered: Any, order: str, meeting: str) -> None:
    """Two members would show their users two different pasts, for ever."""
    world = gathered("abcdef", order=order)
    answers = order == "semantic"
    sent = speak(world, "abcdef", answers)
    world.partition(SIDES)
    sent += speak(world, "fbdace", answers)
    world.run(3.0)
    assert [world.seen(name) for name in "ace"] == SIDES
    sent += speak(world, "abcdef", answers)
    for parts in MEETINGS[meeting]:
        world.heal()
        world.partition(parts)
        assert world.settle(20.0)
        assert [world.seen(part[0]) for part in parts] == parts
        sent += speak(world, "eacbfd", answers)
    world.heal()
    assert world.settle(20.0)
    sent += speak(world, "abcdef", answers)
    assert world.settle(5.0)
    assert world.alike()
    history = world.history("a")
    assert sorted(history) == sorted(sent)
    for name in "abcdef":
        assert sorted(world.stream(name)) == sorted(sent)
        extends(world, name, order, history)
    assert world.check() == []


def extends(world: Any, name: str, order: str, history: list[MessageId]) -> None:
    """The history keeps what the order promised of every stream: senders' own orders, and answers after what they answer."""
    place = {message: index for index, message in enumerate(history)}
    if order in ("fifo", "causal", "total"):
        for stream in (world.stream(name), history):
            numbers: dict[MemberId, int] = {}
            for sender, seqno in stream:
                assert seqno > numbers.get(sender, 0)
                numbers[sender] = seqno
    for batch, low, high in world.member(name).history():
        for seqno in range(low, high + 1):
            assert all(place[parent] < place[batch.sender, seqno] for parent in batch.follows(seqno))


def test_total_order_within_one_side_is_the_order_of_its_history(gathered: Any) -> None:
    """A log read later would show decisions in another order than that in which everybody had acted on them."""
    world = gathered("abcd", order="total")
    world.partition(["abc", "d"])
    world.run(3.0)
    for number in range(5):
        world.burst("cab", 1, f"{number}")
    world.run(0.5)
    streams = [world.stream(name) for name in "abc"]
    assert streams[0] == streams[1] == streams[2] == world.history("b")
    world.burst("d", 3)
    world.heal()
    assert world.settle(20.0)
    assert world.alike()
    # The larger side first.
    assert world.history("d")[: len(streams[0])] == streams[0]
    assert world.check() == []


def test_a_member_that_was_alone_hears_the_others_after_its_own(gathered: Any) -> None:
    """The stream that an application has read would have to be rewritten."""
    world = gathered("abc", order="causal")
    world.partition(["ab", "c"])
    world.run(3.0)
    theirs, own = world.burst("ab", 2, "theirs"), world.burst("c", 2, "own")
    world.run(0.5)
    assert world.stream("c") == own
    world.heal()
    assert world.settle(20.0)
    assert world.stream("c")[:2] == own
    assert set(world.stream("c")[2:]) == set(theirs)
    assert [event.batch.sender for event in world.told("a", Recovered)] == [world.id_of("c")] * len(world.told("a", Recovered))
    assert sum(event.high - event.low + 1 for event in world.told("c", Recovered)) == len(theirs)
    assert world.check() == []


def bounded(company: Any, quick: Any, history_messages: int) -> Any:
    world = company("abcd", settings=quick(history_messages=history_messages))
    assert world.gather(options=GroupOptions(order="causal"))
    return world


def test_beyond_the_bound_the_other_side_is_told_of_a_gap(company: Any, quick: Any) -> None:
    """Messages would be missing on one side, and nobody would know that they ever existed."""
    world = bounded(company, quick, 20)
    world.partition(["ab", "cd"])
    world.run(3.0)
    for _ in range(50):
        world.send("a", b"more than is kept")
        world.run(0.01)
    late = world.burst("cd", 3, "few")
    world.run(0.5)
    world.heal()
    assert world.settle(20.0)
    assert world.told("a", MissedMessages) == world.told("b", MissedMessages) == []
    for name in "cd":
        (gap,) = world.told(name, MissedMessages)
        assert set(gap.lost) == {world.id_of("a")}
        flat = gap.lost[world.id_of("a")]
        missing = {seqno for low, high in zip(flat[::2], flat[1::2], strict=True) for seqno in range(low, high + 1)}
        got = {seqno for sender, seqno in world.stream(name) if sender == world.id_of("a")}
        assert missing | got == set(range(1, 51))
        assert not missing & got
        assert got, "what is still kept must come"
    assert set(late) <= set(world.stream("a"))
    assert world.check() == []


def test_what_is_kept_within_the_bound_is_the_same_everywhere(company: Any, quick: Any) -> None:
    """Two members that keep the last twenty messages would keep twenty different ones, or in another order."""
    world = bounded(company, quick, 20)
    for _ in range(15):
        world.burst("abcd", 1)
        world.run(0.05)
    world.partition(["ab", "cd"])
    world.run(3.0)
    for _ in range(15):
        world.burst("abcd", 1)
        world.run(0.05)
    world.heal()
    assert world.settle(20.0)
    for _ in range(6):
        world.burst("abcd", 1)
        world.run(0.05)
    assert world.settle(5.0)
    histories = [world.history(name) for name in "abcd"]
    for history in histories:
        assert 15 <= len(history) <= 20
        common = set(history) & set(histories[0])
        assert [message for message in history if message in common] == [message for message in histories[0] if message in common]
    assert world.check() == []
