"""One server for all tests of a process, and a store of its own on it for each."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from antiphon.store.jetstream import JetStreamBackend, LocalServers

pytest.importorskip("nats", reason="nats-py is not installed: pip install 'antiphon[nats]'")

Opening = Callable[[str], AbstractAsyncContextManager[JetStreamBackend]]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServers]:
    with LocalServers(1, tmp_path_factory.mktemp("nats")) as servers:
        yield servers


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[LocalServers]:
    """One that the test may kill."""
    with LocalServers(1, tmp_path) as servers:
        yield servers


@pytest.fixture
def url(server: LocalServers) -> str:
    """An empty store."""
    return f"{server.url}&prefix=t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def opening() -> Opening:
    """`async with opening(url) as backend`."""

    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[JetStreamBackend]:
        backend = JetStreamBackend(url)
        await backend.open()
        try:
            yield backend
        finally:
            await backend.close()

    return opened
