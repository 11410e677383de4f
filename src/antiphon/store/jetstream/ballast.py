"""Room that is kept for bad days: when a server is full, throwing it off leaves enough for the records by which room is made.

A full server refuses everything, also that a subscriber is done or that the floor rises, and so nothing could ever be collected. So every
store lays one large message aside. Writes of that kind throw it off and are tried again; publishing does not. It is laid again when
something has been collected, and when a store is opened. A server goes over its limit by what the last batch had: the ballast helps as
long as that was smaller than itself (a mebibyte, or what the server takes); otherwise the server must be given more room.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from antiphon.errors import StoreFull
from antiphon.store.jetstream.faults import Mismatch, Unanswered

if TYPE_CHECKING:
    from antiphon.store.jetstream.stream import Stream


class Ballast:
    def __init__(self, stream: Stream, subject: str, size: int) -> None:
        self._stream, self._subject, self._size = stream, subject, size

    async def lay(self) -> None:
        """Lays it aside unless it is there, or there is no room."""
        from antiphon.store.jetstream.stream import Condition, Message

        with suppress(Mismatch, StoreFull, Unanswered):
            await self._stream.write([Message(self._subject, bytes(self._size))], Condition(self._subject, 0))

    async def throw_off(self) -> None:
        newest = await self._stream.newest(self._subject)
        if newest is not None:
            await self._stream.purge(self._subject, newest.place + 1)
