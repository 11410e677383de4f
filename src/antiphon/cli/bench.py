"""`antiphon bench`: what this machine can do, and what a group costs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from antiphon.cli import arguments, bench_group, bench_peers, bench_soak, bench_topics, bench_trace, terminal

if TYPE_CHECKING:
    from antiphon.bench.membership import Cost, Growth

app = typer.Typer(
    help="Measure groups of real processes on this machine, alone and beside other systems; the core without a network; and count what a "
    "group of any size costs its members.",
    no_args_is_help=True,
)
app.command()(bench_group.group)
app.command()(bench_peers.peers)
app.command()(bench_soak.soak)
app.command()(bench_soak.idle)
app.command()(bench_topics.topics)
app.command()(bench_trace.trace)


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


@app.command()
def repair(
    messages: Annotated[int, typer.Option(metavar="COUNT", min=1, max=100_000, help="Messages that one member sends to three.")] = 5_000,
    seed: Annotated[int, typer.Option(metavar="NUMBER", help="The seed of every network.")] = 1,
    json: arguments.Json = False,
) -> None:
    """What repair costs, and how long it takes, on networks that delay, reorder and lose frames.

    Everything is counted in the simulator in virtual time, so the numbers are the same on every machine. Extra frames are data frames
    beyond one for each message and receiver. The recovery time is from sending a message to its arrival, for those that did not
    arrive at once."""
    from antiphon.bench import repair as bench_repair

    rows = []
    with terminal.progress("counting") as advance:
        for done, row in enumerate(bench_repair.rows(messages, seed), 1):
            rows.append(row)
            advance(done, len(bench_repair.WEATHERS))
    if json:
        terminal.print_json({"rows": rows})
        return
    table = Table("delay", "loss")
    for heading in ("data frames", "extra", "requests", "repairs", "recovered", "p50 ms", "p99 ms"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            f"{row['low_ms']:g} … {row['high_ms']:g} ms" if row["low_ms"] != row["high_ms"] else f"{row['low_ms']:g} ms",
            f"{row['loss']:.0%}",
            *(f"{row['data_frames']:,}", f"{row['extra_percent']:.1f} %"),
            *(f"{row[name]:,}" for name in ("requests", "repairs", "recovered")),
            *("" if row[name] is None else f"{row[name]:,.1f}" for name in ("p50_ms", "p99_ms")),
        )
    terminal.out.print(table)


@app.command()
def membership(
    members: Annotated[str, typer.Option(metavar="SIZES", help="The sizes of the groups, with commas between them.")] = "10,50,100,200",
    json: arguments.Json = False,
) -> None:
    """What it costs to be in a group: frames and bytes per member, while views form, somebody joins or dies, and nothing happens.

    Everything is counted in the simulator, on a network that loses nothing, so the numbers are the same on every machine. The second table
    says by which power of the group's size each of them grows. `--json` also says which kinds of frames they are, and how long it took
    in virtual time. The sizes of the default take about two minutes."""
    from antiphon.bench import membership as bench_membership

    sizes = _sizes(members, bench_membership.LARGEST)
    with terminal.progress("counting") as advance:
        costs = list(bench_membership.costs(sizes, advance))
    growth, histories = bench_membership.growth(costs), list(bench_membership.costs_of_history(bench_membership.HISTORIES))
    if json:
        terminal.print_json({"costs": costs, "growth": growth, "histories": histories})
        return
    terminal.out.print(_table_of_costs(costs))
    if len(sizes) > 1:
        terminal.out.print("Grows by this power of the group's size (0: not at all, 1: as the group does, 2: as its square):")
        terminal.out.print(_table_of_growth(growth))
    for cost in histories:
        each = cost.bytes / cost.frames
        terminal.out.print(
            f"An idle minute of {cost.members} members after {cost.messages:,} messages: {cost.frames:,.0f} frames per member, "
            f"{', '.join(cost.kinds)} and nothing else, of {each:.0f} B each."
        )


def _sizes(text: str, largest: int) -> tuple[int, ...]:
    """`10,50` is a group of 10 and one of 50; sorted, each once."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) <= 6 for word in words):
        raise arguments.refused("--members", text, "write numbers with commas between them, for example 10,50,100")
    sizes = tuple(sorted({int(word) for word in words}))
    if sizes[0] < 3 or sizes[-1] > largest:
        raise arguments.refused("--members", text, f"a group that is counted has from 3 to {largest:,} members")
    return sizes


_EVENTS = {
    "found": "all come, by name",
    "gather": "one creates, all join",
    "join": "one more joins",
    "crash": "one dies",
    "digests": "idle minute: digests",
    "idle": "idle minute: all else",
}


def _table_of_costs(costs: list[Cost]) -> Table:
    table = Table("per member, in a group of")
    for heading in ("frames", "the most", "bytes", "the most"):
        table.add_column(heading, justify="right")
    for what, title in _EVENTS.items():
        table.add_section()
        table.add_row(f"[bold]{title}")
        for cost in costs:
            if cost.what == what:
                figures = (f"{cost.frames:,.1f}", f"{cost.most_frames:,}", f"{cost.bytes:,.0f}", f"{cost.most_bytes:,}")
                table.add_row(f"{cost.members:,}", *figures)
    return table


def _table_of_growth(growth: list[Growth]) -> Table:
    table = Table("")
    for heading in ("frames", "the most", "bytes", "the most"):
        table.add_column(heading, justify="right")
    for row in growth:
        powers = (row.frames, row.most_frames, row.bytes, row.most_bytes)
        table.add_row(_EVENTS[row.what], *("" if power is None else f"{power:.2f}" for power in powers))
    return table


def _figures(row: dict[str, object]) -> tuple[str, str, str, str]:
    batch, size, rate, ratio = row["batch"], row["size"], row["messages_per_s"], row["ratio_to_decode"]
    return f"{batch:,}", f"{size:,}", f"{rate:,.0f}", "" if ratio is None else f"{ratio:.2f}"
