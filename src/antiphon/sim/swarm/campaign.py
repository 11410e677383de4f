"""Many cases, over several processes, resumable.

With `resume` each outcome is a line of a JSON-lines file, written as it comes; a campaign that is started again with the same file
skips the cases it finds there. A line that was cut off by the end of the former run is forgotten; any other line that cannot be
read is an error, because a file that is not ours must not be continued.

With `load` every process loads a user's own files before it runs a case, so that cases may speak of what those define.

Keeps the outcomes of failed cases, at most `FAILURES_KEPT`, and sums of the rest.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from antiphon.errors import AntiphonError, UsageError, WorldError
from antiphon.sim.oracles import promised
from antiphon.sim.swarm import extension
from antiphon.sim.swarm.case import Case, replay_command
from antiphon.sim.swarm.outcome import Outcome
from antiphon.sim.swarm.run import run_seed

FAILURES_KEPT = 100
_PATIENCE_S = 600.0
"""How long the next outcome may take; a case takes well below a second."""


class Summary(Struct):
    """The sums over a campaign; `failures` are the first outcomes that are not ok, `load` the files that a replay needs."""

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
    load: tuple[str, ...] = ()

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
        lines += [f"{failure}\n    {replay_command(failure.case, self.load)}" for failure in self.failures[:5]]
        return "\n".join(lines)


def campaign(
    cases: Iterable[Case],
    jobs: int = 1,
    progress: Callable[[Outcome], None] | None = None,
    resume: Path | str | None = None,
    load: Sequence[Path | str] = (),
    trace: Path | str | None = None,
) -> Summary:
    """Runs the cases, `jobs` at a time (0: one per processor), and tells `progress` of every outcome, those of a former run too. The
    summary is the same whatever the number of jobs. With `trace` what happened in every case that is run is in a file in that directory."""
    files = tuple(str(file) for file in load)
    for file in files:
        extension.load(file)
    summary = Summary(load=files)
    ahead = list(cases)
    for order, multicast in dict.fromkeys((case.order, case.multicast) for case in ahead):
        promised(order, multicast)  # an order that nobody can judge is refused now, not after the first run
    path = Path(resume) if resume is not None else None
    done = _read(path) if path is not None and path.exists() else {}
    for case in ahead:
        if case in done:
            summary.resumed += 1
            summary.add(done[case])
            if progress is not None:
                progress(done[case])
    ahead = [case for case in ahead if case not in done]
    sink = path.open("ab") if path is not None else None
    try:
        for outcome in _outcomes(ahead, jobs or os.cpu_count() or 1, files, None if trace is None else str(trace)):
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


def _outcomes(cases: list[Case], jobs: int, load: tuple[str, ...], trace: str | None) -> Iterator[Outcome]:
    if jobs == 1 or len(cases) < 2:
        yield from (run_seed(case, trace=trace) for case in cases)
        return
    # Spawned processes start empty: they share no state with this one, and it works alike on every platform. An interrupt at the
    # terminal reaches them as well; they leave it to this process, which ends them.
    with multiprocessing.get_context("spawn").Pool(jobs, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        outcomes = pool.imap(partial(_run_elsewhere, load, trace), map(msgspec.json.encode, cases))
        for case in cases:
            try:
                outcome = outcomes.next(_PATIENCE_S)
            except multiprocessing.TimeoutError:
                raise WorldError(f"no outcome for {_PATIENCE_S:.0f} s; run it alone: {replay_command(case, load)}") from None
            if isinstance(outcome, str):
                raise UsageError(outcome)
            yield outcome


def _run_elsewhere(load: tuple[str, ...], trace: str | None, encoded: bytes) -> Outcome | str:
    """Runs a case in a process of the pool; a case that cannot be run comes back as the sentence that says why. Cases come encoded: one
    that speaks of a loaded order can be built only after the loading. And errors go back as text: a pool waits for ever for one that
    cannot be built again from its arguments."""
    try:
        for file in load:
            extension.load(file)
        return run_seed(msgspec.json.decode(encoded, type=Case), trace=trace)
    except AntiphonError as error:
        return str(error)


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
