"""`antiphon bench trace`: what recording costs a group of real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from antiphon.cli import arguments, terminal
from antiphon.cli.bench_group import MOST_SECONDS, between, check, complain, one_of, sized
from antiphon.cli.main import BROKEN
from antiphon.protocol.registry import ORDERS

_MOST_PAIRS = 50


def trace(
    order: Annotated[
        str, typer.Option(metavar="NAME", help=f"The group's order: {', '.join(ORDERS)}.", autocompletion=lambda: list(ORDERS))
    ] = "total",
    members: Annotated[int, typer.Option(metavar="COUNT", help="Processes, each with one node that sends and delivers everything.")] = 4,
    size: Annotated[int, typer.Option(metavar="BYTES", help="Bytes of a message.")] = 100,
    pairs: Annotated[int, typer.Option(metavar="COUNT", help="Runs without and with a trace, in turns.")] = 10,
    seconds: Annotated[float, typer.Option(metavar="SECONDS", help="How long a run sends, after its warm-up.")] = 3.0,
    warmup: Annotated[float, typer.Option(metavar="SECONDS", help="How long a run sends before it is measured.")] = 1.0,
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the traces in this directory.")] = None,
    json: arguments.Json = False,
) -> None:
    """Flood a group of real processes without and with a trace, in turns, and show what recording costs.

    Every trace is read afterwards. Leaves with 1 when a promise was broken or a row of a trace is missing."""
    from antiphon.bench import recording
    from antiphon.bench.systems import ANTIPHON
    from antiphon.bench.work import Work

    work = Work(
        system=ANTIPHON,
        order=one_of("--order", order, tuple(ORDERS)),
        members=between("--members", members, 2, 64),
        size=sized("--size", size),
        seconds=between("--seconds", seconds, 0.1, MOST_SECONDS),
        warmup_s=between("--warmup", warmup, 0.0, MOST_SECONDS),
    )
    check(work.order, work.multicast)
    steps = 2 * between("--pairs", pairs, 1, _MOST_PAIRS)
    with terminal.progress("measuring") as advance:
        done = iter(range(steps + 1))
        told = recording.cost(work, pairs, keep, lambda _: advance(next(done), steps))
    if json:
        terminal.print_json(told.as_dict())
    else:
        terminal.out.print(_table(told))
        terminal.out.print(
            f"Recording leaves {told.rate:.3f} of the deliveries per second, {told.cpu:.3f} of those per CPU second (the middle pair)."
        )
        complain([complaint for pair in told.pairs for run in (pair.off, pair.on) for complaint in run.complaints])
        if sum(pair.missing for pair in told.pairs):
            complain([f"{sum(pair.missing for pair in told.pairs):,} rows are missing in the traces"])
    if not told.kept:
        raise typer.Exit(BROKEN)


def _table(told: object) -> Table:
    from antiphon.bench.recording import RecordingCost

    assert isinstance(told, RecordingCost)
    table = Table()
    for heading in ("without, deliveries/s", "with", "rate", "by CPU", "rows", "rows/s at a member", "bytes/delivery"):
        table.add_column(heading, justify="right")
    for pair in told.pairs:
        per_s = pair.rows / pair.on.members / max(pair.on.seconds, 0.001)
        share = pair.bytes / max(pair.recorded, 1)
        rates = (pair.off.deliveries_per_s_per_member, pair.on.deliveries_per_s_per_member)
        table.add_row(
            *(f"{rate:,}" for rate in rates), f"{pair.rate:.3f}", f"{pair.cpu:.3f}", f"{pair.rows:,}", f"{per_s:,.0f}", f"{share:.2f}"
        )
    return table
