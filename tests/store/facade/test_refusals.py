"""What a store must refuse, because taking it would lose or hide values: on every back end, through the outbox, with and without await."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import antiphon.sync
from antiphon.errors import AntiphonError, InvalidName, InvalidOption, UsageError
from antiphon.store import Queued, Store


async def everything(store: Store, topic: str) -> list[tuple[bytes, str]]:
    return [(bytes(item.data), item.key) for item in await store.topic(topic).peek()]


# --- keys ---------------------------------------------------------------------------------------------------------------------------


async def test_keys_are_for_mutable_topics_and_all_of_their_values(backend: Any, opened: Any) -> None:
    """A position without a ship would replace the last such; a key in a log would replace nothing, and its publisher believe it does."""
    async with opened(backend) as store:
        where, log = store.topic("where"), store.topic("log")
        await where.register(mutable=True)
        with pytest.raises(InvalidOption, match=r"'where' is mutable: .*key="):
            await where.publish(b"nowhere")
        with pytest.raises(InvalidOption, match="'where' is mutable"):
            await where.publish_many([b"nowhere", b"either"])
        with pytest.raises(InvalidOption, match="each of the values"):
            await where.publish_many([b"a", b"nowhere"], keys=["a", ""])
        for number in (1, 2):
            with pytest.raises(InvalidOption, match=r"'log' is not mutable.*register\(mutable=True\)"):
                await log.publish(b"value", key="key")
            with pytest.raises(InvalidOption, match="'log' is not mutable"):
                await log.publish_many([b"value"], keys=["key"])
            await log.publish(b"%d" % number)
        await where.publish(b"here", key="a")
        await log.publish_many([b"3"], keys=[""])
        assert await everything(store, "where") == [(b"here", "a")]
        assert await everything(store, "log") == [(b"1", ""), (b"2", ""), (b"3", "")]


async def test_another_program_has_decided_what_the_topic_is(backend: Any, opened: Any, url: str) -> None:
    """Only the program that made the topic would be told."""
    async with opened(backend) as store:
        await store.topic("where").register(mutable=True, shared=True)
    from antiphon.store.opening import backend_for

    if url.startswith("memory:"):
        url = backend.url
    async with opened(backend_for(url), "other") as store:
        with pytest.raises(InvalidOption, match="'where' is mutable"):
            await store.topic("where").publish(b"nowhere")


async def test_one_who_is_refused_takes_nobody_with_it(backend: Any, opened: Any) -> None:
    """Values that are published at once share a batch: one wrong call would fail all."""
    async with opened(backend) as store:
        where = store.topic("where")
        await where.register(mutable=True)
        await where.release()  # so that the kind of the topic is asked for together with the right to publish
    async with opened(backend if backend.url.startswith("memory:") else type(backend)(backend.url), "hotline") as store:
        where = store.topic("where")
        calls = [where.publish(b"%d" % n, key=f"{n}" if n % 3 else "") for n in range(1, 10)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(outcome, InvalidOption) for outcome in outcomes] == [n % 3 == 0 for n in range(1, 10)]
        assert [key for _, key in await everything(store, "where")] == ["1", "2", "4", "5", "7", "8"]


async def test_the_outbox_refuses_the_same(fickle: Any, opened: Any, tmp_path: Path) -> None:
    """What is refused while the store answers would be acknowledged while it does not, and never be sent."""
    async with opened(fickle, outbox=tmp_path / "box") as store:
        where, log, unknown = store.topic("where"), store.topic("log"), store.topic("unknown")
        await where.register(mutable=True)
        await log.publish(b"1")
        fickle.down = True
        for _ in range(2):
            with pytest.raises(InvalidOption, match="'where' is mutable"):
                await where.publish(b"nowhere")
            with pytest.raises(InvalidOption, match="'log' is not mutable"):
                await log.publish(b"value", key="key")
            assert isinstance(await where.publish(b"here", key="a"), Queued)
            assert isinstance(await log.publish(b"2"), Queued)
        # Nobody knows what this one is: but not both.
        assert isinstance(await unknown.publish(b"3"), Queued)
        with pytest.raises(InvalidOption, match="without keys wait"):
            await unknown.publish(b"4", key="key")
    async with opened(fickle, outbox=tmp_path / "box") as store:  # started anew, and still out of reach
        with pytest.raises(InvalidOption, match="'where' is mutable"):
            await store.topic("where").publish(b"nowhere")
        with pytest.raises(InvalidOption, match="'log' is not mutable"):
            await store.topic("log").publish(b"value", key="key")
        fickle.down = False
        async with asyncio.timeout(20.0):
            while any(store.waiting_in_outbox(topic) for topic in ("where", "log", "unknown")):
                await asyncio.sleep(0.01)
        assert await everything(store, "where") == [(b"here", "a")]
        assert await everything(store, "log") == [(b"1", ""), (b"2", ""), (b"2", "")]


async def test_what_turns_out_wrong_when_it_is_sent_stays_and_is_told(fickle: Any, opened: Any, tmp_path: Path) -> None:
    """A value whose topic was not known when it was queued would be written where it does not belong, or vanish."""
    async with opened(fickle, "boss") as store:
        await store.topic("where").register(mutable=True, shared=True)
    async with opened(fickle, "unit", outbox=tmp_path / "box") as store:
        fickle.down = True
        assert isinstance(await store.topic("where").publish(b"nowhere"), Queued)
        fickle.down = False
        async with asyncio.timeout(20.0):
            while "is mutable" not in str(store.stats()["outbox"]):
                await asyncio.sleep(0.01)
        assert store.waiting_in_outbox("where") == 1
        assert await everything(store, "where") == []


@pytest.mark.parametrize("key", [7, None, b"key", "k" * 257, "ü" * 129, "\ud800"])
async def test_keys_that_are_none(backend: Any, opened: Any, key: Any) -> None:
    """A back end would fail in its own words, or write another key."""
    async with opened(backend) as store:
        where = store.topic("where")
        await where.register(mutable=True)
        for call in (where.publish(b"x", key=key), where.publish_many([b"x"], keys=[key])):
            with pytest.raises(InvalidName):
                await call
        with pytest.raises(InvalidOption, match="give a list"):
            await where.publish_many([b"x", b"y", b"z"], keys="key")
        assert await everything(store, "where") == []


# --- where a subscriber begins ------------------------------------------------------------------------------------------------------


async def test_a_start_that_is_not_there(backend: Any, opened: Any, filled: Any) -> None:
    """Values 3 to 99 would be passed over in silence when they come."""
    async with opened(backend) as store:
        crash = await filled(store, 2)
        for start in (3, 99, -1, True, 1.0, "middle", 1 << 70):
            with pytest.raises(InvalidOption, match="start"):
                await crash.subscribe(id="s", start=start)
        with pytest.raises(InvalidOption, match="2 values"):
            await crash.subscribe(id="s", start=99)
        assert await crash.subscribers() == []
        with pytest.raises(InvalidOption, match="start"):
            await store.topic("not yet").subscribe(id="s", start=1)
        late = await crash.subscribe(id="late", start=2)
        early = await crash.subscribe(id="early", start=0)
        await store.topic("not yet").subscribe(id="s", start=0)
        await crash.publish(b"3")
        assert (await late.read(20)).seq == 3
        assert (await early.read(20)).seq == 1
        await late.close()
        again = await crash.subscribe(id="late", start=99)  # of a new one: this one goes on where it was
        assert again.position == 2


# --- own numbers --------------------------------------------------------------------------------------------------------------------


async def test_values_are_not_counted_where_numbers_are_given(backend: Any, opened: Any) -> None:
    """The next line of the file would have the number of a value that was counted, be acknowledged as its repeat, and be nowhere."""
    async with opened(backend) as store:
        lines = store.topic("lines")
        await lines.publish(b"5", number=5)
        for _ in range(2):
            with pytest.raises(UsageError, match="for all values of a topic or for none"):
                await lines.publish(b"counted")
        with pytest.raises(UsageError, match="for all values of a topic or for none"):
            await lines.publish_many([b"counted", b"too"])
        await lines.publish(b"6", number=6)
        await lines.publish(b"5", number=5)  # a repeat
        assert await everything(store, "lines") == [(b"5", ""), (b"6", "")]


async def test_both_at_once(backend: Any, opened: Any) -> None:
    """Of two calls under way, one with a number and one without, one would be acknowledged as a repeat of the other."""
    async with opened(backend) as store:
        for order in (0, 1):
            topic = store.topic(f"t{order}")
            calls = [topic.publish(b"said", number=1), topic.publish(b"counted")]
            outcomes = await asyncio.gather(*(calls if order else calls[::-1]), return_exceptions=True)
            refused = [outcome for outcome in outcomes if isinstance(outcome, UsageError)]
            assert len(refused) == 1, outcomes
            assert len(await everything(store, topic.name)) == 1


async def test_a_number_that_goes_back(backend: Any, opened: Any) -> None:
    """A line that was left out and comes later would be acknowledged as a repeat, and be nowhere."""
    async with opened(backend) as store:
        lines = store.topic("lines")
        await lines.publish_many([b"5", b"6"], number=5)
        for number, count in ((3, 1), (4, 2), (4, 5)):
            with pytest.raises(UsageError, match="numbers grow"):
                await lines.publish_many([b"late"] * count, number=number)
        outcomes = await asyncio.gather(
            lines.publish(b"9", number=9), lines.publish(b"8", number=8), lines.publish(b"10", number=10), return_exceptions=True
        )
        assert [isinstance(outcome, UsageError) for outcome in outcomes] == [False, True, False]
        await lines.publish_many([b"5", b"6"], number=5)  # what was published before is repeated
        assert [data for data, _ in await everything(store, "lines")] == [b"5", b"6", b"9", b"10"]
        for number in (0, -1, True, "7", 1.5):
            with pytest.raises(InvalidOption, match="number"):
                await lines.publish(b"x", number=number)


async def test_what_was_cancelled_is_not_taken_for_another(fickle: Any, opened: Any) -> None:
    """A value that was counted, sent and given up may be there: another under its number would be acknowledged and be nowhere."""
    async with opened(fickle) as store:
        topic = store.topic("log")
        await topic.register()
        fickle.faults["publish"].append("hangs")
        cancelled = asyncio.create_task(topic.publish(b"given up"))
        async with asyncio.timeout(10.0):
            while not fickle.calls["publish"]:
                await asyncio.sleep(0.001)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        with pytest.raises(UsageError, match="for all values of a topic or for none"):
            await topic.publish(b"said", number=1)


async def test_numbers_in_the_outbox(fickle: Any, opened: Any, tmp_path: Path) -> None:
    """The same rules would not hold while the store is away."""
    async with opened(fickle, outbox=tmp_path / "box") as store:
        fickle.down = True
        lines = store.topic("lines")
        assert isinstance(await lines.publish(b"5", number=5), Queued)
        with pytest.raises(UsageError, match="for all values of a topic or for none"):
            await lines.publish(b"counted")
        with pytest.raises(UsageError, match="numbers grow"):
            await lines.publish(b"3", number=3)
        assert isinstance(await lines.publish(b"6", number=6), Queued)
        fickle.down = False
        async with asyncio.timeout(20.0):
            while store.waiting_in_outbox("lines"):
                await asyncio.sleep(0.01)
        assert [data for data, _ in await everything(store, "lines")] == [b"5", b"6"]


async def test_a_refused_call_decides_nothing(backend: Any, opened: Any) -> None:
    """Whoever was refused once could publish in no other way either."""
    async with opened(backend, "boss") as boss:
        await boss.topic("taken").publish(b"1")
        async with opened(backend if backend.url.startswith("memory:") else type(backend)(backend.url), "other") as store:
            topic = store.topic("taken")
            with pytest.raises(AntiphonError):
                await topic.publish(b"said", number=7)
            await topic.register(takeover=True)
            await topic.publish(b"counted")


# --- without await ------------------------------------------------------------------------------------------------------------------


def test_the_same_without_await(url: str) -> None:
    """Programs without an event loop would be left with the holes."""
    with antiphon.sync.open_store(url, name="hotline") as store:
        where, log = store.topic("where"), store.topic("log")
        where.register(mutable=True)
        log.publish_many([b"1", b"2"], number=1)
        refusals: list[tuple[type[AntiphonError], Callable[[], Any]]] = [
            (InvalidOption, lambda: where.publish(b"nowhere")),
            (InvalidOption, lambda: log.publish(b"x", key="key", number=3)),
            (InvalidOption, lambda: log.subscribe(start=99)),
            (UsageError, lambda: log.publish(b"counted")),
        ]
        for kind, call in refusals:
            with pytest.raises(kind):
                call()
        log.publish(b"3", number=3)
        assert [item.data for item in log.peek()] == [b"1", b"2", b"3"]
