"""One run of one system, from its server to the verdict: a row of every table."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from msgspec import Struct, structs

from antiphon.bench.processes import Crew
from antiphon.bench.systems import SYSTEMS, load
from antiphon.bench.witness import judge
from antiphon.bench.work import Tally, Work, percentile

_PERCENTILES = {"p50_us": 0.5, "p99_us": 0.99, "p999_us": 0.999, "max_us": 1.0}


class Result(Struct, frozen=True, kw_only=True):
    """What a system did. `order_equal` says whether all members delivered everything in the promised order. CPU is that of all members
    and the server, per million deliveries at a member; memory is that of the largest member, at its most."""

    system: str
    label: str
    kind: str
    order: str
    members: int
    size: int
    batch: int
    """Messages that the application hands over at once."""
    seconds: float
    deliveries_per_s_per_member: int
    order_equal: bool
    cpu_s_per_million: float | None
    cpu_share: float
    """Of one core, the mean of the members."""
    most_cpu_share: float
    """That of the busiest member."""
    rss_mb: float
    sent: int
    p50_us: float | None = None
    p99_us: float | None = None
    p999_us: float | None = None
    max_us: float | None = None
    complaints: tuple[str, ...] = ()


class Skipped(Struct, frozen=True):
    """A system that could not take part, and what to do about it."""

    system: str
    label: str
    order: str
    why: str


def measure(work: Work, look: Callable[[list[int]], None] | None = None, every_s: float = 60.0) -> Result:
    """Runs the work once. Raises BenchFailed when a member fails; a broken promise is no failure but a result."""
    module = load(work.system)
    serve, command = getattr(module, "serve", None), getattr(module, "command", None)
    with (
        serve(work) if serve is not None else nullcontext(work) as served,
        Crew(served, command(served) if command is not None else None) as crew,
    ):
        tallies = crew.tallies(every_s, look)
    return result(served, tallies)


def result(work: Work, tallies: list[Tally]) -> Result:
    verdict = judge(tallies, work.order)
    deliveries = sum(tally.deliveries for tally in tallies)
    cpu_s = sum(tally.cpu_s + tally.server_cpu_s for tally in tallies)
    delays = sorted(delay for tally in tallies for delay in tally.delays_us)
    delayed: dict[str, Any] = {}
    if delays:
        delayed = {name: round(percentile(delays, share), 1) for name, share in _PERCENTILES.items()}
    system = SYSTEMS[work.system]
    return Result(
        system=work.system,
        label=system.label + (", one by one" if work.iterate == "messages" else ""),
        kind=work.kind,
        order=work.order,
        members=work.members,
        size=work.size,
        batch=work.batch if system.batched and work.kind == "flood" else 1,
        seconds=round(statistics.fmean(tally.seconds for tally in tallies), 2),
        deliveries_per_s_per_member=round(statistics.fmean(tally.deliveries / tally.seconds for tally in tallies)),
        order_equal=verdict.kept,
        cpu_s_per_million=round(cpu_s / deliveries * 1e6, 3) if deliveries else None,
        cpu_share=round(statistics.fmean(tally.cpu_s / tally.seconds for tally in tallies), 4),
        most_cpu_share=round(max(tally.cpu_s / tally.seconds for tally in tallies), 4),
        rss_mb=round(max(tally.rss_mb for tally in tallies), 1),
        sent=sum(tally.sent for tally in tallies),
        complaints=verdict.complaints[:8],
        **delayed,
    )


def middle(results: list[Result]) -> Result:
    """The median run of several; of delays, the median of every percentile. The promise counts as kept only if every run kept it."""
    chosen = sorted(results, key=lambda run: (run.p50_us or 0.0, run.deliveries_per_s_per_member))[len(results) // 2]
    complaints = tuple(complaint for run in results for complaint in run.complaints)
    delays = {name: [delay for run in results if (delay := getattr(run, name)) is not None] for name in _PERCENTILES}
    medians = {name: statistics.median_low(values) for name, values in delays.items() if values}
    return structs.replace(chosen, order_equal=all(run.order_equal for run in results), complaints=complaints[:8], **medians)
