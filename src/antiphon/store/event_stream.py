"""Bounded streams of events: each listener has its own, from the moment it asks; a slow one loses the oldest events and counts them.

An `EventFeed` is the source. It keeps a stream, and with it the task, as long as a task waits for the next event; it drops one that no
task waits for and nothing else refers to. Keeps up to `limit` events per stream. Groups, nodes and subscriptions use it alike.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Generic, TypeVar

LIMIT = 1_024

Event = TypeVar("Event")


class EventStream(AsyncIterator[Event], Generic[Event]):
    """An async iterator that ends when its source does. It may be cancelled while it waits, and read on later."""

    def __init__(self, limit: int, events: Iterable[Event] = (), awaited: set[EventStream[Event]] | None = None) -> None:
        """`awaited` is where the stream enters itself while a task waits for it. The event loop keeps no task alive that only waits:
        without this, a task that nothing else refers to would be collected, and its stream with it."""
        self._limit = limit
        self._awaited: set[EventStream[Event]] = set() if awaited is None else awaited
        self._waiting = 0
        self.missed = 0
        """How many events were dropped because they were not read in time."""
        self._events = deque(events)
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None

    async def __anext__(self) -> Event:
        while not self._events:
            if self._ended:
                raise StopAsyncIteration
            if self._waiter is None or self._waiter.done():
                self._waiter = asyncio.get_running_loop().create_future()
            self._waiting += 1
            self._awaited.add(self)
            try:
                await asyncio.shield(self._waiter)
            finally:
                self._waiting -= 1
                if not self._waiting:
                    self._awaited.discard(self)
        return self._events.popleft()

    def put(self, event: Event) -> None:
        if len(self._events) >= self._limit:
            self._events.popleft()
            self.missed += 1
        self._events.append(event)
        self._wake()

    def end(self) -> None:
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class EventFeed(Generic[Event]):
    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._ended = False
        self._streams: dict[int, weakref.ref[EventStream[Event]]] = {}
        self._awaited: set[EventStream[Event]] = set()
        """The streams that a task waits for."""
        self._last = 0

    def listen(self, events: Iterable[Event] = ()) -> EventStream[Event]:
        """Return a stream of these events and all later ones."""
        stream = EventStream(self._limit, events, self._awaited)
        if self._ended:
            stream.end()
        else:
            self._last += 1
            number = self._last
            self._streams[number] = weakref.ref(stream, lambda _: self._streams.pop(number, None))
        return stream

    def tell(self, event: Event) -> None:
        for stream in self._listening():
            stream.put(event)

    def end(self) -> None:
        self._ended = True
        for stream in self._listening():
            stream.end()

    def _listening(self) -> list[EventStream[Event]]:
        return [stream for reference in list(self._streams.values()) if (stream := reference()) is not None]
