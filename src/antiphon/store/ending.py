"""The end of a task that runs in the background of a store."""

from __future__ import annotations

import asyncio
from typing import Any


async def end(task: asyncio.Task[Any] | None) -> None:
    """Cancels the task, if there is one, and waits until it is over. What it had failed with is raised here."""
    if task is not None:
        task.cancel()
        await asyncio.wait((task,))  # not awaited itself: whoever is cancelled meanwhile must hear of it
        if not task.cancelled():
            task.result()
