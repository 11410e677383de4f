"""Subscriptions: every value that is due once and in order, every other number told, and a continuation that only one holder moves."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from antiphon.errors import InvalidName, InvalidOption, StoreUnreachable, TimedOut, UsageError
from antiphon.model.events import StoreLost, StoreRestored
from antiphon.store import Gap, Value
from antiphon.store.contact import EVENT_LIMIT

# -- reading -------------------------------------------------------------------------------------------------------------------


async def test_values_are_read_in_order_in_every_way_of_reading(opened: Any, backend: Any, filled: Any) -> None:
    """A program that reads one value and then the rest in batches would miss some, or read some twice."""
    async with opened(backend) as store:
        topic = await filled(store, 3_000)
        subscription = await topic.subscribe()
        read = [await subscription.read(20), await anext(subscription)]
        read += await subscription.read_many(5, 20)
        async for batch in subscription.batches(limit=100):
            assert len(batch) <= 100
            read += batch
            if len(read) >= 2_000:
                break
        async for item in subscription:
            read.append(item)
            if len(read) == 3_000:
                break
        assert [item.seq for item in read] == list(range(1, 3_001))
        assert [item.data for item in read] == [b"%d" % seq for seq in range(1, 3_001)]
        assert store.stats()["read"] == 3_000


async def test_a_reader_waits_for_what_is_not_published_yet(opened: Any, backend: Any) -> None:
    """A subscriber would have to ask again and again, or never hear of what comes later."""
    async with opened(backend) as store:
        subscription = await store.topic("crash").subscribe()  # before anybody has published
        with pytest.raises(TimedOut, match="nothing new"):
            await subscription.read(timeout=0.02)
        reading = asyncio.create_task(subscription.read(30))
        await asyncio.sleep(0.01)
        await store.topic("crash").publish(b"now")
        assert (await reading).data == b"now"


async def test_several_readers_share_the_values(opened: Any, backend: Any, filled: Any) -> None:
    """Workers that read one subscription would process a value twice, or never."""
    async with opened(backend, prefetch_values=16) as store:
        topic = await filled(store, 500)
        subscription = await topic.subscribe()
        read: list[list[int]] = [[], [], []]

        async def work(mine: list[int]) -> None:
            async for item in subscription:
                mine.append(item.seq)
                await asyncio.sleep(0)

        workers = [asyncio.create_task(work(mine)) for mine in read]
        while sum(map(len, read)) < 500:
            await asyncio.sleep(0.001)
        await subscription.close()
        await asyncio.gather(*workers)
        assert sorted(seq for mine in read for seq in mine) == list(range(1, 501))
        assert all(mine == sorted(mine) for mine in read)


async def test_a_reader_that_is_cancelled_loses_nothing(opened: Any, backend: Any) -> None:
    """A time-out around a read would swallow a value now and then."""
    async with opened(backend) as store:
        topic = store.topic("crash")
        subscription = await topic.subscribe()
        read: list[int] = []
        published = 0
        while len(read) < 60:
            reading = asyncio.create_task(subscription.read_many(3, 20))
            if published < 60:
                await topic.publish(b"x")
                published += 1
            await asyncio.sleep(0 if published % 3 else 0.002)
            reading.cancel()
            outcome = (await asyncio.gather(reading, return_exceptions=True))[0]
            read += [item.seq for item in outcome] if isinstance(outcome, list) else []
        assert read == list(range(1, 61))


async def test_where_a_new_subscriber_begins(opened: Any, backend: Any, filled: Any, seqs: Any) -> None:
    """Somebody who wants only what is new would be flooded with the past; or miss what comes between asking and reading."""
    async with opened(backend) as store:
        topic = await filled(store, 5)
        latest, third = await topic.subscribe(start="latest"), await topic.subscribe(start=2)
        await topic.publish(b"6")
        assert await seqs(latest, 1) == [6]
        assert await seqs(third, 4) == [3, 4, 5, 6]
        assert third.lag == 4
        assert (latest.position, latest.state, latest.epoch) == (5, b"", 1)


async def test_what_is_read_ahead_is_bounded(opened: Any, fickle: Any, filled: Any, seqs: Any) -> None:
    """A subscriber that is slow would fill its memory with the whole topic."""
    async with opened(fickle, prefetch_values=20) as store:
        topic = await filled(store, 1_000)
        subscription = await topic.subscribe()
        assert await seqs(subscription, 1) == [1]
        await asyncio.sleep(0.05)
        assert subscription.prefetched <= 20
        assert store.stats()["prefetched"] == subscription.prefetched
        assert await seqs(subscription, 999) == list(range(2, 1_001))
    async with opened(fickle, prefetch_bytes=1_000) as store:
        topic = store.topic("large")
        await topic.publish_many([bytes(100)] * 500)
        subscription = await topic.subscribe()
        assert await seqs(subscription, 64) == list(range(1, 65))  # as many as are asked for before their size is known
        await asyncio.sleep(0.05)
        assert subscription.prefetched <= 10
        assert await seqs(subscription, 436) == list(range(65, 501))


# -- gaps and leases -----------------------------------------------------------------------------------------------------------


async def test_what_was_collected_is_told(opened: Any, fickle: Any, hand: Any, filled: Any, seqs: Any) -> None:
    """A subscriber that was away for too long would never know that it missed something."""
    async with opened(fickle, node_timeout_s=0.05) as store:
        topic = await filled(store, 5)
        short = await topic.subscribe(lease=10, id="short")
        assert await seqs(short, 2) == [1, 2]
        await short.close()
        hand.move(11)
        await topic.publish_many([b"6", b"7"])
        collected = await store.collect()
        assert collected["crash"].floor == 5
        again = await topic.subscribe(id="short")
        assert await seqs(again, 3) == [Gap(1, 5, "collected"), 6, 7]
        assert await topic.at(3) == Gap(3, 3, "collected")
        assert store.stats()["gaps"] == 1


async def test_who_begins_with_what_is_gone_is_told(opened: Any, backend: Any, filled: Any, seqs: Any) -> None:
    """Whoever reads on after the last number it knows, under a new id, would not know that there was more."""
    async with opened(backend) as store:
        topic = await filled(store, 7)
        reader = await topic.subscribe(id="done")
        await reader.done(5)
        await store.collect("crash")
        for start, told in ((0, [Gap(1, 5, "collected")]), (3, [Gap(4, 5, "collected")]), (5, []), ("earliest", [])):
            late = await topic.subscribe(id=f"late {start}", start=start)
            assert await seqs(late, len(told) + 2) == [*told, 6, 7]
            assert late.position == 5
            again = await topic.subscribe(id=f"late {start}", start=start)
            assert await seqs(again, 2) == [6, 7], "it was told, or has come back: it begins where it was"


async def test_values_older_than_the_lease_are_skipped_exactly(opened: Any, fickle: Any, hand: Any, seqs: Any) -> None:
    """A warning about a crash of yesterday would be acted on today; or one that is still due would be dropped a moment early."""
    async with opened(fickle) as store:
        topic = store.topic("crash")
        subscription = await topic.subscribe(lease=10)
        await topic.publish(b"old")
        hand.move(5)
        await topic.publish(b"young")
        hand.move(5)
        assert await seqs(subscription, 1) == [1], "due to the last nanosecond"
        await topic.publish(b"younger")
        hand.move(5)
        hand.moment += 1
        assert await seqs(subscription, 1) == [3]
        assert subscription.expired == 1
        assert store.stats()["expired"] == 1


async def test_a_lease_is_judged_when_the_value_is_delivered(opened: Any, fickle: Any, hand: Any, filled: Any, seqs: Any) -> None:
    """What was fresh when it was read ahead would be delivered long after it is of any use."""
    async with opened(fickle) as store:
        topic = await filled(store, 10)
        subscription = await topic.subscribe(lease=10)
        assert await seqs(subscription, 1) == [1]
        assert subscription.prefetched == 9
        hand.move(11)
        await topic.publish(b"fresh")
        assert await seqs(subscription, 1) == [11]
        assert subscription.expired == 9
        await subscription.done_one([1, 11])
        assert subscription.position == 11, "what expired is not waited for"


async def test_somebody_in_a_hurry_gets_what_is_there(opened: Any, fickle: Any, filled: Any, seqs: Any) -> None:
    """A reader that waits only for a moment would never be given what lies ready, because the store's time takes longer to ask for."""
    time = fickle._backend.time

    async def slow_time() -> Any:
        await asyncio.sleep(0.02)
        return await time()

    async with opened(fickle) as store:  # which asks for the time with every read
        topic = await filled(store)
        subscription = await topic.subscribe()
        await seqs(subscription, 1)
        fickle._backend.time = slow_time
        read: list[int] = []
        while len(read) < 9:
            with suppress(TimedOut):
                read.append((await subscription.read(timeout=0.005)).seq)
        assert read == list(range(2, 11))
    async with opened(fickle, clock_s=0.001) as store:
        subscription = await store.topic("crash").subscribe(lease=3600)
        await seqs(subscription, 1)
        await asyncio.sleep(0.01)
        fickle.faults["time"] += ["hangs"] * 100
        assert (await subscription.read(timeout=0)).seq == 2, "with an hour to go nobody need ask what time it is"


