"""Campaigns: many seeds, several processes, and a file to go on from."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from antiphon.errors import UsageError
from antiphon.sim.swarm import Case, Outcome, campaign, default_cases

SEEDS = range(12)


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
