"""The conformance suite sees what it is there to see: back ends that are broken on purpose, each caught by the check meant for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.errors import AntiphonError, Conflict, TooLarge
from antiphon.store import retention
from antiphon.store.contract import Reader
from antiphon.store.memory import MemoryBackend, Publisher, Shelf, Topic
from antiphon.store.records import (
    Chunk,
    Collected,
    Entry,
    Grant,
    Moment,
    Publication,
    Receipt,
    Record,
    Start,
    Subscriber,
    TopicInfo,
    TopicOptions,
)
from antiphon.testing.store_suite import CHECKS, Factory, cancelling, run_suite, stage


class CollectsAtTheFirst(MemoryBackend):
    """Removes what one subscriber is done with."""

    async def collect(self, topic: str, horizon: Moment) -> Collected:
        async with self._turn() as shelf:
            here = shelf.topic(topic)
            here.floor = max([here.floor, *(subscriber.position for subscriber in here.subscribers.values())])
            return Collected(here.floor, here.drop(lambda stored: stored.seq <= here.floor))


class ForgetsEpochs(MemoryBackend):
    class Kept(Shelf):
        def held(self, grant: Grant) -> tuple[Topic, Publisher]:
            here = self.topic(grant.topic)
            return here, here.publishers.setdefault(grant.publisher, Publisher())


class WritesRepeatsTwice(MemoryBackend):
    def _publish(self, shelf: Shelf, grant: Grant, first: int, entries: Sequence[Entry]) -> Receipt:
        shelf.held(grant)[1].number = 0
        return super()._publish(shelf, grant, first, entries)


class WritesHalfABatch(MemoryBackend):
    async def publish(self, grant: Grant, first: int, entries: Sequence[Entry], *, synced: bool = True) -> Receipt:
        try:
            return await super().publish(grant, first, entries)
        except TooLarge:
            await super().publish(grant, first, entries[: len(entries) // 2])
            raise


class LosesHalfABatchWhenCancelled(MemoryBackend):
    async def publish(self, grant: Grant, first: int, entries: Sequence[Entry], *, synced: bool = True) -> Receipt:
        middle = len(entries) // 2
        await super().publish(grant, first, entries[:middle])
        rest = await super().publish(grant, first + middle, entries[middle:])
        return Receipt(rest.last - len(entries) + 1, rest.last, False)


class RefusesGaps(MemoryBackend):
    """Takes a publisher's number for a count."""

    def _publish(self, shelf: Shelf, grant: Grant, first: int, entries: Sequence[Entry]) -> Receipt:
        _, mine = shelf.held(grant)
        return super()._publish(shelf, grant, min(first, mine.number + 1), entries)


class _Wrapped:
    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    async def take(self, limit: int, timeout_s: float) -> Chunk:
        return await self.reader.take(limit, timeout_s)

    async def close(self) -> None:
        await self.reader.close()


class ReaderSkips(MemoryBackend):
    """Goes on one number too far."""

    async def reader(self, topic: str, after: int, place: int = 0) -> Reader:
        class Skips(_Wrapped):
            async def take(self, limit: int, timeout_s: float) -> Chunk:
                chunk = await super().take(limit + 1, timeout_s)
                return chunk._replace(values=chunk.values[:limit])

        return Skips(await super().reader(topic, after))


class ReaderLosesWhatIsCancelled(MemoryBackend):
    async def reader(self, topic: str, after: int, place: int = 0) -> Reader:
        class Loses(_Wrapped):
            async def take(self, limit: int, timeout_s: float) -> Chunk:
                chunk = await super().take(limit, timeout_s)
                await asyncio.sleep(0.002)
                return chunk

        return Loses(await super().reader(topic, after))


class ReaderLies(MemoryBackend):
    """Does not say where the floor is."""

    async def reader(self, topic: str, after: int, place: int = 0) -> Reader:
        class Lies(_Wrapped):
            async def take(self, limit: int, timeout_s: float) -> Chunk:
                return (await super().take(limit, timeout_s))._replace(floor=0)

        return Lies(await super().reader(topic, after))


class SleepsThrough(MemoryBackend):
    class Kept(Shelf):
        def wake(self) -> None:
            return None


