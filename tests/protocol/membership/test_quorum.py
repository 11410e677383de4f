"""Who may go on under the majority policy."""

from __future__ import annotations

from itertools import chain, combinations

import pytest

from antiphon.model.ids import MemberId
from antiphon.protocol.membership.quorum import Chain, is_majority, lacking


def ids(names: str) -> tuple[MemberId, ...]:
    return tuple(MemberId(name) for name in names)


def test_of_two_members_the_first_goes_on() -> None:
    """A group of two would stop with any failure, or both halves would go on."""
    assert is_majority(ids("a"), ids("ab"))
    assert not is_majority(ids("b"), ids("ab"))


@pytest.mark.parametrize("size", range(1, 8))
def test_no_two_sides_of_a_view_both_have_a_majority(size: int) -> None:
    """Two sides would go on at once, and `majority` would promise nothing."""
    members = ids("abcdefg"[:size])
    sides = chain.from_iterable(combinations(members, count) for count in range(size + 1))
    for side in sides:
        rest = [member for member in members if member not in side]
        assert not (is_majority(side, members) and is_majority(rest, members))


def test_a_majority_shrinks_with_the_group() -> None:
    """After five became three, two of the three could not go on, though the others are gone for good."""
    five, three = (1, ids("abcde")), (2, ids("abc"))
    stable: Chain = (three,)
    assert lacking(ids("ab"), [stable, stable]) is None
    assert lacking(ids("c"), [stable]) == (1, 3)
    assert lacking(ids("abc"), [(five,)]) is None


def test_a_view_that_may_not_be_everywhere_counts_with_the_one_before() -> None:
    """{A, B} would go on in the new view {A, B, C}, and C with D and E in the old one."""
    five, three = (1, ids("abcde")), (2, ids("abc"))
    unstable: Chain = (five, three)
    assert lacking(ids("cde"), [unstable, (five,), (five,)]) == (1, 3)
    assert lacking(ids("ab"), [unstable, unstable]) == (2, 5)
    assert lacking(ids("ab"), [(three,), unstable]) is None, "one of them knows that the new view is stable"


def test_newcomers_do_not_make_a_majority() -> None:
    """A minority could let friends in until it is one."""
    assert lacking(ids("axyz"), [((1, ids("abc")),)]) == (1, 3)
    assert lacking(ids("xyz"), [()]) is None, "nobody has a view yet"
