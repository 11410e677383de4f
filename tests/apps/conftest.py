"""Chats in one process: nodes whose network can be cut, lobbies that others speak from, and waiting for what must happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, ClassVar

import pytest

from antiphon.apps.chat.lobby import Lobby
from antiphon.apps.chat.room import Room
from antiphon.model.ids import Address
from antiphon.model.options import Settings
from antiphon.runtime.node import Node
from antiphon.runtime.transports.memory import MemoryTransport

QUICK = Settings(
    heartbeat_s=0.3,
    suspect_s=1.0,
    probe_s=0.2,
    probes=2,
    change_s=1.0,
    settle_s=0.5,
    retry_s=0.1,
    seek_s=0.2,
    seek_max_s=1.0,
    answer_s=0.05,
)
"""Views change several times sooner than on a real network."""
_WAIT_S = 30.0


class Wire(MemoryTransport):
    """A network in this process in which pairs of nodes can be kept from hearing each other."""

    cut: ClassVar[set[frozenset[Address]]] = set()

    def send(self, to: tuple[Address, ...], wire: bytes) -> None:
        super().send(tuple(address for address in to if frozenset((self.address, address)) not in self.cut), wire)


class Chats:
    """Lobbies by the name of their node."""

    def __init__(self) -> None:
        self.lobbies: dict[str, Lobby] = {}

    def __getitem__(self, name: str) -> Lobby:
        return self.lobbies[name]

    async def join(self, group: str, *names: str) -> list[Room]:
        """These join a group, and see each other in it."""
        rooms = [await self[name].join(group, found=True) for name in names]
        await until(lambda: all(len(room.members) >= len(names) for room in rooms), "all see each other")
        return rooms

    def split(self, *sides: tuple[str, ...]) -> None:
        """From now on only those on one side hear each other."""
        addresses = [[self[name].node.address for name in side] for side in sides]
        Wire.cut = {
            frozenset((one, other)) for side in addresses for one in side for rest in addresses if rest is not side for other in rest
        }

    def heal(self) -> None:
        Wire.cut = set()


async def until(happened: Callable[[], object], what: str, shown: Callable[[], str] = str) -> None:
    """Waits for something that must happen, and says what did not and what is `shown` instead."""
    try:
        async with asyncio.timeout(_WAIT_S):
            while not happened():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"in {_WAIT_S:g} s it did not happen that {what}\n{shown()}") from None


@pytest.fixture(name="until")
def until_fixture() -> Any:
    return until


@pytest.fixture
def chats() -> Any:
    """Opens a node and a lobby for each name."""

    @asynccontextmanager
    async def open_chats(*names: str, settings: Settings | None = QUICK) -> AsyncIterator[Chats]:
        Wire.cut = set()
        opened = Chats()
        nodes: list[Node] = []
        try:
            for name in names:
                node = Node(name, transport=Wire(), settings=settings)
                await node.start()
                nodes.append(node)
                opened.lobbies[name] = Lobby(node)
            yield opened
        finally:
            Wire.cut = set()
            await asyncio.gather(*(lobby.close() for lobby in opened.lobbies.values()))
            await asyncio.gather(*(node.close(timeout=1.0) for node in nodes))

    return open_chats


def pytest_pycollect_makeitem(collector: Any, name: str, obj: Any) -> None:
    """A test that is a coroutine is run on a loop of its own."""
    if name.startswith("test_") and asyncio.iscoroutinefunction(obj):
        setattr(collector.obj, name, _on_a_loop(obj))


def _on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **named), 4 * _WAIT_S))

    return run
