"""A group on a network whose history is in the store: members archive what they deliver, newcomers read it from there.

**The splice.** A newcomer's first view is v. It reads the archive up to the marker of v, which says that everything delivered before v is
before it, and then lives from the network, which delivers what is sent in v and later. Nothing is missing between the two and nothing is
there twice, because views are virtually synchronous: all members that come into v from the view before have delivered the same messages
when they install v, whoever of them archives. Members that come from another side of a partition get that side's messages when they
synchronise, and the marker is not noted before that. A message that is in the archive and comes from the network too (the marker may be
late, and sides may archive what others still miss) is known by its id and delivered once, in the place where it was first: the archive has
each message where one member delivered it, so what follows it in the group's order follows it here.

Meanwhile what comes from the network is held, in order; beyond the bound of the inbox the group is paused, as with a slow reader. When the
marker does not come in time the newcomer is told of a gap, and goes on. A gap that a merge leaves, because the members no longer have what
was said on another side, is filled from the archive in the same way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from antiphon.api.group import Group, State
from antiphon.api.message import Message, messages
from antiphon.model.control import Wants
from antiphon.model.events import (
    Delivery,
    Departed,
    Installed,
    MissedMessages,
    Orphaned,
    PrivateMessage,
    Recovered,
    Stabilised,
    Synchronised,
    Undelivered,
    Writable,
)
from antiphon.model.ids import GroupId, MemberId
from antiphon.model.payload import PayloadCodec
from antiphon.store.contract import Backend
from antiphon.store.groups.archive import PATIENCE_S, Archive
from antiphon.store.groups.archived import Archived
from antiphon.store.groups.newest import Newest
from antiphon.store.groups.past import Past
from antiphon.store.groups.values import Marker, part_of

if TYPE_CHECKING:
    from antiphon.api.node import Node

Spans: TypeAlias = list[tuple[int, int]]
"""Numbers of one sender's messages, from … to."""

_MARKER_S = 30.0
_FLUSH_S = 2.0
_PAUSE_S = 0.05
_AT_ONCE = frozenset((Writable, PrivateMessage, Undelivered))
"""What does not wait for the past: it is not in the order of the group."""
_OF_THE_PAST = frozenset((Recovered, MissedMessages, Synchronised))


