"""A task in the background is ended by whoever began it: completely, and without hiding anything."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.store.ending import end


class Stubborn:
    """A task that has something to finish when it is cancelled."""

    def __init__(self) -> None:
        self.cancelled, self.may_go = asyncio.Event(), asyncio.Event()
        self.over = False
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
            await self.may_go.wait()
            self.over = True


def test_one_waits_until_the_task_is_over() -> None:
    """A store would be closed under the hands of a task that is still writing to it."""

    async def story() -> None:
        await end(None)
        stubborn = Stubborn()
        await asyncio.sleep(0)
        ending = asyncio.create_task(end(stubborn.task))
        await stubborn.cancelled.wait()
        assert not ending.done()
        stubborn.may_go.set()
        await ending
        assert stubborn.over
        await end(stubborn.task)

    asyncio.run(asyncio.wait_for(story(), 60.0))


def test_who_is_cancelled_while_waiting_hears_of_it() -> None:
    """A time-out around the closing of a store would pass unheard, and the program would hang where it had said for how long it waits."""

    async def story() -> None:
        stubborn = Stubborn()
        await asyncio.sleep(0)
        ending = asyncio.create_task(end(stubborn.task))
        await stubborn.cancelled.wait()
        ending.cancel()
        await asyncio.wait([ending])
        assert ending.cancelled()
        stubborn.may_go.set()
        await asyncio.wait([stubborn.task])
        assert stubborn.over

    asyncio.run(asyncio.wait_for(story(), 60.0))


def test_what_the_task_failed_with_is_raised() -> None:
    """A collector or an outbox that died of a fault would have died in silence."""

    async def fail() -> None:
        raise ValueError("a fault")

    async def story() -> None:
        task = asyncio.create_task(fail())
        await asyncio.wait([task])
        with pytest.raises(ValueError, match="a fault"):
            await end(task)

    asyncio.run(asyncio.wait_for(story(), 60.0))
