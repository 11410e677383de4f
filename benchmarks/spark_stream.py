"""Messages through a streaming query that is killed: from one topic into another, each exactly once and in order, it is hoped.

    python benchmarks/spark_stream.py --messages 1000000 --kills 5
    python benchmarks/spark_stream.py --messages 100000 --kills 3 --store nats --json
    python benchmarks/spark_stream.py --messages 100000 --kills 0 --failing        # a third of all tasks fails at the first attempt

The query is a process of its own (Python driver, its Java, their workers); all of it gets SIGKILL as soon as the topic that is written has
grown to a number that `--seed` decides, and is started again from its checkpoint. What each kill found half done is told. In the end the
topic is read without Spark, value by value. Exit code 1 when anything is missing, twice, out of order or changed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from antiphon.errors import UnknownTopic
from antiphon.spark.sink import manifest
from antiphon.spark.sink.publication import INDEX_BITS, publisher_of
from antiphon.spark.source.line import Line
from antiphon.store.records import Entry

SOURCE, SINK = "numbers", "copied"
_CHUNK = 10_000
_POLL_S = 0.03
_SILENCE_S = 600.0
"""A query that writes nothing for so long is given up."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--per-trigger", type=int, default=50_000, help="messages in a micro-batch")
    parser.add_argument("--store", choices=["sqlite", "nats"], default="sqlite")
    parser.add_argument(
        "--failing", action="store_true", help="a third of all tasks fails at its first attempt, with half of its rows written"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="where everything is kept; a temporary one if left out")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    parser.add_argument("--query", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # so that the query is ended too
    if chosen.query:
        return run_query(chosen.query, chosen.directory, chosen.per_trigger, chosen.failing)
    with ExitStack() as stack:
        directory = chosen.directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-stream-")))
        directory.mkdir(parents=True, exist_ok=True)
        url = f"sqlite:{directory}/stream.db"
        if chosen.store == "nats":
            from antiphon.store.jetstream.server import LocalServers

            url = stack.enter_context(LocalServers(1, directory / "server")).url
        report = Campaign(url, directory, chosen).run(stack.enter_context(Line(url)))
    if chosen.json:
        print(json.dumps(report))
    else:
        print(f"{report['messages']:,} messages, {len(report['kills'])} kills, {report['streaming_s']:.0f} s of streaming")
        print("\n".join(f"  killed at {kill['at']:,}: {kill['found']}" for kill in report["kills"]))
        print("\n".join(report["violations"]) or "each exactly once, in order")
    return 1 if report["violations"] else 0


class Campaign:
    def __init__(self, url: str, directory: Path, chosen: argparse.Namespace) -> None:
        self._url, self._directory, self._chosen = url, directory, chosen
        self._query: subprocess.Popen[bytes] | None = None

    def run(self, line: Line) -> dict[str, Any]:
        chosen, begun = self._chosen, time.monotonic()
        fill(line, chosen.messages)
        say(f"{chosen.messages:,} messages are in the topic")
        rng = random.Random(chosen.seed)
        points = sorted(rng.randrange(chosen.messages * 19 // 20) for _ in range(chosen.kills))
        kills: list[dict[str, Any]] = []
        streaming = time.monotonic()
        try:
            for point in points:
                self._start()
                if not self._wait(line, point):
                    break
                time.sleep(rng.random() * 0.3)  # so that not every kill comes just after a write
                self._kill()
                kills.append({"at": length(line, SINK), "found": self._half_done(line)})
                say(f"killed at {kills[-1]['at']:,}: {kills[-1]['found']}")
            if self._query is None:
                self._start()
            self._wait(line, chosen.messages + 1)
        finally:
            if self._query is not None:
                self._kill()
        ended = time.monotonic()
        violations = judged(line, chosen.messages)
        if len(kills) < chosen.kills:
            violations.append(f"the query ended before {chosen.kills} kills: raise --messages, or lower --per-trigger")
        left = [path.name for path in self._staging.rglob("*.arrow")] if self._staging.is_dir() else []
        violations += [f"{len(left)} staged files are left"] if left else []
        return {
            "messages": chosen.messages,
            "store": chosen.store,
            "failing": chosen.failing,
            "failed_tasks": len(list((self._directory / "failed").glob("*"))),
            "kills": kills,
            "violations": violations,
            "seconds": ended - begun,
            "streaming_s": ended - streaming,
            "messages_per_s": chosen.messages / (ended - streaming),
        }

    @property
    def _staging(self) -> Path:
        return self._directory / "staging"

    def _start(self) -> None:
        command = [sys.executable, __file__, "--query", self._url, "--directory", str(self._directory)]
        command += ["--per-trigger", str(self._chosen.per_trigger), *(["--failing"] if self._chosen.failing else [])]
        log = open(self._directory / "query.log", "ab")  # noqa: SIM115 — the process keeps it
        self._query = subprocess.Popen(
            command, stdout=log, stderr=log, start_new_session=True, env={**os.environ, "PYSPARK_PYTHON": sys.executable}
        )
        log.close()

    def _wait(self, line: Line, point: int) -> bool:
        """Until the topic has so many values: True; or the query has come to its end: False."""
        assert self._query is not None
        before, until = -1, time.monotonic() + _SILENCE_S
        while (now := length(line, SINK)) < point:
            if now > before:
                before, until = now, time.monotonic() + _SILENCE_S
            code = self._query.poll()
            if code == 0:
                self._query = None
                return False
            if code is not None or time.monotonic() > until:
                tail = (self._directory / "query.log").read_text(errors="replace")[-3_000:]
                raise SystemExit(f"the query {'ended by itself' if code is not None else 'does not go on'}:\n{tail}")
            time.sleep(_POLL_S)
        return True

    def _kill(self) -> None:
        """Everything that the query has started: Java's Python workers are a process group of their own, but of the same session."""
        assert self._query is not None
        for process in session_of(self._query.pid):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._query.wait(30)
        self._query = None

    def _half_done(self, line: Line) -> str:
        """Where the query was in its batch."""
        checkpoint = self._directory / "checkpoint"
        planned, done = newest(checkpoint / "offsets"), newest(checkpoint / "commits")
        if planned == done:
            return f"between batches, after {done}"
        query = json.loads((checkpoint / "metadata").read_text())["id"]
        decided = manifest.known(line, query)
        if decided is None or decided.batch != planned:
            return f"batch {planned} planned, not decided"
        # Whoever registers learns how far the publisher is.
        number = line.ask(lambda: line.backend.register(SINK, publisher_of(query))).number
        written = number - (planned << INDEX_BITS) if number >> INDEX_BITS == planned else 0
        if not written:
            return f"batch {planned} decided, nothing of it published"
        if written < decided.rows:
            return f"batch {planned} half published: {written:,} of {decided.rows:,}"
        return f"batch {planned} published, which Spark did not know"


# -- the topics ------------------------------------------------------------------------------------------------------------------------


def value(number: int) -> bytes:
    return b"%d/%d" % (number, number * 2_654_435_761 % 4_294_967_291)


def fill(line: Line, messages: int) -> None:
    grant = line.ask(lambda: line.backend.register(SOURCE, "counter"))
    step = min(_CHUNK, line.backend.batch_values)
    for low in range(grant.number + 1, messages + 1, step):
        entries = [Entry(value(number)) for number in range(low, min(low + step, messages + 1))]
        line.ask(lambda low=low, entries=entries: line.backend.publish(grant, low, entries))  # type: ignore[misc]


def length(line: Line, topic: str) -> int:
    try:
        return line.ask(lambda: line.backend.info(topic)).last
    except UnknownTopic:
        return 0


def judged(line: Line, messages: int) -> list[str]:
    """Everything that is wrong with the copy; the first of each kind."""
    found = [f"there are {length(line, SINK):,} values instead of {messages:,}"] if length(line, SINK) != messages else []
    for seq, data in values(line):
        if data != value(seq):
            return [*found, f"value {seq} is {data[:40]!r} instead of {value(seq)!r}"]
    return found


def values(line: Line) -> Iterator[tuple[int, bytes]]:
    reader = line.ask(lambda: line.backend.reader(SINK, 0))
    while (chunk := line.ask(lambda: reader.take(_CHUNK, 0.0))).values:
        yield from ((found.seq, found.data) for found in chunk.values)
    line.run(reader.close())


# -- the query -------------------------------------------------------------------------------------------------------------------------


def run_query(url: str, directory: Path, per_trigger: int, failing: bool) -> int:
    from antiphon.spark.datasource import AntiphonSource
    from antiphon.spark.session import open_session

    with open_session(master="local[2,4]", name="antiphon stream") as spark:
        spark.dataSource.register(AntiphonSource)
        read = {"store": url, "topic": SOURCE, "maxValuesPerTrigger": str(per_trigger), "partitions": "4", "subscriber": "spark"}
        read["batchSize"] = str(min(4_096, max(1, per_trigger // 4)))
        rows = spark.readStream.format("antiphon").options(**read).load().select("data")
        if failing:
            rows = rows.mapInArrow(failing_at_first(directory / "failed"), "data binary")
        write = {"store": url, "topic": SINK, "staging": str(directory / "staging"), "checkpointLocation": str(directory / "checkpoint")}
        query = rows.writeStream.format("antiphon").options(**write).trigger(availableNow=True).start()
        query.awaitTermination()
    return 0


def failing_at_first(marks: Path) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Every third task breaks after its first rows have been written, leaves a mark, and is run again."""

    def rows_of(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        breaks = context.attemptNumber() == 0 and (batch + context.partitionId()) % 3 == 0
        for rows in batches:
            yield rows
            if breaks:
                marks.mkdir(exist_ok=True)
                (marks / f"{batch}-{context.partitionId()}-{os.getpid()}").touch()
                raise RuntimeError("this task breaks at its first attempt, as it was asked to")

    return rows_of


# -- processes and files ---------------------------------------------------------------------------------------------------------------


def session_of(leader: int) -> list[int]:
    """The processes of a session, its leader last so that nobody is started meanwhile that is not seen."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and int(entry.name) != leader:
            found.append(int(entry.name))
    return [leader, *found]


def newest(log: Path) -> int:
    return max((int(entry.name) for entry in log.glob("[0-9]*") if entry.name.isdecimal()), default=-1)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