class ArchivedGroup(Group):
    def __init__(
        self, node: Node, id: GroupId, codec: PayloadCodec | None, state: State | None, *, backend: Backend, wants: Wants | None
    ) -> None:
        """Made by `Node.create` and `Node.join`; `wants` is what a newcomer wants of the past, None for a founder."""
        super().__init__(node, id, codec, state)
        self._backend = backend
        self._wants = wants or Wants(kind="none")
        settings = node.settings
        self._archive = Archive(backend, id, self.me, messages=settings.history_messages, size=settings.history_bytes)
        self._past = Past(backend, id)
        self._held: deque[Any] | None = None
        """While the archive is read: what came from the network since."""
        self._held_messages = 0
        self._come_into: list[int] = []
        """The views in which this member has been meanwhile."""
        self._synchronised = False
        self._unmarked: int | None = None
        """A merged view that this member has not caught up in yet."""
        self._doubtful = False
        """Whether what comes may have been read from the archive."""
        self._ending: asyncio.Task[None] | None = None
        self._archiving = asyncio.create_task(self._archive.run(), name=f"archives {id}")
        self._reading: asyncio.Task[None] | None = None

    # -- what the node tells ---------------------------------------------------------------------------------------------------

    def deliver(self, delivery: Delivery) -> None:
        if self._held is not None:
            self._hold(delivery)
        elif self._doubtful:
            self._deliver_unread(delivery)
        else:
            super().deliver(delivery)
            self._archive.note(delivery)

    def take(self, event: Any) -> None:
        kind = type(event)
        if kind is Installed and event.previous is None:
            self._come_in(event)
        elif kind is Departed:
            self._end(event)
        elif self._held is not None and kind not in _AT_ONCE:
            if self._synchronised or kind not in _OF_THE_PAST:
                self._hold(event)
            # Else it is the network's answer to a newcomer that wants the past: the archive has that, and in its order.
            self._synchronised = self._synchronised or kind not in (Recovered, MissedMessages)
        elif kind is tuple:
            self.deliver(event)
        elif kind is Recovered:
            self._recover(event)
        elif kind is MissedMessages:
            wanted = {sender: self._unread(sender, flat) for sender, flat in event.lost.items()}
            if any(wanted.values()):
                self._hold_back(self._fill(wanted))
        else:
            if kind is Orphaned:
                self._archive.note((event.batch, event.seqno, event.seqno))
            super().take(event)
            self._mark(event)
            self._doubtful = self._doubtful and kind is not Installed  # what is sent in a later view was not in what was read

    def _mark(self, event: Any) -> None:
        """Notes the marker of a view when everything that belongs before it has been delivered."""
        kind = type(event)
        if kind is Installed:
            self._stand(event)
            self._unmarked = event.view.id
            if len(event.sides) <= 1:
                self._note_marker()
        elif kind is Synchronised or kind is Stabilised:
            self._note_marker()

    def _note_marker(self) -> None:
        if self._unmarked is not None:
            self._archive.mark(self._unmarked)
            self._unmarked = None

    def _stand(self, event: Installed) -> None:
        """Who was in a view before archives, in the order of the view; newcomers after them."""
        before = {member for side in event.sides for member in side}
        row = sorted(event.view.members, key=lambda member: member not in before)  # stable: newcomers keep their order
        self._archive.stand(row.index(self.me) if self.me in row else None)

    # -- a newcomer ------------------------------------------------------------------------------------------------------------

    def _come_in(self, event: Installed) -> None:
        super().take(event)
        self._stand(event)
        if not event.sides:
            self._archive.mark(event.view.id)  # a founder: nothing was before
            return
        if self._wants.kind in ("none", "state"):
            return
        self._come_into = [event.view.id]
        self._hold_back(self._catch_up(event))

    def _hold_back(self, reading: Coroutine[Any, Any, None]) -> None:
        """What comes is held until this has read what belongs before it."""
        self._held, self._held_messages = deque(), 0
        self._reading = asyncio.create_task(reading, name=f"reads the history of {self.id}")

    def _hold(self, event: Any) -> None:
        assert self._held is not None, "held while the archive is read"
        self._held.append(event)
        if type(event) is Installed:
            self._come_into.append(event.view.id)
        if type(event) is tuple:
            self._synchronised = True
            before, self._held_messages = self._held_messages, self._held_messages + event[2] - event[1] + 1
            if before <= self._node.settings.inbox_messages < self._held_messages:
                self._node.pause(self)

    async def _catch_up(self, event: Installed) -> None:
        """Reads the archive up to the marker of the first view, then lets go what was held."""
        newest = Newest(self._wants.count) if self._wants.kind == "last" else None
        came = True
        try:
            async for delivery in self._past.until(self._marked, _MARKER_S):
                if newest is not None:
                    newest.add(delivery)
                elif delivery[0].sent_at >= self._wants.since:
                    super().take(Recovered(*delivery))
                    while self._inbox.full:
                        await asyncio.sleep(_PAUSE_S)
        except TimeoutError:
            came = False
        for delivery in newest or ():
            super().take(Recovered(*delivery))
        if not came or (self._past.lost and newest is None):
            super().take(MissedMessages(dict(self._past.lost)))
        super().take(Synchronised(event.view))
        self._let_go()

    def _marked(self) -> bool:
        """Whether everything before one of the views in which this member has been is read: the marker of the first may never be written,
        when the view was over before those who archive had caught up in it."""
        return any(self._past.read.has(Marker(view)) for view in self._come_into)

    def _let_go(self) -> None:
        held, self._held, self._doubtful = self._held or deque(), None, True
        paused = self._held_messages > self._node.settings.inbox_messages
        for event in held:
            if type(event) is tuple:
                self.deliver(event)
            else:
                self.take(event)
        if paused and not self._inbox.full:
            self._node.resume(self)

    def _unread(self, sender: MemberId, flat: Sequence[int]) -> Spans:
        """What of these was not read from the archive before."""
        return [span for low, high in zip(flat[::2], flat[1::2], strict=False) for span in self._past.read.missing(sender, low, high)]

    async def _fill(self, wanted: dict[MemberId, Spans]) -> None:
        """What the members have forgotten, while this one was on another side, may be in the archive."""
        found = Archived()
        past = Past(self._backend, self.id)
        with suppress(TimeoutError):
            async for batch, low, high in past.until(None, _MARKER_S):
                for part_low, part_high in _both(wanted.get(batch.sender, []), low, high):
                    super().take(Recovered(batch, part_low, part_high))
                    found.add(part_of(batch, part_low, part_high))
        rest = {
            sender: [number for low, high in spans for missing in found.missing(sender, low, high) for number in missing]
            for sender, spans in wanted.items()
        }
        if any(rest.values()):
            super().take(MissedMessages({sender: flat for sender, flat in rest.items() if flat}))
        self._let_go()

    def _deliver_unread(self, delivery: Delivery) -> None:
        batch, low, high = delivery
        for missing in self._past.read.missing(batch.sender, low, high):
            super().deliver((batch, *missing))
            self._archive.note((batch, *missing))

    def _recover(self, event: Recovered) -> None:
        for low, high in self._past.read.missing(event.batch.sender, event.low, event.high):
            super().take(Recovered(event.batch, low, high, event.missing))
            self._archive.note((event.batch, low, high))

    # -- reading it all --------------------------------------------------------------------------------------------------------

    async def archived(self) -> AsyncIterator[Message]:
        """Every message that is in the archive now, each once, from the oldest on."""
        async for batch, low, high in Past(self._backend, self.id).until(None, _MARKER_S):
            for message in messages(batch, low, high, self._decode):
                yield message

    async def flush_archive(self, *, timeout: float = PATIENCE_S) -> bool:
        """Whether everything that was delivered here is in the archive within this time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._archive.flushed()
                return True
        return False

    def stats(self) -> dict[str, object]:
        archive = self._archive
        return {
            **super().stats(),
            "archive_waiting": archive.messages,
            "archived": archive.archived,
            "archive_dropped": archive.dropped,
            "store_unreachable": archive.unreachable + self._past.retries,
        }

    # -- the end ---------------------------------------------------------------------------------------------------------------

    def _end(self, event: Departed) -> None:
        self._held = None
        super().take(event)
        self._ending = asyncio.create_task(self._finish(), name=f"ends {self.id}")

    async def _finish(self) -> None:
        """Who archives at once writes what is left; of the others' there are others who have it."""
        if self._archive.first:
            await self.flush_archive(timeout=_FLUSH_S)
        self._stop()

    async def leave(self, *, timeout: float | None = None) -> int:
        unsaid = await super().leave(timeout=timeout)
        if self._ending is not None:
            await asyncio.shield(self._ending)
        return unsaid

    def abandon(self, why: str) -> None:
        super().abandon(why)
        self._stop()

    def _stop(self) -> None:
        for task in (self._archiving, self._reading):
            if task is not None:
                task.cancel()


def _both(spans: Spans, low: int, high: int) -> Iterator[tuple[int, int]]:
    """The parts of `low … high` that are in the spans."""
    for first, last in spans:
        if max(first, low) <= min(last, high):
            yield max(first, low), min(last, high)
