"""Streams beside the messages: each listener has its own, from the moment it asks; a slow one loses the oldest entries, and can see how
many.

A `Feed` is the source. It keeps a stream, and with it the task, as long as a task waits for the next entry; it forgets one that nobody
waits for and nobody holds. Keeps up to `_LIMIT` entries per stream.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Generic, TypeVar

from msgspec import Struct

from antiphon.model.ids import MemberId
from antiphon.model.view import View

_LIMIT = 1_024

Entry = TypeVar("Entry")


class ViewChange(Struct, frozen=True):
    """The group is `view` from here on. More than one of `sides` is a merge: each has the members that come from one old view."""

    view: View
    previous: View | None
    joined: tuple[MemberId, ...]
    left: tuple[MemberId, ...]
    sides: tuple[tuple[MemberId, ...], ...] = ()


class Stream(AsyncIterator[Entry], Generic[Entry]):
    """An async iterator that ends when its source does. It may be cancelled while it waits, and read on later."""

    def __init__(self, entries: Iterable[Entry] = (), awaited: set[Stream[Entry]] | None = None) -> None:
        """`awaited` is where the stream enters itself while a task waits for it. The event loop keeps no task alive that only waits:
        without this, one that nobody else holds would be collected, and its stream with it."""
        self._awaited: set[Stream[Entry]] = set() if awaited is None else awaited
        self._waiting = 0
        self.missed = 0
        """How many entries were lost because they were not read in time."""
        self._entries = deque(entries)
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None

    async def __anext__(self) -> Entry:
        while not self._entries:
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
        return self._entries.popleft()

    def put(self, entry: Entry) -> None:
        if len(self._entries) >= _LIMIT:
            self._entries.popleft()
            self.missed += 1
        self._entries.append(entry)
        self._wake()

    def end(self) -> None:
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Feed(Generic[Entry]):
    def __init__(self) -> None:
        self._ended = False
        self._streams: dict[int, weakref.ref[Stream[Entry]]] = {}
        self._awaited: set[Stream[Entry]] = set()
        """The streams that a task waits for."""
        self._last = 0

    def listen(self, entries: Iterable[Entry] = ()) -> Stream[Entry]:
        """A stream of these entries and all that come from now on."""
        stream = Stream(entries, self._awaited)
        if self._ended:
            stream.end()
        else:
            self._last += 1
            number = self._last
            self._streams[number] = weakref.ref(stream, lambda _: self._streams.pop(number, None))
        return stream

    def tell(self, entry: Entry) -> None:
        for stream in self._listening():
            stream.put(entry)

    def end(self) -> None:
        self._ended = True
        for stream in self._listening():
            stream.end()

    def _listening(self) -> list[Stream[Entry]]:
        return [stream for reference in list(self._streams.values()) if (stream := reference()) is not None]
