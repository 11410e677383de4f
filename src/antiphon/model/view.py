"""A view: who is in the group now, in which order.

The order of `members` is part of the view: ranks index digests and clocks, the first member is the sequencer of total order,
and trees are computed over it. Larger ids are later views. So that two sides of a partition never choose the same id, an id is
a counter and a random tag: `counter << 32 | tag`; people are shown the counter. Ids below `1 << 32` are counters alone.
"""

from __future__ import annotations

from msgspec import Struct

from antiphon.errors import InvalidOption
from antiphon.model.ids import MemberId, name_of

MEMBER_LIMIT = 4_096


TAG_BITS = 32


class View(Struct, frozen=True):
    """`makers` are those whose coming or going made this view."""

    id: int
    members: tuple[MemberId, ...]
    makers: tuple[MemberId, ...] = ()

    def __post_init__(self) -> None:
        if not self.members or len(set(self.members)) != len(self.members):
            raise InvalidOption("members", self.members, "a view needs at least one member, and each only once")
        if len(self.members) > MEMBER_LIMIT:
            raise InvalidOption("members", len(self.members), f"a view holds at most {MEMBER_LIMIT:,} members")

    def rank(self, member: MemberId) -> int:
        """The member's place in the view; ValueError when it is not in it."""
        return self.members.index(member)

    @property
    def majority(self) -> int:
        """How many members are more than half."""
        return len(self.members) // 2 + 1

    @property
    def number(self) -> int:
        """The counter in the id, for people: two sides of a partition may have different views of one number."""
        return self.id >> TAG_BITS or self.id

    def __contains__(self, member: object) -> bool:
        return member in self.members

    def __str__(self) -> str:
        return f"view {self.number} [{' '.join(name_of(member) for member in self.members)}]"
