"""A publisher of one topic: gives its values their own numbers, gathers them into batches, and sends one batch after the other.

The right to write (`right.py`) is asked for with the first publish, or by `register`. A batch that the store does not answer to is repeated
with the same numbers until nobody waits for it any more: the store writes it once. Then it goes to the outbox, with its numbers, where
there is one; as long as values of the topic lie there, all that follow go there too, so that the order stays. Whoever drains the outbox
registers for itself: so the grant is given up here when values go there, and asked for again when they are gone.

Keeps at most `queue_values` and `queue_bytes` of values that wait; whoever comes then waits in line. One batch is under way at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from antiphon.errors import AntiphonError, Fenced, InvalidOption, StoreFull, StoreUnreachable, TimedOut
from antiphon.store.acknowledgement import Acknowledgement, Published
from antiphon.store.ending import end
from antiphon.store.gathering import Batch, Job, gather
from antiphon.store.numbering import Numbering
from antiphon.store.reach import Reach
from antiphon.store.records import Entry, Grant, Receipt, TopicOptions, check_keys
from antiphon.store.right import Right
from antiphon.store.waiting_line import WaitingLine


class Outbox(Protocol):
    """What a publisher needs of the node's outbox."""

    async def put(self, topic: str, options: TopicOptions | None, entries: Sequence[Entry], first: int | None) -> int: ...

    def pending(self, topic: str) -> int: ...

    def options(self, topic: str) -> TopicOptions | None: ...


