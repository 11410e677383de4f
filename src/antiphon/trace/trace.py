"""What is to be recorded, and where: what a node is given as `trace`."""

from __future__ import annotations

import os
import time
from pathlib import Path

from msgspec import Struct

from antiphon.errors import InvalidOption
from antiphon.trace.recorder import ROWS_LIMIT, Recorder

RUN = "run"
"""The name of a run that was given none."""


class Trace(Struct, frozen=True, kw_only=True):
    """Where the trace goes, and how. All nodes that are to be looked at together have one `directory` and one `run`; another run gets
    another name. A file is complete at most `rotate_s` seconds after its first row, or when it has `rotate_rows` rows or `rotate_bytes`
    bytes; `waiting_rows` may wait for the disk, those beyond are missed, visibly. `checks` is `some`, or `each` for a checksum of
    every message, at 0.2 µs each."""

    directory: str
    run: str = RUN
    checks: str = "some"
    rotate_s: float = 5.0
    rotate_rows: int = 1_000_000
    rotate_bytes: int = 64 << 20
    waiting_rows: int = ROWS_LIMIT

    def __post_init__(self) -> None:
        if not self.directory:
            raise InvalidOption("directory", self.directory, "say in which directory the trace shall be")
        if not self.run or not self.run.isprintable():
            raise InvalidOption("run", self.run, "give the run a name that can be printed")
        if not 0 < self.rotate_s < float("inf"):
            raise InvalidOption("rotate_s", self.rotate_s, "give a number of seconds above 0")
        for option in ("rotate_rows", "rotate_bytes", "waiting_rows"):
            if getattr(self, option) < 1:
                raise InvalidOption(option, getattr(self, option), "give a number above 0")

    @classmethod
    def of(cls, trace: Trace | str | os.PathLike[str]) -> Trace:
        """A trace from what a user gives: itself, or a directory alone."""
        return trace if isinstance(trace, Trace) else cls(directory=os.fspath(trace))

    @property
    def path(self) -> Path:
        return Path(self.directory)

    def recorder(self, about: dict[str, object]) -> Recorder:
        """A recorder by the clocks of this machine."""
        return Recorder(self.run, "", _clocks, checks=self.checks, limit=self.waiting_rows, about=about)


def _clocks() -> tuple[int, int]:
    return time.monotonic_ns(), time.time_ns()
