"""The report's pictures, as `<svg>` elements that fit the page in light and in dark.

What is ink on paper (text, axes, grid) takes its colour from the page; what stands for an order has the colour and the marker that it has
in every picture of Antiphon, told apart with any colour vision. The bytes depend on the figures and the version of matplotlib alone: no
date, no random ids, text as outlines, nothing fetched from anywhere. A picture for which there is no data is the empty string.
"""

from __future__ import annotations

import io
import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from antiphon.errors import UsageError
from antiphon.sim.plots import COLOURS, MARKERS
from antiphon.spark.histogram import middle
from antiphon.spark.report.findings import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INK, _QUIET, _GRID = "#010203", "#040506", "#070809"
"""Stand-ins, replaced by the page's own colours."""
_PAGE_COLOURS = {_INK: "currentColor", _QUIET: "var(--soft)", _GRID: "var(--rule)"}
_OTHER = ("#CC79A7", "P")
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "antiphon",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.edgecolor": _QUIET,
    "axes.labelcolor": _QUIET,
    "axes.labelsize": 9,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": _INK,
    "xtick.color": _QUIET,
    "ytick.color": _QUIET,
    "axes.grid": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 2.0,
}
_LINES_LIMIT = 4
"""Runs that one picture tells apart: the largest."""
_STROKES = ("-", "--", ":", "-.")
_MEASURES = (("end_to_end", "From end to end"), ("hold_back", "Held back by the order"))


def distribution(shape: Sequence[Row]) -> str:
    """What share of deliveries took at most how long, by order."""
    counts: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for row in shape:
        counts[row["measure"], row["order"]][row["bin"]] = row["amount"]
    if not counts:
        return ""

    def paint(figure: Figure) -> None:
        panels = figure.subplots(1, 2, sharey=True)
        figure.subplots_adjust(left=0.075, right=0.98, top=0.88, bottom=0.17, wspace=0.08)
        for axes, (measure, title) in zip(panels, _MEASURES, strict=True):
            axes.set_title(title)
            for order in _in_order(found for kind, found in counts if kind == measure):
                bins = counts[measure, order]
                total, so_far = sum(bins.values()), 0
                times, shares = [], []
                for place in sorted(bins):
                    so_far += bins[place]
                    times.append(max(middle(place), 1e3) / 1e6)
                    shares.append(100 * so_far / total)
                # A step begins at nothing, so that a share that did not wait at all shows as a rise on the left.
                axes.step([times[0], *times], [0, *shares], where="post", color=_look(order)[0], label=order)
            axes.set_xscale("log")
            _times(axes.xaxis)
            axes.set_ylim(0, 101)
            axes.set_xlabel("at most so long (logarithmic; what took less than 1 µs is at 1 µs)")
        panels[0].set_ylabel("share of deliveries, %")
        panels[1].legend(loc="lower right")

    return _svg(paint, 10.4, 3.6)


def over_time(by_time: Sequence[Row]) -> str:
    """Median and 99th percentile from end to end as the run went on, of the largest runs."""
    lines: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in by_time:
        lines[row["run"], row["order"]].append(row)
    largest = sorted(lines, key=lambda key: (-sum(row["deliveries"] for row in lines[key]), key))[:_LINES_LIMIT]
    largest = [key for key in largest if len(lines[key]) > 1]
    if not largest:
        return ""

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        figure.subplots_adjust(left=0.075, right=0.98, top=0.9, bottom=0.3)
        axes.set_title("As time went on: half of the deliveries took less than the line, 99 % less than the top of the band")
        orders = [order for _, order in largest]
        for place, (run, order) in enumerate(largest):
            rows = _with_gaps(lines[run, order])
            since = [row["since_s"] for row in rows]
            low, high = ([row[name] / 1e6 if not row[name] < 1e3 else 1e-3 for row in rows] for name in ("p50_ns", "p99_ns"))
            colour, _ = _look(order)
            # Runs of one order have its colour; what tells them apart is the stroke, and their name.
            stroke = _STROKES[orders[:place].count(order)]
            axes.plot(since, low, color=colour, linestyle=stroke, label=order if orders.count(order) == 1 else f"{order} ({run})")
            axes.fill_between(since, low, high, color=colour, alpha=0.22, linewidth=0)
        axes.set_yscale("log")
        _times(axes.yaxis)
        axes.set_xlabel("seconds since the run began")
        axes.set_xlim(left=0)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)

    return _svg(paint, 10.4, 3.9)


def _with_gaps(rows: Sequence[Row]) -> list[Row]:
    """In order, with a row of nothing where nothing was delivered: a line must not go on there."""
    found: list[Row] = []
    for row in sorted(rows, key=lambda row: row["bucket"]):
        if found and row["bucket"] > found[-1]["bucket"] + 1:
            found.append({"bucket": row["bucket"] - 1, "since_s": row["since_s"], "p50_ns": math.nan, "p99_ns": math.nan})
        found.append(row)
    return found


