"""The simulator's oracles and the audit were written separately from the guarantee cards: they must say the same of the same runs."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections import defaultdict
from itertools import chain
from pathlib import Path
from types import ModuleType

from pyspark.sql import SparkSession

from antiphon.sim.swarm import auditable, default_cases, run_recorded
from antiphon.trace.row import Row

BROKEN_RUNS = 9
"""Runs with each broken protocol: a flush that is left out shows in a few of them only."""


def _command() -> ModuleType:
    """The command that compares hundreds of runs: here it compares few."""
    path = Path(__file__).parents[2] / "benchmarks" / "audit_agreement.py"
    spec = importlib.util.spec_from_file_location("audit_agreement", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


agreement = _command()


def test_oracles_and_audit_agree_on_what_is_clean(spark: SparkSession, tmp_path: Path) -> None:
    """If one of them calls broken what the other calls kept, one of them is wrong, and nobody knows which to believe."""
    # In two of these a newcomer is given a state in the middle of a view, in one a group has lost its majority for good.
    special = (default_cases(range(seed, seed + 1)) for seed in (2007, 5427, 2031))
    cases = map(auditable, chain(default_cases(range(40)), *special))
    found = agreement.compare(spark, agreement.runs(cases), tmp_path)
    assert found.disagreements == {}
    assert found.violated == 0
    assert len(found.oracles) >= 36


def test_what_is_lost_of_a_trace_breaks_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Whoever has only some of the files, or looks while nodes still run, would be told that promises were broken."""
    rng = random.Random(20_261_116)
    parts: list[tuple[set[str], list[Row]]] = []
    for case in map(auditable, chain(default_cases(range(2000, 2030)), default_cases(range(2040, 2050)))):
        _, rows = run_recorded(case)
        by_writer: defaultdict[str, list[Row]] = defaultdict(list)
        for row in sorted(rows, key=lambda row: row.index):
            by_writer[row.writer].append(row)
        one = rng.choice([*by_writer])
        some = {
            "cut": [row for mine in by_writer.values() for row in mine[: rng.randint(1, len(mine))]],
            "half": [row for mine in by_writer.values() if rng.random() < 0.5 for row in mine],
            "one": by_writer[one],
            "late": [row for writer, mine in by_writer.items() for row in (mine[: len(mine) // 2] if writer == one else mine)],
        }
        parts += [(set(), [row._replace(run=f"{row.run}-{name}") for row in kept]) for name, kept in some.items() if kept]
    found = agreement.compare(spark, parts, tmp_path)
    assert {run: said for run, said in found.audit.items() if said} == {}
    assert len(found.audit) > 100


def test_oracles_and_audit_agree_on_what_is_broken(spark: SparkSession, tmp_path: Path) -> None:
    """An audit that never says no proves nothing: of protocols that are broken on purpose both must say so."""
    found = agreement.compare(spark, agreement.broken_runs(BROKEN_RUNS), tmp_path)
    assert found.disagreements == {}
    for number, (promise, _, _) in enumerate(agreement.BROKEN):
        suffix = tuple(f"-{100_000 * (number + 1) + seed}" for seed in range(BROKEN_RUNS))
        both = [run for run, said in found.oracles.items() if run.endswith(suffix) and promise in said and promise in found.audit[run]]
        assert both, f"nobody saw {promise} broken"
