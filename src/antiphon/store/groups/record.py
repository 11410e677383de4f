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
| claimed    | a newcomer whose name a member has   | the same            | the same     | the same          |
| refuted    | the member with that name            | the same            | the same     | the same          |
| replaced   | a newcomer whose claim has no answer | it for that member  | none         | and both          |

A record is **stable** when all members have read it; the makers of the next change are then counted anew. A change waits a while for that,
then happens anyway. A group with no members is deleted. Who sees a partition does not empty the record and add itself, which would erase
those who did the same before it: the first starts a new epoch of those who are there, and whoever was left out of it adds itself again.

**Names.** A node name has one member. A newcomer whose name is held writes a claim into the record. A live holder sees the record change
and refutes the claim at once. A holder that does not answer in time is replaced, in the same change that admits the newcomer. All three are
compare-and-set on one record: either the refutation comes first and the newcomer is refused, or the replacement comes first and the holder
finds that it is out. There is one claim per name: a later one supersedes it.
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
    claims: Members = ()
    """Newcomers that wait for the holder of their node name to answer; one per name, and only for names that a member holds."""

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
    """Remove a member, or withdraw the claim of a newcomer; None when it was the last member."""
    if member not in record.members:
        return _with_claims(record, (claim for claim in record.claims if claim != member))
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


def holders(record: GroupRecord, member: MemberId) -> Members:
    """Return the other members with the node name of `member`."""
    name = name_of(member)
    return tuple(other for other in record.members if other != member and name_of(other) == name)


def rival(record: GroupRecord, member: MemberId) -> MemberId | None:
    """Return the newcomer that claims the node name of `member`, unless that is `member` itself."""
    name = name_of(member)
    return next((claim for claim in record.claims if claim != member and name_of(claim) == name), None)


def claimed(record: GroupRecord, member: MemberId) -> GroupRecord:
    """Claim the node name of `member` from the member that holds it."""
    if member in record.claims or not holders(record, member):
        return record
    return _with_claims(record, (*_other_names(record.claims, member), member))


def refuted(record: GroupRecord, member: MemberId) -> GroupRecord:
    """Answer the claim on the node name of `member`, which is alive."""
    return record if rival(record, member) is None else _with_claims(record, _other_names(record.claims, member))


def replaced(record: GroupRecord, member: MemberId) -> GroupRecord:
    """Admit `member` in the place of the members with its node name."""
    gone = holders(record, member)
    stay = tuple(other for other in record.members if other not in gone and other != member)
    return _with_claims(_next(record, (*stay, member), (*gone, member)), _other_names(record.claims, member))


def _other_names(claims: Members, member: MemberId) -> Members:
    name = name_of(member)
    return tuple(claim for claim in claims if name_of(claim) != name)


def _with_claims(record: GroupRecord, claims: Iterable[MemberId]) -> GroupRecord:
    kept = tuple(claims)
    return record if kept == record.claims else structs.replace(record, claims=kept)


def _next(record: GroupRecord, members: Members, moved: Members) -> GroupRecord:
    before = () if record.stable else record.makers
    makers = (*before, *(member for member in moved if member not in before))
    claims = record.claims
    if claims:
        held = {name_of(member) for member in members}
        claims = tuple(claim for claim in claims if name_of(claim) in held)
    return structs.replace(record, epoch=record.epoch + 1, members=members, readers=(), makers=makers, sides=(), claims=claims)


encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(GroupRecord)


def decode(data: bytes) -> GroupRecord:
    """Raises ValueError for bytes that are no record."""
    return _decoder.decode(data)
