"""Generated traces: the rows that a group would have recorded which did nothing wrong, whatever pieces they are made in."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from antiphon.spark import generate
from antiphon.spark.generate import Cast, events, write
from antiphon.spark.tables import EVENTS, Tables

CASTS = [
    Cast(name="large", order="total", members=3, batch=4, rounds=7),
    Cast(name="small", order="semantic", members=2, batch=2, rounds=2, count=3),
    Cast(name="chain", order="semantic", members=2, rounds=9, chain=True),
]


def test_files_and_rows_are_the_same_and_whole(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchmarks would measure traces with holes, which are cut off, or of another size than they say."""
    monkeypatch.setattr(generate, "ROUNDS", 4)
    made = events(spark, CASTS)
    assert made.schema == EVENTS
    wanted = sum(cast.rows for cast in CASTS)
    assert write(spark, CASTS, str(tmp_path)) == wanted
    tables = Tables.of_traces(spark, str(tmp_path))
    assert tables.aside.count() == 0
    assert sorted(map(str, tables.events.collect())) == sorted(map(str, made.collect()))
    writers = tables.writers.collect()
    assert (sum(row.rows for row in writers), len(writers)) == (wanted, 3 + 6 + 2)
    assert all(row.closed and not row.crashed and row.clock_jumps == 0 and row.rows == row.contiguous + 1 for row in writers)
    delivered = tables.events.where("kind = 'deliver'").selectExpr("sum(last - first + 1)").collect()[0][0]
    assert delivered == sum(cast.deliveries for cast in CASTS)


def test_a_chain_is_one_answer_after_the_other(spark: SparkSession) -> None:
    """The benchmark's reply chain of 100,000 would be 100,000 short ones."""
    rows = events(spark, CASTS[2:]).where("kind = 'send'").collect()
    parent = {(row.sender, row["first"]): tuple(row.names[0])[1:] if row.names else None for row in rows}
    assert len(parent) == 9
    depth, message = 0, next(key for key in parent if key not in parent.values())
    while parent[message] is not None:
        depth, message = depth + 1, parent[message]
    assert depth == 8


def test_members_of_a_total_order_are_told_the_same(spark: SparkSession) -> None:
    """A trace that is meant to be faultless would be rightly called broken."""
    rows = events(spark, CASTS[:2]).where("kind = 'deliver'").collect()

    def sequence(member: str) -> list[tuple[str, int, int]]:
        return [(row.sender, row["first"], row.position) for row in sorted(rows, key=lambda row: row.position) if row.member == member]

    assert sequence("m0@large-0") == sequence("m1@large-0") == sequence("m2@large-0")
    assert sequence("m0@small-0") != sequence("m1@small-0")
    assert [place for _, _, place in sequence("m0@large-0")] == list(range(0, 7 * 3 * 4, 4))
