"""The continuation: what `done` promises, and who may go on under an id."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon.errors import Fenced, StoreFull, StoreUnreachable, TooLarge, UsageError
from antiphon.store.opening import backend_for

# -- the continuation ----------------------------------------------------------------------------------------------------------


async def test_whoever_comes_back_goes_on_where_it_was_done(opened: Any, backend: Any, url: str, filled: Any, seqs: Any) -> None:
    """After a crash a subscriber would lose what it had read and not processed, or process twice what was in its state."""
    async with opened(backend) as store:
        topic = await filled(store)
        subscription = await topic.subscribe(id="dispatcher")
        assert await seqs(subscription, 7) == [1, 2, 3, 4, 5, 6, 7]
        await subscription.done(4, b"four of them")
        assert (subscription.position, subscription.state, subscription.lag) == (4, b"four of them", 6)
    async with opened(backend_for(url)) as store:
        again = await store.topic("crash").subscribe(id="dispatcher")
        assert (again.position, again.state, again.epoch) == (4, b"four of them", 2)
        assert await seqs(again, 6) == [5, 6, 7, 8, 9, 10]


async def test_the_position_never_goes_back(opened: Any, backend: Any, filled: Any, seqs: Any) -> None:
    """A call that came late would make a subscriber read, and count, again what it was done with."""
    async with opened(backend) as store:
        topic = await filled(store)
        subscription = await topic.subscribe()
        await seqs(subscription, 10)
        await subscription.done(5, b"five")
        with pytest.raises(UsageError, match="go back"):
            await subscription.done(4, b"four")
        await subscription.done(5, b"five again")
        await subscription.done(5)
        assert (subscription.position, subscription.state) == (5, b"five again")
        with pytest.raises(UsageError, match="only 10 values"):
            await subscription.done(11)
        assert subscription.position == 5


async def test_what_is_done_unread_is_not_delivered(opened: Any, backend: Any, filled: Any, seqs: Any) -> None:
    """Somebody who decides to skip what has piled up would read it all the same."""
    async with opened(backend) as store:
        topic = await filled(store, 100)
        subscription = await topic.subscribe()
        assert await seqs(subscription, 1) == [1]
        await subscription.done(90)
        assert await seqs(subscription, 10) == list(range(91, 101))


async def test_calls_that_are_made_at_once_share_a_write(opened: Any, fickle: Any, filled: Any) -> None:
    """Each of a thousand quick steps would wait for the disk; or the state of an earlier one would win."""
    async with opened(fickle) as store:
        topic = await filled(store, 1_000)
        subscription = await topic.subscribe()
        await subscription.read_many(1_000, 20)
        before = fickle.calls["update"]
        await asyncio.gather(*(subscription.done(seq, b"%d" % seq) for seq in range(1, 1_001)))
        assert fickle.calls["update"] - before <= 3
        assert (subscription.position, subscription.state) == (1_000, b"1000")


async def test_single_values_are_done_in_any_order(opened: Any, backend: Any, url: str, filled: Any, seqs: Any) -> None:
    """Work that is finished out of order would be done again after a restart, or lost if the position were set to the last."""
    async with opened(backend) as store:
        topic = await filled(store)
        subscription = await topic.subscribe(id="pool")
        await seqs(subscription, 10)
        await subscription.done_one([7, 3, 5])
        await subscription.done_one(1, b"some")
        assert (subscription.position, subscription.lag) == (1, 6)
    async with opened(backend_for(url)) as store:
        again = await store.topic("crash").subscribe(id="pool")
        assert again.state == b"some"
        assert await seqs(again, 6) == [2, 4, 6, 8, 9, 10]
        await again.done_one([2, 6, 4])
        assert again.position == 7
        await again.done(9)
        await again.done_one(10)
        assert (again.position, again.lag) == (10, 0)


async def test_numbers_that_will_never_be_read_hold_nothing_up(opened: Any, backend: Any, filled: Any, seqs: Any) -> None:
    """One erased value would keep the position, and with it the collector, behind for ever."""
    async with opened(backend) as store:
        topic = await filled(store)
        await topic.erase([2, 5, 6])
        subscription = await topic.subscribe()
        await seqs(subscription, 9)
        for seq in (10, 9, 8, 7, 4, 3, 1):
            await subscription.done_one(seq)
        assert (subscription.position, subscription.lag) == (10, 0)


@pytest.mark.parametrize("fault", ["lost", "unanswered"])
async def test_a_continuation_that_is_not_answered_is_written_once(opened: Any, fickle: Any, fault: str, filled: Any, seqs: Any) -> None:
    """A lost answer would look as if somebody else had come in this one's place, and end the subscriber."""
    async with opened(fickle) as store:
        topic = await filled(store)
        subscription = await topic.subscribe(id="me")
        await seqs(subscription, 10)
        fickle.faults["update"] += [fault, fault]
        await subscription.done(3, b"three")
        assert (subscription.position, subscription.state) == (3, b"three")
        fickle.faults["update"] += [fault]
        await subscription.renew(60.0)
        fickle.faults["update"] += [fault]
        await subscription.done_one([5], b"five")
        assert (subscription.lease, subscription.lag) == (60.0, 6)


