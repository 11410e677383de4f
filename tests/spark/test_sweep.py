"""Sweeps: what executors simulate is what anybody simulates, and a sweep that was killed goes on where it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from antiphon.cli.figures import ROWS_LIMIT
from antiphon.cli.main import BROKEN, OK, main
from antiphon.errors import InvalidOption
from antiphon.sim.compare import compare
from antiphon.sim.conversation import Conversation, Line, shipped
from antiphon.spark.grid import Cell, Grid, Result, lengthened, simulate
from antiphon.spark.report import pictures
from antiphon.spark.sweep import RESULTS, Sweep, by_parameters, results_in, sweep

SMALL = Grid(orders=("fifo", "total"), members=(3,), losses=(0.0, 0.1), messages=(20,), seeds=range(6))
PATIENCE_S = 600.0


def kept(done: Sweep) -> dict[Cell, Result]:
    """The results by cell, without what the machine says."""
    results = [msgspec.convert({**row.asDict(), "cpu_s": 0.0}, Result) for row in done.results.collect()]
    found = {msgspec.convert({name: getattr(result, name) for name in Cell.__struct_fields__}, Cell): result for result in results}
    assert len(found) == len(results), "a cell has two results"
    return found


def alone(cells: list[Cell]) -> dict[Cell, Result]:
    return {cell: msgspec.structs.replace(simulate(cell), cpu_s=0.0) for cell in cells}


def test_executors_find_what_a_single_process_finds(spark: SparkSession, tmp_path: Path) -> None:
    """A figure from a cluster could not be had again on a laptop: nobody could look into a strange one."""
    cells = SMALL.cells()
    told: list[tuple[int, int]] = []
    done = sweep(spark, cells, str(tmp_path / "out"), progress=lambda *step: told.append(step))
    assert kept(done) == alone(cells)
    assert (done.ran, done.resumed) == (24, 0)
    assert told[-1] == (24, 24)
    assert done.busy > 0.0

    rows = by_parameters(done.results).collect()
    assert [(row.order, row.loss, row.seeds) for row in rows] == [("fifo", 0.0, 6), ("fifo", 0.1, 6), ("total", 0.0, 6), ("total", 0.1, 6)]
    assert sum(row.deliveries for row in rows) == sum(result.deliveries for result in alone(cells).values()) == 24 * 20 * 2

    again = sweep(spark, cells, str(tmp_path / "out"))
    assert (again.ran, again.resumed) == (0, 24)
    wider = sweep(spark, [*cells, msgspec.structs.replace(cells[0], seed=99)], str(tmp_path / "out"))
    assert (wider.ran, wider.resumed) == (1, 24)


def test_a_killed_sweep_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    """A night of simulations would be lost with one power cut, or some of them would be counted twice."""
    cells = Grid(orders=("fifo", "total"), members=(3,), losses=(0.0, 0.1), messages=(20,), seeds=range(12)).cells()
    out = tmp_path / "out"
    program = f"""
import msgspec
from antiphon.spark.grid import Cell
from antiphon.spark.session import open_session
from antiphon.spark.sweep import sweep
cells = msgspec.json.decode({msgspec.json.encode(cells)!r}, type=list[Cell])
with open_session(master="local[2]") as spark:
    sweep(spark, cells, {str(out)!r}, progress=lambda done, all: print(done, flush=True))
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True) as victim:
        patience = threading.Timer(PATIENCE_S, os.killpg, (victim.pid, signal.SIGKILL))
        patience.start()
        try:
            assert victim.stdout is not None
            told = int(victim.stdout.readline() or b"0")
        finally:
            patience.cancel()
            os.killpg(victim.pid, signal.SIGKILL)
            victim.wait(PATIENCE_S)
    assert 0 < told < len(cells), "killed in the middle"
    found = results_in(spark, str(out)).count()
    assert told <= found < len(cells), "what was told to be done is kept"

    rest = sweep(spark, cells, str(out))
    assert (rest.resumed, rest.ran) == (found, len(cells) - found)
    assert kept(rest) == alone(cells)


