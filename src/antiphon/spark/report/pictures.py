"""The report's pictures, as `<svg>` elements that fit the page in light and in dark. A picture for which there is no data is the empty
string.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from antiphon.spark.histogram import middle
from antiphon.spark.report.canvas import ACCENT, count_scale, in_order, legend, look, svg, time_ticks
from antiphon.spark.report.findings import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LATE = 0.01
"""This share of the deliveries may come after the end of an axis of time: stragglers would make it long and empty."""
_PERCENTILES = (("p50_ns", "Half within"), ("p99_ns", "99 % within"))
_GOLDEN = 0.618034
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
        figure.subplots_adjust(left=0.075, right=0.98, top=0.89, bottom=0.25, wspace=0.08)
        for axes, (measure, title) in zip(panels, _MEASURES, strict=True):
            axes.set_title(title)
            for order in in_order(found for kind, found in counts if kind == measure):
                bins = counts[measure, order]
                total, so_far = sum(bins.values()), 0
                times, shares = [], []
                for place in sorted(bins):
                    so_far += bins[place]
                    times.append(max(middle(place), 1e3) / 1e6)
                    shares.append(100 * so_far / total)
                # A step begins at nothing, so that a share that did not wait at all shows as a rise on the left.
                axes.step([times[0], *times], [0, *shares], where="post", color=look(order)[0], label=order)
            axes.set_xscale("log")
            time_ticks(axes.xaxis)
            axes.set_ylim(0, 101)
            axes.set_xlabel("at most so long (logarithmic; what took less than 1 µs is at 1 µs)")
        panels[0].set_ylabel("share of deliveries, %")
        legend(figure, panels[0])

    return svg(paint, 10.4, 3.9)


def groups(by_group: Sequence[Row]) -> str:
    """The median and the 99th percentile of every group from end to end, by order: whether an order is slow, or one of its groups."""
    if len(by_group) < 2:
        return ""
    orders = in_order(row["order"] for row in by_group)

    def paint(figure: Figure) -> None:
        panels = figure.subplots(1, 2, sharey=True)
        figure.subplots_adjust(left=0.095, right=0.98, top=0.89, bottom=0.17, wspace=0.08)
        for axes, (percentile, title) in zip(panels, _PERCENTILES, strict=True):
            axes.set_title(f"{title}, group by group")
            for place, order in enumerate(orders):
                rows = [row for row in by_group if row["order"] == order]
                colour, marker = look(order)
                times = [max(row[percentile], 1e3) / 1e6 for row in rows]
                # Groups that took as long lie above each other, at heights that are spread evenly and the same on every page.
                heights = [place + 0.6 * ((number * _GOLDEN) % 1 - 0.5) for number in range(len(rows))]
                axes.plot(times, heights, linestyle="none", marker=marker, markersize=5, alpha=0.7, markeredgewidth=0, color=colour)
            axes.set_xscale("log")
            time_ticks(axes.xaxis)
            axes.set_xlabel("one mark is one group (logarithmic)")
            axes.grid(axis="y", visible=False)
        panels[0].set_yticks(range(len(orders)), orders)
        panels[0].set_ylim(len(orders) - 0.5, -0.5)

    return svg(paint, 10.4, 1.3 + 0.45 * max(len(orders), 3))


def over_time(by_time: Sequence[Row]) -> str:
    """Median and 99th percentile from end to end as each run went on."""
    lines: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in by_time:
        lines[row["order"], row["run"]].append(row)
    if len({row["bucket"] for row in by_time}) < 3:
        return ""
    end_s = max(_nearly_all(rows) for rows in lines.values())
    drawn = [(order, run) for known in in_order(order for order, _ in lines) for order, run in sorted(lines) if order == known]
    orders = [order for order, _ in drawn]

    def paint(figure: Figure) -> None:
        panels = figure.subplots(1, 2, sharey=True)
        figure.subplots_adjust(left=0.075, right=0.98, top=0.89, bottom=0.25, wspace=0.08)
        for axes, (percentile, title) in zip(panels, _PERCENTILES, strict=True):
            axes.set_title(f"{title}, as time went on")
            for place, (order, run) in enumerate(drawn):
                rows = [row for row in _with_gaps(lines[order, run]) if row["since_s"] <= end_s]
                # Runs of one order have its colour; what tells them apart is the stroke, and their name. A piece of time between two in
                # which nothing was delivered is a dot.
                axes.plot(
                    [row["since_s"] for row in rows],
                    [row[percentile] / 1e6 if not row[percentile] < 1e3 else 1e-3 for row in rows],
                    color=look(order)[0],
                    linestyle=_STROKES[orders[:place].count(order) % len(_STROKES)],
                    marker=".",
                    label=order if orders.count(order) == 1 else f"{order} ({run})",
                )
            axes.set_yscale("log")
            time_ticks(axes.yaxis)
            later = any(row["since_s"] > end_s for row in by_time)
            axes.set_xlabel(f"seconds since the run began{f'; the last {100 * _LATE:g} % came later' if later else ''}")
            axes.set_xlim(left=0)
        legend(figure, panels[0])

    return svg(paint, 10.4, 3.9)


def _nearly_all(rows: Sequence[Row]) -> float:
    """When all but the latest had been delivered."""
    left = (1 - _LATE) * sum(row["deliveries"] for row in rows)
    for row in sorted(rows, key=lambda row: row["bucket"]):
        left -= row["deliveries"]
        if left <= 0:
            break
    return float(row["since_s"])


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
        left.bar(range(len(sizes)), [row["trees"] for row in sizes], color=ACCENT, width=0.8)
        left.set_xticks(range(len(sizes)), labels)
        count_scale(left)
        left.set_xlabel("messages in the tree")
        left.grid(axis="x", visible=False)
        right.set_title("Messages by depth")
        right.step([row["depth"] for row in depths], [row["messages"] for row in depths], where="mid", color=ACCENT)
        count_scale(right)
        if depths[-1]["depth"] > 200:
            right.set_xscale("symlog", linthresh=10)
        right.set_xlabel("answers above the message")

    return svg(paint, 10.4, 3.2)


def sweep(rows: Sequence[Row]) -> str:
    """Hold-back and frames as groups grow, for the smallest and the largest loss."""
    if len({row["members"] for row in rows}) < 2:
        return ""
    losses = sorted({row["loss"] for row in rows})
    chosen = losses if len(losses) < 3 else [losses[0], losses[-1]]

    def paint(figure: Figure) -> None:
        panels = figure.subplots(1, len(chosen) + 1, squeeze=False)[0]
        figure.subplots_adjust(left=0.075, right=0.98, top=0.88, bottom=0.25, wspace=0.28)
        for axes, loss in zip(panels, chosen, strict=False):
            axes.set_title(f"Held back, {100 * loss:g} % lost")
            _curves(axes, [row for row in rows if row["loss"] == loss], lambda row: 1e3 * row["hold_mean_s"])
            axes.set_yscale("symlog", linthresh=1)
            time_ticks(axes.yaxis)
            axes.set_ylim(bottom=0)
        panels[-1].set_title("Frames per delivery")
        _curves(panels[-1], [row for row in rows if row["loss"] == chosen[-1]], lambda row: row["frames_per_delivery"])
        panels[-1].set_ylim(bottom=0)
        legend(figure, panels[0])

    return svg(paint, 10.4, 3.7)


def _curves(axes: Any, rows: Sequence[Row], height: Callable[[Row], float | None]) -> None:
    """One line per order over the number of members: the mean of what else varies."""
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if (value := height(row)) is not None:
            found[row["order"]][row["members"]].append(value)
    for order in in_order(found):
        colour, marker = look(order)
        sizes = sorted(found[order])
        means = [sum(found[order][size]) / len(found[order][size]) for size in sizes]
        axes.plot(sizes, means, color=colour, marker=marker, markersize=6, label=order, clip_on=False)
    axes.set_xticks(sorted({row["members"] for row in rows}))
    axes.set_xlabel("members")


def _range(low: int) -> str:
    return "1" if low == 1 else f"{low:,}–{2 * low - 1:,}"