class SilentAboutTheEnd(MemoryBackend):
    async def reader(self, topic: str, after: int, place: int = 0) -> Reader:
        class Silent(_Wrapped):
            async def take(self, limit: int, timeout_s: float) -> Chunk:
                return (await super().take(limit, timeout_s))._replace(gone=0)

        return Silent(await super().reader(topic, after))


class TakesWhatIsBehindForGone(MemoryBackend):
    """Looks whether there are values, and only then how far the topic is."""

    async def reader(self, topic: str, after: int, place: int = 0) -> Reader:
        newest = self.info

        class Hasty(_Wrapped):
            async def take(self, limit: int, timeout_s: float) -> Chunk:
                chunk = await super().take(limit, timeout_s)
                await asyncio.sleep(0.001)
                return chunk if chunk.values else chunk._replace(gone=(await newest(topic)).last)

        return Hasty(await super().reader(topic, after))


class TimeGoesBack(MemoryBackend):
    async def time(self) -> Moment:
        self.calls = getattr(self, "calls", 0) + 1
        return await super().time() - (5_000_000_000 if self.calls % 7 == 0 else 0)


class ValuesAreBornOld(MemoryBackend):
    async def reader(self, topic: str, after: int, place: int = 0) -> Reader:
        class Older(_Wrapped):
            async def take(self, limit: int, timeout_s: float) -> Chunk:
                chunk = await super().take(limit, timeout_s)
                return chunk._replace(values=[replace(value, time=value.time - 10_000_000_000) for value in chunk.values])

        return Older(await super().reader(topic, after))


class UpdatesWithoutCondition(MemoryBackend):
    class Kept(Shelf):
        def unchanged(self, subscriber: Subscriber) -> dict[str, Subscriber]:
            return self.topic(subscriber.topic).subscribers


class UpdatesInTwoParts(MemoryBackend):
    """The position first, the state a little later."""

    async def update(self, subscriber: Subscriber) -> Subscriber:
        before = await self.subscriber(subscriber.topic, subscriber.id)
        if before is None or before.revision != subscriber.revision:
            raise Conflict("it")
        half = await super().update(replace(before, position=subscriber.position))
        await asyncio.sleep(0.001)
        return await super().update(replace(subscriber, revision=half.revision))


class StepsWithoutNumbers(MemoryBackend):
    """Gives every publication of a step a new number, so that a repeat is another publication; and looks at the subscriber last."""

    async def step(self, subscriber: Subscriber, publications: Sequence[Publication]) -> Subscriber:
        async with self._turn() as shelf:
            for grant, _, entries in publications:
                self._publish(shelf, grant, shelf.held(grant)[1].number + 1, entries)
        return await super().step(subscriber, ())


class RepeatsRevisions(MemoryBackend):
    """Counts the revisions of a record from 1 again when it is made again."""

    async def put(self, key: str, data: bytes, revision: int) -> Record:
        async with self._turn() as shelf:
            shelf.condition(key, revision)
            record = shelf.records[key] = Record(key, data, revision + 1)
            shelf.wake()
            return record


class ChecksThenPuts(MemoryBackend):
    async def put(self, key: str, data: bytes, revision: int) -> Record:
        async with self._turn() as shelf:
            shelf.condition(key, revision)
        async with self._turn() as shelf:
            record = shelf.records[key] = Record(key, data, shelf.next_revision())
            shelf.wake()
            return record


class WatchesOnlyTheFuture(MemoryBackend):
    async def watch(self, key: str, revision: int, timeout_s: float) -> Record | None:
        record = await self.get(key)
        return await super().watch(key, record.revision if record else 0, timeout_s)


class BeginsBelowTheFloor(MemoryBackend):
    async def subscribe(self, topic: str, subscriber: str, lease: Moment, start: Start = "earliest") -> Subscriber:
        made = await super().subscribe(topic, subscriber, lease, start)
        return await self.update(replace(made, position=start)) if isinstance(start, int) else made


class OverlooksWhoCameMeanwhile(MemoryBackend):
    """Counts the subscribers, takes a breath, and removes."""

    async def collect(self, topic: str, horizon: Moment) -> Collected:
        async with self._turn() as shelf:
            here = shelf.topic(topic)
            subscribers, options = list(here.subscribers.values()), here.options or TopicOptions()
            expired = {lease: here.last_before(horizon - lease) for lease in retention.leases(subscribers, options)}
        await asyncio.sleep(0.005)
        async with self._turn() as shelf:
            free = retention.removable(subscribers, options, expired, here.last)
            here.floor = max(here.floor, retention.floor_of(free))
            return Collected(here.floor, here.drop(lambda stored: stored.seq in free))


