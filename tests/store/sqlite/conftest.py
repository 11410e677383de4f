"""Stores in files of their own, other processes that use them, and locks held from outside."""

from __future__ import annotations

import asyncio
import inspect
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.store.sqlite import SqliteBackend

PROGRAM = Path(__file__).with_name("program.py")
PATIENCE_S = 60.0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine runs on a loop of its own, at most two minutes."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), 2 * PATIENCE_S))
    return True


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


Opened = Callable[..., Any]


@pytest.fixture
def opened() -> Opened:
    """`async with opened(file, file, …) as (one, other):` several handles, each closed at the end."""

    @asynccontextmanager
    async def several(*files: Path | str, **options: Any) -> AsyncIterator[Any]:
        async with AsyncExitStack() as stack:
            handles = []
            for file in files:
                handle = SqliteBackend(file, **options)
                await handle.open()
                stack.push_async_callback(handle.close)
                handles.append(handle)
            yield handles[0] if len(handles) == 1 else handles

    return several


@pytest.fixture
def locked() -> Callable[[Path], Any]:
    """Keeps the file locked for writers, as a process does that was stopped in the middle of a transaction."""

    @contextmanager
    def lock(file: Path) -> Iterator[None]:
        connection = sqlite3.connect(file, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")
            connection.close()

    return lock


class Process:
    """A run of program.py: `line()` waits for what it says next."""

    def __init__(self, *arguments: object, before: tuple[str, ...] = (), become: int | None = None) -> None:
        command = [*before, sys.executable, str(PROGRAM), *map(str, arguments)]
        environment = os.environ if become is None else {**os.environ, "BECOME": str(become)}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        self.pid = self._process.pid

    async def line(self) -> str:
        assert self._process.stdout is not None
        read = asyncio.get_running_loop().run_in_executor(None, self._process.stdout.readline)
        return (await asyncio.wait_for(read, PATIENCE_S)).decode().strip()

    async def output(self) -> str:
        """Everything it still says, until it ends."""
        communicate = asyncio.get_running_loop().run_in_executor(None, self._process.communicate)
        out, error = await asyncio.wait_for(communicate, PATIENCE_S)
        assert not error, error.decode()
        return out.decode()

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


@pytest.fixture
def started() -> Iterator[Callable[..., Process]]:
    """`started("publish", file, …)` runs program.py in a process of its own, which does not outlive the test."""
    processes: list[Process] = []

    def start(*arguments: object, **options: Any) -> Process:
        processes.append(Process(*arguments, **options))
        return processes[-1]

    yield start
    for process in processes:
        process.end()


Wait = Callable[[Callable[[], Awaitable[bool]]], Awaitable[None]]


@pytest.fixture
def until() -> Wait:
    """Waits for a condition that must come true."""

    async def wait(condition: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not await condition():
                await asyncio.sleep(0.01)

    return wait
