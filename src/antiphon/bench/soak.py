"""A group that works for a long time, or rests: does its memory stay, and what does it cost to be there?"""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct

from antiphon.bench.contest import Result, measure
from antiphon.bench.memory import Trend, resident_mb, trend
from antiphon.bench.processes import BenchFailed
from antiphon.bench.systems import ANTIPHON
from antiphon.bench.work import Work
from antiphon.model.options import Settings

EVERY_S = 10.0
IDLE_SHARE = 0.01
"""What a node of an idle group may use of a core."""
_FEWEST_SAMPLES = 24
_SETTLE_S = 5.0


class Soak(Struct, frozen=True):
    result: Result
    every_s: float
    trends: list[Trend]

    @property
    def filled(self) -> bool:
        """Whether the first half was enough to fill the members' history; otherwise its filling is part of what is judged."""
        return self.result.sent >= 2 * Settings().history_messages

    @property
    def ok(self) -> bool:
        return self.result.order_equal and not any(member.grows for member in self.trends)


def soak(work: Work, progress: Callable[[float, list[float]], None]) -> Soak:
    """Runs the paced work and samples the memory of every member; `progress` is told the seconds so far and the latest samples."""
    every_s = min(EVERY_S, max(work.seconds / _FEWEST_SAMPLES, 0.25))
    samples: dict[int, list[tuple[float, float]]] = {member: [] for member in range(work.members)}
    began = time.monotonic()

    def look(pids: list[int]) -> None:
        now = time.monotonic() - began
        for member, pid in enumerate(pids):
            size = resident_mb(pid)
            if size is not None:
                samples[member].append((now, size))
        progress(now, [series[-1][1] for series in samples.values() if series])

    result = measure(work, look, every_s)
    if not all(samples.values()):
        raise BenchFailed("this system does not say how much memory a process has: /proc and ps are both missing")
    return Soak(result, every_s, [trend(member, series) for member, series in samples.items()])


def idle(members: int, seconds: float, transport: str, order: str) -> Result:
    """A group in which nobody says anything, after it has settled."""
    return measure(
        Work(system=ANTIPHON, kind="idle", members=members, seconds=seconds, warmup_s=_SETTLE_S, transport=transport, order=order)
    )