class ForgetsNumbersWithValues(MemoryBackend):
    """The newest number is that of the newest value that is there."""

    async def collect(self, topic: str, horizon: Moment) -> Collected:
        collected = await super().collect(topic, horizon)
        async with self._turn() as shelf:
            here = shelf.topic(topic)
            here.last = here.stored[-1].seq if here.stored else 0
        return collected


class ForgetsItsPublisherWithValues(MemoryBackend):
    async def erase(self, grant: Grant, numbers: Sequence[int]) -> int:
        gone = await super().erase(grant, numbers)
        async with self._turn() as shelf:
            here, mine = shelf.held(grant)
            mine.number = here.stored[-1].number if here.stored else 0
        return gone


class TrustsTheHorizon(MemoryBackend):
    async def collect(self, topic: str, horizon: Moment) -> Collected:
        async with self._turn() as shelf:
            shelf._latest = max(shelf._latest, horizon)
        return await super().collect(topic, horizon)


class EndsLeasesEarly(MemoryBackend):
    """By one nanosecond."""

    async def collect(self, topic: str, horizon: Moment) -> Collected:
        return await super().collect(topic, horizon + 1)


class EndsLeasesLate(MemoryBackend):
    async def collect(self, topic: str, horizon: Moment) -> Collected:
        return await super().collect(topic, horizon - 1)


class TakesMarksForPositions(MemoryBackend):
    async def collect(self, topic: str, horizon: Moment) -> Collected:
        async with self._turn() as shelf:
            here = shelf.topic(topic)
            for name, one in here.subscribers.items():
                here.subscribers[name] = replace(one, position=max([one.position, *(high for _, high in one.marks)]))
        return await super().collect(topic, horizon)


class FloorGoesBack(MemoryBackend):
    async def collect(self, topic: str, horizon: Moment) -> Collected:
        collected = await super().collect(topic, horizon)
        async with self._turn() as shelf:
            here = shelf.topic(topic)
            here.floor = min([here.floor, *(one.position for one in here.subscribers.values())])
            return collected._replace(floor=here.floor)


class ErasesForAnybody(MemoryBackend):
    async def erase(self, grant: Grant, numbers: Sequence[int]) -> int:
        async with self._turn() as shelf:
            here, _ = shelf.held(grant)
            return here.drop(lambda stored: stored.seq in numbers)


class KeepsOldValuesOfKeys(MemoryBackend):
    """Forgets that a key may be in a batch twice."""

    async def publish(self, grant: Grant, first: int, entries: Sequence[Entry], *, synced: bool = True) -> Receipt:
        async with self._turn() as shelf:
            here = shelf.topic(grant.topic)
            before = list(here.stored)
        receipt = await super().publish(grant, first, entries)
        async with self._turn() as shelf:
            here.stored = [*(old for old in before if old.seq < receipt.first), *(new for new in here.stored if new.seq >= receipt.first)]
        return receipt


class CollectsNewestOfKeys(MemoryBackend):
    async def collect(self, topic: str, horizon: Moment) -> Collected:
        async with self._turn() as shelf:
            here = shelf.topic(topic)
            here.options = replace(here.options, mutable=False) if here.options else None
        return await super().collect(topic, horizon)


class TakesOverSoftly(MemoryBackend):
    """Whoever had the topic may go on."""

    async def register(self, topic: str, publisher: str, *, options: TopicOptions | None = None, takeover: bool = False) -> Grant:
        async with self._turn() as shelf:
            here = shelf.topics.get(topic)
            epochs = {name: one.epoch for name, one in here.publishers.items()} if here else {}
        grant = await super().register(topic, publisher, options=options, takeover=takeover)
        async with self._turn() as shelf:
            for name, epoch in epochs.items():
                if name != publisher:
                    shelf.topics[topic].publishers[name].epoch = epoch
        return grant


class ReleasesForAnybody(MemoryBackend):
    async def release(self, grant: Grant) -> None:
        async with self._turn() as shelf:
            if grant.topic in shelf.topics:
                shelf.topics[grant.topic].publisher = ""


