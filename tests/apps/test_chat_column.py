"""A column against a plain list."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from antiphon.apps.chat.column import Column


def height_of(thing: int) -> int:
    return thing % 4 + 1


def check(column: Column[int], things: list[int]) -> None:
    rows = [(thing, row) for thing in things for row in range(height_of(thing))]
    assert list(column) == things
    assert (len(column), column.height) == (len(things), len(rows))
    assert [column.at(row) for row in range(-1, len(rows) + 1)] == [None, *rows, None]
    for place, thing in enumerate(things):
        assert rows[column.row_of(thing)] == (thing, 0)
        for step in (-300, -1, 1, 2, 300):
            other = place + step
            assert column.neighbour(thing, step) == (things[other] if 0 <= other < len(things) else None)


@given(st.integers(0, 40), st.lists(st.tuples(st.booleans(), st.integers(0, 1_000)), max_size=60))
def test_a_column_is_a_list_with_heights(filled: int, steps: list[tuple[bool, int]]) -> None:
    """The line under the mouse would be another than the one that is drawn there."""
    things = list(range(filled))
    column = Column(height_of)
    column.fill(things)
    for number, (inserts, where) in enumerate(steps, 1_000):
        if inserts or not things:
            place = where % (len(things) + 1)
            assert column.insert(number, things[place - 1] if place else None) == height_of(number)
            things.insert(place, number)
        else:
            gone = things.pop(where % len(things))
            assert column.remove(gone) == height_of(gone)
            assert gone not in column
            assert column.remove(gone) == 0
    check(column, things)


def test_a_long_column_stays_in_order() -> None:
    """A conversation of thousands of lines would lose its order where its parts meet."""
    rng, column, things = random.Random(3), Column(height_of), list[int]()
    column.fill(())
    for number in range(3_000):
        place = rng.choice((len(things), rng.randint(0, len(things))))
        column.insert(number, things[place - 1] if place else None)
        things.insert(place, number)
    for number in rng.sample(things, 1_500):
        column.remove(number)
        things.remove(number)
    check(column, things)
