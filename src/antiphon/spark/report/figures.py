"""Figures as people read them. Needs nothing but Python."""

from __future__ import annotations

from antiphon.model.ids import name_of

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))


def duration(nanoseconds: float | None) -> str:
    """`1.25 s`, `340 µs`, `0`; nothing for None."""
    if nanoseconds is None:
        return ""
    size = abs(nanoseconds)
    for unit, name in _UNITS:
        if size >= unit:
            value = nanoseconds / unit
            return f"{value:,.0f} {name}" if abs(value) >= 1000 else f"{value:.3g} {name}"
    return "0" if nanoseconds == 0 else f"{nanoseconds:.0f} ns"


def cell(value: object) -> str:
    """A value of a table: numbers by their type, ids by their names."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
        case _:
            return name_of(str(value))


def share(part: float) -> str:
    """`12 %`, `0.3 %`; anything that is not nothing does not look like nothing."""
    percent = 100 * part
    return "0 %" if percent == 0 else "< 0.1 %" if percent < 0.1 else f"{percent:.1f} %" if percent < 10 else f"{percent:.0f} %"


def several(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}"
