"""A group on a store, as one of its members sees it: no network between the members, the store is the sequencer.

Everything that can be read of a `Group` is read here too, in one total order that is the same at all members, messages and views alike; it
is the order of the group's topic, and it is kept there. `send` returns when the store has the message on its disk, or, while the store does
not answer, this node's outbox has it; without an outbox it raises StoreUnreachable after its time, and then the message may have been sent
or not. Sends that wait are bounded by `queue_values` and `queue_bytes` of the store's settings; above that a send waits for room, within
its time. Nobody waits for a slow reader: it reads on from the store when it can.

While the store does not answer the member keeps its last view, marked by `view_is_stale`; `events` has `StoreLost` and `StoreRestored`. A
message is attributed to the newest view known to its sender that has the sender in it (`message.view`), also when it is read after a view
without the sender.

`history()` is what this member still has in memory; `archived()` reads all that is in the store. What a network is needed for is refused:
messages to one member, questions, and a state from another member.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from antiphon.api.group import Group, GroupEvent
from antiphon.api.inbox import Inbox
from antiphon.api.message import Message, MessageIds, messages
from antiphon.errors import StoreUnreachable, TimedOut, TooLarge, UsageError
from antiphon.model.control import GroupInfo
from antiphon.model.events import Delivery, Departed, Installed, StoreLost, StoreRestored, Why
from antiphon.model.frames import BATCH_LIMIT, Batch
from antiphon.model.ids import Address, MemberId, MessageId
from antiphon.model.options import GroupOptions
from antiphon.model.payload import PayloadCodec
from antiphon.protocol.registry import promises_of
from antiphon.store.acknowledgement import Queued
from antiphon.store.contact import ContactEvent
from antiphon.store.groups import values
from antiphon.store.groups.membership import StoreMembership
from antiphon.store.topic import Topic

if TYPE_CHECKING:
    from antiphon.api.node import Node
    from antiphon.store.store import Store

_CHUNK = 1_024
_CONTACT_EVENTS = 64
"""Events about the store that may wait to be read."""


class StoreGroup(Group):
    def __init__(self, node: Node, store: Store, member: StoreMembership, topic: Topic, codec: PayloadCodec | None) -> None:
        """Made by `Node.create` and `Node.join` with `on="store"`."""
        self._member, self._store, self._topic = member, store, topic
        super().__init__(node, member.group, codec, None)
        settings = node.settings
        self._inbox = Inbox(settings.inbox_messages, settings.inbox_bytes, member.pause, member.resume)
        self._limit = min(store.reach.backend.value_bytes - values.OVERHEAD_BYTES, settings.message_bytes)
        self._batch_messages = min(settings.batch_messages, BATCH_LIMIT)
        self._sent = self._sending = self._seen_own = 0
        self._queued: deque[tuple[int, int]] = deque()
        """Own messages that went to the outbox and have not been read from the store."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._leaving: asyncio.Task[None] | None = None
        self._own_view = 0
        """The newest view that has this member in it: messages are sent in that one."""
        self._lost_told = False
        self._contact_unread = 0
        """Whether the newest event about the store that readers get is a loss; how many of these are not read."""

    def _attach(self, node: Node) -> None:
        self.me = self._member.me
        self.options = GroupOptions(order="total")
        self._membership: Any = self._member

    @property
    def view_is_stale(self) -> bool:
        """Whether `view` may be out of date because the store does not answer."""
        return self._departed is None and self._member.contact is not None and self._member.contact.lost is not None

    def info(self) -> GroupInfo:
        """What the node tells of it: its members have no addresses."""
        view = self.view
        seats = tuple((member, Address("")) for member in view.members)
        return GroupInfo(self.id, self.name, self.options, view.id, seats, promises=promises_of(self.options))

    # -- sending ---------------------------------------------------------------------------------------------------------------

    async def send(  # type: ignore[override]
        self,
        data: Any,
        reply_to: MessageId | None = None,
        after: Sequence[MessageId] = (),
        *,
        to: MemberId | Collection[MemberId] | None = None,
        timeout: float | None = None,
    ) -> MessageId:
        """Sends to the group; returns when the store, or the outbox, has the message on disk. Raises StoreUnreachable when there was no
        answer for so long; then, or when it is cancelled, the message may have been sent or not."""
        if to is not None:
            self._no_network("a message to one member")
        payload = self._checked(self._encode(data))
        self._sent += 1
        number = self._sent
        parents = None if reply_to is None else [reply_to]
        follows = {number: list(after)} if after else None
        batch = Batch.compose(self.id, self.me, self._own_view, number, (payload,), parents, None, self._node.now(), follows)
        await self._publish([batch], timeout)
        return MessageId(self.me, number)

    def try_send(self, data: Any, reply_to: MessageId | None = None, after: Sequence[MessageId] = ()) -> MessageId:
        raise UsageError("a group on a store accepts a message by writing it, which takes time: await send")

    async def send_many(self, data: Sequence[Any], *, timeout: float | None = None) -> MessageIds:
        """Sends these in order, as few writes, and returns their ids when the store, or the outbox, has all of them. When it fails, or is
        cancelled, the first of them may have been sent."""
        payloads = [self._checked(self._encode(one)) for one in data]
        ids = MessageIds(self.me)
        if payloads:
            first, self._sent = self._sent + 1, self._sent + len(payloads)
            now, view, step = self._node.now(), self._own_view, self._batch_messages
            whole = [
                Batch(self.id, self.me, view, first + at, tuple(payloads[at : at + step]), sent_at=now)
                for at in range(0, len(payloads), step)
            ]
            await self._publish([piece for batch in whole for piece in values.pieces(batch, self._limit)], timeout)
            ids.add(first, len(payloads))
        return ids

    async def _publish(self, batches: Sequence[Batch], timeout: float | None) -> None:
        self._sending += 1
        self._idle.clear()
        try:
            acknowledgement = await self._topic.publish_many([values.encode(batch) for batch in batches], timeout=timeout)
            if isinstance(acknowledgement, Queued):
                self._member.check_contact()
                self._queued.append((batches[0].first, batches[-1].last))
        except StoreUnreachable:
            self._member.check_contact()
            raise
        finally:
            self._sending -= 1
            if not self._sending:
                self._idle.set()

    def _checked(self, payload: bytes) -> bytes:
        if len(payload) > self._limit:
            raise TooLarge(len(payload), self._limit, "a message in a group on this store", "split it")
        return payload

    async def ask(self, data: Any, to: MemberId | None = None, *, timeout: float = 5.0) -> Any:
        self._no_network("a question")

    def _no_network(self, what: str) -> NoReturn:
        raise UsageError(f"{what} needs a network between the members, and {self.name} is on a store: send it to all, or use another group")

    def deliver(self, delivery: Delivery) -> None:
        batch, _, high = delivery
        if batch.sender == self.me:
            self._seen_own = high
            while self._queued and self._queued[0][1] <= high:
                self._queued.popleft()
        super().deliver(delivery)

    def take(self, event: Any) -> None:
        kind = type(event)
        if kind is StoreLost or kind is StoreRestored:
            self._tell_contact(event)
            return
        if kind is Installed and self.me in event.view:
            self._own_view = event.view.id
        super().take(event)

    def _tell_contact(self, event: ContactEvent) -> None:
        """Put the event into the inbox. Where readers do not keep up it is left out; when they do, they get the one that holds then."""
        if self._contact_unread < _CONTACT_EVENTS and self._departed is None:
            self._contact_unread += 1
            self._lost_told = type(event) is StoreLost
            super().take(event)

    def _as_read(self, event: Any) -> GroupEvent | None:
        if type(event) is StoreLost or type(event) is StoreRestored:
            self._contact_unread -= 1
            contact = self._member.contact
            if contact is not None and self._lost_told != (contact.lost is not None):
                self._tell_contact(contact.lost or StoreRestored(contact.away_s))
        return super()._as_read(event)

    # -- what was said ---------------------------------------------------------------------------------------------------------

    async def archived(self) -> AsyncIterator[Message]:
        """Every message of the group that is in the store now, from the oldest on."""
        backend, position = self._store.reach.backend, 0
        last = (await self._topic.info()).last
        reader = await self._store.reach.insist(lambda: backend.reader(self._topic.name, 0))
        try:
            while position < last:
                chunk = await self._store.reach.insist(lambda: reader.take(_CHUNK, 0.0))
                for value in chunk.values:
                    content = values.decode(value.data)
                    if isinstance(content, Batch) and value.seq <= last:
                        for message in messages(content, content.first, content.last, self._decode):
                            yield message
                position = chunk.values[-1].seq if chunk.values else last
        finally:
            await reader.close()

    def why(self, message: MessageId) -> Why:
        """Where a message is."""
        sender, number = message
        if self._inbox.holds(sender, number):
            return Why("delivered", "was delivered, and waits in the inbox until it is read")
        if any(batch.sender == sender and low <= number <= high for batch, low, high in self._member.history()):
            return Why("delivered", "was delivered")
        if sender == self.me and number <= self._sent:
            return Why("held", "is on its way to the store, or in it and not read here yet")
        return Why("unknown", "is not in what this member has read of the store, or too long ago to be kept here: look in archived()")

    def stats(self) -> dict[str, object]:
        return {**super().stats(), "sends_waiting": self._sending, "sent": self._sent, "view_stale": int(self.view_is_stale)}

    # -- leaving ---------------------------------------------------------------------------------------------------------------

    async def leave(self, *, timeout: float | None = None) -> int:
        """Leaves the group, after what is being sent. Returns how many of the last messages are not in the store yet but in the outbox.
        When it is cancelled, or raises TimedOut, this member still leaves as soon as the store answers, while the node is open."""
        if self._leaving is None and self._departed is None:
            self._leaving = asyncio.create_task(self._leave(), name=f"leaves {self.id}")
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(self._left)
        except TimeoutError:
            raise TimedOut(f"{self.name} was not left within {timeout:g} s: the store does not answer. It goes on leaving") from None
        return sum(high - max(low, self._seen_own + 1) + 1 for low, high in self._queued if high > self._seen_own)

    async def _leave(self) -> None:
        await self._idle.wait()
        await self._member.leave()

    def abandon(self, why: str) -> None:
        """The node goes without waiting for the store: the others put this member out in time."""
        self._member.stop()
        if self._leaving is not None:
            self._leaving.cancel()
        if self._departed is None:
            self._depart(Departed(why, self._sending))

    def _depart(self, event: Departed) -> None:
        super()._depart(event)
        self._node.forget(self.id)