class SaysWhereOthersAre(MemoryBackend):
    """Reckons where a repeat is from the end of the topic."""

    def _publish(self, shelf: Shelf, grant: Grant, first: int, entries: Sequence[Entry]) -> Receipt:
        super()._publish(shelf, grant, first, entries)
        here, _ = shelf.held(grant)
        return Receipt(here.last - len(entries) + 1, here.last, False)


class ChangesOptions(MemoryBackend):
    async def register(self, topic: str, publisher: str, *, options: TopicOptions | None = None, takeover: bool = False) -> Grant:
        async with self._turn() as shelf:
            if topic in shelf.topics and options is not None:
                shelf.topics[topic].options = options
        return await super().register(topic, publisher, options=options, takeover=takeover)


class IgnoresCase(MemoryBackend):
    async def register(self, topic: str, publisher: str, *, options: TopicOptions | None = None, takeover: bool = False) -> Grant:
        return await super().register(topic.lower(), publisher, options=options, takeover=takeover)


class CutsStates(MemoryBackend):
    async def update(self, subscriber: Subscriber) -> Subscriber:
        return await super().update(replace(subscriber, state=subscriber.state[:65_536]))


class TakesOneByteTooMuch(MemoryBackend):
    def _refuse(self, shelf: Shelf, publications: Sequence[Publication]) -> None:
        self.value_bytes += 1
        try:
            super()._refuse(shelf, publications)
        finally:
            self.value_bytes -= 1


class HangsOnClose(MemoryBackend):
    async def close(self) -> None:
        self._is_open = False


class ListsAsTheyCome(MemoryBackend):
    async def topics(self) -> list[TopicInfo]:
        return sorted(await super().topics(), key=lambda info: info.name, reverse=True)

    async def subscribers(self, topic: str) -> list[Subscriber]:
        return list(reversed(await super().subscribers(topic)))


class WritesEmptyBatches(MemoryBackend):
    def _publish(self, shelf: Shelf, grant: Grant, first: int, entries: Sequence[Entry]) -> Receipt:
        return super()._publish(shelf, grant, first, entries or [Entry(b"")])


