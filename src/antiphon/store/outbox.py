"""The outbox of a node: values that could not be published because the store does not answer, on this node's own disk until it does.

`put` returns when the values are on disk and synced; from then on they survive a kill or a loss of power. They leave in order, topic by
topic, each once (`draining.py`). While values of a topic wait, every further value of that topic belongs behind them.

**Numbers.** A value whose publisher's own number was decided before it came here keeps it (`first`): it may be in the store already. The
others get theirs when they are first sent, and it is written down before they are sent, so whoever is killed in the middle repeats them
under the same numbers, and the store writes each once.
**Bounds.** `values` and `size` (bytes of data): what does not fit is refused with StoreFull, and nothing of it is kept.
**Costs.** One thread and one file. Puts that wait at the same time share one sync. Opening reads the file once.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from antiphon.errors import AntiphonError, StoreFull, UsageError
from antiphon.store.holdings import Holdings
from antiphon.store.outbox_file import OutboxFile, Waiting
from antiphon.store.records import Entry, Moment, TopicOptions, checked_name

T = TypeVar("T")

TOGETHER = 256
CLOSE_S = 30.0


class Outbox:
    def __init__(
        self, path: str | Path, *, node: str = "", holdings: Holdings | None = None, values: int = 1_000_000, size: int = 1 << 30
    ) -> None:
        """`node` is the name under which the values are published; the file belongs to it. `holdings` is told since when values wait."""
        self.path, self.node = str(path), node
        self.arrived = asyncio.Event()
        """Set when values come in; whoever sends them clears it."""
        self._holdings = holdings or Holdings()
        self._values_limit, self._size_limit = values, size
        self._pending: dict[str, int] = {}
        self._size = 0
        self._oldest_by_topic: dict[str, Moment] = {}
        self._arriving: list[tuple[str, Moment]] = []
        self._options_by_topic: dict[str, TopicOptions] = {}
        self._unfinished: set[asyncio.Task[Any]] = set()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def open(self) -> None:
        """Raises BadStore for a file that is no outbox, belongs to another node, is damaged, or is open elsewhere."""
        if self._thread is not None:
            raise UsageError(f"the outbox {self.path} is open already")
        opened: Future[None] = Future()
        opened.set_running_or_notify_cancel()  # cancelled or not, the thread can answer
        self._jobs = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, args=(opened,), name=f"outbox {self.path}", daemon=True)
        self._thread.start()
        try:
            await asyncio.wrap_future(opened)
        except BaseException:
            await self.close()
            raise
        self._pending, self._size, oldest = await self._ask(
            lambda file: (pending := file.pending(), file.size(), {topic: file.oldest(topic) for topic in pending})
        )
        self._options_by_topic = await self._ask(OutboxFile.options)
        for topic in self._pending:
            self._note_oldest(topic, oldest[topic])
            self._hold(topic)
        if self._pending:
            self.arrived.set()

    async def close(self) -> None:
        """Finishes what was asked, and lets the file go. What waits goes on waiting in it."""
        if self._unfinished:
            await asyncio.wait(self._unfinished, timeout=CLOSE_S)
        thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            await asyncio.to_thread(thread.join, CLOSE_S)
            for topic in list(self._oldest_by_topic):
                self._holdings.release(self, topic)
            self._oldest_by_topic.clear()

    # --- in --------------------------------------------------------------------------------------------------------------------

    async def put(
        self,
        topic: str,
        options: TopicOptions | None,
        entries: Sequence[Entry],
        first: int | None = None,
        *,
        since: Moment | None = None,
    ) -> int:
        """Keeps the values; returns the number of the last one in this outbox, those of one put have numbers that follow each other.

        `first`: the publisher's own number of the first value, if the values may be in the store already under such numbers. What waits
        here under them already is not kept twice.
        `since`: the store's time before they were first sent, or as it was last heard (`holdings.seen`)."""
        checked_name(topic)
        size = sum(len(entry.data) for entry in entries)
        if self.values + len(entries) > self._values_limit or self._size + size > self._size_limit:
            raise StoreFull(self.path, f"{self._values_limit:,} values and {self._size_limit:,} bytes may wait in this outbox")
        # Counted before it is written: whatever is published meanwhile must see that something waits. Cancelled, it is kept all the same.
        self._count(topic, len(entries), size)
        moment = self._holdings.seen if since is None else since
        return await self._finished(self._put(topic, options, entries, first, moment, size))

    async def _put(
        self, topic: str, options: TopicOptions | None, entries: Sequence[Entry], first: int | None, since: Moment, size: int
    ) -> int:
        self._arriving.append((topic, since))
        self._hold(topic)
        try:
            (number, there), oldest = await self._ask(lambda file: (file.put(topic, options, entries, first, since), file.oldest(topic)))
            self._note_oldest(topic, oldest)
        except BaseException:
            self._count(topic, -len(entries), -size)
            raise
        finally:
            self._arriving.remove((topic, since))
            self._hold(topic)
        if options is not None:
            self._options_by_topic[topic] = options
        if there:
            self._count(topic, -there, -sum(len(entry.data) for entry in entries[:there]))
        self.arrived.set()
        return number

    def pending(self, topic: str) -> int:
        """How many values of the topic wait, those included that are being written just now."""
        return self._pending.get(topic, 0)

    def options(self, topic: str) -> TopicOptions | None:
        """Return what the topic is, if that was known when one of its values came in here."""
        return self._options_by_topic.get(topic)

    def topics(self) -> list[str]:
        """Those of which values wait."""
        return list(self._pending)

    @property
    def values(self) -> int:
        return sum(self._pending.values())

    @property
    def size(self) -> int:
        """Bytes of data that wait."""
        return self._size

    # --- out -------------------------------------------------------------------------------------------------------------------

    async def waiting(self, topic: str, values: int, size: int) -> Waiting | None:
        """The oldest values of the topic that can go in one publish of at most so many values and bytes."""
        return await self._ask(lambda file: file.waiting(topic, values, size))

    async def number(self, waiting: Waiting, first: int) -> None:
        """From now on these values have these numbers of their own, whatever happens."""
        await self._ask(lambda file: file.number(waiting, first))

    async def remove(self, waiting: Waiting) -> None:
        """The store has them."""
        await self._finished(self._remove(waiting))

    async def _remove(self, waiting: Waiting) -> None:
        def remove(file: OutboxFile) -> Moment | None:
            file.remove(waiting)
            return file.oldest(waiting.topic)

        self._note_oldest(waiting.topic, await self._ask(remove))
        self._count(waiting.topic, -len(waiting.ids), -sum(len(entry.data) for entry in waiting.entries))
        self._hold(waiting.topic)
        if not self._pending:
            await self._ask(OutboxFile.trim, alone=True)

    # --- inside ----------------------------------------------------------------------------------------------------------------

    def _count(self, topic: str, values: int, size: int) -> None:
        self._size += size
        left = self._pending.get(topic, 0) + values
        if left:
            self._pending[topic] = left
        else:
            self._pending.pop(topic, None)

    def _hold(self, topic: str) -> None:
        times = [since for arriving, since in self._arriving if arriving == topic]
        if topic in self._oldest_by_topic:
            times.append(self._oldest_by_topic[topic])
        self._holdings.set(self, min(times, default=None), topic)

    def _note_oldest(self, topic: str, oldest: Moment | None) -> None:
        if oldest is None:
            self._oldest_by_topic.pop(topic, None)
        else:
            self._oldest_by_topic[topic] = oldest

    async def _finished(self, work: Coroutine[Any, Any, T]) -> T:
        """Whoever waits may be cancelled, the work is not: what the thread does and what is counted here must agree."""
        task = asyncio.get_running_loop().create_task(work)
        self._unfinished.add(task)
        task.add_done_callback(self._unfinished.discard)
        return await asyncio.shield(task)

    async def _ask(self, work: Callable[[OutboxFile], T], *, alone: bool = False) -> T:
        if self._thread is None:
            raise UsageError(f"the outbox {self.path} is closed: open it first")
        job = _Job(work, Future(), alone)
        self._jobs.put(job)
        result: T = await asyncio.wrap_future(job.future)
        return result

    def _serve(self, opened: Future[None]) -> None:
        """The thread: takes all jobs that wait, does them in one transaction, and answers when it is synced."""
        try:
            file = OutboxFile(self.path, self.node)
        except Exception as error:
            opened.set_exception(error)
            return
        opened.set_result(None)
        open_still = True
        while open_still:
            jobs = [self._jobs.get()]
            while len(jobs) < TOGETHER and not self._jobs.empty():
                jobs.append(self._jobs.get())
            open_still = None not in jobs
            ready = [job for job in jobs if job is not None and job.future.set_running_or_notify_cancel()]
            for alone, run in groupby(ready, lambda job: job.alone):
                _settle(file, list(run), alone)
        file.close()


class _Job(NamedTuple):
    work: Callable[[OutboxFile], Any]
    future: Future[Any]
    alone: bool
    """Not within a transaction."""


def _settle(file: OutboxFile, jobs: list[_Job], alone: bool) -> None:
    results: list[Any] = []
    try:
        if not alone:
            file.begin()
        results.extend(job.work(file) for job in jobs)
        if not alone:
            file.commit()
    except Exception as error:
        with suppress(AntiphonError):  # the first error says more
            file.rollback()
        if len(jobs) == 1:
            jobs[0].future.set_exception(error)
        else:
            for job in jobs:  # the error is that of one of them: the others have nothing to do with it
                _settle(file, [job], alone)
    else:
        for job, result in zip(jobs, results, strict=True):
            job.future.set_result(result)
