"""A group, as one of its members sees it, without await: send to it, read it, see who is in it.

Every call waits until it is done, and says with the same errors as the asynchronous one (`antiphon.api.group`) why it cannot be. Reading is
one stream, shared by all threads that read here: each message is read once.
"""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Sequence
from typing import Any, TypeVar, overload

from antiphon.api.group import Group as AsyncGroup
from antiphon.api.group import GroupEvent
from antiphon.api.message import Letter, Message, MessageBatch, MessageIds
from antiphon.errors import NotInGroup
from antiphon.model.events import ViewChange, Why
from antiphon.model.ids import GroupId, MemberId, MessageId
from antiphon.model.options import GroupOptions
from antiphon.model.view import View
from antiphon.sync.background import Background
from antiphon.sync.shelf import Reading, Shelf, Stream, TakeEntry, TrackedIterator, TrackedMessages

_ANSWER_S = 5.0

T = TypeVar("T")


class Group:
    def __init__(self, group: AsyncGroup, background: Background) -> None:
        """Made by `Node.create` and `Node.join`."""
        self._group, self._background = group, background
        self._shelf = Shelf(group)

    # -- who is in it ----------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._group.name

    @property
    def id(self) -> GroupId:
        return self._group.id

    @property
    def me(self) -> MemberId:
        return self._group.me

    @property
    def options(self) -> GroupOptions:
        return self._group.options

    @property
    def state(self) -> bytes | None:
        """The application's state that this member was given when it joined with `history="state"`. None: it joined otherwise, or founded
        the group, and begins with the application's own first state."""
        return self._group.state

    @property
    def view(self) -> View:
        """Who is in the group now, as far as this member knows."""
        return self._group.view

    @property
    def view_is_stale(self) -> bool:
        """Whether `view` may be out of date because this member has lost the store that decides it. Always False on a network."""
        return self._group.view_is_stale

    def views(self) -> Stream[ViewChange]:
        """The changes of the view from now on, each listener its own stream. To see them between the messages, read `events`."""
        return Stream(self._background.call(self._group.views))

    # -- sending ---------------------------------------------------------------------------------------------------------------

    @overload
    def send(
        self,
        data: Any,
        reply_to: MessageId | None = None,
        after: Sequence[MessageId] = (),
        *,
        to: MemberId | None = None,
        timeout: float | None = None,
    ) -> MessageId: ...

    @overload
    def send(
        self,
        data: Any,
        reply_to: MessageId | None = None,
        after: Sequence[MessageId] = (),
        *,
        to: Collection[MemberId],
        timeout: float | None = None,
    ) -> list[MessageId]: ...

    def send(
        self,
        data: Any,
        reply_to: MessageId | None = None,
        after: Sequence[MessageId] = (),
        *,
        to: MemberId | Collection[MemberId] | None = None,
        timeout: float | None = None,
    ) -> MessageId | list[MessageId]:
        """Send to the group, to one member, or to each of several members; return when the message is accepted. `to` is a member's id, or a
        list of them: then the ids of the messages are returned in its order. Raises TimedOut if there is no send credit within `timeout`
        seconds; NotAMember, and nothing is sent, if one of them is not in the view."""
        sending: Coroutine[Any, Any, Any] = self._group.send(data, reply_to, after, to=to, timeout=timeout)
        sent: MessageId | list[MessageId] = self._background.run(sending)
        return sent

    def try_send(self, data: Any, reply_to: MessageId | None = None, after: Sequence[MessageId] = ()) -> MessageId:
        """Sends at once, or raises WouldBlock, or NoQuorum in a minority."""
        return self._background.call(lambda: self._group.try_send(data, reply_to, after))

    def send_many(self, data: Sequence[Any], *, timeout: float | None = None) -> MessageIds:
        """Sends these in order, as few batches, and returns their ids when all are accepted: much cheaper per message than `send`.
        Raises TimedOut, with how many were `accepted`, when there was no credit for so long."""
        return self._background.run(self._group.send_many(data, timeout=timeout))

    def ask(self, data: Any, to: MemberId | None = None, *, timeout: float = _ANSWER_S) -> Any:
        """Asks one member and returns its reply, or all others and returns the replies by member: of those who replied in time. Raises
        TimedOut when the one did not reply in time, NotAMember when it has gone."""
        return self._background.run(self._group.ask(data, to, timeout=timeout))

    # -- reading ---------------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Reading[Message | Letter]:
        """Message by message. Ends when this member has left."""
        return TrackedMessages(self._shelf.message, self._shelf) if self._shelf.is_tracked else Reading(self._shelf.message)

    def receive(self, timeout: float | None = None) -> Message | Letter:
        """The next message; raises TimedOut when there is none for so long, NotInGroup when there will be none."""
        try:
            return self._shelf.receive(timeout)
        except StopIteration:
            raise NotInGroup(self.name, "it has left, or was put out") from None

    def _reading(self, take: TakeEntry[T]) -> Reading[T]:
        return TrackedIterator(take, self._shelf) if self._shelf.is_tracked else Reading(take)

    def batches(self) -> Reading[MessageBatch]:
        """The same, as the batches they came in: cheaper per message."""
        return self._reading(self._shelf.batch)

    def events(self) -> Reading[GroupEvent]:
        """Everything that happens, in the order that the group promises: messages, view changes, gaps, letters that did not arrive. On a
        store also `StoreLost` and `StoreRestored`, when they happen."""
        return self._reading(self._shelf.event)

    def history(self) -> list[Message]:
        """Everything that is kept, in one order that is the same at all members that keep the same."""
        return self._background.call(self._group.history)

    # -- questions about it ----------------------------------------------------------------------------------------------------

    def why(self, message: MessageId) -> Why:
        """Where a message is, and what it waits for."""
        if self._shelf.holds(*message):
            return Why("delivered", "was delivered, and waits here until it is read")
        return self._background.call(lambda: self._group.why(message))

    def stats(self) -> dict[str, object]:
        """Counters and gauges, plain values; their names are in `docs/metrics.md`."""
        return self._background.call(self._group.stats)

    # -- leaving ---------------------------------------------------------------------------------------------------------------

    def leave(self, *, timeout: float | None = None) -> int:
        """Leaves the group; what was sent before is still delivered. Returns how many of the last messages may have reached nobody, 0
        unless the network was broken. When it is interrupted, or raises TimedOut, this member still leaves."""
        return self._background.run(self._group.leave(timeout=timeout))

    def __repr__(self) -> str:
        return repr(self._group)
