"""How much memory processes have, over time, and whether it grows.

Whether it grows is decided by its trend, not by its last value: the median of the slopes between all pairs of samples of the second half
(the first half is for buffers and histories to fill up to their bounds). Memory grows when this trend, over the time that is judged,
adds more than 3 % of the median, and more than 2 MB. A single jump, or an allocator that gives back late, hardly moves the median of
slopes; a leak of one small object per message moves all of them.
"""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

SHARE, LEAST_MB = 0.03, 2.0
_FEWEST = 4
"""So few samples say nothing."""
_MOST = 240
_SPARKS = "▁▂▃▄▅▆▇█"
_PS_S = 10.0


class Trend(Struct, frozen=True):
    """Of one process. `growth_mb` is what its trend adds within the time that is judged, `allowed_mb` what it may."""

    member: int
    samples_mb: list[float]
    slope_mb_per_hour: float
    growth_mb: float
    allowed_mb: float

    @property
    def grows(self) -> bool:
        return self.growth_mb > self.allowed_mb


def trend(member: int, samples: Sequence[tuple[float, float]]) -> Trend:
    """Judges samples of (seconds, megabytes)."""
    judged = samples[len(samples) // 2 :]
    judged = judged[:: len(judged) // _MOST + 1]
    sizes = [size for _, size in samples]
    if len(judged) < _FEWEST:
        return Trend(member, [round(size, 1) for size in sizes], 0.0, 0.0, LEAST_MB)
    pairs = ((early, late) for place, early in enumerate(judged) for late in judged[place + 1 :])
    slope = statistics.median((late[1] - early[1]) / (late[0] - early[0]) for early, late in pairs)
    allowed_mb = max(LEAST_MB, SHARE * statistics.median(size for _, size in judged))
    growth_mb = slope * (judged[-1][0] - judged[0][0])
    return Trend(member, [round(size, 1) for size in sizes], round(slope * 3600, 2), round(growth_mb, 2), round(allowed_mb, 2))


def resident_mb(pid: int) -> float | None:
    """The memory of a process now; None when it has gone, or the system does not say."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024
    except (OSError, IndexError):
        pass
    try:
        told = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, timeout=_PS_S, check=False).stdout
        return int(told) / 1024
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def sparkline(values: Sequence[float], width: int = 60) -> str:
    """The values as a row of bars, from zero to the largest; many are thinned out to `width`."""
    if not values:
        return ""
    shown = [values[place * len(values) // width] for place in range(width)] if len(values) > width else values
    top = max(*shown, 1e-9)
    return "".join(_SPARKS[min(int(value / top * len(_SPARKS)), len(_SPARKS) - 1)] for value in shown)
