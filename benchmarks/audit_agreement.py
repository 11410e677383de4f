"""Do the simulator's oracles and the audit agree? Two readings of the same guarantee cards, asked about the same runs.

    python benchmarks/audit_agreement.py --runs 300 --json

Simulates the runs of the swarm (all orders, all multicasts, faults on), lets the oracles judge them in memory, writes what happened as one
trace, and audits that in one go. Then the same with protocols that are broken on purpose. A run in which only one of the two sees a promise
broken is a disagreement; the command fails if there is one. Runs that did not come to their end are left out: oracles judge them in part.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from antiphon.protocol.membership.catching_up import CatchingUp
from antiphon.protocol.membership.change import Change
from antiphon.protocol.registry import ORDERS
from antiphon.sim.swarm import Case, auditable, default_cases, run_recorded
from antiphon.spark.audit import PROMISES, audit
from antiphon.spark.session import open_session
from antiphon.spark.tables import EVENTS, Tables
from antiphon.testing.broken import BROKEN_ORDERS, broken_in, forgetful, skip_the_flush
from antiphon.trace.files import table_of
from antiphon.trace.row import Row


@dataclass
class Comparison:
    """What both said of each run: the promises that they saw broken."""

    rows: int = 0
    left_out: int = 0
    oracles: dict[str, set[str]] = field(default_factory=dict)
    audit: dict[str, set[str]] = field(default_factory=dict)

    @property
    def disagreements(self) -> dict[str, tuple[list[str], list[str]]]:
        """Runs in which one sees something broken and the other nothing: what the oracles and what the audit said."""
        return {run: (sorted(said), sorted(self.audit[run])) for run, said in self.oracles.items() if bool(said) != bool(self.audit[run])}

    @property
    def violated(self) -> int:
        return sum(bool(said) for said in self.oracles.values())


BROKEN: tuple[tuple[str, Case, tuple[Any, str, Any]], ...] = (
    *((seen, Case(seed=0, order=order, faults=("loss", "reordering")), (ORDERS, order, broken)) for broken, order, seen in BROKEN_ORDERS),
    ("virtual_synchrony", Case(seed=0, kind="nodes", faults=("loss", "crash", "partition")), (Change, "_flush", skip_the_flush)),
    ("agreement", Case(seed=0, kind="nodes", faults=("partition",)), (CatchingUp, "_recover", forgetful(CatchingUp._recover))),
)
"""The promise that breaks, the group it is promised to, and what is put in whose place."""


def compare(spark: SparkSession, recorded: Iterable[tuple[set[str] | None, list[Row]]], directory: Path) -> Comparison:
    """Audits all runs in one go. With each run comes what the oracles say of it; None: nothing, it did not come to its end."""
    comparison, rows = Comparison(), []
    for said, run in recorded:
        if said is None:
            comparison.left_out += 1
        elif run:
            comparison.oracles[run[0].run] = said
            rows += run
    comparison.rows = len(rows)
    path = directory / "runs.parquet"
    pq.write_table(table_of(rows), path)
    verdicts = audit(Tables.of_events(spark.read.schema(EVENTS).parquet(str(path))))
    comparison.audit = {run: set() for run in comparison.oracles}
    for verdict in verdicts.verdicts:
        if verdict.violations:
            comparison.audit[verdict.run].add(verdict.promise)
    return comparison


def runs(cases: Iterable[Case]) -> Iterator[tuple[set[str] | None, list[Row]]]:
    """Each case simulated, and which of the promises of the audit the oracles see broken."""
    for case in cases:
        outcome, rows = run_recorded(case)
        ended = not (outcome.stalled or outcome.error)
        yield ({*outcome.broken} & {*PROMISES} if ended else None), rows


def broken_runs(count: int) -> Iterator[tuple[set[str] | None, list[Row]]]:
    """`count` runs with each of the broken protocols."""
    from msgspec.structs import replace

    for number, (_, case, patch) in enumerate(BROKEN):
        with broken_in(*patch):
            yield from runs(replace(case, seed=100_000 * (number + 1) + seed) for seed in range(count))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=300, help="simulated runs of the swarm")
    parser.add_argument("--broken", type=int, default=12, help="runs with each broken protocol")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    told: dict[str, object] = {}
    agreed = True
    with open_session(name="agreement") as spark, tempfile.TemporaryDirectory() as folder:
        clean = runs(map(auditable, default_cases(range(arguments.first, arguments.first + arguments.runs))))
        for name, recorded in (("swarm", clean), ("broken", broken_runs(arguments.broken))):
            started = time.monotonic()
            found = compare(spark, recorded, Path(folder))
            agreed &= not found.disagreements
            told[name] = {
                "runs": len(found.oracles),
                "left_out": found.left_out,
                "violated": found.violated,
                "disagreements": found.disagreements,
                "rows": found.rows,
                "seconds": round(time.monotonic() - started, 1),
            }
    print(json.dumps(told, indent=None if arguments.json else 2))
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
