"""Pictures of comparisons: what an order costs, and what it breaks.

One comparison becomes four panels of rows, an order each; several become lines over the rate. The panels: mean and 99th percentile of the
hold-back time, the share of deliveries that were held, and the share of answers shown before what they answer. Times span four
decades and include a true zero, so their axis is logarithmic above 1 ms and linear below; it says so.

The bytes of an SVG depend on the comparisons and the version of matplotlib alone: no date, no random ids, text as outlines, nothing
fetched from anywhere. Colours are those of Okabe and Ito, told apart with any colour vision, and every order also has a marker of its own.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from antiphon.errors import InvalidOption, UsageError
from antiphon.sim.compare import Comparison, OrderResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {"unordered": "#7F7F7F", "fifo": "#56B4E9", "causal": "#E69F00", "total": "#D55E00", "semantic": "#009E73"}
MARKERS = {"unordered": "X", "fifo": "v", "causal": "s", "total": "D", "semantic": "o"}
_OTHER = ("#CC79A7", "P")
_INK, _QUIET, _FAINT = "#2B2B2B", "#666666", "#D9D9D9"
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "antiphon",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.edgecolor": "#9A9A9A",
    "axes.labelcolor": _INK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": _INK,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "axes.grid": True,
    "grid.color": _FAINT,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
}


def plot(comparisons: Comparison | Sequence[Comparison], path: str | Path) -> None:
    """Draws into a file: SVG or PNG, by its suffix."""
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in (".svg", ".png"):
        raise InvalidOption("plot", str(path), "end the file's name in .svg or .png")
    try:
        target.write_bytes(_draw(comparisons, "png") if suffix == ".png" else svg(comparisons).encode())
    except OSError as error:
        raise InvalidOption("plot", str(path), f"it cannot be written ({error.strerror}); name a file in a folder that exists") from None


def svg(comparisons: Comparison | Sequence[Comparison]) -> str:
    """The picture as an `<svg>` element, to be written to a file or into a page."""
    text = _draw(comparisons, "svg").decode()
    # matplotlib writes a document with a DTD and metadata that name addresses; an element needs neither.
    text = text[text.index("<svg") :]
    return re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)


def _draw(comparisons: Comparison | Sequence[Comparison], form: str) -> bytes:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("pictures need matplotlib: pip install 'antiphon[apps]'") from None
    several = (comparisons,) if isinstance(comparisons, Comparison) else tuple(sorted(comparisons, key=lambda one: one.rate))
    if not several or len({tuple(result.order for result in one.results) for one in several}) != 1:
        raise InvalidOption("comparisons", len(several), "draw at least one, and only comparisons of the same orders together")
    if len({one.rate for one in several}) != len(several):
        raise InvalidOption("comparisons", len(several), "lines go over the rate, so every comparison needs a rate of its own")
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a reader's own style file must not change our bytes
        matplotlib.rcParams.update(_STYLE)
        figure = Figure(figsize=(10.4, 6.6) if len(several) > 1 else (10.4, 5.2))
        if len(several) > 1:
            _lines(figure, several)
        else:
            _rows(figure, several[0])
        file = io.BytesIO()
        figure.savefig(file, format=form, dpi=160, metadata={"Date": None} if form == "svg" else {"Software": None})
    return file.getvalue()


# -- the four measures ---------------------------------------------------------------------------------------------------------

_PANELS = ("Mean hold-back", "Hold-back, 99th percentile", "Deliveries held back", "Answers shown before their question")
_TIME, _SHARE = "ms (linear below 1, logarithmic above)", "per cent"


def _measures(comparison: Comparison, result: OrderResult) -> tuple[float, float, float, float]:
    """The four panels' values: milliseconds, milliseconds, per cent of deliveries, per cent of the answers' deliveries."""
    wait = result.hold_back
    answers = (comparison.links - result.unlinked) * (comparison.members - 1)  # the author has read what it answers
    early = result.violations.get("parent_before_child", 0)
    return 1e3 * wait.mean_s, 1e3 * wait.p99_s, 100 * wait.held_share, 100 * early / answers if answers else 0.0


def _head(figure: Figure, title: str, one: Comparison, height: float) -> None:
    low, high = one.delay_s
    caption = (
        f"{one.messages:,} messages of {one.conversation}, {one.members} members, {one.multicast} multicast, "
        f"{1e3 * low:g}–{1e3 * high:g} ms delay, {100 * one.loss:g} % loss, "
        f"seed {one.seed}{', unread answers unlinked' if one.unread == 'unlink' else ''}"
    )
    figure.suptitle(title, x=0.02, ha="left", fontsize=14, fontweight="bold")
    figure.text(0.02, height, caption, fontsize=9, color=_QUIET)


def _time_axis(axes: Any, axis: str, top: float) -> None:
    """0 … 1 linear, then a decade per step, with numbers people can read."""
    getattr(axes, f"set_{axis}scale")("symlog", linthresh=1.0, linscale=0.5)
    end = max(top, 1.0) * (4.0 if axis == "x" else 2.2)  # along x there is a number behind every marker
    ticks = [tick for tick in (0, 1, 10, 100, 1_000, 10_000, 100_000) if tick <= end]
    getattr(axes, f"set_{axis}lim")(-0.12, end)
    getattr(axes, f"set_{axis}ticks")(ticks, [f"{tick:,}" for tick in ticks])
    getattr(axes, f"{axis}axis").set_minor_locator(_no_ticks())


def _share_axis(axes: Any, axis: str, top: float) -> None:
    """From 0, a handful of short numbers."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    end = max(top, 1.0)
    getattr(axes, f"set_{axis}lim")(-0.02 * end, end * (1.18 if axis == "x" else 1.08))
    getattr(axes, f"{axis}axis").set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    getattr(axes, f"{axis}axis").set_major_formatter(StrMethodFormatter("{x:g}"))


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def _look(order: str) -> tuple[str, str]:
    return COLOURS.get(order, _OTHER[0]), MARKERS.get(order, _OTHER[1])


