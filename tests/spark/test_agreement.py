"""The simulator's oracles and the audit were written separately from the guarantee cards: they must say the same of the same runs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from pyspark.sql import SparkSession

from antiphon.sim.swarm import default_cases


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
    found = agreement.compare(spark, agreement.runs(default_cases(range(40))), tmp_path)
    assert found.disagreements == {}
    assert found.violated == 0
    assert len(found.oracles) >= 36


def test_oracles_and_audit_agree_on_what_is_broken(spark: SparkSession, tmp_path: Path) -> None:
    """An audit that never says no proves nothing: of protocols that are broken on purpose both must say so."""
    found = agreement.compare(spark, agreement.broken_runs(5), tmp_path)
    assert found.disagreements == {}
    for number, (promise, _, _) in enumerate(agreement.BROKEN):
        suffix = tuple(f"-{100_000 * (number + 1) + seed}" for seed in range(5))
        both = [run for run, said in found.oracles.items() if run.endswith(suffix) and promise in said and promise in found.audit[run]]
        assert both, f"nobody saw {promise} broken"
