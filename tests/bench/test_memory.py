"""Whether memory grows: a leak must be seen, noise must not."""

from __future__ import annotations

import os
import random

from antiphon.bench.memory import resident_mb, sparkline, trend


def samples(*, leak_mb_per_hour: float = 0.0, noise_mb: float = 0.5, jump_at: int | None = None) -> list[tuple[float, float]]:
    """Twenty minutes of a process that fills its buffers for five, every ten seconds."""
    rng = random.Random(3)
    series = []
    for place in range(120):
        filled = min(place / 30, 1.0) * 40
        jump = 8.0 if jump_at is not None and place >= jump_at else 0.0
        series.append((10.0 * place, 30 + filled + jump + leak_mb_per_hour * place / 360 + rng.uniform(-noise_mb, noise_mb)))
    return series


def test_memory_that_stays_is_not_said_to_grow() -> None:
    """A build would fail because an allocator breathes, or because buffers were filled at the start."""
    assert not trend(0, samples()).grows
    assert not trend(0, samples(noise_mb=4.0)).grows
    assert not trend(0, samples(jump_at=70)).grows


def test_a_leak_is_seen_also_under_noise() -> None:
    """A node would take a gigabyte within days, and the soak would have said that all is well."""
    found = trend(0, samples(leak_mb_per_hour=30.0, noise_mb=1.0))
    assert found.grows
    assert 25 < found.slope_mb_per_hour < 35


def test_too_few_samples_say_nothing() -> None:
    """A run of a second would be judged by chance."""
    assert not trend(0, [(0.0, 10.0), (1.0, 90.0), (2.0, 200.0)]).grows


def test_the_memory_of_a_process_is_read() -> None:
    """The soak would watch nothing and be content."""
    size = resident_mb(os.getpid())
    assert size is not None
    assert 5 < size < 100_000


def test_a_sparkline_is_as_wide_as_it_may_be_and_shows_the_largest() -> None:
    """A long soak would print a line that no terminal can show."""
    line = sparkline([float(value) for value in range(1_000)], width=40)
    assert len(line) == 40
    assert line[-1] == "█"
    assert sparkline([]) == ""
    assert sparkline([0.0, 0.0]) == "▁▁"