def conversations(sizes: Sequence[Row], depths: Sequence[Row]) -> str:
    """How many trees there are of each size, and how many messages at each depth."""
    if not sizes:
        return ""

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        figure.subplots_adjust(left=0.075, right=0.98, top=0.88, bottom=0.17, wspace=0.2)
        left.set_title("Trees by size")
        labels = [_range(row["size"]) for row in sizes]
        left.bar(range(len(sizes)), [row["trees"] for row in sizes], color=COLOURS["semantic"], width=0.8)
        left.set_xticks(range(len(sizes)), labels)
        left.set_yscale("log")
        left.set_xlabel("messages in the tree")
        left.grid(axis="x", visible=False)
        right.set_title("Messages by depth")
        right.step([row["depth"] for row in depths], [row["messages"] for row in depths], where="mid", color=COLOURS["semantic"])
        right.set_yscale("log")
        if depths[-1]["depth"] > 200:
            right.set_xscale("symlog", linthresh=10)
        right.set_xlabel("answers above the message")

    return _svg(paint, 10.4, 3.2)


def sweep(rows: Sequence[Row]) -> str:
    """Hold-back and frames as groups grow, for the smallest and the largest loss."""
    if len({row["members"] for row in rows}) < 2:
        return ""
    losses = sorted({row["loss"] for row in rows})
    chosen = losses if len(losses) < 3 else [losses[0], losses[-1]]

    def paint(figure: Figure) -> None:
        panels = figure.subplots(1, len(chosen) + 1, squeeze=False)[0]
        figure.subplots_adjust(left=0.075, right=0.98, top=0.86, bottom=0.18, wspace=0.28)
        for axes, loss in zip(panels, chosen, strict=False):
            axes.set_title(f"Held back, {100 * loss:g} % lost")
            _curves(axes, [row for row in rows if row["loss"] == loss], lambda row: 1e3 * row["hold_mean_s"])
            axes.set_yscale("symlog", linthresh=1)
            _times(axes.yaxis)
            axes.set_ylim(bottom=0)
        panels[-1].set_title("Frames per delivery")
        _curves(panels[-1], [row for row in rows if row["loss"] == chosen[-1]], lambda row: row["frames_per_delivery"])
        panels[-1].set_ylim(bottom=0)
        panels[0].legend(loc="best")

    return _svg(paint, 10.4, 3.4)


def _curves(axes: Any, rows: Sequence[Row], height: Callable[[Row], float | None]) -> None:
    """One line per order over the number of members: the mean of what else varies."""
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if (value := height(row)) is not None:
            found[row["order"]][row["members"]].append(value)
    for order in _in_order(found):
        colour, marker = _look(order)
        sizes = sorted(found[order])
        means = [sum(found[order][size]) / len(found[order][size]) for size in sizes]
        axes.plot(sizes, means, color=colour, marker=marker, markersize=6, label=order, clip_on=False)
    axes.set_xticks(sorted({row["members"] for row in rows}))
    axes.set_xlabel("members")


def _times(axis: Any) -> None:
    """Ticks as people say them; the axis is in milliseconds."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    def said(value: float, _: object) -> str:
        if value == 0:
            return "0"
        return f"{value / 1e3:g} s" if abs(value) >= 1e3 else f"{value:g} ms" if abs(value) >= 1 else f"{value * 1e3:g} µs"

    axis.set_major_formatter(FuncFormatter(said))
    axis.set_minor_formatter(NullFormatter())


def _range(low: int) -> str:
    return "1" if low == 1 else f"{low:,}–{2 * low - 1:,}"


def _look(order: str) -> tuple[str, str]:
    return COLOURS.get(order, _OTHER[0]), MARKERS.get(order, _OTHER[1])


def _in_order(names: Any) -> list[str]:
    """As in every table: the weakest order first, what is not known last."""
    known = list(COLOURS)
    return sorted(set(names), key=lambda name: (known.index(name) if name in known else len(known), name))


def _svg(paint: Callable[[Figure], None], width: float, height: float) -> str:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("the report's pictures need matplotlib: pip install 'antiphon[apps]'") from None
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height))
        paint(figure)
        sink = io.BytesIO()
        figure.savefig(sink, format="svg", transparent=True, metadata={"Date": None})
    text = sink.getvalue().decode()
    # matplotlib writes a document with a DTD and metadata that name addresses; an element needs neither.
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    for stand_in, colour in _PAGE_COLOURS.items():
        text = text.replace(stand_in, colour)
    return text
