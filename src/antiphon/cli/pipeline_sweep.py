"""`antiphon pipeline sweep`: a grid of simulations on the executors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from antiphon.cli import arguments, figures, spark, terminal
from antiphon.cli.main import BROKEN

Value = TypeVar("Value")
_HEADINGS = {
    "order": "order",
    "multicast": "multicast",
    "members": "members",
    "rate": "rate",
    "loss": "loss",
    "seeds": "seeds",
    "held_share": "held",
    "hold_mean_ns": "hold-back mean",
    "hold_p99_ns": "p99",
    "end_to_end_mean_ns": "end to end",
    "frames_per_delivery": "frames each",
    "broken": "broken",
}


def add(app: typer.Typer) -> None:
    app.command()(sweep)


def sweep(
    directory: Annotated[
        str, typer.Argument(metavar="OUT", help="Where the results are kept; those that are there are not computed again.")
    ],
    orders: Annotated[str, typer.Option(metavar="LIST", help="Orders, with commas between.")] = "fifo,causal,total,semantic",
    multicasts: Annotated[str, typer.Option(metavar="LIST", help="Multicasts that repair: reliable, flood, tree.")] = "reliable",
    members: Annotated[str, typer.Option(metavar="LIST", help="Sizes of the group.")] = "4,8",
    rates: Annotated[str, typer.Option(metavar="LIST", help="Messages per second of the whole group.")] = "10",
    losses: Annotated[str, typer.Option(metavar="LIST", help="Shares of frames that are lost.")] = "0,0.02",
    delays: Annotated[str, typer.Option(metavar="LIST", help="Shortest and longest delay of a frame, each LOW:HIGH.")] = "20ms:200ms",
    messages: Annotated[str, typer.Option(metavar="LIST", help="Messages of the conversation; said again where it is shorter.")] = "120",
    seeds: Annotated[str, typer.Option(metavar="FIRST:END", help="The seeds, END not included.")] = "0:10",
    conversation: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON lines with id, author, parents and text. Without it: Antiphon's own.")
    ] = None,
    json: arguments.Json = False,
    master: spark.Master = None,
    remote: spark.Remote = None,
    settings: spark.Settings = None,
) -> None:
    """Simulate every combination of parameters with every seed, and show what each order costs as groups grow and networks get worse.

    Interrupt it, or lose the machine: the same command goes on where it was. Leaves with 1 when an order breaks a promise of its own, or a
    simulation does not come to its end."""
    from antiphon.sim import conversation as conversations
    from antiphon.spark.grid import Grid
    from antiphon.spark.session import open_session
    from antiphon.spark.sweep import by_parameters
    from antiphon.spark.sweep import sweep as run

    grid = Grid(
        orders=_list(orders, "--orders", str),
        multicasts=_list(multicasts, "--multicasts", str),
        members=_list(members, "--members", int),
        rates=_list(rates, "--rates", float),
        losses=_list(losses, "--losses", float),
        delays_s=_list(delays, "--delays", lambda text: arguments.interval(text, "--delays")),
        messages=_list(messages, "--messages", int),
        seeds=arguments.seeds(seeds),
    )
    told = None if conversation is None else conversations.load(arguments.existing(conversation, "--conversation"))
    cells = grid.cells(told)
    opening = open_session(master=master, remote=remote, name="antiphon sweep", settings=spark.chosen_settings(settings))
    # The bar of other commands counts tasks; this one counts simulations.
    with terminal.progress("simulating") as advance, opening as session:
        advance(0, len(cells))
        done = run(session, cells, directory, conversation=told, progress=advance)
        rows, more = figures.rows_of(by_parameters(done.results))
        bad = done.results.where("broken > 0 or not settled or error != ''").count()
    figure = {"cells": len(cells), "resumed": done.resumed, "ran": done.ran, "took_s": done.took_s, "busy": done.busy, "cores": done.cores}
    figure["bad"] = bad
    if json:
        terminal.print_json({**figure, "results": rows, "shortened": ["results"] if more else []})
    else:
        for row in rows:
            row |= {f"{name}_ns": row[f"{name}_s"] * 1e9 for name in ("hold_mean", "hold_p99", "end_to_end_mean")}
        terminal.out.print(figures.table("What each order costs (means over the seeds)", _HEADINGS, rows))
        work = f"{done.ran:,} in {done.took_s:.1f} s, {done.cores} cores {100 * done.busy:.0f} % busy" if done.ran else "none to do"
        terminal.out.print(f"{len(cells):,} simulations ({done.resumed:,} were there, {work}); results in {directory}", markup=False)
        if bad:
            terminal.out.print(f"{bad:,} broke a promise, did not settle or ended with an error: the results say which", markup=False)
    if bad:
        raise typer.Exit(BROKEN)


def _list(text: str, flag: str, read: Callable[[str], Value]) -> tuple[Value, ...]:
    try:
        return tuple(read(word.strip()) for word in text.split(","))
    except ValueError:
        raise arguments.refused(flag, text, "write numbers with commas between them, for example 4,8") from None
