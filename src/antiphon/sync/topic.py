"""A durable topic without await: publish to it, subscribe to it. Every call waits until it is done, with the errors of
`antiphon.store.topic`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from antiphon.store import Acknowledgement, SubscriberInfo, TopicInfo
from antiphon.store import Topic as AsyncTopic
from antiphon.store.records import Start
from antiphon.store.succession import Item
from antiphon.sync.background import Background
from antiphon.sync.subscription import Subscription


class Topic:
    def __init__(self, topic: AsyncTopic, background: Background) -> None:
        """Made by `Store.topic`."""
        self._topic, self._background = topic, background

    @property
    def name(self) -> str:
        return self._topic.name

    # -- publishing ------------------------------------------------------------------------------------------------------------

    def register(
        self,
        *,
        takeover: bool = False,
        shared: bool | None = None,
        mutable: bool | None = None,
        retention_s: float | None = None,
        timeout: float | None = None,
    ) -> int:
        """Asks for the right to publish; the first publish does it by itself. Says what the topic is, where it is new. TopicTaken when
        another has the topic, unless it is taken over. Returns the own number of this publisher's newest value in the topic."""
        return self._background.run(
            self._topic.register(takeover=takeover, shared=shared, mutable=mutable, retention_s=retention_s, timeout=timeout)
        )

    def publish(
        self,
        value: Any,
        key: str = "",
        *,
        durability: Literal["synced", "relaxed"] = "synced",
        number: int | None = None,
        timeout: float | None = None,
    ) -> Acknowledgement:
        """Publishes a value: returns Published when it is on disk and synced, Accepted when the store does not say so, Queued when it is
        in the outbox of this node. `number`: for all values of a topic or for none."""
        return self._background.run(self._topic.publish(value, key, durability=durability, number=number, timeout=timeout))

    def publish_many(
        self,
        values: Iterable[Any],
        *,
        keys: Iterable[str] | None = None,
        durability: Literal["synced", "relaxed"] = "synced",
        number: int | None = None,
        timeout: float | None = None,
    ) -> Acknowledgement:
        """Publishes values in order, as few batches, and returns when the store has all of them: much cheaper per value."""
        # Collected here: values that come from a file or from a call of this API would hold up the loop of all nodes, or wait for it.
        given, names = list(values), None if keys is None else list(keys)
        return self._background.run(
            self._topic.publish_many(given, keys=names, durability=durability, number=number, timeout=timeout)
        )

    def erase(self, seqs: int | Iterable[int], *, timeout: float | None = None) -> int:
        """Takes values back: whoever has not read them is told of a gap. Returns how many went."""
        chosen = list(seqs) if isinstance(seqs, Iterable) else seqs
        return self._background.run(self._topic.erase(chosen, timeout=timeout))

    def release(self, *, timeout: float | None = None) -> None:
        """Gives the topic up, so that another may publish."""
        self._background.run(self._topic.release(timeout=timeout))

    @property
    def number(self) -> int:
        """The own number of this publisher's newest value that the store is known to have; 0 before the first, and before `register`."""
        return self._background.call(lambda: self._topic.number)

    # -- subscribing -----------------------------------------------------------------------------------------------------------

    def subscribe(
        self, lease: float | None = None, *, id: str | None = None, start: Start = "earliest", timeout: float | None = None
    ) -> Subscription:
        """A new subscriber, or with the `id` of one that is known: this one comes back, with its state and position as they were left,
        and whoever held it before is fenced."""
        made = self._background.run(self._topic.subscribe(lease, id=id, start=start, timeout=timeout))
        return Subscription(made, self._background)

    def subscribers(self, *, timeout: float | None = None) -> list[SubscriberInfo]:
        """Who is subscribed, and where each of them is."""
        return self._background.run(self._topic.subscribers(timeout=timeout))

    # -- looking ---------------------------------------------------------------------------------------------------------------

    def at(self, seq: int, *, timeout: float = 0.0) -> Item:
        """The value of this number, or the gap in its place. One that is not published yet is waited for so long; then TimedOut."""
        return self._background.run(self._topic.at(seq, timeout=timeout))

    def peek(self, limit: int = 1_024, *, id: str | None = None, start: Start | None = None, timeout: float = 0.0) -> list[Item]:
        """Return the next values and gaps, at most `limit`, without becoming a subscriber: nothing is fenced, moved or held. With the `id`
        of a subscriber these are the values that it would read next; `start` says where to begin instead. Raises UnknownTopic."""
        return self._background.run(self._topic.peek(limit, id=id, start=start, timeout=timeout))

    def info(self, *, timeout: float | None = None) -> TopicInfo:
        """What the topic is, who publishes it, and how much of it there is. Raises UnknownTopic."""
        return self._background.run(self._topic.info(timeout=timeout))

    def __repr__(self) -> str:
        return repr(self._topic)
