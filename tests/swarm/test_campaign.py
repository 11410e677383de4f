"""Campaigns: many seeds, several processes, a file to go on from, and files of a user's own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from antiphon.errors import BadFile, UsageError
from antiphon.protocol.registry import ORDERS
from antiphon.sim.oracles import PROMISES
from antiphon.sim.swarm import Case, Outcome, campaign, default_cases, load

SEEDS = range(12)
OWN = """
from antiphon.protocol.ordering.fifo import Fifo
from antiphon.protocol.registry import ORDERS
from antiphon.sim.oracles import PROMISES

def register():
    ORDERS["own"] = Fifo
    PROMISES["own"] = PROMISES["fifo"]
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """A file with an order of its own, forgotten after the test."""
    file = tmp_path / "own.py"
    file.write_text(OWN)
    yield file
    ORDERS.pop("own", None)
    PROMISES.pop("own", None)


def test_the_number_of_processes_changes_nothing() -> None:
    """A campaign over two processes that comes out otherwise than over one would be a simulation that depends on its surroundings."""
    alone: list[Outcome] = []
    together: list[Outcome] = []
    first = campaign(default_cases(SEEDS), 1, alone.append)
    second = campaign(default_cases(SEEDS), 2, together.append)
    assert alone == together
    assert first == second


def test_a_campaign_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """Ten thousand seeds take minutes; whoever is interrupted must not begin again."""
    file = tmp_path / "swarm.jsonl"
    whole = campaign(default_cases(SEEDS))
    campaign(default_cases(range(5)), resume=file)
    seen: list[Outcome] = []
    summary = campaign(default_cases(SEEDS), progress=seen.append, resume=file)
    assert summary.resumed == 5
    assert len(seen) == summary.seeds == len(SEEDS)
    assert (summary.deliveries, summary.frames) == (whole.deliveries, whole.frames)
    assert len(file.read_bytes().splitlines()) == len(SEEDS)


def test_a_line_that_was_cut_off_is_run_again(tmp_path: Path) -> None:
    """Killed in the middle of a line, the next run must neither fail nor lose that seed, nor glue two lines together."""
    file = tmp_path / "swarm.jsonl"
    campaign(default_cases(range(3)), resume=file)
    file.write_bytes(file.read_bytes()[:-20])
    summary = campaign(default_cases(range(3)), resume=file)
    assert (summary.resumed, summary.seeds) == (2, 3)
    outcomes = [msgspec.json.decode(line, type=Outcome) for line in file.read_bytes().splitlines()]
    assert [outcome.case.seed for outcome in outcomes] == [0, 1, 2]


def test_a_file_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    """Appending outcomes to somebody's notes would spoil them."""
    file = tmp_path / "notes.txt"
    file.write_text("buy milk\n")
    with pytest.raises(UsageError, match="name another file"):
        campaign(default_cases(range(2)), resume=file)
    assert file.read_text() == "buy milk\n"


def test_another_case_with_the_same_seed_is_not_taken_for_this_one(tmp_path: Path) -> None:
    """Resuming with other options must run them, not show the outcomes of the old ones."""
    file = tmp_path / "swarm.jsonl"
    campaign([Case(seed=1, order="fifo")], resume=file)
    assert campaign([Case(seed=1, order="causal")], resume=file).resumed == 0
    assert campaign([Case(seed=1, order="fifo")], resume=file).resumed == 1


def test_an_order_from_a_file_is_known_in_every_process(own: Path) -> None:
    """Somebody's own order could not be tried on more than one processor."""
    together: list[Outcome] = []
    summary = campaign((Case(seed=seed, order="own") for seed in range(4)), 2, together.append, load=[own])
    assert summary.ok, str(summary)
    assert summary.load == (str(own),)
    assert [outcome.case.order for outcome in together] == ["own"] * 4


def test_a_file_that_fails_in_another_process_only_is_named(own: Path) -> None:
    """A process that cannot begin would be started again and again, and the campaign would never end."""
    own.write_text(f"import multiprocessing\nassert multiprocessing.parent_process() is None, 'not here'\n{OWN}")
    with pytest.raises(UsageError, match=r"own\.py:2: raises AssertionError: not here"):
        campaign([Case(seed=seed) for seed in range(4)], 2, load=[own])


def test_an_order_that_nobody_can_judge_is_refused_before_the_first_run(own: Path) -> None:
    """A forgotten line would show only after the first run, or in another process and then never."""
    own.write_text(OWN.replace('PROMISES["own"] =', "_ ="))
    with pytest.raises(UsageError, match="no line in PROMISES"):
        campaign((Case(seed=seed, order="own") for seed in range(4)), 2, load=[own])


def test_a_file_is_executed_once_and_registers_every_time(own: Path) -> None:
    """Loading a file twice would leave two classes of one name, and what was defined first would not be what is used later."""
    load(own)
    first = sys.modules[str(own.resolve())]
    del ORDERS["own"]
    load(str(own))
    assert "own" in ORDERS
    assert sys.modules[str(own.resolve())] is first


def test_a_file_that_fails_can_be_mended_and_loaded_again(own: Path) -> None:
    """Somebody who tries in a notebook would have to start anew after every mistake."""
    own.write_text("import no_such_package\n")
    with pytest.raises(BadFile, match="No module named 'no_such_package'") as refusal:
        load(own)
    assert (refusal.value.file, refusal.value.line) == (str(own), 1)
    own.write_text(OWN)
    load(own)
    assert "own" in ORDERS
