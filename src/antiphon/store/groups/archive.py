"""The history of a group on a network, in a store: what members deliver goes into a shared topic, each message once, and a marker per view.

**Who archives.** The first member of the view that was in the view before it, at once. The others keep what they have delivered until they
know that it is archived; what is not after `PATIENCE_S` times their place in that row, they archive themselves. So nothing is lost when the
first dies, or does not reach the store, and nobody has to agree on anything.
**Each message once.** Who archives knows what is in the topic by message ids: from the progress record, and from what lies in the topic
beyond it. Two who cannot know of each other (two sides of a partition, or one that was taken for dead) may still write the same; who reads
goes by message ids too, so it is read once.
**Markers.** `Marker(v)` says that everything delivered before view v is in the topic before it. It is in the same row of things to archive
as the messages, so that it is never before them.

Keeps what is not archived yet, within bounds; beyond them the oldest is dropped, and the archive says which messages are lost. Costs one
write per batch at the first member, and one small read every few seconds at the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from antiphon.errors import Conflict, Fenced, StoreFull, StoreUnreachable
from antiphon.model.events import Delivery
from antiphon.model.frames import Batch
from antiphon.model.ids import GroupId, MemberId
from antiphon.store.contract import Backend
from antiphon.store.groups import values
from antiphon.store.groups.archived import Archived, topic_of
from antiphon.store.groups.values import GroupValue, Lost, Marker
from antiphon.store.records import Entry, Grant, Receipt, TopicOptions

PATIENCE_S = 5.0
_SAVE_S = 1.0
_PAUSE_S = 0.25
_CHUNK = 1_024


class _Waiting(NamedTuple):
    content: Delivery | Marker
    since: float
    messages: int
    size: int


class Archive:
    def __init__(
        self,
        backend: Backend,
        group: GroupId,
        me: MemberId,
        *,
        messages: int = 65_536,
        size: int = 64 << 20,
        options: TopicOptions | None = None,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Keeps up to `messages` and `size` bytes that are not archived."""
        self._backend, self._key, self._me = backend, topic_of(group), me
        self._options = options or TopicOptions(shared=True)
        self._most_messages, self._most_bytes = messages, size
        self._patience_s, self._clock = patience_s, clock or asyncio.get_running_loop().time
        self._rank: int | None = None
        self._waiting: deque[_Waiting] = deque()
        self._lost: dict[MemberId, list[int]] = {}
        """What was dropped and is not yet said to be."""
        self.messages = self.bytes = 0
        """What waits."""
        self.archived = self.dropped = self.unreachable = 0
        """Messages archived here, and dropped; attempts that the store did not answer."""
        self._known = Archived()
        self._revision = 0
        """Of the progress record as it was last seen."""
        self._saved_at = float("-inf")
        self._grant: Grant | None = None
        self._number = 0
        self._wake = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    # -- what is to be archived ------------------------------------------------------------------------------------------------

    def stand(self, rank: int | None) -> None:
        """This member's place among those who archive: 0 at once, others when it is late, None never."""
        self._rank = rank
        self._wake.set()

    @property
    def first(self) -> bool:
        """Whether this member archives at once."""
        return self._rank == 0

    def note(self, delivery: Delivery) -> None:
        batch, low, high = delivery
        payloads = batch.payloads if high - low + 1 == len(batch.payloads) else batch.payloads[low - batch.first : high - batch.first + 1]
        self._add(_Waiting(delivery, self._clock(), high - low + 1, sum(map(len, payloads))))

    def mark(self, view: int) -> None:
        """Everything noted so far was delivered before this view."""
        self._add(_Waiting(Marker(view), self._clock(), 0, 0))

    def _add(self, waiting: _Waiting) -> None:
        self._waiting.append(waiting)
        self.messages += waiting.messages
        self.bytes += waiting.size
        while self.messages > self._most_messages or self.bytes > self._most_bytes:
            self._drop(self._take())
        self._empty.clear()
        self._wake.set()

    def _take(self) -> _Waiting:
        waiting = self._waiting.popleft()
        self.messages -= waiting.messages
        self.bytes -= waiting.size
        return waiting

    def _drop(self, waiting: _Waiting) -> None:
        if not isinstance(waiting.content, Marker):
            batch, low, high = waiting.content
            self._lost.setdefault(batch.sender, []).extend((low, high))
            self.dropped += waiting.messages
        # A marker that is dropped is missed by newcomers of its view alone: they go on with an explicit gap.

    # -- archiving -------------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Archives for ever, whatever becomes of the store."""
        while True:
            try:
                await self._round()
            except Fenced:
                self._grant = None
            except (StoreUnreachable, StoreFull, Conflict):
                self.unreachable += 1
                await asyncio.sleep(_PAUSE_S)

    async def flushed(self) -> None:
        """Returns when nothing waits any more."""
        await self._empty.wait()

    async def _round(self) -> None:
        if not self._waiting:
            self._empty.set()
            self._wake.clear()
            await self._idle(_SAVE_S if self._known.seq > self._known.saved else None)
            if not self._waiting:
                await self._save()
            return
        late = self._clock() - self._waiting[0].since
        if self._rank is not None and late >= self._rank * self._patience_s:
            await self._write()
            if self._clock() - self._saved_at >= _SAVE_S:
                await self._save()
            return
        self._wake.clear()
        await self._idle(self._patience_s / 2)
        await self._look()
        self._prune()

    async def _idle(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _write(self) -> None:
        """The next few things that wait."""
        backend = self._backend
        if self._grant is None:
            self._grant = await backend.register(self._key, self._me, options=self._options)
            self._number = max(self._number, self._grant.number)
            await self._look()
            await self._learn(self._grant.last)
        self._prune()
        contents, flight = self._next_values()
        if not contents:
            return
        lost, self._lost = self._lost, {}
        entries = [Entry(values.encode(content)) for content in contents]
        # Whether they arrive or not, these numbers are used up: what was given up must not be taken for what comes next.
        first, self._number = self._number + 1, self._number + len(entries)
        try:
            receipt = await self._insist(first, entries)
        except BaseException:
            self._lost = {**lost, **self._lost}
            self._waiting.extendleft(reversed(flight))
            self.messages += sum(waiting.messages for waiting in flight)
            self.bytes += sum(waiting.size for waiting in flight)
            raise
        if receipt.first > self._known.seq + 1:
            await self._learn(receipt.first - 1)  # others have written too
        for content in contents:
            self._known.add(content)
        self._known.seq = max(self._known.seq, receipt.last)
        self.archived += sum(len(content.payloads) for content in contents if isinstance(content, Batch))
        self._prune()

    async def _insist(self, first: int, entries: list[Entry]) -> Receipt:
        assert self._grant is not None, "who writes has registered"
        while True:
            try:
                return await self._backend.publish(self._grant, first, entries)
            except StoreUnreachable:
                self.unreachable += 1
                await asyncio.sleep(_PAUSE_S)

    def _next_values(self) -> tuple[list[GroupValue], list[_Waiting]]:
        """Values for one publish, and what they are of, which waits no longer."""
        limit = self._backend.value_bytes - values.OVERHEAD_BYTES
        contents: list[GroupValue] = [Lost(self._lost)] if self._lost else []
        flight: list[_Waiting] = []
        size = 0
        while self._waiting:
            waiting = self._waiting[0]
            fresh = list(self._fresh(waiting.content, limit))
            more = waiting.size + values.OVERHEAD_BYTES * len(fresh)
            if flight and (size + more > self._backend.batch_bytes or len(contents) + len(fresh) > self._backend.batch_values):
                break
            contents += fresh
            size += more
            flight.append(self._take())
        return contents, flight

    def _fresh(self, content: Delivery | Marker, limit: int) -> Iterator[GroupValue]:
        """What of it is not archived, in values that are small enough."""
        if isinstance(content, Marker):
            yield content
            return
        batch, low, high = content
        for missing in self._known.missing(batch.sender, low, high):
            for piece in values.pieces(values.part_of(batch, *missing), limit):
                whole = len(piece.payloads) > 1 or len(piece.payloads[0]) <= limit
                yield piece if whole else Lost(values.flat(piece.sender, piece.first, piece.last))

    def _prune(self) -> None:
        """What is archived need not wait."""
        while self._waiting and self._known.has(self._waiting[0].content):
            self._take()

    # -- what is archived ------------------------------------------------------------------------------------------------------

    async def _learn(self, upto: int) -> None:
        """Reads what lies in the topic beyond what is known."""
        reader = await self._backend.reader(self._key, self._known.seq)
        try:
            while self._known.seq < upto:
                chunk = await reader.take(_CHUNK, 0)
                for value in chunk.values:
                    self._known.add(values.decode(value.data))
                self._known.seq = max(self._known.seq, chunk.values[-1].seq if chunk.values else upto)
        finally:
            await reader.close()

    async def _look(self) -> None:
        """Takes over what the progress record says."""
        found = await self._backend.get(self._key)
        self._revision = 0 if found is None else found.revision
        if found is not None:
            self._known.take_over(found.data)

    async def _save(self) -> None:
        """Says how far the archive is, so that the others need not keep it, and whoever archives next need not read it all."""
        self._saved_at = self._clock()
        if self._known.seq <= self._known.saved:
            return
        try:
            record = await self._backend.put(self._key, self._known.data(), self._revision)
            self._revision = record.revision
            self._known.saved = self._known.seq
        except Conflict:
            seq = self._known.seq
            await self._look()
            if self._known.saved < seq:
                self._saved_at = float("-inf")  # theirs is older: once more
