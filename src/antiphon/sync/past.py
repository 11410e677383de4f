"""The messages of a group that are kept in a store, oldest first, without await.

Fetches up to `_FETCH` messages at a time, so that a thread is switched twice per fetch and not per message; keeps no more than that. Ends
when all that was there has been read. Whoever is interrupted asks for it anew: what was fetched half-way is lost with the fetch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator

from antiphon.api.message import Message
from antiphon.errors import UsageError
from antiphon.sync.background import Background

_FETCH = 1_024


class Past(Iterator[Message]):
    def __init__(self, messages: AsyncIterator[Message], background: Background) -> None:
        """Made by `archived` of a group."""
        self._messages, self._background = messages, background
        self._fetched: deque[Message] = deque()
        self._ended = self._broken = False

    def __next__(self) -> Message:
        if self._broken:
            raise UsageError("reading was broken off: ask for archived() again")
        if not self._fetched and not self._ended:
            self._background.run(self._fetch())
        if not self._fetched:
            raise StopIteration
        return self._fetched.popleft()

    async def _fetch(self) -> None:
        self._broken = True
        for _ in range(_FETCH):
            try:
                self._fetched.append(await anext(self._messages))
            except StopAsyncIteration:
                self._ended = True
                break
        self._broken = False
