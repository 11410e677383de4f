"""One Spark session per command, wherever Spark runs.

`open_session` decides in this order: `remote` (Spark Connect: no Java here), `master` (a cluster, or `local[4]`), what `spark-submit` or
the environment (`SPARK_REMOTE`) has decided already, else this machine with all its cores and settings made for it. Whoever opens a
session closes it: `with open_session() as spark`.

What is kept: on this machine a Java process with at most `DRIVER_MEMORY`; nothing listens beyond the loopback interface. What it costs:
three to five seconds to start, paid once per command. What executors need: the package, importable by their Python. Where they run on this
machine that is the Python that runs this; on other machines install Antiphon and name the Python in `PYSPARK_PYTHON`.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from antiphon.errors import UsageError, WorldError
from antiphon.spark.java import require_java

DRIVER_MEMORY = "2g"
SHUFFLE_PARTITIONS = 8
"""Every one costs each stage a few milliseconds, however little there is to do; adaptive execution makes fewer of them, never more. For
traces beyond a hundred million rows take more: `--set spark.sql.shuffle.partitions=64`."""

_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_CONNECT_PORT = 15_002
_KNOCK_S = 10.0
_TAIL = 2_000
"""So many characters of what a Java process said before it died are passed on."""

_EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
    # A directory of traces has many small files: listing them here is quicker than a job that lists them.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "4096",
}
_DRIVER = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{_LOG_SETTINGS}",
}
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@contextmanager
def open_session(
    *, master: str | None = None, remote: str | None = None, name: str = "antiphon", settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """The session; stopped when the block is left. `settings` go over everything that is chosen here. Inside another such block, or in a
    program that has a session already, that one is given as it is and left open.

    Raises UsageError when there is no Java or the address cannot be right, WorldError when Spark does not start or does not answer.
    """
    if master and remote:
        raise UsageError("--master is a cluster and --remote a Spark Connect server: give one of them")
    if remote and not remote.startswith("sc://"):
        raise UsageError(f"{remote!r} is no address of a Spark Connect server: it looks like sc://HOST:15002")
    if (running := SparkSession.getActiveSession()) is not None:
        yield running
        return
    chosen = {**configuration(master, remote), **(settings or {})}
    if "spark.master" in chosen:
        chosen.setdefault("spark.app.name", name)
    spark = _start(chosen, remote)
    try:
        yield spark
    finally:
        spark.stop()


def configuration(master: str | None = None, remote: str | None = None) -> dict[str, str]:
    """Every setting that `open_session` chooses for this master, remote server or, with neither, for what it finds."""
    if remote or (not master and "SPARK_REMOTE" in os.environ):
        return {**_EVERYWHERE, **({"spark.remote": remote} if remote else {})}
    if not master and "PYSPARK_GATEWAY_PORT" in os.environ:
        return dict(_EVERYWHERE)  # spark-submit has started Java and said where to run: what it was told stays
    chosen = {**_EVERYWHERE, **_DRIVER, "spark.master": master or os.environ.get("MASTER") or "local[*]"}
    if _on_this_machine(chosen["spark.master"]):
        chosen |= {**_LOOPBACK, "spark.driver.memory": DRIVER_MEMORY}
    return chosen


def _on_this_machine(master: str) -> bool:
    return master.startswith("local") or urlsplit(master).hostname in ("127.0.0.1", "::1", "localhost")


def _start(chosen: Mapping[str, str], remote: str | None) -> SparkSession:
    builder = SparkSession.builder
    for key, value in chosen.items():
        builder = builder.config(key, value)
    where = remote or os.environ.get("SPARK_REMOTE", "")
    if where:
        try:
            _knock(where)
            spark = builder.getOrCreate()
            spark.range(1).count()  # the connection is made at the first question
        except Exception as error:
            why = f"does not answer as a Spark Connect server ({_first_line(error)})"
            raise WorldError(f"{where} {why}: is it running, and can it be reached from here?") from error
        return spark
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        require_java()
    if _on_this_machine(chosen.get("spark.master", "")):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the setting of that name is heard by spark-submit alone
    with _what_java_says() as said:
        try:
            spark = builder.getOrCreate()
        except Exception as error:
            said.seek(0)
            words = said.read()[-_TAIL:].decode(errors="replace").strip()
            raise WorldError(
                f"Spark did not start ({_first_line(error)}). It needs Java 17 or newer; this is what Java said: {words or 'nothing'}"
            ) from error
    return spark


def _knock(where: str) -> None:
    """Spark would try for ten minutes to reach a server that is not there."""
    address = urlsplit(where)
    socket.create_connection((address.hostname or "127.0.0.1", address.port or _CONNECT_PORT), timeout=_KNOCK_S).close()


@contextmanager
def _what_java_says() -> Iterator[tempfile._TemporaryFileWrapper[bytes]]:
    """While Java starts, stderr goes to a file: Java keeps that as its own, so its remarks do not spoil ours, and are there if it dies."""
    with tempfile.NamedTemporaryFile(prefix="antiphon-spark-") as said:
        sys.stderr.flush()
        ours = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            yield said
        finally:
            sys.stderr.flush()
            os.dup2(ours, 2)
            os.close(ours)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:300] or type(error).__name__
