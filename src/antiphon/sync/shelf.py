"""What was fetched from a group's inbox and not read yet, and the iterators that read it.

A fetch brings everything that is there, up to `_FETCH` events, so that reading costs two switches of threads per fetch and none per
message. Whatever was fetched lies here, and not in the iterator that asked: a reader that is interrupted, breaks off or times out leaves
it to the next one, in its order. So at most `_FETCH` batches lie here beside what the inbox may hold.

The application's state, where a newcomer wants it, is taken as in `antiphon.api.state_requests`: in the thread of a reader that comes back
for the next message, or, while no reader is handling one, in the thread of the event loop.

Cost: 0.2 µs per message, 0.5 µs per batch, and a fetch.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Generic, Protocol, TypeVar

from antiphon.api.group import Group as AsyncGroup
from antiphon.api.group import GroupEvent
from antiphon.api.inbox import events_of
from antiphon.api.message import Letter, Message, MessageBatch
from antiphon.api.state_requests import ask_application
from antiphon.errors import TimedOut
from antiphon.model.events import StateWanted
from antiphon.protocol.sync.unread import UnreadEvent
from antiphon.sync.background import background
from antiphon.sync.letter import with_letter

_FETCH = 64

Entry = TypeVar("Entry")
Given_co = TypeVar("Given_co", covariant=True)


class Shelf:
    def __init__(self, group: AsyncGroup) -> None:
        self._group = group
        self._messages: deque[Message | Letter] = deque()
        """What is left of the batch that is read message by message."""
        self._opened: MessageBatch | None = None
        self._events: deque[GroupEvent | StateWanted] = deque()
        self._lock = threading.Lock()
        self._requests = group._requests
        if self._requests is not None:
            background().call(self._answer_from_here)

    def _answer_from_here(self) -> None:
        assert self._requests is not None, "only asked of a group that gives its state"
        self._requests.source = self

    def message(self) -> Message | Letter:
        """The next message. Raises StopIteration when there will be none."""
        try:
            return self._messages.popleft()
        except IndexError:
            return self.message_within(None)

    def message_within(self, timeout: float | None) -> Message | Letter:
        """The same; raises TimedOut when there is none for so long."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return self._messages.popleft()
            except IndexError:
                self._next(until, one_by_one=True)

    def batch(self) -> MessageBatch:
        while True:
            event = self.event()
            if type(event) is MessageBatch:
                return event

    def event(self) -> GroupEvent:
        while (event := self._next(None, one_by_one=False)) is None:
            pass
        return event

    def holds(self, sender: str, seqno: int) -> bool:
        """Whether a message waits here to be read."""
        with self._lock:
            if any(message.id == (sender, seqno) for message in self._messages):
                return True
            batches = (event for event in self._events if type(event) is MessageBatch and event.letter is None)
            return any(batch.sender == sender and batch.first <= seqno <= batch.last for batch in batches)

    def _next(self, until: float | None, *, one_by_one: bool) -> GroupEvent | None:
        """The next event, or one step towards it; a batch to be read one by one is opened for all who do."""
        with self._lock:
            if self._messages:
                return None if one_by_one else self._rest_of_opened()
            event = self._events.popleft() if self._events else None
            if one_by_one and type(event) is MessageBatch:
                self._opened = event
                self._messages.extend(event)
                return None
        if event is None:
            self._fetch(until)
        elif type(event) is StateWanted:
            self._reach(event)
            return None
        return event  # type: ignore[return-value]

    # -- the application's state ---------------------------------------------------------------------------------------------------

    def put(self, event: StateWanted) -> None:
        self._group._inbox.put(event)

    def unread(self) -> list[UnreadEvent]:
        """List the messages that wait to be read, here and in the inbox. Called on the loop."""
        with self._lock:
            here = [event for message in self._messages for event in events_of(message)]
            here += [event for batch in self._events if type(batch) is MessageBatch for event in events_of(batch)]
        return here + self._group._inbox.unread()

    def take_requests(self) -> list[tuple[int, list[UnreadEvent]]]:
        """Take out the requests for the state, each with the messages that wait to be read before it. Called on the loop."""
        found: list[tuple[int, list[UnreadEvent]]] = []
        with self._lock:
            before = [event for message in self._messages for event in events_of(message)]
            for event in [event for event in self._events if type(event) in (StateWanted, MessageBatch)]:
                if type(event) is StateWanted:
                    found.append((event.snapshot, before[:]))
                    self._events.remove(event)
                else:
                    before += events_of(event)
        return found + [(snapshot, before + behind) for snapshot, behind in self._group._inbox.take_requests()]

    def _reach(self, request: StateWanted) -> None:
        """The reader of this thread came to a request: it has dealt with everything before it."""
        requests = self._requests
        if requests is not None:
            answer = ask_application(requests.give)
            background().call(lambda: requests.answer([(request.snapshot, [])], *answer))

    def finish(self, reader: int) -> None:
        """A reader asks for the next message: if the state is wanted and no other is handling one, give it."""
        requests = self._requests
        if requests is None:
            return
        requests.release(reader, None)
        if requests.waiting and not requests._handling:
            answer = ask_application(requests.give)
            background().call(lambda: requests.answer_waiting(*answer))

    def begin(self, reader: int) -> None:
        if self._requests is not None:
            self._requests.begin(reader, None)

    def abandon(self, reader: int) -> None:
        if self._requests is not None:
            self._requests.abandon(reader)

    @property
    def tracked(self) -> bool:
        """Whether it must be known which readers are handling a message."""
        return self._requests is not None

    def _rest_of_opened(self) -> MessageBatch:
        batch, left = self._opened, len(self._messages)
        assert batch is not None, "messages lie here of a batch that was opened"
        self._messages.clear()
        if left == len(batch):
            return batch
        return MessageBatch(batch.batch, batch.last - left + 1, batch.last, batch._decode, batch.lost, batch.recovered)

    def _fetch(self, until: float | None) -> None:
        timeout = None if until is None else until - time.monotonic()
        if not background().run(self._fill(timeout)):
            raise StopIteration

    async def _fill(self, timeout: float | None) -> bool:
        """On the loop: waits for events and lays them here; False when there will be none."""
        try:
            async with asyncio.timeout(timeout):
                return await self._group._inbox.read(self._lay)
        except TimeoutError:
            raise TimedOut(f"nothing came in {self._group.name} in time") from None
        except StopAsyncIteration:
            return False

    def _lay(self, first: Any) -> bool:
        """Takes what has come. It cannot be cancelled, so nothing is taken out of the inbox and lost."""
        group, inbox, taken = self._group, self._group._inbox, first
        for left in range(min(_FETCH - 1, len(inbox)), -1, -1):
            event = taken if type(taken) is StateWanted else group._as_read(taken)
            if event is not None:
                self._events.append(with_letter(event) if type(event) is MessageBatch else event)
            if left:
                taken = inbox.take()
        return True


