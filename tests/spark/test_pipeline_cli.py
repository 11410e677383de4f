"""`antiphon pipeline ingest` and `audit`: what is printed, and what the command leaves with. All in the session of the tests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from antiphon.cli.main import main
from antiphon.spark.generate import Cast, write
from antiphon.trace.files import write_rows
from antiphon.trace.row import Row

pytestmark = pytest.mark.usefixtures("spark")


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["pipeline", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_faultless_trace_leaves_with_0(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A build that asks the audit would be stopped although nothing is wrong, or not know how much was looked at."""
    casts = [Cast(name=order, order=order, members=3, batch=4, rounds=5, count=2) for order in ("fifo", "causal", "total", "semantic")]
    rows = write(spark, casts, str(tmp_path / "trace"))
    code, out, err = told(capsys, "audit", str(tmp_path / "trace"), "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["events"] == sum(cast.deliveries for cast in casts)
    assert (found["rows"], found["clean"], found["aside"]) == (rows, True, {})
    assert len(found["groups"]) == 8
    assert found["promises"]["no_duplication"]["checked"] == found["events"]
    assert all(promise["violations"] == 0 and promise["witnesses"] == [] for promise in found["promises"].values())


def test_a_broken_promise_leaves_with_1_and_is_shown(
    write_trace: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A build would go on over a broken promise, or be stopped without anybody seeing by what. And a lake must say what its traces say."""
    here = {"group": "g", "member": "ana", "view": 1}
    about = json.dumps({"name": "g", "order": "fifo", "multicast": "reliable"})
    rows = [
        Row("r", "ana", 0, "open"),
        Row("r", "ana", 1, "group", note=about, **here),  # type: ignore[arg-type]
        Row("r", "ana", 2, "view", members=["ana"], note='{"previous": 0}', **here),  # type: ignore[arg-type]
        Row("r", "ana", 3, "send", sender="ana", first=1, last=2, checks=[5, 6], **here),  # type: ignore[arg-type]
        Row("r", "ana", 4, "receive", sender="ana", first=1, last=2, **here),  # type: ignore[arg-type]
        Row("r", "ana", 5, "deliver", sender="ana", first=1, last=2, checks=[6], **here),  # type: ignore[arg-type]
        Row("r", "ana", 6, "deliver", sender="ana", first=2, last=2, position=2, checks=[6], **here),  # type: ignore[arg-type]
        Row("r", "ana", 7, "close"),
    ]
    write_trace("r/ana-000000.parquet", rows)
    (tmp_path / "trace/r/ana-000001.parquet.tmp").write_bytes(b"PAR1")
    trace, lake = str(tmp_path / "trace"), str(tmp_path / "lake")
    code, out, _ = told(capsys, "audit", trace)
    assert code == 1
    assert "promises were BROKEN" in out
    assert "set aside: 1 × half-written" in out
    assert "no_duplication" in out

    code, out, _ = told(capsys, "ingest", trace, lake)
    assert code == 0
    assert "8 rows from 2 new files" in out
    code, out, _ = told(capsys, "ingest", trace, lake, "--json")
    assert (code, json.loads(out)["rows"]) == (0, 0)
    code, out, _ = told(capsys, "audit", lake, "--json")
    found = json.loads(out)
    assert (code, found["promises"]["no_duplication"]["violations"], found["aside"]) == (1, 1, {"half-written": 1})
    witness = found["promises"]["no_duplication"]["witnesses"][0]["witness"]
    assert {row["index"] for row in witness} == {5, 6}


def test_what_cannot_be_audited_leaves_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped directory would pass as a trace in which nothing went wrong."""
    code, out, err = told(capsys, "audit", str(tmp_path / "nowhere"))
    assert (code, out) == (2, "")
    assert "is the path right" in err
    (tmp_path / "trace").mkdir()
    code, _, err = told(capsys, "audit", str(tmp_path / "trace"))
    assert (code, "there are no files" in err) == (2, True)
    (tmp_path / "trace/a.parquet").write_bytes(b"PAR1 was here")
    code, _, err = told(capsys, "audit", str(tmp_path / "trace"))
    assert code == 2
    assert "has no trace that could be audited (1 × truncated)" in err
    write_rows([Row("r", "ana", 0, "open"), Row("r", "ana", 1, "close")], tmp_path / "idle", "r", "ana")
    code, out, err = told(capsys, "audit", str(tmp_path / "idle"), "--json")
    assert (code, out, "2 rows of nodes that were in no group" in err) == (2, "", True)
    code, _, err = told(capsys, "audit", str(tmp_path / "trace"), "--set", "driver.memory=8g")
    assert (code, "spark.driver.memory=8g" in err) == (2, True)


def test_the_command_line_loads_without_spark() -> None:
    """Somebody who only wants to chat would have to install Spark."""
    program = "import sys; sys.modules['pyspark'] = None; from antiphon.cli.main import main; sys.exit(main(sys.argv[1:]))"

    def called(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60, check=False)

    helped = called("pipeline", "--help")
    assert helped.returncode == 0, helped.stderr
    assert "audit" in helped.stdout
    asked = called("pipeline", "audit", ".")
    assert asked.returncode == 2
    assert "pip install 'antiphon[spark]'" in asked.stderr
