"""A process that works on a store, for tests that start several and kill some: `python -m antiphon.testing.store_worker ORDER`.

The order is JSON (see `Order`). A worker may be killed at any point and started again with the same order: it goes on where the store says
that it was, and appends to the same journal. It ends by itself when its work is done (exit code 0), when it is fenced (4), or when its
time is over (3). While the store is out of reach it repeats what it does.

    writer      publishes its own numbers 1 … count, in batches of up to `batch`
    subscriber  reads the topic up to number `count`; its continuation is the count and digest of what it has read
    stepper     as a subscriber, and publishes one value to `out` for each that it reads, in the same step
    collector   collects until everything up to number `count` is gone
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Literal, TypeVar

import msgspec
from msgspec.structs import replace

from antiphon.errors import Conflict, Fenced, StoreUnreachable, UnknownTopic
from antiphon.store.contract import Backend, Reader
from antiphon.store.opening import backend_for
from antiphon.store.records import Chunk, Entry, Grant, Publication, Subscriber, TopicOptions, checked_lease
from antiphon.testing.store_journal import (
    Acknowledged,
    Began,
    Collected,
    Done,
    Intended,
    Journal,
    Missed,
    Read,
    Subscribed,
    digest,
    payload,
    seen,
)

Answer = TypeVar("Answer")

TIME_OVER = 3
FENCED = 4


class Order(msgspec.Struct, frozen=True, kw_only=True):
    role: Literal["writer", "subscriber", "stepper", "collector"]
    url: str
    journal: str
    name: str
    topic: str
    count: int
    out: str = ""
    shared: bool = False
    """The topic that is written has many publishers."""
    batch: int = 16
    size: int = 100
    lease_s: float = 3600.0
    pause_s: float = 0.0
    """Between two pieces of work, at most."""
    seconds: float = 60.0
    seed: int = 0


async def open_backend(url: str) -> Backend:
    """The back end that the address means, opened."""
    backend = backend_for(url)
    await backend.open()
    return backend


async def work(order: Order) -> None:
    """Does what the order says in this process."""
    journal = Journal(Path(order.journal))
    worker = Worker(order, journal)
    try:
        async with asyncio.timeout(order.seconds):
            worker.store = await worker.persist(lambda: open_backend(order.url))
            await getattr(worker, order.role)()
    finally:
        if worker.store is not None:
            await worker.store.close()
        journal.close()


class Worker:
    store: Backend | None = None

    def __init__(self, order: Order, journal: Journal) -> None:
        self.order, self.journal = order, journal
        self.random = Random(f"{order.name}/{order.seed}")

    async def persist(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """Repeats while the store is out of reach, which is always right; `work` ends it."""
        while True:
            try:
                return await call()
            except StoreUnreachable:
                await asyncio.sleep(0.05 + 0.1 * self.random.random())

    async def pause(self) -> None:
        await asyncio.sleep(self.order.pause_s * self.random.random())

    async def registered(self, topic: str, shared: bool) -> Grant:
        store, options = self.opened(), TopicOptions(shared=shared)
        self.journal.write(Began(topic=topic, name=self.order.name, time=await self.persist(store.time)))
        return await self.persist(lambda: store.register(topic, self.order.name, options=options))

    def opened(self) -> Backend:
        assert self.store is not None
        return self.store

    async def writer(self) -> None:
        order, store = self.order, self.opened()
        grant = await self.registered(order.topic, order.shared)
        first = grant.number + 1
        while first <= order.count:
            last = min(order.count, first + self.random.randrange(order.batch))
            entries = [Entry(payload(order.name, number, order.size)) for number in range(first, last + 1)]
            self.journal.write(Intended(topic=order.topic, name=order.name, first=first, last=last))
            receipt = await self.persist(lambda first=first, entries=entries: store.publish(grant, first, entries))  # type: ignore[misc]
            where = {"seq_first": receipt.first, "seq_last": receipt.last}
            self.journal.write(Acknowledged(topic=order.topic, name=order.name, first=first, last=last, **where))
            first = last + 1
            await self.pause()

    async def subscriber(self) -> None:
        await self.follow(None)

    async def stepper(self) -> None:
        await self.follow(await self.registered(self.order.out, self.order.shared))

    async def collector(self) -> None:
        order, store, floor = self.order, self.opened(), 0
        while floor < order.count:
            try:
                collected = await self.persist(lambda: self.collect(store))
                floor = collected.floor
                self.journal.write(collected)
            except UnknownTopic:
                await asyncio.sleep(0.05)
            await self.pause()

    async def collect(self, store: Backend) -> Collected:
        floor, removed = await store.collect(self.order.topic, await store.time())
        return Collected(topic=self.order.topic, name=self.order.name, floor=floor, removed=removed)

    async def follow(self, out: Grant | None) -> None:
        order = self.order
        record = await self.persist(self.come)
        count, value_digest = _state(record)
        reader: Reader | None = None
        while record.position < order.count:
            try:
                reader = reader or await self.opened().reader(order.topic, record.position, record.place)
                chunk = await reader.take(1 + self.random.randrange(order.batch), 1.0)
            except StoreUnreachable:
                reader = None
                await asyncio.sleep(0.05)
                continue
            values = [seen(value) for value in chunk.values]
            self.journal.write(Read(topic=order.topic, name=order.name, values=values))
            position = self.tell_what_is_missing(chunk, record.position)
            for value in values:
                count, value_digest = count + 1, digest(value_digest, value)
            if position == record.position:
                continue
            place = chunk.values[-1].place if chunk.values else 0
            wanted = replace(record, position=position, place=place, state=msgspec.json.encode((count, value_digest)))
            record = await self.step(record, wanted, out, [value.seq for value in values])
            self.journal.write(Done(topic=order.topic, name=order.name, position=position, count=count, digest=value_digest))
            await self.pause()

    async def come(self) -> Subscriber:
        """As a new subscriber, or back as the one that is there."""
        order, store = self.order, self.opened()
        known = await store.subscriber(order.topic, order.name)
        try:
            if known is None:
                record = await store.subscribe(order.topic, order.name, checked_lease(order.lease_s))
            else:
                record = await store.update(replace(known, epoch=known.epoch + 1))
        except Conflict:
            return await self.come()
        count, value_digest = _state(record)
        said = {"position": record.position, "lease": record.lease, "count": count, "digest": value_digest}
        # Killed between subscribing and this line, the next life comes back to a continuation in which nothing has been counted yet.
        anew = known is None or not record.state
        self.journal.write(Subscribed(topic=order.topic, name=order.name, anew=anew, **said))
        return record

    def tell_what_is_missing(self, chunk: Chunk, position: int) -> int:
        for value in chunk.values:
            if value.seq > position + 1:
                self.missed(position + 1, value.seq - 1, chunk)
            position = value.seq
        if not chunk.values and chunk.floor > position:
            self.missed(position + 1, chunk.floor, chunk)
            position = chunk.floor
        return position

    def missed(self, first: int, last: int, chunk: Chunk) -> None:
        gap = {"first": first, "last": last, "floor": chunk.floor, "time": chunk.time}
        self.journal.write(Missed(topic=self.order.topic, name=self.order.name, **gap))

    async def step(self, record: Subscriber, wanted: Subscriber, out: Grant | None, seqs: list[int]) -> Subscriber:
        """The update, with the publications of a stepper; repeated until it is known to have happened."""
        store, publications = self.opened(), []
        if out is not None:
            for seq in seqs:
                self.journal.write(Intended(topic=out.topic, name=out.publisher, first=seq, last=seq))
                publications.append(Publication(out, seq, [Entry(payload(out.publisher, seq, self.order.size))]))
        try:
            done = await self.persist(lambda: store.step(wanted, publications) if out is not None else store.update(wanted))
        except Conflict:
            # Either it happened and the answer was lost, or somebody else has come as this subscriber.
            there = await self.persist(lambda: store.subscriber(record.topic, record.id))
            if there is None or replace(there, revision=0) != replace(wanted, revision=0):
                raise Fenced(f"the subscriber {record.id!r}", "somebody else has come as it") from None
            done = there
        for seq in seqs if out is not None else ():
            self.journal.write(Acknowledged(topic=self.order.out, name=self.order.name, first=seq, last=seq))
        return done


def _state(record: Subscriber) -> tuple[int, int]:
    return msgspec.json.decode(record.state, type=tuple[int, int]) if record.state else (0, 0)


def main() -> None:
    order = msgspec.json.decode(sys.argv[1].encode(), type=Order)
    try:
        asyncio.run(work(order))
    except TimeoutError:
        sys.exit(TIME_OVER)
    except Fenced:
        sys.exit(FENCED)


if __name__ == "__main__":
    main()
