"""The report: one page that stands alone, says what was found and nothing else, and survives whatever names people give."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec import structs
from pyspark.sql import DataFrame, SparkSession

from antiphon.cli.main import UNUSABLE, main
from antiphon.sim.swarm import Case, run_seed
from antiphon.spark.audit.verdict import Summary, Unjudged, Verdict, Verdicts, Violation, Witness
from antiphon.spark.delays import Delays
from antiphon.spark.report.figures import cell, duration, share
from antiphon.spark.report.findings import Findings
from antiphon.spark.report.page import page
from antiphon.spark.report.pictures import _nearly_all, over_time
from antiphon.spark.report.sections import columns, table
from antiphon.spark.threads import Threads

EVIL = "<script>alert('ana & ben')</script>"
TIMES = {"mean_ns": 2e6, "p50_ns": 1e6, "p90_ns": 3e6, "p99_ns": 5e6, "p999_ns": 5e6, "max_ns": 6_000_000}


def verdicts(violations: int = 0) -> Verdicts:
    told = Violation("r", f"{EVIL}#1", "fifo", "2 came before 1", (Witness("r", "ana#1", 7), Witness("r", "ana#1", 8)))
    summary = Summary(40, violations, (told,) * violations)
    return Verdicts(40, 100, (Verdict("r", "g#1", "fifo", 40, violations),), {"fifo": summary, "total": Summary(40)})


def test_what_was_not_judged_is_on_the_page() -> None:
    """A reader would believe that everything was looked at."""
    whole = page(findings())
    assert "Every promise was kept." in whole
    unchecked = structs.replace(verdicts(), promises={**verdicts().promises, "nothing_lost": Summary()})
    assert "No violation was found. Nothing to check: nothing lost." in page(findings(verdicts=unchecked))
    unjudged = tuple(Unjudged("r", group, EVIL) for group in ("g#1", "g#2"))
    told = page(findings(verdicts=structs.replace(verdicts(), unjudged=unjudged)))
    assert "No violation was found. Not judged: " in told
    assert "not judged in 2 groups" in told
    assert "every promise" not in told.lower()
    assert EVIL not in told
    broken = page(findings(verdicts=structs.replace(verdicts(2), unjudged=unjudged[:1])))
    assert "Promises were broken: 2 violations. Not judged: " in broken


def findings(**more: object) -> Findings:
    """Something of everything."""
    delayed = {"run": "r", "group": f"{EVIL}#1", "member": "ana#2", "order": "fifo", "deliveries": 40, "above_zero": 0.25, **TIMES}
    delayed |= {"world": "real"}
    tree = {"run": "r", "group": "g#1", "sender": "ana#2", "seqno": 1, "size": 3, "depth": 2, "participants": 2, "answers": 1}
    swept = {"order": "fifo", "multicast": "reliable", "rate": 10.0, "seeds": 3, "held_share": 0.2, "frames_per_delivery": 1.5, "broken": 0}
    filled: dict[str, object] = {
        "verdicts": verdicts(),
        "runs": [{"run": "r", "writers": 2, "rows": 100, "span_ns": 10**9, "crashed": 0, "cut_off": 1, "clock_jumps": 0}],
        "aside": [{"reason": "truncated", "times": 1, "amount": 77}],
        "by_order": [{**delayed, "measure": measure} for measure in ("end_to_end", "hold_back", "travel")],
        "by_group": [delayed],
        "by_member": [delayed] * 30,
        "by_time": [{**delayed, "bucket": bucket, "since_s": float(bucket)} for bucket in (0, 1, 4)],
        "shape": [
            {"world": "real", "order": "fifo", "measure": measure, "bin": 640, "amount": 4} for measure in ("end_to_end", "hold_back")
        ],
        "rates": [
            dict.fromkeys(("received", "sent", "delivered", "resent", "duplicates", "asked"), 5) | {"run": "r", "group": "g", "members": 2}
        ],
        "occupancy": [{"run": "r", "group": "g", "place": "held", "samples": 2, "mean": 1.5, "p99": 2, "most": 2, "most_at": "ana#2"}],
        "views": [{"run": "r", "group": "g", "view": 12345, "size": 2, "installed": 2, "spread_ns": 5, "stable_ns": 9, "unstable": 0}],
        "clocks": [{"source": "a", "destination": "b", "messages": 3, "quickest_ns": 7, "ahead_ns": 3, "error_ns": 4}],
        "conversations": [{"run": "r", "group": "g", "messages": 5, "trees": 2, "unanswered": 1, "largest": 3, "deepest": 2}],
        "largest": [{**tree, "first_ns": 5, "last_ns": 90, "first_answer_ns": 4, "lost": False}],
        "sizes": [{"size": 1, "trees": 1}, {"size": 2, "trees": 1}],
        "depths": [{"depth": 0, "messages": 2}, {"depth": 1, "messages": 2}, {"depth": 2, "messages": 1}],
        "sweep": [
            {**swept, "members": members, "loss": loss, "hold_mean_s": 0.01, "hold_p99_s": 0.2, "end_to_end_mean_s": 0.1}
            for members in (4, 8)
            for loss in (0.0, 0.1)
        ],
    }
    return Findings(source="traces", **(filled | more))  # type: ignore[arg-type]


class Outline(HTMLParser):
    """What a browser would fetch and run, and the chapters of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.headings = re.findall(r"<h2><small>\d</small>(.*?)</h2>", text)
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [
            value for name, value in attributes if name in ("src", "href", "xlink:href") and value and not value.startswith("#")
        ]


