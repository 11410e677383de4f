"""Which subscribers, outboxes and retention times keep the values of a topic from being collected: the answer of `antiphon topic gc`.

It is an observation and changes nothing. A subscriber keeps everything that it is not done with and that is still due to it, so it is
reported with the oldest such value. What a node holds in the ring (`token.py`) is reported too: a reader with values in hand, or an outbox;
of several that hold the same topic, the one that holds the oldest value.

Costs one read for each subscriber, and O(log values) where its oldest values have expired.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from antiphon.model.ranges import Ranges
from antiphon.store.contract import Backend
from antiphon.store.horizon import Horizon, horizon, unvisited
from antiphon.store.records import Moment, Subscriber, Value

_AHEAD = 64
"""Values looked at in one read; a subscriber that has marked all of them done one by one is reported with the last of them."""


class CollectionHold(Struct, frozen=True, kw_only=True):
    """One reason why values of a topic are kept. Times are the store's."""

    kind: Literal["subscriber", "outbox", "retention"]
    id: str = ""
    """The subscriber's id; empty for others."""
    node: str = ""
    """The node that has values in hand, or whose outbox it is; empty where no node is known to."""
    first: int = 0
    """The number of the oldest value that is kept; 0 where it has none yet."""
    since: Moment
    """The time of that value, or when the outbox began to hold it."""
    until: Moment | None = None
    """The last moment at which that value is kept for this reason alone; None: until the outbox is sent. An expired value is removed when
    the horizon has passed this moment, at most some seconds later."""
    waits_for: tuple[str, ...] = ()
    """For an expired value, the nodes that the round of the ring under way has yet to visit, by name; the horizon moves after it."""


async def holders(backend: Backend, topic: str) -> list[CollectionHold]:
    """Return why values of the topic are kept, the oldest first. Raises UnknownTopic. A mutable topic keeps the newest value of each key
    whoever reads it, so nothing is reported for it."""
    found, now = await horizon(backend), await backend.time()
    info = await backend.info(topic)
    if info.options.mutable:
        return []
    border = min(found.of(topic, now), now)
    subscribers = await backend.subscribers(topic)
    holds = []
    for subscriber in subscribers:
        after = max(subscriber.position, info.floor)
        value = await _first_due(backend, topic, after, info.last, border - subscriber.lease, Ranges(subscriber.marks))
        if value is not None:
            until = value.time + subscriber.lease
            holds.append(CollectionHold(kind="subscriber", id=subscriber.id, first=value.seq, since=value.time, until=until))
    if not subscribers:
        value = await _first_due(backend, topic, info.floor, info.last, border - info.options.retention, Ranges())
        if value is not None:
            until = value.time + info.options.retention
            holds.append(CollectionHold(kind="retention", first=value.seq, since=value.time, until=until))
    holds = _with_ring(holds, subscribers, found, topic, now)
    if any(_is_expired(hold, now) for hold in holds):
        waits_for = await unvisited(backend)
        holds = [replace(hold, waits_for=waits_for) if _is_expired(hold, now) else hold for hold in holds]
    return sorted(holds, key=lambda hold: (hold.since, hold.id))


def _is_expired(hold: CollectionHold, now: Moment) -> bool:
    return hold.until is not None and hold.until < now


def _with_ring(holds: list[CollectionHold], subscribers: list[Subscriber], found: Horizon, topic: str, now: Moment) -> list[CollectionHold]:
    held = found.held.get(topic)
    if held is None or not held.counts(now):
        return holds
    if not held.reader:
        return [*holds, CollectionHold(kind="outbox", node=held.node, since=held.moment, until=held.until)]
    if held.reader in {hold.id for hold in holds}:
        return [replace(hold, node=held.node) if hold.id == held.reader else hold for hold in holds]
    if held.reader not in {subscriber.id for subscriber in subscribers}:
        return holds  # it was unsubscribed since
    return [*holds, CollectionHold(kind="subscriber", id=held.reader, node=held.node, since=held.moment, until=held.until)]


async def _first_due(backend: Backend, topic: str, after: int, last: int, oldest: Moment, marks: Ranges) -> Value | None:
    """Return the first value behind `after` that is not older than `oldest` and not marked; None if there is none."""
    values = await _read(backend, topic, after)
    if values and values[-1].time < oldest:
        low, high = values[-1].seq + 1, last  # between them lies the first one that is not older
        while low <= high:
            middle = (low + high) // 2
            probe = await _read(backend, topic, middle - 1, 1)
            if probe and probe[0].time < oldest:
                low = probe[0].seq + 1
            else:
                high = middle - 1
        values = await _read(backend, topic, low - 1)
    due = [value for value in values if value.time >= oldest]
    return next((value for value in due if value.seq not in marks), due[-1] if len(due) == _AHEAD else None)


async def _read(backend: Backend, topic: str, after: int, limit: int = _AHEAD) -> list[Value]:
    reader = await backend.reader(topic, after)
    try:
        return list((await reader.take(limit, 0)).values)
    finally:
        await reader.close()
