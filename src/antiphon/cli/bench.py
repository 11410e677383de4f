"""`antiphon bench`: what this machine can do."""

from __future__ import annotations

import itertools
from typing import Annotated

import typer
from rich.table import Table

from antiphon.cli import arguments, terminal

app = typer.Typer(help="Measure the core on this machine: its speed, and what it costs when very many messages wait.", no_args_is_help=True)


@app.command()
def core(
    quick: Annotated[bool, typer.Option("--quick", metavar="", help="Fewer repetitions: a rough answer in a few seconds.")] = False,
    json: arguments.Json = False,
) -> None:
    """Messages per second through the core alone (no network), for every path, batch size and message size.

    The last column compares each path with decoding the same frames and doing nothing else, measured in the same run."""
    from antiphon.bench import core as bench_core

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


@app.command()
def semantic(
    small: Annotated[int, typer.Option(metavar="COUNT", min=2, help="Messages in the small case.")] = 1_000,
    large: Annotated[int, typer.Option(metavar="COUNT", min=2, max=131_072, help="Messages in the large case.")] = 100_000,
    json: arguments.Json = False,
) -> None:
    """Whether a message costs the same when very many wait: long chains and wide stars of replies that arrive before their question."""
    from antiphon.bench import semantic as bench_semantic

    if large <= small:
        raise arguments.refused("--large", large, f"the large case must have more messages than the small one, which has {small:,}")
    rows = []
    with terminal.progress("measuring") as advance:
        for done, row in enumerate(bench_semantic.rows(small, large), 1):
            rows.append(row)
            advance(done, len(bench_semantic.SHAPES))
    if json:
        terminal.print_json({"rows": rows})
        return
    terminal.out.print("Replies that arrive before what they answer; the ratio is the cost of a message in the large case over the small.")
    table = Table("shape")
    for heading in (*(f"{count:,} messages, ns each" for count in (small, large)), "ratio"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(str(row["shape"]), f"{row['small_ns_per_message']:,}", f"{row['large_ns_per_message']:,}", f"{row['ratio']:.2f}")
    terminal.out.print(table)


def _figures(row: dict[str, object]) -> tuple[str, str, str, str]:
    batch, size, rate, ratio = row["batch"], row["size"], row["messages_per_s"], row["ratio_to_decode"]
    return f"{batch:,}", f"{size:,}", f"{rate:,.0f}", "" if ratio is None else f"{ratio:.2f}"
