"""All judges over one trace: `audit(tables)`.

One Spark job finds and counts; further ones, only where something was found, fetch the rows of the witnesses. What comes to the driver is
one line for each group and promise, and at most `VIOLATIONS` violations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from antiphon.spark.audit import causal, integrity, minimality, parents, topics, total
from antiphon.spark.audit.acts import Acts
from antiphon.spark.audit.entries import entries
from antiphon.spark.audit.judging import judged
from antiphon.spark.audit.telling import details_of, told
from antiphon.spark.audit.verdict import PROMISES, WITNESSES, Summary, Verdict, Verdicts, Violation
from antiphon.spark.tables import Tables


def audit(tables: Tables) -> Verdicts:
    """Every promise that a trace can show, judged for every group in it."""
    with Acts.of(tables) as acts:
        return _audit(acts, tables)


def _audit(acts: Acts, tables: Tables) -> Verdicts:
    cells = findings(acts).transform(_summed, acts.names).collect()
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
    return Verdicts(promises["no_duplication"].checked if "no_duplication" in promises else 0, rows or 0, verdicts, promises)


def findings(acts: Acts) -> DataFrame:
    """What all judges find, as one table. Those of whom the trace has nothing are not asked: a plan costs time even where no row is."""
    orders = {row.order for row in acts.groups.select("order").distinct().collect()}
    parts = [integrity.judge(acts), judged(entries(acts, total=bool(orders & {*total.ORDERS})))] if orders else []
    parts += [judge.judge(acts) for judge in (causal, parents, minimality) if orders & {*judge.ORDERS}]
    if not parts or not acts.of_kinds("publish", "read", "done", "collect").isEmpty():
        parts.append(topics.judge(acts))
    return reduce(DataFrame.unionByName, parts)


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
        .withColumns({name: F.coalesce(name, f"own_{name}") for name in ("run", "group")})
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
