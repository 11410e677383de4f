"""`antiphon sim compare` and `antiphon bench`: what they print for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.cli.main import BROKEN, OK, UNUSABLE, main


def test_a_comparison_has_a_row_for_every_order(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A reader would miss an order, or the picture that was asked for."""
    picture = tmp_path / "picture.svg"
    assert main(["sim", "compare", "--limit", "20", "--plot", str(picture)]) == OK
    told = capsys.readouterr().out
    for order in ("unordered", "fifo", "causal", "total", "semantic"):
        assert order in told
    assert picture.read_text().startswith("<svg")
    assert main(["sim", "compare", "--limit", "20", "--json"]) == OK
    assert len(json.loads(capsys.readouterr().out)["results"]) == 5


def test_a_broken_promise_leaves_with_one(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A build would be green although an order broke its promise."""
    monkeypatch.setattr("antiphon.sim.compare.oracles.promised", lambda order, multicast: frozenset({"minimality", "total"}))
    assert main(["sim", "compare", "--limit", "40", "--rate", "50"]) == BROKEN
    assert "broken" in capsys.readouterr().out


def test_the_benchmark_prints_its_rows(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody would measure and not see the result."""
    monkeypatch.setattr("antiphon.bench.core.BATCHES", (16,))
    monkeypatch.setattr("antiphon.bench.core.SIZES", (100,))
    assert main(["bench", "core", "--quick", "--json"]) == OK
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {"path", "batch", "size", "messages_per_s", "ratio_to_decode"} <= set(rows[0])
    assert {row["path"] for row in rows} >= {"decode", "fifo", "semantic"}
    assert main(["bench", "core", "--quick"]) == OK
    assert "messages/s" in capsys.readouterr().out


def test_the_cost_of_repair_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody would tune a group for a bad network without seeing what it sends again."""
    assert main(["bench", "repair", "--messages", "300", "--json"]) == OK
    rows = json.loads(capsys.readouterr().out)["rows"]
    quiet = {(row["low_ms"], row["high_ms"]): row for row in rows if not row["loss"] and row["high_ms"] <= 20}
    assert len(quiet) == 3
    assert all(row["data_frames"] == row["needed_frames"] == 900 and row["requests"] == row["repairs"] == 0 for row in quiet.values())
    assert all(row["recovered"] and row["p50_ms"] > row["high_ms"] for row in rows if row["loss"] >= 0.05)
    assert main(["bench", "repair", "--messages", "300"]) == OK
    assert "extra" in capsys.readouterr().out


def test_the_cost_of_membership_is_the_same_on_every_machine_and_grows_as_it_should(capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody would plan a large group with numbers that are true of one machine, or of small groups only."""
    assert main(["bench", "membership", "--members", "4,8,16", "--json"]) == OK
    told = json.loads(capsys.readouterr().out)
    costs = {(cost["what"], cost["members"]): cost for cost in told["costs"]}
    assert set(costs) == {(what, size) for what in ("found", "gather", "join", "crash", "digests", "idle") for size in (4, 8, 16)}
    # Digests go to everyone and have one size, in groups of all sizes.
    assert len({round(cost["bytes"] / cost["frames"]) for (what, _), cost in costs.items() if what == "digests"}) == 1
    growth = {row["what"]: row for row in told["growth"]}
    assert all(
        row["frames"] <= 1.2 and row["most_frames"] <= 1.3 and row["bytes"] <= 1.2 for what, row in growth.items() if what != "found"
    )
    # What was said does not make a group at rest say more.
    few, many = told["histories"]
    assert few["kinds"].keys() == many["kinds"].keys() == {"digest"}
    assert few["bytes"] / few["frames"] == many["bytes"] / many["frames"]


def test_the_cost_of_membership_is_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody would count and not see the result, or meet a traceback for a size that cannot be."""
    monkeypatch.setattr("antiphon.bench.membership.HISTORIES", (3, 5))
    assert main(["bench", "membership", "--members", "4"]) == OK
    told = capsys.readouterr().out
    assert "one dies" in told
    assert "idle minute: digests" in told
    assert main(["bench", "membership", "--members", "2,ten"]) == UNUSABLE
    assert "10,50,100" in capsys.readouterr().err
    assert main(["bench", "membership", "--members", "2"]) == UNUSABLE
    assert "from 3 to" in capsys.readouterr().err
