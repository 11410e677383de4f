"""What a store must do for durable topics: the contract that every back end keeps, and that one suite checks on all of them.

Everything above (topics, subscriptions, leases, agents, groups) is made of these calls, so a further back end is one class.

**Batches.** A publish is a batch: it is written as a whole or not at all, and acknowledged once.
**Numbers.** The store gives each value the next number of its topic. A publisher gives its values numbers of its own, increasing (not
necessarily by one): `publish(grant, first, entries)` says that entry k has its own number `first + k`. Entries whose own number is not
above the publisher's newest are there already and are not written again, so that whoever lost an acknowledgement simply repeats.
**Epochs.** `register` raises the publisher's epoch, coming back as a subscriber raises the subscriber's; who held the earlier one gets
`Fenced`, whatever it still has in its pockets.
**Time** is the store's and never goes back. Values of a topic have times that never fall with their numbers.
**Conditions.** Records and subscribers change by compare-and-set on their revision: `Conflict` says that somebody else was faster.
**Errors** are those of `antiphon.errors`: UnknownTopic, TopicTaken, Fenced, Conflict, StoreFull, TooLarge; whatever comes of a store that
does not answer is StoreUnreachable, and then the call may or may not have happened: repeating it is always right.
**Order.** Publishes of one grant take effect in the order of the calls, also when several are under way at once.
**Cancelling** a call leaves it done or not done, never half; the next call works. Where the store is a process of its own a call that was
cancelled may still be on its way, and then happens before the next write to the same topic, subscriber or record takes effect, or never.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

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


class Reader(Protocol):
    """Values of one topic, in order, from where it was opened on."""

    async def take(self, limit: int, timeout_s: float) -> Chunk:
        """Up to `limit` values after those taken before; waits for the first one at most `timeout_s` (0: does not wait), and is then
        an empty chunk. Numbers that are missing between values are not in the store any more. That those behind the newest value are
        missing is said by `gone` of an empty chunk: else nobody would hear of it before the next publish."""

    async def close(self) -> None: ...


class Backend(Protocol):
    url: str
    """As it was opened, without passwords."""
    value_bytes: int
    """The largest value: a larger one is refused with TooLarge."""
    batch_values: int
    batch_bytes: int
    """The largest batch of one publish: whoever has more publishes several."""
    atomic_steps: bool
    """Whether a `step` is one transaction: all of it or nothing."""

    async def open(self) -> None:
        """Raises BadStore for what is not, or cannot be used as, a store, StoreUnreachable for one that does not answer."""

    async def close(self) -> None: ...

    async def time(self) -> Moment: ...

    # --- topics ----------------------------------------------------------------------------------------------------------------

    async def register(self, topic: str, publisher: str, *, options: TopicOptions | None = None, takeover: bool = False) -> Grant:
        """The right to write, with a new epoch. TopicTaken when another publisher has the topic, unless it is shared or taken over.
        Creates the topic where there is none. `options` other than those of the topic raise InvalidOption; None takes what is there.
        The first who registers decides them; a topic that has only been subscribed to has none yet. Names are checked (InvalidName)."""

    async def release(self, grant: Grant) -> None:
        """Gives the topic up, so that another may register. A grant that is worth nothing any more: nothing happens."""

    async def publish(self, grant: Grant, first: int, entries: Sequence[Entry], *, synced: bool = True) -> Receipt:
        """See Numbers above. When it returns, the values are on disk and synced; with `synced=False` they are only written, unless the
        receipt says better. A mutable topic drops the earlier values of the keys (an empty key is one like any other). The receipt of a
        repeat says where the values are, at least for the publisher's newest batch and where no others write; without entries it is
        empty: `last` is below `first`. More than a batch may have is TooLarge, and nothing is written."""

    async def erase(self, grant: Grant, numbers: Sequence[int]) -> int:
        """The publisher takes values back; in a shared topic only its own go. Returns how many went."""

    async def reader(self, topic: str, after: int, place: int = 0) -> Reader:
        """`place` is the hint that came with the value or subscriber where reading goes on; 0 where there is none."""

    async def info(self, topic: str) -> TopicInfo:
        """A topic that nobody has registered or subscribed to is UnknownTopic, here as in all calls that name one to be used."""

    async def topics(self) -> list[TopicInfo]:
        """Sorted by name."""

    async def collect(self, topic: str, horizon: Moment) -> Collected:
        """Removes what `retention.removable` allows with the subscribers as they are. Nothing that a subscriber created meanwhile may
        read goes: it never starts below the floor. Safe in several processes at once, and when killed in the middle. A horizon beyond
        the store's time counts as that time."""

    # --- subscribers -----------------------------------------------------------------------------------------------------------

    async def subscribe(self, topic: str, subscriber: str, lease: Moment, start: Start = "earliest") -> Subscriber:
        """A new subscriber, before or after the topic is first published; Conflict when there is one of this id. InvalidOption for a
        `start` that is no number, or that has not been published yet; then no topic is made either (see `records.start_position`)."""

    async def subscriber(self, topic: str, subscriber: str) -> Subscriber | None: ...

    async def subscribers(self, topic: str) -> list[Subscriber]:
        """Sorted by id."""

    async def update(self, subscriber: Subscriber) -> Subscriber:
        """Replaces the record whose revision this one carries, synced; returns it with its new revision, or raises Conflict."""

    async def unsubscribe(self, subscriber: Subscriber) -> None:
        """Removes the record at this revision, or raises Conflict; nothing happens when it is gone already."""

    async def step(self, subscriber: Subscriber, publications: Sequence[Publication]) -> Subscriber:
        """What an agent's step does: the publications and the update of its subscriber, so that doing it again after a crash at any
        point does not publish anything twice. In one transaction where the store has such, else first the publications, by
        their numbers, then the update."""

    # --- records ---------------------------------------------------------------------------------------------------------------

    async def get(self, key: str) -> Record | None: ...

    async def put(self, key: str, data: bytes, revision: int) -> Record:
        """Writes on condition that the record has this revision (0: that there is none), or raises Conflict."""

    async def remove(self, key: str, revision: int) -> None:
        """Removes on the same condition (gone is Conflict). A record made again later never has a revision it had before."""

    async def records(self, prefix: str) -> list[Record]:
        """Sorted by key; keys are paths of names with `/` between them."""

    async def watch(self, key: str, revision: int, timeout_s: float) -> Record | None:
        """The record as soon as its revision is another than this one (0: there is none), or as it is after the time-out."""
