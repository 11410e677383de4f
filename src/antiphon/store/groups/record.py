"""The group record: who is in a group on a store, as a pure state machine.

Every function takes a record and returns the next one (None: there is none); the same object when nothing changes, so that all of them can
be repeated. Each change is the next epoch. Written by compare-and-set alone (`register.py`), they happen one after the other.

| transition | by whom                              | members             | readers      | change makers     |
|------------|--------------------------------------|---------------------|--------------|-------------------|
| founded    | the first to join                    | it                  | none         | it                |
| joined     | a newcomer                           | and it              | none         | and it            |
| left       | a member                             | without it          | none         | and it            |
| parted     | the first to see that some are away  | those who are there | none         | and those away    |
| merged     | a member that was away               | and it              | none         | and it            |
| read       | a member that has seen the view      | the same            | and it       | the same          |

A record is **stable** when all members have read it; the makers of the next change are then counted anew. A change waits a while for that,
then happens anyway. A group with no members is deleted. Who sees a partition does not empty the record and add itself, which would erase
those who did the same before it: the first starts a new epoch of those who are there, and whoever was left out of it adds itself again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, structs

from antiphon.model.ids import GroupId, MemberId, name_of
from antiphon.model.view import MEMBER_LIMIT, View

Members = Annotated[tuple[MemberId, ...], Meta(max_length=MEMBER_LIMIT)]
SILENCE_S = 30.0


class GroupRecord(Struct, frozen=True, kw_only=True):
    id: GroupId
    epoch: int
    members: Members
    """In the order in which they came."""
    readers: Members = ()
    """Who has seen this epoch's view."""
    makers: Members = ()
    """Who came or went since the record was last stable."""
    sides: tuple[Members, ...] = ()
    """More than one: this epoch is a merge of these."""
    silence_s: float = SILENCE_S
    """How long a member may be silent before the others put it out."""

    @property
    def name(self) -> str:
        return name_of(self.id)

    @property
    def stable(self) -> bool:
        return len(self.readers) == len(self.members)

    @property
    def view(self) -> View:
        return View(self.epoch, self.members, self.makers)


def founded(group: GroupId, member: MemberId, *, epoch: int = 1, silence_s: float = SILENCE_S) -> GroupRecord:
    """The first member of a group; or one that was away until everybody else had left, and goes on with a later `epoch`."""
    return GroupRecord(id=group, epoch=epoch, members=(member,), makers=(member,), silence_s=silence_s)


def joined(record: GroupRecord, member: MemberId) -> GroupRecord:
    return record if member in record.members else _next(record, (*record.members, member), (member,))


def left(record: GroupRecord, member: MemberId) -> GroupRecord | None:
    """None when it was the last."""
    if member not in record.members:
        return record
    rest = tuple(other for other in record.members if other != member)
    return _next(record, rest, (member,)) if rest else None


def parted(record: GroupRecord, away: Iterable[MemberId]) -> GroupRecord | None:
    """A new epoch without those who are away; None when nobody is there."""
    gone = tuple(member for member in away if member in record.members)
    here = tuple(member for member in record.members if member not in gone)
    if not gone:
        return record
    return _next(record, here, gone) if here else None


def merged(record: GroupRecord, member: MemberId) -> GroupRecord:
    """A member that others have put out is in again."""
    if member in record.members:
        return record
    return structs.replace(_next(record, (*record.members, member), (member,)), sides=(record.members, (member,)))


def read(record: GroupRecord, member: MemberId) -> GroupRecord:
    """A member has seen the view of this epoch."""
    if member in record.readers or member not in record.members:
        return record
    return structs.replace(record, readers=(*record.readers, member))


def _next(record: GroupRecord, members: Members, moved: Members) -> GroupRecord:
    before = () if record.stable else record.makers
    makers = (*before, *(member for member in moved if member not in before))
    return structs.replace(record, epoch=record.epoch + 1, members=members, readers=(), makers=makers, sides=())


encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(GroupRecord)


def decode(data: bytes) -> GroupRecord:
    """Raises ValueError for bytes that are no record."""
    return _decoder.decode(data)
