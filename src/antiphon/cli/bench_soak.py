"""`antiphon bench soak` and `antiphon bench idle`: does memory stay, and what does it cost to be in a group?"""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich import box
from rich.table import Table

from antiphon.cli import arguments, bench_group, terminal
from antiphon.cli.main import BROKEN
from antiphon.protocol.registry import ORDERS

_SPARKS = 32
_MOST_MINUTES = 7 * 24 * 60.0
_Order = Annotated[str, typer.Option(metavar="NAME", help=f"The group's order: {', '.join(ORDERS)}.", autocompletion=lambda: list(ORDERS))]
_Transport = Annotated[
    str,
    typer.Option(metavar="NAME", help="tcp or udp; both stay on this machine.", autocompletion=lambda: list(bench_group.TRANSPORTS)),
]


def soak(
    minutes: Annotated[float, typer.Option(metavar="MINUTES", help="How long the group works.")] = 20.0,
    members: Annotated[int, typer.Option(metavar="COUNT", help="Processes, each with one node.")] = 4,
    rate: Annotated[float, typer.Option(metavar="RATE", help="Messages a second, of all members together.")] = 2_000.0,
    size: Annotated[int, typer.Option(metavar="BYTES", help="Bytes of a message.")] = 100,
    order: _Order = "total",
    transport: _Transport = "tcp",
    json: arguments.Json = False,
) -> None:
    """Let a group work for a long time and watch the memory of every process. Leaves with 1 when it grows, or the order was broken.

    Memory grows when its trend in the second half of the run (the median of the slopes between all samples) would add more than 3 % and
    more than 2 MB within that time. The first half is for histories and buffers to fill up to their bounds."""
    from antiphon.bench import soak as bench_soak
    from antiphon.bench.memory import sparkline
    from antiphon.bench.systems import ANTIPHON
    from antiphon.bench.work import Work

    work = Work(
        system=ANTIPHON,
        kind="pace",
        seconds=60.0 * bench_group.between("--minutes", minutes, 0.01, _MOST_MINUTES),
        members=bench_group.between("--members", members, 2, 64),
        rate=bench_group.between("--rate", rate, 1.0, bench_group.MOST_RATE),
        size=bench_group.sized("--size", size),
        order=bench_group.one_of("--order", order, tuple(ORDERS)),
        transport=bench_group.one_of("--transport", transport, bench_group.TRANSPORTS),
    )
    with terminal.progress("soaking") as advance:
        told = bench_soak.soak(work, lambda seconds, sizes: advance(min(int(seconds), int(work.seconds)), int(work.seconds)))
    if json:
        terminal.print_json({"ok": told.ok, "filled": told.filled, **msgspec.to_builtins(told)})
    else:
        table = Table("member", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        table.add_column(f"memory, every {told.every_s:g} s", no_wrap=True)
        for heading in ("MB", "MB/hour", "grows by MB", "may by"):
            table.add_column(heading, justify="right", no_wrap=True)
        for trend in told.trends:
            figures = (trend.samples_mb[-1], trend.slope_mb_per_hour, trend.growth_mb, trend.allowed_mb)
            style = "bold red" if trend.grows else ""
            table.add_row(str(trend.member), sparkline(trend.samples_mb, _SPARKS), *(f"{figure:,.1f}" for figure in figures), style=style)
        terminal.out.print(table)
        grown = [trend.member for trend in told.trends if trend.grows]
        rested = f"Memory grows at member {', '.join(map(str, grown))}." if grown else "Memory stays."
        promise = "every promise kept" if told.result.order_equal else "the order was BROKEN"
        terminal.out.print(f"{rested} {told.result.sent:,} messages in {told.result.seconds / 60:.1f} minutes, {promise}.")
        if grown and not told.filled:
            terminal.out.print("The history of each member was still filling: soak longer, or raise --rate, before you believe this.")
        bench_group.complain(told.result.complaints)
    if not told.ok:
        raise typer.Exit(BROKEN)


def idle(
    members: Annotated[int, typer.Option(metavar="COUNT", help="Processes, each with one node.")] = 10,
    seconds: Annotated[float, typer.Option(metavar="SECONDS", help="How long it is watched.")] = 60.0,
    order: _Order = "total",
    transport: _Transport = "tcp",
    json: arguments.Json = False,
) -> None:
    """What a group costs in which nobody says anything: CPU of each node. Leaves with 1 when one uses more than 1 % of a core."""
    from antiphon.bench import soak as bench_soak

    result = bench_soak.idle(
        bench_group.between("--members", members, 2, 64),
        bench_group.between("--seconds", seconds, 0.1, bench_group.MOST_SECONDS),
        bench_group.one_of("--transport", transport, bench_group.TRANSPORTS),
        bench_group.one_of("--order", order, tuple(ORDERS)),
    )
    ok = result.most_cpu_share < bench_soak.IDLE_SHARE
    if json:
        terminal.print_json({"ok": ok, **msgspec.to_builtins(result)})
    else:
        terminal.out.print(
            f"{members} nodes of an idle group, {result.seconds:.0f} s: {result.cpu_share:.2%} of a core each, "
            f"{result.most_cpu_share:.2%} the busiest; {result.rss_mb:,.0f} MB the largest."
        )
    if not ok:
        raise typer.Exit(BROKEN)
