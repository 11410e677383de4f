"""A subscription: values of a topic in order, each once, from where this subscriber was; and what it has made of them.

    async for item in subscription:
        if isinstance(item, Gap): ...                  # these values are no longer there; nothing is left out in silence
        state = apply(state, item.data)
        await subscription.done(item.seq, state)       # the continuation: position and state in one write

Whoever comes back under the same id goes on where `done` was last acknowledged, and whoever held the subscription before is fenced: its
next call, or its reading within `watch_s`, raises Fenced. Values older than the lease are skipped and counted, judged by the store's time
when they are delivered. Reading is one stream, shared by all who read here.

Every call may be cancelled: what was not read is read by the next. A `done` that was cancelled, or not answered in time, is not taken back:
the store has it, or has it with the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from antiphon.errors import AntiphonError, Fenced, InvalidOption, TimedOut, UsageError
from antiphon.model.payload import PayloadCodec
from antiphon.model.ranges import Ranges
from antiphon.store import retention
from antiphon.store.contact import EVENT_LIMIT, ContactEvent, StoreContact
from antiphon.store.continuation import Continuation, look
from antiphon.store.event_stream import EventFeed, EventStream
from antiphon.store.prefetch import Prefetch
from antiphon.store.recorded import ranges_of
from antiphon.store.records import SECOND, Gap, Moment, Subscriber, Value, checked_lease, checked_seqs
from antiphon.store.settings import StoreSettings
from antiphon.store.succession import Item, Succession

if TYPE_CHECKING:
    from antiphon.store.store import Store


class Subscription:
    def __init__(self, store: Store, record: Subscriber, codec: PayloadCodec | None, missed: Gap | None = None) -> None:
        """Made by `Topic.subscribe`. `missed` is what was gone when it began, and is told first."""
        self._store, self._reach, self._missed = store, store.reach, missed
        self._continuation = Continuation(store.reach, record)
        self._succession = Succession(record.position, Ranges(record.marks))
        self._expired = 0
        decode = None if codec is None else codec.decode
        self._contact_feed: EventFeed[ContactEvent] = EventFeed(EVENT_LIMIT)
        of = f"subscription {record.id} to {record.topic}"
        self._contact = StoreContact(of, store.url, store.settings.lost_s, self._contact_feed.tell)
        self._prefetch = Prefetch(
            store.reach, store.timekeeper, store.holdings, record, self._succession, decode, self._watch, self._contact
        )

    # -- where it is -----------------------------------------------------------------------------------------------------------

    @property
    def topic(self) -> str:
        return self._continuation.record.topic

    @property
    def id(self) -> str:
        """Come back with `topic.subscribe(id=…)`."""
        return self._continuation.record.id

    @property
    def epoch(self) -> int:
        """1 where this subscriber is new; one more each time that somebody came back as it."""
        return self._continuation.record.epoch

    @property
    def position(self) -> int:
        """Everything up to this number is done, and the store knows it."""
        return self._continuation.record.position

    @property
    def state(self) -> bytes:
        """As it was last written with `done`, by whoever was this subscriber."""
        return self._continuation.record.state

    @property
    def lease(self) -> float:
        """In seconds."""
        return self._continuation.record.lease / SECOND

    @property
    def lag(self) -> int:
        """How many numbers are published, as far as is known here, and not done."""
        record = self._continuation.record
        marked = sum(high - low + 1 for low, high in record.marks)
        return max(self._prefetch.last - record.position - marked, 0)

    @property
    def expired(self) -> int:
        """How many values were skipped because they were older than the lease."""
        return self._expired

    @property
    def reachable(self) -> bool:
        """Whether the store answers this subscription. While it does not, only what was read ahead is delivered."""
        return self._contact.lost is None

    def events(self) -> EventStream[ContactEvent]:
        """`StoreLost` when the store has not answered for `lost_s`, `StoreRestored` when it answers again; from now on, beginning with a
        loss that lasts. Each listener has its own stream, which ends with the subscription; reading values is not affected."""
        lost = self._contact.lost
        return self._contact_feed.listen(() if lost is None else (lost,))

    @property
    def settings(self) -> StoreSettings:
        return self._store.settings

    @property
    def prefetched(self) -> int:
        """How many values and gaps are read ahead."""
        return self._prefetch.values

    # -- reading ---------------------------------------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        """The next value or gap. Ends when the subscription or its store is closed; raises Fenced when somebody came in its place."""
        return (await self._take(1))[0]

    def batches(self, limit: int = 1_024) -> Batches:
        """The same, as many at once as there are: much cheaper per value."""
        return Batches(self, checked_limit(limit))

    async def read(self, timeout: float | None = None) -> Item:
        """The next value or gap; raises TimedOut when there is none for so long."""
        return (await self.read_many(1, timeout))[0]

    async def read_many(self, limit: int, timeout: float | None = None) -> list[Item]:
        """The next ones, at least one; raises TimedOut when there is none for so long."""
        checked_limit(limit)
        until = None if timeout is None else self._reach.until(timeout)
        try:
            async with asyncio.timeout_at(until):
                return await self._take(limit)
        except StopAsyncIteration:
            raise UsageError(f"the subscription to {self.topic!r} is closed: subscribe again under the id {self.id!r}") from None
        except TimeoutError as error:
            if isinstance(error, AntiphonError):
                raise
            trouble = f" (the store does not answer: {self._reach.trouble})" if self._reach.trouble else ""
            raise TimedOut(f"nothing new came in {self.topic!r} for {timeout:g} s{trouble}") from None

    async def _take(self, limit: int) -> list[Item]:
        prefetch, timekeeper = self._prefetch, self._store.timekeeper
        while True:
            if self._missed is not None and not prefetch.ended:
                items: list[Item] = [self._missed]
                self._missed = None
                self._count(items)
                return items
            if not prefetch.ready and not await prefetch.wait():
                raise StopAsyncIteration
            if not timekeeper.knows(prefetch.oldest + self._continuation.wanted.lease):
                await timekeeper.ask()
                if not prefetch.ready:
                    continue  # somebody else has taken it meanwhile
            items = self.due(prefetch.take(limit), timekeeper.now)
            if items:
                prefetch.hand_out(items, self._continuation.wanted.lease)
                self._count(items)
                return items

    def _count(self, items: list[Item]) -> None:
        gaps = list(map(type, items)).count(Gap)
        self._reach.tally.gaps += gaps
        self._reach.tally.read += len(items) - gaps
        if self._reach.transcript is not None:
            self._reach.transcript.read(self.topic, self.id, self.epoch, ranges_of(items))

    def due(self, items: list[Item], now: Moment) -> list[Item]:
        """Without what this subscriber is not to be told: what is done already, and what is older than its lease."""
        wanted, marks = self._continuation.wanted, self._continuation.marks
        first = items[0]
        # Numbers and times do not fall: what holds for the first holds for all, unless something is marked beyond it.
        reached = max(wanted.position, marks.highs[-1]) if marks.highs else wanted.position
        if isinstance(first, Value) and first.seq > reached and now <= first.time + wanted.lease:
            return items
        due: list[Item] = []
        for item in items:
            if isinstance(item, Gap):
                if item.last > wanted.position:
                    due.append(Gap(max(item.first, wanted.position + 1), item.last, item.why))
            elif item.seq > wanted.position and item.seq not in marks:
                if retention.due(item.time, wanted.lease, now):
                    due.append(item)
                else:
                    self._expired += 1
                    self._reach.tally.expired += 1
                    self._succession.skip(item.seq, item.seq)
                    if self._reach.transcript is not None:
                        self._reach.transcript.read(self.topic, self.id, self.epoch, [(item.seq, item.seq, "expired")])
        return due

    async def still_due(self, items: list[Item]) -> list[Item]:
        """For whoever has read and not yet given out: what of it is to be told now. Raises Fenced when nothing is any more."""
        self._continuation.check()
        await self._store.timekeeper.ask()
        return self.due(items, self._store.timekeeper.now)

    # -- the continuation ------------------------------------------------------------------------------------------------------

    async def done(self, seq: int, state: bytes | None = None, *, timeout: float | None = None) -> None:
        """Done with everything up to `seq`, and this is the state now (None: as it was): written together, and returned when it is. Calls
        that are made at once share a write, which has the newest state. Never goes back."""
        state = self._continuation.checked_state(state)
        await self._checked_seq(seq, timeout)
        self._continuation.advance(seq, state, self._prefetch.place_of(seq))
        await self._settle(timeout)

    async def done_one(self, seqs: int | Iterable[int], state: bytes | None = None, *, timeout: float | None = None) -> None:
        """Done with these single values, in any order; they are not delivered again. The position follows when all before it are."""
        state = self._continuation.checked_state(state)
        chosen = checked_seqs(seqs)
        if chosen:
            await self._checked_seq(chosen[-1], timeout)
        self._continuation.mark(chosen, state, self._succession.passed)
        await self._settle(timeout)

    async def renew(self, lease: float, *, timeout: float | None = None) -> None:
        """From now on values are due to this subscriber for so many seconds."""
        self._reach.until(timeout)
        self._continuation.renew(checked_lease(lease))
        await self._settle(timeout)

    async def unsubscribe(self, *, timeout: float | None = None) -> None:
        """The store forgets this subscriber, its position and its state; nothing is kept for it any more."""
        self._reach.check_open()
        try:
            await self._continuation.remove(timeout)
        except Fenced as error:
            await self._prefetch.close(error)
            raise
        await self.close()

    async def _checked_seq(self, seq: int, timeout: float | None) -> None:
        self._reach.check_open()
        self._reach.until(timeout)  # refused before anything is changed
        if isinstance(seq, bool) or not isinstance(seq, int) or seq < 0:
            raise InvalidOption("seq", seq, "give the number of a value, as it came with it")
        if seq > self._prefetch.last:
            info = await self._reach.insist(lambda: self._reach.backend.info(self.topic), timeout)
            self._prefetch.last = max(self._prefetch.last, info.last)
            if seq > info.last:
                raise UsageError(f"done({seq}) of {self.topic!r}, where only {info.last} values have been published")

    async def _settle(self, timeout: float | None) -> None:
        try:
            await self._continuation.settle(timeout)
        except Fenced as error:
            await self._prefetch.close(error)
            raise
        # Not before it is written: until then whoever comes back would have to read it again.
        self._prefetch.done(self.position, self._continuation.wanted.lease)
        self._succession.forget(self.position)

    async def _watch(self) -> None:
        """Has somebody come in the place of this one?"""
        continuation = self._continuation
        record = await look(self._reach, self.topic, self.id, once=True)
        continuation.judge(record)
        if continuation.fenced is not None:
            raise continuation.fenced

    # -- the end ---------------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Stops reading. The store keeps the position, the state and what is not done, until the lease is over."""
        self._store.forget(self)
        self._contact_feed.end()
        await self._prefetch.close()
        await self._continuation.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def __repr__(self) -> str:
        lost = "" if self.reachable else ", the store does not answer"
        return f"<subscription {self.id} to {self.topic}: done up to {self.position} of {self._prefetch.last}{lost}>"


class Batches(AsyncIterator[list[Item]]):
    """Takes from what all readers of the subscription share. It is no generator, so that it can be cancelled and asked again."""

    __slots__ = ("_limit", "_subscription")

    def __init__(self, subscription: Subscription, limit: int) -> None:
        self._subscription, self._limit = subscription, limit

    async def __anext__(self) -> list[Item]:
        return await self._subscription._take(self._limit)


def checked_limit(limit: Any) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidOption("limit", limit, "say how many at most, 1 or more")
    return limit
