"""`antiphon bench topics`: what it prints, that the bare store does the same work, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from antiphon.bench.topics import rows
from antiphon.bench.topics.ours import Ours
from antiphon.bench.topics.plot import draw
from antiphon.bench.topics.raw_sqlite import RawSqlite
from antiphon.bench.topics.timings import OPERATIONS
from antiphon.cli.main import OK, UNUSABLE, main

QUICK = ["--iterations", "3", "--pairs", "1", "--seconds", "0.05"]
ROW = {"store", "operation", "batch", "per_s", "raw_per_s", "ratio"}
WORK = [(operation, batch) for batch in (1, 64, 1_024) for operation in ("publish", "read")]


def measured(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main(["bench", "topics", *QUICK, *words, "--json"]) == OK
    return json.loads(capsys.readouterr().out)


def judge(told: Any, stores: list[str]) -> None:
    assert [(row["store"], row["operation"], row["batch"]) for row in told["rows"]] == [(store, *work) for store in stores for work in WORK]
    for row in told["rows"]:
        assert set(row) == ROW
        assert row["per_s"] > 0
        assert row["raw_per_s"] > 0
        assert row["ratio"] > 0
    assert list(told["timings_ms"]) == list(OPERATIONS) == ["join", "leave", "write", "read", "delete"]
    for times in told["timings_ms"].values():
        assert len(times) == 3
        assert min(times) > 0


def test_a_file_is_measured_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever compares stores would read a field that is not there, or a picture would be missing after minutes of measuring."""
    picture = tmp_path / "times.png"
    told = measured(capsys, "--store", f"sqlite:{tmp_path / 'bench.db'}", "--plot", str(picture))
    judge(told, ["sqlite"])
    assert set(told) == {"rows", "timings_ms", "growth"}
    assert told["growth"] == []
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_whether_costs_grow_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A topic that gets slower with every value would look as fast as its first thousand."""
    told = measured(capsys, "--store", f"sqlite:{tmp_path / 'bench.db'}", "--growth", "--length", "10,200", "--subscribers", "1,20")
    cases = [(one["of"], one["small"], one["large"], one["operation"]) for one in told["growth"]]
    sizes = [("length", 10, 200), ("subscribers", 1, 20)]
    assert cases == [(*size, operation) for size in sizes for operation in ("publish", "read")]
    assert all(one["ratio"] > 0 for one in told["growth"])


def test_without_a_store_it_brings_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """A newcomer would have to set up two stores before the first number; or the times of one of them would be left out."""
    pytest.importorskip("nats", reason="nats-py is not installed: pip install 'antiphon[nats]'")
    told = measured(capsys)
    judge(told, ["sqlite", "nats"])
    assert set(told["timings_by_store_ms"]) == {"sqlite", "nats"}
    assert told["timings_by_store_ms"]["sqlite"] == told["timings_ms"]
    assert set(told["timings_by_store_ms"]["nats"]) == set(OPERATIONS)


def test_it_is_shown_to_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody would measure and not see the result."""
    growth = ["--growth", "--length", "10,200", "--subscribers", "1,20"]
    assert main(["bench", "topics", *QUICK, "--store", f"sqlite:{tmp_path / 'bench.db'}", *growth]) == OK
    shown = capsys.readouterr().out
    for word in ("bare store", "1,024", *OPERATIONS, "200 instead of 10"):
        assert word in shown


def test_both_do_the_same_work(tmp_path: Path) -> None:
    """The ratio would compare a store that writes with one that does not."""

    async def work() -> list[list[int]]:
        counted = []
        for one in (Ours(f"sqlite:{tmp_path / 'ours.db'}", "bench", 256), RawSqlite(tmp_path / "raw.db", 256)):
            await one.open()
            for batch in (1, 64, 1):
                await one.publish(batch)
            await one.rewind()
            counted.append([await one.read(50) for _ in range(3)])
            await one.rewind()
            counted[-1].append(await one.read(50))
            await one.close()
        return counted

    assert asyncio.run(work()) == [[50, 16, 0, 50]] * 2
    bare = sqlite3.connect(tmp_path / "raw.db")
    assert bare.execute("select count(*), sum(length(data)) from value").fetchone() == (66, 66 * 256)
    assert bare.execute("select position from reader").fetchone() == (50,)
    assert bare.execute("pragma journal_mode").fetchone() == ("wal",)
    bare.close()


def test_every_step_is_told(tmp_path: Path) -> None:
    """The bar of a run that takes minutes would stand still, or go beyond its end."""
    told: list[None] = []
    asyncio.run(rows.rows(f"sqlite:{tmp_path / 'bench.db'}", tmp_path, 16, 2, 0.01, lambda: told.append(None)))
    assert len(told) == rows.steps(2)


def test_stores_are_drawn_side_by_side(tmp_path: Path) -> None:
    """The picture would show one store where two were measured."""
    times = {store: {operation: [1.0, 2.0] for operation in OPERATIONS} for store in ("sqlite", "nats")}
    draw(times, tmp_path / "times.svg")
    drawn = (tmp_path / "times.svg").read_text(encoding="utf-8")
    assert "<!-- sqlite 1.50 ms -->" in drawn
    assert "<!-- nats 1.50 ms -->" in drawn


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--store memory:", "sqlite: or a nats:"),
        ("--store oracle://db", "sqlite:PATH"),
        ("--plot times.txt", ".png or .svg"),
        ("--plot nowhere/times.png", "does not exist"),
        ("--length 1000", "for example 1000,1000000"),
        ("--length 10,few", "for example 1000,1000000"),
        ("--length 200,10", "the second larger"),
        ("--length 0,10", "1 or more"),
        ("--subscribers 1,9000000", "up to 100,000"),
        ("--pairs 0", "--pairs"),
        ("--size 0", "--size"),
        ("--iterations many", "--iterations"),
    ],
)
def test_what_cannot_be_measured_is_refused(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody would wait for a run whose last step cannot work, or meet a traceback."""
    assert main(["bench", "topics", *words.split()]) == UNUSABLE
    assert said in capsys.readouterr().err