async def test_renewing_a_lease_counts_at_once(opened: Any, fickle: Any, hand: Any, filled: Any, seqs: Any) -> None:
    """Somebody who asks for more time would lose what is due under the new lease."""
    async with opened(fickle) as store:
        topic = await filled(store, 3)
        subscription = await topic.subscribe(lease=10, id="me")
        await seqs(subscription, 1)
        await subscription.renew(100)
        hand.move(50)
        assert await seqs(subscription, 2) == [2, 3]
        again = await topic.subscribe(id="me")
        assert again.lease == 100.0
        assert (await topic.subscribe(lease=7.5, id="me")).lease == 7.5


async def test_holes_are_told_exactly_and_once(opened: Any, backend: Any, url: str, filled: Any, seqs: Any) -> None:
    """What was marked done, and then removed, would be reported as lost; or a lost value passed over."""
    async with opened(backend) as store:
        topic = await filled(store)
        subscription = await topic.subscribe(id="me")
        await seqs(subscription, 10)
        await subscription.done_one([3, 4, 8])
        await subscription.close()
        await store.collect()  # what the only subscriber has marked may go
        await topic.erase([6])
        again = await topic.subscribe(id="me")
        assert await seqs(again, 7) == [1, 2, 5, Gap(6, 6, "removed"), 7, 9, 10]


