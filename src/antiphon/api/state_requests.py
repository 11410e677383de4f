"""Requests of newcomers for the application's state, answered at a member that gives one.

The state must be that of a point between two messages: everything before it applied, nothing after it. The application says where it is by
how it reads. A reader that waits for the next message, has broken off its loop, or never read, has applied what it was handed: its state is
taken immediately, and the messages that wait in the inbox follow it. A reader that was handed a message and has not asked for the next one
may be in the middle of applying it: the request waits until it comes back, and newcomers are told so.

An iterator comes back when the task that was handed a message, or a task begun by it, calls `anext` on it again; what other tasks were
handed by the same iterator is still being applied. When the iterator is gone, everything it handed out is applied. That a task has ended
says nothing: `asyncio.wait_for` and `gather` read in a task of their own, which ends with the message as its result. So what an ended task
was handed counts as applied only when somebody asks the same iterator again. Where that never happens, newcomers wait and are refused with
the reason.

A reader may come to a request in the stream while another is still applying an earlier message. Then there is no state of that point: the
request is given back, and the newcomer's next question makes another, at a later point.

Keeps who is handling a message. Readers of a group without a `state` callback are not tracked and cost nothing.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from typing import Any, Generic, Protocol, TypeAlias

from antiphon.api.inbox import Entry, Inbox
from antiphon.api.reading import Reading
from antiphon.errors import InvalidOption
from antiphon.model.events import StateWanted
from antiphon.protocol.sync.provider import NOT_YET
from antiphon.protocol.sync.unread import UnreadEvent

GiveState: TypeAlias = Callable[[], bytes]
Provide: TypeAlias = Callable[[int, bytes | None, Sequence[UnreadEvent], str], None]
"""Called with the number of the request, the state or None, the messages that follow it, and why there is none. With the reason `NOT_YET`
another request is made when the newcomer asks again."""
_log = logging.getLogger("antiphon")


class Consumer:
    """A task or a thread that asks a reader for a message. It is kept weakly: a task that has failed holds on to its variables, and one of
    them may be the reader."""

    __slots__ = ("begun_by", "one")

    def __init__(self, one: asyncio.Task[Any] | threading.Thread, begun_by: Consumer | None = None) -> None:
        self.one: weakref.ref[asyncio.Task[Any] | threading.Thread] = weakref.ref(one)
        self.begun_by = None if begun_by is None else begun_by.one
        """The consumer whose context it began with: the task that began it, if that has asked a reader before."""

    def stands_for(self, other: Consumer) -> bool:
        return other is self or other.one is self.begun_by

    @property
    def ended(self) -> bool:
        one = self.one()
        return one is None or (not one.is_alive() if isinstance(one, threading.Thread) else one.done())


_consumer: ContextVar[Consumer] = ContextVar("antiphon_consumer")


class Unread(Protocol):
    """Where delivered messages wait to be read, and requests for the state between them."""

    def put(self, event: StateWanted, /) -> None: ...

    def unread(self) -> list[UnreadEvent]:
        """List the messages that wait, in their order."""
        ...

    def take_requests(self) -> list[tuple[int, list[UnreadEvent]]]:
        """Take out the requests, each with the messages that wait before it."""
        ...


class StateRequests:
    def __init__(self, give: GiveState, waiting: Unread, provide: Provide) -> None:
        self.give, self.source, self._provide = give, waiting, provide
        self.waiting = False
        """Whether a request may wait in the source for a reader to come back."""
        self._loop = asyncio.get_running_loop()
        self._handling: dict[int, set[Consumer | None]] = {}
        """The readers that have not come back, by identity, and who was handed a message by them. None: it is not known."""

    def want(self, request: StateWanted) -> None:
        """Take a request, which stands behind everything that has been delivered so far."""
        if self._handling:
            self.waiting = True
            self.source.put(request)
        else:
            self.answer([(request.snapshot, self.source.unread())], *ask_application(self.give))

    def reach(self, request: StateWanted) -> None:
        """A reader came to a request in the stream: it has dealt with everything before it."""
        if self._handling:
            self.answer([(request.snapshot, [])], None, NOT_YET)
        else:
            self.answer([(request.snapshot, [])], *ask_application(self.give))

    def begin(self, reader: int, consumer: Consumer | None) -> None:
        """A reader hands out a message."""
        self._handling.setdefault(reader, set()).add(consumer)

    def finish(self, reader: int, consumer: Consumer | None) -> None:
        """A reader is asked for the next message."""
        self.release(reader, consumer)
        if self.waiting:
            self.review()

    def release(self, reader: int, consumer: Consumer | None) -> None:
        """Count the messages that the reader handed to this consumer as applied, and those that it handed to consumers that have ended or
        are not known, because these may have read on its behalf."""
        handling = self._handling.get(reader)
        if handling is not None:
            handling = {
                other
                for other in handling
                if other is not None and not other.ended and not (consumer is not None and consumer.stands_for(other))
            }
            if handling:
                self._handling[reader] = handling
            else:
                del self._handling[reader]

    def abandon(self, reader: int) -> None:
        """A reader is gone. Called by the garbage collector at any moment, in any thread: what comes of it comes later."""
        if self._handling.pop(reader, None) is not None and self.waiting and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.review)

    def review(self) -> None:
        """Answer the requests that wait, unless a reader is still handling a message."""
        if self.waiting and not self._handling:
            self.answer_waiting(*ask_application(self.give))

    def answer_waiting(self, state: bytes | None, reason: str) -> None:
        self.waiting = False
        self.answer(self.source.take_requests(), state, reason)

    def answer(self, requests: list[tuple[int, list[UnreadEvent]]], state: bytes | None, reason: str) -> None:
        for snapshot, unread in requests:
            try:
                self._provide(snapshot, state, unread, reason)
            except InvalidOption as refused:
                self._provide(snapshot, None, (), str(refused))


class TrackedReading(Reading[Entry], Generic[Entry]):
    """A reading of a group whose state is asked for: it says when its reader handles a message, and when it comes back."""

    __slots__ = ("_requests",)

    def __init__(self, inbox: Inbox, take: Callable[[Any], Entry | None], requests: StateRequests) -> None:
        super().__init__(inbox, take)
        self._requests = requests

    def __anext__(self) -> Coroutine[Any, Any, Entry]:
        return self._read(_current_consumer())  # here, and not where it is awaited: `wait_for` and `gather` do that in a task of their own

    async def _read(self, consumer: Consumer | None) -> Entry:
        self._requests.finish(id(self), consumer)
        entry = await self._inbox.read(self._take)
        self._requests.begin(id(self), consumer)
        return entry

    def __del__(self) -> None:
        self._requests.abandon(id(self))


def ask_application(give: GiveState) -> tuple[bytes | None, str]:
    """Call the application's callback; return the state, or None and why there is none. An exception is logged."""
    try:
        state = give()
    except Exception as error:
        _log.exception("the state callback of a group raised an exception: a newcomer that asked for the state gets none from this member")
        return None, f"its state callback raised {type(error).__name__}: {error}"
    if isinstance(state, bytes | bytearray | memoryview):
        return bytes(state), ""
    return None, "its state callback returned None" if state is None else f"its state callback returned {type(state).__name__}, not bytes"


def _current_consumer() -> Consumer | None:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # another thread asks, and awaits it on the loop
        return None
    if task is None:
        return None
    consumer = _consumer.get(None)
    if consumer is None or consumer.one() is not task:
        consumer = Consumer(task, consumer)
        _consumer.set(consumer)
    return consumer
