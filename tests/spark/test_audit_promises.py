"""The audit judges a group by the promises that its trace names, and says which of them it cannot judge."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parent))

from injected_descriptions import COMMON, LAMPORT
from scenes import Line, Plan, scene

from antiphon.cli.main import BROKEN, OK, UNJUDGED, main
from antiphon.model.frames import Record
from antiphon.model.options import GroupOptions
from antiphon.protocol.registry import COMMON_PROMISES, MULTICASTS, ORDERS, promises_of
from antiphon.sim.oracles import ORACLES, PROMISES
from antiphon.sim.swarm import Case, run_recorded
from antiphon.spark.audit import Summary, Verdicts, audit, promised
from antiphon.spark.audit.acts import Acts
from antiphon.spark.tables import Tables
from antiphon.trace.files import write_rows
from antiphon.trace.row import Row

FILE = Path(__file__).parents[2] / "examples" / "lamport_order.py"
spec = importlib.util.spec_from_file_location("lamport_order", FILE)
assert spec is not None
assert spec.loader is not None
lamport_order = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lamport_order)


BROKEN_NOTES = [
    '{"order": "fifo", "promises": []}',
    '{"order": "lamport", "promises": []}',
    '{"order": "fifo", "promises": null}',
    '{"order": "fifo", "promises": 7}',
    '{"order": "fifo", "multicast": "pigeon"}',
    '{"order": "fifo", "multicast": 3, "promises": ["fifo"]}',
    '{"order": "fifo", "delivery": "unsafe"}',
    '{"order": "fifo", "delivery": 3}',
    '{"order": "fifo", "wants": "nothing"}',
]
GOOD_NOTES = [
    '{"order": "total", "promises": ["fifo"]}',
    '{"order": "total", "multicast": "tree", "delivery": "safe", "wants": "state"}',
    '{"order": "semantic", "multicast": "besteffort"}',
    '{"order": "fifo", "multicast": null, "delivery": null}',
    '{"order": "whim"}',
]


class Careless(lamport_order.Lamport):  # type: ignore[misc,name-defined]
    """An acknowledgement counts before the data that it speaks of has come, so a lower timestamp may come later."""

    def accept_record(self, record: Record) -> None:
        body = record.body
        assert type(body) is list
        super().accept_record(Record(record.group, record.sender, record.view, record.first, record.last, [body[0], 0]))


class Own(Careless):
    """Promises nothing that the audit knows."""

    promises = ("heard_before",)


@pytest.fixture
def registered() -> Iterator[None]:
    tables: tuple[dict[str, object], ...] = (ORDERS, PROMISES, ORACLES)  # type: ignore[assignment]
    before = [dict(table) for table in tables]
    lamport_order.register()
    yield
    for table, entries in zip(tables, before, strict=True):
        table.clear()
        table.update(entries)


def recorded(seeds: range, faults: tuple[str, ...] = ("loss", "reordering")) -> list[Row]:
    return [row for seed in seeds for row in run_recorded(Case(seed=seed, order="lamport", faults=faults))[1]]


def broken(verdicts: Verdicts) -> set[str]:
    return {verdict.promise for verdict in verdicts.verdicts if verdict.violations}


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["pipeline", *arguments])
    return code, capsys.readouterr().out


def test_the_names_are_those_that_the_stages_declare() -> None:
    """Written separately, as data: an older trace would be judged by other promises than a newer one."""
    assert {*promised.COMMON} == {*COMMON_PROMISES}
    for order in ORDERS:
        for multicast in MULTICASTS:
            for delivery in ("agreed", "safe"):
                options = {"order": order, "multicast": multicast, "delivery": delivery}
                stated = frozenset(promises_of(GroupOptions(**options)))
                older = promised.described(json.dumps(options))
                newer = promised.described(json.dumps({**options, "promises": sorted(stated)}))
                assert older.promises == newer.promises == stated
                assert promised.not_judged(stated) == []


def test_names_that_have_no_check() -> None:
    """What is not looked at would pass as kept."""
    assert promised.not_judged(frozenset({"fifo", "heard_before"})) == ["heard_before"]
    assert promised.not_judged(frozenset({"fifo", "minimality"})) == ["minimality"], "how long an order of one's own waits, nobody knows"
    assert promised.not_judged(promised.described('{"order": "whim"}').promises) == ["whim"]
    for note in (None, "", "{", "[]", '"fifo"', "{}", '{"order": ""}', '{"order": 7}', *BROKEN_NOTES):
        assert not promised.described(note).readable, note


def test_rows_and_groups_are_judged_by_the_same_promises(spark: SparkSession) -> None:
    """Descriptions are read twice, in Python for whole groups and in SQL for their rows: one would judge what the other does not."""
    notes = [*BROKEN_NOTES, *GOOD_NOTES, "{", "[]"]
    where = ("r", "ana", 1, "group", 0, 0, 0)
    rows = [Row("r", "ana", 0, "open"), *(Row(*where, f"g{place}", "ana", 1, note=note) for place, note in enumerate(notes))]
    with Acts.of(Tables.of_rows(spark, rows)) as acts:
        lives = {row["group"]: row for row in acts.lives.collect()}
    for place, note in enumerate(notes):
        one, life = promised.described(note), lives[f"g{place}"]
        assert (life["wants"], sorted(life["promises"] or ())) == (one.wants, sorted(one.promises)), note
        assert one.readable == (note in GOOD_NOTES), note


def test_what_had_nothing_to_check_was_not_kept(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A group that everybody has left would be said to have kept what nobody can see: what all who stay have in the end."""
    one = scene("r", "left", Plan(promises=(*COMMON, "fifo")), 1)
    for member in one.members:
        one.move(member, [Line("leave", view=2, note="left")], before=one.lines[member][-1])
    write_rows(one.rows(), tmp_path, "r", "all")
    code, out = told(capsys, "audit", str(tmp_path), "--json")
    found = json.loads(out)
    assert (code, found["clean"], found["complete"]) == (OK, True, True)
    assert found["unchecked"] == [name for name, summary in found["promises"].items() if not summary["checked"]]
    assert found["unchecked"] == ["validity", "agreement", "nothing_lost"]
    code, out = told(capsys, "audit", str(tmp_path))
    assert (code, "no violation was found; nothing to check: validity, agreement, nothing_lost" in _plain(out)) == (OK, True)
    assert "every" not in out


