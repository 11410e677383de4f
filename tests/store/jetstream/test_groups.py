"""Groups on a JetStream server: one order for messages and views, members that die and come back, and a server that is away for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon import Node, StoreLost, StoreRestored
from antiphon.api import Group
from antiphon.errors import JoinFailed, StoreUnreachable
from antiphon.model.ids import name_of
from antiphon.store import Store, StoreSettings
from antiphon.store.jetstream import JetStreamBackend, LocalServers

WAIT_S = 90.0
PATIENT = StoreSettings(timeout_s=60.0, outbox_s=0.2)


def run(story: Any) -> None:
    asyncio.run(asyncio.wait_for(story, WAIT_S))


async def until(condition: Callable[[], Any]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


async def read(group: Group, count: int) -> list[bytes]:
    found: list[bytes] = []
    async for message in group:
        found.append(message.data)
        if len(found) == count:
            break
    return found


def people(group: Group) -> list[str]:
    return [name_of(member) for member in group.view.members]


def test_all_who_join_and_speak_at_once_have_one_order(url: str) -> None:
    """On a server, whose answers come one after the other, a join would be lost or two members would read another order."""

    async def story() -> None:
        nodes = [Node(name, transport="memory", store=url) for name in ("ana", "ben", "cleo", "dan")]
        for node in nodes:
            await node.start()
        first = await nodes[0].create("root", on="store")
        groups = [first, *await asyncio.gather(*(node.join("root", on="store") for node in nodes[1:]))]
        await until(lambda: all(len(group.view.members) == 4 for group in groups))
        await asyncio.gather(*(group.send(b"%d %d" % (who, number)) for number in range(10) for who, group in enumerate(groups)))
        told = [await read(group, 40) for group in groups]
        assert told[0] == told[1] == told[2] == told[3]
        for who in range(4):
            assert [data for data in told[0] if data.startswith(b"%d " % who)] == [b"%d %d" % (who, number) for number in range(10)]
        assert len({group.view for group in groups}) == 1
        for group, node in zip(groups, nodes, strict=True):
            assert await group.leave() == 0
            await node.close()
        async with Node("eve", transport="memory", store=url) as eve:
            again = await eve.create("root", on="store")  # it was deleted with its last member
            assert (people(again), again.id == first.id) == (["eve"], False)

    run(story())


def test_who_dies_is_put_out_and_the_past_is_there(url: str) -> None:
    """A dead member would stay in the view for ever, or who comes later would not hear what was said."""

    async def story() -> None:
        async with Node("ana", transport="memory", store=url) as ana, Node("ben", transport="memory", store=url) as ben:
            here = await ana.create("root", on="store", silence_s=1.5)
            there = await ben.join("root", on="store")
            await there.send_many([b"one", b"two"])
            await until(lambda: people(here) == ["ana", "ben"])
            there.abandon("as kill -9 does")
            await until(lambda: people(here) == ["ana"])
            await here.send(b"three")
            async with Node("cleo", transport="memory", store=url) as cleo:
                late = await cleo.join("root", on="store")
                assert await read(late, 3) == [b"one", b"two", b"three"]
                assert [message.data async for message in late.archived()] == [b"one", b"two", b"three"]

    run(story())


def test_a_server_that_is_away_and_back(own_server: LocalServers, tmp_path: Path) -> None:
    """What was said while the server was down would be lost or said twice, or the members would have put each other out."""
    outbox = tmp_path / "ana.outbox"

    async def story() -> None:
        async with (
            Store(JetStreamBackend(own_server.url), name="ana", outbox=outbox, settings=PATIENT) as first,
            Store(JetStreamBackend(own_server.url), name="ben", settings=PATIENT) as second,
            Node("ana", transport="memory", store=first) as ana,
            Node("ben", transport="memory", store=second) as ben,
        ):
            here = await ana.create("root", on="store")
            there = await ben.join("root", on="store")
            await here.send(b"before")
            assert await read(there, 1) == [b"before"]
            await asyncio.to_thread(own_server.kill, 0)
            await here.send_many([b"in the", b"outbox"])
            waiting = asyncio.create_task(there.send(b"waits"))
            await asyncio.sleep(0.5)
            await asyncio.to_thread(own_server.start, 0)
            await waiting
            heard = await read(there, 3)
            assert [data for data in heard if data != b"waits"] == [b"in the", b"outbox"]
            assert await read(here, 4) == [b"before", *heard]
            await until(lambda: people(here) == people(there) == ["ana", "ben"])

    run(story())


def test_a_node_name_has_one_member(url: str) -> None:
    """On a server a restarted node would stand beside its dead self, or two live nodes of one name would both be admitted."""

    async def story() -> None:
        async with (
            Node("ben", transport="memory", store=url) as ben,
            Node("ana", transport="memory", store=url) as old,
            Node("ana", transport="memory", store=url) as new,
            Node("ana", transport="memory", store=url) as third,
        ):
            here = await ben.create("root", on="store", silence_s=600.0)
            dead = await old.join("root", on="store")
            await until(lambda: people(here) == ["ben", "ana"])
            with pytest.raises(JoinFailed, match=f"held by the live member {dead.me}"):
                await new.join("root", on="store")
            dead.abandon("as kill -9 does")
            outcomes = await asyncio.gather(*(node.join("root", on="store") for node in (new, third)), return_exceptions=True)
            assert sorted(isinstance(outcome, JoinFailed) for outcome in outcomes) == [False, True]
            alive = next(outcome for outcome in outcomes if isinstance(outcome, Group))
            await until(lambda: here.view.members == (here.me, alive.me))

    run(story())


def test_a_server_that_is_killed_is_told_to_groups_and_subscriptions(own_server: LocalServers) -> None:
    """Members would show a stale view, and subscribers wait, without knowing that the server is down: for as long as one call may take."""
    quick = StoreSettings(timeout_s=60.0, lost_s=0.5)

    async def story() -> None:
        async with (
            Store(JetStreamBackend(f"{own_server.url}&timeout_s=600"), name="ana", settings=quick) as store,
            Node("ana", transport="memory", store=store) as ana,
        ):
            group = await ana.create("root", on="store", silence_s=3.0)
            events = (event async for event in group.events() if isinstance(event, StoreLost | StoreRestored))
            await store.topic("t").publish(b"1")
            subscription = await store.topic("t").subscribe(id="s")
            outages = subscription.events()
            assert (await subscription.read(30)).data == b"1"
            await asyncio.to_thread(own_server.kill, 0)
            assert isinstance(await anext(events), StoreLost)
            assert isinstance(await anext(outages), StoreLost)
            assert (group.view_is_stale, subscription.reachable) == (True, False)
            with pytest.raises(StoreUnreachable):
                await group.send(b"lost?", timeout=1.0)
            await asyncio.to_thread(own_server.start, 0)
            assert isinstance(await anext(events), StoreRestored)
            assert isinstance(await anext(outages), StoreRestored)
            assert (group.view_is_stale, subscription.reachable) == (False, True)
            await group.send(b"after")
            assert (await read(group, 1))[0] in (b"lost?", b"after")

    run(story())
