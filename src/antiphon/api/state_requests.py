"""Requests of newcomers for the application's state, answered at a member that gives one.

The state must be that of a point between two messages: everything before it applied, nothing after it. The application says where it is by
how it reads. A reader that waits for the next message, has broken off its loop, or never read, has applied what it was handed: its state is
taken immediately, and the messages that wait in the inbox follow it. A reader that was handed a message and has not asked for the next one
may be in the middle of applying it: the request waits until it comes back, and newcomers are told so.

Keeps which readers are handling a message. Readers of a group without a `state` callback are not tracked and cost nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, Protocol, TypeAlias

from antiphon.api.inbox import Entry, Inbox
from antiphon.api.reading import Reading
from antiphon.errors import InvalidOption
from antiphon.model.events import StateWanted
from antiphon.protocol.sync.unread import UnreadEvent

GiveState: TypeAlias = Callable[[], bytes]
Provide: TypeAlias = Callable[[int, bytes | None, Sequence[UnreadEvent], str], None]
"""Called with the number of the request, the state or None, the messages that follow it, and why there is none."""
_log = logging.getLogger("antiphon")


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
        self._handling: dict[int, asyncio.Task[Any] | None] = {}
        """The readers that have not come back, by identity, and the task that was handed a message."""

    def want(self, request: StateWanted) -> None:
        """Take a request, which stands behind everything that has been delivered so far."""
        if not self.busy():
            self.answer([(request.snapshot, self.source.unread())], *ask_application(self.give))
            return
        self.waiting = True
        self.source.put(request)
        for task in self._handling.values():
            if task is not None:
                task.add_done_callback(lambda _: self.review())

    def reach(self, request: StateWanted) -> None:
        """A reader came to a request in the stream: it has dealt with everything before it."""
        self.answer([(request.snapshot, [])], *ask_application(self.give))

    def begin(self, reader: int, task: asyncio.Task[Any] | None) -> None:
        """A reader was handed a message."""
        self._handling[reader] = task

    def finish(self, reader: int) -> None:
        """A reader asks for the next message."""
        self._handling.pop(reader, None)
        if self.waiting:
            self.review()

    def finish_quietly(self, reader: int) -> None:
        """The same, where the caller has looked after the requests that wait."""
        self._handling.pop(reader, None)

    def abandon(self, reader: int) -> None:
        """A reader is gone. Called by the garbage collector at any moment, in any thread: what comes of it comes later."""
        if self._handling.pop(reader, self) is not self and self.waiting and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.review)

    def review(self) -> None:
        """Answer the requests that wait, unless a reader is still handling a message."""
        if self.waiting and not self.busy():
            self.answer_waiting(*ask_application(self.give))

    def answer_waiting(self, state: bytes | None, reason: str) -> None:
        self.waiting = False
        self.answer(self.source.take_requests(), state, reason)

    def busy(self, but: int = 0) -> bool:
        """Whether a reader (other than `but`) is handling a message. A task that has ended handles nothing."""
        return any(reader != but and (task is None or not task.done()) for reader, task in list(self._handling.items()))

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
        return self._read()

    async def _read(self) -> Entry:
        self._requests.finish(id(self))
        entry = await self._inbox.read(self._take)
        self._requests.begin(id(self), asyncio.current_task())
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
