"""How the audit scales: generated traces of 1, 10 and 100 million message deliveries, and of ten million rows.

    python benchmarks/pipeline_scale.py                        # all of it: ten minutes on two cores
    python benchmarks/pipeline_scale.py --millions 1 10        # these sizes
    python benchmarks/pipeline_scale.py --millions --rows 10   # only ten million rows: the audit against reading, counting and sorting them
    python benchmarks/pipeline_scale.py --large semantic       # the large group has this order

Every trace has one group with 95 % of the traffic, 10,000 small groups of every order (1,000 at the smallest size), and a reply chain of
100,000 (10,000). Each audit begins with the files. `ns_per_event` is what a delivery costs; memory is the largest that the Java process and
the Python processes (all together) had at any moment. The targets: `ns_per_event` rises by at most 1.5 from 10 to 100 million, and of ten
million rows the audit takes at most six times as long as Spark needs to read, count and sort them by group, member and position.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from antiphon.spark.audit import audit
from antiphon.spark.generate import Cast, write
from antiphon.spark.reading import read_files
from antiphon.spark.session import open_session
from antiphon.spark.tables import Tables

ORDERS = ("fifo", "causal", "total", "semantic")
LARGE_SHARE = 0.95


def cast_of(deliveries: int, order: str, batch: int = 64) -> list[Cast]:
    """Groups that make about so many deliveries, most of them in one."""
    little = deliveries < 5_000_000
    rounds, count = max(1, deliveries // 10_000_000), 250 if little else 2_500
    small = [Cast(name=f"small-{each}", order=each, members=3, batch=4, rounds=rounds, count=count) for each in ORDERS]
    chain = Cast(name="chain", order="semantic", members=2, rounds=10_000 if little else 100_000, chain=True)
    large = Cast(name="large", order=order, members=4, batch=batch, rounds=max(1, int(deliveries * LARGE_SHARE) // (16 * batch)))
    return [large, chain, *small]


def cast_of_rows(rows: int, order: str) -> list[Cast]:
    """The same with about so many rows: batches of four messages."""
    others = cast_of(20_000_000, order)[1:]
    left = rows - sum(each.rows for each in others)
    return [Cast(name="large", order=order, members=4, batch=4, rounds=max(1, left // 36)), *others]


class Memory:
    """The largest resident size of the processes below this one, looked at five times a second."""

    def __init__(self) -> None:
        self.java = self.python = 0
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leave.set()
        self._thread.join(timeout=5)

    def _watch(self) -> None:
        while not self._leave.wait(0.2):
            java = python = 0
            for name, size in _below(_my_pid()):
                java, python = (java + size, python) if name == "java" else (java, python + size)
            self.java, self.python = max(self.java, java), max(self.python, python)


def _my_pid() -> int:
    return int(Path("/proc/self/stat").read_text().split()[0])


def _below(root: int) -> Iterator[tuple[str, int]]:
    """(command, resident bytes) of all descendants, from /proc."""
    children: dict[int, list[tuple[int, str, int]]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
            fields = rest.split()
            children.setdefault(int(fields[1]), []).append((int(folder.name), name, int(fields[21]) * 4_096))
        except (OSError, IndexError, ValueError):
            continue
    waiting = [root]
    while waiting:
        for pid, name, size in children.get(waiting.pop(), ()):
            waiting.append(pid)
            yield name, size


@contextmanager
def _timed(row: dict[str, object], name: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    row[name] = round(time.perf_counter() - began, 2)


def measure(spark: SparkSession, casts: list[Cast], folder: Path, *, compare: bool) -> dict[str, object]:
    """Writes the trace, audits it, and where wanted reads, counts and sorts it before and after (the quicker one counts)."""
    row: dict[str, object] = {"rows": sum(each.rows for each in casts), "deliveries": sum(each.deliveries for each in casts)}
    try:
        with _timed(row, "write_s"):
            assert write(spark, casts, str(folder)) == row["rows"]
        row["megabytes"] = round(sum(path.stat().st_size for path in folder.rglob("*.parquet")) / 1e6, 1)
        plain = _read_count_sort(spark, folder) if compare else 0.0
        with Memory() as memory, _timed(row, "audit_s"):
            verdicts = audit(Tables.of_traces(spark, str(folder)))
        assert verdicts.clean, verdicts.violations[:3]
        assert verdicts.events == row["deliveries"], (verdicts.events, row["deliveries"])
        seconds = float(str(row["audit_s"]))
        row |= {"ns_per_event": round(seconds * 1e9 / verdicts.events), "us_per_row": round(seconds * 1e6 / verdicts.rows, 2)}
        row |= {"java_mb": memory.java // 1_000_000, "python_mb": memory.python // 1_000_000}
        if compare:
            plain = min(plain, _read_count_sort(spark, folder))
            row |= {"read_count_sort_s": round(plain, 2), "ratio": round(seconds / plain, 2)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return row


def _read_count_sort(spark: SparkSession, folder: Path) -> float:
    began = time.perf_counter()
    rows = read_files(spark, [str(folder)])
    rows.count()
    rows.sort("group", "member", "position").write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=float, nargs="*", default=[1, 10, 100], help="deliveries, in millions")
    parser.add_argument("--rows", type=float, default=10, help="rows of the comparison, in millions; 0: none")
    parser.add_argument("--large", default="total", choices=[*ORDERS, "unordered"], help="the order of the large group")
    parser.add_argument("--folder", help="where the traces are written; removed afterwards")
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--memory", default="2g", help="of the Java process")
    arguments = parser.parse_args()
    results: list[dict[str, object]] = []
    session = open_session(master=arguments.master, settings={"spark.driver.memory": arguments.memory})
    with tempfile.TemporaryDirectory(dir=arguments.folder) as top, session as spark:
        measure(spark, cast_of(100_000, arguments.large), Path(top, "warm"), compare=True)  # what Java learns at first belongs to no size
        work = [("deliveries", cast_of(int(size * 1e6), arguments.large), False) for size in arguments.millions]
        work += [("rows", cast_of_rows(int(arguments.rows * 1e6), arguments.large), True)] if arguments.rows else []
        for kind, casts, compare in work:
            results.append({"of": kind, **measure(spark, casts, Path(top, "trace"), compare=compare)})
            print(_line(results[-1]), file=sys.stderr, flush=True)
    print(json.dumps({"memory": arguments.memory, "master": arguments.master, "large": arguments.large, "results": results}, indent=2))
    return 0


def _line(row: dict[str, object]) -> str:
    return "  ".join(f"{key} {value:,}" if isinstance(value, int | float) else f"{key} {value}" for key, value in row.items())


if __name__ == "__main__":
    sys.exit(main())
