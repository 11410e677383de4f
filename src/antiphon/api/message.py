"""Messages as an application reads them.

A `MessageBatch` is a run of messages of one sender, as they were delivered; reading whole batches costs next to nothing per message. A
`Message` is one of them, and a `Letter` what somebody sent to this member alone. All are made from the frames as they came: what is not
asked for is not computed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeAlias

from msgspec import Struct

from antiphon.errors import UsageError
from antiphon.model.frames import Batch
from antiphon.model.ids import MemberId, MessageId, name_of

Decode: TypeAlias = Callable[[bytes], Any]


class Message(Struct, frozen=True, gc=False, weakref=False):
    """A message to the group. `lost` are messages that it follows and that nobody has any more; `recovered` says that it came late, by
    synchronisation."""

    data: Any
    seqno: int
    batch: Batch
    lost: tuple[MessageId, ...] = ()
    recovered: bool = False
    private: ClassVar[bool] = False

    @property
    def sender(self) -> MemberId:
        """Who sent it: a member, or in an open group somebody outside."""
        guests = self.batch.guests
        return self.batch.sender if guests is None or self.seqno not in guests else guests[self.seqno][0]

    @property
    def id(self) -> MessageId:
        """Names the message: answer it with `send(…, reply_to=message.id)`."""
        return MessageId(self.batch.sender, self.seqno)

    @property
    def reply_to(self) -> MessageId | None:
        return self.batch.reply_to(self.seqno)

    @property
    def after(self) -> tuple[MessageId, ...]:
        """The messages it was said to come after, beside the one it answers."""
        named = self.batch.follows(self.seqno)
        return named if self.reply_to is None else named[1:]

    @property
    def raw(self) -> bytes:
        return self.batch.payload(self.seqno)

    @property
    def view(self) -> int:
        """The id of the view that it was sent in."""
        return self.batch.view

    @property
    def sent_at(self) -> float:
        """The sender's clock when it was sent, moved forward where it lagged behind what the sender had read."""
        return self.batch.sent_at

    def __str__(self) -> str:
        answer = self.reply_to
        return f"{self.id}{f' (answers {answer})' if answer else ''}: {self.data!r}"


class Letter(Struct, frozen=True, weakref=False):
    """A message to this member alone. One that is a `question` waits for `reply`."""

    sender: MemberId
    data: Any
    raw: bytes
    question: int = 0
    answer: Callable[[MemberId, int, Any], Awaitable[None]] | None = None
    private: ClassVar[bool] = True
    id: ClassVar[None] = None
    reply_to: ClassVar[None] = None
    after: ClassVar[tuple[MessageId, ...]] = ()
    lost: ClassVar[tuple[MessageId, ...]] = ()
    recovered: ClassVar[bool] = False

    async def reply(self, data: Any) -> None:
        """Answers a question."""
        if not self.question or self.answer is None:
            raise UsageError(f"{name_of(self.sender)} asked nothing: send to it with group.send(data, to=message.sender)")
        await self.answer(self.sender, self.question, data)

    def __str__(self) -> str:
        return f"{name_of(self.sender)} {'asks' if self.question else 'says'} privately: {self.data!r}"


class MessageBatch(Sequence[Message | Letter]):
    """Messages `first … last` of one sender, in the order in which they were delivered together: `payloads`, what was sent, as bytes."""

    __slots__ = ("_decode", "batch", "first", "last", "letter", "lost", "payloads", "recovered", "sender")

    def __init__(
        self,
        batch: Batch,
        first: int,
        last: int,
        decode: Decode | None = None,
        lost: tuple[MessageId, ...] = (),
        recovered: bool = False,
        letter: Letter | None = None,
    ) -> None:
        self.batch, self.first, self.last, self._decode = batch, first, last, decode
        self.lost, self.recovered, self.letter = lost, recovered, letter
        self.sender: MemberId = batch.sender
        payloads = batch.payloads
        if last - first + 1 < len(payloads):
            payloads = payloads[first - batch.first : last - batch.first + 1]
        self.payloads: tuple[bytes, ...] = payloads

    @property
    def ids(self) -> list[MessageId]:
        return [MessageId(self.batch.sender, seqno) for seqno in range(self.first, self.last + 1)]

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __iter__(self) -> Iterator[Message | Letter]:
        if self.letter is not None:
            return iter((self.letter,))
        return messages(self.batch, self.first, self.last, self._decode, self.lost, self.recovered)

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index] if isinstance(index, slice) else next(_nth(self, index))

    def __repr__(self) -> str:
        return f"<{len(self)} messages of {name_of(self.sender)}, {self.first} to {self.last}>"


class MessageIds(Sequence[MessageId]):
    """The ids of messages that were sent together: nearly always one run of numbers, so it is kept as such."""

    __slots__ = ("_runs", "_sender")

    def __init__(self, sender: MemberId) -> None:
        self._sender = sender
        self._runs: list[range] = []

    def add(self, first: int, count: int) -> None:
        if self._runs and self._runs[-1].stop == first:
            self._runs[-1] = range(self._runs[-1].start, first + count)
        else:
            self._runs.append(range(first, first + count))

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def __iter__(self) -> Iterator[MessageId]:
        return (MessageId(self._sender, seqno) for run in self._runs for seqno in run)

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<ids of {len(self)} messages of {name_of(self._sender)}>"


def _nth(batch: MessageBatch, index: int) -> Iterator[Message | Letter]:
    place = range(len(batch))[index]
    if batch.letter is not None:
        return iter((batch.letter,))
    seqno = batch.first + place
    return messages(batch.batch, seqno, seqno, batch._decode, batch.lost, batch.recovered)


def messages(
    batch: Batch, low: int, high: int, decode: Decode | None, lost: tuple[MessageId, ...] = (), recovered: bool = False
) -> Iterator[Message]:
    """The messages `low … high` of a batch, one by one."""
    payloads, offset = batch.payloads, batch.first
    if decode is None:
        for seqno in range(low, high + 1):
            yield Message(payloads[seqno - offset], seqno, batch, lost, recovered)
    else:
        for seqno in range(low, high + 1):
            yield Message(decode(payloads[seqno - offset]), seqno, batch, lost, recovered)
