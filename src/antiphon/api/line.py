"""A line of calls that wait until something may be sent, in the order they came.

Who is first tries; who is refused for want of credit, a view or a majority stays first, and tries again when the line is woken. When the
first is through, or gives up, the next tries. A call that is cancelled while it waits has not sent anything.

There is one line for the group and one for each member that private messages wait for: their credit comes independently, and a receiver
that is slow must not hold up what is said to all.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from antiphon.errors import NoQuorum, WouldBlock

T = TypeVar("T")


class Line:
    def __init__(self) -> None:
        self.length = 0
        """How many are in it; the first may be about to try."""
        self._turns: deque[asyncio.Future[None]] = deque()

    async def through(self, attempt: Callable[[], T]) -> T:
        """Makes the attempt until it is not refused; raises whatever else it raises."""
        first = not self.length
        self.length += 1
        try:
            while True:
                if first:
                    with suppress(WouldBlock, NoQuorum):
                        return attempt()
                turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                if first:
                    self._turns.appendleft(turn)
                else:
                    self._turns.append(turn)
                first = False
                try:
                    await turn
                finally:
                    # Cancelled after it was woken: the next must be, or nobody would try until the line is woken again.
                    first = turn.done() and not turn.cancelled()
                    if not first:
                        with suppress(ValueError):
                            self._turns.remove(turn)
        finally:
            self.length -= 1
            if first:
                self.wake()

    def wake(self) -> None:
        """Something may be sent now: the first tries."""
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
                return
