"""Delays: every figure is what a plain look at the same rows says, whatever the ranges, the clocks and the number of machines."""

from __future__ import annotations

from collections import defaultdict

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from antiphon.sim.swarm import Case, run_recorded
from antiphon.spark.audit import audit
from antiphon.spark.clocks import hosts_of, steadied
from antiphon.spark.delays import delays
from antiphon.spark.histogram import ERROR
from antiphon.spark.passages import passages
from antiphon.spark.tables import EVENTS, Tables
from antiphon.trace.row import Row


class Trace:
    """Rows as a recorder would write them."""

    def __init__(self) -> None:
        self.rows: list[tuple[object, ...]] = []
        self._count: dict[str, int] = defaultdict(int)

    def add(self, writer: str, kind: str, at: int, wall: int | None = None, **columns: object) -> None:
        base: dict[str, object] = dict.fromkeys(EVENTS.fieldNames())
        numbers = dict.fromkeys(("view", "first", "last", "position", "amount"), 0)
        row = {**base, **numbers, "run": "r", "writer": writer, "index": self._count[writer], "kind": kind, "at": at, "hlc": 0, **columns}
        row["wall"] = at if wall is None else wall
        if kind not in ("open", "close"):
            row |= {"group": "g", "member": writer}
        self._count[writer] += 1
        self.rows.append(tuple(row[name] for name in EVENTS.fieldNames()))


def open_at(trace: Trace, writer: str, host: str, at: int, wall: int) -> None:
    trace.add(writer, "open", at, wall, note=f'{{"host": "{host}"}}')


def test_ranges_are_cut_where_any_of_the_three_is_cut(spark: SparkSession) -> None:
    """A message would get the delay of its neighbour in the same batch, or be counted twice where batches were cut differently."""
    trace = Trace()
    trace.add("ben", "send", 10, first=1, last=4)
    trace.add("ben", "send", 11, first=5, last=5)
    trace.add("ana", "receive", 15, sender="ben", first=1, last=2)
    trace.add("ana", "receive", 20, sender="ben", first=3, last=5)
    trace.add("ana", "deliver", 20, sender="ben", first=1, last=4)
    trace.add("ana", "deliver", 25, sender="ben", first=5, last=5)
    trace.add("ana", "deliver", 30, sender="ben", first=6, last=9)  # whose sending is not in the trace
    events = Tables.of_rows(spark, trace.rows).events
    found = passages(events.transform(steadied, events.transform(hosts_of)))
    rows = found.groupBy("sent_ns", "received_ns", "delivered_ns").agg(F.sum("amount").alias("amount")).collect()
    assert sorted(tuple(row) for row in rows) == [(10, 15, 20, 2), (10, 20, 20, 2), (11, 20, 25, 1)]


def plain(rows: list[Row]) -> dict[str, list[int]]:
    """Every delivery by itself."""
    sent: dict[tuple[object, ...], int] = {}
    received: dict[tuple[object, ...], int] = {}
    found: dict[str, list[int]] = {"end_to_end": [], "travel": [], "hold_back": []}
    for row in sorted(rows, key=lambda row: row.kind, reverse=True):  # sends and receives before deliveries
        for number in range(row.first, row.last + 1):
            if row.kind == "send":
                sent[row.member, number] = row.at
            elif row.kind == "receive":
                received[row.member, row.view, row.sender, number] = row.at
            elif row.kind == "deliver" and row.sender != row.member and row.note is None:
                came = received[row.member, row.view, row.sender, number]
                began = sent[row.sender, number]
                found["end_to_end"].append(row.at - began)
                found["travel"].append(came - began)
                found["hold_back"].append(row.at - came)
    return found


