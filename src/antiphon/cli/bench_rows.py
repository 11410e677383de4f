"""Rows of a benchmark for people: a table with bars for the terminal, and the same as Markdown for a page.

| column       | says                                                                                      |
|--------------|-------------------------------------------------------------------------------------------|
| deliveries/s | at each member, the mean of the members                                                   |
| limit        | as a share of the bare loop's                                                             |
| CPU s/M      | CPU seconds for a million deliveries, of all members and the server                       |
| by CPU       | deliveries for the same CPU time, as a share of the bare loop's: steady on a busy machine |
| MB           | memory of the largest member, at its most                                                 |
| order        | whether every member delivered everything in the promised order                           |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from antiphon.bench.comparison import cpu_ratio, ratio
from antiphon.bench.contest import Result, Skipped
from antiphon.bench.systems import ANTIPHON, LIMIT

_BAR = 10
_EIGHTHS = " ▏▎▍▌▋▊▉"
_FLOOD_HEADINGS = ("deliveries/s", "limit", "CPU s/M", "by CPU", "MB", "order")
_PACE_HEADINGS = ("p50 µs", "p99 µs", "p99.9 µs", "order")


def tables(rows: Sequence[Result]) -> Iterator[tuple[str, Table]]:
    """A title and a table for every order and size that was flooded, and one for the delays."""
    for title, some in sections(rows):
        headings = _PACE_HEADINGS if some[0].kind == "pace" else _FLOOD_HEADINGS
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
        table.add_column(no_wrap=True)
        for heading in headings:
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column(no_wrap=True, overflow="crop")
        top = max(_length(row) for row in some)
        for row in some:
            style = "bold" if row.system == ANTIPHON else "dim" if row.system == LIMIT else ""
            table.add_row(escape(_name(row)), *_figures(row, some), bar(_length(row) / top), style=style)
        yield title, table


def markdown(rows: Sequence[Result]) -> str:
    """The tables as Markdown, without bars."""
    parts = []
    for title, some in sections(rows):
        headings = _PACE_HEADINGS if some[0].kind == "pace" else _FLOOD_HEADINGS
        lines = [f"**{title}**", "", f"| | {' | '.join(headings)} |", f"|---|{'---:|' * len(headings)}"]
        lines += [f"| {_name(row)} | {' | '.join(_figures(row, some))} |" for row in some]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def skipped_lines(skipped: Sequence[Skipped]) -> list[str]:
    """Who did not take part, each once."""
    return list(dict.fromkeys(f"{row.label} was left out: {row.why}" for row in skipped))


def sections(rows: Sequence[Result]) -> Iterator[tuple[str, list[Result]]]:
    """What belongs into one table, with its title: floods by order and size, all delays together."""
    found: dict[str, list[Result]] = {}
    for row in rows:
        if row.kind == "pace":
            title = f"Delay: one sender, {row.members - 1} receivers, {row.size:,} B"
        else:
            title = f"{row.order.capitalize()} order, {row.members} members, {row.size:,} B"
        found.setdefault(title, []).append(row)
    yield from found.items()


def bar(share: float) -> str:
    """A bar of eighths of a character, `_BAR` characters when the share is 1."""
    whole, rest = divmod(round(max(min(share, 1.0), 0.0) * _BAR * 8), 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(_BAR)


def _name(row: Result) -> str:
    return f"{row.label}, {row.order}" if row.kind == "pace" else row.label


def _length(row: Result) -> float:
    return max(row.p50_us or 0.0, 1e-9) if row.kind == "pace" else max(row.deliveries_per_s_per_member, 1)


def _figures(row: Result, beside: Sequence[Result]) -> list[str]:
    promise = "kept" if row.order_equal else "BROKEN"
    if row.kind == "pace":
        delays = (row.p50_us, row.p99_us, row.p999_us)
        return [*("" if delay is None else f"{delay:,.0f}" for delay in delays), promise]
    limit = next((other for other in beside if other.system == LIMIT), None)
    share = "" if limit is None else f"{ratio(row, limit):.2f}"
    by_cpu = None if limit is None else cpu_ratio(row, limit)
    cpu = "" if row.cpu_s_per_million is None else f"{row.cpu_s_per_million:.3f}"
    return [f"{row.deliveries_per_s_per_member:,}", share, cpu, "" if by_cpu is None else f"{by_cpu:.2f}", f"{row.rss_mb:,.0f}", promise]
