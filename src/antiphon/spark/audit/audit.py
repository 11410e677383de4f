"""All judges over one trace: `audit(tables)`.

One Spark job walks through the trace and finds nearly everything right. Where something is suspect, a second one looks at the rows of those
groups, finds and counts; and only where something is wrong further ones fetch the rows of the witnesses. What comes to the driver is one
line for each group and promise, and at most `VIOLATIONS` violations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Set
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from antiphon.spark.audit import causal, integrity, minimality, parents, topics
from antiphon.spark.audit.acts import Acts
from antiphon.spark.audit.entries import entries as full_entries
from antiphon.spark.audit.finding import Compare, Finding, Point
from antiphon.spark.audit.judging import UNJUDGED, judged, walked
from antiphon.spark.audit.sheet import Limits
from antiphon.spark.audit.suspicion import CAUSAL, INTEGRITY, LEDGER, MINIMALITY, PARENTS, TOPICS
from antiphon.spark.audit.telling import Cell, details_of, told
from antiphon.spark.audit.verdict import PROMISES, WITNESSES, Summary, Unjudged, Verdict, Verdicts, Violation
from antiphon.spark.audit.walk import entries
from antiphon.spark.tables import Tables


def audit(tables: Tables, limits: Limits = Limits()) -> Verdicts:  # noqa: B008
    """Judge the promises of each group in a trace; list those for which there is no check."""
    with Acts.of(tables) as acts:
        return _audit(acts, tables, limits)


def _audit(acts: Acts, tables: Tables, limits: Limits) -> Verdicts:
    table = _Table()
    suspects: dict[str, set[int]] = defaultdict(set)
    found = walked(entries(acts, limits), tables.writers, limits).toArrow().to_pylist()
    for one in found:
        if one["promise"].startswith("?"):
            suspects[one["promise"][1:]].add(one["group_id"])
    for one in found:
        if one["promise"].startswith(("?", UNJUDGED)):
            continue
        # Checksums of a large group are compared beside it: that they differ is known only now, and all is looked at again.
        again = one["promise"] == "integrity" and one["group_id"] in suspects.get(INTEGRITY, ())
        if not again or one["amount"]:
            table.enter(one)
    if suspects:
        for cell in findings(acts, suspects).transform(_summed, acts.names).toArrow().to_pylist():
            table.enter(cell)
            for detail in cell["details"]:
                table.detail(cell, detail)
    cells = table.cells
    details = details_of(acts, cells)
    amounts: Counter[tuple[int, str]] = Counter()
    for cell in cells:
        amounts[cell.group_id, cell.promise] += cell.amount
    for detail in details:
        # What was only suspected when the cells were counted.
        if detail.promise == "total":
            amounts[detail.group, detail.promise] += detail.amount
    verdicts = tuple(
        Verdict(cell.run, cell.group, cell.promise, cell.checked, amounts[cell.group_id, cell.promise])
        for cell in sorted(cells, key=lambda cell: (cell.run, cell.group, PROMISES.index(cell.promise)))
    )
    rows = tables.writers.agg(F.sum("rows")).collect()[0][0]
    promises = _promises(verdicts, told(acts, cells, details))
    unjudged = sorted((one["run"], one["group"], one["promise"][1:]) for one in found if one["promise"].startswith(UNJUDGED))
    events = promises["positions"].checked if "positions" in promises else 0
    return Verdicts(events, rows or 0, verdicts, promises, tuple(Unjudged(*one) for one in unjudged))


class _Table:
    """Findings by group and promise."""

    def __init__(self) -> None:
        self._cells: dict[tuple[int, str], Cell] = {}

    @property
    def cells(self) -> list[Cell]:
        for cell in self._cells.values():
            cell.details = sorted(cell.details, key=lambda one: (one.story, one.amount, one.rows))[:WITNESSES]
        return list(self._cells.values())

    def enter(self, found: dict[str, Any]) -> None:
        """A finding, or many added up."""
        cell = self._cells.setdefault((found["group_id"], found["promise"]), Cell(found["group_id"], found["promise"]))
        cell.run, cell.group = cell.run or found["run"] or "", cell.group or found["group"] or ""
        cell.checked += found["checked"]
        cell.amount += found["amount"]
        if "details" not in found and found["story"]:
            self.detail(found, found)

    def detail(self, cell: dict[str, Any], found: dict[str, Any]) -> None:
        rows = tuple((row["member_id"], row["index"]) for row in found["rows"])
        points = tuple(Point(**point) for point in found["points"])
        compare = None if found["compare"] is None else Compare(**found["compare"])
        one = Finding(cell["group_id"], cell["promise"], 0, found["amount"], found["story"], rows, points, compare)
        self._cells[cell["group_id"], cell["promise"]].details.append(one)


def findings(acts: Acts, suspects: Mapping[str, Set[int]]) -> DataFrame:
    """What the judges that look at rows find in the groups that are suspect to them."""
    parts = []
    for family, groups in suspects.items():
        some = acts if family == TOPICS else acts.only(sorted(groups))
        parts.append(judged(full_entries(some)) if family == LEDGER else _BY_ROWS[family](some))
    return reduce(DataFrame.unionByName, parts)


_BY_ROWS = {
    INTEGRITY: integrity.judge,
    CAUSAL: causal.judge,
    PARENTS: parents.judge,
    MINIMALITY: minimality.judge,
    TOPICS: topics.judge,
}


def _summed(found: DataFrame, names: DataFrame) -> DataFrame:
    """One row for each group and promise, with the first few details."""
    wrong = (F.col("amount") > 0) | F.col("compare").isNotNull()
    detail = F.struct("story", "amount", "rows", "points", "compare")
    details = F.slice(F.sort_array(F.collect_list(F.when(wrong & (F.col("story") != ""), detail))), 1, WITNESSES)
    return (
        found.groupBy("group_id", "promise")
        .agg(
            *(F.max(name).alias(f"own_{name}") for name in ("run", "group")),
            *(F.sum(name).alias(name) for name in ("checked", "amount")),
            details.alias("details"),
        )
        .join(F.broadcast(names), "group_id", "left")
        .select(
            *("group_id", "promise", "checked", "amount", "details"),
            *(F.coalesce(name, f"own_{name}").alias(name) for name in ("run", "group")),
        )
    )


def _promises(verdicts: tuple[Verdict, ...], violations: list[Violation]) -> dict[str, Summary]:
    witnesses: dict[str, list[Violation]] = defaultdict(list)
    for violation in violations:
        witnesses[violation.promise].append(violation)
    checked: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    for verdict in verdicts:
        checked[verdict.promise] += verdict.checked
        broken[verdict.promise] += verdict.violations
    return {name: Summary(checked[name], broken[name], tuple(witnesses[name])) for name in PROMISES if name in checked}
