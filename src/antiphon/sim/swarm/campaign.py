"""Many cases, over several processes, resumable.

With `resume` each outcome is a line of a JSON-lines file, written as it comes; a campaign that is started again with the same file
skips the cases it finds there. A line that was cut off by the end of the former run is forgotten; any other line that cannot be
read is an error, because a file that is not ours must not be continued.

Keeps the outcomes of failed cases, at most `FAILURES_KEPT`, and sums of the rest.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from antiphon.errors import UsageError, WorldError
from antiphon.sim.swarm.case import Case, replay_command
from antiphon.sim.swarm.run import Outcome, run_seed

FAILURES_KEPT = 100
_PATIENCE_S = 600.0
"""How long the next outcome may take; a case takes well below a second."""


class Summary(Struct):
    """The sums over a campaign; `failures` are the first outcomes that are not ok."""

    seeds: int = 0
    resumed: int = 0
    violations: int = 0
    stalled: int = 0
    errors: int = 0
    sent: int = 0
    refused: int = 0
    deliveries: int = 0
    frames: int = 0
    virtual_s: float = 0.0
    failures: list[Outcome] = []

    @property
    def ok(self) -> bool:
        return not (self.violations or self.stalled or self.errors)

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.violations += sum(outcome.broken.values())
        self.stalled += bool(outcome.stalled)
        self.errors += bool(outcome.error)
        self.sent += outcome.sent
        self.refused += outcome.refused
        self.deliveries += outcome.deliveries
        self.frames += outcome.frames
        self.virtual_s += outcome.virtual_s
        if not outcome.ok and len(self.failures) < FAILURES_KEPT:
            self.failures.append(outcome)

    def __str__(self) -> str:
        lines = [
            f"{self.seeds:,} seeds, {self.deliveries:,} deliveries in {self.virtual_s:,.0f} virtual seconds: "
            f"{self.violations} violations, {self.stalled} stalled, {self.errors} errors"
        ]
        lines += [f"{failure}\n    {replay_command(failure.case)}" for failure in self.failures[:5]]
        return "\n".join(lines)


def campaign(
    cases: Iterable[Case], jobs: int = 1, progress: Callable[[Outcome], None] | None = None, resume: Path | str | None = None
) -> Summary:
    """Runs the cases, `jobs` at a time (0: one per processor), and tells `progress` of every outcome, those of a former run too. The
    summary is the same whatever the number of jobs."""
    summary = Summary()
    todo = list(cases)
    path = Path(resume) if resume is not None else None
    done = _read(path) if path is not None and path.exists() else {}
    for case in todo:
        if case in done:
            summary.resumed += 1
            summary.add(done[case])
            if progress is not None:
                progress(done[case])
    todo = [case for case in todo if case not in done]
    sink = path.open("ab") if path is not None else None
    try:
        for outcome in _outcomes(todo, jobs or os.cpu_count() or 1):
            if sink is not None:
                sink.write(msgspec.json.encode(outcome) + b"\n")
                sink.flush()
            summary.add(outcome)
            if progress is not None:
                progress(outcome)
    finally:
        if sink is not None:
            sink.close()
    return summary


def _outcomes(cases: list[Case], jobs: int) -> Iterator[Outcome]:
    if jobs == 1 or len(cases) < 2:
        yield from map(run_seed, cases)
        return
    # Spawned processes start empty: they share no state with this one, and it works alike on every platform.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        outcomes = pool.imap(run_seed, cases)
        for case in cases:
            try:
                yield outcomes.next(_PATIENCE_S)
            except multiprocessing.TimeoutError:
                raise WorldError(f"no outcome for {_PATIENCE_S:.0f} s; run it alone: {replay_command(case)}") from None


def _read(path: Path) -> dict[Case, Outcome]:
    decoder = msgspec.json.Decoder(Outcome)
    done: dict[Case, Outcome] = {}
    content = path.read_bytes()
    whole, _, torn = content.rpartition(b"\n")
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            outcome = decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, UsageError) as reason:
            raise UsageError(f"{path}:{number} is no outcome of a campaign ({reason}): name another file with --resume") from None
        done[outcome.case] = outcome
    if torn:
        with path.open("r+b") as file:
            file.truncate(len(content) - len(torn))
    return done