def _number(value: float) -> str:
    """Three digits at most; a true zero stays 0, and a small value is never shown as one."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2g}" if value >= 0.01 else "< 0.01"


# -- one comparison: rows ------------------------------------------------------------------------------------------------------


def _rows(figure: Figure, one: Comparison) -> None:
    panels = figure.subplots(2, 2, sharey=True)
    figure.subplots_adjust(left=0.095, right=0.975, top=0.83, bottom=0.1, hspace=0.62, wspace=0.1)
    _head(figure, f"What each order costs, and what it breaks, at {one.rate:g} messages per second", one, 0.905)
    values = [_measures(one, result) for result in one.results]
    for place, (axes, title) in enumerate(zip(panels.flat, _PANELS, strict=True)):
        column = [row[place] for row in values]
        timed = place < 2
        axes.set_title(title)
        axes.set_xlabel(_TIME if timed else _SHARE, fontsize=8.5, color=_QUIET)
        if timed:
            _time_axis(axes, "x", max(row[1] for row in values))
        else:
            _share_axis(axes, "x", max(column))
        for height, (result, value) in enumerate(zip(one.results, column, strict=True)):
            colour, marker = _look(result.order)
            # On a logarithmic axis the length of a bar means nothing, so there it is a thread that leads the eye.
            axes.plot([0, value], [height, height], color=colour, linewidth=1.0 if timed else 4.0, alpha=0.45, solid_capstyle="butt")
            axes.plot([value], [height], marker=marker, color=colour, markersize=8, markeredgecolor="white", clip_on=False)
            text = _number(value) + (" ms" if timed else " %")
            axes.annotate(text, (value, height), xytext=(9, 0), textcoords="offset points", va="center_baseline", fontsize=8.8)
        axes.set_yticks(range(len(one.results)), [result.order for result in one.results], fontsize=10)
        axes.set_ylim(len(one.results) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="both", length=0)
        axes.spines["left"].set_visible(False)


# -- several comparisons: lines over the rate ----------------------------------------------------------------------------------


def _lines(figure: Figure, several: Sequence[Comparison]) -> None:
    panels = figure.subplots(2, 2)
    figure.subplots_adjust(left=0.075, right=0.885, top=0.86, bottom=0.085, hspace=0.36, wspace=0.46)
    _head(figure, "What each order costs, and what it breaks", several[0], 0.925)
    rates = [one.rate for one in several]
    orders = [result.order for result in several[0].results]
    curves = {order: [_measures(one, one[order]) for one in several] for order in orders}
    for place, (axes, title) in enumerate(zip(panels.flat, _PANELS, strict=True)):
        timed = place < 2
        axes.set_title(title)
        axes.set_ylabel(_TIME if timed else _SHARE, fontsize=8.5, color=_QUIET)
        axes.set_xscale("log")
        axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
        axes.xaxis.set_minor_locator(_no_ticks())
        axes.set_xlabel("messages per second, whole group", fontsize=8.5, color=_QUIET)
        if timed:
            _time_axis(axes, "y", max(row[1] for rows in curves.values() for row in rows))
        else:
            _share_axis(axes, "y", max(row[place] for rows in curves.values() for row in rows))
        for order in orders:
            colour, marker = _look(order)
            heights = [row[place] for row in curves[order]]
            look = {"color": colour, "marker": marker, "markersize": 6, "markeredgecolor": "white"}
            axes.plot(rates, heights, **look, linewidth=2, clip_on=False, zorder=3)
        _label_ends(axes, [(order, curves[order][-1][place]) for order in orders])
        axes.tick_params(axis="both", length=0)


def _label_ends(axes: Any, ends: Sequence[tuple[str, float]]) -> None:
    """Writes each line's name at its right end; lines that end at the same height share a label, near ones are moved apart."""
    to_screen = axes.transData.transform
    right = axes.get_xlim()[1]
    labels: list[list[Any]] = []
    for order, value in sorted(ends, key=lambda end: end[1]):
        height = to_screen((right, value))[1]
        labels.append([height, height, order])
    # From below upwards, each label keeps a line's distance from the one under it.
    for lower, upper in pairwise(labels):
        upper[1] = max(upper[1], lower[1] + 13.5)
    for anchor, height, order in labels:
        axes.annotate(
            order,
            (1.0, axes.transAxes.inverted().transform((0, anchor))[1]),
            xycoords="axes fraction",
            xytext=(8, (height - anchor) * 0.72),
            textcoords="offset points",
            va="center_baseline",
            fontsize=9,
            color=_look(order)[0],
            fontweight="bold",
            annotation_clip=False,
        )
