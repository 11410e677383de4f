"""When the memberships of a node want their tick, so that a turn costs nothing for those that are idle.

Every membership is entered at its deadline or before. A deadline that moved later is noticed when its entry comes up, and entered anew.
Keeps one entry that counts per membership. Cost: O(log n) for n memberships when a deadline moves nearer, a comparison otherwise.
"""

from __future__ import annotations

import heapq

from antiphon.model.ids import GroupId
from antiphon.protocol.membership.membership import Membership


class Agenda:
    def __init__(self, memberships: dict[GroupId, Membership]) -> None:
        """`memberships` are those of the node, now and later."""
        self._memberships = memberships
        self._heap: list[tuple[float, GroupId]] = []
        self._noted: dict[GroupId, float] = {}
        """The entry of each that counts."""

    def note(self, member: Membership) -> None:
        """The member's deadline may have moved."""
        deadline, noted = member.deadline, self._noted.get(member.group)
        if deadline is not None and (noted is None or deadline < noted):
            self._noted[member.group] = deadline
            heapq.heappush(self._heap, (deadline, member.group))

    @property
    def deadline(self) -> float | None:
        """When the first wants its tick, or before: an entry that is out of date is mended when it comes up."""
        return self._heap[0][0] if self._heap else None

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
        return members
