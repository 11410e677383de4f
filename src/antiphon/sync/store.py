"""A store without await: the door to durable topics, on the event loop that all synchronous calls of the process share."""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from antiphon.store import Store as AsyncStore
from antiphon.store import StoreSettings, TopicInfo
from antiphon.store import open_store as open_async_store
from antiphon.store.agents.agent import Agent
from antiphon.store.holders import CollectionHold
from antiphon.store.records import Collected, Moment
from antiphon.sync.background import background
from antiphon.sync.topic import Topic

_CLOSE_S = 5.0


def open_store(
    url: str,
    *,
    name: str | None = None,
    outbox: str | os.PathLike[str] | None = None,
    settings: StoreSettings | None = None,
) -> Store:
    """The store at this address, opened by `with`. The arguments are those of `antiphon.open_store`."""
    return Store(open_async_store(url, name=name, outbox=outbox, settings=settings))


class Store:
    def __init__(self, store: AsyncStore) -> None:
        """Made by `open_store`."""
        self._background, self._store = background(), store

    # -- life ------------------------------------------------------------------------------------------------------------------

    def open(self) -> Self:
        """Opens it; `with` does it. Raises BadStore for what is no store, StoreUnreachable for one that does not answer, unless there is
        an outbox."""
        self._background.run(self._store.open())
        self._background.opened(self._store)
        return self

    def close(self, *, timeout: float = _CLOSE_S) -> None:
        """Waits for what is being published, at most `timeout` seconds long, ends whatever waits, and closes."""
        self._background.run(self._store.close(timeout=timeout))
        self._background.closed(self._store)

    def abandon(self) -> None:
        """Closes without waiting for anything."""
        self._background.call(self._store.abandon)
        self._background.closed(self._store)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -- topics ----------------------------------------------------------------------------------------------------------------

    def topic(self, name: str, *, type: Any = None) -> Topic:
        """A topic by its name, whether it is there or not; asks nobody. `type` is what its values are, bytes if it is left out."""
        return Topic(self._store.topic(name, type=type), self._background)

    def topics(self, *, timeout: float | None = None) -> list[TopicInfo]:
        """All there are, by name."""
        return self._background.run(self._store.topics(timeout=timeout))

    def collect(self, topics: str | Iterable[str] | None = None, *, timeout: float | None = None) -> dict[str, Collected]:
        """Removes from this topic, these, or all, what nobody needs any more; says for each how far that went."""
        return self._background.run(self._store.collect(topics, timeout=timeout))

    def holders(self, topics: str | Iterable[str] | None = None, *, timeout: float | None = None) -> dict[str, list[CollectionHold]]:
        """Return by topic which subscribers, outboxes and retention times keep values from being collected, since when and until when."""
        return self._background.run(self._store.holders(topics, timeout=timeout))

    def time(self, *, timeout: float | None = None) -> Moment:
        """The store's time, in nanoseconds. It is nobody's wall clock, and never goes back."""
        return self._background.run(self._store.time(timeout=timeout))

    def waiting_in_outbox(self, topic: str) -> int:
        """How many values of the topic lie in the outbox of this node."""
        return self._store.waiting_in_outbox(topic)

    def run(self, agent: Agent) -> None:
        """Runs the agent here, or waits to take it over from the node that runs it, until this is interrupted or the store is closed. Its
        steps run on the event loop in the background: they may not call `antiphon.sync`."""
        self._background.run(self._store.run(agent))

    @property
    def inside(self) -> AsyncStore:
        """The store that this one stands before."""
        return self._store

    # -- questions about it ----------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """As it was opened, without passwords."""
        return self._store.url

    @property
    def name(self) -> str | None:
        return self._store.name

    @property
    def settings(self) -> StoreSettings:
        return self._store.settings

    def stats(self) -> dict[str, object]:
        """Counters and gauges, plain values."""
        return self._background.call(self._store.stats)

    def __repr__(self) -> str:
        return repr(self._store)
