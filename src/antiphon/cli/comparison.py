"""A comparison of the orders as a table for people. The columns are defined once, for the terminal and for the report page."""

from __future__ import annotations

from rich import box
from rich.table import Table

from antiphon.sim.compare import Comparison, OrderResult

HEADINGS = ("order", "held", "mean ms", "p99 ms", "max ms", "end to end ms", "early answers", "kept")

_LEGEND = "held: deliveries that waited, and how long; early: read before their question; kept: its promises"


def row(result: OrderResult) -> tuple[str, ...]:
    """One order's cells, in the order of `HEADINGS`."""
    waits = result.hold_back
    return (
        result.order,
        f"{waits.held_share:.1%}",
        *(_milliseconds(value) for value in (waits.mean_s, waits.p99_s, waits.max_s, waits.end_to_end_mean_s)),
        f"{result.violations.get('parent_before_child', 0):,}",
        verdict(result),
    )


def verdict(result: OrderResult) -> str:
    if not result.settled:
        return "stalled"
    return ", ".join(f"{promise} broken {count:,}×" for promise, count in result.broken.items()) or "all"


def subtitle(comparison: Comparison) -> str:
    low, high = comparison.delay_s
    return (
        f"{comparison.messages:,} messages of {comparison.conversation} at {comparison.rate:g}/s, {comparison.members} members, "
        f"{100 * comparison.loss:g} % loss, {1000 * low:g}–{1000 * high:g} ms delay, seed {comparison.seed}"
    )


def table(comparison: Comparison) -> Table:
    drawn = Table(caption=_LEGEND, caption_justify="left", box=box.SIMPLE_HEAVY, pad_edge=False)
    for place, heading in enumerate(HEADINGS):
        drawn.add_column(heading, justify="left" if place in (0, len(HEADINGS) - 1) else "right", no_wrap=place == 0)
    for result in comparison.results:
        cells = row(result)
        misplaced = "green" if cells[-2] == "0" else "red"
        own = "green" if cells[-1] == "all" else "bold red"
        drawn.add_row(f"[bold]{cells[0]}", *cells[1:-2], f"[{misplaced}]{cells[-2]}", f"[{own}]{cells[-1]}")
    return drawn


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.1f}" if 0 < seconds < 0.0995 else f"{1000 * seconds:,.0f}"
