"""What all pictures of the report share: the paper they are drawn on, the ink, the looks of the orders, and axes that people can read.

What is ink on paper (text, axes, grid) takes its colour from the page; what stands for an order has the colour and the marker that it has
in every picture of Antiphon, told apart with any colour vision. The bytes depend on the figures and the version of matplotlib alone: no
date, no random ids, text as outlines, nothing fetched from anywhere.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from antiphon.errors import UsageError
from antiphon.sim.plots import COLOURS, MARKERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INK, _QUIET, _GRID, ACCENT = "#010203", "#040506", "#070809", "#0a0b0c"
"""Stand-ins, replaced by the page's own colours."""
_PAGE_COLOURS = {_INK: "currentColor", _QUIET: "var(--soft)", _GRID: "var(--rule)", ACCENT: "var(--accent)"}
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


def svg(paint: Callable[[Figure], None], width: float, height: float) -> str:
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


def time_ticks(axis: Any) -> None:
    """Ticks as people say them; the axis is in milliseconds."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    def said(value: float, _: object) -> str:
        if value == 0:
            return "0"
        return f"{value / 1e3:g} s" if abs(value) >= 1e3 else f"{value:g} ms" if abs(value) >= 1 else f"{value * 1e3:g} µs"

    axis.set_major_formatter(FuncFormatter(said))
    axis.set_minor_formatter(NullFormatter())


def count_scale(axes: Any) -> None:
    """How many there are, on a scale on which one can still be seen."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set_yscale("log")
    axes.set_ylim(bottom=0.7)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def legend(figure: Figure, axes: Any) -> None:
    """One for all panels, below them: inside of one it would lie over a curve."""
    handles, labels = axes.get_legend_handles_labels()
    # Names of runs are long.
    columns = 6 if sum(map(len, labels)) < 80 else 3
    figure.legend(handles, labels, loc="lower center", bbox_to_anchor=(0.5, 0), ncols=columns)


def look(order: str) -> tuple[str, str]:
    return COLOURS.get(order, _OTHER[0]), MARKERS.get(order, _OTHER[1])


def in_order(names: Any) -> list[str]:
    """As in every table: the weakest order first, what is not known last."""
    known = list(COLOURS)
    return sorted(set(names), key=lambda name: (known.index(name) if name in known else len(known), name))
