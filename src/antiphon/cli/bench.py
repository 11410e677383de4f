"""`antiphon bench`: what this machine can do."""

from __future__ import annotations

import itertools
from typing import Annotated

import typer
from rich.table import Table

from antiphon.cli import terminal

app = typer.Typer(help="Measure Antiphon on this machine.", no_args_is_help=True)


@app.callback()
def bench() -> None:
    """Measure Antiphon on this machine."""


@app.command()
def core(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions: a rough answer in a few seconds.")] = False,
    json: Annotated[bool, typer.Option("--json", help='Print {"rows": [...]} instead of a table.')] = False,
) -> None:
    """Messages per second through the core alone (no network), for every path, batch size and message size.

    The last column compares each path with decoding the same frames and doing nothing else, measured in the same run."""
    from antiphon.cli import bench_core

    steps = len(bench_core.SIZES) * len(bench_core.BATCHES)
    with terminal.progress("measuring") as advance:
        begun = itertools.count()
        rows = list(bench_core.rows(quick, lambda step: advance(next(begun), steps)))
    if json:
        terminal.print_json({"rows": rows})
        return
    terminal.out.print("Each path receives frames as if from the network; the ratio is its time over that of decoding them alone.")
    table = Table()
    table.add_column("path")
    for heading in ("batch", "bytes", "messages/s", "ratio to decode"):
        table.add_column(heading, justify="right")
    for row in rows:
        if row["path"] == "decode":
            table.add_section()
        table.add_row(str(row["path"]), *_figures(row))
    terminal.out.print(table)


def _figures(row: dict[str, object]) -> tuple[str, str, str, str]:
    batch, size, rate, ratio = row["batch"], row["size"], row["messages_per_s"], row["ratio_to_decode"]
    return f"{batch:,}", f"{size:,}", f"{rate:,.0f}", "" if ratio is None else f"{ratio:.2f}"