class Reading(Iterator[Entry], Generic[Entry]):
    """Takes one entry after the other from what all readers share. It is no generator, so that an interrupt does not end it."""

    __slots__ = ("_take",)

    def __init__(self, take: Callable[[], Entry]) -> None:
        self._take = take

    def __next__(self) -> Entry:
        return self._take()


class AsyncEntries(Protocol[Given_co]):
    """What a `Stream` reads from: an asynchronous iterator that counts what it dropped."""

    missed: int

    def __aiter__(self) -> AsyncIterator[Given_co]: ...

    def __anext__(self) -> Coroutine[Any, Any, Given_co]: ...


class TrackedIterator(Reading[Entry], Generic[Entry]):
    """A reading of a group whose state is asked for: it says when its reader handles a message, and when it comes back."""

    __slots__ = ("_shelf",)

    def __init__(self, take: Callable[[], Entry], shelf: Shelf) -> None:
        super().__init__(take)
        self._shelf = shelf

    def __next__(self) -> Entry:
        self._shelf.finish(id(self))
        entry = self._take()
        self._shelf.begin(id(self))
        return entry

    def __del__(self) -> None:
        self._shelf.abandon(id(self))


class Stream(Iterator[Entry], Generic[Entry]):
    """Entries beside the messages: each listener has its own, from the moment it asks. Ends when its source does."""

    def __init__(self, stream: AsyncEntries[Entry]) -> None:
        self._stream = stream
        self._fetched: deque[Entry] = deque()

    @property
    def missed(self) -> int:
        """How many entries were lost because they were not read in time."""
        return self._stream.missed

    def receive(self, timeout: float | None = None) -> Entry:
        """The next entry; raises TimedOut when there is none for so long."""
        while True:
            try:
                return self._fetched.popleft()
            except IndexError:
                if not background().run(self._fill(timeout)):
                    raise StopIteration from None

    def __next__(self) -> Entry:
        return self.receive()

    async def _fill(self, timeout: float | None) -> bool:
        try:
            async with asyncio.timeout(timeout):
                self._fetched.append(await anext(self._stream))
        except StopAsyncIteration:
            return False
        except TimeoutError:
            raise TimedOut("nothing came in time") from None
        return True
