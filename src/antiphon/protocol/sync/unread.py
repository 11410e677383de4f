"""Messages that a provider of a state has delivered and its application has not taken: they travel with the state.

The state is that of the application, as of the last message it was handed. The protocol counts from what the member has delivered. The
messages between the two are written behind the state, in the order in which the provider delivered them, and the newcomer delivers them
after the state: so it has every message either in its state or in its stream, in an order that the provider had.

Bound: what the provider's inbox keeps. Each batch is written once, however many parts of it were delivered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from antiphon.errors import BadFrame
from antiphon.model import codec
from antiphon.model.events import Delivery, Orphaned, Recovered
from antiphon.model.frames import MESSAGE_LIMIT, Batch
from antiphon.model.ids import GroupId, MemberId, MessageId

UnreadEvent: TypeAlias = Delivery | Recovered | Orphaned
_Parts: TypeAlias = tuple[list[bytes], list[tuple[int, int, int, list[tuple[MemberId, int]]]]]
"""The batches, as frames; and which messages of which of them, with the lost ones that an orphan names."""

_decode = msgspec.msgpack.Decoder(_Parts).decode


def write(events: Sequence[UnreadEvent]) -> bytes:
    """Encode events of the stream that carry messages."""
    index_by_batch: dict[int, int] = {}
    frames: list[bytes] = []
    parts: list[tuple[int, int, int, list[tuple[MemberId, int]]]] = []
    for event in events:
        missing: list[tuple[MemberId, int]] = []
        if type(event) is tuple:
            batch, low, high = event
        elif type(event) is Orphaned:
            batch, low, high = event.batch, event.seqno, event.seqno
            missing = [(sender, seqno) for sender, seqno in event.missing]
        else:
            assert type(event) is Recovered, "nothing else carries messages"
            batch, low, high = event.batch, event.low, event.high
            missing = [(sender, seqno) for sender, seqno in event.missing]
        index = index_by_batch.get(id(batch))
        if index is None:
            index = index_by_batch[id(batch)] = len(frames)
            frames.append(codec.encode(batch))
        parts.append((index, low, high, missing))
    return msgspec.msgpack.encode((frames, parts))


def read(wire: bytes, group: GroupId) -> list[Recovered] | None:
    """Decode what `write` made, as events for the newcomer; None if it makes no sense."""
    try:
        frames, parts = _decode(wire)
        batches = [codec.decode(frame, MESSAGE_LIMIT) for frame in frames]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, BadFrame):
        return None
    events: list[Recovered] = []
    for index, low, high, missing in parts:
        batch = batches[index] if 0 <= index < len(batches) else None
        if type(batch) is not Batch or batch.group != group or not batch.first <= low <= high <= batch.last:
            return None
        if missing and low < high:
            return None
        events.append(Recovered(batch, low, high, tuple(MessageId(sender, seqno) for sender, seqno in missing)))
    return events
