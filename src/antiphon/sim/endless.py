"""Runs in virtual time that can never end, and who waits in them.

Each is a UsageError, because it is the program that waits: the same run ends in the same way every time.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from antiphon.errors import UsageError

TASKS_NAMED = 8
"""Tasks that a message names; `waiting` has all."""


class Endless(UsageError):
    def __init__(self, why: str, at: float, waiting: list[str]) -> None:
        more = f"; and {len(waiting) - TASKS_NAMED} more" if len(waiting) > TASKS_NAMED else ""
        super().__init__(f"{why} (at {at:g} s). Not done: {'; '.join(waiting[:TASKS_NAMED]) or 'nobody'}{more}")
        self.at, self.waiting = at, waiting


class Deadlock(Endless):
    """Tasks wait, and nothing that is left to happen could wake them."""

    def __init__(self, at: float, waiting: list[str]) -> None:
        super().__init__("nothing is left to happen: everybody waits for somebody else, for ever", at, waiting)


class OutOfTime(Endless):
    """The run is not over at its limit of virtual time."""

    def __init__(self, at: float, waiting: list[str]) -> None:
        super().__init__("the run has reached its limit of virtual time: raise limit_s, or see what it waits for", at, waiting)


class Stuck(Endless):
    """Callbacks follow each other without end within one instant."""

    def __init__(self, at: float, waiting: list[str]) -> None:
        why = "time does not pass: somebody asks again and again without waiting, as in `while …: await asyncio.sleep(0)`"
        super().__init__(why, at, waiting)


def described(task: asyncio.Task[Any]) -> str:
    """Which task, and the line at which it waits."""
    coroutine: Any = task.get_coro()
    called = getattr(coroutine, "__qualname__", type(coroutine).__name__).rpartition("<locals>.")[2]
    frames = task.get_stack(limit=1)
    place = f" at {Path(frames[-1].f_code.co_filename).name}:{frames[-1].f_lineno}" if frames else ""
    return f"{task.get_name()}, {called}(){place}"