def test_every_promise_is_said_of_promises_alone() -> None:
    """Where nothing is promised, or only the trace itself was looked at, nothing was kept."""
    about_the_trace = {"description": Summary(3), "positions": Summary(9)}
    assert "every" not in Verdicts(9, 9, (), {}).outcome()
    assert "every" not in Verdicts(9, 9, (), about_the_trace).outcome()
    assert Verdicts(9, 9, (), {**about_the_trace, "fifo": Summary(9)}).outcome() == "every promise was kept"
    unchecked = Verdicts(9, 9, (), {**about_the_trace, "fifo": Summary(9), "total": Summary(0)})
    assert unchecked.outcome() == "no violation was found; nothing to check: total"


@pytest.mark.usefixtures("registered")
def test_a_broken_order_of_ones_own_is_found(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit would call every order clean whose name it does not know."""
    whole = audit(Tables.of_rows(spark, recorded(range(3), ("loss", "crash"))))
    assert broken(whole) == set()
    assert whole.not_judged == {"heard_before": 3}
    monkeypatch.setitem(ORDERS, "lamport", Careless)
    found = audit(Tables.of_rows(spark, recorded(range(6))))
    assert "total" in broken(found)
    assert found.not_judged == {"heard_before": 6}
    monkeypatch.setitem(ORDERS, "lamport", Own)
    unknown = audit(Tables.of_rows(spark, recorded(range(3))))
    assert (unknown.clean, unknown.complete, unknown.not_judged) == (True, False, {"heard_before": 3})
    assert "total" not in unknown.promises


def test_an_older_trace_of_an_unknown_order_is_not_judged(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A build would go on over an order that nobody looked at."""
    unknown, known, both = (str(tmp_path / name) for name in ("unknown", "known", "both"))
    whim = scene("r", "whim", Plan(order="whim"), 1)
    fifo = scene("r", "fifo", Plan(), 1)
    for directory, scenes in ((unknown, [whim]), (known, [fifo]), (both, [whim, fifo])):
        for one in scenes:
            write_rows(one.rows(), Path(directory), "r", one.group)
    assert told(capsys, "audit", known, "--strict")[0] == OK
    code, out = told(capsys, "audit", unknown)
    assert (code, "no violation was found; not judged: whim (1 group)" in _plain(out)) == (OK, True)
    assert "every" not in out
    code, out = told(capsys, "audit", both, "--strict", "--json")
    found = json.loads(out)
    assert (code, found["clean"], found["complete"], found["not_judged"]) == (UNJUDGED, True, False, {"whim": 1})
    assert {group["group"]: group["not_judged"] for group in found["groups"]} == {"whim": ["whim"], "fifo": []}


def test_violations_and_what_was_not_judged_are_both_told(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broken promise would hide that others were not looked at, or the reverse."""
    one = scene("r", "lamport", LAMPORT, 1)
    member = one.members[0]
    again = one.of(member, view=2)[0].copy()
    one.move(member, [again], before=one.end(member))
    write_rows(one.rows(), tmp_path, "r", "all")
    code, out = told(capsys, "audit", str(tmp_path), "--strict")
    assert code == BROKEN
    assert "promises were BROKEN; not judged: heard_before (1 group)" in _plain(out)


def _plain(out: str) -> str:
    """The console breaks lines where it likes."""
    return " ".join(out.split())


def test_only_what_is_promised_is_judged(spark: SparkSession) -> None:
    """A group would be blamed for what it never promised."""

    def verdicts_of(promises: Sequence[str]) -> set[str]:
        one = scene("r", "mine", Plan(order="mine", promises=tuple(promises)), 1)
        return {verdict.promise for verdict in audit(Tables.of_rows(spark, one.rows())).verdicts}

    always = {"description", "positions"}
    assert verdicts_of(["heard_before"]) == always
    assert verdicts_of(["heard_before", "fifo"]) == always | {"fifo"}
    assert verdicts_of([*COMMON, "heard_before"]) == always | {*COMMON}
