"""Who keeps a topic from being collected, as a user is told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import UnknownTopic
from antiphon.store.records import SECOND


async def test_subscribers_and_retention_are_named(backend: Any, opened: Any, filled: Any) -> None:
    """An operator whose disk fills up would not find out which reader it is."""
    async with opened(backend, collect_s=0) as store:
        crash = await filled(store, 3)
        await store.topic("kept").register(retention_s=3600)
        await store.topic("kept").publish(b"1")
        await store.topic("units").register(mutable=True)
        await store.topic("units").publish(b"1", "car")
        slow, quick = await crash.subscribe(3600.0, id="slow"), await crash.subscribe(7200.0, id="quick")
        first = await slow.read(20)
        await quick.read_many(3, 20)
        await quick.done(2)
        await crash.subscribe(1e-9, id="expired")
        await store.collect()
        held = await store.holders()
        assert set(held) == {"crash", "kept", "units"}
        (retention,) = held["kept"]
        assert (retention.kind, retention.first) == ("retention", 1)
        assert retention.until == retention.since + 3600 * SECOND
        assert held["units"] == [], "the newest value of a key stays, whoever reads"
        by_id = {hold.id: hold for hold in held["crash"]}
        assert by_id["slow"].first == 1
        assert (by_id["slow"].since, by_id["slow"].until) == (first.time, first.time + 3600 * SECOND)
        assert by_id["quick"].first == 3
        assert "hotline" in {hold.node for hold in by_id.values()}, "the node with the oldest value in hand"
        await slow.done(3)
        await quick.done(3)
        await store.collect()
        assert {hold.id for hold in (await store.holders("crash"))["crash"]} <= {"expired"}
        with pytest.raises(UnknownTopic):
            await store.holders(["crahs"])


async def test_an_outbox_is_named(fickle: Any, opened: Any, tmp_path: Path) -> None:
    """Values that wait on a machine in the field would keep a topic, and nobody would know where to look."""
    async with opened(fickle, "boss") as boss, opened(fickle, "unit 7", outbox=tmp_path / "outbox.db") as unit:
        await boss.topic("reports").publish(b"0")  # the topic is the boss's, so the outbox cannot be sent
        fickle.down = True
        await unit.topic("reports").publish(b"on the way")
        fickle.down = False
        async with asyncio.timeout(20):
            while not (held := [hold for hold in (await boss.holders("reports"))["reports"] if hold.kind == "outbox"]):
                await unit.collect()
        assert (held[0].node, held[0].until) == ("unit 7", None)
        async with asyncio.timeout(20):
            await boss.topic("fires").register(retention_s=0.0)
            await boss.topic("fires").publish(b"1")
            fickle._backend._shelf.now.move(1)
            while (await unit.collect("fires"))["fires"].floor < 1:
                await asyncio.sleep(0)


async def test_expired_and_marked_values_are_passed_over(fickle: Any, hand: Any, opened: Any) -> None:
    """A reader would be blamed for values that it does not keep."""
    async with opened(fickle, collect_s=0) as store:
        crash = store.topic("crash")
        reader = await crash.subscribe(100.0, id="reader")
        await crash.subscribe(10_000.0, id="keeper")
        for _ in range(300):
            await crash.publish(b"x")
            hand.move(1)
        await reader.read_many(1, 20)
        (one,) = [hold for hold in (await store.holders("crash"))["crash"] if hold.id == "reader"]
        await store.collect()  # a round, by which the reader's horizon is that of what it has in hand
        await reader.done_one([202, 203])
        info = {hold.id: hold.first for hold in (await store.holders("crash"))["crash"]}
        assert info["keeper"] == 1
        assert 101 <= one.first <= 201, "only the last hundred seconds are due"


async def test_an_expired_value_waits_for_named_nodes(fickle: Any, hand: Any, opened: Any) -> None:
    """An operator would be told that the next collection removes it, and see that none does, while a frozen node holds up the ring."""
    async with opened(fickle, "hotline", collect_s=0) as store, opened(fickle, "unit 7", collect_s=0) as frozen:
        fire = store.topic("fire")
        await fire.register(retention_s=2.0)
        await fire.publish(b"1")
        for one in (store, frozen):
            await one.topic("crash").subscribe(60.0, id=one.name)  # so that it is in the ring
        await store.collect()
        assert [hold.waits_for for hold in (await store.holders("fire"))["fire"]] == [()], "it has not expired"
        frozen._ring._task.cancel()
        hand.move(11)
        await store._ring.turn(fresh=True)
        await store.collect("fire")
        (hold,) = (await store.holders("fire"))["fire"]
        assert (hold.kind, hold.first, hold.waits_for) == ("retention", 1, ("unit 7",))
        hand.move(60)  # the frozen node is silent
        await store.collect("fire")
        await store.collect("fire")
        assert (await store.holders("fire"))["fire"] == []
