"""Agents in processes of their own, which are killed, frozen and thawed while they work."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec
import pytest

from antiphon.store import Store, open_store
from antiphon.store.agents.ownership import Owner
from antiphon.testing.agent_worker import OUTPUTS, SETTINGS, verdict

WAIT_S = 60.0
SILENCE_S = 0.6


class Nodes:
    """Processes that run the agent, or wait to; each has a name, and may be started again under it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._processes: dict[str, Process] = {}

    async def start(self, *names: str) -> None:
        for name in names:
            command = (sys.executable, "-m", "antiphon.testing.agent_worker", self._url, name, str(SILENCE_S), "0.01")
            self._processes[name] = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE)

    async def kill(self, name: str) -> None:
        process = self._processes.pop(name)
        assert process.returncode is None, (await process.communicate())[1].decode()
        process.kill()
        await process.wait()

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def signal(self, name: str, number: int) -> None:
        self._processes[name].send_signal(number)

    async def stop(self) -> None:
        for process in self._processes.values():
            if process.returncode is None:
                process.kill()
                await process.wait()


@asynccontextmanager
async def stage(url: str) -> AsyncIterator[tuple[Store, Nodes]]:
    nodes = Nodes(url)
    async with open_store(url, name="caller", settings=SETTINGS) as store:
        try:
            yield store, nodes
        finally:
            await nodes.stop()


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not await holds():
            await asyncio.sleep(0.02)


async def position(store: Store) -> int:
    record = await store.backend.subscriber("crash", "agent/911")
    return 0 if record is None else record.position


async def running(store: Store) -> str:
    record = await store.backend.get("agents/911")
    return "" if record is None else msgspec.json.decode(record.data, type=Owner).node


async def finished(store: Store, count: int) -> bool:
    lasts = {topic.name: topic.last for topic in await store.topics()}
    return await position(store) == count and all(lasts.get(output) == count for output in OUTPUTS)


@pytest.mark.parametrize("seed", [1, 2])
def test_each_step_once_while_its_nodes_are_killed(url: str, seed: int) -> None:
    """The dispatcher's machine dies, and somebody is sent no ambulance, or two."""

    async def story() -> None:
        chance, count = Random(seed), 150
        async with stage(url) as (store, nodes):
            await store.topic("crash").publish_many([b"%d" % number for number in range(1, count + 1)])
            await nodes.start("north", "south")
            killed = 0
            for _ in range(4):
                before = await position(store)
                await until(lambda before=before: progressed(store, before, count))  # type: ignore[misc]
                await asyncio.sleep(0.05 * chance.random())
                if await position(store) == count:
                    break
                if owner := await running(store):
                    await nodes.kill(owner)
                    await nodes.start(owner)
                    killed += 1
            await until(lambda: finished(store, count))
            assert await verdict(store, count) == []
            assert killed >= 2

    asyncio.run(story())


async def progressed(store: Store, before: int, count: int) -> bool:
    now = await position(store)
    return now > before or now == count


def test_it_moves_when_its_node_dies(url: str) -> None:
    """The dispatcher's machine dies, and nobody is dispatched until somebody mends it."""

    async def story() -> None:
        async with stage(url) as (store, nodes):
            await nodes.start("north", "south")
            topic = store.topic("crash")
            await topic.publish(b"1")
            await until(lambda: finished(store, 1))
            first = await running(store)
            await nodes.kill(first)
            await topic.publish(b"2")
            await until(lambda: finished(store, 2))
            assert {first, await running(store)} == {"north", "south"}
            assert await verdict(store, 2) == []

    asyncio.run(story())


def test_who_was_frozen_and_comes_back_is_fenced(url: str, frozen: Any) -> None:
    """A machine that slept for an hour would wake up as the dispatcher beside the one that has replaced it, and send everybody twice."""

    async def story() -> None:
        count = 300
        async with stage(url) as (store, nodes):
            await nodes.start("north")
            topic = store.topic("crash")
            await topic.publish_many([b"%d" % number for number in range(1, count // 2 + 1)])
            await until(lambda: progressed(store, 0, count))
            await frozen(nodes.pid("north"), url)
            assert await running(store) == "north"
            await nodes.start("south")
            await until(lambda: finished(store, count // 2))
            assert await running(store) == "south"
            nodes.signal("north", signal.SIGCONT)
            for number in range(count // 2 + 1, count + 1):
                await topic.publish(b"%d" % number)
            await until(lambda: finished(store, count))
            assert await running(store) == "south"
            assert await verdict(store, count) == []
            await nodes.kill("south")  # and the one that was frozen is a node like any other
            await topic.publish(b"%d" % (count + 1))
            await until(lambda: finished(store, count + 1))
            assert await running(store) == "north"
            assert await verdict(store, count + 1) == []

    asyncio.run(story())
