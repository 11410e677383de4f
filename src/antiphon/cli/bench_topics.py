"""`antiphon bench topics`: what durable topics cost beside the bare store."""

from __future__ import annotations

import itertools
import tempfile
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from antiphon.cli import arguments, terminal

if TYPE_CHECKING:
    from antiphon.bench.topics.rows import Row, TopicGrowth

_LENGTH_LIMIT = 100_000_000
_SUBSCRIBERS_LIMIT = 100_000


def topics(
    store: Annotated[
        str,
        typer.Option(metavar="URL", help="The store. Without it: a file, and a JetStream server if nats is installed, both thrown away."),
    ] = "",
    size: Annotated[int, typer.Option(metavar="BYTES", min=1, max=1 << 20, help="The size of a value.")] = 256,
    iterations: Annotated[int, typer.Option(metavar="COUNT", min=1, max=10_000, help="How often a single operation is timed.")] = 30,
    pairs: Annotated[int, typer.Option(metavar="COUNT", min=1, max=99, help="How often Antiphon and the bare store take turns.")] = 5,
    seconds: Annotated[float, typer.Option(metavar="SECONDS", min=0.05, max=60, help="How long a turn takes.")] = 0.7,
    growth: Annotated[
        bool, typer.Option("--growth", metavar="", help="Also: do costs grow with a topic's length, or with its subscribers?")
    ] = False,
    length: Annotated[str, typer.Option(metavar="SMALL,LARGE", help="With --growth: values in the two topics.")] = "1000,1000000",
    subscribers: Annotated[str, typer.Option(metavar="SMALL,LARGE", help="With --growth: their subscribers.")] = "1,1000",
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the single operations: .png or .svg.")] = None,
    json: arguments.Json = False,
) -> None:
    """Measure topics: throughput with 1, 64 and 1,024 values per batch, beside raw SQLite or raw nats-py with the same durability, and
    the time of single operations: join, leave, write, read, delete.

    Everything published is on disk and synced when it is acknowledged, and everything read has its position on disk. The ratio is the
    median over pairs of turns. --growth fills a topic with a million values and another with a thousand, which takes a while."""
    from antiphon.runtime.run import run

    sizes = _two(length, "--length", _LENGTH_LIMIT), _two(subscribers, "--subscribers", _SUBSCRIBERS_LIMIT)
    if plot is not None:
        arguments.writable(plot, "--plot", (".png", ".svg"))
    found: list[Row] = []
    grown: list[TopicGrowth] = []
    timed: dict[str, dict[str, list[float]]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-bench-")))
        for url in [store] if store else _stores(folder, stack):
            with terminal.progress(url.partition(":")[0]) as advance:
                run(_measure(url, folder, size, iterations, pairs, seconds, sizes if growth else None, advance, found, grown, timed))
    if plot is not None:
        from antiphon.bench.topics.plot import draw

        draw(timed, plot)
    if json:
        only = next(iter(timed.values())) if len(timed) == 1 else None
        more = {"timings_by_store_ms": timed, "growth": grown} if only is None else {"growth": grown}
        terminal.print_json({"rows": found, "timings_ms": only or next(iter(timed.values())), **more})
    else:
        _show(found, grown, timed, plot)


async def _measure(
    url: str,
    folder: Path,
    size: int,
    iterations: int,
    pairs: int,
    seconds: float,
    growth: tuple[tuple[int, int], tuple[int, int]] | None,
    advance: terminal.Advance,
    found: list[Row],
    grown: list[TopicGrowth],
    timed: dict[str, dict[str, list[float]]],
) -> None:
    from antiphon.bench.topics import rows
    from antiphon.bench.topics.timings import timings

    rows.check(url)
    done, total = itertools.count(1), rows.steps(pairs) + 2 * iterations + (2 * (2 + 2 * pairs) if growth else 0)

    def told() -> None:
        advance(next(done), total)

    timed[url.partition(":")[0]] = await timings(url, iterations, told)
    found += await rows.rows(url, folder, size, pairs, seconds, told)
    if growth is not None:
        for of, (small, large) in zip(("length", "subscribers"), growth, strict=True):
            grown += await rows.growth(url, size, of, small, large, pairs, told)


def _stores(folder: Path, stack: ExitStack) -> list[str]:
    from antiphon.store.jetstream.server import LocalServers

    urls = [f"sqlite:{folder / 'bench.db'}"]
    if find_spec("nats") is None:
        terminal.err.print("JetStream is left out: pip install 'antiphon[nats]'", style="dim", markup=False)
    else:
        urls.append(stack.enter_context(LocalServers(1, folder / "jetstream")).url)
    return urls


def _two(text: str, flag: str, limit: int) -> tuple[int, int]:
    """`1000,1000000`: a small number and a larger one."""
    words = text.split(",")
    if len(words) != 2 or not all(word.strip().isascii() and word.strip().isdigit() for word in words):
        raise arguments.refused(flag, text, "write a small number and a larger one, for example 1000,1000000")
    small, large = map(int, words)
    if not 1 <= small < large <= limit:
        raise arguments.refused(flag, text, f"the first is 1 or more, the second larger, up to {limit:,}")
    return small, large


def _show(found: list[Row], grown: list[TopicGrowth], timed: dict[str, dict[str, list[float]]], plot: Path | None) -> None:
    table = Table("store", "operation")
    for heading in ("batch", "values/s", "bare store", "ratio"):
        table.add_column(heading, justify="right")
    for row in found:
        if row.operation == "publish" and row.batch == 1:
            table.add_section()
        table.add_row(row.store, row.operation, f"{row.batch:,}", f"{row.per_s:,.0f}", f"{row.raw_per_s:,.0f}", f"{row.ratio:.2f}")
    terminal.out.print(table)
    times = Table("milliseconds, median (largest)", *timed)
    figures: Any = {store: {name: f"{median(all):.2f} ({max(all):.2f})" for name, all in each.items()} for store, each in timed.items()}
    for operation in next(iter(timed.values())):
        times.add_row(operation, *(figures[store][operation] for store in timed))
    terminal.out.print(times)
    if grown:
        growth = Table("store", "a batch of 64", "with", "costs")
        for one in grown:
            growth.add_row(one.store, one.operation, f"{one.large:,} instead of {one.small:,} ({one.of})", f"{one.ratio:.2f} times")
        terminal.out.print(growth)
    if plot is not None:
        terminal.out.print(f"{plot} shows every iteration", markup=False)
