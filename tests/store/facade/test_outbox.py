"""Publishing with an outbox: while the store does not answer values wait on this machine's disk, and then go in order, each once."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import BadStore, StoreUnreachable, TopicTaken
from antiphon.store import Queued, Store, Value
from antiphon.store.draining import Draining
from antiphon.store.memory import MemoryBackend


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draining tries again at once."""
    defaults = dict(Draining.__init__.__kwdefaults__ or {})
    monkeypatch.setattr(Draining.__init__, "__kwdefaults__", {**defaults, "retry_s": 0.001, "retry_limit_s": 0.01})


async def values(store: Store, topic: str = "crash") -> list[Any]:
    info = await store.topic(topic).info()
    found = [await store.topic(topic).at(seq) for seq in range(1, info.last + 1)]
    return [item.data for item in found if isinstance(item, Value)]


async def emptied(store: Store, topic: str = "crash") -> None:
    while store.waiting_in_outbox(topic):
        await asyncio.sleep(0.002)


async def test_what_is_published_out_of_reach_arrives_in_order_and_once(opened: Any, fickle: Any, tmp_path: Path) -> None:
    """A node in the field would lose what it reported while the line was down, or report it twice, or out of order."""
    async with opened(fickle, outbox=tmp_path / "outbox.db") as store:
        topic = store.topic("crash")
        assert (await topic.publish(b"0")).seq == 1
        fickle.down = True
        acks = [await topic.publish(b"%d" % number) for number in range(1, 4)]
        acks += await asyncio.gather(topic.publish_many([b"4", b"5"]), topic.publish(b"6"))
        assert {type(ack) for ack in acks} == {Queued}
        assert store.waiting_in_outbox("crash") == 6
        assert store.stats()["queued"] == 6
        fickle.down = False
        await emptied(store)
        last = await topic.publish(b"7")
        assert last.seq == 8
        assert await values(store) == [b"%d" % number for number in range(8)]


@pytest.mark.parametrize("fault", ["lost", "unanswered"])
async def test_a_batch_that_may_have_been_written_keeps_its_numbers(opened: Any, fickle: Any, tmp_path: Path, fault: str) -> None:
    """The answer that was lost with the connection would make the value come twice, once from the outbox."""
    async with opened(fickle, outbox=tmp_path / "outbox.db") as store:
        topic = store.topic("crash")
        await topic.publish(b"0")
        fickle.faults["publish"] += [fault] + ["lost"] * 1_000
        assert isinstance(await topic.publish_many([b"1", b"2"]), Queued)
        fickle.faults.clear()
        await topic.publish(b"3")
        await emptied(store)
        await topic.publish(b"4")
        assert await values(store) == [b"0", b"1", b"2", b"3", b"4"]


async def test_half_a_publish_in_the_outbox_is_worth_no_more_than_that(opened: Any, fickle: Any, tmp_path: Path) -> None:
    """Somebody would be told that all is in the store while half of it is on this machine alone."""
    fickle._backend.batch_values = 10
    async with opened(fickle, outbox=tmp_path / "outbox.db") as store:
        topic = store.topic("crash")
        await topic.publish(b"first")
        fickle.faults["publish"] += ["", ""] + ["lost"] * 10_000
        ack = await topic.publish_many([b"%d" % number for number in range(50)])
        assert isinstance(ack, Queued)
        fickle.faults.clear()
        await emptied(store)
        await topic.publish(b"last")
        assert await values(store) == [b"first", *(b"%d" % number for number in range(50)), b"last"]


async def test_a_store_that_is_away_can_be_opened_with_an_outbox(opened: Any, fickle: Any, tmp_path: Path) -> None:
    """A node that starts in the field would not start at all."""
    fickle.down = True
    with pytest.raises(StoreUnreachable):
        async with opened(fickle, timeout_s=0.05):
            pass
    async with opened(fickle, outbox=tmp_path / "outbox.db") as store:
        topic = store.topic("crash")
        assert isinstance(await topic.publish(b"1"), Queued)
        with pytest.raises(StoreUnreachable, match="cable"):
            await topic.subscribe(timeout=0.05)
        with pytest.raises(StoreUnreachable):
            await topic.erase(1, timeout=0.05)
        fickle.down = False
        subscription = await topic.subscribe()
        assert (await subscription.read(30)).data == b"1"
        await emptied(store)
        assert (await topic.publish(b"2")).seq == 2


async def test_what_waits_is_there_after_a_restart(opened: Any, fickle: Any, tmp_path: Path) -> None:
    """Switching the node off in the field would lose what it had acknowledged."""
    async with opened(fickle, outbox=tmp_path / "outbox.db") as store:
        await store.topic("crash").publish(b"0")
        fickle.down = True
        assert isinstance(await store.topic("crash").publish_many([b"1", b"2"]), Queued)
    fickle.down = False
    async with opened(fickle, outbox=tmp_path / "outbox.db") as store:
        await store.topic("crash").publish(b"3")
        await emptied(store)
        assert await values(store) == [b"0", b"1", b"2", b"3"]


