"""Publishing: what an acknowledgement promises, who may publish, and what becomes of a publish that is not answered."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from msgspec import Struct

from antiphon.errors import (
    BadStore,
    Fenced,
    InvalidName,
    InvalidOption,
    StoreFull,
    StoreUnreachable,
    TimedOut,
    TooLarge,
    TopicTaken,
    UnknownTopic,
    UsageError,
)
from antiphon.model.payload import BadPayload
from antiphon.store import Accepted, Gap, Published, Queued, Store, Value, open_store
from antiphon.store.memory import MemoryBackend
from antiphon.store.opening import backend_for


class Crash(Struct):
    road: str
    cars: int


async def values(store: Store, topic: str) -> list[Any]:
    """The data of all values that are in a topic, in order."""
    info = await store.topic(topic).info()
    found = [await store.topic(topic).at(seq) for seq in range(1, info.last + 1)]
    return [item.data for item in found if isinstance(item, Value)]


# -- what an acknowledgement is ------------------------------------------------------------------------------------------------


async def test_a_value_is_published_and_read_as_what_it_was(opened: Any, backend: Any) -> None:
    """A dispatcher would read something else than what was reported."""
    async with opened(backend) as store:
        crash = store.topic("crash", type=Crash)
        first = await crash.publish(Crash("A1", 3))
        many = await crash.publish_many([Crash("A2", 1), Crash("A3", 2)])
        assert (first.first, first.last, first.seq) == (1, 1, 1)
        assert (many.first, many.last, many.seq) == (2, 3, 3)
        assert (await crash.at(2)).data == Crash("A2", 1)
        assert [item.data for item in await (await crash.subscribe()).read_many(3, 10)][:1] == [Crash("A1", 3)]
        assert (await crash.publish_many([])).first > (await crash.publish_many([])).last


async def test_a_weaker_promise_is_another_type(opened: Any, tmp_path: Any) -> None:
    """A program that needs its values on disk would go on after a promise that does not say so."""
    async with opened(backend_for(f"sqlite:{tmp_path / 'field.db'}")) as store:
        topic = store.topic("crash")
        synced = await topic.publish(b"on disk")
        relaxed = await topic.publish(b"perhaps", durability="relaxed")
    async with opened(MemoryBackend()) as store:
        forgetful = await store.topic("crash").publish(b"gone with the process")
    assert type(synced) is Published
    assert type(relaxed) is Accepted
    assert type(forgetful) is Accepted
    kinds = (Published, Accepted, Queued)
    assert not any(issubclass(one, other) for one in kinds for other in kinds if one is not other)
    assert Published(1, 1) != Accepted(1, 1)


async def test_those_who_publish_at_once_share_a_write_and_keep_their_order(opened: Any, backend: Any) -> None:
    """A hundred who publish together would wait for a hundred syncs of the disk; or be given each other's numbers."""
    async with opened(backend) as store:
        topic = store.topic("crash")
        acks = await asyncio.gather(*(topic.publish(b"%d" % number) for number in range(100)))
        assert [ack.seq for ack in acks] == list(range(1, 101))
        assert await values(store, "crash") == [b"%d" % number for number in range(100)]
        assert store.stats()["published"] == 100
        assert int(str(store.stats()["batches"])) <= 3


async def test_more_than_a_batch_goes_in_several_and_is_acknowledged_once(opened: Any) -> None:
    """A large import would be refused, or acknowledged when its first part is written."""
    backend = MemoryBackend()
    backend.batch_values, backend.batch_bytes = 10, 55
    async with opened(backend) as store:
        topic = store.topic("crash")
        by_count = await topic.publish_many([b"%02d" % number for number in range(95)])
        by_size = await topic.publish_many([bytes(20)] * 5)
        assert (by_count.first, by_count.last) == (1, 95)
        assert (by_size.first, by_size.last) == (96, 100)
        assert store.stats()["batches"] == 10 + 3
        assert (await values(store, "crash"))[:95] == [b"%02d" % number for number in range(95)]


