"""Durable topics of a node: its store is opened and closed with it, and it publishes under its name."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.errors import BadStore, InvalidOption, TopicTaken, UsageError
from antiphon.store import Queued, open_store
from antiphon.store.jetstream import JetStreamBackend
from antiphon.store.memory import MemoryBackend

WAIT_S = 30.0


def run(story: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(WAIT_S):
            await story
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert left == [], "nothing runs on after a node is closed"

    asyncio.run(bounded())


def test_a_node_has_topics_on_its_store(tmp_path: Path) -> None:
    """A crash that one node reports would not reach another that is not there at the time."""

    async def story() -> None:
        url = f"sqlite:{tmp_path / 'field.db'}"
        async with antiphon.Node("ana", transport="memory", store=url) as ana:
            ack = await ana.topic("crash", type=str).publish("A1, three cars")
            assert ack.seq == 1
            assert ana.stats()["store"]["published"] == 1  # type: ignore[index]
            assert (await ana.topic("crash").info()).publisher == "ana"
            async with antiphon.Node("ben", transport="memory", store=url) as ben:
                with pytest.raises(TopicTaken):
                    await ben.topic("crash").publish(b"mine")
        async with antiphon.Node("ben", transport="memory", store=url) as ben:
            subscription = await ben.topic("crash", type=str).subscribe(id="ben")
            item = await subscription.read(20)
            assert item.data == "A1, three cars"
            await subscription.done(item.seq)
        with pytest.raises(UsageError, match="closed"):
            await ben.topic("crash").info()

    run(story())


def test_a_store_that_is_open_belongs_to_whoever_opened_it() -> None:
    """Closing one node would close the store of all others in the process."""

    async def story() -> None:
        async with open_store("memory:", name="ana") as store:
            async with antiphon.Node("ana", transport="memory", store=store) as node:
                assert node.store is store
                await node.topic("crash").publish(b"1")
            assert (await store.topic("crash").info()).last == 1

    run(story())


def test_groups_go_on_while_the_store_is_away(tmp_path: Path) -> None:
    """A node in the field could not even talk to the one beside it, because a store far away does not answer."""

    async def story() -> None:
        # Nobody listens there: the store is out of reach when the node starts, and stays so.
        url = "nats://127.0.0.1:9?sync=always"
        assert isinstance(open_store(url).backend, JetStreamBackend)
        async with antiphon.Node("ana", transport="memory", store=url, outbox=tmp_path / "outbox.db") as ana:
            group = await ana.create("trip")
            await group.send(b"hello")
            assert isinstance(await ana.topic("crash").publish(b"later", timeout=0.5), Queued)
            assert ana.store.waiting_in_outbox("crash") == 1

    pytest.importorskip("nats")
    run(story())


def test_a_node_whose_store_is_none_does_not_start() -> None:
    """A node would run for days before anybody notices that nothing of it is kept."""

    async def story() -> None:
        node = antiphon.Node("ana", transport="memory", store="sqlite:/nowhere/at/all/field.db")
        with pytest.raises(BadStore):
            await node.start()
        assert isinstance(node, antiphon.Node)

    run(story())
    with pytest.raises(BadStore, match="begins with"):
        antiphon.Node("ana", transport="memory", store="field.db")


def test_a_node_without_a_store_says_what_to_do() -> None:
    """Somebody would read that None has no topic."""

    async def story() -> None:
        async with antiphon.Node("ana", transport="memory") as node:
            with pytest.raises(UsageError, match="store="):
                node.topic("crash")
            assert "store" not in node.stats()

    run(story())


def test_an_outbox_needs_a_store_of_the_nodes_own(tmp_path: Path) -> None:
    """An outbox would lie there, and nothing would ever be put into it."""
    for store in (None, antiphon.Store(MemoryBackend(), name="ana")):
        with pytest.raises(InvalidOption, match="outbox"):
            antiphon.Node("ana", transport="memory", store=store, outbox=tmp_path / "outbox.db")


def test_a_node_that_is_abandoned_lets_its_store_go(tmp_path: Path) -> None:
    """A node that was given up would keep its outbox locked for the next one."""

    async def story() -> None:
        url, outbox = f"sqlite:{tmp_path / 'field.db'}", tmp_path / "outbox.db"
        node = antiphon.Node("ana", transport="memory", store=url, outbox=outbox)
        await node.start()
        await node.topic("crash").publish(b"1")
        node.abandon("it crashed")
        await node.close()
        await node.store.close()
        async with antiphon.Node("ana", transport="memory", store=url, outbox=outbox) as again:
            assert (await again.topic("crash").info()).last == 1

    run(story())
