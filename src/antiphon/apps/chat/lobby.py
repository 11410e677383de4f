"""The groups of a chat: those this node is in, each a room, and those it has heard of.

Every chat group is ordered semantically and repaired, carries `ChatLine`s, and gives newcomers everything that is kept. A group is found by
its name; whoever finds nobody founds it, and founders that meet later become one group. Keeps at most `ROOMS` rooms.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from antiphon.api import Group, Node
from antiphon.apps.chat.entries import Placement
from antiphon.apps.chat.harmless import harmless
from antiphon.apps.chat.line import ChatLine
from antiphon.apps.chat.room import NAME_SHOWN, Room, Tell
from antiphon.errors import AntiphonError, JoinFailed, TimedOut, UsageError
from antiphon.model.control import GroupInfo
from antiphon.model.ids import GroupId, name_of, new_group_id

ROOMS = 64
ORDER, MULTICAST = "semantic", "reliable"
_DESCRIPTION_SHOWN = 60
_LEAVE_S = 5.0
_LOOK_S = 3.0
"""How long a group that this node has not heard of is looked for."""
_ANSWERS = 3
"""How many times `answer_s` others get to say what they know of a group."""


class Sight(NamedTuple):
    """A group as it is listed. `unread` is None for one that this node is not in."""

    id: GroupId
    name: str
    about: str
    members: int
    unread: int | None

    @property
    def joined(self) -> bool:
        return self.unread is not None


class Lobby:
    def __init__(self, node: Node, tell: Tell | None = None) -> None:
        """`node` is started; `tell` is told of everything that happens in the rooms."""
        self.node = node
        self.tell = tell
        self._rooms: dict[GroupId, Room] = {}

    @property
    def rooms(self) -> list[Room]:
        """In the order in which they were entered."""
        return list(self._rooms.values())

    def room(self, id: GroupId) -> Room | None:
        return self._rooms.get(id)

    def groups(self) -> list[Sight]:
        """Rooms first, then what was heard of, by name."""
        members_by_group = {info.id: len(info.members) for info in self.node.groups()}
        inside = [
            Sight(room.id, room.name, "", len(room.members) if room.open else 0, room.conversation.unread) for room in self._rooms.values()
        ]
        outside = [
            Sight(info.id, harmless(name_of(info.id), NAME_SHOWN), _about(info), members_by_group[info.id], None)
            for info in self.node.groups()
            if info.id not in self._rooms
        ]
        return [*inside, *sorted(outside, key=lambda sight: (sight.name, sight.id))]

    # -- coming and going --------------------------------------------------------------------------------------------------------

    async def found(self, name: str) -> Room:
        """Founds a group. Raises UsageError if one of the name is known: it can be joined."""
        if any(name_of(info.id) == name.strip() for info in self.node.groups()):
            raise UsageError(f"there is a group {harmless(name, NAME_SHOWN)} already: join it, or choose another name")
        return await self.join(name, found=True)

    async def join(self, group: str, *, found: bool = False, timeout: float | None = None) -> Room:
        """Joins a group by name or id, and with `found` founds it where nobody has. A room that is open already is returned."""
        group = group.strip()
        for room in self._rooms.values():
            if room.open and group in (room.id, room.group.name):
                return room
        self._make_room()
        options: dict[str, Any] = {}
        if found:
            new_group_id(group, random.Random(0))  # raises InvalidName for what can be no group's
            options = {"create": True, "order": ORDER, "multicast": MULTICAST}
        known = found or self._knows(group)
        try:
            # A name that was typed and is not known is looked for only briefly: it may be misspelt.
            limit_s = timeout if known else min(_LOOK_S, timeout or _LOOK_S)
            entered = await self.node.join(group, type=ChatLine, history="all", timeout=limit_s, **options)
        except TimedOut:
            if known or self._knows(group):
                raise
            why = "no group of this name was heard of: create it, or join one of the groups that are listed"
            raise JoinFailed(group, self.node.explain(why)) from None
        except JoinFailed:
            if not self._knows(group):
                raise
            # What this node knows of the group is of another day: it is asked anew who is there.
            self.node.advertise()
            await asyncio.sleep(_ANSWERS * self.node.settings.answer_s)
            entered = await self.node.join(group, type=ChatLine, history="all", timeout=timeout, **options)
        return self._enter(entered)

    def _knows(self, group: str) -> bool:
        return any(group in (info.id, name_of(info.id)) for info in self.node.groups())

    async def leave(self, room: Room) -> None:
        """Leaves a group; its conversation is gone from here."""
        self._rooms.pop(room.id, None)
        try:
            if room.open:
                await room.leave()
        finally:
            await room.close()
        self.node.advertise()  # of groups that one is in others do not tell: this one may have changed since

    def reject(self, group: GroupId) -> None:
        """Does not want to hear of a group."""
        self.node.reject(group)

    async def close(self) -> None:
        """Leaves all groups, as far as others let it in time."""
        rooms, self.tell = self.rooms, None
        leaving = [asyncio.ensure_future(self.leave(room)) for room in rooms]
        if leaving:
            _, late = await asyncio.wait(leaving, timeout=_LEAVE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*leaving, return_exceptions=True)

    def check(self) -> None:
        """Raises what went wrong with reading a room, if anything did."""
        for room in self._rooms.values():
            room.check()

    def _make_room(self) -> None:
        if len(self._rooms) >= ROOMS:
            raise UsageError(f"a chat is in at most {ROOMS} groups: leave one first")

    def _enter(self, group: Group) -> Room:
        room = self._rooms[group.id] = Room(group, self.node.now, self._told)
        return room

    def _told(self, room: Room, placements: Sequence[Placement]) -> None:
        if self.tell is not None and self._rooms.get(room.id) is room:  # who leaves knows it
            self.tell(room, placements)


def sentence(error: AntiphonError) -> str:
    """What went wrong, fit for a terminal: errors may quote what others have sent."""
    return harmless(str(error), 400)


def _about(info: GroupInfo) -> str:
    return "" if info.description == name_of(info.id) else harmless(info.description, _DESCRIPTION_SHOWN)