async def test_synced_and_relaxed_are_never_one_write(opened: Any, tmp_path: Any) -> None:
    """A value published with care would be acknowledged with the promise of the careless one beside it, or the reverse."""
    async with opened(backend_for(f"sqlite:{tmp_path / 'field.db'}")) as store:
        topic = store.topic("crash")
        kinds = ["synced", "relaxed", "synced", "synced", "relaxed"]
        acks = await asyncio.gather(*(topic.publish(b"%d" % at, durability=kind) for at, kind in enumerate(kinds)))
        assert [ack.seq for ack in acks] == [1, 2, 3, 4, 5]
        assert [type(acks[at]) for at, kind in enumerate(kinds) if kind == "synced"] == [Published] * 3


# -- the store does not answer -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["lost", "unanswered"])
async def test_a_publish_that_is_not_answered_is_repeated_and_written_once(opened: Any, fickle: Any, fault: str) -> None:
    """After a lost acknowledgement the value would be there twice, or not at all."""
    async with opened(fickle) as store:
        topic = store.topic("crash")
        await topic.publish(b"zero")
        fickle.faults["publish"] += [fault] * 3
        acks = await asyncio.gather(topic.publish_many([b"one", b"two"]), topic.publish(b"three"))
        assert [(ack.first, ack.last) for ack in acks] == [(2, 3), (4, 4)]
        assert await values(store, "crash") == [b"zero", b"one", b"two", b"three"]
        assert store.stats()["retries"] == 3


@pytest.mark.parametrize("fault", ["lost", "unanswered"])
async def test_whoever_gives_up_can_repeat_without_writing_twice(opened: Any, fickle: Any, fault: str) -> None:
    """A caller that was told that the store does not answer would have to choose between losing the value and writing it twice."""
    async with opened(fickle) as store:
        topic = store.topic("crash")
        await topic.publish(b"zero")
        fickle.faults["publish"] += [fault] + ["lost"] * 1_000
        with pytest.raises(StoreUnreachable) as caught:
            await topic.publish_many([b"one", b"two"], timeout=0.05)
        fickle.faults.clear()
        assert caught.value.number == 2
        ack = await topic.publish_many([b"one", b"two"], number=caught.value.number)
        assert (ack.first, ack.last) == (2, 3)
        assert await values(store, "crash") == [b"zero", b"one", b"two"]


async def test_a_value_that_was_given_up_is_not_taken_for_written(opened: Any, fickle: Any) -> None:
    """A late repeat, after others were written, would be acknowledged and be nowhere."""
    async with opened(fickle) as store:
        topic = store.topic("crash")
        fickle.faults["publish"] += ["lost"] * 1_000
        with pytest.raises(StoreUnreachable) as caught:
            await topic.publish(b"one", timeout=0.05)
        fickle.faults.clear()
        await topic.publish(b"two")
        with pytest.raises(UsageError, match="given up"):
            await topic.publish(b"one", number=caught.value.number)
        await topic.publish(b"one")
        assert await values(store, "crash") == [b"two", b"one"]


async def test_own_numbers_survive_the_process(opened: Any, backend: Any, url: str) -> None:
    """A publisher that is killed and begins its file anew would publish the first half of it twice."""
    lines = [b"line %d" % number for number in range(1, 6)]
    async with opened(backend) as store:
        await store.topic("log").publish_many(lines[:3], number=1)
    async with opened(backend_for(url)) as store:
        topic = store.topic("log")
        assert await topic.register() == 3
        ack = await topic.publish_many(lines, number=1)  # some of it is there
        assert ack.last == 5
        assert topic.number == 5
        assert await values(store, "log") == lines