MUTANTS: list[tuple[type[MemoryBackend], str]] = [
    (CollectsAtTheFirst, "a_value_stays_until_the_last_subscriber_is_done"),
    (ForgetsEpochs, "registering_again_fences_the_earlier_grant"),
    (ForgetsEpochs, "nothing_of_the_fenced_comes_after_the_takeover"),
    (WritesRepeatsTwice, "a_repeat_is_not_written_again"),
    (WritesRepeatsTwice, "a_step_cut_in_two_is_finished_by_its_repeat"),
    (WritesHalfABatch, "a_batch_is_written_whole_or_not_at_all"),
    (LosesHalfABatchWhenCancelled, "a_publish_given_up_is_whole_or_nothing"),
    (LosesHalfABatchWhenCancelled, "what_many_write_at_once_is_there_once_and_in_order"),
    (RefusesGaps, "a_publishers_own_numbers_may_have_gaps"),
    (ReaderSkips, "one_reads_from_anywhere"),
    (ReaderSkips, "a_reader_keeps_to_its_limit_and_its_order"),
    (ReaderLosesWhatIsCancelled, "a_take_that_is_cancelled_loses_nothing"),
    (ReaderLies, "a_reader_is_told_what_is_gone"),
    (SilentAboutTheEnd, "that_the_newest_are_gone_is_said_before_the_next_comes"),
    (TakesWhatIsBehindForGone, "what_is_on_its_way_is_not_said_to_be_gone"),
    (SleepsThrough, "a_reader_waits_for_what_is_not_yet_published"),
    (SleepsThrough, "who_watches_is_woken"),
    (TimeGoesBack, "time_never_goes_back"),
    (ValuesAreBornOld, "a_value_has_the_time_at_which_it_was_published"),
    (UpdatesWithoutCondition, "an_update_replaces_only_what_it_has_seen"),
    (UpdatesWithoutCondition, "of_updates_at_once_one_wins"),
    (UpdatesWithoutCondition, "of_equal_steps_at_once_one_happens"),
    (UpdatesInTwoParts, "a_subscriber_given_up_is_as_it_was_or_as_it_should_be"),
    (StepsWithoutNumbers, "a_step_done_again_publishes_nothing_twice"),
    (StepsWithoutNumbers, "a_step_cut_in_two_is_finished_by_its_repeat"),
    (RepeatsRevisions, "a_record_made_again_is_another"),
    (ChecksThenPuts, "counting_by_compare_and_set_loses_nothing"),
    (WatchesOnlyTheFuture, "who_watches_sees_what_has_changed_already"),
    (BeginsBelowTheFloor, "nobody_begins_below_the_floor"),
    (OverlooksWhoCameMeanwhile, "who_subscribes_while_others_collect_misses_nothing"),
    (ForgetsNumbersWithValues, "numbers_go_on_when_everything_is_collected"),
    (ForgetsNumbersWithValues, "numbers_go_on_when_the_newest_were_marked_and_collected"),
    (ForgetsItsPublisherWithValues, "a_repeat_is_known_when_its_values_are_gone"),
    (TrustsTheHorizon, "a_horizon_beyond_the_time_is_the_time"),
    (EndsLeasesEarly, "a_lease_ends_to_the_nanosecond"),
    (EndsLeasesEarly, "without_subscribers_retention_counts"),
    (EndsLeasesLate, "a_lease_ends_to_the_nanosecond"),
    (TakesMarksForPositions, "what_all_have_marked_goes_one_by_one"),
    (FloorGoesBack, "the_floor_never_goes_back"),
    (ErasesForAnybody, "in_a_shared_topic_one_erases_only_ones_own"),
    (KeepsOldValuesOfKeys, "a_new_value_of_a_key_replaces_the_one_before"),
    (CollectsNewestOfKeys, "the_newest_value_of_a_key_is_never_collected"),
    (TakesOverSoftly, "a_takeover_fences_who_had_the_topic"),
    (ForgetsEpochs, "the_latest_of_several_takeovers_has_the_topic"),
    (ReleasesForAnybody, "a_takeover_fences_who_had_the_topic"),
    (SaysWhereOthersAre, "a_repeat_in_a_shared_topic_is_found_among_the_others"),
    (ChangesOptions, "options_are_decided_once"),
    (IgnoresCase, "every_name_is_a_topic_of_its_own"),
    (CutsStates, "states_may_be_large"),
    (TakesOneByteTooMuch, "the_largest_value_fits_and_one_byte_more_does_not"),
    (HangsOnClose, "closing_ends_what_waits"),
    (ListsAsTheyCome, "every_name_is_a_topic_of_its_own"),
    (ListsAsTheyCome, "subscribers_are_listed_by_id"),
    (WritesEmptyBatches, "no_entries_are_a_batch_too"),
]

_FRESH = count(1)


def factory_of(kind: type[MemoryBackend]) -> Factory:
    """Handles on one fresh store of this kind."""
    shelf = getattr(kind, "Kept", Shelf)()
    name = f"memory:mutant{next(_FRESH)}"

    async def another() -> MemoryBackend:
        backend = kind(name)
        backend._shelf = shelf
        await backend.open()
        return backend

    return another


def check_named(name: str) -> Callable[[Factory], Any]:
    return next(check for check in CHECKS if check.__name__ == name)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("mutant", "check"), MUTANTS, ids=lambda one: one if isinstance(one, str) else one.__name__)
def test_a_broken_store_is_caught(mutant: type[MemoryBackend], check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite that passes everything would be believed, and the store with it."""
    for module in (stage, cancelling):
        monkeypatch.setattr(module, "PATIENCE_S", 0.3)
    with pytest.raises((AssertionError, AntiphonError)):
        asyncio.run(check_named(check)(factory_of(mutant)))


def test_the_whole_suite_in_one_call() -> None:
    """Whoever writes a back end without a test runner would have to find out how; and one failure would hide the next."""

    async def fresh() -> Factory:
        return factory_of(MemoryBackend)

    async def broken() -> Factory:
        return factory_of(ListsAsTheyCome)

    assert asyncio.run(run_suite(fresh)) == {}
    failures = asyncio.run(run_suite(broken, CHECKS))
    assert {"every_name_is_a_topic_of_its_own", "subscribers_are_listed_by_id"} <= set(failures) < {check.__name__ for check in CHECKS}  # type: ignore[attr-defined]
