"""`antiphon bench peers`: the same work through Antiphon and through other systems, in one run."""

from __future__ import annotations

from typing import Annotated

import typer

from antiphon.cli import arguments, bench_group, terminal
from antiphon.cli.main import BROKEN

ORDERS = ("total", "fifo")


def peers(
    order: Annotated[
        str | None, typer.Option(metavar="NAME", help="total or fifo; without it both.", autocompletion=lambda: list(ORDERS))
    ] = None,
    size: Annotated[str, typer.Option(metavar="SIZES", help="Bytes of a message; several with commas between them.")] = "100,1024",
    members: Annotated[int, typer.Option(metavar="COUNT", help="Processes, each sending and delivering everything.")] = 4,
    seconds: Annotated[float, typer.Option(metavar="SECONDS", help="How long a run sends, after its warm-up.")] = 5.0,
    batch: Annotated[int, typer.Option(metavar="COUNT", help="Messages handed over at a time, where a system takes several.")] = 64,
    rounds: Annotated[int, typer.Option(metavar="COUNT", help="Runs of every system, in turns; the median is shown.")] = 1,
    systems: Annotated[str, typer.Option(metavar="LIST", help="Only these, with commas between them; see docs/benchmarks.md.")] = "",
    packed: Annotated[
        bool,
        typer.Option("--packed", metavar="", help="Also every peer with batches that the application packs and unpacks by hand."),
    ] = False,
    no_latency: Annotated[bool, typer.Option("--no-latency", metavar="", help="Leave out the delays at a fixed rate.")] = False,
    latency_only: Annotated[
        bool, typer.Option("--latency-only", metavar="", help="Measure nothing but the delays: many rounds then take little time.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", metavar="", help="Print the tables as Markdown.")] = False,
    json: arguments.Json = False,
) -> None:
    """Measure other systems that are installed here beside Antiphon: pyzmq, NATS, JetStream, Zenoh, Redis Streams, JGroups.

    Everyone does the same work with as many processes: each sends and delivers everything, and every row is verified. Then delays: one
    sender of 1,000 messages/s, four receivers. What is not installed is named with the command that installs it."""
    from antiphon.bench import comparison
    from antiphon.bench.contest import Result, Skipped
    from antiphon.bench.systems import ANTIPHON
    from antiphon.bench.work import Work
    from antiphon.cli import bench_rows

    orders = ORDERS if order is None else (bench_group.one_of("--order", order, ORDERS),)
    names = [name.strip() for name in systems.split(",") if name.strip()]
    base = Work(
        system=ANTIPHON,
        members=bench_group.between("--members", members, 2, 64),
        seconds=bench_group.between("--seconds", seconds, 0.1, bench_group.MOST_SECONDS),
        batch=bench_group.between("--batch", batch, 1, bench_group.MOST_BATCH),
    )
    if latency_only and no_latency:
        raise arguments.refused("--latency-only", "--no-latency", "that leaves nothing to measure: choose one of them")
    works = [] if latency_only else comparison.floods(base, orders, _sizes(size), names, packed)
    if not no_latency:
        works += comparison.paces(base, orders, names)
    if not works:
        raise arguments.refused("--systems", systems, f"none of them promises {' or '.join(orders)} order")
    steps = len(works) * bench_group.between("--rounds", rounds, 1, bench_group.MOST_ROUNDS)
    with terminal.progress("measuring") as advance:
        done = iter(range(steps + 1))
        rows = list(comparison.side_by_side(works, rounds, lambda _: advance(next(done), steps)))
    results = [row for row in rows if isinstance(row, Result)]
    skipped = [row for row in rows if isinstance(row, Skipped)]
    if json:
        terminal.print_json({"rows": results, "skipped": skipped})
    elif markdown:
        terminal.out.print(bench_rows.markdown(results), markup=False, soft_wrap=True)
    else:
        for title, table in bench_rows.tables(results):
            terminal.out.print(f"\n{title}", markup=False)
            terminal.out.print(table)
    if not json:
        for line in bench_rows.skipped_lines(skipped):
            terminal.err.print(line, markup=False, soft_wrap=True)
        for row in results:
            bench_group.complain([f"{row.label}, {row.order}: {complaint}" for complaint in row.complaints])
    # A peer that fails or loses messages is a row of the table; that Antiphon does is a failure.
    if any(row.system == ANTIPHON for row in skipped) or not all(row.order_equal for row in results if row.system == ANTIPHON):
        raise typer.Exit(BROKEN)


def _sizes(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) <= 9 for word in words):
        raise arguments.refused("--size", text, "write bytes with commas between them, for example 100,1024")
    return tuple(dict.fromkeys(bench_group.sized("--size", int(word)) for word in words))