# -- the store is out of reach -------------------------------------------------------------------------------------------------


async def test_reading_goes_on_when_the_store_does(opened: Any, fickle: Any, filled: Any, seqs: Any) -> None:
    """A short outage would end every subscription, or repeat or lose values around it."""
    async with opened(fickle, prefetch_values=20) as store:
        topic = await filled(store, 100)
        subscription = await topic.subscribe()
        read = await seqs(subscription, 1)
        await asyncio.sleep(0.02)
        fickle.down = True
        read += await seqs(subscription, subscription.prefetched)
        with pytest.raises(TimedOut, match="does not answer"):
            await subscription.read(timeout=0.05)
        assert store.stats()["trouble"]
        assert int(str(store.stats()["unreachable"])) > 0
        fickle.down = False
        fickle.faults["take"] += ["lost", "lost"]
        read += await seqs(subscription, 100 - len(read))
        assert read == list(range(1, 101))
        assert not store.stats()["trouble"]


async def test_a_store_that_cannot_be_reached_is_an_error_within_the_time(opened: Any, fickle: Any, filled: Any) -> None:
    """Whoever subscribes would hang."""
    async with opened(fickle, timeout_s=0.1) as store:
        topic = await filled(store)
        subscription = await topic.subscribe()
        fickle.down = True
        with pytest.raises(StoreUnreachable):
            await topic.subscribe()
        with pytest.raises(StoreUnreachable):
            await subscription.done(1)
        with pytest.raises(StoreUnreachable):
            await subscription.unsubscribe()
        with pytest.raises(StoreUnreachable):
            await subscription.renew(60)
    fickle.down = True
    with pytest.raises(StoreUnreachable):
        async with opened(fickle, timeout_s=0.1):
            pass


# -- bad input and cancelling --------------------------------------------------------------------------------------------------


