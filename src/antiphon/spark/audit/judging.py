"""The judges of whole groups at work: each group's ledger is put before all of them, on the executors.

Ledgers are small, so this is plain Python over rows that are sorted by group; a task keeps one ledger at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from antiphon.spark.audit import agreement, fifo, minimality, no_duplication, strangers, total, validity, views, virtual_synchrony
from antiphon.spark.audit.finding import FINDING, Finding
from antiphon.spark.audit.ledger import GroupLedger
from antiphon.spark.audit.verdict import WITNESSES

if TYPE_CHECKING:
    import pyarrow

Judge = Callable[[GroupLedger], Iterator[Finding]]


def _minimality(ledger: GroupLedger) -> Iterator[Finding]:
    """What `minimality` looks at: it finds by rows, and counts by ledgers."""
    if ledger.option("order") in minimality.ORDERS:
        yield Finding(ledger.group, "minimality", checked=sum(member.counts["delivered"] for member in ledger.members.values()))


JUDGES: tuple[Judge, ...] = (
    strangers.judge,
    no_duplication.judge,
    validity.judge,
    agreement.judge,
    virtual_synchrony.judge,
    views.judge,
    fifo.judge,
    total.judge,
    _minimality,
)


def judged(entries: DataFrame) -> DataFrame:
    """What the judges find in each group."""
    return entries.repartition("group_id").sortWithinPartitions("group_id").mapInArrow(_judge_batches, FINDING)


def findings_of(ledger: GroupLedger) -> Iterator[Finding]:
    """Everything that is wrong with a group, told in full as often as it will be shown, and counted beyond."""
    found: Counter[str] = Counter()
    looked_at: Counter[str] = Counter()
    beyond: Counter[str] = Counter()
    for judge in JUDGES:
        for finding in judge(ledger):
            if not finding.amount and finding.compare is None:
                looked_at[finding.promise] += finding.checked
                continue
            found[finding.promise] += 1
            if found[finding.promise] <= WITNESSES:
                yield finding
            else:
                beyond[finding.promise] += finding.amount
    for promise, count in looked_at.items():
        yield Finding(ledger.group, promise, checked=count, amount=beyond[promise])


def _judge_batches(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(FINDING)
    found: list[dict[str, Any]] = []
    for group, rows in groupby(_rows(batches), key=itemgetter("group_id")):
        found += [_plain(finding) for finding in findings_of(GroupLedger.of(group, rows))]
        if len(found) > 1_000:
            yield pa.RecordBatch.from_pylist(found, schema)
            found = []
    if found:
        yield pa.RecordBatch.from_pylist(found, schema)


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
