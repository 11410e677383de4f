"""What recording costs: the same flood with and without a trace, in turns, and the trace looked at afterwards.

Runs take turns and every other pair begins with the other one, so that a slow moment of the machine meets both alike. The cost is that of
the middle pair, by rate, and by CPU seconds per delivery, which hardly depends on who else uses the machine. Of every trace it is verified
that it holds each delivery of each member, and that no row was missed.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from antiphon.bench.comparison import cpu_ratio, ratio
from antiphon.bench.contest import Result, measure
from antiphon.bench.work import Work
from antiphon.trace.reader import read


class RecordingPair(Struct, frozen=True):
    """One run without and one with a trace."""

    off: Result
    on: Result
    rows: int
    """Of the trace, with those of all members."""
    missing: int
    """Rows that are not there, and rows of files that cannot be read."""
    bytes: int
    recorded: int
    """Deliveries that the trace holds."""

    @property
    def rate(self) -> float:
        return ratio(self.on, self.off)

    @property
    def cpu(self) -> float:
        return cpu_ratio(self.on, self.off) or 1.0


class RecordingCost(Struct, frozen=True):
    """What came of the pairs: `rate` and `cpu` are what is left of the deliveries per second, and per CPU second."""

    rate: float
    cpu: float
    pairs: list[RecordingPair]

    @property
    def kept(self) -> bool:
        """Whether every run kept its order and every trace is whole."""
        return all(pair.off.order_equal and pair.on.order_equal and not pair.missing for pair in self.pairs)

    def as_dict(self) -> dict[str, object]:
        ratios = [{"rate": pair.rate, "cpu": pair.cpu} for pair in self.pairs]
        return {"kept": self.kept, **msgspec.to_builtins(self), "ratios": ratios}


def cost(work: Work, pairs: int, directory: Path | None, progress: Callable[[str], None]) -> RecordingCost:
    """Measures so many pairs. The traces stay in `directory` if one is given."""
    measured = []
    with _place(directory) as place:
        for number in range(1, pairs + 1):
            trace = place / f"pair-{number}"
            works = [work, structs.replace(work, trace=str(trace))]
            results: dict[str, Result] = {}
            for each in works if number % 2 else reversed(works):
                progress(f"pair {number}, {'with' if each.trace else 'without'} a trace")
                results[each.trace] = measure(each)
            measured.append(_pair(results[""], results[str(trace)], trace))
            if directory is None:
                shutil.rmtree(trace)
    return RecordingCost(
        round(statistics.median(pair.rate for pair in measured), 3), round(statistics.median(pair.cpu for pair in measured), 3), measured
    )


def _pair(off: Result, on: Result, trace: Path) -> RecordingPair:
    contents = read(trace)
    writers = contents.writers()
    broken = sum(bool(file.reason) for file in contents.files)
    missing = sum(writer.missing + (writer.ended != "close") for writer in writers) + broken
    size = sum(path.stat().st_size for path in trace.rglob("*.parquet"))
    return RecordingPair(off, on, contents.table.num_rows, missing, size, sum(writer.deliveries for writer in writers))


@contextmanager
def _place(directory: Path | None) -> Iterator[Path]:
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="antiphon-trace-") as place:
        yield Path(place)
