"""Reading a group: an iterator that takes one entry after the other from what all readers share.

It is no generator on purpose. A generator that is cancelled while it waits is finished, so `asyncio.wait_for(anext(reading), 1)` that
times out once would look like the end of the group ever after. This one can be asked again, and has taken nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Generic

from antiphon.api.inbox import Entry, Inbox


class Reading(AsyncIterator[Entry], Generic[Entry]):
    __slots__ = ("_inbox", "_take")

    def __init__(self, inbox: Inbox, take: Callable[[Any], Entry | None]) -> None:
        """`take` makes of an entry of the inbox what is read here; see `Inbox.read`."""
        self._inbox, self._take = inbox, take

    def __anext__(self) -> Coroutine[Any, Any, Entry]:
        return self._inbox.read(self._take)