async def test_a_topic_that_another_took_meanwhile_waits_and_is_not_lost(opened: Any, fickle: Any, tmp_path: Path) -> None:
    """The outbox would fence the new publisher, or throw away what it cannot send."""
    async with opened(fickle, "ana", outbox=tmp_path / "outbox.db") as ana:
        await ana.topic("crash").publish(b"ana 1")
        fickle.down = True
        await ana.topic("crash").publish(b"ana 2")
        other = fickle._backend
        grant = await other.register("crash", "ben", takeover=True)
        fickle.down = False
        while "crash" not in ana.stats()["outbox"]["blocked"]:  # type: ignore[index]
            await asyncio.sleep(0.002)
        assert isinstance(await ana.topic("crash").publish(b"ana 3"), Queued)
        with pytest.raises(TopicTaken):
            await ana.topic("crash").register()
        await other.release(grant)
        await emptied(ana)
        assert await values(ana) == [b"ana 1", b"ana 2", b"ana 3"]


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_the_line_does_each_value_arrives_once_and_in_order(opened: Any, tmp_path: Path, fickle: Any, seed: int) -> None:
    """Some interleaving of outages, lost answers and restarts would lose, repeat or reorder a value."""
    rng = random.Random(seed)
    sent = 0
    for _ in range(4):
        async with opened(fickle, outbox=tmp_path / "outbox.db", outbox_s=0.01) as store:
            topic = store.topic("crash")
            for _ in range(25):
                fickle.down = rng.random() < 0.3
                fickle.faults["publish"].extend(rng.choices(["", "lost", "unanswered"], k=3))
                fickle.faults["register"].extend(rng.choices(["", "lost", "unanswered"], k=1))
                count = rng.choice([1, 1, 2, 5, 30])
                await topic.publish_many([b"%d" % (sent + at) for at in range(count)])
                sent += count
            fickle.down = rng.random() < 0.5
    fickle.down = False
    fickle.faults.clear()
    async with opened(fickle, outbox=tmp_path / "outbox.db") as store:
        await emptied(store)
        await store.topic("crash").publish(b"last")
        assert await values(store) == [*(b"%d" % number for number in range(sent)), b"last"]


async def test_a_file_that_is_no_outbox_is_refused(opened: Any, tmp_path: Path) -> None:
    """Somebody's notes would be overwritten, or taken for values to be sent."""
    notes = tmp_path / "notes.txt"
    notes.write_text("milk, bread, and a great deal of other things that make no database\n" * 100)
    with pytest.raises(BadStore):
        async with opened(MemoryBackend(), outbox=notes):
            pass
    async with opened(MemoryBackend("memory:outboxes"), "ana", outbox=tmp_path / "outbox.db"):
        with pytest.raises(BadStore):
            async with opened(MemoryBackend("memory:outboxes"), "ana", outbox=tmp_path / "outbox.db"):
                pass


async def test_a_program_that_is_run_for_each_value_sends_its_outbox(opened: Any, fickle: Any, tmp_path: Path) -> None:
    """What was queued once would wait for ever, and everything after it, though the store answers: each run ends before it is sent."""
    fickle.down = True
    async with opened(fickle, outbox=tmp_path / "outbox.db") as store:
        assert isinstance(await store.topic("crash").publish(b"0"), Queued)
    fickle.down = False
    for number in range(1, 4):
        async with opened(fickle, outbox=tmp_path / "outbox.db") as store:
            await store.topic("crash").publish(b"%d" % number)
    async with opened(fickle, outbox=tmp_path / "outbox.db") as store:
        assert store.waiting_in_outbox("crash") == 0
        assert await values(store) == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("taken", [True, False])
async def test_closing_does_not_wait_for_what_cannot_be_sent(opened: Any, fickle: Any, tmp_path: Path, taken: bool) -> None:
    """A program could not end, because another has the topic or the line is down."""
    async with opened(fickle, "other") as other, asyncio.timeout(60):
        await other.topic("crash").publish(b"mine")
        fickle.down = True
        store = await Store(fickle, name="unit", outbox=tmp_path / "outbox.db", settings=other.settings).open()
        await store.topic("crash").publish(b"0")
        fickle.down = not taken
        while taken and not store.stats()["outbox"]["blocked"]:  # type: ignore[index]
            await asyncio.sleep(0.002)
        await store.close(timeout=3_600)
        assert store.waiting_in_outbox("crash") == 1
