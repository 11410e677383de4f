"""The SQLite back end's face: each call of the contract is a job of the writer or a look of a reader thread."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from antiphon.errors import StoreUnreachable, TooLarge
from antiphon.store.contract import Reader
from antiphon.store.records import (
    Chunk,
    Collected,
    Entry,
    Grant,
    Moment,
    Publication,
    Receipt,
    Record,
    Start,
    Subscriber,
    TopicInfo,
    TopicOptions,
    checked_name,
)
from antiphon.store.sqlite import collecting, publishing, reading, recording, subscribing
from antiphon.store.sqlite.address import SqliteAddress, parse
from antiphon.store.sqlite.clock import BootClock
from antiphon.store.sqlite.house import House
from antiphon.store.sqlite.readers import Look, snapshot
from antiphon.store.sqlite.transaction import Channel, Transaction, channel_of_record

T = TypeVar("T")


class SqliteBackend:
    """Durable topics in one file. `url` is `sqlite:PATH`, or the path; `max_bytes` bounds the file, `busy_s` how long a call waits for
    other processes' transactions. `clock` is for tests. Several may open one file, in one process or in many; each belongs to the loop
    in which it was opened."""

    value_bytes = 16 << 20
    batch_values = 16_384
    atomic_steps = True
    batch_bytes = 64 << 20

    def __init__(
        self, url: str | os.PathLike[str], *, max_bytes: int | None = None, busy_s: float | None = None, clock: BootClock | None = None
    ) -> None:
        self.address: SqliteAddress = parse(url, max_bytes, busy_s)
        self.url = self.address.url
        self._clock = clock
        self._house: House | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        async with self._opening:
            if self._house is None:
                self._house = await House.built(self.address, self._clock)

    async def close(self) -> None:
        house, self._house = self._house, None
        if house is not None:
            await house.close()

    async def time(self) -> Moment:
        house = self._open()
        return await house.readers.look(lambda connection: reading.time(connection, house.clock))

    @property
    def commits(self) -> int:
        """Transactions since it was opened."""
        return self._open().writer.commits

    # --- topics ----------------------------------------------------------------------------------------------------------------

    async def register(self, topic: str, publisher: str, *, options: TopicOptions | None = None, takeover: bool = False) -> Grant:
        checked_name(topic)
        checked_name(publisher, "publisher")
        grant, _ = await self._open().writer.submit(
            lambda transaction: publishing.register(transaction, self.url, topic, publisher, options, takeover)
        )
        return grant

    async def release(self, grant: Grant) -> None:
        await self._open().writer.submit(lambda transaction: publishing.release(transaction, grant))

    async def publish(self, grant: Grant, first: int, entries: Sequence[Entry], *, synced: bool = True) -> Receipt:
        batch = self._checked(entries)
        (begin, end), is_synced = await self._open().writer.submit(
            lambda transaction: publishing.publish(transaction, self.url, grant, first, batch), synced=synced, weight=batch.size
        )
        return Receipt(begin, end, is_synced)

    async def erase(self, grant: Grant, numbers: Sequence[int]) -> int:
        chosen = tuple(numbers)
        removed, _ = await self._open().writer.submit(lambda transaction: publishing.erase(transaction, grant, chosen))
        return removed

    async def reader(self, topic: str, after: int, place: int = 0) -> Reader:
        house = self._open()
        return _Reader(self, await house.readers.look(lambda connection: reading.topic_id(connection, topic)), after)

    async def info(self, topic: str) -> TopicInfo:
        return await self._open().readers.look(lambda connection: reading.info(connection, topic))

    async def topics(self) -> list[TopicInfo]:
        return await self._open().readers.look(reading.infos)

    async def collect(self, topic: str, horizon: Moment) -> Collected:
        house = self._open()
        horizon = min(horizon, await self.time())
        known = await house.readers.look(lambda connection: collecting.expiries(connection, topic, horizon))
        removed = 0
        while True:
            piece, _ = await house.writer.submit(lambda transaction: collecting.collect_piece(transaction, topic, horizon, known))
            removed += piece.removed
            if piece.is_last:
                break
        await house.readers.look(reading.checkpoint)
        return Collected(piece.floor, removed)

    # --- subscribers -----------------------------------------------------------------------------------------------------------

    async def subscribe(self, topic: str, subscriber: str, lease: Moment, start: Start = "earliest") -> Subscriber:
        checked_name(topic)
        checked_name(subscriber, "subscriber")
        fresh, _ = await self._open().writer.submit(
            lambda transaction: subscribing.subscribe(transaction, self.url, topic, subscriber, lease, start)
        )
        return fresh

    async def subscriber(self, topic: str, subscriber: str) -> Subscriber | None:
        return await self._open().readers.look(lambda connection: subscribing.find(connection, topic, subscriber))

    async def subscribers(self, topic: str) -> list[Subscriber]:
        def look(connection: sqlite3.Connection) -> list[Subscriber]:
            with snapshot(connection):
                return list(subscribing.find_all(connection, reading.topic_id(connection, topic), topic))

        return await self._open().readers.look(look)

    async def update(self, subscriber: Subscriber) -> Subscriber:
        changed, _ = await self._open().writer.submit(
            lambda transaction: subscribing.update(transaction, subscriber), weight=len(subscriber.state)
        )
        return changed

    async def unsubscribe(self, subscriber: Subscriber) -> None:
        await self._open().writer.submit(lambda transaction: subscribing.unsubscribe(transaction, subscriber))

    async def step(self, subscriber: Subscriber, publications: Sequence[Publication]) -> Subscriber:
        batches = [(publication.grant, publication.first, self._checked(publication.entries)) for publication in publications]

        def work(transaction: Transaction) -> Subscriber:
            for grant, first, batch in batches:
                publishing.publish(transaction, self.url, grant, first, batch)
            return subscribing.update(transaction, subscriber)

        weight = len(subscriber.state) + sum(batch.size for _, _, batch in batches)
        changed, _ = await self._open().writer.submit(work, weight=weight)
        return changed

    # --- records ---------------------------------------------------------------------------------------------------------------

    async def get(self, key: str) -> Record | None:
        return await self._open().readers.look(lambda connection: recording.get(connection, key))

    async def put(self, key: str, data: bytes, revision: int) -> Record:
        record, _ = await self._open().writer.submit(
            lambda transaction: recording.put(transaction, key, data, revision), weight=len(data)
        )
        return record

    async def remove(self, key: str, revision: int) -> None:
        await self._open().writer.submit(lambda transaction: recording.remove(transaction, key, revision))

    async def records(self, prefix: str) -> list[Record]:
        return await self._open().readers.look(lambda connection: recording.with_prefix(connection, prefix))

    async def watch(self, key: str, revision: int, timeout_s: float) -> Record | None:
        def is_it(record: Record | None) -> bool:
            return (record.revision if record else 0) != revision

        return await self._until(channel_of_record(key), lambda connection: recording.get(connection, key), is_it, timeout_s)

    # --- inside ----------------------------------------------------------------------------------------------------------------

    def _open(self) -> House:
        if self._house is None:
            raise StoreUnreachable(self.url, "it is not open")
        return self._house

    def _checked(self, entries: Sequence[Entry]) -> publishing.Batch:
        batch = publishing.columns(entries)
        if batch.largest > self.value_bytes:
            raise TooLarge(batch.largest, self.value_bytes, "a value", "split it, or keep it elsewhere and publish where it is")
        if batch.size > self.batch_bytes or len(batch.datas) > self.batch_values:
            raise TooLarge(batch.size, self.batch_bytes, f"a batch of up to {self.batch_values:,} values", "publish several batches")
        return batch

    async def _until(self, channel: Channel, look: Look[T], is_it: Callable[[T], bool], timeout_s: float) -> T:
        """What is found as soon as it is what was waited for, or when the time is over."""
        house = self._open()
        if timeout_s <= 0:
            return await house.readers.look(look)
        deadline = house.loop.time() + timeout_s
        with house.wake.listening(channel) as rings:
            while True:
                rings.clear()
                found = await self._open().readers.look(look)
                if is_it(found) or house.loop.time() >= deadline:
                    return found
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(deadline):
                        await rings.wait()


class _Reader:
    def __init__(self, backend: SqliteBackend, topic: int, after: int) -> None:
        self._backend, self._topic, self._after = backend, topic, after

    async def take(self, limit: int, timeout_s: float) -> Chunk:
        clock, topic, after = self._backend._open().clock, self._topic, self._after
        limit = max(0, min(limit, self._backend.batch_values))
        chunk = await self._backend._until(
            topic, lambda connection: reading.page(connection, clock, topic, after, limit), lambda found: bool(found.values), timeout_s
        )
        # Only now: a call that was cancelled has taken nothing.
        self._after = chunk.values[-1].seq if chunk.values else self._after
        return chunk

    async def close(self) -> None:
        return None