async def test_nobody_waits_longer_than_they_say(opened: Any, fickle: Any) -> None:
    """A store that hangs would hang the program."""
    async with opened(fickle) as store:
        topic = store.topic("crash")
        await topic.publish(b"zero")
        for call in ("publish", "erase", "info", "topics", "time", "subscribers", "register", "release", "collect"):
            fickle.faults[call] += ["hangs"] * 10
        calls: list[Any] = [
            *(topic.publish(b"one", timeout=0.05), topic.erase(1, timeout=0.05), topic.info(timeout=0.05)),
            *(store.topics(timeout=0.05), store.time(timeout=0.05), topic.subscribers(timeout=0.05)),
            *(topic.register(timeout=0.05), store.collect(["crash"], timeout=0.05)),
        ]
        for call in calls:
            with pytest.raises(StoreUnreachable, match="does not answer"):
                await call


async def test_one_who_is_impatient_does_not_spoil_it_for_the_others(opened: Any, fickle: Any) -> None:
    """The batch of many callers would be given up, or changed, because one of them went away."""
    async with opened(fickle) as store:
        topic = store.topic("crash")
        await topic.publish(b"zero")
        fickle.down = True
        patient = [asyncio.create_task(topic.publish(b"%d" % number)) for number in range(5)]
        impatient = asyncio.create_task(topic.publish(b"impatient", timeout=0.02))
        cancelled = asyncio.create_task(topic.publish(b"cancelled"))
        await asyncio.sleep(0.01)
        cancelled.cancel()
        with pytest.raises(StoreUnreachable):
            await impatient
        fickle.down = False
        assert [(await task).seq for task in patient] == [2, 3, 4, 5, 6]
        assert (await values(store, "crash"))[1:6] == [b"%d" % number for number in range(5)]
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        last = await topic.publish(b"last")
        assert (await topic.at(last.seq)).data == b"last"


async def test_a_full_queue_makes_publishers_wait_in_line(opened: Any, fickle: Any) -> None:
    """A program that is faster than its disk would grow until it is killed."""
    async with opened(fickle, queue_values=4, queue_bytes=1_000) as store:
        topic = store.topic("crash")
        await topic.publish(b"0")
        fickle.down = True
        tasks = [asyncio.create_task(topic.publish(b"%d" % number)) for number in range(1, 21)]
        await asyncio.sleep(0.02)
        assert store.stats()["publishing"] == 4
        with pytest.raises(StoreUnreachable):
            await topic.publish(b"late", timeout=0.02)
        for task in tasks[6:9]:
            task.cancel()
        fickle.down = False
        acks = [await task for task in tasks[:6] + tasks[9:]]
        assert all(one.seq < other.seq for one, other in pairwise(acks))
        assert (await topic.publish_many([bytes(10)] * 500)).last - acks[-1].seq == 500, "one call finds room in an empty queue"
        assert store.stats()["publishing"] == 0


async def test_who_waits_in_line_behind_a_slow_store_is_told_so(opened: Any, fickle: Any) -> None:
    """Somebody would look for a broken network where only too much is published."""
    async with opened(fickle, queue_values=1) as store:
        topic = store.topic("crash")
        await topic.publish(b"zero")
        fickle.faults["publish"].append("hangs")
        slow = asyncio.create_task(topic.publish(b"one"))
        await asyncio.sleep(0.01)
        with pytest.raises(TimedOut, match="no room in time"):
            await topic.publish(b"two", timeout=0.02)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow


# -- who may publish -----------------------------------------------------------------------------------------------------------


async def test_one_publisher_has_a_topic(opened: Any, backend: Any, url: str) -> None:
    """Two programs would publish into one topic without knowing of each other."""
    async with opened(backend, "ana") as ana, opened(backend_for(url), "ben") as ben:
        await ana.topic("crash").publish(b"ana")
        with pytest.raises(TopicTaken) as caught:
            await ben.topic("crash").publish(b"ben")
        assert caught.value.publisher == "ana"
        await ana.topic("crash").release()
        assert (await ben.topic("crash").publish(b"ben")).seq == 2


