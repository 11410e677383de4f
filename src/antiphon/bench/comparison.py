"""Several runs in one: rounds that take turns, so that a slow moment of the machine meets every row alike.

The rates of a shared machine vary by more than the differences that matter; a ratio of runs that took turns does not. Beside the ratio of
rates stands that of CPU seconds per delivery, which hardly depends on who else is using the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct, structs

from antiphon.bench.contest import Result, Skipped, measure, middle
from antiphon.bench.processes import BenchFailed
from antiphon.bench.systems import ANTIPHON, ANTIPHON_TCP, LIMIT, SYSTEMS, ZEROMQ_IPC
from antiphon.bench.work import Work
from antiphon.errors import UsageError

LATENCY_SIZE, LATENCY_RATE, LATENCY_RECEIVERS = 256, 1_000.0, 4
_LATENCY_SYSTEMS = (
    *(("zeromq", "fifo"), (ZEROMQ_IPC, "fifo"), ("zenoh", "fifo"), (ANTIPHON, "fifo"), (ANTIPHON_TCP, "fifo")),
    *((ANTIPHON, "total"), (ANTIPHON_TCP, "total"), (LIMIT, "fifo"), (LIMIT, "total")),
)

Progress = Callable[[str], None]


class AgainstLimit(Struct, frozen=True):
    """A group beside the bare loop; each the median of its rounds."""

    group: Result
    limit: Result | None
    latency: Result | None
    """The group at a fixed rate."""
    runs: list[Result]

    def as_dict(self) -> dict[str, object]:
        """Plain values, as `--json` prints them."""
        told: dict[str, object] = msgspec.to_builtins(self.group)
        told["complaints"] = [*self.group.complaints, *(self.latency.complaints if self.latency else ())]
        if self.latency is not None:
            told |= {name: getattr(self.latency, name) for name in ("p50_us", "p99_us", "p999_us", "max_us")}
            told["order_equal"] = self.kept
            told["latency"] = msgspec.to_builtins(self.latency)
        if self.limit is not None:
            told["limit"] = msgspec.to_builtins(self.limit)
            told["ratio_to_limit"] = ratio(self.group, self.limit)
            told["cpu_ratio_to_limit"] = cpu_ratio(self.group, self.limit)
        return {**told, "runs": msgspec.to_builtins(self.runs)}

    @property
    def kept(self) -> bool:
        return all(result.order_equal for result in (self.group, self.limit, self.latency) if result is not None)


def against_limit(work: Work, *, rounds: int, limit: bool, rate: float, progress: Progress) -> AgainstLimit:
    """Floods the group and the bare loop in turns, then measures delays at `rate` messages a second (0: not)."""
    bare = structs.replace(work, system=LIMIT, order="total" if work.order == "total" else "fifo", iterate="batches", options={}, trace="")
    runs: list[Result] = []
    for round_number in range(1, rounds + 1):
        for each in (work, bare) if limit else (work,):
            progress(f"{SYSTEMS[each.system].label}, round {round_number}")
            runs.append(measure(each))
    latency = None
    if rate:
        progress(f"delays at {rate:,.0f} messages/s")
        latency = measure(paced(work, rate))
        runs.append(latency)
    floods = {system: [run for run in runs if run.system == system and run.kind == "flood"] for system in (work.system, LIMIT)}
    return AgainstLimit(middle(floods[work.system]), middle(floods[LIMIT]) if limit else None, latency, runs)


def side_by_side(works: Sequence[Work], rounds: int, progress: Progress) -> Iterator[Result | Skipped]:
    """One row per work, in their order, when all rounds are done. Who is not installed, or fails, is skipped with the reason."""
    skipped: dict[int, Skipped] = {}
    results: dict[int, list[Result]] = {place: [] for place in range(len(works))}
    for round_number in range(1, rounds + 1):
        for place, work in enumerate(works):
            if place in skipped:
                continue
            system = SYSTEMS[work.system]
            progress(f"{system.label}, {work.order}, {work.size:,} B, round {round_number}")
            why = system.missing()
            if not why:
                try:
                    results[place].append(measure(work))
                    continue
                except BenchFailed as failed:
                    why = str(failed)
            skipped[place] = Skipped(work.system, system.label, work.order, why)
    for place in range(len(works)):
        yield skipped[place] if place in skipped else middle(results[place])


def floods(base: Work, orders: Sequence[str], sizes: Sequence[int], systems: Sequence[str], packed: bool) -> list[Work]:
    """The works of a comparison: for every size and order the bare loop, Antiphon by batches and one by one, and those who promise it.
    `packed` adds every peer with batches made by hand; without it, and without a choice of systems, only pyzmq is there with them."""
    _check(systems)
    works = []
    for size in sizes:
        for order in orders:
            for system in SYSTEMS.values():
                wanted = system.name in systems if systems else packed or not system.packed or system.name == "zeromq-batches"
                if wanted and order in system.orders:
                    work = structs.replace(base, system=system.name, order=order, size=size)
                    works.append(work)
                    if system.name == ANTIPHON:
                        works.append(structs.replace(work, iterate="messages"))
    return works


def paces(base: Work, orders: Sequence[str], systems: Sequence[str]) -> list[Work]:
    """One sender at a fixed rate, four receivers."""
    _check(systems)
    chosen = [(name, order) for name, order in _LATENCY_SYSTEMS if order in orders and (not systems or name in systems)]
    steady = structs.replace(base, members=LATENCY_RECEIVERS + 1, size=LATENCY_SIZE)
    return [paced(structs.replace(steady, system=name, order=order), LATENCY_RATE) for name, order in chosen]


def paced(work: Work, rate: float) -> Work:
    return structs.replace(work, kind="pace", rate=rate, senders=1, timed=True, iterate="batches")


def ratio(result: Result, base: Result) -> float:
    return round(result.deliveries_per_s_per_member / max(base.deliveries_per_s_per_member, 1), 3)


def cpu_ratio(result: Result, base: Result) -> float | None:
    """How many deliveries it makes for the CPU time in which the other makes one."""
    if not result.cpu_s_per_million or not base.cpu_s_per_million:
        return None
    return round(base.cpu_s_per_million / result.cpu_s_per_million, 3)


def _check(systems: Sequence[str]) -> None:
    """Raises UsageError where one of them is none."""
    unknown = [name for name in systems if name not in SYSTEMS]
    if unknown:
        raise UsageError(f"{unknown[0]!r} is no system that can be measured: choose among {', '.join(SYSTEMS)}")