async def test_a_continuation_that_was_given_up_is_part_of_the_next(opened: Any, fickle: Any, filled: Any, seqs: Any) -> None:
    """After a time-out the subscriber would be fenced by its own late write, or go back behind it."""
    async with opened(fickle) as store:
        topic = await filled(store)
        subscription = await topic.subscribe(id="me")
        await seqs(subscription, 10)
        fickle.faults["update"] += ["unanswered"] + ["lost"] * 1_000
        with pytest.raises(StoreUnreachable):
            await subscription.done(3, b"three", timeout=0.03)
        fickle.faults.clear()
        await subscription.done_one([5])
        assert (subscription.position, subscription.state) == (3, b"three")
        fickle.faults["update"] += ["hangs"]
        hanging = asyncio.create_task(subscription.done(6, b"six"))
        await asyncio.sleep(0.01)
        hanging.cancel()
        await asyncio.gather(hanging, return_exceptions=True)
        fickle.faults["update"].clear()


async def test_one_in_a_hurry_does_not_end_the_write_of_the_others(opened: Any, fickle: Any, filled: Any, seqs: Any) -> None:
    """Whoever gave the store ten seconds would be told after a tenth of one that it does not answer."""
    async with opened(fickle) as store:
        topic = await filled(store)
        subscription = await topic.subscribe(id="me")
        await seqs(subscription, 10)
        fickle.faults["update"] += ["lost"] * 10_000
        hasty = asyncio.create_task(subscription.done(1, b"one", timeout=0.05))
        patient = asyncio.create_task(subscription.done(2, b"two", timeout=20.0))
        with pytest.raises(StoreUnreachable):
            await hasty
        await asyncio.sleep(0.05)
        assert not patient.done()
        fickle.faults.clear()
        await patient
        assert (subscription.position, subscription.state) == (2, b"two")


async def test_closing_does_not_swallow_that_it_was_cancelled(opened: Any, fickle: Any, filled: Any) -> None:
    """A program that is told to stop while it closes a subscription would go on with the next thing it has to do."""
    async with opened(fickle) as store:
        topic = await filled(store)
        for turns in range(6):
            subscription = await topic.subscribe(id="me")
            fickle.faults["update"] += ["hangs"]
            hanging = asyncio.create_task(subscription.done(0, b"state"))
            await asyncio.sleep(0)
            closing = asyncio.create_task(subscription.close())
            for _ in range(turns):
                await asyncio.sleep(0)
            if closing.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await closing
            await asyncio.gather(hanging, subscription.close(), return_exceptions=True)
            fickle.faults.clear()


async def test_a_state_that_is_refused_is_not_kept_in_mind(opened: Any, fickle: Any, filled: Any, seqs: Any) -> None:
    """One state for which there was no room would make every later one fail."""
    async with opened(fickle, state_bytes=100) as store:
        topic = await filled(store)
        subscription = await topic.subscribe(id="me")
        await seqs(subscription, 10)
        with pytest.raises(TooLarge, match="state_bytes"):
            await subscription.done(3, bytes(101))
        with pytest.raises(UsageError, match="bytes"):
            await subscription.done(3, "text")
        assert subscription.position == 0
        refuse = [True]
        update = fickle._backend.update

        async def full(record: Any) -> Any:
            if refuse:
                raise StoreFull("fickle:", "no room")
            return await update(record)

        fickle._backend.update = full
        with pytest.raises(StoreFull):
            await subscription.done(3, b"three")
        refuse.clear()
        await subscription.done(2, b"two")
        assert (subscription.position, subscription.state) == (2, b"two")


async def test_too_many_single_values_are_refused(opened: Any, fickle: Any, filled: Any) -> None:
    """A record that grows with every value would make each step slower than the one before."""
    async with opened(fickle, marks=10) as store:
        topic = await filled(store, 100)
        subscription = await topic.subscribe()
        await subscription.read_many(100, 20)
        with pytest.raises(UsageError, match="ranges"):
            await subscription.done_one(range(2, 100, 2))
        await subscription.done_one(range(2, 22, 2))
        await subscription.done(20)
        assert subscription.position == 20


