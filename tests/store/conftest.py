"""An outbox of the test's own, and programs that a test may kill."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from antiphon.store.outbox import Outbox

PATIENCE_S = 60.0


@pytest.fixture
def outbox_at() -> Callable[..., AbstractAsyncContextManager[Outbox]]:
    """Opens the outbox in a file."""

    @asynccontextmanager
    async def open_it(path: Path, **options: Any) -> AsyncIterator[Outbox]:
        outbox = Outbox(path, node="hotline", **options)
        await outbox.open()
        try:
            yield outbox
        finally:
            await outbox.close()

    return open_it


@pytest.fixture
def spawned() -> Callable[..., subprocess.Popen[str]]:
    """Starts a program, given as text, in a process of its own; what it prints can be read line by line."""

    def start(program: str, *arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)], stdout=subprocess.PIPE, text=True, bufsize=1
        )

    return start


@pytest.fixture
def stopped() -> Callable[[int], Awaitable[None]]:
    """Waits until a process stands still (a signal takes its time), or is gone."""
    return _stopped


@pytest.fixture
def frozen() -> Callable[[int, str], Awaitable[None]]:
    """Stops a process that uses a store at this address, and not while it writes to a file: that would stop everybody who writes there,
    for as long as it stands still."""

    async def freeze(pid: int, url: str) -> None:
        if not url.startswith("sqlite:"):
            os.kill(pid, signal.SIGSTOP)
            await _stopped(pid)
            return
        with closing(sqlite3.connect(
            url.removeprefix("sqlite:"), timeout=PATIENCE_S, isolation_level=None, check_same_thread=False
        )) as file:
            await asyncio.to_thread(file.execute, "BEGIN IMMEDIATE")
            os.kill(pid, signal.SIGSTOP)
            await _stopped(pid)
            file.execute("ROLLBACK")

    return freeze


async def _stopped(pid: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                states = [task.joinpath("stat").read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").iterdir()]
            except OSError:
                return
            if set(states) <= {"T", "t", "Z", "X"}:
                return
            await asyncio.sleep(0.01)