def test_the_page_stands_alone_and_holds_every_chapter() -> None:
    """A colleague would see a broken page: something it needs would not be there, or a whole job would be missing."""
    text = page(findings(), title=EVIL, commands=["antiphon pipeline report traces"])
    outline = Outline(text)
    assert outline.fetched == []
    assert not {"script", "link", "iframe", "img"} & set(outline.tags)
    assert "url(http" not in text
    assert "@import" not in text
    assert "alert('ana" not in text, "names are text"
    assert outline.headings == [
        "Were the promises kept?",
        "How long did messages take?",
        "What did it cost?",
        "How did membership change?",
        "What were the conversations?",
        "How do the orders scale?",
        "What is this made from?",
    ]
    assert outline.tags.count("svg") == 4
    assert "prefers-color-scheme: dark" in text
    assert "Every promise was kept." in text
    assert "12345" in text, "a view is an id and has no commas"


def test_a_broken_promise_is_the_first_thing_one_reads() -> None:
    """A reader would close the page thinking that all was well."""
    text = page(findings(verdicts=verdicts(2)))
    assert text.index("Promises were broken: 2 violations.") < text.index("<h2>")
    assert "2 came before 1" in text
    assert "ana #7, ana #8" in text
    assert "Every promise was kept." not in text


def test_what_was_not_found_is_not_told() -> None:
    """An empty table or a picture of nothing would stand where a job had nothing to say, or the page would not be made at all."""
    text = page(Findings(source="traces", shortened=["by_member"]))
    assert Outline(text).headings == ["What is this made from?"]
    assert "only the first rows are on this page: the members that waited longest" in text


def test_simulated_and_real_groups_are_never_in_one_figure() -> None:
    """A real group in which somebody was killed would make an order look slow, or a thousand quick simulations would hide that it was."""
    real = findings()
    quick = {"world": "simulated", "p50_ns": 2e3, "p99_ns": 3e3}
    simulated = [{**row, **quick, "run": f"seed-{seed}"} for row in real.by_group for seed in range(9)]
    both = findings(
        runs=[{**run, "world": "real"} for run in real.runs]
        + [{**real.runs[0], "run": row["run"], "world": "simulated"} for row in simulated],
        by_order=[*real.by_order, *({**row, **quick} for row in real.by_order)],
        by_group=[*real.by_group, *simulated],
        shape=[*real.shape, *({**row, "world": "simulated"} for row in real.shape)],
    )
    alone, text = page(real), page(both, about="One was killed & noticed.")
    assert "<b>1 ms</b><span>median</span>" in alone
    assert "Real groups" not in alone
    assert "<b>1 ms</b><span>median, real</span>" in text
    assert "<b>2 µs</b><span>median, simulated</span>" in text
    assert "10 runs (9 simulated, 1 real)" in text
    assert text.index("Simulated groups") < text.index("Real groups")
    # Each has its own curves; of nine runs there is a mark for each group, and one is followed as time goes on.
    assert Outline(text).tags.count("svg") == Outline(alone).tags.count("svg") + 2
    assert "<p>One was killed &amp; noticed.</p>" in text
    assert "on this page comes from the traces alone" in alone
    assert "on this page comes from the traces alone" not in text


def test_stragglers_do_not_make_an_axis_long_and_empty() -> None:
    """What happened in the first seconds would be too small to see because one message came after an hour."""
    busy = [{**findings().by_time[0], "bucket": second, "since_s": float(second)} for second in range(5)]
    late = [*busy, {**busy[0], "bucket": 3600, "since_s": 3600.0, "deliveries": 1}]
    ends = [_nearly_all(rows) for rows in (busy, late)]
    assert ends == [4.0, 4.0]
    assert over_time(busy) != ""
    assert over_time(late) != over_time(busy), "that something came later is said"
    assert over_time(busy[:2]) == "", "two points are no course"