# -- who holds it --------------------------------------------------------------------------------------------------------------


async def test_only_the_newest_holder_goes_on(opened: Any, backend: Any, url: str, filled: Any, seqs: Any) -> None:
    """Two processes that both believe to be the dispatcher would both send the ambulance."""
    async with opened(backend) as store, opened(backend_for(url)) as other:
        topic = await filled(store, 100)
        first = await topic.subscribe(id="dispatcher")
        assert await seqs(first, 2) == [1, 2]
        second = await other.topic("crash").subscribe(id="dispatcher")
        with pytest.raises(Fenced, match="somebody else"):
            await first.done(2)
        for call in (first.done(2), first.done_one(2), first.renew(60), first.unsubscribe()):
            with pytest.raises(Fenced):
                await call
        with pytest.raises(Fenced):
            await first.read(20)
        with pytest.raises(Fenced):
            await anext(first)
        assert (second.position, second.epoch) == (0, 2)
        await second.done(2)


async def test_a_reader_that_only_reads_hears_that_it_was_replaced(opened: Any, backend: Any, filled: Any, seqs: Any) -> None:
    """A holder that never says done would read on beside its successor for ever."""
    async with opened(backend) as store:
        topic = await filled(store, 3)
        first = await topic.subscribe(id="dispatcher")
        assert await seqs(first, 3) == [1, 2, 3]
        waiting = asyncio.create_task(first.read(40))
        await topic.subscribe(id="dispatcher")
        with pytest.raises(Fenced):
            await waiting
        gone = await topic.subscribe(id="gone")
        record = await store.backend.subscriber("crash", "gone")
        await store.backend.unsubscribe(record)
        with pytest.raises(Fenced, match="unsubscribed elsewhere"):
            await seqs(gone, 4)


async def test_of_many_who_come_back_at_once_one_is_left(opened: Any, backend: Any, filled: Any) -> None:
    """A fleet that restarts together would leave the subscriber with nobody, or with two."""
    async with opened(backend) as store:
        topic = await filled(store)
        all_of_them = await asyncio.gather(*(topic.subscribe(id="dispatcher") for _ in range(8)))
        assert sorted(each.epoch for each in all_of_them) == list(range(1, 9))
        outcomes = await asyncio.gather(*(each.done(5) for each in all_of_them), return_exceptions=True)
        assert [isinstance(outcome, Fenced) for outcome in outcomes].count(False) == 1
        assert store.stats()["fenced"] == 7


@pytest.mark.parametrize("fault", ["lost", "unanswered"])
async def test_coming_is_not_lost_with_an_answer(opened: Any, fickle: Any, fault: str, filled: Any, seqs: Any) -> None:
    """A subscriber that was made, and not told so, would be refused as its own double."""
    async with opened(fickle) as store:
        topic = await filled(store)
        fickle.faults["subscribe"] += [fault]
        subscription = await topic.subscribe(id="me")
        assert await seqs(subscription, 1) == [1]
        fickle.faults["update"] += [fault]
        again = await topic.subscribe(id="me")
        await again.done(1)


async def test_who_leaves_while_it_says_done_leaves(opened: Any, backend: Any) -> None:
    """A worker that is told to stop while others still finish their values would be refused by its own haste, and stay subscribed."""
    async with opened(backend) as store:
        topic = store.topic("crash")
        await topic.publish_many([b"%d" % number for number in range(1, 2_001)])
        subscription = await topic.subscribe(id="ana")

        async def hasty() -> None:
            for number in range(1, 2_001):
                await subscription.done(number)

        working = asyncio.create_task(hasty())
        while subscription.position < 3:
            await asyncio.sleep(0.001)
        await subscription.unsubscribe()
        with pytest.raises(UsageError, match="was unsubscribed"):
            await working
        assert await topic.subscribers() == []


async def test_a_subscriber_that_leaves_is_forgotten(opened: Any, backend: Any, filled: Any) -> None:
    """Values would be kept for somebody who will never come back."""
    async with opened(backend) as store:
        topic = await filled(store)
        subscription = await topic.subscribe(id="me")
        await subscription.read(20)
        await subscription.unsubscribe()
        assert await topic.subscribers() == []
        with pytest.raises(UsageError, match="unsubscribed"):
            await subscription.done(1)
        assert [item async for item in subscription] == []
        async with await topic.subscribe(id="me") as again:
            assert (again.epoch, again.position) == (1, 0)
        assert [info.id for info in await topic.subscribers()] == ["me"], "closing is not leaving"
        assert store.stats()["subscriptions"] == 0
