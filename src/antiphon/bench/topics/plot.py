"""The times of single operations as a picture: one panel for each operation, iterations from left to right, a line for each store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median

from antiphon.bench.topics.timings import OPERATIONS

_COLOURS = ("#0b6e99", "#c2571a", "#5b7f2b")


def draw(timings_by_store: Mapping[str, Mapping[str, list[float]]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot, ticker

    figure, panels = pyplot.subplots(1, len(OPERATIONS), figsize=(13, 3.6), sharex=True, sharey=True, constrained_layout=True)
    for panel, operation in zip(panels, OPERATIONS, strict=True):
        for line, (colour, (store, timings)) in enumerate(zip(_COLOURS, timings_by_store.items(), strict=False)):
            times = timings[operation]
            panel.plot(range(1, len(times) + 1), times, color=colour, linewidth=1.4, marker="o", markersize=2.5, label=store)
            corner = {"transform": panel.transAxes, "va": "top", "fontsize": 9}
            panel.text(0.03, 0.96 - 0.08 * line, f"{store} {median(times):.2f} ms", color=colour, **corner)
        panel.set_title(operation, loc="left", fontweight="bold")
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        panel.grid(axis="y", alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_xlabel("iteration")
    low, high = panels[0].get_ylim()
    panels[0].set_ylim(low, high * 6)  # room for the medians
    panels[0].set_ylabel("milliseconds")
    figure.suptitle("Single operations on a store, each on disk when it returns; medians in the corner", x=0.01, ha="left")
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
