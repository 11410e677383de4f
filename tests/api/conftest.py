"""Groups of real nodes in virtual time, and the ways in which tests read them."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # tests are no package: `talk` and `interruption` are beside them

from talk import members

from antiphon.api import Group, Letter, Message
from antiphon.model.options import Settings
from antiphon.sim.world import World
from antiphon.testing import QUICK


@pytest.fixture
def world() -> World:
    return World(seed=7, settings=QUICK)


@pytest.fixture
def quick() -> Settings:
    return QUICK


@pytest.fixture
def gathered() -> Any:
    """Opens a node for each name and brings all into one group, `trip`; what is said beyond is of the group."""

    @asynccontextmanager
    async def gather(world: World, names: Sequence[str] = ("ana", "ben", "cleo"), **options: Any) -> AsyncIterator[list[Group]]:
        async with AsyncExitStack() as stack:
            nodes = [await stack.enter_async_context(world.node(name)) for name in names]
            groups = [await nodes[0].create("trip", **options)]
            kind = {"type": options["type"]} if "type" in options else {}
            for node in nodes[1:]:
                groups.append(await node.join("trip", **kind))
            for group in groups:
                await members(group, len(names))
            yield groups

    return gather


@pytest.fixture
def read() -> Any:
    """The next messages of a group, so many."""

    async def read_some(group: Group, count: int) -> list[Message | Letter]:
        messages: list[Message | Letter] = []
        async for message in group if count else _nothing():
            messages.append(message)
            if len(messages) == count:
                break
        return messages

    return read_some


@pytest.fixture
def grown() -> Any:
    """Waits until so many are in a group."""
    return members


async def _nothing() -> AsyncIterator[Message]:
    return
    yield
