"""What was fetched from a group's inbox and not read yet, and the iterators that read it.

A fetch brings everything that is there, up to `_FETCH` events, so that reading costs two switches of threads per fetch and none per
message. Whatever was fetched lies here, and not in the iterator that asked: a reader that is interrupted, breaks off or times out leaves
it to the next one, in its order. So at most `_FETCH` batches lie here beside what the inbox may hold.

The application's state, where a newcomer wants it, is taken as `antiphon.sync.state_requests` says.

Cost: 0.2 µs per message, 0.5 µs per batch, and a fetch.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from antiphon.api.group import Group as AsyncGroup
from antiphon.api.group import GroupEvent
from antiphon.api.inbox import events_of
from antiphon.api.message import Letter, Message, MessageBatch
from antiphon.api.state_requests import Consumer
from antiphon.errors import TimedOut
from antiphon.model.events import StateWanted
from antiphon.protocol.sync.unread import UnreadEvent
from antiphon.sync.background import background
from antiphon.sync.letter import with_letter
from antiphon.sync.state_requests import ThreadedRequests

_FETCH = 64

Entry = TypeVar("Entry")
Hand: TypeAlias = Callable[[], None]
"""Called with the lock, in the step in which a message leaves the shelf."""
Given_co = TypeVar("Given_co", covariant=True)


class Shelf:
    def __init__(self, group: AsyncGroup) -> None:
        self._group = group
        self._messages: deque[Message | Letter] = deque()
        """What is left of the batch that is read message by message."""
        self._opened: MessageBatch | None = None
        self._events: deque[GroupEvent | StateWanted] = deque()
        self._lock = threading.Lock()
        self._requests: ThreadedRequests | None = None
        """Answers those who want the application's state, if it gives one."""
        if group._requests is not None:
            background().call(self._answer_from_here)

    def _answer_from_here(self) -> None:
        group = self._group
        assert group._requests is not None, "only asked of a group that gives its state"
        self._requests = group._requests = ThreadedRequests(group._requests, self, self._lock)

    def message(self, hand: Hand | None = None) -> Message | Letter:
        """The next message. Raises StopIteration when there will be none."""
        if hand is None:
            try:
                return self._messages.popleft()
            except IndexError:
                pass
        return self.message_within(None, hand)

    def message_within(self, timeout: float | None, hand: Hand | None = None) -> Message | Letter:
        """The same; raises TimedOut when there is none for so long."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return self._messages.popleft() if hand is None else self._hand_message(hand)
            except IndexError:
                self._next(until, one_by_one=True)

    def _hand_message(self, hand: Hand) -> Message | Letter:
        with self._lock:
            self._wait_for_gate()
            message = self._messages.popleft()
            hand()
            return message

    def receive(self, timeout: float | None) -> Message | Letter:
        """`message_within`, for a thread that has no iterator."""
        if self._requests is None:
            return self.message_within(timeout)
        consumer = _this_thread()
        message = self.message_at_once(id(self), consumer)
        return message or self.tracked(lambda hand: self.message_within(timeout, hand), id(self), consumer)

    def batch(self, hand: Hand | None = None) -> MessageBatch:
        while True:
            event = self._next(None, one_by_one=False, hand=hand, only_batches=True)
            if type(event) is MessageBatch:
                return event

    def event(self, hand: Hand | None = None) -> GroupEvent:
        while (event := self._next(None, one_by_one=False, hand=hand)) is None:
            pass
        return event

    def holds(self, sender: str, seqno: int) -> bool:
        """Whether a message waits here to be read."""
        with self._lock:
            if any(message.id == (sender, seqno) for message in self._messages.copy()):
                return True
            batches = (event for event in self._events if type(event) is MessageBatch and event.letter is None)
            return any(batch.sender == sender and batch.first <= seqno <= batch.last for batch in batches)

    def _next(
        self, until: float | None, *, one_by_one: bool, hand: Hand | None = None, only_batches: bool = False
    ) -> GroupEvent | None:
        """The next event, or one step towards it; a batch to be read one by one is opened for all who do."""
        claimed = False
        with self._lock:
            self._wait_for_gate()
            event: GroupEvent | StateWanted | None = None
            if self._messages:
                if one_by_one:
                    return None
                event = self._rest_of_opened()
                if event is None:
                    return None
            elif self._events:
                event = self._events.popleft()
            if one_by_one and type(event) is MessageBatch:
                self._opened = event
                self._messages.extend(event)
                return None
            if type(event) is StateWanted:
                claimed = self._requests is not None and self._requests.claim()
            elif event is not None and hand is not None and not (only_batches and type(event) is not MessageBatch):
                hand()
        if event is None:
            self._fetch(until)
        elif type(event) is StateWanted:
            if self._requests is not None:
                self._requests.answer_reached(event, claimed)
            return None
        return event  # type: ignore[return-value]

    def _wait_for_gate(self) -> None:
        if self._requests is not None:
            self._requests.wait_for_gate()

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

    @property
    def is_tracked(self) -> bool:
        """Whether it must be known which readers are handling a message."""
        return self._requests is not None

    def message_at_once(self, reader: int, consumer: Consumer | None = None) -> Message | Letter | None:
        """What `tracked` does where a message lies here and nobody wants the state; otherwise None."""
        requests = self._requests
        with self._lock:
            if not self._messages or requests is None or not requests.go_on(reader, consumer):
                return None
            return self._messages.popleft()

    def tracked(self, take: Callable[[Hand], Entry], reader: int, consumer: Consumer | None = None) -> Entry:
        """Take the next entry, and note who is handling it."""
        requests = self._requests
        assert requests is not None, "only asked of a group that gives its state"
        requests.refuse_callback()
        try:
            requests.come_back(reader, consumer)
            return take(lambda: requests.hand_over(reader, consumer))
        finally:
            requests.leave()

    def abandon(self, reader: int) -> None:
        if self._requests is not None:
            self._requests.abandon(reader)

    def _rest_of_opened(self) -> MessageBatch | None:
        batch, left = self._opened, 0
        assert batch is not None, "messages lie here of a batch that was opened"
        with suppress(IndexError):
            while True:  # from the end: another thread may be taking from the beginning
                self._messages.pop()
                left += 1
        if left in (0, len(batch)):
            return batch if left else None
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
                with self._lock:
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


class TakeEntry(Protocol[Given_co]):
    """Takes an entry from the shelf, and calls `hand` in the same step."""

    def __call__(self, hand: Hand | None = None, /) -> Given_co: ...


class AsyncEntries(Protocol[Given_co]):
    """What a `Stream` reads from: an asynchronous iterator that counts what it dropped."""

    missed: int

    def __aiter__(self) -> AsyncIterator[Given_co]: ...

    def __anext__(self) -> Coroutine[Any, Any, Given_co]: ...


class TrackedIterator(Reading[Entry], Generic[Entry]):
    """A reading of a group whose state is asked for: it says when its reader handles a message, and when it comes back."""

    __slots__ = ("_shelf", "_take_tracked")

    def __init__(self, take: Callable[[Hand], Entry], shelf: Shelf) -> None:
        self._take_tracked, self._shelf = take, shelf

    def __next__(self) -> Entry:
        return self._shelf.tracked(self._take_tracked, id(self))

    def __del__(self) -> None:
        self._shelf.abandon(id(self))


class TrackedMessages(TrackedIterator[Message | Letter]):
    """The same, message by message."""

    __slots__ = ()

    def __next__(self) -> Message | Letter:
        return self._shelf.message_at_once(id(self)) or super().__next__()


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


class _Threads(threading.local):
    consumer: Consumer | None = None


_threads = _Threads()


def _this_thread() -> Consumer:
    consumer = _threads.consumer
    if consumer is None:
        consumer = _threads.consumer = Consumer(threading.current_thread())
    return consumer
