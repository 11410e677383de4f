"""A store as a program sees it: the door to durable topics, with or without a node.

    async with antiphon.open_store("sqlite:crash.db", name="hotline") as store:
        crash = store.topic("crash", type=Crash)
        await crash.publish(Crash("A1", 3))

Everything that is opened here shares one connection, one publisher per topic, one outbox and one seat in the ring that decides what may be
collected. A store with an outbox can be opened while it is out of reach: what is published goes to the outbox until it answers.

In the background: a seat in the ring from the first subscription on (or the outbox), and a collector that looks every `collect_s`. What
they cost is said in `ring.py` and `collector.py`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from msgspec import structs

from antiphon.errors import InvalidOption, StoreUnreachable, UsageError
from antiphon.model.payload import codec_for
from antiphon.model.recording import StoreTranscript
from antiphon.store.agents.agent import Agent
from antiphon.store.agents.running import Running
from antiphon.store.collector import Collector, collect
from antiphon.store.contract import Backend
from antiphon.store.draining import Draining
from antiphon.store.holders import CollectionHold, holders
from antiphon.store.holdings import Holdings
from antiphon.store.outbox import Outbox
from antiphon.store.publishing import Publisher
from antiphon.store.reach import Reach
from antiphon.store.recorded import recorded
from antiphon.store.records import Collected, Moment, TopicInfo, checked_name
from antiphon.store.ring import RingNode
from antiphon.store.settings import StoreSettings
from antiphon.store.subscription import Subscription
from antiphon.store.timekeeper import Timekeeper
from antiphon.store.topic import Topic

_CLOSE_S = 5.0


class Store:
    def __init__(
        self,
        backend: Backend,
        *,
        name: str | None = None,
        outbox: str | os.PathLike[str] | None = None,
        settings: StoreSettings | None = None,
        transcript: StoreTranscript | None = None,
    ) -> None:
        """Made by `open_store`, or with a back end of your own. `transcript` takes down what happens."""
        if transcript is not None:
            backend = recorded(backend, transcript)
        self.name = None if name is None else checked_name(name, "publisher")
        self.settings = settings or StoreSettings()
        self.reach = Reach(backend, self.settings, self._answered)
        """The way to the back end: what is built on a store asks through it."""
        self.reach.transcript = transcript
        self.holdings = Holdings()
        """What is still needed of the store here."""
        self.timekeeper = Timekeeper(self.reach, self.holdings)
        if outbox is not None and self.name is None:
            raise InvalidOption("outbox", os.fspath(outbox), "it keeps what is published: say who publishes, with name=…")
        self._outbox = None if outbox is None else Outbox(os.fspath(outbox), node=self.name or "", holdings=self.holdings)
        self._draining = None if self._outbox is None else Draining(self._outbox, backend)
        self._ring = RingNode(backend, self.holdings, self.name or "", node_timeout_s=self.settings.node_timeout_s)
        self._ring_started = False
        self._collector = Collector(backend, self._ring, interval_s=self.settings.collect_s) if self.settings.collect_s else None
        self._publisher_by_topic: dict[str, Publisher] = {}
        self._subscriptions: set[Subscription] = set()
        self._opened = False
        self._closing: asyncio.Task[None] | None = None

    # -- life ------------------------------------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Opens it; `async with` does it. Raises BadStore for what is no store, StoreUnreachable for one that does not answer, unless
        there is an outbox."""
        if self._opened:
            raise UsageError("a store is opened once: make another with open_store")
        self._opened = self.reach.begun = True
        try:
            if self._outbox is not None:
                await self._outbox.open()
            await self.reach.open(later=self._outbox is not None, then=self._begin)
        except BaseException:
            await self.close()
            raise
        return self

    def _begin(self) -> None:
        """The store answers for the first time."""
        if self._draining is not None:
            self._draining.start()
            self._start_ring()
        if self._collector is not None:
            self._collector.start()

    def _answered(self) -> None:
        """The store answers again."""
        if self._draining is not None:
            self._draining.nudge()

    def _start_ring(self) -> None:
        if not self._ring_started:
            self._ring_started = True
            self._ring.start()

    async def close(self, *, timeout: float = _CLOSE_S) -> None:
        """Waits for what is being published, from the outbox too while the store answers, at most `timeout` seconds long, ends whatever
        waits, and closes. What is still in the outbox stays there for the next time."""
        await asyncio.shield(self._closed_within(timeout))

    def abandon(self) -> None:
        """Closes without waiting for anything."""
        with suppress(RuntimeError):  # there is no event loop, so nothing is open
            self._closed_within(0.0)

    def _closed_within(self, timeout: float) -> asyncio.Task[None]:
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(timeout), name=f"closing {self.url}")
        return self._closing

    async def _close(self, timeout: float) -> None:
        self.reach.closing = True
        clock = asyncio.get_running_loop().time
        until = clock() + timeout
        try:
            publishers = [publisher.close(timeout) for publisher in self._publisher_by_topic.values()]
            await asyncio.gather(*publishers, *(subscription.close() for subscription in list(self._subscriptions)))
            if self._draining is not None:
                # A program that is started for each value would else end before its outbox is sent, each time, and never send anything.
                await self._draining.finish(max(until - clock(), 0.0))
            for task in (self._collector, self._draining):
                if task is not None:
                    await task.stop()
            if self._ring_started:
                with suppress(StoreUnreachable):
                    await self._ring.stop()
        finally:
            await self.timekeeper.close()
            await self.reach.close()
            if self._outbox is not None:
                await self._outbox.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def __await__(self) -> Generator[Any, None, Self]:
        return self.open().__await__()

    # -- topics ----------------------------------------------------------------------------------------------------------------

    def topic(self, name: str, *, type: Any = None) -> Topic:
        """A topic by its name, whether it is there or not; asks nobody. `type` is what its values are, bytes if it is left out."""
        return Topic(self, checked_name(name), codec_for(type, "topic"))

    async def topics(self, *, timeout: float | None = None) -> list[TopicInfo]:
        """All there are, by name."""
        return await self.reach.insist(self.reach.backend.topics, timeout)

    async def collect(self, topics: str | Iterable[str] | None = None, *, timeout: float | None = None) -> dict[str, Collected]:
        """Removes from this topic, these, or all, what nobody needs any more; says for each how far that went."""
        chosen = None if topics is None else [checked_name(topic) for topic in ((topics,) if isinstance(topics, str) else topics)]
        ring = self._ring if self._ring_started else None
        return await self.reach.insist(lambda: collect(self.reach.backend, chosen, ring=ring), timeout)

    async def holders(self, topics: str | Iterable[str] | None = None, *, timeout: float | None = None) -> dict[str, list[CollectionHold]]:
        """Return by topic, for this one, these or all, which subscribers, outboxes and retention times keep values from being collected,
        since when and until when. Raises UnknownTopic for a topic that is named and not there."""
        if topics is None:
            chosen = [info.name for info in await self.topics(timeout=timeout)]
        else:
            chosen = [checked_name(topic) for topic in ((topics,) if isinstance(topics, str) else topics)]
        backend, found = self.reach.backend, {}
        for topic in chosen:
            found[topic] = await self.reach.insist(lambda topic=topic: holders(backend, topic), timeout)  # type: ignore[misc]
        return found

    async def time(self, *, timeout: float | None = None) -> Moment:
        """The store's time, in nanoseconds. It is nobody's wall clock, and never goes back."""
        moment = await self.reach.insist(self.reach.backend.time, timeout)
        self.timekeeper.hear(moment)
        return moment

    def waiting_in_outbox(self, topic: str) -> int:
        """How many values of the topic lie in the outbox of this node."""
        return 0 if self._outbox is None else self._outbox.pending(topic)

    async def run(self, agent: Agent) -> None:
        """Runs the agent here, or waits to take it over from the node that runs it, until this is cancelled or the store is closed."""
        await Running(self, agent).forever()

    # -- questions about it ----------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """As it was opened, without passwords."""
        return self.reach.url

    @property
    def backend(self) -> Backend:
        return self.reach.backend

    def stats(self) -> dict[str, object]:
        """Counters and gauges, plain values."""
        return {
            **structs.asdict(self.reach.tally),
            "trouble": self.reach.trouble,
            "publishing": sum(publisher.waiting for publisher in self._publisher_by_topic.values()),
            "prefetched": sum(subscription.prefetched for subscription in self._subscriptions),
            "subscriptions": len(self._subscriptions),
            "subscriptions_unreachable": sum(not subscription.reachable for subscription in self._subscriptions),
            "ring": self._ring.stats() if self._ring_started else {},
            "outbox": {} if self._draining is None else self._draining.stats(),
            "collector": {} if self._collector is None else self._collector.stats(),
        }

    def __repr__(self) -> str:
        return f"<store {self.url}{'' if self.name is None else f' for {self.name}'}>"

    # -- what topics and subscriptions ask -------------------------------------------------------------------------------------

    def publisher(self, topic: str, name: str | None = None) -> Publisher:
        """The one publisher that all who publish to this topic here share. `name` is another than the store's for this topic, said before
        anybody publishes to it; with an outbox it counts for nothing, since what lies there is published under one name."""
        self.reach.check_open()
        if self.name is None:
            raise InvalidOption("name", None, "whoever publishes has a name: open_store(…, name=…)")
        publisher = self._publisher_by_topic.get(topic)
        if publisher is None:
            chosen = self.name if name is None or self._outbox is not None else name
            publisher = self._publisher_by_topic[topic] = Publisher(self.reach, topic, chosen, self._outbox)
        return publisher

    async def seated(self, timeout: float | None) -> None:
        """Waits until this store has its seat in the ring, so that what is read here is not collected meanwhile."""
        if not self._ring.is_member:
            await self.time(timeout=timeout)  # the ring is patient: whether the store answers is found out sooner here
            self._start_ring()
            await self._ring.ready(self.settings.timeout_s if timeout is None else timeout)

    def remember(self, subscription: Subscription) -> Subscription:
        self._subscriptions.add(subscription)
        return subscription

    def forget(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)
