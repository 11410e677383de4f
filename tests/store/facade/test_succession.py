"""Every number is a value, a gap, or the subscriber's own doing; checked against a model that looks at each number alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon.model.ranges import Ranges
from antiphon.store.records import Gap, Value
from antiphon.store.succession import Item, Succession


@given(
    there=st.sets(st.integers(1, 40)),
    floor=st.integers(0, 40),
    position=st.integers(0, 20),
    marked=st.sets(st.integers(1, 40), max_size=8),
    chunk=st.integers(1, 10),
    mutable=st.booleans(),
    behind=st.integers(0, 5),
)
def test_every_number_is_accounted_for(
    there: set[int], floor: int, position: int, marked: set[int], chunk: int, mutable: bool, behind: int
) -> None:
    """A value that is gone would be passed over in silence, or one that is there be called gone."""
    marks = Ranges((number, number) for number in sorted(marked) if number > position)
    succession = Succession(position, marks)
    succession.mutable = mutable
    values = [Value(seq, 0, b"") for seq in sorted(there) if seq > floor and seq > position]
    items: list[Item] = []
    for at in range(0, len(values), chunk):
        part = values[max(at - 2, 0) : at + chunk]  # a reader that is opened anew may give some again
        items += succession.items(part, floor)
    gone = max([floor, *there]) + behind if behind else 0  # so many behind the newest value were removed
    items += succession.items([], floor, gone)
    told: dict[int, str] = {}
    for item in items:
        for number in range(item.first, item.last + 1) if isinstance(item, Gap) else (item.seq,):
            assert number not in told, "told twice"
            told[number] = item.why if isinstance(item, Gap) else "value"
    assert list(told) == sorted(told)
    end = max([floor, gone, *(value.seq for value in values)])
    for number in range(position + 1, end + 1):
        if number in there and number > floor:
            assert told.pop(number) == "value"
        elif mutable or number in marks:
            assert number not in told
        else:
            assert told.pop(number) == ("collected" if number <= floor else "removed")
        assert (number in succession.passed) == (number not in there or number <= floor)
    assert not told
    assert succession.cursor == max(position, end)


def test_what_is_at_or_before_the_position_is_forgotten_and_nothing_else() -> None:
    """The position could not follow over a gap that touches it."""
    succession = Succession(0, Ranges())
    succession.skip(1, 2)
    succession.skip(4, 4)
    succession.skip(6, 9)
    succession.forget(3)
    assert list(succession.passed) == [(4, 4), (6, 9)]
    succession.forget(7)
    assert list(succession.passed) == [(6, 9)]
