"""A list of groups as frames, none larger than a frame may be.

A group with more members than fit is told in parts, each with the group's description and some of its members; whoever hears them adds
them up. Every part names at least one member, since a hint that names nobody is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from antiphon.model import codec
from antiphon.model.control import GROUPS_LIMIT, GroupInfo, Groups, Seat
from antiphon.model.ids import MemberId

_SEAT_BYTES = 8
"""More than a seat takes beside its id and address."""
_SPREAD_BYTES = 48
"""More than the numbers of a frame and the lengths of its lists can take above what they take when empty."""


def group_list(node: MemberId, infos: Iterable[GroupInfo], frame_bytes: int, question: int = 0) -> list[Groups]:
    """The frames that tell these groups; one empty frame for none."""
    room = frame_bytes - len(codec.encode(Groups(node, ()))) - _SPREAD_BYTES
    lists: list[list[GroupInfo]] = [[]]
    free = room
    for part in (part for info in infos for part in _parts(info, room)):
        size = _size(part)
        if lists[-1] and (size > free or len(lists[-1]) >= GROUPS_LIMIT):
            lists.append([])
            free = room
        lists[-1].append(part)
        free -= size
    return [Groups(node, tuple(parts), question, False, index, len(lists)) for index, parts in enumerate(lists)]


def _parts(info: GroupInfo, room: int) -> Iterator[GroupInfo]:
    if _size(info) <= room:
        yield info
        return
    bare = room - _size(msgspec.structs.replace(info, members=(), left=()))
    rest: list[Seat | MemberId] = [*info.members, *info.left]
    while rest:
        free = bare
        # A part with left members alone would name nobody who is there.
        part = [] if isinstance(rest[0], tuple) else [info.members[0]]
        free -= sum(map(_weight, part))
        taken = 0
        while taken < len(rest) and (taken == 0 or _weight(rest[taken]) <= free):
            free -= _weight(rest[taken])
            taken += 1
        named = [*part, *rest[:taken]]
        del rest[:taken]
        members = tuple(entry for entry in named if isinstance(entry, tuple))
        left = tuple(entry for entry in named if not isinstance(entry, tuple))
        yield msgspec.structs.replace(info, members=members, left=left)


def _size(info: GroupInfo) -> int:
    return len(msgspec.msgpack.encode(info))


def _weight(entry: Seat | MemberId) -> int:
    return _SEAT_BYTES + (sum(len(text.encode()) for text in entry) if isinstance(entry, tuple) else len(entry.encode()))
