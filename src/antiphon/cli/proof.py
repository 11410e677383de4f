"""The end of the demo: everything that was recorded on the way goes through the pipeline, and what it found onto a page.

Where Spark or Java is missing nothing is proved, nothing fails, and one sentence says what to install.
"""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from antiphon.cli import spark, terminal
from antiphon.errors import UsageError

TRACES, PAGE = "recorded", "proof.html"


class Proof(Struct, frozen=True):
    """`kept` says whether every promise was; None where nobody could look. `page` is the report of the pipeline."""

    sentence: str
    kept: bool | None = None
    page: str | None = None


def directory(out: Path) -> Path | None:
    """Where the demo records, empty; None where nothing can be recorded."""
    if find_spec("pyarrow") is None:
        return None
    traces = out / TRACES
    shutil.rmtree(traces, ignore_errors=True)
    return traces


def prove(traces: Path | None, out: Path, about: str = "") -> Proof:
    """Audits what was recorded and writes the page, which says `about` these groups what no trace can."""
    if traces is None or find_spec("pyspark") is None:
        return Proof("Nobody looked: the pipeline needs Spark and pyarrow, pip install 'antiphon[spark,trace]'.")
    from antiphon.spark.report.findings import gather
    from antiphon.spark.report.page import page
    from antiphon.spark.tables import Tables

    try:
        with spark.session("auditing") as session:
            found = gather(Tables.of(session, str(traces)), str(traces))
    except UsageError as missing:
        return Proof(f"Nobody looked: {missing}.")
    verdicts = found.verdicts
    assert verdicts is not None, "whatever was recorded is audited"
    written: Path | None = out / PAGE
    try:
        text = page(found, "What the demo's groups did", [f"antiphon pipeline report {traces}"], about)
        (out / PAGE).write_text(text, encoding="utf-8")
    except UsageError as missing:
        terminal.err.print(f"The audit has no page: {missing}", style="dim", markup=False, soft_wrap=True)
        written = None
    groups = len({(verdict.run, verdict.group) for verdict in verdicts.verdicts})
    broken = [f"{name} ({summary.violations:,})" for name, summary in verdicts.promises.items() if summary.violations]
    said = f"kept all {len(verdicts.promises)} promises" if verdicts.kept else "broke none"
    said = said if verdicts.clean else f"BROKE {', '.join(broken)}"
    said += f" (not judged: {', '.join(verdicts.not_judged)})" if verdicts.not_judged else ""
    said += f" (nothing to check: {', '.join(verdicts.unchecked)})" if verdicts.unchecked else ""
    told = f"{verdicts.events:,} deliveries of {groups:,} groups, audited from {verdicts.rows:,} recorded rows alone"
    return Proof(f"{told}: they {said}.", verdicts.clean, None if written is None else str(written))
