"""Member synchronisation: after a view is installed, every member gets what others have and it lacks, and gives what others lack.

`on_view` tells who came from where; from then on the questions of others are answered. `begin` makes this member ask as well: for the
messages of all other sides, or as a newcomer for what it wants of the past. Everything new is handed to `on_recovered` in an order that
keeps the group's promises; `on_done` is called once, when every other side has said that there is nothing more, or has been given
up. `stop` ends it: the next view begins anew with what is here by then.

Promises that at the end of it all members that stay have the same messages of the epochs that have ended, as far as somebody keeps them;
the rest is told as MissedMessages. Cost: for a side of any size about one question and one answer per chunk of `chunk_bytes`, and one
`answer_s` of waiting for each.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from antiphon.model.control import Side, SyncAgain, SyncAnswer, SyncRequest, Wants
from antiphon.model.frames import Batch
from antiphon.model.ids import MemberId
from antiphon.model.view import View
from antiphon.protocol.membership.port import Port
from antiphon.protocol.sync.answerer import Answerer
from antiphon.protocol.sync.asker import Asker
from antiphon.protocol.sync.history import History
from antiphon.protocol.sync.ledger import Ledger
from antiphon.protocol.sync.question import Arriving

_OVERTAKEN = 4
"""Questions that must come late in a row before the one that overtook them is taken for forged."""


class Sync:
    def __init__(
        self,
        port: Port,
        history: History,
        *,
        on_done: Callable[[], None],
        on_recovered: Callable[[Batch, int, int], None],
        on_lost: Callable[[Ledger], None] = lambda _: None,
    ) -> None:
        """`on_lost` is told of what the application has just been told is lost: nothing need wait for it."""
        self.port = port
        self.active = False
        """Whether this member is catching up."""
        self._on_done = on_done
        self._view = 0
        self._unfinished = False
        """Whether an earlier begin was stopped before it was done."""
        self._asker = Asker(port, history, on_recovered, on_lost, self._done)
        self._answerer = Answerer(port, history)
        self._side_by_member: dict[MemberId, int] = {}
        self._latest_by_member: dict[MemberId, int] = {}
        """The highest number of a question heard from each member in this view."""
        self._overtaken_by_member: dict[MemberId, tuple[int, int]] = {}
        """The last question below that number, and how many of those came in a row, each with a higher number than the one before."""
        self._arriving: dict[MemberId, Arriving] = {}
        """The latest question of each member, as far as it has come. One in parts is kept, because it may be repeated in part."""

    # -- views -----------------------------------------------------------------------------------------------------------------

    def on_view(self, view: View, sides: tuple[Side, ...]) -> None:
        """At every install: `sides` are those that the view was made of, the same tuple at every member."""
        self.stop()
        self._view = view.id
        self._side_by_member = {member: index for index, side in enumerate(sides) for member in side.members}
        self._answerer.begin(sides, self._side_by_member)
        self._asker.begin(sides, self._side_by_member, ())

    def begin(self, view: View, sides: tuple[Side, ...], wants: Wants, needed: tuple[Side, ...] | None = None) -> None:
        """Starts to catch up with the `needed` sides (None: all others). `wants` counts for a newcomer; one that was interrupted goes on
        with what it still wants."""
        if self._view != view.id:
            self.on_view(view, sides)
        if not self._unfinished:
            self._asker.wants = msgspec.structs.replace(wants, before=view.id)
        mine = self._side_by_member.get(self.port.me)
        needed = sides if needed is None else needed
        wanted = tuple(index for index, side in enumerate(sides) if side.view and index != mine and side in needed)
        if self._asker.wants.kind == "last" and (mine is None or not sides[mine].view):
            self._answerer.hollow = True
        self.active = self._unfinished = self._answerer.busy = True
        self._asker.begin(sides, self._side_by_member, wanted)
        if not wanted:
            self._done()

    def stop(self) -> None:
        """The view is ending."""
        self.active = self._answerer.busy = False
        self._asker.stop()
        self._answerer.stop()
        self._arriving.clear()
        self._latest_by_member.clear()
        self._overtaken_by_member.clear()
        self._view = 0

    def _done(self) -> None:
        if self.active:
            self.active = self._unfinished = self._answerer.busy = self._answerer.hollow = False
            self._on_done()

    # -- frames ----------------------------------------------------------------------------------------------------------------

    def receive_request(self, frame: SyncRequest, member: MemberId) -> None:
        """Take a part of a question. A question that was overtaken by a later one is dropped."""
        if frame.view != self._view or member == self.port.me or member not in self._side_by_member:
            self.port.drops["other_view"] += 1
            return
        if frame.number <= self._latest_by_member.get(member, 0) and not self._is_disproved(frame, member):
            self.port.drops["late_question"] += 1
            return
        arriving = self._arriving.get(member)
        if arriving is None or arriving.base != frame.number - frame.attempt or arriving.count != frame.count:
            arriving = self._arriving[member] = Arriving(frame)
        arriving.add(frame)
        if not arriving.whole:
            return
        self._latest_by_member[member] = frame.number
        if arriving.count == 1:
            del self._arriving[member]
        question = arriving.question()
        if question is None:
            self.port.drops["malformed"] += 1
            return
        self._asker.heard(question)
        self._answerer.plan(question)

    def _is_disproved(self, frame: SyncRequest, member: MemberId) -> bool:
        """Whether the highest number heard from a member was forged: the member goes on asking with lower ones."""
        number, count = self._overtaken_by_member.get(member, (0, 0))
        if frame.number > number:
            self._overtaken_by_member[member] = (frame.number, count + 1)
        if count + 1 < _OVERTAKEN or frame.number <= number:
            return False
        del self._overtaken_by_member[member], self._latest_by_member[member]
        self._arriving.pop(member, None)
        return True

    def receive_answer(self, frame: SyncAnswer, member: MemberId) -> None:
        if frame.view != self._view or member not in self._side_by_member:
            self.port.drops["other_view"] += 1
            return
        self._answerer.heard(frame)
        self._asker.take(frame)

    def receive_again(self, frame: SyncAgain, member: MemberId) -> None:
        if frame.view == self._view:
            self._answerer.again(frame)

    def stats(self) -> dict[str, object]:
        """Counters, plain values."""
        return {
            "sync_questions": self._asker.questions_sent,
            "sync_answers": self._answerer.answers_sent,
            "sync_answers_suppressed": self._answerer.answers_suppressed,
            "recovered": self._asker.recovered,
        }