async def test_whoever_was_taken_over_from_hears_of_it_every_time(opened: Any, backend: Any, url: str) -> None:
    """The old publisher would write on beside the new one, or believe that it does."""
    async with opened(backend, "ana") as ana, opened(backend_for(url), "ben") as ben:
        mine = ana.topic("crash")
        await mine.publish(b"ana")
        await ben.topic("crash").register(takeover=True)
        for _ in range(3):
            with pytest.raises(Fenced, match="Register"):
                await mine.publish(b"late")
        with pytest.raises(Fenced):
            await ana.topic("crash").publish_many([b"late"])
        with pytest.raises(Fenced):
            await mine.erase(1)
        assert (await ben.topic("crash").publish(b"ben")).seq == 2
        with pytest.raises(TopicTaken):
            await mine.register()
        await mine.register(takeover=True)
        assert (await mine.publish(b"back")).seq == 3
        with pytest.raises(Fenced):
            await ben.topic("crash").publish(b"ben again")
        assert await values(ana, "crash") == [b"ana", b"ben", b"back"]
        assert ana.stats()["fenced"] == 1


async def test_all_topics_of_a_name_share_a_publisher(opened: Any, backend: Any) -> None:
    """A program that names a topic in two places would fence itself."""
    async with opened(backend) as store:
        await asyncio.gather(*(store.topic("crash").publish(b"x") for _ in range(10)))
        first, second = store.topic("crash"), store.topic("crash", type=int)
        for at in range(5):
            await first.publish(b"y")
            await second.publish(at)
        assert (await first.info()).last == 20


async def test_registering_while_publishing_loses_nothing(opened: Any, backend: Any) -> None:
    """The new right would fence the batch that is under way under the old one."""
    async with opened(backend) as store:
        topic = store.topic("crash")
        work: list[Any] = [topic.publish(b"%d" % number) for number in range(50)]
        work[10:10] = [topic.register()]
        work[30:30] = [topic.register()]
        await asyncio.gather(*work)
        assert await values(store, "crash") == [b"%d" % number for number in range(50)]


async def test_a_shared_topic_has_many_publishers(opened: Any, backend: Any, url: str) -> None:
    """Members of a group could not speak into one topic; or one would take another's place, or erase what it said."""
    async with opened(backend, "ana") as ana, opened(backend_for(url), "ben") as ben:
        await ana.topic("talk").register(shared=True)
        stores = [ana, ben] * 10
        acks = await asyncio.gather(*(store.topic("talk").publish(store.name.encode()) for store in stores))
        assert sorted(ack.seq for ack in acks) == list(range(1, 21))
        said = await values(ana, "talk")
        assert said == [dict(zip([ack.seq for ack in acks], stores, strict=True))[seq].name.encode() for seq in range(1, 21)]
        bens = [ack.seq for ack, store in zip(acks, stores, strict=True) if store is ben]
        assert await ana.topic("talk").erase(bens) == 0
        assert await ben.topic("talk").erase(bens[:2]) == 2


async def test_options_are_said_once_and_kept(opened: Any, backend: Any) -> None:
    """A topic would change what it is under those who rely on it; or registering again would need all of it said again."""
    async with opened(backend) as store:
        topic = store.topic("places")
        await topic.register(mutable=True, retention_s=60.0)
        await topic.register(mutable=True)
        await topic.register()
        with pytest.raises(InvalidOption):
            await topic.register(mutable=False)
        options = (await topic.info()).options
        assert (options.mutable, options.shared, options.retention_s) == (True, False, 60.0)


async def test_a_mutable_topic_keeps_the_newest_of_each_key(opened: Any, backend: Any) -> None:
    """Somebody who asks where an ambulance is would get all the places where it was."""
    async with opened(backend) as store:
        topic = store.topic("places")
        await topic.register(mutable=True)
        await topic.publish_many([b"A1", b"A2", b"A3"], keys=["one", "two", "one"])
        await topic.publish(b"A4", key="three")
        await topic.publish(b"A5", key="two")
        subscription = await topic.subscribe()
        read = [await subscription.read(10) for _ in range(3)]
        assert [(item.key, item.data) for item in read] == [("one", b"A3"), ("three", b"A4"), ("two", b"A5")], "replaced is not missing"
        assert await topic.at(1) == Gap(1, 1, "removed")


