"""The same commands on a standalone cluster of two workers, through spark-submit and through Spark Connect say what they say here.

Everything listens on the loopback interface and is started and killed by the test, with whatever it has started itself.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from antiphon.cli.main import main
from antiphon.spark.audit import audit
from antiphon.spark.ingest import ingest
from antiphon.spark.session import open_session
from antiphon.spark.tables import Tables
from antiphon.trace.files import write_rows
from antiphon.trace.row import Row

SPARK = Path(pyspark.__file__).parent
PROGRAM = "import sys; from antiphon.cli.main import main; sys.exit(main())"
LIMIT_S = 600
SMALL = ("--set", "spark.sql.shuffle.partitions=2", "--set", "spark.executor.memory=1g")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="Spark's programs are started by shell scripts")
slow = pytest.mark.skipif("ANTIPHON_SLOW" not in os.environ, reason="takes minutes: make clusters runs it")


def environment() -> dict[str, str]:
    """Executors use the Python that runs the tests: it has the package."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))},
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(SPARK),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


@contextmanager
def started(command: Sequence[str], log: Path, ready: str) -> Iterator[re.Match[str]]:
    """Runs a program until the block is left; begins when it has said that it is ready."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment(),
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509
        )
    try:
        give_up_at = time.monotonic() + LIMIT_S
        while (found := re.search(ready, log.read_text(errors="replace"))) is None:
            assert process.poll() is None, log.read_text(errors="replace")[-2_000:]
            assert time.monotonic() < give_up_at, log.read_text(errors="replace")[-2_000:]
            time.sleep(0.1)
        yield found
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # its executors are of its group, and go with it
        process.wait(timeout=30)


def _die_with_parent() -> None:
    """Where Linux allows it: a test run that is killed leaves no cluster behind."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@pytest.fixture(scope="module")
def cluster(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A master and two workers with one core each; its address."""
    folder = tmp_path_factory.mktemp("cluster")
    run = str(SPARK / "bin/spark-class")
    place = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with ExitStack() as stack:
        master = (run, "org.apache.spark.deploy.master.Master", *place)
        address = stack.enter_context(started(master, folder / "master.log", r"Starting Spark master at (spark://127\.0\.0\.1:\d+)"))[1]
        for name in ("one", "two"):
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / name))
            worker = (run, "org.apache.spark.deploy.worker.Worker", *place, *size, address)
            stack.enter_context(started(worker, folder / f"{name}.log", "Successfully registered with master"))
        yield address


@pytest.fixture(scope="module")
def server(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect server with two threads; its address."""
    folder = tmp_path_factory.mktemp("server")
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }
    options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    submit = (str(SPARK / "bin/spark-submit"), "--master", "local[2]", *options)
    command = (*submit, "--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal")
    with started(command, folder / "server.log", r"Spark Connect server started at: \S*?:(\d+)") as found:
        yield f"sc://127.0.0.1:{found[1]}"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two members that deliver each other's messages; in one of the two runs ben is told one of them twice. And a file that is none."""
    folder = tmp_path_factory.mktemp("trace")
    for run in ("good", "bad"):
        group = f"g-{run}"
        for name in ("ana", "ben"):
            here = {"group": group, "member": name, "view": 1}
            rows = [
                Row(run, name, 0, "open"),
                Row(run, name, 1, "group", note=json.dumps({"name": group, "order": "fifo", "multicast": "reliable"}), **here),  # type: ignore[arg-type]
                Row(run, name, 2, "view", members=["ana", "ben"], note='{"previous": 0}', **here),  # type: ignore[arg-type]
            ]
            if name == "ana":
                said = {"sender": "ana", "first": 1, "last": 3, "checks": [7, 8, 9], "names": [(2, "ana", 1), (3, "ana", 2)]}
                rows.append(Row(run, name, 3, "send", 10, 10, 10, **said, **here))  # type: ignore[arg-type]
            told = [(1, 3, 0)] if run == "good" or name == "ana" else [(1, 2, 0), (2, 2, 2), (3, 3, 3)]
            rows.append(Row(run, name, len(rows), "receive", 20, 20, 20, sender="ana", first=1, last=3, **here))  # type: ignore[arg-type]
            for first, last, place in told:
                checks = {1: 7, 2: 8, 3: 9}
                told_row = {"sender": "ana", "first": first, "last": last, "position": place, "checks": [checks[last]]}
                rows.append(Row(run, name, len(rows), "deliver", 30, 30, 30, **told_row, **here))  # type: ignore[arg-type]
            rows.append(Row(run, name, len(rows), "close", 40, 40, 40))
            write_rows(rows, folder, run, name)
    (folder / "notes.txt").write_text("not a trace")
    return folder