async def test_what_makes_no_sense_is_refused(opened: Any, backend: Any, filled: Any, seqs: Any) -> None:
    """A lease of nonsense would keep values for ever, or for nobody; a wrong number would skip values that nobody has seen."""
    async with opened(backend) as store:
        topic = await filled(store)
        subscription = await topic.subscribe()
        for number in (1 << 62, 1 << 70):  # beyond what some stores can write down: the same on all
            with pytest.raises(InvalidOption):
                await topic.subscribe(start=number)
        refused: list[tuple[type[Exception], Any]] = [
            *((InvalidOption, topic.subscribe(lease=lease)) for lease in (0, -1, float("nan"), float("inf"), 1e12, "long", True)),
            *((InvalidOption, topic.subscribe(start=start)) for start in (-1, "first", 1.5, None, True)),
            *((InvalidName, topic.subscribe(id=id)) for id in ("", " x", "x" * 129, 7)),
            *((InvalidOption, subscription.renew(lease)) for lease in (0, float("nan"), None)),
            *((InvalidOption, subscription.done(seq)) for seq in (-1, "1", 1.0, True, None)),
            *((InvalidOption, subscription.done_one(seqs)) for seqs in (-1, 0, None, 1.5, ["1"], [True], [1, "a"], [1, 1.5, 2])),
            *((InvalidOption, subscription.read_many(limit)) for limit in (0, -1, 1.5, True)),
            *((InvalidOption, subscription.read(timeout=timeout)) for timeout in (float("nan"), "5", True)),
            *((InvalidOption, subscription.done(1, timeout=timeout)) for timeout in (float("nan"), "5")),
            *((InvalidOption, topic.publish(b"x", timeout=timeout)) for timeout in (float("nan"), "5")),
            *((TimedOut, topic.at(99, timeout=timeout)) for timeout in (-(10**400), -float("inf"), -1)),
            (UsageError, subscription.done_one([11])),
        ]
        for kind, call in refused:
            with pytest.raises(kind):
                await call
        with pytest.raises(InvalidOption):
            subscription.batches(limit=0)
        assert [info.id for info in await topic.subscribers()] == [subscription.id]
        assert await seqs(subscription, 10) == list(range(1, 11))


@pytest.mark.parametrize("call", ["publish", "publish_many", "erase", "register", "release", "subscribe", "subscribers", "info", "at"])
async def test_cancelling_a_call_of_a_topic_leaves_it_whole(opened: Any, backend: Any, call: str, filled: Any, seqs: Any) -> None:
    """A program that times out would leave a topic that can no longer be written or read."""
    arguments: dict[str, Any] = {"publish": (b"x",), "publish_many": ([b"x", b"y"],), "erase": ([1],), "at": (2,)}
    async with opened(backend) as store:
        topic = await filled(store)
        for turns in range(12):
            task = asyncio.create_task(getattr(topic, call)(*arguments.get(call, ())))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        ack = await topic.publish(b"last")
        assert (await topic.at(ack.seq)).data == b"last"
        info = await topic.info()
        assert info.last == ack.seq
        subscription = await topic.subscribe(start=10)
        items = await seqs(subscription, ack.seq - 10)
        assert items == list(range(11, ack.seq + 1))


@pytest.mark.parametrize("call", ["done", "done_one", "renew", "unsubscribe", "read", "read_many"])
async def test_cancelling_a_call_of_a_subscription_leaves_it_whole(opened: Any, backend: Any, call: str, filled: Any, seqs: Any) -> None:
    """A program that times out would find its subscription fenced by itself, or a value gone."""
    arguments: dict[str, Any] = {"done": (1,), "done_one": (2,), "renew": (60,), "read": (5,), "read_many": (2, 5)}
    async with opened(backend) as store:
        topic = await filled(store, 40)
        subscription = await topic.subscribe(id="me")
        read = await seqs(subscription, 2)
        for turns in range(8):
            task = asyncio.create_task(getattr(subscription, call)(*arguments.get(call, ())))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            outcome = (await asyncio.gather(task, return_exceptions=True))[0]
            if isinstance(outcome, list | Value):
                read += [item.seq for item in ([outcome] if isinstance(outcome, Value) else outcome)]
        if call == "unsubscribe":
            subscription = await topic.subscribe(id="me")
            assert (subscription.position, await seqs(subscription, 1)) == (0, [1])
            return
        read += await seqs(subscription, 40 - len(read))
        assert read == list(range(1, 41))
        await subscription.done(40, b"all")
        assert (subscription.position, subscription.state, subscription.lag) == (40, b"all", 0)


