"""What the participants of an old view hold together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon.protocol.membership.flush import is_well_formed, union


def numbers(stream: list[int]) -> set[int]:
    held = set(range(1, stream[0] + 1))
    for low, high in zip(stream[1::2], stream[2::2], strict=True):
        held |= set(range(low, high + 1))
    return held


def stream_of(held: set[int]) -> list[int]:
    high = 0
    while high + 1 in held:
        high += 1
    stream, rest = [high], sorted(number for number in held if number > high)
    for number in rest:
        if len(stream) > 1 and stream[-1] == number - 1:
            stream[-1] = number
        else:
            stream += (number, number)
    return stream


@given(st.lists(st.lists(st.sets(st.integers(1, 12)), min_size=2, max_size=2), min_size=1, max_size=4))
def test_the_union_holds_what_anyone_holds(members: list[list[set[int]]]) -> None:
    """A message that one survivor has delivered would not be fetched by the others, or one that nobody has be waited for."""
    holdings = [[stream_of(held) for held in streams] for streams in members]
    whole = union(holdings)
    for at in range(2):
        assert numbers(whole[at]) == set().union(*(streams[at] for streams in members))
    assert is_well_formed(whole, 2)


def test_what_is_no_holding_is_recognised() -> None:
    """A participant's nonsense would become the target of everyone."""
    assert is_well_formed([[5], [0, 2, 2], [3, 5, 6, 8, 8]], 3)
    assert not is_well_formed([[5]], 2)
    assert not is_well_formed([[5, 6]], 1)
    assert not is_well_formed([[]], 1)
    assert not is_well_formed([[5, 6, 9]], 1), "a range that touches the position is no range above it"
    assert not is_well_formed([[5, 9, 8]], 1)
    assert not is_well_formed([[5, 7, 8, 8, 9]], 1)
