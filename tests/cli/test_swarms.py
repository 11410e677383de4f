"""`antiphon sim swarm`: what it counts, how it resumes, that it sees a broken order, and that it takes a user's own."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.cli.main import BROKEN, OK, UNUSABLE, main
from antiphon.model.frames import Batch
from antiphon.protocol.registry import ORDERS
from antiphon.protocol.stage import Ordering
from antiphon.sim import oracles

RUN = ["sim", "swarm", "--jobs", "1", "--json"]
PROGRAM = "import sys; from antiphon.cli.main import main; sys.exit(main())"
EXAMPLE = Path(__file__).parents[2] / "examples" / "lamport_order.py"
HASTY = """
from antiphon.protocol.ordering.unordered import Unordered
from antiphon.protocol.registry import ORDERS
from antiphon.sim.oracles import PROMISES


class Hasty(Unordered):
    pass


def register():
    ORDERS["hasty"] = Hasty
    PROMISES["hasty"] = PROMISES["fifo"]
"""


class Hasty(Ordering):
    """Promises fifo and delivers on receipt."""

    def accept(self, batch: Batch, low: int, high: int) -> None:
        self.deliver((batch, low, high))


@pytest.fixture
def tables() -> Iterator[None]:
    """What a test loads is forgotten after it: the other tests speak of the orders that are Antiphon's own."""
    kept: tuple[dict[str, object], ...] = (ORDERS, oracles.PROMISES, oracles.ORACLES)  # type: ignore[assignment]
    before = [dict(table) for table in kept]
    yield
    for table, entries in zip(kept, before, strict=True):
        table.clear()
        table.update(entries)


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


def test_both_kinds_of_worlds_are_swarmed(capsys: pytest.CaptureFixture[str]) -> None:
    """Who does not know that there are two kinds would test one of them only."""
    told = {}
    for kind in ([], ["--kind", "views"], ["--kind", "nodes"]):
        assert main([*RUN, "--seeds", "0:4", "--order", "fifo", "--faults", "loss", *kind]) == OK
        told["".join(kind[1:])] = json.loads(capsys.readouterr().out)["frames"]
    assert len(set(told.values())) == 3, "the mixture is neither of its parts"


def test_what_makes_no_sense_for_a_kind_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A policy for partitions, or a fault, that is silently ignored would be a swarm that tests nothing."""
    assert main([*RUN, "--kind", "sheep"]) == UNUSABLE
    assert "views or nodes" in capsys.readouterr().err
    assert main([*RUN, "--partitions", "majority"]) == UNUSABLE
    assert "add --kind nodes" in capsys.readouterr().err
    assert main([*RUN, "--kind", "views", "--faults", "partition"]) == UNUSABLE
    assert "add --kind nodes" in capsys.readouterr().err


def test_an_interrupted_swarm_goes_on(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Hours of a campaign would be run again, or counted twice."""
    file = str(tmp_path / "campaign.jsonl")
    assert main([*RUN, "--seeds", "0:2", "--faults", "loss,crash", "--resume", file]) == OK
    capsys.readouterr()
    assert main([*RUN, "--seeds", "0:4", "--faults", "loss,crash", "--resume", file]) == OK
    resumed = json.loads(capsys.readouterr().out)
    assert main([*RUN, "--seeds", "0:4", "--faults", "loss,crash"]) == OK
    fresh = json.loads(capsys.readouterr().out)
    assert (resumed.pop("resumed"), fresh.pop("resumed")) == (2, 0)
    assert resumed == fresh


def test_two_processes_find_what_one_finds(capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict of a campaign would depend on the machine that ran it."""
    told = []
    for jobs in ("1", "2"):
        assert main(["sim", "swarm", "--seeds", "0:8", "--faults", "loss,crash", "--json", "--jobs", jobs]) == OK
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


@pytest.mark.usefixtures("tables")
def test_an_order_of_ones_own_runs_in_every_process(capsys: pytest.CaptureFixture[str]) -> None:
    """Who writes an ordering could try it on one processor only, or not at all from the command line."""
    told = []
    for jobs in ("1", "2"):
        command = ["sim", "swarm", "--load", str(EXAMPLE), "--order", "lamport", "--seeds", "0:6", "--faults", "loss,crash"]
        command += ["--jobs", jobs, "--json"]
        assert main(command) == OK
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1]
    assert (told[0]["seeds"], told[0]["load"]) == (6, [str(EXAMPLE)])


@pytest.mark.usefixtures("tables")
def test_a_failing_seed_of_ones_own_order_replays_in_a_fresh_shell(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The command that is printed would answer that there is no such order, exactly when it is needed."""
    file = tmp_path / "my orders.py"
    file.write_text(HASTY)
    twice = ["--load", str(file), "--load", str(file)]
    assert main([*RUN, *twice, "--order", "hasty", "--seeds", "0:4", "--faults", "loss,reordering"]) == BROKEN
    told = json.loads(capsys.readouterr().out)
    assert told["load"] == [str(file)]
    replay = shlex.split(told["failures"][0]["replay"])
    assert replay[:5] == ["antiphon", "sim", "swarm", "--load", str(file)]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *replay[1:], "--json"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == BROKEN, done.stderr
    (again,) = json.loads(done.stdout)["failures"]
    assert again["log_hash"] == told["failures"][0]["log_hash"]
