"""A call that is cancelled at every wait it makes.

A call is run again and again in the same world, cancelled at its first wait, its second, and so on until it comes through. At each wait
it is cancelled in two ways: while it waits, and at the very moment at which what it waits for has happened and it has not seen it yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeAlias

from antiphon.model.options import Settings
from antiphon.sim.world import World


class Interrupted:
    """Awaits a coroutine, and cancels the task that does so at the coroutine's `place`-th wait (counted from 1)."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], place: int, late: bool) -> None:
        self._coroutine, self._place, self._late = coroutine, place, late
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[Any], Any] = self._coroutine.send
        argument: Any = None
        while True:
            try:
                waited = step(argument)
            except StopIteration as stop:
                return stop.value
            self.waits += 1
            if self.waits == self._place:
                self._interrupt(waited)
            try:
                argument = yield waited
                step = self._coroutine.send
            except BaseException as error:
                argument, step = error, self._coroutine.throw

    def _interrupt(self, waited: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._late and asyncio.isfuture(waited):
            # Called before the task is told, because the task begins to listen after this.
            waited.add_done_callback(lambda _: task.cancel())
        else:
            asyncio.get_running_loop().call_soon(task.cancel)


class Interrupter:
    """Runs calls that are to be cancelled; says whether they were."""

    def __init__(self, place: int, late: bool) -> None:
        self.place, self.late = place, late
        self.hit = False
        self.result: Any = None

    async def __call__(self, coroutine: Coroutine[Any, Any, Any]) -> bool:
        """Whether the call was cancelled; its result is in `result` otherwise."""
        interrupted = Interrupted(coroutine, self.place, self.late)

        async def call() -> Any:
            return await interrupted

        task = asyncio.create_task(call())
        await asyncio.wait([task])
        self.hit = self.hit or interrupted.waits >= self.place
        if task.cancelled():
            assert self.hit
            return True
        self.result = task.result()
        return False


Story: TypeAlias = Callable[[World, Interrupter], Awaitable[None]]


def at_every_wait(name: str, story: Story, least: int, late: bool, quick: Settings) -> None:
    """Tells the story again and again, cancelled one wait later each time, until it comes through. It makes `least` waits at least: fewer
    would mean that nothing was cancelled."""
    place = 0
    while True:
        place += 1
        interrupt = Interrupter(place, late)
        # Few private messages may be under way, so that those wait too.
        settings = Settings(**{field: getattr(quick, field) for field in quick.__struct_fields__} | {"private_messages": 2})
        world = World(seed=7, settings=settings)
        try:
            world.run(story(world, interrupt), limit_s=600.0)
        except BaseException as error:
            error.add_note(f"{name}, cancelled at wait {place}, {'woken' if late else 'waiting'}")
            raise
        if not interrupt.hit:
            break
    assert place > least
