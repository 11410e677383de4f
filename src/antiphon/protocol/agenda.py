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

    def note(self, member: Membership, when: float) -> None:
        """The member wants its tick then, or later: sooner than it is `noted`."""
        member.noted = when
        heapq.heappush(self._heap, (when, member.group))
        self.quiet_until = self._heap[0][0]

    def due(self, now: float) -> list[Membership]:
        """Takes out those that want their tick now, in the order of their deadlines."""
        members, heap = [], self._heap
        while heap and heap[0][0] <= now:
            when, group = heapq.heappop(heap)
            member = self._memberships.get(group)
            if member is not None and member.noted == when:
                member.noted = NEVER
                if (deadline := member.deadline) is not None:
                    if deadline <= now:
                        members.append(member)
                    else:
                        self.note(member, deadline)
        self.quiet_until = heap[0][0] if heap else NEVER
        return members
