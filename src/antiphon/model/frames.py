"""What travels: the batch and the few frames beside it.

Every frame is an msgspec struct written as a MessagePack array whose first element is its tag, so the kind of a frame is one
byte at a fixed place. A **batch** holds consecutive messages of one sender to one group; everything that has numbers counts
messages, never batches, so a batch may be delivered in parts.

| frame    | tag | sent by              | says                                                            |
|----------|-----|----------------------|-----------------------------------------------------------------|
| Batch    | 1   | a sender             | messages `first … last`, their parents, the order's stamp       |
| Fragment | 2   | a sender             | one part of a message that is too large for a frame             |
| Record   | 3   | the ordering stage   | numbers `first … last` of the ordering's own stream (total order) |
| Digest   | 4   | every member         | how far it has each stream of the view, or that nothing is new  |
| Nack     | 5   | a member with a gap  | what it misses                                                  |

Batches, fragments and records are **sequenced**: they lie in a stream, are repaired byte for byte, and are kept until every
member of the view has them. A view of n members has n data streams, by rank, and n record streams after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from antiphon.model.ids import GroupId, MemberId, MessageId

SEQNO_LIMIT = 1 << 62
FRAME_LIMIT = 1 << 20
"""The largest frame that is looked at, in bytes."""
MESSAGE_LIMIT = 64 << 20
"""The largest message that fragments may add up to, in bytes."""
Number = Annotated[int, Meta(ge=0, le=SEQNO_LIMIT)]
Seqno = Annotated[int, Meta(ge=1, le=SEQNO_LIMIT)]

# What an ordering may attach to a batch or put into a record: numbers, or bytes of its own making.
Stamp: TypeAlias = list[int] | bytes | None

BATCH_LIMIT = 65_536
"""The most messages a received batch may hold."""
PARTS_LIMIT = 1 << 18
"""The most fragments of one message."""
NAMED_LIMIT = 256
"""The most members whose messages one batch may name."""
NAMES_LIMIT = 64
"""The most messages that one message may answer and follow."""


class Batch(Struct, array_like=True, tag=1, frozen=True, gc=False):
    """Consecutive messages `first … last` of `sender`; one stamp covers them.

    `parents` is None when no message of the batch names another; otherwise it has one entry per message, the number of the message
    it answers or 0, and `whose` the index in `named` of that message's sender. `after` maps a seqno to the further messages it must
    follow, as (index in `named`, number). So an answer costs a few bytes and no object of its own; read it with `reply_to` and
    `follows`, write it with `compose`. All of it is immutable, and tuples of bytes and numbers are nothing that the garbage collector
    has to look at: a hundred thousand waiting messages cost it no time."""

    group: GroupId
    sender: MemberId
    view: int
    first: Seqno
    payloads: Annotated[tuple[bytes, ...], Meta(min_length=1, max_length=BATCH_LIMIT)]
    parents: tuple[Number, ...] | None = None
    stamp: Stamp = None
    sent_at: float = 0.0
    named: Annotated[tuple[MemberId, ...], Meta(max_length=NAMED_LIMIT)] = ()
    whose: bytes = b""
    after: dict[int, list[tuple[Number, Seqno]]] | None = None
    guests: dict[int, tuple[MemberId, Seqno]] | None = None
    """In open groups: a seqno to the outsider whose message it is, and the outsider's own number for it."""

    @classmethod
    def compose(
        cls,
        group: GroupId,
        sender: MemberId,
        view: int,
        first: int,
        payloads: Iterable[bytes],
        parents: Sequence[MessageId | None] | None = None,
        stamp: Stamp = None,
        sent_at: float = 0.0,
        after: Mapping[int, Sequence[MessageId]] | None = None,
        guests: Mapping[int, tuple[MemberId, int]] | None = None,
    ) -> Batch:
        """A batch from the messages that its messages answer (`parents`, one entry each) and follow (`after`, by seqno), and from the
        outsiders whose messages they are (`guests`, by seqno)."""
        payloads = tuple(payloads)
        outsiders = dict(guests) if guests else None
        if not after and (parents is None or not any(parents)):
            return cls(group, sender, view, first, payloads, None, stamp, sent_at, guests=outsiders)
        index_by_member: dict[MemberId, int] = {}

        def index(member: MemberId) -> int:
            return index_by_member.setdefault(member, len(index_by_member))

        parents = [None] * len(payloads) if parents is None else parents
        whose = bytes(0 if parent is None else index(parent[0]) for parent in parents)
        numbers = tuple(0 if parent is None else parent[1] for parent in parents)
        also = {seqno: [(index(name[0]), name[1]) for name in names] for seqno, names in after.items()} if after else None
        return cls(group, sender, view, first, payloads, numbers, stamp, sent_at, tuple(index_by_member), whose, also, outsiders)

    @property
    def last(self) -> int:
        return self.first + len(self.payloads) - 1

    def payload(self, seqno: int) -> bytes:
        return self.payloads[seqno - self.first]

    def reply_to(self, seqno: int) -> MessageId | None:
        number = 0 if self.parents is None else self.parents[seqno - self.first]
        return MessageId(self.named[self.whose[seqno - self.first]], number) if number else None

    def follows(self, seqno: int) -> tuple[MessageId, ...]:
        """Every message that `seqno` names: the one it answers first, then those it comes after."""
        parent = self.reply_to(seqno)
        also = tuple(MessageId(self.named[index], number) for index, number in self.after.get(seqno, ())) if self.after else ()
        return also if parent is None else (parent, *also)


class Fragment(Struct, array_like=True, tag=2, frozen=True, gc=False):
    """Part `index` of `count` of the encoded batch that holds the one message `first`, too large for a frame."""

    group: GroupId
    sender: MemberId
    view: int
    first: Seqno
    index: Annotated[int, Meta(ge=0, lt=PARTS_LIMIT)]
    count: Annotated[int, Meta(ge=2, le=PARTS_LIMIT)]
    part: bytes


class Record(Struct, array_like=True, tag=3, frozen=True, gc=False):
    """Numbers `first … last` of the sender's record stream; `body` is the ordering's own."""

    group: GroupId
    sender: MemberId
    view: int
    first: Seqno
    last: Seqno
    body: Stamp = None


class Digest(Struct, array_like=True, tag=4, frozen=True, gc=False):
    """How far `member` has the streams of the view from number `start` on: without a gap (`have`), and its highest (`tops`; None
    when equal). Who has said so and has nothing new to say leaves `have` empty: `check` stands for its positions in all streams. Who is
    `catching_up` holds what it has, and would drop it if the view ended now."""

    group: GroupId
    member: MemberId
    view: int
    have: list[Number]
    tops: list[Number] | None = None
    start: Number = 0
    check: Number = 0
    catching_up: bool = False


class Nack(Struct, array_like=True, tag=5, frozen=True, gc=False):
    """What `member` misses: `(stream, low, high, attempt)`, and of half-arrived messages `(stream, seqno, indexes, attempt)`. One that
    asks for nothing asks for a whole digest."""

    group: GroupId
    member: MemberId
    view: int
    wants: list[tuple[int, Number, Number, int]]
    parts: list[tuple[int, Seqno, list[int], int]] = []


DataFrame: TypeAlias = Batch | Fragment | Record | Digest | Nack
Sequenced: TypeAlias = Batch | Fragment | Record

KINDS: dict[int, str] = {1: "data", 2: "fragment", 3: "record", 4: "digest", 5: "nack"}
"""The word for each tag, as metrics, rules and scenarios spell it."""