async def test_erased_values_are_gone_and_told(opened: Any, backend: Any) -> None:
    """What was published by mistake would be read for ever; or vanish without a word to those who count."""
    async with opened(backend) as store:
        topic = store.topic("crash")
        await topic.publish_many([b"%d" % number for number in range(1, 8)])
        assert await topic.erase([2, 3, 6]) == 3
        assert await topic.erase(2) == 0
        assert await topic.erase([]) == 0
        subscription = await topic.subscribe()
        items = await subscription.read_many(10, 10)
        assert [item if isinstance(item, Gap) else item.seq for item in items] == [
            1,
            Gap(2, 3, "removed"),
            4,
            5,
            Gap(6, 6, "removed"),
            7,
        ]


async def test_that_the_newest_value_was_erased_is_told_at_once(opened: Any, backend: Any) -> None:
    """Whoever reads until it lags no more would wait for ever, for a value that was taken back."""
    async with opened(backend) as store:
        topic = store.topic("crash")
        await topic.publish_many([b"A1", b"A2", b"A3"])
        await topic.erase([2, 3])
        subscription = await topic.subscribe()
        assert (await subscription.read(30)).seq == 1
        assert await subscription.read(30) == Gap(2, 3, "removed")
        await subscription.done(3)
        assert subscription.lag == 0
        await topic.publish(b"A4")
        assert (await subscription.read(30)).seq == 4


# -- looking -------------------------------------------------------------------------------------------------------------------


async def test_any_value_can_be_looked_at(opened: Any, backend: Any) -> None:
    """Somebody who knows the number of a value would have to subscribe to see it; or be shown another in its place."""
    async with opened(backend) as store:
        topic = store.topic("crash", type=int)
        await topic.publish_many([10, 20, 30])
        await topic.erase(2)
        assert (await topic.at(3)).data == 30
        assert await topic.at(2) == Gap(2, 2, "removed")
        with pytest.raises(TimedOut, match="has not been published"):
            await topic.at(4)
        later = asyncio.create_task(topic.at(4, timeout=30))
        await asyncio.sleep(0.01)
        await topic.publish(40)
        assert (await later).data == 40


async def test_what_is_there_is_listed(opened: Any, backend: Any) -> None:
    """Nobody could see which topics there are, or who is behind."""
    async with opened(backend) as store:
        for name in ("b", "a", "ü/ *.>"):
            await store.topic(name).publish_many([b"1", b"2", b"3"])
        subscription = await store.topic("a").subscribe(lease=60, id="slow")
        await subscription.done(1, b"state")
        await subscription.done_one(3)
        assert [info.name for info in await store.topics()] == ["a", "b", "ü/ *.>"]
        (info,) = await store.topic("a").subscribers()
        assert (info.id, info.lease_s, info.position, info.lag, info.state_bytes, info.epoch) == ("slow", 60.0, 1, 1, 5, 1)
        assert await store.time() <= await store.time()
        assert "slow" in repr(subscription)
        assert "hotline" in repr(store)


# -- bad input -----------------------------------------------------------------------------------------------------------------