class Publisher:
    def __init__(self, reach: Reach, topic: str, name: str, outbox: Outbox | None) -> None:
        self.topic, self.name = topic, name
        self._reach, self._outbox, self._settings = reach, outbox, reach.settings
        self._right = Right(reach, topic, name)
        self._numbering = Numbering(topic, name)
        self._line = WaitingLine(reach.settings.queue_values, reach.settings.queue_bytes, self._late)
        self._turn = asyncio.Lock()
        """Whoever writes, or changes the right to."""
        self._worker: asyncio.Task[None] | None = None

    @property
    def number(self) -> int:
        """The own number of the newest value that the store is known to have."""
        return self._numbering.acknowledged

    @property
    def waiting(self) -> int:
        """Values that are accepted and not acknowledged."""
        return self._line.values

    # -- the right to write ----------------------------------------------------------------------------------------------------

    async def register(self, options: TopicOptions | None, takeover: bool, timeout: float | None) -> Grant:
        """Asks for the right to write anew, whatever it was before."""
        async with self._turn_within(timeout) as left:
            grant = await self._right.register(options, takeover, left)
            self._numbering.begin(grant)
            if self._in_outbox():
                self._right.grant = None  # what is there goes first, and whoever sends it registers for itself
            return grant

    async def release(self, timeout: float | None) -> None:
        """Gives the right to write back."""
        async with self._turn_within(timeout) as left:
            await self._right.release(left)

    async def erase(self, numbers: Sequence[int], timeout: float | None) -> int:
        async with self._turn_within(timeout) as left:
            if self._in_outbox():
                raise StoreUnreachable(self._reach.url, "values of this topic wait in the outbox: erase when they have been sent")
            grant = await self._granted(left)
            try:
                return await self._reach.insist(lambda: self._reach.backend.erase(grant, numbers), left)
            except Fenced as error:
                raise self._right.fence(error) from None

    async def _granted(self, timeout: float) -> Grant:
        grant = await self._right.granted(timeout)
        self._numbering.begin(grant)
        return grant

    @asynccontextmanager
    async def _turn_within(self, timeout: float | None) -> AsyncIterator[float]:
        """Waits for the batch under way, and gives how long the call may still take."""
        self._reach.check_open()
        clock = asyncio.get_running_loop().time
        until = self._reach.until(timeout)
        try:
            async with asyncio.timeout_at(until):
                await self._turn.acquire()
        except TimeoutError:
            raise self._reach.unreachable() from None
        try:
            yield max(until - clock(), 0.0)
        finally:
            self._turn.release()

    def _in_outbox(self) -> bool:
        return self._outbox is not None and self._outbox.pending(self.topic) > 0

    # -- publishing ------------------------------------------------------------------------------------------------------------

    async def publish(
        self, entries: Sequence[Entry], size: int, *, number: int | None, synced: bool, timeout: float | None, keyed: bool = False
    ) -> Acknowledgement:
        """Returns when the store, or the outbox, has all of them. `keyed` says that they have keys, all of them."""
        self._reach.check_open()
        self._right.check()
        if number is not None:
            self._numbering.check(number, len(entries))
        if not entries:
            return Published(1, 0)
        self._check_keys(keyed)
        until = self._reach.until(timeout)
        kind = self._numbering.accept(number, len(entries))
        try:
            return await self._accepted(entries, size, number, synced, until, keyed)
        finally:
            self._numbering.finish(kind)

    def _check_keys(self, keyed: bool) -> None:
        """Raises InvalidOption where it is known what the topic is, and that such values do not belong there."""
        known = self._right.known
        if known is None and self._outbox is not None:
            known = self._outbox.options(self.topic)
        if known is not None:
            check_keys(self.topic, known, keyed)

    async def _accepted(
        self, entries: Sequence[Entry], size: int, number: int | None, synced: bool, until: float, keyed: bool
    ) -> Acknowledgement:
        try:
            await self._line.room(len(entries), size, until)
        except TimeoutError:
            raise self._crowded() from None
        # An outbox is on this machine's own disk: it is given its time even when the store has used up what there was.
        grace = 0.0 if self._outbox is None else self._settings.timeout_s
        job = Job(entries, size, number, synced, until, until + grace, keyed=keyed)
        alone = not self._line.jobs and self._worker is None and not self._turn.locked()
        self._line.enter(job)
        try:
            if alone and self._right.grant is not None and not self._in_outbox():
                await self._send_alone(self._right.grant)
            if not job.outcome.done() and self._worker is None:
                self._worker = asyncio.create_task(self._work(), name=f"publishing {self.topic}")
            return await job.outcome
        finally:
            # Cancelled while this call itself was sending its first batch, it has no outcome yet: the rest must not go with the next.
            job.outcome.cancel()
            self._line.leave(job)

    async def _send_alone(self, grant: Grant) -> None:
        """Nothing else waits or is under way: the caller sends its first batch itself, which saves it two turns of the event loop. What
        others publish meanwhile waits for the end of it as ever."""
        async with self._turn:
            batch = gather(self._line.jobs, self._numbering.next, self._reach.backend.batch_values, self._reach.backend.batch_bytes)
            assert batch is not None, "a call came in just now"
            self._numbering.send(batch)
            await self._send(grant, batch)

    def _late(self, job: Job) -> AntiphonError:
        number = self._numbering.tell(job)
        return self._reach.unreachable(number) if number is not None or self._reach.trouble else self._crowded()

    def _crowded(self) -> AntiphonError:
        if self._reach.trouble:
            return self._reach.unreachable()
        return TimedOut(f"nothing was published: {self._line.values:,} values of {self.topic!r} wait to be, and there was no room in time")

    # -- one batch after the other ---------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        try:
            while self._line.jobs:
                async with self._turn:
                    await self._send_next()
        finally:
            self._worker = None

    async def _send_next(self) -> None:
        line, backend = self._line, self._reach.backend
        grant = None if self._in_outbox() else self._right.grant
        if grant is None and not self._in_outbox():
            # The grant comes before the batch: it says from where on the numbers are free.
            asking = list(line)
            try:
                grant = await self._granted(self._patience(max((job.patience for job in asking), default=0.0)))
            except StoreUnreachable:
                if self._outbox is None:
                    for job in asking:
                        job.fail(self._reach.unreachable())
                    return
            except Exception as error:
                line.fail(error)
                return
        batch = gather(line.jobs, self._numbering.next, backend.batch_values, backend.batch_bytes)
        if batch is not None:
            try:
                self._check_keys(batch.keyed)  # what the topic is may have become known with the grant
            except InvalidOption as error:
                self._fail(batch, error)
                return
            if grant is None:
                await self._hand_over(batch, batch.first if batch.said else None)
            else:
                self._numbering.send(batch)
                await self._send(grant, batch)

    async def _send(self, grant: Grant, batch: Batch) -> None:
        try:
            receipt = await self._publish(grant, batch.first, batch.entries, batch)
            if receipt.last - receipt.first + 1 == len(batch.entries) or len(batch.shares) == 1:
                self._settle(batch, receipt)
            else:
                await self._settle_one_by_one(grant, batch)
        except asyncio.CancelledError:
            self._numbering.give_up(batch)
            raise
        except StoreUnreachable as error:
            self._numbering.give_up(batch)
            if self._outbox is None:
                self._fail(batch, error)
            else:
                await self._hand_over(batch, batch.first)
        except Fenced as error:
            self._fail(batch, self._right.fence(error))
            self._line.fail(error)
        except Exception as error:
            self._numbering.give_up(batch)
            self._fail(batch, error)

    async def _publish(self, grant: Grant, first: int, entries: Sequence[Entry], batch: Batch) -> Receipt:
        backend = self._reach.backend
        return await self._reach.insist(
            lambda: backend.publish(grant, first, entries, synced=batch.synced), self._patience(batch.patience), while_wanted=batch.wanted
        )

    def _settle(self, batch: Batch, receipt: Receipt) -> None:
        self._acknowledge(batch)
        seq = receipt.first
        for job, count in batch.shares:
            alone = len(batch.shares) == 1
            job.settle(count, receipt if alone else Receipt(seq, seq + count - 1, receipt.synced))
            seq += count

    async def _settle_one_by_one(self, grant: Grant, batch: Batch) -> None:
        """Some of the batch were in a shared topic before, with values of others between: each call is told its own numbers, by repeating
        it, which writes nothing."""
        self._acknowledge(batch)
        at = 0
        for job, count in batch.shares:
            job.settle(count, await self._publish(grant, batch.first + at, batch.entries[at : at + count], batch))
            at += count

    def _acknowledge(self, batch: Batch) -> None:
        self._numbering.settle(batch)
        self._reach.tally.published += len(batch.entries)
        self._reach.tally.batches += 1

    async def _hand_over(self, batch: Batch, first: int | None) -> None:
        """Values go to the outbox: with their numbers where the store may have them already."""
        assert self._outbox is not None, "values go to the outbox only where there is one"
        self._right.grant = None
        try:
            number = await self._outbox.put(self.topic, self._right.known or self._right.options, batch.entries, first)
        except Exception as error:
            self._fail(batch, error)
            return
        self._numbering.queue(batch, numbered=first is not None)
        self._reach.tally.queued += len(batch.entries)
        for job, count in batch.shares:
            job.queue(count, number, numbered=first is not None)

    def _patience(self, until: float) -> float:
        left = max(until - asyncio.get_running_loop().time(), 0.0)
        return left if self._outbox is None else min(left, self._settings.outbox_s)

    def _fail(self, batch: Batch, error: Exception) -> None:
        for job, _ in batch.shares:
            if isinstance(error, StoreUnreachable):
                job.fail(self._reach.unreachable(self._numbering.tell(job)))
            elif isinstance(error, StoreFull):
                full = StoreFull(error.url, error.why)
                full.number = self._numbering.tell(job)
                job.fail(full)
            else:
                job.fail(error)

    async def close(self, timeout: float) -> None:
        """Waits for what was accepted, so long; the rest fails."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._line.values:
                    async with self._turn:
                        await asyncio.sleep(0)
        await end(self._worker)
        self._line.close(self._reach.unreachable())