def test_figures_are_written_as_people_read_them() -> None:
    """Somebody would take microseconds for milliseconds, or something for nothing."""
    assert [duration(value) for value in (0, 12, 1_500, 2_340_000, 61e9, 5_000e9, None)] == [
        *("0", "12 ns", "1.5 µs", "2.34 ms", "61 s", "5,000 s", ""),
    ]
    assert [share(value) for value in (0, 0.0001, 0.034, 0.5)] == ["0 %", "< 0.1 %", "3.4 %", "50 %"]
    assert [cell(value) for value in (None, True, 1234, 0.12345, "ana#0123456789abcdef")] == ["", "yes", "1,234", "0.123", "ana"]


def test_a_long_table_is_folded_and_what_all_rows_say_is_said_once() -> None:
    """A table of a thousand rows would push everything after it out of sight."""
    text = table(columns("run, member, most_ns: longest"), [{"run": "night", "member": f"m{place}", "most_ns": 5e6} for place in range(20)])
    assert re.findall(r"<summary>(.*?)</summary>", text) == ["8 more rows"]
    assert text.count("night") == 1
    assert text.count("5 ms") == 20


def test_the_command_writes_what_all_jobs_find(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The jobs would work and their commands would not: a script that waits for the JSON, or the page, would get something else."""
    outcome = run_seed(Case(seed=11, order="semantic", messages=60, members=3, faults=("loss",)), trace=tmp_path / "traces")
    assert outcome.ok
    traces = str(tmp_path / "traces")
    out = tmp_path / "page.html"
    assert main(["pipeline", "report", traces, "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    found = told["findings"]
    assert told["clean"] is True
    assert found["verdicts"]["events"] == outcome.deliveries
    assert {row["measure"] for row in found["by_order"]} == {"end_to_end", "travel", "hold_back"}
    assert sum(row["sent"] for row in found["rates"]) == outcome.sent
    assert found["conversations"][0]["messages"] == outcome.sent
    assert "Every promise was kept." in out.read_text(encoding="utf-8")


def test_the_other_commands_show_the_tables_of_their_jobs(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The jobs would work and their commands would not. The jobs have tests of their own: here they only hand over a row or two."""
    assert run_seed(Case(seed=11, messages=2, members=2, faults=()), trace=tmp_path / "traces").ok
    canned = findings()

    def frame(*rows: dict[str, object]) -> DataFrame:
        return spark.createDataFrame(list(rows))

    tree = frame(*canned.largest)
    rebuilt = Threads(messages=tree, trees=tree, groups=frame(*canned.conversations))
    monkeypatch.setattr("antiphon.spark.threads.threads", lambda tables: rebuilt)
    assert main(["pipeline", "threads", str(tmp_path / "traces"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["groups"][0]["unanswered"], told["largest"][0]["size"], told["shortened"]) == (1, 3, [])

    class Measured(Delays):
        def by_order(self) -> DataFrame:
            return frame(*canned.by_order)

        by_member = by_order

    tables = {name: frame(*getattr(canned, name)) for name in ("rates", "occupancy", "views", "clocks")}
    measured = Measured(bins=tree, groups=tree, worlds=tree, bucket_s=1.0, **tables)
    monkeypatch.setattr("antiphon.spark.delays.delays", lambda tables, bucket_s: measured)
    assert main(["pipeline", "delays", str(tmp_path / "traces"), "--by", "member"]) == 0
    shown = capsys.readouterr().out
    for heading in ("How long, by member", "Frames and messages", "Messages that wait", "Changes of view", "Clocks of machines"):
        assert heading in shown


def test_what_cannot_be_run_is_refused_in_one_sentence(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody would wait for a job that cannot work, or read a traceback."""
    assert main(["pipeline", "delays", str(tmp_path), "--by", "weather"]) == UNUSABLE
    assert "choose one of group, order, member, time" in capsys.readouterr().err
    assert main(["pipeline", "report", str(tmp_path), "--out", str(tmp_path / "page.pdf")]) == UNUSABLE
    assert main(["pipeline", "sweep", str(tmp_path), "--orders", "alphabetical"]) == UNUSABLE
    assert main(["pipeline", "sweep", str(tmp_path), "--set", "memory=8g"]) == UNUSABLE
    capsys.readouterr()
    assert main(["pipeline", "threads", str(tmp_path)]) == UNUSABLE
    assert "no trace that could be used" in capsys.readouterr().err