async def test_a_subscription_says_that_it_has_lost_the_store(opened: Any, fickle: Any, filled: Any) -> None:
    """A program would take a store that is away for a topic in which nothing happens."""
    async with opened(fickle, lost_s=0.05, retry_max_s=0.01) as store:
        topic = await filled(store, 2)
        subscription = await topic.subscribe(id="s")
        events = subscription.events()
        items = [await subscription.read(20) for _ in range(2)]
        assert subscription.reachable
        assert store.stats()["subscriptions_unreachable"] == 0
        fickle.down = True
        lost = await anext(events)
        assert isinstance(lost, StoreLost)
        assert "cable" in lost.why
        assert not subscription.reachable
        assert store.stats()["subscriptions_unreachable"] == 1
        assert "the store does not answer" in repr(subscription)
        late = subscription.events()
        assert await anext(late) == lost, "a listener that comes during the outage is told of it"
        fickle.down = False
        for listener in (events, late):
            restored = await anext(listener)
            assert isinstance(restored, StoreRestored)
            assert restored.away_s > 0
        assert subscription.reachable
        await topic.publish(b"3")
        items.append(await subscription.read(20))
        assert [item.data for item in items] == [b"1", b"2", b"3"], "values and nothing else"
        await subscription.close()
        assert [event async for event in events] == []
        assert [event async for event in subscription.events()] == []


async def test_a_watcher_of_the_store_that_nothing_refers_to_is_kept(opened: Any, fickle: Any, filled: Any) -> None:
    """`create_task(watch(subscription.events()))` would end with the first garbage collection, and the outage be reported to nobody."""
    seen: list[type] = []

    def watch(events: AsyncIterator[Any]) -> None:
        async def read() -> None:
            async for event in events:
                seen.append(type(event))

        asyncio.create_task(read())  # noqa: RUF006

    async with opened(fickle, lost_s=0.05, retry_max_s=0.01) as store:
        subscription = await (await filled(store, 1)).subscribe(id="s")
        await subscription.read(20)
        watch(subscription.events())
        other = subscription.events()
        await asyncio.sleep(0)
        gc.collect()
        fickle.down = True
        assert isinstance(await anext(other), StoreLost)
        fickle.down = False
        assert isinstance(await anext(other), StoreRestored)
        await asyncio.sleep(0)
    assert seen == [StoreLost, StoreRestored]


async def test_a_listener_that_does_not_read_loses_the_oldest_events(opened: Any, fickle: Any, filled: Any) -> None:
    """A store that comes and goes for days would fill the memory of a program that reads no events."""
    async with opened(fickle) as store:
        subscription = await (await filled(store, 1)).subscribe(id="s")
        events = subscription.events()
        for number in range(EVENT_LIMIT + 3):
            subscription._contact_feed.tell(StoreRestored(float(number)))
        await subscription.close()
        assert [event.away_s async for event in events] == [float(number) for number in range(3, EVENT_LIMIT + 3)]
        assert events.missed == 3


async def test_a_lost_answer_is_no_outage_of_a_subscription(opened: Any, fickle: Any, filled: Any) -> None:
    """Every answer that is lost on the way would be told as the loss of the store."""
    async with opened(fickle, lost_s=10.0) as store:
        topic = await filled(store, 2)
        subscription = await topic.subscribe(id="s")
        events = subscription.events()
        fickle.faults["take"].extend(["lost"] * 3)
        await topic.publish(b"3")
        assert [(await subscription.read(20)).data for _ in range(3)] == [b"1", b"2", b"3"]
        await subscription.close()
        assert [event async for event in events] == []


async def test_events_about_the_store_that_nobody_reads_are_bounded(opened: Any, fickle: Any, filled: Any) -> None:
    """A listener that is kept and not read would fill the memory while the store comes and goes."""
    async with opened(fickle, lost_s=0.001, retry_s=0.0005, retry_max_s=0.001) as store:
        topic = await filled(store, 1)
        subscription = await topic.subscribe(id="s")
        events = subscription.events()
        for _ in range(40):
            for down in (True, False):
                fickle.down = down
                while subscription.reachable == down:
                    await asyncio.sleep(0.0005)
        await subscription.close()
        kept = [event async for event in events]
        assert (len(kept), events.missed) == (64, 16)
        assert isinstance(kept[-1], StoreRestored)
