"""The open batch: what this member has accepted from its application and not sent yet.

It closes at the end of the turn, or at once where the driver submits so; when the next message would not fit into its frame, when it holds
`batch_messages`, and, in causal order, before something else is delivered. So it never holds more than a frame, or one message that will
be fragmented.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from antiphon.model.frames import NAMED_LIMIT, Batch, Stamp
from antiphon.model.ids import GroupId, MemberId, MessageId

_HEADER_BYTES = 96
"""More than a frame's fields take beside its ids, payloads, names and stamp."""
_MESSAGE_BYTES = 8
"""More than a message takes beside its payload and the names in it."""
_NAME_BYTES = 24
"""More than naming a message takes, its sender's id aside."""


class Draft:
    def __init__(self, group: GroupId, me: MemberId, frame_bytes: int, messages: int) -> None:
        self._group, self._me = group, me
        self._room = frame_bytes - _HEADER_BYTES - len(me.encode()) - len(group.encode())
        self._messages = messages
        self._begin()

    def _begin(self) -> None:
        self.payloads: list[bytes] = []
        self._parents: list[MessageId | None] | None = None
        self._after: dict[int, Sequence[MessageId]] = {}
        self._named: set[MemberId] = set()
        self._guests: dict[int, tuple[MemberId, int]] = {}
        self._bytes = 0

    def fits(self, payload: bytes, names: tuple[MessageId, ...], stamp_bytes: int, guest: tuple[MemberId, int] | None = None) -> bool:
        """Whether the message can be in this batch, which is not empty: an empty one takes any."""
        size = len(payload) + _MESSAGE_BYTES
        if guest is not None:
            size += _guest_bytes(guest)
        if names:
            size += sum(_NAME_BYTES + len(name.sender.encode()) for name in names)
            if len(self._named) + len(names) > NAMED_LIMIT:
                return False
        return len(self.payloads) < self._messages and self._bytes + size + stamp_bytes <= self._room

    def add(
        self,
        seqno: int,
        payload: bytes,
        reply_to: MessageId | None,
        after: Sequence[MessageId],
        guest: tuple[MemberId, int] | None = None,
    ) -> None:
        if self._parents is None and (reply_to is not None or after):
            self._parents = [None] * len(self.payloads)
        if self._parents is not None:
            self._parents.append(reply_to)
            for name in after if reply_to is None else (reply_to, *after):
                self._named.add(name.sender)
                self._bytes += _NAME_BYTES + len(name.sender.encode())
        if after:
            self._after[seqno] = tuple(after)
        if guest is not None:
            self._guests[seqno] = guest
            self._bytes += _guest_bytes(guest)
        self.payloads.append(payload)
        self._bytes += len(payload) + _MESSAGE_BYTES

    def takes(self, payloads: Sequence[bytes], size: int, stamp_bytes: int) -> bool:
        """Adds payloads that are `size` bytes and name nothing, if all of them fit; whether they do."""
        count = len(payloads)
        size += _MESSAGE_BYTES * count
        if len(self.payloads) + count > self._messages or self._bytes + size + stamp_bytes > self._room:
            return False
        if self._parents is not None:
            self._parents += [None] * count
        self.payloads += payloads
        self._bytes += size
        return True

    def fill(self, payloads: Sequence[bytes], ends: Sequence[int], at: int, until: int, stamp_bytes: int) -> int:
        """Adds those of `payloads[at:until]` that fit, all of which name nothing, and says up to which index that was. `ends` has, for each
        payload, how many bytes there are up to its end. The same as `fits` and `add` for one after the other, at the cost of a slice."""
        indexes = range(at, min(until, at + self._messages - len(self.payloads)))
        before = ends[at - 1] if at else 0
        room = self._room - stamp_bytes - self._bytes + before + _MESSAGE_BYTES * at
        last = at + bisect_right(indexes, room, key=lambda index: ends[index] + _MESSAGE_BYTES * (index + 1))
        if last == at and not self.payloads:
            last = min(at + 1, until)  # an empty batch takes any
        if last > at:
            if self._parents is not None:
                self._parents += [None] * (last - at)
            self.payloads += payloads[at:last]
            self._bytes += ends[last - 1] - before + _MESSAGE_BYTES * (last - at)
        return last

    def close(self, view: int, first: int, stamp: Stamp, now: float) -> Batch:
        """The batch, which begins with number `first`; the next one begins empty."""
        if self._parents is None and not self._guests:
            payloads, self.payloads, self._bytes = self.payloads, [], 0
            return Batch(self._group, self._me, view, first, tuple(payloads), None, stamp, now)
        batch = Batch.compose(self._group, self._me, view, first, self.payloads, self._parents, stamp, now, self._after, self._guests)
        self._begin()
        return batch


def _guest_bytes(guest: tuple[MemberId, int]) -> int:
    return _NAME_BYTES + len(guest[0].encode())
