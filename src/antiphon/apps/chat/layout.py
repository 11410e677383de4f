"""Which entry of a conversation is at which row, kept while the conversation grows.

Follows the conversation by its placements: what did not move is not touched. Above everything stands a notice when lines were forgotten.
Cost: that of the `Column`, for every entry that comes or moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from antiphon.apps.chat.column import Column
from antiphon.apps.chat.conversation import Conversation
from antiphon.apps.chat.entries import Entry, Line, Notice, Placement, subtree


class Layout(Column[Entry]):
    def __init__(self, conversation: Conversation, height_of: Callable[[Entry], int]) -> None:
        super().__init__(height_of)
        self._conversation = conversation
        self.top = Notice("", "forgotten", 0.0, (float("-inf"), "", 0))
        """Stands first when lines were forgotten."""

    def begin(self) -> None:
        """Everything anew: heights are others, or lines were forgotten."""
        conversation = self._conversation
        if conversation.forgotten:
            self.top.text = f"{conversation.forgotten:,} older lines are not shown any more: {conversation.limit:,} at most are kept here."
            self.fill((self.top, *conversation.entries()))
        else:
            self.fill(conversation.entries())

    def take(self, placements: Sequence[Placement], window: int) -> int:
        """Takes in what has come to the conversation, all of it; returns by how many rows what was at row `window` has moved."""
        if any(placement.everything for placement in placements):
            self.begin()
            return 0
        moved = 0
        # What moves is taken out first. Else an entry could be put behind one that is still where it no longer belongs: the
        # conversation already knows all placements, the column none.
        for placement in placements:
            for orphan in placement.adopted:
                for line in subtree(orphan):
                    if line in self:
                        above = self.row_of(line) < window + moved
                        height = self.remove(line)
                        moved -= height if above else 0
        for placement in placements:
            moved += self._insert(placement.entry, window + moved)
        return moved

    def fold(self, thread: Line, folded: bool) -> None:
        """Shows only the first line of a thread, or all of it."""
        for line in subtree(thread):
            self.remove(line)
        thread.folded = folded
        self._insert(thread, 0)

    def _insert(self, entry: Entry, window: int) -> int:
        """Puts in an entry and what is shown under it, what is not in yet; returns how many rows came before what was at `window`."""
        before = self._conversation.before(entry)
        while before is not None and before not in self:
            before = self._conversation.before(before)  # it comes with a later placement
        after = before or (self.top if self.top in self else None)
        above = 0
        for each in self._conversation.shown_from(entry):
            if each not in self:
                height = self.insert(each, after)
                above += height if self.row_of(each) <= window + above else 0
            after = each
        return above
