"""What a node still needs of the store, by topic: for every reader the time of the oldest value that it was handed and has not confirmed,
for the outbox the store time at which its oldest value of the topic began to wait.

The ring asks for the lowest such time of each topic, not only now but over a period: `mark` begins the period, `lowest_by_topic` is the
lowest time held at any moment since, also if it has been released meanwhile. Without that a value handed from one node to another between
two visits of the token would be seen at neither (see `token.py`).

A hold ends by itself. A value is due to a reader while time ≤ value's time + lease, so a hold of a reader covers only values that are not
older than the lease, and is over when the newest value it was handed is. A hold without a lease (the outbox) lasts until it is released.
Values that were only prefetched are not held: they are protected by the subscriber's record, like values that nobody has read yet.

A hold without a topic counts for every topic.

Costs: `set` and `hold` are O(1) and are called once per batch, `mark` and `lowest_by_topic` are O(owners). An owner that is garbage holds
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace

from antiphon.store.records import Moment


class TopicHold(Struct):
    """What one owner needs of one topic."""

    oldest: Moment
    """The time of the oldest value that is needed."""
    topic: str = ""
    """Empty: all topics."""
    reader: str = ""
    """The id of the subscriber; empty for an outbox."""
    newest: Moment = 0
    """The time of the newest value that is needed; means nothing without a lease."""
    lease: Moment | None = None

    @property
    def until(self) -> Moment | None:
        """The last moment at which it counts; None: until it is released."""
        return None if self.lease is None else self.newest + self.lease

    def at(self, now: Moment) -> TopicHold | None:
        """Return the hold as it counts at this time: without values that have expired, and None if all have."""
        if self.lease is None:
            return TopicHold(self.oldest, self.topic, self.reader)
        if now > self.newest + self.lease:
            return None
        return TopicHold(max(self.oldest, now - self.lease), self.topic, self.reader, self.newest, self.lease)

    def merged(self, other: TopicHold) -> TopicHold:
        """Return a hold of the same topic that counts for as old values, and for as long, as either does."""
        first, second = (self, other) if self.oldest <= other.oldest else (other, self)
        if first.lease is None or second.lease is None:
            return TopicHold(first.oldest, first.topic, first.reader)
        longest = max(self, other, key=lambda hold: hold.until or 0)
        lease = max(first.lease, second.lease)
        return TopicHold(first.oldest, first.topic, first.reader, longest.newest + (longest.lease or 0) - lease, lease)


class Holdings:
    def __init__(self) -> None:
        self._holds_by_owner: WeakKeyDictionary[object, dict[str, TopicHold]] = WeakKeyDictionary()
        self._remembered_by_topic: dict[str, TopicHold] = {}
        """What was needed at any moment since the last `mark`."""
        self.seen: Moment = 0
        """The store's time when somebody here last heard of it; 0 before that."""

    def set(self, owner: object, oldest: Moment | None, topic: str = "") -> None:
        """`owner` needs nothing of the topic (empty: of any) that is older than this from now on; None: nothing at all. Has no lease."""
        if oldest is None:
            self.release(owner, topic)
        else:
            self.hold(owner, TopicHold(oldest, topic))

    def hold(self, owner: object, hold: TopicHold) -> None:
        """`owner` needs this from now on, instead of what it needed of the topic before. `owner` may raise `newest` of the hold itself;
        every other change is another hold."""
        _merge(self._remembered_by_topic, hold)
        self._holds_by_owner.setdefault(owner, {})[hold.topic] = hold

    def release(self, owner: object, topic: str = "") -> None:
        """`owner` needs nothing of the topic any more."""
        holds = self._holds_by_owner.get(owner)
        if holds is not None and topic in holds:
            _merge(self._remembered_by_topic, holds.pop(topic))
            if not holds:
                self._holds_by_owner.pop(owner, None)

    def saw(self, now: Moment) -> None:
        """Somebody here has heard the store's time."""
        self.seen = max(self.seen, now)

    def __iter__(self) -> Iterator[TopicHold]:
        """All holds there are now, also those whose lease is over."""
        for holds in list(self._holds_by_owner.values()):
            yield from holds.values()

    @property
    def oldest(self) -> Moment | None:
        """The time of the oldest value that is needed now."""
        return min((hold.oldest for each in self if (hold := each.at(self.seen)) is not None), default=None)

    @property
    def lowest_by_topic(self) -> dict[str, TopicHold]:
        """What was needed at any moment since the last `mark` and has not expired, one hold for each topic."""
        lowest: dict[str, TopicHold] = {}
        for each in (*self._remembered_by_topic.values(), *self):
            hold = each.at(self.seen)
            if hold is not None:
                _merge(lowest, hold)
        return lowest

    def mark(self) -> None:
        """Begin to remember anew, with what is needed now and has not expired."""
        self._remembered_by_topic = {}
        for each in self:
            hold = each.at(self.seen)
            if hold is not None:
                _merge(self._remembered_by_topic, hold)


def _merge(hold_by_topic: dict[str, TopicHold], hold: TopicHold) -> None:
    known = hold_by_topic.get(hold.topic)
    hold_by_topic[hold.topic] = replace(hold) if known is None else known.merged(hold)
