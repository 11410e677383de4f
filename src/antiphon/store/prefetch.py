"""Reading ahead for a subscription: values are taken from the store before they are asked for, as many as the bounds allow.

While the store is out of reach reading goes on: what was read ahead is there, and taking is tried again after growing pauses, for as long
as it takes. Only what can never become better ends it: this subscriber is fenced, the store is closed, an answer makes no sense.

It tells `Holdings` which values the application has been handed and has not confirmed: those hold back the collection of this topic until
their lease is over. Values that were only read ahead hold nothing (see `token.py` for why they are safe).

Keeps at most `prefetch_values` values; and about `prefetch_bytes`: the size of what comes is guessed by what came, so that it may be above
it once when values suddenly become larger. One call per chunk, of up to half of what may be kept.
"""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from operator import attrgetter
from typing import Any, NamedTuple

from antiphon.errors import StoreUnreachable
from antiphon.store.contact import StoreContact
from antiphon.store.contract import Reader
from antiphon.store.holdings import Holdings, TopicHold
from antiphon.store.reach import Reach
from antiphon.store.records import Chunk, Moment, Subscriber, Value
from antiphon.store.succession import Item, Succession
from antiphon.store.timekeeper import Timekeeper

_WAIT_S = 1.0
"""How long one call waits for new values."""
_FIRST = 64
"""Values asked for while it is not known how large they are."""
_TRACES = 1_024
_DATA = attrgetter("data")


class Trace(NamedTuple):
    """Where a chunk began."""

    seq: int
    time: Moment
    place: int


