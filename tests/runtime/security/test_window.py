"""No number twice, whatever the order in which they come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon.runtime.security.window import WINDOW, ReplayWindow


@given(st.lists(st.one_of(st.integers(1, 3 * WINDOW), st.integers(1, (1 << 64) - 1)), max_size=200))
def test_the_window_is_the_set_of_what_came(numbers: list[int]) -> None:
    """A recorded datagram would be taken again, or a late one for a recording."""
    window, came, highest = ReplayWindow(), set(), 0
    for number in numbers:
        assert window.fresh(number) == (number not in came and highest - number < WINDOW)
        if window.fresh(number):
            window.mark(number)
            came.add(number)
            highest = max(highest, number)


def test_a_window_of_4096_may_come_backwards() -> None:
    """A burst that took two ways through the network would be thrown away."""
    window = ReplayWindow()
    for number in range(WINDOW, 0, -1):
        assert window.fresh(number)
        window.mark(number)
    assert not any(window.fresh(number) for number in range(1, WINDOW + 1))


def test_a_window_that_begins_late_takes_what_has_just_been_sent_once() -> None:
    """What was sent while two nodes introduced themselves would be lost, or could be repeated."""
    window = ReplayWindow(highest=10_000)
    assert window.fresh(10_000)
    assert window.fresh(10_000 - WINDOW + 1)
    assert not window.fresh(10_000 - WINDOW)
    window.mark(10_000)
    assert not window.fresh(10_000)
