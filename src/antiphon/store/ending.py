"""The end of a task that runs in the background of a store."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any


async def end(task: asyncio.Task[Any] | None) -> None:
    """Cancels the task, if there is one, and waits until it is over. What it had failed with before is raised here."""
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
