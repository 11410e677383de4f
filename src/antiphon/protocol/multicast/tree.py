"""tree: a frame travels down a k-ary tree rooted at its sender, computed by every member from the view alone.

Members stand in the view's order, rotated so that the sender has position 0; position p sends on to positions k·p+1 … k·p+k that
exist. A batch costs n − 1 frames for n members, at most k of them sent by any one. An inner member that is down costs its subtree
no message: repair as in `reliable`.
"""

from __future__ import annotations

from antiphon.model.ids import MemberId
from antiphon.model.view import View
from antiphon.protocol.multicast.reliable import Reliable
from antiphon.protocol.multicast.stream import Stream
from antiphon.protocol.stage import Context, OnAccept, Ordering


def children(member: int, root: int, members: int, fanout: int) -> list[int]:
    """To whom member number `member` sends on what member number `root` sent, in a view of `members`."""
    position = (member - root) % members
    lowest = fanout * position + 1
    return [(child + root) % members for child in range(lowest, min(lowest + fanout, members))]


def parent(member: int, root: int, members: int, fanout: int) -> int:
    """Return the number of the member that forwards to number `member` what number `root` sent; `root` itself for its own messages."""
    position = (member - root) % members
    return (max(position - 1, 0) // fanout + root) % members


class Tree(Reliable):
    forwards = True

    def __init__(self, context: Context, ordering: Ordering, on_accept: OnAccept | None) -> None:
        self._targets_by_root: dict[MemberId, tuple[MemberId, ...]] = {}
        self._bringers_by_root: dict[MemberId, MemberId] = {}
        super().__init__(context, ordering, on_accept)

    def targets(self, origin: MemberId) -> tuple[MemberId, ...]:
        targets = self._targets_by_root.get(origin)
        if targets is None:
            members = self.context.view.members
            ranks = children(self.mine.index, self.data[origin].index, len(members), self.context.options.fanout)
            targets = self._targets_by_root[origin] = tuple(members[rank] for rank in ranks)
        return targets

    def bringer(self, stream: Stream) -> MemberId:
        bringer = self._bringers_by_root.get(stream.sender)
        if bringer is None:
            members, root = self.context.view.members, self.data[stream.sender].index
            above = parent(self.mine.index, root, len(members), self.context.options.fanout)
            bringer = self._bringers_by_root[stream.sender] = members[above]
        return bringer

    def forward(self, stream: Stream, wire: bytes, source: MemberId | None) -> None:
        self.put_on_its_way(stream.sender, wire)

    def on_view(self, view: View, starts: dict[MemberId, int]) -> None:
        self._targets_by_root.clear()
        self._bringers_by_root.clear()
        super().on_view(view, starts)
