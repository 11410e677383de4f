"""Whole nodes with credentials: who has none can neither read, send, join nor disturb, and is counted."""

from __future__ import annotations

import asyncio
import datetime
import unittest.mock
from typing import Any

import pytest

from antiphon.errors import AntiphonError, InvalidOption
from antiphon.model.options import Settings
from antiphon.runtime.node import Node
from antiphon.runtime.security import Certificates, PreSharedKey

QUICK = Settings(join_s=2.0, answer_s=0.02, suspect_s=1.0, probe_s=0.2, change_s=1.0, heartbeat_s=0.2)
KEY, OTHER = PreSharedKey("a key that is long enough, really"), PreSharedKey("another key that is long enough")


def node(name: str, *friends: Any, transport: str = "tcp", **more: Any) -> Node:
    if transport == "udp":
        more["multicast"] = None
    return Node(name, transport=transport, bind="127.0.0.1:0", seeds=[friend.address for friend in friends], settings=QUICK, **more)


async def read(group: Any, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(20.0):
        async for message in group:
            found.append(message.data)
            if len(found) == count:
                break
    return found


def refusals(*nodes: Any) -> dict[str, int]:
    counted: dict[str, int] = {}
    for one in nodes:
        transport = one.stats()["transport"]
        for drops in (transport["drops"], transport.get("security", {}).get("drops", {}), one.stats()["drops"]):
            for reason, count in drops.items():
                counted[reason] = counted.get(reason, 0) + count
    return counted


async def test_who_has_the_key_takes_part() -> None:
    """A key would lock out its owners."""
    async with node("ana", credentials=KEY) as ana, node("ben", ana, credentials=KEY) as ben:
        trip = await ana.create("trip", order="total")
        same = await ben.join("trip", timeout=20.0)
        await trip.send(b"hello")
        await same.send(b"yes?")
        assert await read(trip, 2) == await read(same, 2)


@pytest.mark.parametrize(
    ("credentials", "reason"), [(None, "no_key"), (OTHER, "wrong_key")], ids=["without a key", "with another key"]
)
async def test_who_has_it_not_is_outside(credentials: Any, reason: str) -> None:
    """A stranger on the network would read along, join, or bring the group into disorder."""
    async with node("ana", credentials=KEY) as ana, node("ben", ana, credentials=KEY) as ben:
        trip = await ana.create("trip", order="total")
        same = await ben.join("trip", timeout=20.0)
        async with node("eve", ana, ben, credentials=credentials) as eve:
            with pytest.raises(AntiphonError):
                await eve.join("trip", timeout=3.0)
            assert eve.groups() == []
            await trip.send(b"among us")
            assert await read(same, 1) == [b"among us"]
            assert refusals(ana, ben)[reason] > 0
        assert len(trip.view.members) == 2


async def test_a_member_of_another_group_is_outside_of_this_one() -> None:
    """Who is trusted with one group would be trusted with all."""
    keys = {"trip": PreSharedKey("the key of this very group, long")}
    async with node("ana", credentials=KEY, keys=keys) as ana, node("ben", ana, credentials=KEY, keys=keys) as ben:
        trip = await ana.create("trip", order="fifo")
        same = await ben.join("trip", timeout=20.0)
        async with node("eve", ana, ben, credentials=KEY, keys={"party": OTHER}) as eve:
            await eve.create("party")
            with pytest.raises(AntiphonError):
                await eve.join("trip", timeout=3.0)
            forged = trip.id
            for address in (ana.address, ben.address):
                wire = b"\x01" + b"\x00" * 40
                eve._driver.send((address,), wire, forged)
            await trip.send(b"among us")
            assert await read(same, 1) == [b"among us"]
        assert [member.partition("#")[0] for member in trip.view.members] == ["ana", "ben"]


async def test_recorded_frames_said_again_change_nothing() -> None:
    """Who recorded the traffic of a day would play it to the group the next day."""
    heard: list[tuple[str, bytes]] = []
    async with node("ana", credentials=KEY) as ana, node("ben", ana, credentials=KEY) as ben:
        trip = await ana.create("trip", order="total")
        same = await ben.join("trip", timeout=20.0)
        take = ben._driver._take

        def record(source: Any, wires: list[bytes]) -> None:
            heard.extend((source, wire) for wire in wires)
            take(source, wires)

        for door in ben._driver.transport._doors:
            door._take = record
        await trip.send(b"pay 100")
        assert await read(same, 1) == [b"pay 100"]
        assert heard
        recorded = list(heard)
        for source, wire in recorded:
            take(source, [wire])
        await trip.send(b"the end")
        assert await read(same, 1) == [b"the end"]
        assert refusals(ben)["replayed"] >= len(recorded)


@pytest.mark.parametrize("transport", ["tcp", "udp"])
async def test_who_has_no_valid_certificate_is_refused(authority: Any, other_authority: Any, transport: str) -> None:
    """A node that was dismissed, or never employed, would still be let in."""
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=2)
    expired = authority.issue("dee", begins=past - datetime.timedelta(days=2), ends=past)
    with pytest.raises(InvalidOption, match="outside its dates"):
        node("dee", transport=transport, credentials=expired)
    with pytest.raises(InvalidOption, match="made out to"):
        node("ana", transport=transport, credentials=authority.issue("eve"))
    intruders = {
        "eve": (other_authority.issue("eve", trusts=authority.path), "untrusted_certificate"),
        "dee": (expired, "expired_certificate"),
        "fay": (None, "no_key" if transport == "udp" else "malformed"),
    }
    async with (
        node("ana", transport=transport, credentials=authority.issue("ana")) as ana,
        node("ben", ana, transport=transport, credentials=authority.issue("ben")) as ben,
    ):
        trip = await ana.create("trip", order="total")
        same = await ben.join("trip", timeout=20.0)
        for name, (credentials, reason) in intruders.items():
            with unittest.mock.patch.object(Certificates, "check"):  # its own node would not let it out
                intruder = node(name, ana, ben, transport=transport, credentials=credentials)
            async with intruder:
                with pytest.raises(AntiphonError):
                    await intruder.join("trip", timeout=3.0)
                assert intruder.groups() == []
            assert refusals(ana, ben)[reason] > 0, refusals(ana, ben)
        await trip.send(b"among us")
        assert await read(same, 1) == [b"among us"]
        assert len(trip.view.members) == 2
