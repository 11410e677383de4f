"""What may go: the rule with sets of ranges against a plain model that asks for each value and each subscriber."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.model.ranges import Ranges
from antiphon.store.records import Moment, Subscriber, TopicOptions
from antiphon.store.retention import due, floor_of, leases, removable


class Case(NamedTuple):
    times: list[Moment]
    subscribers: list[Subscriber]
    options: TopicOptions
    horizon: Moment


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Small numbers, so that ages, leases and positions often meet exactly."""
    times = list(accumulate(draw(st.lists(st.integers(0, 3), max_size=12)), initial=draw(st.integers(0, 5))))[:-1]
    subscribers = []
    for at in range(draw(st.integers(0, 4))):
        marks = Ranges()
        for number in draw(st.sets(st.integers(1, 14))):
            marks.add(number, number)
        lease, position = draw(st.integers(1, 12)), draw(st.integers(0, 14))
        subscribers.append(Subscriber(topic="t", id=f"s{at}", lease=lease, position=position, marks=tuple(marks)))
    retention = draw(st.integers(0, 12))
    options = TopicOptions(mutable=draw(st.booleans()) and draw(st.booleans()), retention_s=retention / 1e9)
    return Case(times, subscribers, options, draw(st.integers(0, 50)))


def rule(case: Case) -> Ranges:
    """As a back end asks: the newest number that has expired, once per distinct lease."""
    expired = {}
    for lease in leases(case.subscribers, case.options):
        older = [seq for seq, time in enumerate(case.times, 1) if time + lease < case.horizon]
        expired[lease] = max(older, default=0)
    return removable(case.subscribers, case.options, expired, len(case.times))


def may_go(case: Case, seq: int) -> bool:
    """The promise, word by word."""
    time = case.times[seq - 1]
    if case.options.mutable:
        return False
    if not case.subscribers:
        return not due(time, case.options.retention, case.horizon)
    return all(
        seq <= one.position or any(low <= seq <= high for low, high in one.marks) or not due(time, one.lease, case.horizon)
        for one in case.subscribers
    )


@given(case=cases())
@settings(max_examples=600)
def test_what_goes_is_what_nobody_needs(case: Case) -> None:
    """One value too many is lost to somebody to whom it is due; one too few is kept for ever."""
    free = rule(case)
    assert [seq for seq in range(1, len(case.times) + 1) if seq in free] == [
        seq for seq in range(1, len(case.times) + 1) if may_go(case, seq)
    ]


@given(case=cases())
@settings(max_examples=300)
def test_the_floor_is_where_the_first_needed_value_begins(case: Case) -> None:
    """A floor too high hides values that are there; one too low makes readers wait for values that are gone."""
    needed = [seq for seq in range(1, len(case.times) + 1) if not may_go(case, seq)]
    highest = needed[0] - 1 if needed else len(case.times)
    assert floor_of(rule(case)) == highest


@given(case=cases(), later=st.integers(0, 20))
@settings(max_examples=300)
def test_nothing_comes_back_as_time_goes_on(case: Case, later: int) -> None:
    """A collector that is late must remove at least what an early one would have."""
    before, after = rule(case), rule(case._replace(horizon=case.horizon + later))
    assert all(seq in after for low, high in before for seq in range(low, high + 1))


@given(case=cases(), position=st.integers(0, 14), lease=st.integers(1, 12))
@settings(max_examples=300)
def test_one_more_subscriber_frees_nothing(case: Case, position: int, lease: int) -> None:
    """Somebody who subscribes would take values away from the others."""
    if not case.subscribers:
        return
    more = [*case.subscribers, Subscriber(topic="t", id="more", lease=lease, position=position)]
    before, after = rule(case), rule(case._replace(subscribers=more))
    assert all(seq in before for low, high in after for seq in range(low, high + 1))


def test_a_value_is_due_up_to_the_last_moment_of_its_lease() -> None:
    """Off by one nanosecond, two back ends would disagree about the same value."""
    assert due(time=100, lease=10, now=110)
    assert not due(time=100, lease=10, now=111)
    assert due(time=100, lease=1, now=0)


def test_marks_beyond_the_newest_value_free_nothing_that_is_to_come() -> None:
    """Somebody who marks too much in advance would have values collected before they are published."""
    one = Subscriber(topic="t", id="s", lease=5, position=99, marks=((200, 300),))
    free = removable([one], TopicOptions(), {5: 0}, 3)
    assert 4 not in free
    assert floor_of(free) == 3


def test_a_topic_with_many_marks_and_many_subscribers() -> None:
    """The rule must stay exact where the ranges are many: holes of different width, which no two subscribers share."""
    last = 3_000
    subscribers = [
        Subscriber(topic="t", id=f"s{step}", lease=1, position=0, marks=tuple((low, low + step - 2) for low in range(1, last, step)))
        for step in (2, 3, 5, 7)
    ]
    free = removable(subscribers, TopicOptions(), {1: 0}, last)
    wanted = [seq for seq in range(1, last + 1) if all(seq % step for step in (2, 3, 5, 7))]
    assert [seq for seq in range(1, last + 1) if seq in free] == wanted
