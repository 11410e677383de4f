"""When the memberships of a node want their tick, so that a turn costs nothing for those that are idle.

Every membership is entered at its deadline or before. A deadline that moved later is noticed when its entry comes up, and entered anew.
Keeps one entry that counts per membership. Cost: O(log n) for n memberships when a deadline moves nearer, a comparison otherwise.
"""

from __future__ import annotations

import heapq

from antiphon.model.ids import GroupId
from antiphon.protocol.membership.membership import Membership
from antiphon.protocol.timers import NEVER


class Agenda:
    def __init__(self, memberships: dict[GroupId, Membership]) -> None:
        """`memberships` are those of the node, now and later."""
        self._memberships = memberships
        self._heap: list[tuple[float, GroupId]] = []
        self.quiet_until = NEVER
        """Nobody wants a tick before this, perhaps not even then: an entry that is out of date is mended when it comes up."""
        self._noted: dict[GroupId, float] = {}
        """The entry of each that counts."""

    def note(self, member: Membership) -> None:
        """The member's deadline may have moved."""
        when, endpoint = member.port.timers.quiet_until, member.endpoint
        if endpoint is not None and endpoint.context.timers.quiet_until < when:
            when = endpoint.context.timers.quiet_until
        if when < self._noted.get(member.group, NEVER):
            self._noted[member.group] = when
            heapq.heappush(self._heap, (when, member.group))
            self.quiet_until = self._heap[0][0]

    def due(self, now: float) -> list[Membership]:
        """Takes out those that want their tick now, in the order of their deadlines."""
        members, heap = [], self._heap
        while heap and heap[0][0] <= now:
            when, group = heapq.heappop(heap)
            if self._noted.get(group) == when:
                del self._noted[group]
                member = self._memberships.get(group)
                if member is not None and (deadline := member.deadline) is not None:
                    if deadline <= now:
                        members.append(member)
                    else:
                        self.note(member)
        self.quiet_until = heap[0][0] if heap else NEVER
        return members
