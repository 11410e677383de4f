"""Requests for the application's state where the readers are threads: `antiphon.api.state_requests`, with a lock and a gate.

A message leaves the shelf and counts as being handled in one step, under the lock of the shelf. While the application is asked for its
state the gate is closed: readers that come for a message wait until the state, and what follows it, are known. The application is asked
without the lock: in the thread of a reader that comes back or comes to the request in the stream, or, where no reader is there, in that of
the event loop. A callback that itself reads the group is refused, as it would wait for itself.

Cost: 0.5 µs per message read, where a group gives its state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from threading import get_ident

from antiphon.api.state_requests import Consumer, StateRequests, Unread, ask_application
from antiphon.errors import UsageError
from antiphon.model.events import StateWanted
from antiphon.protocol.sync.provider import NOT_YET
from antiphon.sync.background import background

_LOOP = -1
"""Stands for the loop where it has to open the gate."""


class ThreadedRequests(StateRequests):
    def __init__(self, requests: StateRequests, waiting: Unread, lock: threading.Lock) -> None:
        """Made on the loop, in the place of `requests`. `lock` is that of the shelf."""
        super().__init__(requests.give, waiting, requests._provide)
        self._gate = threading.Condition(lock)
        self._giver = 0
        """The thread in which the application is asked for its state: the gate is closed. 0: it is open."""
        self._asking: set[int] = set()
        """The threads that have come for a message and not been handed one."""

    # -- on the loop -----------------------------------------------------------------------------------------------------------

    def want(self, request: StateWanted) -> None:
        with self._gate:
            here = not (self._giver or self._asking or self._handling)
            if here:
                self._giver = get_ident()
            else:
                self.waiting = True
        if not here:
            self.source.put(request)
            return
        try:
            self.answer([(request.snapshot, self.source.unread())], *ask_application(self.give))
        finally:
            self._open()

    def review(self) -> None:
        with self._gate:
            if not self.waiting or self._giver or self._handling:
                return
            self._giver = get_ident()
        try:
            self.answer_waiting(*ask_application(self.give))
        finally:
            self._open()

    # -- in the threads of the readers ------------------------------------------------------------------------------------------

    def come_back(self, reader: int, consumer: Consumer | None) -> None:
        """This thread asks for the next message. If the state is wanted and no other is handling one, give it. `leave` must follow."""
        with self._gate:
            self.wait_for_gate()
            self.release(reader, consumer)
            self._asking.add(get_ident())
            gives = self.waiting and not self._handling
            if gives:
                self._giver = get_ident()
        if gives:
            self._give(self.answer_waiting)

    def go_on(self, reader: int, consumer: Consumer | None) -> bool:
        """With the lock: this thread asks for the next message and is handed one, unless the state is wanted."""
        if self.waiting or self._giver:
            return False
        handling = self._handling.get(reader)
        if handling is None or len(handling) > 1 or consumer not in handling:
            self.release(reader, consumer)
            self.begin(reader, consumer)
        return True

    def wait_for_gate(self) -> None:
        """With the lock: wait until the application has given its state."""
        while self._giver:
            self._gate.wait()

    def hand_over(self, reader: int, consumer: Consumer | None) -> None:
        """With the lock: this thread is handed a message."""
        self._asking.discard(get_ident())
        self.begin(reader, consumer)

    def claim(self) -> bool:
        """With the lock: this thread took a request out of the stream. Return whether there is a state of this point, and close the gate
        for it."""
        if self._handling:
            return False
        self._giver = get_ident()
        return True

    def answer_reached(self, request: StateWanted, claimed: bool) -> None:
        if claimed:
            self._give(lambda state, reason: self.answer([(request.snapshot, [])], state, reason))
        else:
            background().call(lambda: self.answer([(request.snapshot, [])], None, NOT_YET))

    def leave(self) -> None:
        """This thread has been handed a message, or goes without: a timeout, an interrupt, or the end."""
        me = get_ident()
        if me not in self._asking:
            return
        with self._gate:
            self._asking.discard(me)
            interrupted = self._giver == me
            if interrupted:
                self._giver = _LOOP
        if self._loop.is_closed():
            return
        if interrupted:
            self._loop.call_soon_threadsafe(self._open)  # behind the answer, which may be on its way
        if self.waiting:
            self._loop.call_soon_threadsafe(self.review)

    def refuse_callback(self) -> None:
        """Raise UsageError where the application's callback reads the group that it is asked about."""
        if self._giver == get_ident():
            raise UsageError("the state callback of a group read that group: give the state as of the last message that was read")

    def _give(self, answer: Callable[[bytes | None, str], None]) -> None:
        """Ask the application, behind the closed gate, and open it. If it is interrupted, `leave` sees to the gate."""
        state, reason = ask_application(self.give)
        background().call(lambda: answer(state, reason))
        self._open()

    def _open(self) -> None:
        with self._gate:
            self._giver = 0
            self._gate.notify_all()
