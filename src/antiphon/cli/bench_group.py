"""`antiphon bench group`: one group of real processes on this machine, beside the bare loop."""

from __future__ import annotations

from typing import Annotated, TypeVar

import typer

from antiphon.cli import arguments, terminal
from antiphon.cli.main import BROKEN
from antiphon.protocol.registry import MULTICASTS, ORDERS

TRANSPORTS = ("tcp", "udp")
ITERATIONS = ("batches", "messages")
Number = TypeVar("Number", int, float)

MOST_SECONDS, MOST_BATCH, MOST_RATE, MOST_ROUNDS = 3_600.0, 256, 100_000.0, 100


def group(
    order: Annotated[
        str, typer.Option(metavar="NAME", help=f"The group's order: {', '.join(ORDERS)}.", autocompletion=lambda: list(ORDERS))
    ] = "total",
    multicast: Annotated[
        str,
        typer.Option(metavar="NAME", help=f"The group's multicast: {', '.join(MULTICASTS)}.", autocompletion=lambda: list(MULTICASTS)),
    ] = "reliable",
    members: Annotated[int, typer.Option(metavar="COUNT", help="Processes, each with one node that sends and delivers everything.")] = 4,
    size: Annotated[int, typer.Option(metavar="BYTES", help="Bytes of a message.")] = 100,
    seconds: Annotated[float, typer.Option(metavar="SECONDS", help="How long a run sends, after its warm-up.")] = 5.0,
    transport: Annotated[
        str, typer.Option(metavar="NAME", help="tcp or udp; both stay on this machine.", autocompletion=lambda: list(TRANSPORTS))
    ] = "tcp",
    rate: Annotated[
        float, typer.Option(metavar="RATE", help="Messages a second of the one sender whose delays are measured; 0 leaves that out.")
    ] = 1_000.0,
    batch: Annotated[int, typer.Option(metavar="COUNT", help="Messages that the application hands over at a time.")] = 64,
    iterate: Annotated[
        str, typer.Option(metavar="NAME", help="How members read: batches or messages.", autocompletion=lambda: list(ITERATIONS))
    ] = "batches",
    warmup: Annotated[float, typer.Option(metavar="SECONDS", help="How long a run sends before it is measured.")] = 1.0,
    rounds: Annotated[int, typer.Option(metavar="COUNT", help="Runs of the group and of the limit, in turns; the median is shown.")] = 2,
    trace: arguments.Trace = None,
    no_limit: Annotated[bool, typer.Option("--no-limit", metavar="", help="Leave out the bare loop.")] = False,
    json: arguments.Json = False,
) -> None:
    """Start a group of real processes, let all send and deliver everything, and verify the order message by message.

    Prints deliveries per second at each member, delays at a fixed rate, CPU and memory; and beside it the bare loop, which is what Python
    allows for this design with no protocol in the way. Leaves with 1 when the promise of the order was broken."""
    from antiphon.bench import comparison
    from antiphon.bench.systems import ANTIPHON
    from antiphon.bench.work import Work
    from antiphon.cli import bench_rows

    work = Work(
        system=ANTIPHON,
        order=one_of("--order", order, tuple(ORDERS)),
        multicast=one_of("--multicast", multicast, tuple(MULTICASTS)),
        transport=one_of("--transport", transport, TRANSPORTS),
        iterate=one_of("--iterate", iterate, ITERATIONS),
        members=between("--members", members, 2, 64),
        size=sized("--size", size),
        seconds=between("--seconds", seconds, 0.1, MOST_SECONDS),
        warmup_s=between("--warmup", warmup, 0.0, MOST_SECONDS),
        batch=between("--batch", batch, 1, MOST_BATCH),
        trace="" if trace is None else str(trace),
    )
    if multicast == "besteffort":
        raise arguments.refused("--multicast", multicast, "it may lose messages, so there is no promise to verify; choose reliable")
    check(work.order, work.multicast)
    between("--rate", rate, 0.0, MOST_RATE)
    with terminal.progress("measuring") as advance:
        steps = between("--rounds", rounds, 1, MOST_ROUNDS) * (1 if no_limit else 2) + bool(rate)
        done = iter(range(steps + 1))
        told = comparison.against_limit(work, rounds=rounds, limit=not no_limit, rate=rate, progress=lambda _: advance(next(done), steps))
    if json:
        terminal.print_json(told.as_dict())
    else:
        for title, table in bench_rows.tables([row for row in (told.limit, told.group, told.latency) if row is not None]):
            terminal.out.print(f"\n{title}", markup=False)
            terminal.out.print(table)
        if told.limit is not None:
            rates, cpu = comparison.ratio(told.group, told.limit), comparison.cpu_ratio(told.group, told.limit)
            terminal.out.print(f"{rates:.2f} of the limit by rate, {cpu or 0:.2f} by CPU time.")
        complain(told.as_dict()["complaints"])
    if not told.kept:
        raise typer.Exit(BROKEN)


def complain(complaints: object) -> None:
    for complaint in complaints if isinstance(complaints, list | tuple) else ():
        terminal.out.print(f"broken: {complaint}", style="bold red", markup=False, soft_wrap=True)


def check(order: str, multicast: str) -> None:
    """Refuses what no group can be, before any process is started."""
    from antiphon.model.options import GroupOptions
    from antiphon.protocol.registry import stages

    stages(GroupOptions(order=order, multicast=multicast))


def one_of(flag: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise arguments.refused(flag, value, f"choose one of {', '.join(choices)}")
    return value


def between(flag: str, value: Number, least: float, most: float) -> Number:
    if not least <= value <= most:
        raise arguments.refused(flag, value, f"choose from {least:,g} to {most:,g}")
    return value


def sized(flag: str, value: int) -> int:
    from antiphon.bench.work import LARGEST, SMALLEST

    if not SMALLEST <= value <= LARGEST:
        raise arguments.refused(flag, value, f"choose from {SMALLEST} bytes, which hold who sent what and when, to {LARGEST:,}")
    return value
