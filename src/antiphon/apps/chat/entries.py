"""What a conversation is made of: lines, and notices between them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from antiphon.model.ids import MemberId, MessageId

Key: TypeAlias = tuple[float, str, int]
"""The place among siblings: when it was sent, by whom, which of theirs."""
BEHIND_ALL = "\U0010ffff"
"""In the place of a sender, comes after every sender."""


class Line:
    """One line. The first group of fields is what came, the second is its place in the tree, which the conversation keeps."""

    __slots__ = (
        *("answers", "at", "author", "guest", "id", "key", "late", "lost", "readable", "text"),
        *("children", "depth", "folded", "news", "parent", "size", "thread", "unread"),
    )

    def __init__(
        self,
        id: MessageId,
        text: str,
        sent_at: float,
        *,
        at: float | None = None,
        author: MemberId | None = None,
        answers: MessageId | None = None,
        lost: bool = False,
        late: bool = False,
        readable: bool = True,
    ) -> None:
        """`lost` says that nobody has any more what it answers; `late` that it came by synchronisation; not `readable` is what was no
        chat line."""
        self.id, self.text, self.answers = id, text, answers
        self.at = sent_at if at is None else at
        self.author = id.sender if author is None else author
        self.guest = self.author != id.sender
        self.lost, self.late, self.readable = lost, late, readable
        self.key: Key = (sent_at if math.isfinite(sent_at) else 0.0, id.sender, id.seqno)

        self.parent: Line | None = None
        self.children: list[Line] = []
        self.depth = 0
        self.thread: Line = self
        self.unread = False
        # Of the first line of a thread: how many lines and how many unread ones are in it, and whether only the first is shown.
        self.size, self.news, self.folded = 1, 0, False

    @property
    def orphan(self) -> bool:
        """Whether it answers something that is not here."""
        return self.answers is not None and self.parent is None

    @property
    def shown(self) -> bool:
        return self.thread is self or not self.thread.folded

    def __repr__(self) -> str:
        return f"<{self.id}{f' answers {self.answers}' if self.answers else ''}: {self.text!r}>"


class Notice:
    """Something that happened to the group, in one sentence. `kind` is `came`, `left`, `split`, `merge`, `warning`, `private` or `hint`."""

    __slots__ = ("at", "key", "kind", "text")

    def __init__(self, text: str, kind: str, at: float, key: Key) -> None:
        self.text, self.kind, self.at, self.key = text, kind, at, key

    def __repr__(self) -> str:
        return f"<{self.kind}: {self.text!r}>"


Entry: TypeAlias = Line | Notice


class Placement(NamedTuple):
    """Where an entry went: `adopted` are the lines that waited for it and have moved under it; `everything` says that others were
    forgotten, so that nothing is where it was."""

    entry: Entry
    adopted: tuple[Line, ...] = ()
    everything: bool = False


def subtree(line: Line) -> Iterator[Line]:
    """A line and all under it, each before its answers. A loop: a conversation may be deeper than Python's stack."""
    stack = [line]
    while stack:
        line = stack.pop()
        yield line
        stack.extend(reversed(line.children))