async def test_what_cannot_be_published_is_refused_and_nothing_is_written(opened: Any, backend: Any) -> None:
    """A mistake would be found by whoever reads the value, days later."""
    async with opened(backend) as store:
        topic = store.topic("crash")
        await topic.publish(b"good")
        refused: list[tuple[type[Exception], Any]] = [
            (InvalidOption, topic.publish("text")),
            (InvalidOption, topic.publish(7)),
            (InvalidOption, topic.publish_many([b"good", "text"])),
            (InvalidOption, topic.publish_many([b"good"], keys=["one", "two"])),
            (InvalidOption, topic.publish(b"x", durability="perhaps")),
            (InvalidOption, topic.publish(b"x", number=0)),
            (InvalidOption, topic.publish(b"x", number=1 << 62)),
            (InvalidOption, topic.publish(b"x", number=True)),
            (InvalidName, topic.publish(b"x", key=7)),
            (InvalidName, topic.publish(b"x", key="k" * 257)),
            (InvalidName, topic.publish(b"x", key="\ud800")),
            (TooLarge, topic.publish(bytes(store.backend.value_bytes + 1))),
            (TooLarge, topic.publish_many([b"good", bytes(store.backend.value_bytes + 1)])),
            (UsageError, store.topic("crash", type=Crash).publish(b"no crash")),
            (UsageError, store.topic("crash", type=Crash).publish_many([Crash("A1", 1), Crash("A1", "many")])),
            (InvalidOption, topic.register(retention_s=-1.0)),
            (InvalidOption, topic.register(retention_s=float("nan"))),
            (InvalidOption, topic.register(retention_s="long")),
            (InvalidOption, topic.register(mutable=1)),
            (InvalidOption, topic.erase(0)),
            (InvalidOption, topic.erase(["1"])),
            (InvalidOption, topic.at(0)),
            (UsageError, topic.at(1 << 70)),
            (UnknownTopic, store.topic("nowhere").info()),
            (UnknownTopic, store.topic("nowhere").at(1)),
            (UnknownTopic, store.topic("nowhere").subscribers()),
            (UnknownTopic, store.collect(["nowhere"])),
        ]
        for kind, call in refused:
            with pytest.raises(kind):
                await call
        for name in ("", " x", "x" * 129, "a\nb", 7, None):
            with pytest.raises(InvalidName):
                store.topic(name)
        with pytest.raises(UsageError, match="cannot be a payload"):
            store.topic("crash", type=object())
        assert (await topic.info()).last == 1


async def test_the_largest_value_fits_exactly(opened: Any) -> None:
    """The limit that is told would not be the one that holds."""
    async with opened(MemoryBackend()) as store:
        topic = store.topic("crash")
        await topic.publish(bytes(store.backend.value_bytes))
        with pytest.raises(TooLarge, match="split it"):
            await topic.publish(bytes(store.backend.value_bytes + 1))


async def test_a_value_of_another_type_does_not_stop_the_reader(opened: Any, backend: Any) -> None:
    """One bad value would make everything after it unreadable."""
    async with opened(backend) as store:
        await store.topic("crash").publish_many([b"\xc1", b"not msgpack"])
        await store.topic("crash", type=Crash).publish(Crash("A1", 1))
        subscription = await store.topic("crash", type=Crash).subscribe()
        items = [await subscription.read(10) for _ in range(3)]
        assert [type(item.data) for item in items] == [BadPayload, BadPayload, Crash]


async def test_without_a_name_nobody_publishes(opened: Any, backend: Any) -> None:
    """Values would be published by nobody, and could not be told apart after a crash."""
    async with opened(backend, None) as store:
        with pytest.raises(InvalidOption, match="name="):
            await store.topic("crash").publish(b"x")
        await store.topic("crash").subscribe()  # reading needs none
    with pytest.raises(InvalidName):
        open_store("memory:", name=" ")
    with pytest.raises(InvalidOption, match="name="):
        open_store("memory:", outbox="outbox.db")


async def test_a_full_store_says_so_and_goes_on_when_there_is_room(opened: Any) -> None:
    """A publisher would believe that its value is kept; or be stuck for ever after the disk was full once."""
    async with opened(MemoryBackend(max_bytes=100)) as store:
        topic = store.topic("crash")
        await topic.publish(bytes(90))
        with pytest.raises(StoreFull) as caught:
            await topic.publish_many([bytes(20), bytes(20)])
        assert caught.value.number == 2
        await topic.erase(1)
        assert (await topic.publish(bytes(80))).seq == 2


def test_an_address_that_means_nothing_is_refused_without_its_password() -> None:
    """Somebody would wait for a store that cannot be; or find a password in a log."""
    for address in ("field.db", "redis://host", "", "sqlite", "mongo://ana:secret@host/x"):
        with pytest.raises(BadStore, match="begins with") as caught:
            open_store(address)
        assert "secret" not in str(caught.value)
    with pytest.raises(InvalidOption):
        open_store(7)  # type: ignore[arg-type]


