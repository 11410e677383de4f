"""Ranges against the plain set of numbers they stand for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon.model.ranges import Ranges

pieces = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 8)).map(lambda piece: (piece[0], piece[0] + piece[1])), max_size=30)


def numbers(ranges: Ranges) -> set[int]:
    return {number for low, high in ranges for number in range(low, high + 1)}


@given(pieces)
def test_it_holds_what_was_added_and_nothing_else(added: list[tuple[int, int]]) -> None:
    """A delivered message would be forgotten, or one that never came would count as delivered."""
    ranges, model = Ranges(), set()
    for low, high in added:
        ranges.add(low, high)
        model |= set(range(low, high + 1))
        assert numbers(ranges) == model
        assert [number for number in range(75) if number in ranges] == sorted(model)
        # Sorted, disjoint and not touching: otherwise in-order traffic would cost more than one range.
        assert all(low <= high for low, high in ranges)
        assert all(before + 1 < after for before, after in zip(ranges.highs, ranges.lows[1:], strict=False))


@given(pieces, st.integers(1, 70), st.integers(0, 20))
def test_what_is_missing_is_the_rest(added: list[tuple[int, int]], low: int, more: int) -> None:
    """A gap would be asked for that is none, or never asked for at all."""
    ranges = Ranges(added)
    gaps = ranges.missing(low, low + more)
    assert {number for first, last in gaps for number in range(first, last + 1)} == set(range(low, low + more + 1)) - numbers(ranges)
    assert gaps == sorted(gaps)


@given(pieces, st.integers(0, 70))
def test_what_joins_a_position_leaves_the_ranges(added: list[tuple[int, int]], position: int) -> None:
    """The position without a gap would stop short, or jump over a message that is missing."""
    ranges = Ranges(added)
    model = numbers(ranges)
    reached = ranges.pop_up_to(position)
    expected = position
    while expected + 1 in model:
        expected += 1
    # A range that straddles the position ends where the range ends.
    assert reached == max(expected, position)
    assert numbers(ranges) == {number for number in model if number > reached}


def test_order_costs_one_range() -> None:
    """Memory would grow with history."""
    ranges = Ranges()
    for number in range(1, 10_001):
        ranges.add(number, number)
    assert list(ranges) == [(1, 10_000)]


def test_the_two_slips_of_the_original_algorithms() -> None:
    """The source compares the wrong way round and extends the wrong range: a message between two ranges must join them."""
    ranges = Ranges([(1, 3), (5, 7), (11, 12)])
    assert 4 not in ranges
    assert 6 in ranges
    assert 8 not in ranges
    ranges.add(4, 4)
    assert list(ranges) == [(1, 7), (11, 12)]
    ranges.add(8, 8)
    assert list(ranges) == [(1, 8), (11, 12)]
    ranges.add(10, 10)
    assert list(ranges) == [(1, 8), (10, 12)]
