"""The clock of paced work."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from antiphon.bench.seat import _Clock

_INTERVAL_S = 0.005


@pytest.mark.parametrize("kernel", [True, False], ids=["timer of the kernel", "timer of the loop"])
def test_what_was_missed_while_the_sender_was_busy_is_due_at_once(kernel: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that is late would hold a lower rate, and its delays would look better than they are."""
    if kernel and sys.platform != "linux":
        pytest.skip("only Linux has such a timer")
    monkeypatch.setattr("antiphon.bench.seat.sys.platform", "linux" if kernel else "another")

    async def work() -> tuple[int, float]:
        clock, began = _Clock(asyncio.get_running_loop(), _INTERVAL_S), time.monotonic()
        try:
            ticks = await clock.ticks()
            assert ticks == 1  # at once
            ticks += await clock.ticks()
            time.sleep(10 * _INTERVAL_S)  # the program that sends is busy
            ticks += await clock.ticks()
            ticks += await clock.ticks()
            return ticks, time.monotonic() - began
        finally:
            clock.close()

    ticks, passed_s = asyncio.run(work())
    assert 13 <= ticks <= passed_s / _INTERVAL_S + 2


def test_nobody_waits_for_a_clock_that_was_stopped() -> None:
    """A member with a slow rate would end long after the others."""

    async def work() -> list[int]:
        loop = asyncio.get_running_loop()
        clock = _Clock(loop, 1e300)
        try:
            loop.call_soon(clock.stop)
            async with asyncio.timeout(10.0):
                return [await clock.ticks(), await clock.ticks()]
        finally:
            clock.close()

    assert asyncio.run(work()) == [1, 0]


def test_a_clock_that_is_closed_leaves_nothing_to_its_loop() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        clock = _Clock(loop, _INTERVAL_S)
        await clock.ticks()
        clock.close()
        if clock._timer >= 0:
            assert not loop.remove_reader(clock._timer)

    asyncio.run(work())
