"""What a node has heard about groups: known, rejected, ended.

Two hints about one group become one: who left in either has left; the newer view says who is there; hints of the same view add up, as
they are parts of one list. Of an older view only the teller is kept: it speaks, so it is a living contact.

A group that has ended is remembered, so that what others still believe does not bring it back. Only a newer view does (the end was
that of one side of a partition), or, when no frame from before the end can be under way any more, a member's own word (the group has been
founded again under the same id), or much later anybody's.

Keeps at most `KNOWN_LIMIT` groups of each sort and `SEATS_LIMIT` seats in all; those not heard of for longest are forgotten first.
Cost: O(members) for a hint that says something new, a comparison for one that does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from antiphon.model.control import GroupInfo
from antiphon.model.ids import ID_LIMIT, Address, GroupId, MemberId
from antiphon.model.view import MEMBER_LIMIT

KNOWN_LIMIT = 1_024
SEATS_LIMIT = 65_536
ADDRESS_LIMIT = 256
"""Characters in an address."""
ENDED_S = 5.0
"""By then no frame that was sent before the end of a group is under way."""
HEARSAY_S = 600.0
"""By then nobody should be telling others of a group that ended."""


class Hints:
    def __init__(self) -> None:
        self._info_by_group: dict[GroupId, GroupInfo] = {}
        self._rejected: dict[GroupId, None] = {}
        self._ended: dict[GroupId, tuple[int, float]] = {}
        """The last view of a group, and when its end was heard."""
        self._told_by_member_at: dict[GroupId, float] = {}
        """When one of its own members last told of a group, of the groups that are known."""
        self._seats = 0
        self.changes = 0
        """Goes up whenever what is known changes."""

    def __iter__(self) -> Iterator[GroupInfo]:
        return iter(self._info_by_group.values())

    def __len__(self) -> int:
        return len(self._info_by_group)

    def __contains__(self, group: GroupId) -> bool:
        return group in self._info_by_group

    @property
    def rejected(self) -> Iterable[GroupId]:
        """The groups that this node wants to hear no more of."""
        return self._rejected.keys()

    def believes(self, now: float, info: GroupInfo, first_hand: bool) -> bool:
        """Whether a hint counts: it is about a group that is neither rejected nor, as far as is known, ended."""
        if info.id in self._rejected or not sound(info):
            return False
        view, at = self._ended.get(info.id, (-1, now))
        return info.view > view or now - at >= (ENDED_S if first_hand else HEARSAY_S)

    def learn(self, info: GroupInfo, teller: Address | None) -> bool:
        """Takes a believed hint; whether its group was not known. `teller` is where it came from."""
        self._ended.pop(info.id, None)
        known = self._info_by_group.pop(info.id, None)
        merged = info if known is None or known == info else merge(known, info, teller)
        self.changes += merged != known
        # Taken out and put back: the dictionary's order is that of the last news.
        self._info_by_group[info.id] = merged
        self._seats += _weight(merged) - (_weight(known) if known else 0)
        while len(self._info_by_group) > KNOWN_LIMIT or (self._seats > SEATS_LIMIT and len(self._info_by_group) > 1):
            self.forget(next(iter(self._info_by_group)))
        return known is None

    def confirm(self, now: float, group: GroupId) -> None:
        """Note that one of its own members tells of a known group now."""
        if group in self._info_by_group:
            self._told_by_member_at[group] = now

    def is_confirmed(self, group: GroupId, since: float) -> bool:
        """Whether one of its own members has told of a group since then."""
        return self._told_by_member_at.get(group, float("-inf")) >= since

    def forget(self, group: GroupId) -> bool:
        """Forgets a group as if it had never been heard of; whether it was known."""
        self._told_by_member_at.pop(group, None)
        info = self._info_by_group.pop(group, None)
        if info is not None:
            self.changes += 1
            self._seats -= _weight(info)
        return info is not None

    def reject(self, group: GroupId) -> None:
        self.forget(group)
        self._rejected[group] = None
        if len(self._rejected) > KNOWN_LIMIT:
            del self._rejected[next(iter(self._rejected))]

    def reconsider(self) -> None:
        """Nothing is rejected any more."""
        self._rejected.clear()

    def end(self, now: float, group: GroupId, view: int) -> bool:
        """A group has ended with `view`; whether it was known and is not any more."""
        known = self._info_by_group.get(group)
        if known is not None and known.view > view:
            return False
        self._ended.pop(group, None)
        self._ended[group] = (view, now)
        if len(self._ended) > KNOWN_LIMIT:
            del self._ended[next(iter(self._ended))]
        return self.forget(group)


def merge(known: GroupInfo, info: GroupInfo, teller: Address | None = None) -> GroupInfo:
    """What two hints about one group say together; the known one when they would leave nobody."""
    left = tuple(dict.fromkeys((*known.left, *info.left)))[-MEMBER_LIMIT:]
    gone = set(left)
    if info.view > known.view:
        seats = info.members
    elif info.view == known.view:
        seats = (*known.members, *info.members)
    else:
        seats = (*known.members, *(seat for seat in info.members if seat[1] == teller))
    # The last word on where a member is counts, at the place where it was first named.
    address_by_member: dict[MemberId, Address] = {member: address for member, address in seats if member not in gone}
    if not address_by_member:
        return known
    newest = info if info.view >= known.view else known
    members = tuple(address_by_member.items())[:MEMBER_LIMIT]
    promises = newest.promises or known.promises or info.promises
    return GroupInfo(known.id, newest.description, newest.options, newest.view, members, left, promises)


def sound(info: GroupInfo) -> bool:
    """Whether a hint can be true: it names somebody, and nothing in it is longer than it may be."""
    return (
        0 < len(info.id) <= ID_LIMIT
        and len(info.members) > 0
        and all(0 < len(member) <= ID_LIMIT and 0 < len(address) <= ADDRESS_LIMIT for member, address in info.members)
        and all(0 < len(member) <= ID_LIMIT for member in info.left)
    )


def _weight(info: GroupInfo) -> int:
    return len(info.members) + len(info.left)
