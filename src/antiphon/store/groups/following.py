"""A member reads its group's topic, and tells what is in it: messages and views in the order of the store.

What lies before the member's first view is history, of which it gets what it wants: it is told as recovered, then that the member has
caught up, and from there on everything. Views are told once, where they were placed first. Values that are no longer in the store are told
as a gap; their numbers are the store's, under the group's id. While the store does not answer the follower waits, and goes on where it was.

Keeps one chunk of values, and for `last n` that many messages. Stops reading while the application does not take what it has told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from antiphon.errors import StoreUnreachable, UnknownTopic
from antiphon.model.control import Wants
from antiphon.model.events import Installed, MissedMessages, Recovered, Synchronised
from antiphon.model.frames import Batch
from antiphon.model.ids import GroupId, MemberId
from antiphon.model.view import View
from antiphon.store.contact import StoreContact
from antiphon.store.contract import Backend, Reader
from antiphon.store.groups import values
from antiphon.store.groups.newest import Newest
from antiphon.store.groups.values import Placed
from antiphon.store.records import Value

CHUNK = 1_024
WAIT_S = 10.0
PAUSE_S = 0.25
Tell = Callable[[Any], None]


class Follower:
    def __init__(self, backend: Backend, topic: str, group: GroupId, tell: Tell, contact: StoreContact) -> None:
        self._backend, self._topic, self._group, self._tell, self._contact = backend, topic, group, tell, contact
        self.view: View | None = None
        """The newest view that was told."""
        self.first = 0
        """The epoch of this member's first view."""
        self.caught_up = False
        self.told = self.foreign = self.retries = self.gaps = 0
        """Messages told, values that are none of a group, attempts to read again, and gaps."""
        self.moved = asyncio.Event()
        """Set whenever a view was told."""
        self.room = asyncio.Event()
        """Set while the application takes what is told."""
        self.room.set()
        self.position = self._place = 0
        """The number of the newest value that was read."""
        self._newest: Newest | None = None
        """For `last n`: the newest of the history, until it is known to be all."""
        self._silent = False
        """Whether history is not wanted at all."""

    @property
    def epoch(self) -> int:
        """Of the newest view that was told."""
        return 0 if self.view is None else self.view.id

    @property
    def seen(self) -> int:
        """The epoch of the newest view that was met in the topic."""
        return self.epoch if self.caught_up else 0

    async def begin(self, first: View, wants: Wants, last: int) -> None:
        """Begins with the member's first view; `last` is a number of the topic before it was placed."""
        self.view, self.first = first, first.id
        if wants.kind == "none":
            self.position, self._silent = last, True
        elif wants.kind == "last":
            self._newest = Newest(wants.count)
            self.position = await self._before(last, wants.count)

    async def run(self) -> None:
        """Reads for ever."""
        while True:
            try:
                reader = await self._backend.reader(self._topic, self.position, self._place)
                try:
                    await self._read(reader)
                finally:
                    await reader.close()
            except StoreUnreachable as error:
                self.retries += 1
                self._contact.failed("reader", error)
                await asyncio.sleep(PAUSE_S)
            except UnknownTopic as error:
                # A store that was rolled back, or another one at this address: what was there may come back.
                self.retries += 1
                self._contact.failed("reader", error)
                await asyncio.sleep(WAIT_S)

    async def _read(self, reader: Reader) -> None:
        wait_s = 0.0  # after an outage it is told at once that the store answers, not when the next message comes
        while True:
            if not self.room.is_set():
                self._contact.answered("reader")  # it was opened, or read from, and is not asked until there is room
                await self.room.wait()
            chunk = await reader.take(CHUNK, wait_s)
            wait_s = WAIT_S
            self._contact.answered("reader")
            for value in chunk.values:
                self._take(value)
            if not chunk.values and chunk.floor > self.position:
                self._miss(self.position + 1, chunk.floor)
                self.position = chunk.floor

    def _take(self, value: Value) -> None:
        if value.seq > self.position + 1:
            self._miss(self.position + 1, value.seq - 1)
        self.position, self._place = value.seq, value.place
        content = values.decode(value.data)
        if isinstance(content, Batch):
            self._take_batch(content)
        elif isinstance(content, Placed):
            self._take_view(content)
        else:
            self.foreign += 1

    def _take_batch(self, batch: Batch) -> None:
        if self.caught_up:
            self.told += len(batch.payloads)
            self._tell((batch, batch.first, batch.last))
        elif self._newest is not None:
            self._newest.add((batch, batch.first, batch.last))
        elif not self._silent:
            self.told += len(batch.payloads)
            self._tell(Recovered(batch, batch.first, batch.last))

    def _take_view(self, placed: Placed) -> None:
        assert self.view is not None, "a follower begins with a view"
        if not self.caught_up:
            if placed.epoch >= self.first:
                self._catch_up()
            if placed.epoch <= self.first:
                return
        if placed.epoch <= self.view.id:
            return  # two have placed it: the first counts
        previous, self.view = self.view, placed.view
        self._tell(Installed(self.view, previous, placed.sides))
        self.moved.set()

    def _catch_up(self) -> None:
        assert self.view is not None, "a follower begins with a view"
        for batch, low, high in self._newest or ():
            self.told += high - low + 1
            self._tell(Recovered(batch, low, high))
        self._newest, self.caught_up = None, True
        self._tell(Synchronised(self.view))
        self.moved.set()

    def _miss(self, first: int, last: int) -> None:
        # What was collected before this member came is not its loss.
        if self.caught_up:
            self.gaps += 1
            self._tell(MissedMessages({MemberId(self._group): [first, last]}))

    async def _before(self, last: int, count: int) -> int:
        """A number before which at least `count` messages, or all there are, lie between it and `last`: each batch has one or more, views
        have none, so a little more than `count` values are looked at, and twice as many when that was too few."""
        step = count + 16
        while True:
            start = max(0, last - step)
            reader = await self._backend.reader(self._topic, start)
            found, at = 0, start
            try:
                while at < last and (chunk := await reader.take(CHUNK, 0)).values:
                    at = chunk.values[-1].seq
                    found += sum(_messages(value) for value in chunk.values if value.seq <= last)
            finally:
                await reader.close()
            if found >= count or start == 0:
                return start
            step *= 2


def _messages(value: Value) -> int:
    content = values.decode(value.data)
    return len(content.payloads) if isinstance(content, Batch) else 0
