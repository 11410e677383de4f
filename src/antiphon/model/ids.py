"""Who and which: members, groups and messages.

A member id is a name and a 64-bit random start id, written `ana#7f3a9c01d2e4b588`. The start id is new with every start, so
an id survives nothing and collides never, and no counter has to survive a crash. A group id has the same form. Both are plain
strings: they hash once, sort the same everywhere, and need no table to be read in a trace.

A message id is `(sender, seqno)`; a sender's first message has number 1.
"""

from __future__ import annotations

import random
from typing import NamedTuple, NewType

from antiphon.errors import InvalidName

MemberId = NewType("MemberId", str)
GroupId = NewType("GroupId", str)
Address = NewType("Address", str)
"""Where a node is, as its transport spells it."""

NAME_LIMIT = 64
ID_LIMIT = NAME_LIMIT + 17
"""Characters in a name, and in an id."""
_MARK = "#"


class MessageId(NamedTuple):
    """The identity of a message: equal to, and as cheap as, the tuple `(sender, seqno)`."""

    sender: MemberId
    seqno: int

    def __str__(self) -> str:
        return f"{name_of(self.sender)}:{self.seqno}"


def new_member_id(name: str, rng: random.Random) -> MemberId:
    return MemberId(_new_id(name, rng))


def new_group_id(name: str, rng: random.Random) -> GroupId:
    return GroupId(_new_id(name, rng))


def name_of(member: str) -> str:
    """The name in a member or group id."""
    return member.partition(_MARK)[0]


def _new_id(name: str, rng: random.Random) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidName(name, "it is empty")
    if len(name) > NAME_LIMIT:
        raise InvalidName(name, f"it is longer than {NAME_LIMIT} characters")
    if _MARK in name or not name.isprintable() or name != name.strip():
        raise InvalidName(name, f"it contains {_MARK!r}, unprintable characters, or spaces at an end")
    return f"{name}{_MARK}{rng.getrandbits(64):016x}"
