"""`antiphon sim compare` and `antiphon bench core`: what they print for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.cli.main import BROKEN, OK, main


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
