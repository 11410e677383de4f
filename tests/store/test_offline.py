"""A node whose server is gone for a while: it goes on, and when the server is back everything arrives in order, each value once."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import pytest

from antiphon.store import Value, open_store

WAIT_S = 90.0
COUNT = 300
FIELD = Path(__file__).with_name("field.py")


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Any]:
    if find_spec("nats") is None:
        pytest.skip("nats-py is not installed: pip install 'antiphon[nats]'")
    from antiphon.store.jetstream import LocalServers

    with LocalServers(1, tmp_path / "servers") as running:
        yield running


class Node:
    """The process in the field, one life after the other."""

    def __init__(self, url: str, directory: Path) -> None:
        self._directory = directory
        self._command = [sys.executable, str(FIELD), url, str(directory / "outbox.db"), str(directory / "journal"), str(COUNT)]
        self.process: Process | None = None

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(*self._command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE)

    async def kill(self) -> None:
        assert self.process is not None
        if self.process.returncode is None:
            self.process.kill()
        await self.process.communicate()

    @property
    def acknowledged(self) -> list[tuple[int, str]]:
        journal = self._directory / "journal"
        lines = journal.read_text().split("\n")[:-1] if journal.exists() else []
        return [(int(number), kind) for number, kind in map(str.split, filter(None, lines))]

    def count(self, kind: str) -> int:
        return sum(found == kind for _, found in self.acknowledged)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not holds():
                await asyncio.sleep(0.02)


@pytest.mark.parametrize("seed", [1, 2])
def test_what_was_reported_offline_arrives_once_and_in_order(servers: Any, tmp_path: Path, seed: int) -> None:
    """A patrol that was out of reach, and whose radio was switched off and on, would lose what it reported, or report it twice."""

    async def story() -> None:
        chance, node = Random(seed), Node(servers.url, tmp_path)
        try:
            await node.start()
            await node.until(lambda: node.count("Published") >= 20)
            await asyncio.to_thread(servers.kill, 0)
            await node.until(lambda: node.count("Queued") >= 20)
            await node.kill()
            await node.start()
            queued = node.count("Queued")
            await node.until(lambda: node.count("Queued") >= queued + 20)
            await asyncio.to_thread(servers.start, 0)
            for _ in range(3):
                before = len(node.acknowledged)
                await node.until(lambda before=before: len(node.acknowledged) > before or node.acknowledged[-1][0] == COUNT)  # type: ignore[misc]
                await asyncio.sleep(0.3 * chance.random())
                await node.kill()
                await node.start()
            assert node.process is not None
            _, said = await asyncio.wait_for(node.process.communicate(), WAIT_S)
            assert node.process.returncode == 0, said.decode()
        finally:
            await node.kill()
        assert {number for number, _ in node.acknowledged} == set(range(1, COUNT + 1))
        async with open_store(servers.url) as store:
            topic = store.topic("crash")
            found = [await topic.at(seq) for seq in range(1, (await topic.info()).last + 1)]
            assert [int(item.data) for item in found if isinstance(item, Value)] == list(range(1, COUNT + 1))

    asyncio.run(story())
