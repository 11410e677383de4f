"""The canonical order, looked at by itself: a linear extension of what happened before what, and the same from every description of it."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from antiphon.model.control import Epoch
from antiphon.model.frames import Batch
from antiphon.model.ids import GroupId, MemberId
from antiphon.protocol.sync.canonical import Piece, Stub, by_outcome, by_time, in_order

GROUP = GroupId("trip#1")


def batch(sender: str, first: int, count: int = 1, sent_at: float = 0.0) -> Batch:
    return Batch.compose(GROUP, MemberId(sender), 1, first, [b"x"] * count, sent_at=sent_at)


@st.composite
def epoch_graphs(draw: st.DrawFn) -> list[Epoch]:
    """Epochs 1 … n, each growing from some earlier ones."""
    count = draw(st.integers(1, 25))
    epochs = []
    for number in range(1, count + 1):
        parents = draw(st.sets(st.integers(max(1, number - 4), number - 1), max_size=3)) if number > 1 else set()
        epochs.append(Epoch(number, draw(st.integers(1, 4)), tuple(sorted(parents))))
    return epochs


@given(epoch_graphs(), st.randoms(use_true_random=False))
def test_epochs_come_after_those_they_grew_from(epochs: list[Epoch], rng: random.Random) -> None:
    """A message would come before one that its sender had seen in an earlier view; or two members would disagree."""
    order = in_order(epochs)
    place = {epoch: index for index, epoch in enumerate(order)}
    assert sorted(order) == [epoch.id for epoch in epochs]
    assert all(place[parent] < place[epoch.id] for epoch in epochs for parent in epoch.parents)
    shuffled = epochs[:]
    rng.shuffle(shuffled)
    assert in_order(shuffled) == order


def test_of_two_that_could_be_next_the_larger_comes_first() -> None:
    """Sides would sort each other by luck."""
    split = [Epoch(1, 5), Epoch(2, 2, (1,)), Epoch(3, 3, (1,)), Epoch(4, 3, (2,)), Epoch(5, 5, (3, 4))]
    assert in_order(split) == [1, 3, 2, 4, 5]
    assert in_order([Epoch(1, 2), Epoch(2, 1, (1,)), Epoch(3, 1, (1,))]) == [1, 2, 3]


def test_a_circle_of_epochs_is_no_circle() -> None:
    """A peer that names a later view as a parent would make the order loop, or leave views out."""
    assert in_order([Epoch(1, 1, (2, 1)), Epoch(2, 1, (1, 7)), Epoch(3, 9, (99,))]) == [3, 1, 2]


@st.composite
def runs(draw: st.DrawFn) -> list[tuple[str, int, int, float]]:
    """Batches of a few senders, with growing times per sender."""
    result = []
    for sender in "abc"[: draw(st.integers(1, 3))]:
        first, time = 1, 0.0
        for count in draw(st.lists(st.integers(1, 4), max_size=6)):
            time += draw(st.sampled_from([0.0, 0.5, 1.0]))
            result.append((sender, first, count, time))
            first += count
    return result


@given(runs(), st.randoms(use_true_random=False))
def test_it_does_not_show_how_messages_were_cut_and_when_they_came(batches: list[tuple[str, int, int, float]], rng: random.Random) -> None:
    """Two members that got the same messages in other pieces would have another history."""
    whole = [batch(*run) for run in batches]
    expected = by_time((one, one.first, one.last) for one in whole)
    pieces: list[Piece] = []
    for one in whole:
        cuts = sorted(rng.sample(range(one.first + 1, one.last + 1), rng.randint(0, one.last - one.first)))
        pieces += [(one, low, high - 1) for low, high in pairwise([one.first, *cuts, one.last + 1])]
    rng.shuffle(pieces)
    assert by_time(pieces) == expected
    for sender in "abc":
        numbers = [number for one, low, high in expected if one.sender == sender for number in range(low, high + 1)]
        assert numbers == sorted(numbers)


def test_the_first_outcome_counts() -> None:
    """What one side had delivered before the split would move, because the other side ended the epoch otherwise."""
    a, b, c = batch("a", 1, 3), batch("b", 1), batch("c", 1)
    larger: list[Piece] = [(a, 1, 2), (b, 1, 1)]
    smaller: list[Piece] = [(Stub(MemberId("a")), 1, 2), (c, 1, 1), (Stub(MemberId("b")), 1, 1), (a, 3, 3)]
    assert by_outcome([larger, smaller]) == [(a, 1, 2), (b, 1, 1), (c, 1, 1), (a, 3, 3)]
    assert by_outcome([smaller, larger]) == [(a, 1, 2), (c, 1, 1), (b, 1, 1), (a, 3, 3)]


def test_a_place_without_its_message_stays_a_place() -> None:
    """Messages that were forgotten would take others along."""
    a = batch("a", 1, 4)
    stub = Stub(MemberId("a"))
    assert by_outcome([[(stub, 1, 4)], [(a, 2, 3)]]) == [(stub, 1, 1), (a, 2, 3), (stub, 4, 4)]