def test_a_cell_that_fails_is_a_result(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One broken invariant in a million simulations would end the sweep, each time at the same cell, and nobody would see the others."""
    cells = Grid(orders=("fifo",), members=(2,), losses=(0.0,), messages=(3,), seeds=(1, 2)).cells()

    def broken(*arguments: object, **more: object) -> None:
        raise AssertionError("a held message has no place")

    monkeypatch.setattr("antiphon.spark.grid.compare", broken)
    failed = simulate(cells[0])
    assert failed.error == "AssertionError: a held message has no place"
    results = spark.createDataFrame([msgspec.structs.astuple(failed)], RESULTS)
    [row] = by_parameters(results).collect()
    assert (row.errors, row.unsettled, row.frames_per_delivery) == (1, 1, None)
    assert pictures.sweep([row.asDict(), {**row.asDict(), "members": 3}]).startswith("<svg")
    odd = str(tmp_path / "out [1]")
    results.write.parquet(f"{odd}/wave=1")
    (tmp_path / "out [1]" / "notes.txt").write_text("which machine this was")
    assert results_in(spark, odd).count() == 1, "the name of a directory is no pattern, and notes are no results"


def test_a_breach_beyond_the_rows_that_are_shown_counts(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sweep of more than a thousand combinations would leave with 0 because the one that broke a promise is not among those shown."""
    rates = [float(rate) for rate in range(1, ROWS_LIMIT + 2)]
    grid = Grid(orders=("fifo",), members=(2,), rates=rates, losses=(0.0,), messages=(3,), seeds=(0,))
    results = [Result(**msgspec.structs.asdict(cell), settled=True, broken=int(cell.rate == rates[-1])) for cell in grid.cells()]
    for name, kept_results in (("sound", results[:-1]), ("broken", results)):
        found = spark.createDataFrame([msgspec.structs.astuple(result) for result in kept_results], RESULTS)
        found.coalesce(1).write.parquet(str(tmp_path / name / "wave=1"))
    asked = ["--orders", "fifo", "--members", "2", "--losses", "0", "--messages", "3", "--seeds", "0:1", "--json"]

    def swept(name: str, most: int) -> tuple[int, Any]:
        said = ",".join(f"{rate:g}" for rate in rates[:most])
        code = main(["pipeline", "sweep", str(tmp_path / name), "--rates", said, *asked])
        return code, json.loads(capsys.readouterr().out)

    code, told = swept("sound", ROWS_LIMIT)
    assert (code, told["cells"], told["bad"], told["shortened"]) == (OK, ROWS_LIMIT, 0, [])
    code, told = swept("broken", ROWS_LIMIT + 1)
    assert (code, told["cells"], told["bad"], told["ran"]) == (BROKEN, ROWS_LIMIT + 1, 1, 0)
    assert (len(told["results"]), told["shortened"]) == (ROWS_LIMIT, ["results"])
    assert not any(row["broken"] for row in told["results"])


def test_a_cell_is_the_comparison_of_its_order() -> None:
    """The sweep would measure something else than `antiphon sim compare` shows for the same numbers."""
    [cell] = Grid(orders=("causal",), members=(5,), losses=(0.05,), messages=(120,), seeds=(3,)).cells()
    found = simulate(cell)
    expected = compare(shipped(), loss=0.05, rate=10.0, members=5, seed=3, orders=("causal",))["causal"]
    assert (found.deliveries, found.hold_mean_s, found.hold_p99_s) == (
        expected.hold_back.deliveries,
        expected.hold_back.mean_s,
        expected.hold_back.p99_s,
    )
    assert found.frames == sum(expected.frames.values())
    assert (found.broken, found.settled, found.error) == (0, True, "")


def test_a_conversation_is_said_again_to_be_longer() -> None:
    """Answers of the second time would answer the first: the longer the sweep's conversation, the longer its delays."""
    short = Conversation("two", (Line("1", "ana", (), "?"), Line("2", "ben", ("1",), "!")))
    assert [(line.id, line.parents) for line in lengthened(short, 5).lines] == [
        ("1/0", ()),
        ("2/0", ("1/0",)),
        ("1/1", ()),
        ("2/1", ("1/1",)),
        ("1/2", ()),
    ]
    assert lengthened(short, 1).lines == short.lines[:1]


def test_what_cannot_be_simulated_is_refused_before_anything_runs() -> None:
    """A sweep of a thousand cells would fail in the last one for a typing error."""
    for wrong in (
        Grid(orders=("alphabetical",)),
        Grid(members=(1,)),
        Grid(losses=(1.0,)),
        Grid(rates=(0.0,)),
        Grid(delays_s=((0.2, 0.1),)),
        Grid(messages=(0,)),
        Grid(seeds=()),
        Grid(seeds=range(10_000_000)),
    ):
        with pytest.raises(InvalidOption):
            wrong.cells()
    [cell] = Grid(orders=("fifo",), members=(2,), losses=(0.0,), seeds=(1,)).cells()
    with pytest.raises(InvalidOption, match=r"choir\.jsonl"):
        simulate(cell, Conversation("another", (Line("1", "ana", (), "?"),)))
