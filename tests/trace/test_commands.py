"""`antiphon trace show`, and the flags that record."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from antiphon.cli.app import app
from antiphon.runtime import configuration_file
from antiphon.trace.reader import read

SCENARIO = """group total members A B C seed 3
A sends q1
settle
crash B
group semantic members A B seed 4
A sends q1
B sends q2
settle
"""


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    file = tmp_path / "story.txt"
    file.write_text(SCENARIO)
    done = CliRunner().invoke(app, ["sim", "run", str(file), "--trace", str(tmp_path / "traces")])
    assert done.exit_code == 0, done.output
    return tmp_path / "traces"


def test_a_scenario_is_recorded_one_run_per_world(traces: Path) -> None:
    """Two worlds of one file would be told as one, in which everybody lives twice."""
    contents = read(traces)
    assert [(one.run, one.writer[0], one.ended, one.missing) for one in contents.writers()] == [
        ("story-1", "A", "close", 0),
        ("story-1", "B", "crash", 0),
        ("story-1", "C", "close", 0),
        ("story-2", "A", "close", 0),
        ("story-2", "B", "close", 0),
    ]


def test_show_tells_what_is_there(traces: Path) -> None:
    """Nobody could see whether a recording went well before the pipeline is started."""
    done = CliRunner().invoke(app, ["trace", "show", str(traces), "--json", "--rows", "2", "--writer", "C"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert [file["reason"] for file in told["files"]] == ["", ""]
    assert {writer["deliveries"] for writer in told["writers"]} == {1, 2}
    assert [row["kind"] for row in told["rows"]] == ["open", "group"]
    plain = CliRunner().invoke(app, ["trace", "show", str(traces), "--rows", "1"])
    assert "2 files" in plain.output
    assert "'kind': 'open'" in plain.output


def test_show_leaves_with_1_when_something_is_amiss(traces: Path) -> None:
    """A script would go on with half a trace."""
    (traces / "story-1" / "half.parquet.tmp").write_bytes(b"x")
    assert CliRunner().invoke(app, ["trace", "show", str(traces)]).exit_code == 0, "being written is nothing bad"
    (traces / "story-1" / "bad.parquet").write_bytes(b"x")
    done = CliRunner().invoke(app, ["trace", "show", str(traces)])
    assert done.exit_code == 1
    assert "bad.parquet: damaged" in done.output
    assert CliRunner().invoke(app, ["trace", "show", str(traces / "nowhere")]).exit_code == 2


def test_a_swarm_is_recorded_one_file_per_seed(tmp_path: Path) -> None:
    """The runs of a campaign could not be audited, or only those of one process."""
    flags = ["sim", "swarm", "--seeds", "0:4", "--faults", "loss,crash", "--jobs", "2", "--messages", "20"]
    flags += ["--json", "--trace", str(tmp_path)]
    done = CliRunner().invoke(app, flags)
    assert done.exit_code == 0, done.output
    contents = read(tmp_path)
    assert len(contents.files) == len({one.run for one in contents.writers()}) == 4
    assert sum(one.deliveries for one in contents.writers()) == json.loads(done.output)["deliveries"]


def test_a_node_can_be_told_to_record(tmp_path: Path) -> None:
    """Who runs nodes from files could not have traces of them."""
    file = tmp_path / "node.toml"
    file.write_text('name = "ana"\ntransport = "tcp"\ntrace = "traces"\n')
    configuration = configuration_file.read(file)
    assert configuration.trace == str(tmp_path / "traces"), "beside the file, wherever the node is started"

    async def live() -> None:
        async with configuration.node() as node:
            await node.create("g")

    asyncio.run(live())
    assert [one.ended for one in read(tmp_path / "traces").writers()] == ["close"]
