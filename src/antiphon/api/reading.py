"""Reading a group: an iterator that takes one entry after the other from what all readers share.

It is no generator on purpose. A generator that is cancelled while it waits is finished, so `asyncio.wait_for(anext(reading), 1)` that
times out once would look like the end of the group ever after. This one can be asked again, and has taken nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Generic, TypeVar

Entry = TypeVar("Entry")


class Reading(AsyncIterator[Entry], Generic[Entry]):
    __slots__ = ("_take",)

    def __init__(self, take: Callable[[], Coroutine[Any, Any, Entry]]) -> None:
        """`take` waits for the next entry; it raises StopAsyncIteration when there will be none."""
        self._take = take

    def __anext__(self) -> Coroutine[Any, Any, Entry]:
        return self._take()
