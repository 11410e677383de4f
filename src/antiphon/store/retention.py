"""When a value may go: when every subscriber is done with it or has let its lease expire. Pure functions; each back end asks them.

A lease is an age: a value is due to a subscriber while time ≤ value's time + lease. The collector does not go by the store's time but by a
horizon at or before it (see `ring.py`), so that nothing goes that somebody is still reading or has not sent yet.

Times never fall with the numbers, so what has expired for a lease is everything up to some number. The back end finds that number, once
per distinct lease; the rest is sets of ranges: O(subscribers + marks).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from antiphon.model.ranges import Ranges
from antiphon.store.records import Moment, Subscriber, TopicOptions


def due(time: Moment, lease: Moment, now: Moment) -> bool:
    """A value of this time is still of interest to a subscriber with this lease."""
    return now <= time + lease


def leases(subscribers: Iterable[Subscriber], options: TopicOptions) -> set[Moment]:
    """The ages for which the back end must find the newest value that is older than the horizon by more than that."""
    return {subscriber.lease for subscriber in subscribers} or {options.retention}


def removable(
    subscribers: Iterable[Subscriber],
    options: TopicOptions,
    expired: Mapping[Moment, int],
    last: int,
) -> Ranges:
    """The numbers among `1 … last` that nobody needs. `expired[lease]` is the newest number that is older than the horizon by more than
    the lease (0: none). The topic's floor becomes the end of a range that begins with 1."""
    if options.mutable or last < 1:
        return Ranges()
    free: Ranges | None = None
    for subscriber in subscribers:
        # Somebody may have marked what is not published yet: a floor above the newest number would hide it from everybody.
        mine = Ranges((low, min(high, last)) for low, high in subscriber.marks if low <= last)
        prefix = min(max(subscriber.position, expired[subscriber.lease]), last)
        if prefix > 0:
            mine.add(1, prefix)
        free = mine if free is None else _both(free, mine)
        if not free.lows:
            return free
    if free is not None:
        return free
    kept = min(expired[options.retention], last)
    return Ranges([(1, kept)] if kept > 0 else [])


def floor_of(free: Ranges) -> int:
    return free.highs[0] if free.lows and free.lows[0] == 1 else 0


def _both(left: Ranges, right: Ranges) -> Ranges:
    """The numbers in both sets, in O(ranges)."""
    common = Ranges()
    at = other = 0
    while at < len(left.lows) and other < len(right.lows):
        low, high = max(left.lows[at], right.lows[other]), min(left.highs[at], right.highs[other])
        if low <= high:
            common.add(low, high)
        if left.highs[at] < right.highs[other]:
            at += 1
        else:
            other += 1
    return common
