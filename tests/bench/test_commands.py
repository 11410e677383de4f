"""The commands that measure real processes: what they print, and what they refuse."""

from __future__ import annotations

import json

import pytest
from msgspec import structs

from antiphon.bench import comparison
from antiphon.bench.contest import measure
from antiphon.bench.processes import BenchFailed
from antiphon.bench.work import Work
from antiphon.cli.main import BROKEN, OK, UNUSABLE, main

QUICK = ["--members", "2", "--seconds", "1", "--warmup", "0.2", "--rounds", "1", "--rate", "200"]


@pytest.mark.parametrize("order", ["total", "fifo"])
def test_a_group_of_real_processes_keeps_its_order(order: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nodes on a real network would deliver in another order than the simulator's, and nobody would know."""
    assert main(["bench", "group", "--order", order, *QUICK, "--json"]) == OK
    told = json.loads(capsys.readouterr().out)
    assert told["order_equal"] is True, told["complaints"]
    assert told["order"] == order
    assert told["deliveries_per_s_per_member"] > 0
    assert 0 < told["p50_us"] <= told["p99_us"]
    assert told["cpu_s_per_million"] > 0
    assert told["rss_mb"] > 0
    assert told["limit"]["order_equal"] is True
    assert told["limit"]["system"] == "limit"
    assert told["ratio_to_limit"] > 0
    assert told["cpu_ratio_to_limit"] > 0
    assert [run["system"] for run in told["runs"]] == ["antiphon", "limit", "antiphon"]


def test_message_by_message_is_verified_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    """The slower way to read would be the one that nobody checks."""
    assert main(["bench", "group", "--iterate", "messages", "--no-limit", *QUICK, "--json"]) == OK
    told = json.loads(capsys.readouterr().out)
    assert told["order_equal"] is True
    assert "limit" not in told
    assert told["label"] == "Antiphon, one by one"


def test_the_figures_are_shown_to_people(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody would measure and not see the result."""
    _without_processes(monkeypatch, broken=False)
    assert main(["bench", "group"]) == OK
    told = capsys.readouterr().out
    assert "Total order, 2 members, 100 B" in told
    assert "of the limit by rate" in told
    assert "kept" in told


def test_a_broken_promise_leaves_with_one_and_says_what_broke(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A build would be green although members of a real group delivered in different orders."""
    _without_processes(monkeypatch, broken=True)
    assert main(["bench", "group"]) == BROKEN
    told = capsys.readouterr().out
    assert "BROKEN" in told
    assert "member 1: after 3 of member 0 came 5" in told
    assert main(["bench", "peers", "--systems", "antiphon", "--order", "total"]) == BROKEN


def test_a_comparison_in_which_antiphon_itself_fails_leaves_with_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build would be green although no node could be started."""

    def fail(work: Work) -> object:
        raise BenchFailed("member 0 ended early", "RuntimeError: no")

    monkeypatch.setattr(comparison, "measure", fail)
    assert main(["bench", "peers", "--systems", "antiphon", "--order", "total"]) == BROKEN
    assert "Antiphon was left out: member 0 ended early: RuntimeError: no" in capsys.readouterr().err


def _without_processes(monkeypatch: pytest.MonkeyPatch, *, broken: bool) -> None:
    """One run of the bare loop stands for all."""
    once = measure(Work(system="limit", members=2, seconds=0.2, warmup_s=0.1))

    def pretend(work: Work) -> object:
        complaints = ("member 1: after 3 of member 0 came 5",) if broken and work.system == "antiphon" else ()
        return structs.replace(once, system=work.system, kind=work.kind, order_equal=not complaints, complaints=complaints, p50_us=9.0)

    monkeypatch.setattr(comparison, "measure", pretend)


def test_peers_stand_side_by_side(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A row or the reason why it is missing would not be shown, or a page could not be written from the measured numbers."""
    monkeypatch.delenv("JGROUPS_JAR", raising=False)
    quick = ["bench", "peers", "--systems", "limit,jgroups", "--order", "fifo", "--size", "64,200", "--members", "2", "--seconds", "0.2"]
    assert main([*quick, "--no-latency", "--json"]) == OK
    told = json.loads(capsys.readouterr().out)
    assert [(row["system"], row["size"]) for row in told["rows"]] == [("limit", 64), ("limit", 200)]
    assert {row["system"] for row in told["skipped"]} == {"jgroups"}
    assert main([*quick, "--markdown"]) == OK
    page = capsys.readouterr()
    assert "| the bare loop |" in page.out
    assert "**Delay: one sender, 4 receivers, 256 B**" in page.out
    assert page.err.count("JGroups was left out") == 1
    assert main([*quick, "--latency-only", "--json"]) == OK
    assert [row["kind"] for row in json.loads(capsys.readouterr().out)["rows"]] == ["pace"]


def test_a_short_soak_prints_what_it_saw(capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody would wait twenty minutes for a command that then cannot say how it went."""
    # So short a soak says nothing about growth: only that it was sampled, judged and printed.
    assert main(["bench", "soak", "--minutes", "0.03", "--members", "2", "--rate", "200", "--json"]) in (OK, BROKEN)
    told = json.loads(capsys.readouterr().out)
    assert told["result"]["order_equal"] is True
    assert told["filled"] is False
    assert [trend["member"] for trend in told["trends"]] == [0, 1]
    assert all(len(trend["samples_mb"]) > 3 and trend["samples_mb"][-1] > 5 for trend in told["trends"])


def test_an_idle_group_says_what_it_costs(capsys: pytest.CaptureFixture[str]) -> None:
    """The cost of doing nothing would not be known."""
    assert main(["bench", "idle", "--members", "2", "--seconds", "1", "--json"]) in (OK, BROKEN)
    told = json.loads(capsys.readouterr().out)
    assert told["sent"] == 0
    assert 0 <= told["cpu_share"] <= told["most_cpu_share"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("group --order alphabetical", "choose one of unordered"),
        ("group --multicast pigeon", "choose one of"),
        ("group --multicast besteffort", "no promise to verify"),
        ("group --transport carrier", "tcp, udp"),
        ("group --iterate words", "batches, messages"),
        ("group --members 1", "from 2 to 64"),
        ("group --size 3", "from 16 bytes"),
        ("group --size 900000", "from 16 bytes"),
        ("group --seconds 0", "from 0.1 to"),
        ("group --batch 0", "from 1 to 256"),
        ("group --rounds 0", "from 1 to 100"),
        ("group --rate -1", "from 0 to"),
        ("group --seconds soon", "--seconds"),
        ("peers --order causal", "total, fifo"),
        ("peers --size 100;200", "100,1024"),
        ("peers --systems rabbit", "rabbit"),
        ("peers --systems redis --order fifo --no-latency", "none of them promises fifo"),
        ("peers --systems rabbit --latency-only", "rabbit"),
        ("peers --latency-only --no-latency", "leaves nothing to measure"),
        ("soak --minutes 0", "from 0.01 to"),
        ("soak --rate 0", "from 1 to"),
        ("idle --members 1", "from 2 to 64"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_started(
    line: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody would wait for a run whose first flag was wrong, or meet a traceback."""
    monkeypatch.setattr("antiphon.bench.processes.subprocess.Popen", None)
    assert main(["bench", *line.split()]) == UNUSABLE
    assert said in capsys.readouterr().err
