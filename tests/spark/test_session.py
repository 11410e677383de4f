"""Where Spark runs, and what is said when it cannot."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from antiphon.errors import UsageError
from antiphon.spark.session import configuration, open_session

PROGRAM = "import sys; from antiphon.cli.main import main; sys.exit(main())"


@pytest.fixture
def no_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "MASTER"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_submit")
def test_without_a_word_it_is_this_machine_and_stays_on_it() -> None:
    """A laptop in a café would offer its Spark to the neighbours, or all of its memory to one command."""
    chosen = configuration()
    assert chosen["spark.master"] == "local[*]"
    assert chosen["spark.driver.bindAddress"] == chosen["spark.driver.host"] == "127.0.0.1"
    assert chosen["spark.driver.memory"] == "2g"
    assert chosen["spark.ui.enabled"] == "false"


@pytest.mark.usefixtures("no_submit")
def test_a_cluster_elsewhere_must_be_able_to_call_back() -> None:
    """A driver that listens on its loopback interface only would wait for the executors of another machine for ever."""
    elsewhere = configuration("spark://cluster.example:7077")
    assert "spark.driver.bindAddress" not in elsewhere
    assert configuration("spark://127.0.0.1:7077")["spark.driver.bindAddress"] == "127.0.0.1"
    remote = configuration(remote="sc://cluster.example:15002")
    assert remote["spark.remote"] == "sc://cluster.example:15002"
    assert not {"spark.master", "spark.driver.memory"} & remote.keys()


def test_what_spark_submit_was_told_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """spark-submit --master … would be overruled, and the job would run on the wrong machine."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert "spark.master" not in configuration()


def test_addresses_that_cannot_be_right_are_refused() -> None:
    """Spark would answer with a page of Java."""
    with pytest.raises(UsageError, match="give one of them"), open_session(master="local[1]", remote="sc://x:1"):
        pass
    with pytest.raises(UsageError, match=r"it looks like sc://HOST:15002"), open_session(remote="http://x:1"):
        pass


def test_a_session_inside_another_is_the_same(spark: SparkSession) -> None:
    """A command that calls another would pay for Spark twice, and stop the session under the first one's feet."""
    with open_session(master="local[1]") as inner:
        assert inner is spark
    assert spark.range(3).count() == 3


def test_without_java_one_sentence_says_what_to_do(tmp_path: Path) -> None:
    """A newcomer would see a stack trace instead of what to install."""
    environment = {**os.environ, "PATH": str(tmp_path)}
    environment.pop("JAVA_HOME", None)
    command = [sys.executable, "-c", PROGRAM, "pipeline", "audit", str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("antiphon: Spark needs Java 17 or newer and found none: install it")
    assert len(done.stderr.splitlines()) == 1


def test_what_java_said_is_passed_on_when_it_dies(tmp_path: Path) -> None:
    """A Java that is too old would fail without anybody being told so."""
    java = tmp_path / "bin/java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'this machine is too old for that' >&2\nexit 3\n")
    java.chmod(0o755)
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM, "pipeline", "audit", str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2, done.stderr
    assert "Spark did not start" in done.stderr
    assert "too old for that" in done.stderr


def test_a_server_that_is_not_there_is_said_at_once() -> None:
    """Spark would try again for ten minutes without a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    command = [sys.executable, "-c", PROGRAM, "pipeline", "audit", "x", "--remote", f"sc://127.0.0.1:{port}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2, done.stderr
    assert f"sc://127.0.0.1:{port} does not answer as a Spark Connect server" in done.stderr
