"""A group, as one of its members sees it: send to it, read it, see who is in it.

`send` returns when the message is accepted: from then on the promises of the group hold for it (`docs/guarantees.md`). When there is no
credit it waits, so a fast sender goes at the pace of the slowest reader. Reading is one stream, in the order that the group promises,
shared by all who iterate here: each message is read once. Who does not read holds the others up.

Every call may be cancelled at any time: a send that was cancelled was not accepted, and what was not read is read by the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from antiphon.api.inbox import Inbox
from antiphon.api.line import Line
from antiphon.api.message import Letter, Message, MessageBatch, MessageIds, messages
from antiphon.api.questions import Question, Questions
from antiphon.api.reading import Reading
from antiphon.api.state_requests import StateRequests, TrackedReading
from antiphon.errors import AntiphonError, InvalidOption, JoinFailed, NoQuorum, NotAMember, NotInGroup, TimedOut, UsageError, WouldBlock
from antiphon.model.events import (
    Delivery,
    Departed,
    Installed,
    MissedMessages,
    NoMajority,
    Orphaned,
    PrivateMessage,
    Recovered,
    Stabilised,
    StateArrived,
    StateUnavailable,
    StateWanted,
    StoreLost,
    StoreRestored,
    Synchronised,
    Undelivered,
    ViewChange,
    Why,
    Writable,
)
from antiphon.model.frames import Batch
from antiphon.model.ids import GroupId, MemberId, MessageId, name_of
from antiphon.model.options import GroupOptions
from antiphon.model.payload import PayloadCodec
from antiphon.model.view import View
from antiphon.protocol.sync.unread import UnreadEvent
from antiphon.store.event_stream import EventFeed, EventStream

if TYPE_CHECKING:
    from antiphon.api.node import Node

State: TypeAlias = Callable[[], bytes]
GroupEvent: TypeAlias = (
    MessageBatch | ViewChange | MissedMessages | Undelivered | NoMajority | Synchronised | Stabilised | StoreLost | StoreRestored
)  # fmt: skip
_PLAIN = frozenset((MissedMessages, Undelivered, NoMajority, Synchronised, Stabilised, StoreLost, StoreRestored))
_ANSWER_S = 5.0

T = TypeVar("T")


class Group:
    def __init__(self, node: Node, id: GroupId, codec: PayloadCodec | None, state: State | None) -> None:
        """Made by `Node.create` and `Node.join`."""
        self._node, self.id = node, id
        self.state: bytes | None = None
        """The application's state that this member was given when it joined with `history="state"`. None: it joined otherwise, or founded
        the group, and begins with the application's own first state."""
        self._codec = codec
        self._decode = None if self._codec is None else self._codec.decode
        settings = node.settings
        self._inbox = Inbox(
            settings.inbox_messages, settings.inbox_bytes, lambda: node.pause(self), lambda: node.resume(self)
        )
        self._requests = None if state is None else StateRequests(state, self._inbox, self._provide_state)
        """Answers those who want the application's state, if it gives one."""
        self._views: EventFeed[ViewChange] = EventFeed()
        self._view: View | None = None
        self._line = Line()
        """Sends to the group that wait for credit."""
        self._line_by_receiver: dict[MemberId | None, Line] = {}
        """Private ones, by whom they are for; None: questions to all."""
        self._questions = Questions()
        self._delivered = self._letters = self._installed = 0
        """Messages, private ones, and views: counted when they come, read or not."""
        self._departed: Departed | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._caught_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for future in (self._ready, self._caught_up, self._stable, self._left):
            future.add_done_callback(_look_at)
        self._attach(node)

    def _attach(self, node: Node) -> None:
        membership = node.core.memberships[self.id]
        self.me: MemberId = membership.me
        self.options: GroupOptions = membership.port.options
        self._membership = membership

    # -- who is in it ----------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return name_of(self.id)

    @property
    def view(self) -> View:
        """Who is in the group now, as far as this member knows."""
        if self._view is None:
            raise self._gone()
        return self._view

    @property
    def view_is_stale(self) -> bool:
        """Whether `view` may be out of date because this member has lost the store that decides it. Always False on a network."""
        return False

    def views(self) -> EventStream[ViewChange]:
        """The changes of the view from now on, each listener its own stream. To see them between the messages, read `events`."""
        return self._views.listen()

    # -- sending ---------------------------------------------------------------------------------------------------------------

    @overload
    async def send(
        self,
        data: Any,
        reply_to: MessageId | None = None,
        after: Sequence[MessageId] = (),
        *,
        to: MemberId | None = None,
        timeout: float | None = None,
    ) -> MessageId: ...

    @overload
    async def send(
        self,
        data: Any,
        reply_to: MessageId | None = None,
        after: Sequence[MessageId] = (),
        *,
        to: Collection[MemberId],
        timeout: float | None = None,
    ) -> list[MessageId]: ...

    async def send(
        self,
        data: Any,
        reply_to: MessageId | None = None,
        after: Sequence[MessageId] = (),
        *,
        to: MemberId | Collection[MemberId] | None = None,
        timeout: float | None = None,
    ) -> MessageId | list[MessageId]:
        """Send to the group, to one member, or to each of several members; return when the message is accepted.

        `to` is a member's id, or a list of them. A list sends one private message to each member of it, in fifo order with the other
        private messages to that member, and returns their ids in the order of the list without repetitions. Raises NotAMember or
        InvalidOption, and sends nothing, if one of them is not in the view or is this member. Raises TimedOut if there is no send credit
        within `timeout` seconds: then the message was not accepted. Where a list is refused while it waits for credit, also because a
        member departs meanwhile, the error's `accepted` says for how many members, the first of the list, it was accepted."""
        if to is not None:
            if reply_to is not None or after:
                raise UsageError("a message to one member answers nothing in the group: leave out reply_to and after, or leave out to")
            if not isinstance(to, str):
                return await self._send_to_each(data, to, timeout)
            return await self._send_to(to, self._encode(data), timeout)
        if after:
            _check_after(after)
        payload = data if type(data) is bytes and self._codec is None and self._departed is None else self._encode(data)
        if self._node.crowded:
            await self._breathe()
        if not self._line.length:
            try:
                return self._node.submit(self.id, payload, reply_to, after)
            except (WouldBlock, NoQuorum):
                pass
        return await self._when_writable(self._line, lambda: self._node.submit(self.id, payload, reply_to, after), timeout)

    def try_send(self, data: Any, reply_to: MessageId | None = None, after: Sequence[MessageId] = ()) -> MessageId:
        """Sends at once, or raises WouldBlock, or NoQuorum in a minority."""
        if after:
            _check_after(after)
        if self._line.length:
            raise WouldBlock("others wait to send before this: await send")
        return self._node.submit(self.id, self._encode(data), reply_to, after)

    async def send_many(self, data: Sequence[Any], *, timeout: float | None = None) -> MessageIds:
        """Sends these in order, as few batches, and returns their ids when all are accepted. Raises TimedOut, with how many were
        `accepted`, when there was no credit for so long (NoQuorum if none was, for want of a majority). When it is cancelled, the first
        of them may have been accepted."""
        if self._departed is not None:
            raise self._gone()
        if isinstance(data, str | bytes | bytearray | memoryview):
            raise InvalidOption("data", f"{type(data).__name__}", "give a list of messages, or send one with send()")
        payloads: Sequence[bytes]
        if self._codec is not None:
            payloads = [self._codec.encode(one) for one in data]
        else:
            payloads = data if type(data) is list or type(data) is tuple else [*data]
        ids = MessageIds(self.me)

        def submit() -> None:
            # Refused in the middle, it keeps its place in the line: nothing of this member comes between.
            while (accepted := len(ids)) < len(payloads):
                ids.add(*self._node.submit_many(self.id, payloads[accepted:] if accepted else payloads))

        if self._node.crowded:
            await self._breathe()
        if not self._line.length:
            try:
                if payloads:
                    ids.add(*self._node.submit_many(self.id, payloads))
                if len(ids) == len(payloads):
                    return ids
            except (WouldBlock, NoQuorum):
                pass
        try:
            await self._when_writable(self._line, submit, timeout)
        except TimedOut as error:
            error.accepted = len(ids)
            raise
        except NoQuorum as error:
            if ids:
                raise TimedOut(str(error), len(ids)) from None
            raise
        return ids

    async def ask(self, data: Any, to: MemberId | None = None, *, timeout: float = _ANSWER_S) -> Any:
        """Asks one member and returns its reply, or all others and returns the replies by member: of those who replied in time. Raises
        TimedOut when the one did not reply in time, NotAMember when it has gone."""
        if to is not None and not isinstance(to, str):
            raise InvalidOption("to", to, "give the id of one member, or leave it out to ask all others")
        payload = self._encode(data)
        deadline = self._node.now() + timeout

        def submit() -> tuple[int, Question]:
            number = self._node.ask(self.id, payload, to)
            others = (member for member in self.view.members if member != self.me)
            return number, self._questions.open(number, others if to is None else (to,))

        number, question = await self._privately(to, submit, timeout)
        try:
            async with asyncio.timeout(max(deadline - self._node.now(), 0.0)):
                await question.over
        except TimeoutError:
            if to is not None:
                raise TimedOut(f"{name_of(to)} did not reply within {timeout:g} s") from None
        finally:
            self._questions.close(number)
            self._node.close_question(self.id, number)
        return question.replies if to is None else self._questions.only_reply(question, to)

    async def _send_to(self, to: MemberId, payload: bytes, timeout: float | None) -> MessageId:
        number = await self._privately(to, lambda: self._node.submit_to(self.id, to, payload), timeout)
        return MessageId(self.me, number)

    async def _send_to_each(self, data: Any, to: Collection[MemberId], timeout: float | None) -> list[MessageId]:
        members = _receivers(to)
        payload = self._encode(data)
        for member in members:
            if member == self.me:
                raise InvalidOption("to", to, "a member has no need to write to itself: leave it out of the list")
            if member not in self.view:
                raise NotAMember(member)
        ids: list[MessageId] = []
        deadline = None if timeout is None else self._node.now() + timeout
        try:
            for member in members:
                left = None if deadline is None else max(deadline - self._node.now(), 0.0)
                ids.append(await self._send_to(member, payload, left))
        except AntiphonError as error:
            error.accepted = len(ids)
            raise
        return ids

    async def _reply(self, to: MemberId, question: int, data: Any) -> None:
        payload = self._encode(data)
        await self._privately(to, lambda: self._node.reply(self.id, to, question, payload), None)

    def _encode(self, data: Any) -> bytes:
        if self._departed is not None:
            raise self._gone()
        if self._codec is not None:
            return self._codec.encode(data)
        if type(data) is not bytes:
            if isinstance(data, bytearray | memoryview):
                return bytes(data)
            hint = "encode it" if isinstance(data, str) else "give the group a type: join(…, type=…)"
            raise InvalidOption("data", f"{type(data).__name__}", f"this group carries bytes: {hint}")
        return data

    async def _breathe(self) -> None:
        """Lets the turn happen that sends what was accepted. Before the next is accepted, never after: a call that is cancelled must not
        have sent anything."""
        await asyncio.sleep(0)
        if self._departed is not None:
            raise self._gone()

    async def _privately(self, to: MemberId | None, attempt: Callable[[], T], timeout: float | None) -> T:
        line = self._line_by_receiver.setdefault(to, Line())
        try:
            return await self._when_writable(line, attempt, timeout)
        finally:
            if not line.length:
                self._line_by_receiver.pop(to, None)

    async def _when_writable(self, line: Line, attempt: Callable[[], T], timeout: float | None) -> T:
        """Makes the attempt when those who came before are through, until it is not refused."""

        def attempt_here() -> T:
            if self._departed is not None:
                raise self._gone()
            return attempt()

        try:
            async with asyncio.timeout(timeout):
                return await line.through(attempt_here)
        except TimeoutError:
            few = self._membership.short
            if few is not None and line is self._line:
                raise NoQuorum(*few) from None
            unread = len(self._inbox)
            hint = f"; {unread:,} deliveries are not read here: read the group, or others wait for you" if self._inbox.full else ""
            raise TimedOut(f"nothing could be sent to {self.name} for {timeout:g} s{hint}") from None

    def _wake_senders(self) -> None:
        for line in (self._line, *self._line_by_receiver.values()):
            line.wake()

    # -- reading ---------------------------------------------------------------------------------------------------------------

    def __aiter__(self) -> Reading[Message | Letter]:
        """Message by message. Ends when this member has left."""
        return self._read_with(self._take_message)

    def batches(self) -> Reading[MessageBatch]:
        """The same, as the batches they came in: much cheaper per message."""
        return self._read_with(self._take_batch)

    def events(self) -> Reading[GroupEvent]:
        """Everything that happens, in the order that the group promises: messages, view changes, gaps, letters that did not arrive. On a
        store also `StoreLost` and `StoreRestored`, when they happen."""
        return self._read_with(self._take_event)

    def _read_with(self, take: Callable[[Any], T | None]) -> Reading[T]:
        return Reading(self._inbox, take) if self._requests is None else TrackedReading(self._inbox, take, self._requests)

    def _take_message(self, entry: Any) -> Message | Letter | None:
        inbox = self._inbox
        if type(entry) is tuple:
            batch, low, high = entry
            inbox.open(messages(batch, low, high, self._decode), high - low + 1)
        elif entry is not None:
            event = self._as_read(entry)
            if type(event) is not MessageBatch:
                return None
            inbox.open(iter(event), len(event))
        inbox.left -= 1
        return next(inbox.opened)  # type: ignore[no-any-return]

    def _take_batch(self, entry: Any) -> MessageBatch | None:
        if type(entry) is tuple:
            batch, low, high = entry
            return MessageBatch(batch, low, high, self._decode)
        event = self._take_event(entry)
        return event if type(event) is MessageBatch else None

    def _take_event(self, entry: Any) -> GroupEvent | None:
        return self._rest_of_opened() if entry is None else self._as_read(entry)

    def history(self) -> list[Message]:
        """Everything that is kept, in one order that is the same at all members that keep the same. In semantic order `lost` names the
        messages that an answer follows and that did not reach this member."""
        semantic, listed = self.options.order == "semantic", list[Message]()
        for batch, low, high in self._membership.history():
            if semantic and batch.parents is not None:
                for seqno in range(low, high + 1):
                    lost = self._membership.past.missing_parents(batch, seqno)
                    listed += messages(batch, seqno, seqno, self._decode, lost)
            else:
                listed += messages(batch, low, high, self._decode)
        return listed

    def _rest_of_opened(self) -> MessageBatch:
        """What is left of the batch that is read message by message."""
        inbox = self._inbox
        rest, inbox.left = list(inbox.opened), 0
        first, last = rest[0], rest[-1]
        if isinstance(first, Letter):
            return _letter(first)
        return MessageBatch(first.batch, first.seqno, last.seqno, self._decode, first.lost, first.recovered)

    def _as_read(self, event: Any) -> GroupEvent | None:
        """What the reader sees of an entry that was taken; None: nothing."""
        kind, decode = type(event), self._decode
        if kind is tuple:
            batch, low, high = event
            return MessageBatch(batch, low, high, decode)
        if kind is Recovered:
            return MessageBatch(event.batch, event.low, event.high, decode, event.missing, True)
        if kind is Orphaned:
            return MessageBatch(event.batch, event.seqno, event.seqno, decode, event.missing)
        if kind is PrivateMessage:
            data = event.data if decode is None else decode(event.data)
            return _letter(Letter(event.sender, data, event.data, event.question, self._reply))
        if kind is StateWanted:
            if self._requests is not None:
                self._requests.reach(event)
        elif kind is ViewChange or kind in _PLAIN:
            return event  # type: ignore[no-any-return]
        return None

    def _provide_state(self, snapshot: int, state: bytes | None, unread: Sequence[UnreadEvent], reason: str) -> None:
        if self._departed is None:
            self._node.provide_state(self.id, snapshot, state, unread, reason)

    # -- questions about it ----------------------------------------------------------------------------------------------------

    def why(self, message: MessageId) -> Why:
        """Where a message is, and what it waits for."""
        if self._inbox.holds(*message):
            return Why("delivered", "was delivered, and waits in the inbox until it is read")
        endpoint = self._membership.endpoint
        if endpoint is None:
            raise self._gone()
        return endpoint.why(message)

    def stats(self) -> dict[str, object]:
        """Counters and gauges, plain values; their names are in `docs/metrics.md`."""
        return {
            **self._membership.stats(),
            "delivered": self._delivered,
            "letters_delivered": self._letters,
            "views_installed": self._installed,
            "inbox_deliveries": len(self._inbox),
            "inbox_messages": self._inbox.messages,
            "inbox_bytes": self._inbox.bytes,
            "sends_waiting": sum(line.length for line in (self._line, *self._line_by_receiver.values())),
            "bad_payloads": 0 if self._codec is None else self._codec.bad,
        }

    # -- leaving ---------------------------------------------------------------------------------------------------------------

    async def leave(self, *, timeout: float | None = None) -> int:
        """Leaves the group; what was sent before is still delivered. Returns how many of the last messages may have reached nobody, 0
        unless the network was broken. When it is cancelled, or raises TimedOut, this member still leaves."""
        if self._departed is None:
            self._node.leave(self.id)
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(self._left)
        except TimeoutError:
            raise TimedOut(f"nobody has confirmed within {timeout:g} s that this member left {self.name}; it goes on leaving") from None
        return 0 if self._departed is None else self._departed.unsaid

    def __repr__(self) -> str:
        stale = " (stale: the store does not answer)" if self.view_is_stale and not self._departed else ""
        return f"<group {self.name} at {name_of(self.me)}: {self._departed.reason if self._departed else self._view or 'joining'}{stale}>"

    # -- what the node asks and tells ---------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> asyncio.Future[None]:
        """Done when this member is in a view; fails when it never will be."""
        return self._ready

    @property
    def caught_up(self) -> asyncio.Future[None]:
        """Done when this member has what it wanted of the past."""
        return self._caught_up

    @property
    def stable(self) -> asyncio.Future[None]:
        """Done when a view with this member became stable for the first time."""
        return self._stable

    @property
    def departed(self) -> bool:
        return self._departed is not None

    def abandon(self, why: str) -> None:
        """The node goes without waiting for the others."""
        if self._departed is None:
            self._depart(Departed(why, self._membership.sent - self._membership.delivered))

    def deliver(self, delivery: Delivery) -> None:
        """What nearly every event of the core is: messages."""
        self._delivered += delivery[2] - delivery[1] + 1
        self._inbox.put(delivery)

    def take(self, event: Any) -> None:
        """Any other event of the core, in its order."""
        kind = type(event)
        if kind is tuple:
            self.deliver(event)
        elif kind is Recovered or kind is Orphaned:
            self._delivered += event.high - event.low + 1 if kind is Recovered else 1
            self._inbox.put(event)
        elif kind is Writable:
            self._wake_senders()
        elif kind is Installed:
            self._install(event)
        elif kind is PrivateMessage and event.kind == "reply":
            data = event.data if self._decode is None else self._decode(event.data)
            self._questions.reply(event.question, event.sender, data)
        elif kind is Undelivered and event.kind == "ask":
            self._questions.lose(event.question, event.to)
        elif kind is StateWanted:
            if self._requests is None:
                self._node.provide_state(self.id, event.snapshot, None)
            else:
                self._requests.want(event)
        elif kind is StateArrived:
            self.state = event.state
        elif kind is StateUnavailable:
            if not self._caught_up.done():
                self._caught_up.set_exception(JoinFailed(self.id, f"{event.reason}. Join with history='all' to take the messages instead"))
        elif kind is Departed:
            self._depart(event)
        else:
            if kind is Synchronised and not self._caught_up.done():
                self._caught_up.set_result(None)
            elif kind is Stabilised and not self._stable.done():
                self._stable.set_result(None)
            self._letters += kind is PrivateMessage
            self._inbox.put(event)

    def _install(self, event: Installed) -> None:
        before = () if event.previous is None else event.previous.members
        joined = tuple(member for member in event.view.members if member not in before)
        left = tuple(member for member in before if member not in event.view)
        change = ViewChange(event.view, event.previous, joined, left, event.sides)
        self._view = event.view
        self._installed += 1
        self._inbox.put(change)
        self._views.tell(change)
        if not self._ready.done():
            self._ready.set_result(None)
        if event.previous is None and not event.sides and not self._caught_up.done():
            self._caught_up.set_result(None)  # a founder: there is nothing to catch up with

    def _depart(self, event: Departed) -> None:
        self._departed = event
        error = self._gone()
        for future in (self._ready, self._caught_up, self._stable):
            if not future.done():
                future.set_exception(JoinFailed(self.id, self._node.explain(event.reason)))
        if not self._left.done():
            self._left.set_result(None)
        self._questions.fail(error)
        self._inbox.close()
        self._views.end()
        self._wake_senders()

    def _gone(self) -> AntiphonError:
        return NotInGroup(self.name, "it is not in a view yet" if self._departed is None else self._departed.reason)


def _letter(letter: Letter) -> MessageBatch:
    """A letter, among batches."""
    return MessageBatch(Batch(GroupId(""), letter.sender, 0, 1, (letter.raw,)), 1, 1, letter=letter)


def _receivers(to: object) -> list[MemberId]:
    """Return the members that a list names, each once; raise InvalidOption for anything else."""
    if not isinstance(to, Collection) or isinstance(to, bytes | bytearray | memoryview) or not all(isinstance(one, str) for one in to):
        raise InvalidOption("to", to, "give the id of a member of the view, or a list of them")
    if not to:
        raise InvalidOption("to", to, "the list names nobody: leave `to` out to send to the group")
    return list(dict.fromkeys(to))


def _check_after(after: object) -> None:
    """Raise InvalidOption for what is no list, also for one id in the place of a list: it is a tuple, too."""
    if isinstance(after, MessageId | str | bytes) or not isinstance(after, Sequence):
        raise InvalidOption("after", after, "give a list of message ids, even for one")


def _look_at(future: asyncio.Future[None]) -> None:
    """Nobody need wait for it: a failure that nobody asks about is not worth a warning."""
    if not future.cancelled():
        future.exception()
