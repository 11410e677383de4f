"""Where a subscriber is and what it has made of what it has read, kept in the store and changed in one place.

A change is made here first and written then; changes that are made while a write is under way are written together by the next one, with
the newest state. The record changes only by compare-and-set: whoever comes back under the same id raises the epoch, and then this one may
not go on. A write whose acknowledgement was lost meets a record that is what it wrote; then it was written.

A write that the store does not answer to stays wanted: it is part of whatever is written next. One that is refused (no room, say) is taken
back, and whoever waits for it is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from msgspec import structs

from antiphon.errors import Conflict, Fenced, StoreUnreachable, TooLarge, UnknownTopic, UsageError
from antiphon.model.ranges import Ranges
from antiphon.store.reach import Reach
from antiphon.store.records import Moment, Start, Subscriber

_ATTEMPTS = 32
"""How often somebody else may be faster before that is an error."""


async def come(
    reach: Reach, topic: str, id: str, lease: Moment | None, fresh_lease: Moment, start: Start, timeout: float | None
) -> Subscriber:
    """The subscriber of this id, new or as it was left; whoever held it before is fenced from now on."""
    backend = reach.backend
    for _ in range(_ATTEMPTS):
        known = await look(reach, topic, id, timeout)
        try:
            if known is None:
                fresh = fresh_lease if lease is None else lease
                return await reach.insist(lambda fresh=fresh: backend.subscribe(topic, id, fresh, start), timeout)  # type: ignore[misc]
            again = structs.replace(known, epoch=known.epoch + 1, lease=known.lease if lease is None else lease)
            return await reach.insist(lambda again=again: backend.update(again), timeout)  # type: ignore[misc]
        except Conflict:
            continue  # somebody was faster, or this one itself, and the acknowledgement was lost
    raise Conflict(f"the subscriber {id!r} of {topic!r}")


async def look(reach: Reach, topic: str, id: str, timeout: float | None = None, *, once: bool = False) -> Subscriber | None:
    """Return the subscriber as the store has it. With `once` a call that is not answered is not repeated."""
    with suppress(UnknownTopic):
        return await reach.insist(lambda: reach.backend.subscriber(topic, id), timeout, while_wanted=lambda: not once)
    return None


class Continuation:
    def __init__(self, reach: Reach, record: Subscriber) -> None:
        self._reach = reach
        self.record = record
        """As the store has it."""
        self.wanted = record
        """As it is to be."""
        self.marks = Ranges(record.marks)
        """Of `wanted`."""
        self.fenced: Fenced | None = None
        self.removed = False
        self._version = self._written = 0
        """How many changes were made, and how many of them are in the store."""
        self._waiting: list[_Waiter] = []
        self._writer: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        """Whoever writes the record, or removes it: else who says `done` all the time would always be faster than who unsubscribes."""

    # -- changes ---------------------------------------------------------------------------------------------------------------

    def advance(self, seq: int, state: bytes | None, place: int) -> None:
        """Done with everything up to here."""
        self.check()
        if seq < self.wanted.position:
            raise UsageError(f"done({seq}) would go back: {self.wanted.id!r} is done up to {self.wanted.position} of {self.wanted.topic!r}")
        if seq > self.wanted.position:
            end = self.marks.pop_up_to(seq)
            self._change(state, position=end, marks=tuple(self.marks), place=max(place, self.wanted.place))
        else:
            self._change(state)

    def mark(self, seqs: Iterable[int], state: bytes | None, passed: Ranges) -> None:
        """Done with these, and not with those between. `passed` are numbers that will never be read: they hold nothing up."""
        self.check()
        marks = Ranges(self.marks)
        for seq in seqs:
            if seq > self.wanted.position:
                marks.add(seq, seq)
        position = self.wanted.position
        if marks.lows:
            both = Ranges(marks)
            for low, high in passed:
                both.add(low, high)
            reached = both.pop_up_to(position)
            # What was passed counts only up to a value that was done: beyond it, it may yet be told of.
            position = max((high for high in marks.highs if high <= reached), default=position)
            marks.pop_up_to(position)
        if len(marks) > self._reach.settings.marks:
            raise UsageError(
                f"{self.wanted.id!r} would have {len(marks):,} ranges of values done one by one, and may have "
                f"{self._reach.settings.marks:,}: say done(seq) for what lies before them"
            )
        self.marks = marks
        self._change(state, position=position, marks=tuple(marks))

    def renew(self, lease: Moment) -> None:
        self.check()
        self._change(None, lease=lease)

    def _change(self, state: bytes | None, **fields: object) -> None:
        if state is not None:
            fields["state"] = state
        self.wanted = structs.replace(self.wanted, **fields)
        self._version += 1

    def checked_state(self, state: object) -> bytes | None:
        limit = self._reach.settings.state_bytes
        if state is None or isinstance(state, bytes):
            if state is not None and len(state) > limit:
                raise TooLarge(len(state), limit, "a state", "keep it elsewhere and the way to it here, or raise state_bytes")
            return state
        if isinstance(state, bytearray | memoryview):
            return self.checked_state(bytes(state))
        raise UsageError(f"a state is bytes, not {type(state).__name__}: encode it")

    def check(self) -> None:
        """Raises Fenced when this one may not go on."""
        if self.fenced is not None:
            raise Fenced(self.fenced.who, self.fenced.why)
        if self.removed:
            raise UsageError(f"{self.wanted.id!r} was unsubscribed from {self.wanted.topic!r}: subscribe again")

    # -- writing ---------------------------------------------------------------------------------------------------------------

    async def settle(self, timeout: float | None) -> None:
        """Waits until the changes that were made so far are in the store."""
        self._reach.check_open()
        until = self._reach.until(timeout)
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiter(self._version, until, written))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write(), name=f"continuation of {self.wanted.id}")
        try:
            async with asyncio.timeout_at(until):
                await written
        except TimeoutError:
            raise self._reach.unreachable() from None

    async def _write(self) -> None:
        """Writes until nothing is left that somebody waits for."""
        clock = asyncio.get_running_loop().time
        try:
            while self._waiting:
                version = self._version
                try:
                    async with self._turn:
                        self.check()
                        version = self._version
                        # As long as the most patient waits: one in a hurry must not end it for those whose changes share the write.
                        self.record = await self._update(max(max(waiter.until for waiter in self._waiting) - clock(), 0.0))
                except StoreUnreachable as error:
                    self._tell(version, error)  # it stays wanted
                except Exception as error:
                    self.wanted, self.marks, self._written = self.record, Ranges(self.record.marks), self._version
                    self._tell(self._version, error)
                else:
                    self._written = version
                    self._reach.tally.done += 1
                    self._tell(version, None)
        finally:
            self._writer = None
            self._tell(self._version, self._reach.unreachable())  # cancelled: the store is being closed

    async def _update(self, timeout: float) -> Subscriber:
        reach, record = self._reach, self.record
        for _ in range(_ATTEMPTS):
            target = structs.replace(self.wanted, revision=record.revision, epoch=self.record.epoch)
            try:
                return await reach.insist(lambda target=target: reach.backend.update(target), timeout)  # type: ignore[misc]
            except Conflict:
                record = await self._still_mine(timeout)
                if structs.replace(record, revision=0) == structs.replace(target, revision=0):
                    return record
                # An earlier write of this holder, given up and written after all: the next is made on top of it.
        raise Conflict(f"the subscriber {self.record.id!r} of {self.record.topic!r}")

    async def _still_mine(self, timeout: float | None) -> Subscriber:
        """The record as it is now, if nobody has come in this one's place."""
        record = await look(self._reach, self.record.topic, self.record.id, timeout)
        self.judge(record)
        if self.fenced is not None or record is None:
            raise Fenced(*self._story(record))
        return record

    def judge(self, record: Subscriber | None) -> None:
        """What the record in the store says about whether this one may go on."""
        if self.fenced is None and not self.removed and (record is None or record.epoch != self.record.epoch):
            self.fenced = Fenced(*self._story(record))
            self._reach.tally.fenced += 1

    def _story(self, record: Subscriber | None) -> tuple[str, str]:
        why = "it was unsubscribed elsewhere" if record is None else "somebody else has come back under this id"
        return f"the subscriber {self.record.id!r} of {self.record.topic!r}", why

    def _tell(self, version: int, error: Exception | None) -> None:
        told = [waiter.written for waiter in self._waiting if waiter.version <= version]
        self._waiting = [waiter for waiter in self._waiting if waiter.version > version]
        for written in told:
            if written.done():
                continue
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)

    async def remove(self, timeout: float | None) -> None:
        """Unsubscribes."""
        reach, clock = self._reach, asyncio.get_running_loop().time
        until = reach.until(timeout)
        try:
            async with asyncio.timeout_at(until):
                await self._turn.acquire()
        except TimeoutError:
            raise reach.unreachable() from None
        try:
            await self._remove(max(until - clock(), 0.0))
        finally:
            self._turn.release()

    async def _remove(self, timeout: float) -> None:
        self.check()
        reach = self._reach
        record: Subscriber | None = self.record
        for _ in range(_ATTEMPTS):
            try:
                await reach.insist(lambda record=record: reach.backend.unsubscribe(record), timeout)  # type: ignore[misc]
            except Conflict:
                record = await look(reach, self.record.topic, self.record.id, timeout)
                if record is not None:
                    self.judge(record)
                    self.check()
                    continue
            self.removed = True
            return
        raise Conflict(f"the subscriber {self.record.id!r} of {self.record.topic!r}")

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait((self._writer,))  # not awaited itself: whoever is cancelled meanwhile must hear of it


class _Waiter(NamedTuple):
    version: int
    """Of the change that is waited for."""
    until: float
    written: asyncio.Future[None]
