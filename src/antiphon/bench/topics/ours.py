"""The work through Antiphon, as a program does it: a topic, a subscription, `done` after each batch."""

from __future__ import annotations

from antiphon.errors import TimedOut
from antiphon.store import Gap, Store, Subscription, open_store

_PATIENCE_S = 60.0


class Ours:
    def __init__(self, url: str, topic: str, size: int, subscribers: int = 0) -> None:
        """`subscribers` are as many others that do not read, to see whether they cost anything."""
        self._url, self._name, self._size, self._subscribers = url, topic, size, subscribers
        self._store: Store = open_store(url, name="bench")
        self._reader: Subscription | None = None

    async def open(self) -> None:
        await self._store.open()
        self._topic = self._store.topic(self._name)
        self._value = bytes(self._size)
        await self._topic.register()
        for number in range(self._subscribers):
            idle = await self._topic.subscribe(3_600.0, id=f"idle {number}")
            await idle.close()

    async def close(self) -> None:
        if self._reader is not None:
            await self._reader.close()
        await self._store.close()

    async def publish(self, batch: int) -> None:
        if batch == 1:
            await self._topic.publish(self._value, timeout=_PATIENCE_S)
        else:
            await self._topic.publish_many([self._value] * batch, timeout=_PATIENCE_S)

    async def rewind(self) -> None:
        if self._reader is not None:
            await self._reader.unsubscribe()
        self._reader = await self._topic.subscribe(86_400.0, id="bench")

    async def read(self, batch: int) -> int:
        assert self._reader is not None
        try:
            items = await self._reader.read_many(batch, 0.2)
        except TimedOut:
            return 0
        last = items[-1]
        await self._reader.done(last.last if isinstance(last, Gap) else last.seq)
        return len(items)
