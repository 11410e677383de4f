"""`antiphon sim swarm`: what it counts, how it resumes, and that it sees a broken order."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from antiphon.cli.main import BROKEN, OK, main
from antiphon.model.frames import Batch
from antiphon.protocol.registry import ORDERS
from antiphon.protocol.stage import Ordering
from antiphon.sim import oracles

RUN = ["sim", "swarm", "--jobs", "1", "--json"]


class Hasty(Ordering):
    """Promises fifo and delivers on receipt."""

    def accept(self, batch: Batch, low: int, high: int) -> None:
        self.deliver((batch, low, high))


def test_a_swarm_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    """A build that reads the summary would not know whether anything ran."""
    assert main([*RUN, "--seeds", "0:3", "--order", "semantic", "--multicast", "tree", "--members", "4", "--faults", "loss,crash"]) == OK
    told = json.loads(capsys.readouterr().out)
    assert (told["ok"], told["seeds"], told["violations"], told["stalled"], told["failures"]) == (True, 3, 0, 0, [])
    assert told["deliveries"] > 100


def test_a_group_without_repair_can_be_swarmed_too(capsys: pytest.CaptureFixture[str]) -> None:
    """The kind of multicast that loses messages on purpose could not be tried at all."""
    assert main([*RUN, "--seeds", "0:40", "--order", "semantic", "--multicast", "besteffort", "--faults", "loss"]) == OK
    assert json.loads(capsys.readouterr().out)["seeds"] == 40


def test_an_interrupted_swarm_goes_on(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Hours of a campaign would be run again, or counted twice."""
    file = str(tmp_path / "campaign.jsonl")
    assert main([*RUN, "--seeds", "0:2", "--resume", file]) == OK
    capsys.readouterr()
    assert main([*RUN, "--seeds", "0:4", "--resume", file]) == OK
    resumed = json.loads(capsys.readouterr().out)
    assert main([*RUN, "--seeds", "0:4"]) == OK
    fresh = json.loads(capsys.readouterr().out)
    assert (resumed.pop("resumed"), fresh.pop("resumed")) == (2, 0)
    assert resumed == fresh


def test_two_processes_find_what_one_finds(capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict of a campaign would depend on the machine that ran it."""
    told = []
    for jobs in ("1", "2"):
        assert main(["sim", "swarm", "--seeds", "0:8", "--json", "--jobs", jobs]) == OK
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]


def test_a_broken_order_is_found_and_can_be_replayed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A green swarm would mean nothing, and a red one could not be looked into."""
    monkeypatch.setitem(ORDERS, "hasty", Hasty)
    monkeypatch.setitem(oracles.PROMISES, "hasty", oracles.PROMISES["fifo"])
    seeds = ["--seeds", "0:4", "--order", "hasty", "--faults", "loss,reordering"]
    assert main([*RUN, *seeds]) == BROKEN
    told = json.loads(capsys.readouterr().out)
    assert told["violations"] > 0
    first = told["failures"][0]
    program, *replay = shlex.split(first["replay"])
    assert program == "antiphon"
    assert main([*replay, "--json"]) == BROKEN
    (again,) = json.loads(capsys.readouterr().out)["failures"]
    assert again["log_hash"] == first["log_hash"]
    assert main(["sim", "swarm", "--jobs", "1", *seeds]) == BROKEN
    assert f"replay: {first['replay']}" in capsys.readouterr().out
