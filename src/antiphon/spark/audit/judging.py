"""The judges of whole groups at work: each group's ledger is put before all of them, on the executors.

Ledgers are small, so this is plain Python over rows that are sorted by group; a task keeps one ledger at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from antiphon.spark.audit import (
    agreement,
    description,
    fifo,
    losses,
    no_duplication,
    orphans,
    presence,
    strangers,
    total,
    validity,
    views,
    virtual_synchrony,
)
from antiphon.spark.audit.checks import Checks
from antiphon.spark.audit.evidence import Evidence
from antiphon.spark.audit.finding import FINDING, Finding
from antiphon.spark.audit.ledger import GroupLedger
from antiphon.spark.audit.life import ODD_LEDGER
from antiphon.spark.audit.promised import is_judged, not_judged
from antiphon.spark.audit.sheet import Limits
from antiphon.spark.audit.suspicion import INTEGRITY, LEDGER, TOPICS, suspected
from antiphon.spark.audit.verdict import PROMISES, WITNESSES

if TYPE_CHECKING:
    import pyarrow

UNJUDGED = "!"
"""Begins the promise of a finding that says that the audit has no check for it."""
Judge = Callable[[GroupLedger], Iterator[Finding]]


def _minimality(ledger: GroupLedger) -> Iterator[Finding]:
    """What `minimality` looks at: it finds by rows, and counts by ledgers."""
    if "minimality" in ledger.promises and is_judged("minimality", ledger.promises):
        yield Finding(ledger.group, "minimality", checked=sum(member.counts["delivered"] for member in ledger.members.values()))


def _positions(ledger: GroupLedger) -> Iterator[Finding]:
    """What `presence` looks at: the walk finds, and ledgers count."""
    yield Finding(ledger.group, "positions", checked=sum(member.counts["delivered"] for member in ledger.members.values()))


JUDGES: tuple[Judge, ...] = (
    strangers.judge,
    no_duplication.judge,
    validity.judge,
    agreement.judge,
    virtual_synchrony.judge,
    views.judge,
    fifo.judge,
    total.judge,
    losses.judge,
    orphans.judge,
    _minimality,
    _positions,
)
WALKED_JUDGES: tuple[Judge, ...] = (description.judge, presence.judge)
"""Those that ask only for what the walk hands on as it is: they judge its ledgers, whatever is odd about the ranges."""


def judged(entries: DataFrame) -> DataFrame:
    """What the judges find in each group, given its entries in full (`entries`)."""
    return entries.repartition("group_id").sortWithinPartitions("group_id").mapInArrow(_judge_batches, FINDING)


def walked(entries: DataFrame, writers: DataFrame, limits: Limits) -> DataFrame:
    """What the judges find in what is left after the walk, and what they suspect: findings whose promise is `?` and a family."""

    def judge(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        return _judge_walked(batches, limits)

    ends = writers.select(F.xxhash64("run", "writer").alias("writer_id"), "closed", "crashed", "contiguous")
    return (
        entries.join(F.broadcast(ends), "writer_id", "left")
        .repartition("part")
        .sortWithinPartitions("part", "group_id")
        .mapInArrow(judge, FINDING)
    )


def findings_of(ledger: GroupLedger, judges: Iterable[Judge] = JUDGES) -> Iterator[Finding]:
    """Everything that is wrong with a group, told in full as often as it will be shown, and counted beyond."""
    found: Counter[str] = Counter()
    looked_at: Counter[str] = Counter()
    beyond: Counter[str] = Counter()
    for judge in judges:
        for finding in judge(ledger):
            if not finding.amount and finding.compare is None:
                looked_at[finding.promise] += finding.checked
                continue
            found[finding.promise] += 1
            if found[finding.promise] <= WITNESSES:
                yield finding
            else:
                beyond[finding.promise] += finding.amount
    for promise in {**looked_at, **beyond}:
        yield Finding(ledger.group, promise, checked=looked_at[promise], amount=beyond[promise])


def walked_findings(evidence: Evidence) -> Iterator[Finding]:
    """The same, where nothing is suspicious; the suspicions; and the promises that no check knows (`UNJUDGED`)."""
    ledger = evidence.ledger
    suspects, checked = suspected(evidence)
    yield from findings_of(ledger, WALKED_JUDGES)
    for promise in not_judged(ledger.promises):
        yield Finding(ledger.group, f"{UNJUDGED}{promise}")
    for promise in PROMISES:
        if promise in ledger.promises and is_judged(promise, ledger.promises):
            yield Finding(ledger.group, promise)  # listed also if there is nothing to check
    if ODD_LEDGER in evidence.odd:
        suspects.add(LEDGER)
    else:
        for finding in findings_of(ledger):
            if finding.compare is None or not evidence.same_places(finding.compare):
                yield finding
    for promise, count in checked.items():
        yield Finding(ledger.group, promise, checked=count)
    for family in suspects:
        yield Finding(ledger.group, f"?{family}")


def _judge_batches(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    def found() -> Iterator[dict[str, Any]]:
        for group, rows in groupby(_rows(batches), key=itemgetter("group_id")):
            for finding in findings_of(GroupLedger.of(group, rows)):
                yield _plain(finding)

    return _in_batches(found())


def _judge_walked(batches: Iterable[pyarrow.RecordBatch], limits: Limits) -> Iterator[pyarrow.RecordBatch]:
    def found() -> Iterator[dict[str, Any]]:
        for (_, group), rows in groupby(_rows(batches), key=itemgetter("part", "group_id")):
            checks = Checks()
            evidence = Evidence.of(group, checks.apart(rows), limits)
            if evidence.ledger.members or evidence.runs or evidence.sheets:
                run, name = evidence.names_of
                for finding in walked_findings(evidence):
                    yield {**_plain(finding), "run": run, "group": name}
            if checks.topics:
                yield _plain(Finding(group, f"?{TOPICS}"))
            if not checks.same():
                yield _plain(Finding(group, f"?{INTEGRITY}"))

    return _in_batches(found())


def _in_batches(found: Iterator[dict[str, Any]]) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(FINDING)
    while some := list(islice(found, 2_000)):
        yield pa.RecordBatch.from_pylist(some, schema)


def _rows(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[Mapping[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


def _plain(finding: Finding) -> dict[str, Any]:
    return {
        **finding._asdict(),
        "run": None,
        "group": None,
        "rows": [{"member_id": member, "index": index} for member, index in finding.rows],
        "points": [point._asdict() for point in finding.points],
        "compare": None if finding.compare is None else finding.compare._asdict(),
    }
