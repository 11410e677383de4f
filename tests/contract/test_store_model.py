"""Random calls on a real back end and on the one in memory, which is its model: the same answers, the same errors, the same state.

The model is told the time by the other: values have the very same times in both, so that leases end at the same nanosecond.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule, run_state_machine_as_test
from msgspec.structs import replace

from antiphon.errors import AntiphonError, BadStore
from antiphon.model.ranges import Ranges
from antiphon.store.contract import Backend
from antiphon.store.memory import MemoryBackend
from antiphon.store.records import Collected, Entry, Grant, Moment, Publication, Record, Subscriber, TopicInfo, TopicOptions, Value
from antiphon.store.retention import leases
from antiphon.testing.store_worker import open_backend

_FRESH = count(1)
HOUR = 3600 * 10**9
_PHASES = (Phase.generate,)
"""Forty steps can be read; making them fewer would take minutes on a store that syncs."""
_RUNS = 10
"""How often a run is repeated that Hypothesis ended because a step led elsewhere than the same step before."""

TOPICS = st.sampled_from(["t", "t", "v.w"])
PUBLISHERS = st.sampled_from(["ana", "ben"])
IDS = st.sampled_from(["s", "r*"])
RECORDS = st.sampled_from(["k", "k/a", "l"])
OPTIONS = st.sampled_from([None, TopicOptions(), TopicOptions(shared=True), TopicOptions(mutable=True), TopicOptions(retention_s=0.0)])
LEASES = st.sampled_from([1, 1, 1_000, 50_000_000, HOUR])
KEYS = st.sampled_from(["", "x", "y"])


class Both(NamedTuple):
    """The same thing as the model and as the store have it; their epochs and revisions are their own."""

    model: Any
    store: Any


class Outcome(NamedTuple):
    error: str
    answer: Any


class StoreAgainstModel(RuleBasedStateMachine):
    url_of: Callable[[], str]
    opened: Callable[[str], Awaitable[Backend]] = staticmethod(open_backend)
    differences: ClassVar[list[str]]
    """Every difference that a run has seen; each machine class has its own list."""

    grants = Bundle("grants")
    subscribers = Bundle("subscribers")
    kept = Bundle("kept")

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.url = type(self).url_of()
        self.runner = asyncio.Runner()
        self.model = MemoryBackend(now=lambda: self.now)
        self.do(self.model.open())
        self.store = self.do(type(self).opened(self.url))
        self.newest: dict[tuple[str, str], tuple[int, int]] = {}
        """The own numbers of the newest batch, by topic and publisher."""

    def do(self, call: Awaitable[Any]) -> Any:
        async def bounded() -> Any:
            async with asyncio.timeout(30.0):
                return await call

        return self.runner.run(bounded())

    def teardown(self) -> None:
        self.do(self.store.close())
        self.runner.close()

    def same(self, call: Callable[[Backend, int], Awaitable[Any]], plain: Callable[[Any], Any] = lambda answer: answer) -> Both | None:
        """Makes the call on both (0: the model, 1: the store); what they answer must be alike in `plain` words."""
        store, model = self.outcome(call(self.store, 1)), self.outcome(call(self.model, 0))
        # A step may be wrong in two ways at once, and either may be said.
        alike = store.error == model.error or {store.error, model.error} == {"Conflict", "Fenced"}
        if not alike or (not store.error and plain(store.answer) != plain(model.answer)):
            self.differences.append(f"the store says {store}, the model {model}")
            raise AssertionError(self.differences[-1])
        return None if store.error else Both(model.answer, store.answer)

    def outcome(self, call: Awaitable[Any]) -> Outcome:
        try:
            return Outcome("", self.do(call))
        except AntiphonError as error:
            return Outcome(type(error).__name__, None)

    @initialize(target=grants, options=OPTIONS, lease=LEASES, many=st.integers(1, 6))
    def begin(self, options: TopicOptions | None, lease: int, many: int) -> Any:
        """A topic with a few values, one by one, and a subscriber: calls on nothing all look alike."""
        grant = self.register("t", "ana", options, False)
        for _ in range(many):
            self.publish(grant, 0, 0, ["x"], True)
        self.subscribe("t", "s", lease, "earliest")
        return grant

    # --- topics ----------------------------------------------------------------------------------------------------------------

    @rule(target=grants, topic=TOPICS, publisher=PUBLISHERS, options=OPTIONS, takeover=st.booleans())
    def register(self, topic: str, publisher: str, options: TopicOptions | None, takeover: bool) -> Any:
        both = self.same(
            lambda backend, _: backend.register(topic, publisher, options=options, takeover=takeover),
            lambda grant: grant._replace(epoch=0),
        )
        return both if both is not None else multiple()

    @rule(grant=grants)
    def release(self, grant: Both) -> None:
        self.same(lambda backend, at: backend.release(grant[at]))

    @rule(grant=grants, back=st.integers(0, 4), ahead=st.sampled_from([0, 0, 0, 3]), keys=st.lists(KEYS, max_size=5), synced=st.booleans())
    def publish(self, grant: Both, back: int, ahead: int, keys: list[str], synced: bool) -> None:
        topic, publisher = grant.model.topic, grant.model.publisher
        before = self.newest.get((topic, publisher), (1, 0))
        first = max(1, before[1] + 1 - back + ahead)
        entries = [Entry(f"{publisher}/{first + at}".encode(), key) for at, key in enumerate(keys)]

        exact = first >= before[0]  # where a repeat lies is promised for the newest batch
        both = self.same(
            lambda backend, at: backend.publish(grant[at], first, entries, synced=synced),
            lambda receipt: (receipt.first, receipt.last) if exact else None,
        )
        if both is not None and entries:
            self.published(topic, publisher, first, len(entries))

    def published(self, topic: str, publisher: str, first: int, many: int) -> None:
        newest = self.newest.get((topic, publisher), (1, 0))[1]
        if first + many - 1 > newest:
            self.newest[topic, publisher] = (max(first, newest + 1), first + many - 1)
        # The model's values get the times that they have in the store.
        times = {value.seq: value.time for value in self.do(everything(self.store, topic))}
        here = self.model._shelf.topics[topic]
        here.stored = [one._replace(value=replace(one.value, time=times.get(one.seq, one.value.time))) for one in here.stored]

    @rule(grant=grants, ages=st.lists(st.integers(-1, 5), min_size=1, max_size=4))
    def erase(self, grant: Both, ages: list[int]) -> None:
        """Values from the end, where they are that were published last."""
        last = self.do(self.model.info(grant.model.topic)).last
        numbers = [last - age for age in ages]
        self.same(lambda backend, at: backend.erase(grant[at], numbers))

    @rule(topic=TOPICS, after=st.integers(0, 12), limit=st.integers(1, 6))
    def read(self, topic: str, after: int, limit: int) -> None:
        async def on(backend: Backend, _: int) -> Any:
            reader = await backend.reader(topic, after)
            chunks = [await reader.take(limit, 0) for _ in range(3)]
            await reader.close()
            return [([plain_value(value) for value in chunk.values], chunk.floor) for chunk in chunks]

        self.same(on)

    @rule(topic=TOPICS, late=st.sampled_from([0, 1, HOUR]), pick=st.integers(0, 20))
    def collect(self, topic: str, late: int, pick: int) -> None:
        """With a horizon at which some lease ends, or a nanosecond after, or now."""
        self.now = max(self.now, self.do(self.store.time()))
        here = self.model._shelf.topics.get(topic)
        ages = leases(here.subscribers.values(), here.options or TopicOptions()) if here is not None else ()
        ends = [stored.value.time + lease for lease in sorted(ages) for stored in here.stored] if here is not None else []
        horizon = min(ends[pick % len(ends)] + late, self.now) if ends else self.now
        self.same(lambda backend, _: backend.collect(topic, horizon))

    # --- subscribers -----------------------------------------------------------------------------------------------------------

    @rule(
        target=subscribers,
        topic=TOPICS,
        id_=IDS,
        lease=LEASES,
        start=st.sampled_from(["earliest", "latest", 0, 2, 5]),
    )
    def subscribe(self, topic: str, id_: str, lease: int, start: Any) -> Any:
        both = self.same(lambda backend, _: backend.subscribe(topic, id_, lease, start), plain_subscriber)
        return both if both is not None else multiple()

    @rule(target=subscribers, topic=TOPICS, id_=IDS)
    def look_up(self, topic: str, id_: str) -> Any:
        both = self.same(lambda backend, _: backend.subscriber(topic, id_), plain_subscriber)
        return both if both is not None and both.model is not None else multiple()

    @rule(
        target=subscribers,
        subscriber=subscribers,
        forward=st.integers(-1, 6),
        marks=st.sets(st.integers(1, 8)),
        lease=st.sampled_from([0, 0, 1, 70_000]),
        state=st.binary(max_size=4),
    )
    def update(self, subscriber: Both, forward: int, marks: set[int], lease: int, state: bytes) -> Any:
        changed = moved(subscriber, forward, marks, lease, state)
        both = self.same(lambda backend, at: backend.update(changed[at]), plain_subscriber)
        return both if both is not None else multiple()

    @rule(
        target=subscribers,
        subscriber=subscribers,
        grant=grants,
        forward=st.integers(0, 2),
        back=st.integers(0, 2),
        many=st.integers(0, 3),
    )
    def step(self, subscriber: Both, grant: Both, forward: int, back: int, many: int) -> Any:
        topic, publisher = grant.model.topic, grant.model.publisher
        first = max(1, self.newest.get((topic, publisher), (1, 0))[1] + 1 - back)
        entries = [Entry(f"{publisher}/{first + at}".encode(), "x") for at in range(many)]
        changed = moved(subscriber, forward, set(), 0, b"stepped")
        both = self.same(lambda backend, at: backend.step(changed[at], [Publication(grant[at], first, entries)]), plain_subscriber)
        if both is None:
            return multiple()
        if entries:
            self.published(topic, publisher, first, many)
        return both

    @rule(subscriber=subscribers)
    def unsubscribe(self, subscriber: Both) -> None:
        self.same(lambda backend, at: backend.unsubscribe(subscriber[at]))

    # --- records ---------------------------------------------------------------------------------------------------------------

    @rule(target=kept, key=RECORDS, data=st.binary(max_size=5))
    def make(self, key: str, data: bytes) -> Any:
        both = self.same(lambda backend, _: backend.put(key, data, 0), plain_record)
        return both if both is not None else multiple()

    @rule(target=kept, record=kept, data=st.binary(max_size=5))
    def change(self, record: Both, data: bytes) -> Any:
        both = self.same(lambda backend, at: backend.put(record[at].key, data, record[at].revision), plain_record)
        return both if both is not None else multiple()

    @rule(record=kept)
    def remove(self, record: Both) -> None:
        self.same(lambda backend, at: backend.remove(record[at].key, record[at].revision))

    @rule(record=kept)
    def watch(self, record: Both) -> None:
        self.same(lambda backend, at: backend.watch(record[at].key, record[at].revision, 0), plain_record)

    # --- everything ------------------------------------------------------------------------------------------------------------

    @rule()
    def reopen(self) -> None:
        """As after a crash: what counts is what is in the store."""
        self.do(self.store.close())
        self.store = self.do(type(self).opened(self.url))

    @invariant()
    def looks_the_same(self) -> None:
        both = self.same(lambda backend, _: backend.topics(), lambda infos: [plain_info(info) for info in infos])
        assert both is not None
        for info in both.model:
            self.same(lambda backend, _, name=info.name: everything(backend, name), lambda values: [plain_value(one) for one in values])
            self.same(
                lambda backend, _, name=info.name: backend.subscribers(name),
                lambda records: [plain_subscriber(one) for one in records],
            )
        self.same(lambda backend, _: backend.records(""), lambda records: [plain_record(one) for one in records])


def differences_of(machine: type[StoreAgainstModel], *, examples: int, steps: int) -> list[str]:
    """Run `examples` random schedules of `steps` calls and return the differences seen and the calls that led there, nothing if the store
    is what the model says.

    Times are those of the machine's clock, so the same calls may lead elsewhere when they are made once more. Hypothesis then ends the
    run: a difference seen before that counts, and without one the run is repeated."""
    machine.differences = []
    for _ in range(_RUNS):
        try:
            run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=steps, phases=_PHASES))
        except AssertionError as error:
            if not machine.differences:
                raise
            return [*machine.differences, *getattr(error, "__notes__", ())]
        except Flaky:
            if not machine.differences:
                continue
        return machine.differences
    raise AssertionError(f"Hypothesis ended {_RUNS} runs before they had made {examples} schedules")


def moved(subscriber: Both, forward: int, marks: set[int], lease: int, state: bytes) -> Both:
    position = max(0, subscriber.model.position + forward)
    beyond = Ranges((position + 1 + number, position + 1 + number) for number in sorted(marks))
    fields = {"position": position, "marks": tuple(beyond), "lease": lease or subscriber.model.lease, "state": state}
    return Both(replace(subscriber.model, **fields), replace(subscriber.store, **fields, place=0))


async def everything(backend: Backend, topic: str) -> list[Value]:
    reader, found = await backend.reader(topic, 0), list[Value]()
    while (chunk := await reader.take(100, 0)).values:
        found += chunk.values
    await reader.close()
    return found


def plain_value(value: Value) -> Value:
    return replace(value, place=0)


def plain_subscriber(subscriber: Subscriber | None) -> Subscriber | None:
    return replace(subscriber, revision=0, place=0) if subscriber is not None else None


def plain_record(record: Record | None) -> Record | None:
    return record._replace(revision=0) if record is not None else None


def plain_info(info: TopicInfo) -> TopicInfo:
    return replace(info, epoch=0, size=0)


def test_sqlite_is_what_the_model_says() -> None:
    """Two back ends would each keep the promises somehow, and a program that works on one would meet another behaviour on the other."""
    with TemporaryDirectory() as directory:

        class Machine(StoreAgainstModel):
            url_of = staticmethod(lambda: f"sqlite:{Path(directory) / f'm{next(_FRESH)}'}.db")

        assert not differences_of(Machine, examples=25, steps=40)


class EndsLeasesLate(MemoryBackend):
    """By one nanosecond."""

    async def collect(self, topic: str, horizon: Moment) -> Collected:
        return await super().collect(topic, horizon - 1)


class ForgetsItsPublisherWithValues(MemoryBackend):
    async def erase(self, grant: Grant, numbers: Sequence[int]) -> int:
        gone = await super().erase(grant, numbers)
        async with self._turn() as shelf:
            here, mine = shelf.held(grant)
            mine.number = max((stored.number for stored in here.stored if stored.publisher == grant.publisher), default=0)
        return gone


class TakesGhostsBack(MemoryBackend):
    """A subscriber that was removed and made again is changed by whoever held it before."""

    async def unsubscribe(self, subscriber: Subscriber) -> None:
        async with self._turn() as shelf:
            if subscriber.topic in shelf.topics:
                shelf.topics[subscriber.topic].subscribers.pop(subscriber.id, None)


class ForgetsTheFloorWhenClosed(MemoryBackend):
    async def close(self) -> None:
        for topic in self._shelf.topics.values():
            topic.floor = 0
        await super().close()


class StepsInHalves(MemoryBackend):
    """Publishes what a step says even if the subscriber has changed."""

    async def step(self, subscriber: Subscriber, publications: Sequence[Publication]) -> Subscriber:
        for grant, first, entries in publications:
            await self.publish(grant, first, entries)
        return await super().step(subscriber, ())


@pytest.mark.parametrize("kind", [EndsLeasesLate, ForgetsItsPublisherWithValues, TakesGhostsBack, ForgetsTheFloorWhenClosed, StepsInHalves])
def test_a_store_that_differs_is_seen(kind: type[MemoryBackend]) -> None:
    """Random calls that never come near the edge would find all stores alike."""

    async def opened(url: str) -> Backend:
        backend = kind(url)
        await backend.open()
        return backend

    class Machine(StoreAgainstModel):
        url_of = staticmethod(lambda: f"memory:model{next(_FRESH)}")

    Machine.opened = staticmethod(opened)
    assert differences_of(Machine, examples=300, steps=40)


def test_jetstream_is_what_the_model_says() -> None:
    """As above, where the store is a server."""
    if find_spec("nats") is None:
        pytest.skip("nats-py is not installed: pip install 'antiphon[nats]'")
    from antiphon.store.jetstream import LocalServers

    with TemporaryDirectory() as directory, ExitStack() as stack:
        servers = LocalServers(1, directory)
        try:
            stack.enter_context(servers)
        except BadStore as missing:
            pytest.skip(str(missing))

        class Machine(StoreAgainstModel):
            url_of = staticmethod(lambda: f"{servers.url}&prefix=m{next(_FRESH)}")

        assert not differences_of(Machine, examples=8, steps=30)
