"""The driver for real networks, on both kinds of event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from antiphon.runtime.driver import AsyncioDriver
from antiphon.runtime.transports.memory import MemoryTransport


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_timer_never_comes_before_its_time(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """A core that is called too early finds nothing to do and asks again: a node that does nothing would wake up all the time."""

    async def story() -> list[float]:
        driver = AsyncioDriver(MemoryTransport())
        await driver.open(lambda source, wires, realm="": None)
        try:
            early: list[float] = []
            for step in range(60):
                when, rung = driver.now() + 0.0005 + step * 0.00013, asyncio.Event()
                driver.call_at(when, rung.set)
                await asyncio.wait_for(rung.wait(), 30.0)
                if driver.now() < when:
                    early.append(when - driver.now())
            return early
        finally:
            await driver.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(story()) == []