class Prefetch:
    def __init__(
        self,
        reach: Reach,
        timekeeper: Timekeeper,
        holdings: Holdings,
        record: Subscriber,
        succession: Succession,
        decode: Callable[[bytes], Any] | None,
        watch: Callable[[], Coroutine[Any, Any, None]],
        contact: StoreContact,
    ) -> None:
        """`watch` is called every `watch_s` and raises what ends the reading. `contact` is told whether the store answers."""
        self._reach, self._timekeeper, self._holdings = reach, timekeeper, holdings
        self._topic, self._reader, self._place = record.topic, record.id, record.place
        self._position = record.position
        self._succession, self._decode, self._watch, self._contact = succession, decode, watch, contact
        self.last = record.position
        """The newest number known to be published."""
        self.values = 0
        self._bytes = 0
        self._runs: deque[_Run] = deque()
        self._limit = max(1, min(_FIRST, reach.settings.prefetch_values // 2))
        self._mutable_known = False
        self._traces: deque[Trace] = deque()
        self._hold: TopicHold | None = None
        """What the application has in hand; None: nothing."""
        self._handed = record.position
        """The newest number that was handed to the application."""
        self._readers: list[asyncio.Future[None]] = []
        self._room = asyncio.Event()
        self._error: Exception | None = None
        self.ended = False
        self._task = asyncio.create_task(self._run(), name=f"reading {record.topic}")

    # -- taking ----------------------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        return bool(self._runs)

    async def wait(self) -> bool:
        """Waits until there is something; False when there will be nothing any more. Raises why, where there is a reason. Takes nothing,
        so that it may be cancelled at any time."""
        while not self._runs:
            if self._error is not None:
                raise self._error.with_traceback(None)
            if self.ended:
                return False
            reader: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._readers.append(reader)
            try:
                await reader
            finally:
                if not reader.done() or reader.cancelled():
                    with suppress(ValueError):
                        self._readers.remove(reader)
        return True

    @property
    def oldest(self) -> Moment:
        """The time of the value that is next, or of one before it."""
        run = self._runs[0]
        item = run.items[run.at]
        return item.time if isinstance(item, Value) else run.time

    def take(self, limit: int) -> list[Item]:
        """What is there, in order, at most so many."""
        taken: list[Item] = []
        while self._runs and len(taken) < limit:
            run = self._runs[0]
            left = len(run.items) - run.at
            count = min(left, limit - len(taken))
            part = run.items if count == len(run.items) else run.items[run.at : run.at + count]
            taken = part if not taken else taken + part
            run.at += count
            self.values -= count
            if count == left:
                self._runs.popleft()
                self._bytes -= run.size
        if self.values <= self._reach.settings.prefetch_values // 2:
            self._room.set()
        return taken

    def place_of(self, seq: int) -> int:
        """The hint of where this value lies, or where one lies not long before it; 0 where nothing is known."""
        at = bisect_right(self._traces, seq, key=lambda trace: trace.seq) - 1
        return self._traces[at].place if at >= 0 else 0

    def hand_out(self, items: list[Item], lease: Moment) -> None:
        """Note that the application has these from now on: they are held until they are confirmed or `lease` is over."""
        last: Item | None = items[-1]
        if not isinstance(last, Value):
            last = next((item for item in reversed(items) if isinstance(item, Value)), None)
            if last is None:
                return
        self._handed = last.seq
        if self._hold is not None:
            self._hold.newest = last.time
        elif not self.ended:
            first = items[0] if isinstance(items[0], Value) else next(item for item in items if isinstance(item, Value))
            self._hold = TopicHold(first.time, self._topic, self._reader, last.time, lease)
            self._holdings.hold(self, self._hold)

    def done(self, position: int, lease: Moment | None = None) -> None:
        """Note that everything up to here is done, and that the store knows it. `lease` is what it is now; None: as it was."""
        self._position = max(self._position, position)
        while len(self._traces) > 1 and self._traces[1].seq <= self._position + 1:
            self._traces.popleft()
        hold = self._hold
        if hold is None or self.ended:
            return
        if self._position >= self._handed:
            self._release()
            return
        # The chunk that the first value in hand is in began with this one: it is as old, or a little older.
        oldest = max(hold.oldest, self._traces[0].time) if self._traces else hold.oldest
        if oldest != hold.oldest or lease not in (None, hold.lease):
            self._hold = TopicHold(oldest, hold.topic, hold.reader, hold.newest, hold.lease if lease is None else lease)
            self._holdings.hold(self, self._hold)

    # -- reading ahead ---------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        reader: Reader | None = None
        settings, clock = self._reach.settings, asyncio.get_running_loop().time
        pause, watched = settings.retry_s, clock()
        try:
            while True:
                await self._for_room()
                try:
                    if clock() - watched >= settings.watch_s:
                        await self._watch()
                        watched = clock()
                    reader = reader or await self._open()
                    chunk = await self._take(reader, min(_WAIT_S, settings.watch_s))
                    await self._accept(chunk)
                except StoreUnreachable as error:
                    self._contact.failed("reader", error)
                    # The reader may have lost its place together with the connection: another begins where this one had come to.
                    await _close(reader)
                    reader = None
                    await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                    pause = min(pause * 2, settings.retry_max_s)
                else:
                    self._contact.answered("reader")
                    pause = settings.retry_s
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._stop(error)
        finally:
            await _close(reader)

    async def _for_room(self) -> None:
        settings = self._reach.settings
        while self.values > settings.prefetch_values // 2 or self._bytes >= settings.prefetch_bytes:
            self._room.clear()
            try:
                async with asyncio.timeout(settings.watch_s):
                    await self._room.wait()
            except TimeoutError:
                try:
                    await self._watch()  # nothing is read meanwhile, and yet somebody may have come in this one's place
                except StoreUnreachable as error:
                    self._contact.failed("reader", error)
                else:
                    self._contact.answered("reader")

    async def _open(self) -> Reader:
        backend = self._reach.backend
        # One attempt: the loop above repeats it, and knows of each failure.
        return await self._reach.insist(
            lambda: backend.reader(self._topic, self._succession.cursor, self._place), while_wanted=lambda: False
        )

    async def _take(self, reader: Reader, wait_s: float) -> Chunk:
        """One attempt: whoever reads is told of nothing until it succeeds, so the pauses are those of the loop above."""
        reach = self._reach
        try:
            async with asyncio.timeout(wait_s + reach.settings.timeout_s):
                chunk = await reader.take(self._limit, wait_s)
        except StoreUnreachable as error:
            reach.failed(error)
            raise
        except TimeoutError as error:
            reach.failed(error)
            raise reach.unreachable() from None
        if reach.trouble:
            reach.answered()
        return chunk

    async def _accept(self, chunk: Chunk) -> None:
        values, floor, gone = chunk.values, chunk.floor, chunk.gone
        if not self._mutable_known and self._succession.holes(values, floor, gone):
            # A topic's options are decided when its first value is written, so they are asked for once a number is missing.
            info = await self._reach.insist(lambda: self._reach.backend.info(self._topic))
            self._succession.mutable = info.options.mutable
            self._mutable_known = True
        self._timekeeper.hear(chunk.time)
        self.last = max(self.last, chunk.last)
        if values:
            self._place = values[-1].place
            self._trace(values[0])
        size = sum(map(len, map(_DATA, values)))
        self._limit = self._next_limit(len(values), size)
        items = self._succession.items(values, floor, gone)
        if items:
            oldest = values[0].time if values else chunk.time
            self._runs.append(_Run(items if self._decode is None else self._decoded(items, self._decode), size, oldest))
            self.values += len(items)
            self._bytes += size
            self._wake()

    def _decoded(self, items: list[Item], decode: Callable[[bytes], Any]) -> list[Item]:
        return [Value(item.seq, item.time, decode(item.data), item.key, item.place) if isinstance(item, Value) else item for item in items]

    def _next_limit(self, count: int, size: int) -> int:
        settings = self._reach.settings
        if not count:
            return self._limit
        fitting = settings.prefetch_bytes // 2 // max(size // count, 1)
        return max(1, min(settings.prefetch_values // 2, fitting, self._limit * 4))

    # -- what is needed here ---------------------------------------------------------------------------------------------------

    def _trace(self, value: Value) -> None:
        if len(self._traces) >= _TRACES:
            # Every second goes: the one before it is older, so nothing is given up too early.
            self._traces = deque(trace for at, trace in enumerate(self._traces) if at % 2 == 0)
        self._traces.append(Trace(value.seq, value.time, value.place))

    def _release(self) -> None:
        self._hold = None
        self._holdings.release(self, self._topic)

    # -- the end ---------------------------------------------------------------------------------------------------------------

    def _stop(self, error: Exception | None) -> None:
        """Nothing more is delivered, not even what was read ahead."""
        if not self.ended:
            self.ended, self._error = True, error
            self._contact.close()
            self._runs.clear()
            self._release()
            self._wake()

    def _wake(self) -> None:
        readers, self._readers = self._readers, []
        for reader in readers:
            if not reader.done():
                reader.set_result(None)

    async def close(self, error: Exception | None = None) -> None:
        self._stop(error)
        self._task.cancel()
        await asyncio.wait((self._task,))  # not awaited itself: whoever is cancelled meanwhile must hear of it


class _Run:
    """What one chunk brought, and how much of it has been taken."""

    __slots__ = ("at", "items", "size", "time")

    def __init__(self, items: list[Item], size: int, time: Moment) -> None:
        self.items, self.size, self.at = items, size, 0
        self.time = time
        """Of the first value; nothing in it is older."""


async def _close(reader: Reader | None) -> None:
    if reader is not None:
        with suppress(StoreUnreachable, TimeoutError):
            async with asyncio.timeout(_WAIT_S):
                await reader.close()