def test_delays_of_a_simulated_group_are_those_of_its_messages(spark: SparkSession) -> None:
    """The report would praise or blame an order for delays that its group never had."""
    _, rows = run_recorded(Case(seed=9, order="total", kind="nodes", messages=150, faults=("loss", "crash", "churn")))
    expected = plain(rows)
    found = delays(Tables.of_rows(spark, rows))
    by_measure = {row.measure: row for row in found.by_order().collect()}
    assert set(by_measure) == set(expected)
    for measure, times in expected.items():
        row = by_measure[measure]
        times.sort()
        assert (row.order, row.deliveries, row.max_ns) == ("total", len(times), times[-1]), measure
        assert row.mean_ns == pytest.approx(sum(times) / len(times)), measure
        assert row.above_zero == pytest.approx(sum(time > 0 for time in times) / len(times)), measure
        for column, percent in (("p50_ns", 50), ("p90_ns", 90), ("p99_ns", 99)):
            exact = times[-(-len(times) * percent // 100) - 1]
            assert row[column] == pytest.approx(exact, rel=ERROR * 1.01), (measure, column)


def test_a_writer_that_opens_twice_began_once(spark: SparkSession) -> None:
    """A writer that says `open` again, from another machine and with another clock, would move all its times, begin its run anew, or be
    judged as a second member."""
    _, rows = run_recorded(Case(seed=9, order="total", kind="nodes", messages=40, faults=("loss",)))
    twice = [row for row in rows if row.writer == rows[0].writer]
    middle = twice[len(twice) // 2]
    again = twice[0]._replace(index=middle.index, at=middle.at, wall=10**18, note='{"host": "elsewhere", "clock": "system"}')
    later = [row._replace(index=row.index + 1) if row.writer == middle.writer and row.index >= middle.index else row for row in rows]
    tables, doubled = Tables.of_rows(spark, rows), Tables.of_rows(spark, [*later, again])
    verdicts = audit(doubled)
    assert verdicts.clean
    assert (verdicts.events, verdicts.rows) == (audit(tables).events, len(rows) + 1)
    expected, found = (
        [row.asDict() for name in ("by_member", "by_time") for row in getattr(measured, name)().collect()]
        for measured in (delays(tables), delays(doubled))
    )
    assert found == expected


def test_clocks_of_machines_are_told_apart_and_taken_out(spark: SparkSession) -> None:
    """Messages between two machines would seem to arrive before they were sent, or a clock's error would be taken for a slow network."""
    trace = Trace()
    ahead = 5_000_000_000
    open_at(trace, "ana", "north", at=100, wall=1_000)
    open_at(trace, "ben", "south", at=900_000, wall=1_000 + ahead)  # counts from another moment, and its wall clock is five seconds ahead
    for number, sent in enumerate((2_000, 3_000), 1):  # in true time, of which north's wall clock is right
        trace.add("ana", "send", 100 - 1_000 + sent, first=number, last=number)
        came = 900_000 - 1_000 + sent + 40 * number
        trace.add("ben", "receive", came, wall=0, sender="ana", first=number, last=number)  # somebody has set south's clock meanwhile
        trace.add("ben", "deliver", came + 7, wall=0, sender="ana", first=number, last=number)
    trace.add("ben", "send", 900_000 + 4_000, first=1, last=1)
    trace.add("ana", "receive", 100 + 4_000 + 20, sender="ben", first=1, last=1)
    trace.add("ana", "deliver", 100 + 4_000 + 20, sender="ben", first=1, last=1)
    found = delays(Tables.of_rows(spark, trace.rows))
    clocks = {(row.source, row.destination): row for row in found.clocks.collect()}
    there, back = clocks["north", "south"], clocks["south", "north"]
    assert (there.quickest_ns, back.quickest_ns) == (ahead + 40, 20 - ahead)
    assert (there.ahead_ns, there.error_ns, back.ahead_ns, there.messages) == (ahead + 10, 30, -ahead - 10, 2)
    by_member = {(row.member, row.measure): row for row in found.by_member().collect()}
    assert by_member["ben", "hold_back"].max_ns == 7, "one clock is enough for this"
    # The estimate is off by 10, well within its error of 30.
    assert by_member["ben", "travel"].max_ns == 80 - 10
    assert by_member["ana", "end_to_end"].max_ns == 20 + 10


def test_repairs_buffers_and_views_are_summed_up(spark: SparkSession) -> None:
    """A network that loses half of its frames, or a view that took a minute, would not show."""
    trace = Trace()
    open_at(trace, "ana", "here", at=0, wall=0)
    trace.add("ana", "view", 100, view=7, members=["ana", "ben"])
    trace.add("ana", "settled", 130, view=7)
    trace.add("ana", "settled", 150, view=7, note="stable")
    trace.add("ana", "send", 160, first=1, last=10)
    trace.add("ana", "receive", 160, sender="ben", first=1, last=4)
    trace.add("ana", "gap", 160, sender="ben", first=5, last=6)
    for note, amount in (("duplicate", 2), ("own_frame", 9), ("other_view", 3)):
        trace.add("ana", "drop", 170, note=note, amount=amount)
    trace.add("ana", "repair", 170, note="asked", amount=5)
    trace.add("ana", "repair", 170, note="sent", amount=1)
    for amount in (3, 9):
        trace.add("ana", "queue", 180, note="held", amount=amount)
    open_at(trace, "ben", "here", at=0, wall=0)
    trace.add("ben", "view", 140, view=7, members=["ana", "ben"])
    found = delays(Tables.of_rows(spark, trace.rows))
    [rates] = [row for row in found.rates.collect() if row.member == "ana"]
    assert (rates.sent, rates.received, rates.lost, rates.duplicates, rates.dropped) == (10, 4, 2, 2, 3)
    assert (rates.asked, rates.resent, rates.duplicates_per_1000, rates.resent_per_1000) == (5, 1, 500.0, 250.0)
    [queue] = found.occupancy.collect()
    assert (queue.place, queue.samples, queue.mean, queue.most, queue.most_at) == ("held", 2, 6.0, 9, "ana")
    [view] = found.views.collect()
    assert (view.size, view.installed, view.spread_ns, view.caught_up_ns, view.stable_ns, view.unstable) == (2, 2, 40, 30, 50, 1)
    assert found.by_order().count() == 0, "nothing was delivered"


def test_what_a_simulator_calls_time_is_not_summed_up_with_what_a_machine_does(spark: SparkSession) -> None:
    """A hundred simulated groups and a real one of the same order would have one median, which is true of none of them."""
    _, simulated = run_recorded(Case(seed=9, order="total", messages=20, faults=()))
    trace = Trace()
    open_at(trace, "ana", "here", at=0, wall=0)
    trace.add("ana", "group", 1, note='{"name": "g", "order": "total"}')
    trace.add("ana", "send", 10, first=1, last=2)
    open_at(trace, "ben", "here", at=0, wall=0)
    for number, at in ((1, 10**9), (2, 7 * 10**9)):
        trace.add("ben", "receive", at, sender="ana", first=number, last=number)
        trace.add("ben", "deliver", at + 5, sender="ana", first=number, last=number)
    found = delays(Tables.of_rows(spark, [*trace.rows, *simulated]))
    by_world = {row.world: row for row in found.by_order().where("measure = 'hold_back'").collect()}
    assert {world: row.order for world, row in by_world.items()} == {"real": "total", "simulated": "total"}
    assert (by_world["real"].deliveries, by_world["real"].max_ns) == (2, 5)
    assert {(row.run, row.world) for row in found.by_time().collect()} == {("r", "real"), (simulated[0].run, "simulated")}