# -- the end -------------------------------------------------------------------------------------------------------------------


async def test_a_closed_store_says_so(opened: Any, backend: Any) -> None:
    """A program would wait for ever on a store that it has closed itself."""
    async with opened(backend) as store:
        topic = store.topic("crash")
        await topic.publish(b"x")
        subscription = await topic.subscribe()
    calls: list[Any] = [
        *(topic.publish(b"y"), topic.publish_many([b"y"]), topic.erase(1), topic.register(), topic.release(), topic.info()),
        *(topic.subscribe(), topic.subscribers(), topic.at(1), store.topics(), store.collect(), store.time()),
        *(subscription.read(1), subscription.done(1), subscription.done_one(1), subscription.renew(60), subscription.unsubscribe()),
    ]
    for call in calls:
        with pytest.raises(UsageError, match="closed"):
            await call
    assert [item async for item in subscription] == []
    await store.close()
    with pytest.raises(UsageError, match="opened once"):
        await store.open()


async def test_closing_waits_for_what_is_published_and_ends_what_waits(opened: Any, fickle: Any) -> None:
    """The last values of a program would be lost; or a store out of reach would keep it from ending."""
    async with opened(fickle) as store:
        publishing = [asyncio.create_task(store.topic("crash").publish(b"%d" % number)) for number in range(10)]
        await asyncio.sleep(0)
        await store.close()
        assert [(await task).seq for task in publishing] == list(range(1, 11))
    async with opened(fickle) as store:
        subscription = await store.topic("crash").subscribe(start="latest")
        reading = asyncio.create_task(anext(subscription, "the end"))
        fickle.down = True
        stuck = asyncio.create_task(store.topic("crash").publish(b"never"))
        asking = asyncio.create_task(store.topic("crash").info())
        await asyncio.sleep(0.01)
        await store.close(timeout=0.05)
        for task in (stuck, asking):
            with pytest.raises(StoreUnreachable, match="closed here"):
                await task
        assert await reading == "the end"


async def test_peeking_changes_nothing(backend: Any, opened: Any, filled: Any) -> None:
    """Whoever looks at what a live reader is about to read would fence it, move it, or keep its topic from being collected."""
    async with opened(backend) as store:
        crash = await filled(store, 6)
        assert [item.seq for item in await crash.peek()] == [1, 2, 3, 4, 5, 6]
        assert await crash.subscribers() == [], "nobody has subscribed"
        live = await crash.subscribe(3600.0, id="live")
        assert (await live.read(20)).seq == 1
        await live.done(1)
        await live.done_one([3])
        await crash.erase(4)
        assert await crash.peek(id="live") == [await crash.at(2), Gap(4, 4, "removed"), await crash.at(5), await crash.at(6)]
        assert [item.seq for item in await crash.peek(2, id="live", start=4)] == [5, 6]
        assert [item.seq for item in await crash.peek(1, id="live", start=0)] == [1]
        assert await crash.peek(id="live", start="latest") == []
        waiting = asyncio.create_task(crash.peek(start=6, timeout=20.0))
        await asyncio.sleep(0)
        await crash.publish(b"7")
        assert [item.data for item in await waiting] == [b"7"]
        assert (await live.read(20)).seq == 2, "it is not fenced, and reads what it would have read"
        await live.done(2)
        assert [(one.id, one.epoch) for one in await crash.subscribers()] == [("live", 1)]
        await live.renew(1e-9)
        assert await crash.peek(id="live") == [Gap(4, 4, "removed")], "what has expired is not due to it"
        with pytest.raises(UnknownTopic):
            await store.topic("crahs").peek()
        for wrong in (0, -1, True, "all"):
            with pytest.raises(InvalidOption, match="limit"):
                await crash.peek(wrong)
        with pytest.raises(InvalidOption, match="start"):
            await crash.peek(start=-1)
        with pytest.raises(InvalidOption, match=r"7 values have been published.*choose a number up to 7"):
            await crash.peek(start=99)