def called(*arguments: str) -> tuple[int, dict[str, object]]:
    command = [sys.executable, "-c", PROGRAM, "pipeline", *arguments, "--json"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode in (0, 1), done.stderr[-3_000:]
    return done.returncode, json.loads(done.stdout)


def submitted(master: str, *arguments: str) -> tuple[int, dict[str, object]]:
    program = subprocess.run([sys.executable, "-c", PROGRAM, "pipeline", "program"], capture_output=True, text=True, timeout=60, check=True)
    options = ("--conf", "spark.executor.memory=1g", "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1")
    command = [str(SPARK / "bin/spark-submit"), "--master", master, *options, program.stdout.strip(), *arguments, "--json"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode in (0, 1), done.stderr[-3_000:]
    return done.returncode, json.loads(done.stdout[done.stdout.index("{") :])


# -- the other jobs, all in one session for each place that Spark runs at -------------------------------------------------------------


def jobs(commands: Sequence[Sequence[str]]) -> list[Any]:
    """What the commands say, one after the other in the session that is open; the machine's own figures and the places of files apart."""
    told = []
    for command in commands:
        with redirect_stdout(io.StringIO()) as out:
            code = main(["pipeline", *command, "--json"])
        told.append([code, _lasting(json.loads(out.getvalue()))])
    return told


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        passing = ("cpu_s", "took_s", "busy", "cores", "page", "source")
        return {key: _lasting(one) for key, one in value.items() if key not in passing}
    if isinstance(value, list):
        return [_lasting(one) for one in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value  # sums of parts depend on which parts there were


def commands(trace: Path, place: Path) -> list[list[str]]:
    """A sweep; and the report, which asks all the others: audit, delays and threads."""
    grid = ("--orders", "fifo", "--members", "3", "--losses", "0", "--messages", "10", "--seeds", "0:2")
    report = ("report", str(trace), "--out", str(place / "report.html"), "--sweep", str(place / "results"))
    return [["sweep", str(place / "results"), *grid], [*report]]


def jobs_elsewhere(starter: Sequence[str], options: Mapping[str, object], wanted: list[list[str]]) -> list[Any]:
    """The same by this very file as a program, started so, with the session that it opens by these options."""
    command = [*starter, __file__, json.dumps(options), json.dumps(wanted)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    told: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.fixture(scope="module")
def jobs_here(spark: SparkSession, trace: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    told = jobs(commands(trace, tmp_path_factory.mktemp("here")))
    assert [code for code, _ in told] == [0, 1]
    found = told[1][1]["findings"]
    assert {row["measure"] for row in found["by_member"]} == {"end_to_end"}
    assert found["conversations"][0]["deepest"] == 2
    assert found["sweep"][0]["seeds"] == 2
    return told


@slow
def test_a_cluster_measures_what_this_machine_measures(jobs_here: list[Any], cluster: str, trace: Path, tmp_path: Path) -> None:
    """Delays, conversations, sweeps and the page would be others on the cluster, or could not be had there at all."""
    options = {"master": cluster, "settings": {"spark.sql.shuffle.partitions": "2", "spark.executor.memory": "1g"}}
    assert jobs_elsewhere([sys.executable], options, commands(trace, tmp_path)) == jobs_here


@slow
def test_spark_submit_measures_it_too(jobs_here: list[Any], cluster: str, trace: Path, tmp_path: Path) -> None:
    """Where spark-submit has started Java, a job that sets up its own would not work."""
    options = ("--conf", "spark.executor.memory=1g", "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1")
    submit = [str(SPARK / "bin/spark-submit"), "--master", cluster, *options]
    assert jobs_elsewhere(submit, {}, commands(trace, tmp_path)) == jobs_here


@slow
def test_spark_connect_measures_it_too(jobs_here: list[Any], server: str, trace: Path, tmp_path: Path) -> None:
    """A job that reaches into Java, for a checkpoint or for the number of cores, would fail for who works through Spark Connect."""
    assert jobs_elsewhere([sys.executable], {"remote": server}, commands(trace, tmp_path)) == jobs_here


@pytest.fixture(scope="module")
def here(spark: SparkSession, trace: Path) -> dict[str, object]:
    """What this machine says of the trace."""
    verdicts = audit(Tables.of_traces(spark, str(trace)))
    assert not verdicts.clean
    told: dict[str, object] = json.loads(json.dumps({**verdicts.to_json(), "aside": {"foreign": 1}}))
    return told


def test_a_cluster_says_what_this_machine_says(here: dict[str, object], cluster: str, trace: Path) -> None:
    """What is proved on a laptop would be something else on the cluster, where nobody looks."""
    assert called("audit", str(trace), "--master", cluster, *SMALL) == (1, here)


@slow
def test_spark_submit_says_it_too(spark: SparkSession, cluster: str, trace: Path, tmp_path: Path) -> None:
    """Clusters are used through spark-submit: the tables made there would not be those that are made here."""
    code, told = submitted(cluster, "ingest", str(trace), str(tmp_path / "there"))
    mine = ingest(spark, str(trace), str(tmp_path / "here"))
    assert code == 0
    assert (told["rows"], told["writers"], told["runs"], told["aside"]) == (mine.rows, mine.writers, mine.runs, {"foreign": 1})
    for table in ("events", "writers", "aside"):
        theirs, ours = (getattr(Tables.of_lake(spark, str(tmp_path / place)), table) for place in ("there", "here"))
        assert sorted(map(str, theirs.collect())) == sorted(map(str, ours.collect()))


@slow
def test_spark_connect_says_it_too(spark: SparkSession, here: dict[str, object], server: str, trace: Path, tmp_path: Path) -> None:
    """A job that uses what only a driver in the same process has would fail for everybody who works through Spark Connect."""
    assert called("audit", str(trace), "--remote", server) == (1, here)
    code, told = called("ingest", str(trace), str(tmp_path / "lake"), "--remote", server)
    assert (code, told["rows"], told["aside"]) == (0, Tables.of_traces(spark, str(trace)).events.count(), {"foreign": 1})


if __name__ == "__main__":
    with open_session(**json.loads(sys.argv[1])):
        print(json.dumps(jobs(json.loads(sys.argv[2]))))
