"""An outbox of the test's own, and programs that a test may kill."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.store.outbox import Outbox


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
