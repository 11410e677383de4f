"""The server's way of writing a time, `2026-11-16T05:59:01.123456789Z`, as nanoseconds."""

from __future__ import annotations

from calendar import timegm

from antiphon.store.records import SECOND, Moment


def parse_moment(text: str) -> Moment:
    date, _, clock = text.removesuffix("Z").partition("T")
    whole, _, fraction = clock.partition(".")
    year, month, day = map(int, date.split("-"))
    hour, minute, second = map(int, whole.split(":"))
    return timegm((year, month, day, hour, minute, second)) * SECOND + int(fraction.ljust(9, "0")[:9] or 0)
