"""The trace of a world: a recorder for each process that ever ran in it, with rows of the same kinds and columns as a real node writes.

    world = NodeWorld(seed=7, trace=True)
    …
    rows = world.rows()                 # `antiphon.trace.row.Row`, in memory
    world.write_trace("traces")         # traces/RUN/world-0.parquet

`at` is the world's time, the same for all; `wall` and the hybrid clock follow the process's own clock, which may go wrong. Every message
has its checksum. Where the simulator crashes a process it says so in a row, with what was stable then before it.

Keeps every row. Recording changes nothing that happens.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from antiphon.trace.recorder import Recorder
from antiphon.trace.row import Row

_UNLIMITED = 1 << 62


class Tracing:
    def __init__(self, run: str, now: Callable[[], float]) -> None:
        """`run` names the world in its trace; `now` is its time."""
        self.run = run
        self._now = now
        self._recorders: list[Recorder] = []

    def recorder(self, name: str, local: Callable[[], float]) -> Recorder:
        """A recorder for a process that starts, whose clock is `local`."""

        def clock() -> tuple[int, int]:
            return round(self._now() * 1e9), round(local() * 1e9)

        about = {"host": "simulator", "process": len(self._recorders), "clock": "virtual"}
        recorder = Recorder(self.run, name, clock, checks="each", limit=_UNLIMITED, about=about)
        self._recorders.append(recorder)
        return recorder

    def rows(self) -> list[Row]:
        """Everything so far, writer after writer. Those that still run are closed here: ask at the end."""
        for recorder in self._recorders:
            recorder.close()
        return [row for recorder in self._recorders for row in recorder.whole()]

    def write(self, directory: Path | str) -> Path:
        """Writes everything so far as one file, under the run's name; says which."""
        from antiphon.trace.files import write_rows

        return write_rows(self.rows(), Path(directory), self.run, "world")
