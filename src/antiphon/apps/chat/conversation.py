"""A conversation as a tree: each line under the one that it answers, threads in the order in which they began.

Promised: the tree is a function of the lines alone. Whatever the order in which they arrive (live, from the past, from the other side of
a partition), everybody who has the same lines sees the same tree: siblings are ordered by when they were sent, then by who sent them. A
line whose parent is not here is a thread of its own, marked, and moves under its parent if that comes. Notices (who came, who left) stand
between the threads and are one reader's own.

Kept: at most `limit` entries. Above it the threads that have been quiet longest are forgotten, a tenth of the limit at once; of a thread
that is more than half of everything only the first lines are. `forgotten` counts the lines.

Cost: a line is placed in O(log siblings + depth of the thread before it), about 10 µs; forgetting costs O(limit), shared by the lines that
made it necessary.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator
from operator import attrgetter

from antiphon.apps.chat.entries import BEHIND_ALL, Entry, Line, Notice, Placement, subtree
from antiphon.apps.chat.names import Names
from antiphon.model.ids import MemberId, MessageId

LINES = 10_000
"""How many entries a conversation keeps."""

_key = attrgetter("key")


class Conversation:
    def __init__(self, me: MemberId, limit: int = LINES) -> None:
        """`me` is whose lines need not be read."""
        self.me, self.limit = me, limit
        self.names = Names()
        self.threads: list[Entry] = []
        """First lines and notices, in their order."""
        self.unread = 0
        self.forgotten = 0
        """Lines that were here and are no longer."""
        self._line_by_id: dict[MessageId, Line] = {}
        self._orphans_by_parent: dict[MessageId, list[Line]] = {}
        self._quiet_first: dict[Entry, None] = {}
        """The threads, those first where nothing happened for longest."""
        self._notices = 0
        self._count = 0
        self._latest = 0.0
        self.names.meet(me)

    def __len__(self) -> int:
        """How many lines are here."""
        return len(self._line_by_id)

    def __getitem__(self, id: MessageId) -> Line:
        return self._line_by_id[id]

    def __contains__(self, id: object) -> bool:
        return id in self._line_by_id

    # -- adding ----------------------------------------------------------------------------------------------------------------

    def add(self, line: Line, *, read: bool = False) -> Placement | None:
        """Puts a line in its place; None for one that is here already. `read` says that it is no news."""
        if line.id in self._line_by_id:
            return None
        self._line_by_id[line.id] = line
        self._count += 1
        self._latest = max(self._latest, line.key[0])
        self.names.meet(line.author)
        if not read and line.id.sender != self.me:
            line.unread, line.news = True, 1
            self.unread += 1
        parent = None if line.answers is None else self._line_by_id.get(line.answers)
        if parent is line:
            line.answers = parent = None  # only somebody hostile answers himself: it is a line like any other
        if parent is None:
            self._begin_thread(line)
        else:
            self._hang(line, parent)
        adopted = tuple(orphan for orphan in self._orphans_by_parent.pop(line.id, ()) if self._adopt(orphan, line))
        self._quiet_first.pop(line.thread, None)
        self._quiet_first[line.thread] = None
        return Placement(line, adopted, self._forget())

    def note(self, text: str, kind: str, now: float) -> Placement:
        """Puts a notice behind everything that is here."""
        self._notices += 1
        self._count += 1
        self._latest = max(self._latest, now)
        notice = Notice(text, kind, now, (self._latest, BEHIND_ALL, self._notices))
        insort(self.threads, notice, key=_key)
        self._quiet_first[notice] = None
        return Placement(notice, (), self._forget())

    def _begin_thread(self, line: Line) -> None:
        insort(self.threads, line, key=_key)
        if line.answers is not None:
            self._orphans_by_parent.setdefault(line.answers, []).append(line)

    def _hang(self, line: Line, parent: Line) -> None:
        insort(parent.children, line, key=_key)
        line.parent = parent
        thread = parent.thread
        for each in subtree(line):
            each.thread = thread
            each.depth = 0 if each.parent is None else each.parent.depth + 1
        thread.size += line.size
        thread.news += line.news

    def _adopt(self, orphan: Line, parent: Line) -> bool:
        if parent.thread is orphan:
            # Two lines that answer each other, which no honest member can send: one stays where it is.
            orphan.answers = None
            return False
        del self.threads[bisect_left(self.threads, orphan.key, key=_key)]
        self._quiet_first.pop(orphan, None)
        orphan.folded = False
        self._hang(orphan, parent)
        return True

    # -- forgetting ------------------------------------------------------------------------------------------------------------

    def _forget(self) -> bool:
        """Makes room; whether anything was forgotten."""
        if self._count <= self.limit:
            return False
        room = self.limit - self.limit // 10
        while (spare := self._count - room) > 0:
            quiet = next(iter(self._quiet_first))
            if isinstance(quiet, Line) and quiet.size > max(spare, self.limit // 2):
                self._forget_first_lines(quiet, spare)
            else:
                self._forget_thread(quiet)
        # Who has no line here any more and is still in the group is met again.
        self.names.keep({line.author for line in self._line_by_id.values()} | {self.me})
        return True

    def _forget_thread(self, thread: Entry) -> None:
        del self._quiet_first[thread]
        del self.threads[bisect_left(self.threads, thread.key, key=_key)]
        if isinstance(thread, Line):
            self._stop_waiting(thread)
            for line in list(subtree(thread)):
                self._drop(line)
        else:
            self._count -= 1

    def _forget_first_lines(self, thread: Line, count: int) -> None:
        """Forgets `count` lines of a thread, each before its answers; answers that stay begin threads of their own."""
        self._stop_waiting(thread)
        del self._quiet_first[thread]
        del self.threads[bisect_left(self.threads, thread.key, key=_key)]
        level = deque((thread,))
        while level and count:
            line = level.popleft()
            count -= 1
            level.extend(line.children)
            self._drop(line)
        for line in sorted(level, key=_key):
            line.parent = None
            lines = list(subtree(line))
            for each in lines:
                each.thread = line
                each.depth = 0 if each.parent is None else each.parent.depth + 1
            line.size, line.news = len(lines), sum(each.unread for each in lines)
            self._begin_thread(line)
            self._quiet_first[line] = None

    def _drop(self, line: Line) -> None:
        del self._line_by_id[line.id]
        self._count -= 1
        self.forgotten += 1
        self.unread -= line.unread

    def _stop_waiting(self, thread: Line) -> None:
        waiting = None if thread.answers is None else self._orphans_by_parent.get(thread.answers)
        if waiting is not None and thread.answers is not None:
            waiting.remove(thread)
            if not waiting:
                del self._orphans_by_parent[thread.answers]

    # -- reading ---------------------------------------------------------------------------------------------------------------

    def entries(self) -> Iterator[Entry]:
        """Everything that is shown, from top to bottom."""
        for thread in self.threads:
            yield from self.shown_from(thread)

    def shown_from(self, entry: Entry) -> Iterator[Entry]:
        """An entry and what is shown under it."""
        if isinstance(entry, Notice) or (entry.thread is entry and entry.folded):
            yield entry
        elif entry.shown:
            yield from subtree(entry)

    def before(self, entry: Entry) -> Entry | None:
        """The entry that is shown right before this one; None for the first."""
        siblings: list[Entry] | list[Line] = self.threads
        parent = entry.parent if isinstance(entry, Line) else None
        if parent is not None:
            siblings = parent.children
        place = bisect_left(siblings, entry.key, key=_key)
        if place == 0:
            return parent
        last: Entry = siblings[place - 1]
        while isinstance(last, Line) and last.children and not (last.thread is last and last.folded):
            last = last.children[-1]
        return last

    def see(self, line: Line) -> bool:
        """The line has been read; whether it was news."""
        if not line.unread:
            return False
        line.unread = False
        line.thread.news -= 1
        self.unread -= 1
        return True

    def next_unread(self, after: Entry | None = None) -> Line | None:
        """The next line below `after` that has not been read, folded threads included; from the top when there is none below."""
        if not self.unread:
            return None
        first, passed = None, after is None
        for thread in self.threads:
            for entry in subtree(thread) if isinstance(thread, Line) else (thread,):
                if isinstance(entry, Line) and entry.unread:
                    if passed:
                        return entry
                    first = first or entry
                passed = passed or entry is after
        return first
