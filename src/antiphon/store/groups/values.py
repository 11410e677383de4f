"""What lies in a group's topics: batches of messages, and what happened between them.

A value is one version byte and a MessagePack array whose first element is its tag. Anybody who can write to the store can write to the
topic, so `decode` never raises: what is no value of a group is None, and whoever reads counts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct

from antiphon.errors import BadFrame, InvalidOption
from antiphon.model import codec
from antiphon.model.control import Holdings
from antiphon.model.frames import Batch
from antiphon.model.ids import MemberId, MessageId
from antiphon.model.view import View
from antiphon.store.groups.record import GroupRecord, Members

OVERHEAD_BYTES = 1_024
"""More than a batch of one message takes beside its payload and what it answers and follows, in all but strange cases."""
_PAYLOAD_BYTES = 5
"""The most that a payload takes beside its bytes."""


class Placed(Struct, array_like=True, tag=101, frozen=True):
    """From here on the group is this view; one with an epoch that has been placed before counts for nothing."""

    epoch: int
    members: Members
    makers: Members = ()
    sides: tuple[Members, ...] = ()

    @classmethod
    def of(cls, record: GroupRecord) -> Placed:
        return cls(record.epoch, record.members, record.makers, record.sides)

    @property
    def view(self) -> View:
        return View(self.epoch, self.members, self.makers)


class Marker(Struct, array_like=True, tag=102, frozen=True):
    """In an archive: everything that was delivered before the view with this id is in the topic before this."""

    view: int


class Lost(Struct, array_like=True, tag=103, frozen=True):
    """In an archive: these messages could not be archived in time, and never will be."""

    lost: Holdings


GroupValue: TypeAlias = Batch | Placed | Marker | Lost
_VERSION = b"\x01"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Placed | Marker | Lost).decode


def encode(value: GroupValue) -> bytes:
    return codec.encode(value) if isinstance(value, Batch) else _VERSION + _encode(value)


def decode(data: bytes) -> GroupValue | None:
    try:
        if codec.kind_of(data) == "data":
            frame = codec.decode(data, codec.MESSAGE_LIMIT)
            return frame if isinstance(frame, Batch) else None
        if data[:1] != _VERSION:
            return None
        value: Placed | Marker | Lost = _decode(memoryview(data)[1:])
        if isinstance(value, Placed):
            value.view  # noqa: B018 — raises what is no view
    except (BadFrame, InvalidOption, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return value


def part_of(batch: Batch, low: int, high: int) -> Batch:
    """The batch with its messages `low … high` alone."""
    if low <= batch.first and high >= batch.last:
        return batch
    numbers = range(max(low, batch.first), min(high, batch.last) + 1)
    parents = None if batch.parents is None else [batch.reply_to(seqno) for seqno in numbers]
    after = {seqno: _beyond_parent(batch, seqno) for seqno in numbers if batch.after and seqno in batch.after}
    guests = {seqno: batch.guests[seqno] for seqno in numbers if batch.guests and seqno in batch.guests}
    payloads = batch.payloads[numbers.start - batch.first : numbers.stop - batch.first]
    return Batch.compose(
        batch.group, batch.sender, batch.view, numbers.start, payloads, parents, None, batch.sent_at, after or None, guests or None
    )


def _beyond_parent(batch: Batch, seqno: int) -> Sequence[MessageId]:
    named = batch.follows(seqno)
    return named if batch.reply_to(seqno) is None else named[1:]


def pieces(batch: Batch, limit: int) -> Iterator[Batch]:
    """The batch in parts whose payloads are at most `limit` bytes together; a message that is larger is a part of its own."""
    low, size = batch.first, 0
    for seqno, payload in enumerate(batch.payloads, batch.first):
        if size and size + len(payload) + _PAYLOAD_BYTES > limit:
            yield part_of(batch, low, seqno - 1)
            low, size = seqno, 0
        size += len(payload) + _PAYLOAD_BYTES
    yield part_of(batch, low, batch.last)


def flat(sender: MemberId, low: int, high: int) -> Holdings:
    return {sender: [low, high]}
