"""Answers the questions of others: everyone can, few do.

A question is answered after a random pause within `answer_s`; who cannot give everything waits longer. Who hears meanwhile that somebody
of its own side answers keeps silent: they come from one view and have the same messages. Answers of other sides only shorten one's own.
A side always says something, if only that there is nothing more, because that is what the asker waits for.

In total order those of one view do not all know how earlier epochs ended, but only who was there or came for the whole past, and has not
forgotten it. The others leave it to them to say that there is nothing more, and say it only when they are asked for the third time.

Keeps per asker the latest question (older numbers are late and are dropped), and its last few answers, of which parts may be asked for
again; both bounded. Gathering an answer looks once at all pieces that are kept: 0.2 µs each.
"""

from __future__ import annotations

from msgspec import Struct

from antiphon.model import codec
from antiphon.model.control import Side, SyncAgain, SyncAnswer
from antiphon.model.ids import MemberId
from antiphon.protocol.membership.port import Port
from antiphon.protocol.sync.answer import Answer, frames, gather
from antiphon.protocol.sync.history import History
from antiphon.protocol.sync.ledger import Ledger
from antiphon.protocol.sync.question import Question
from antiphon.protocol.timers import Timer

_PLANS_LIMIT = 256
"""Questions that wait for an answer; further ones are dropped and asked again."""
_ANSWERS_LIMIT = 4
"""Answers of which parts can be had again."""
_CLAIMS = 3
"""How many may say that something is lost before the others find it said."""
_REPEATS = 2
"""How often a question is repeated before one who may not know everything says that there is nothing more."""


class Heard(Struct):
    """What others answer to one question: other sides gave `given`, `claims` members said that something is lost, all of them `lost`, and
    `answered` says whether somebody of this side gave or ended."""

    given: Ledger
    lost: Ledger
    claims: int = 0
    answered: bool = False


class Plan(Struct):
    """An answer that will be given at `timer`."""

    question: Question
    timer: Timer
    heard: Heard


class Answerer:
    def __init__(self, port: Port, history: History) -> None:
        self.port, self.history = port, history
        self.busy = self.hollow = False
        """Whether this member is itself catching up, and whether it has come for the last messages and has not yet caught up since."""
        self.answers_sent = self.answers_suppressed = 0
        self._sides: tuple[Side, ...] = ()
        self._side_by_member: dict[MemberId, int] = {}
        self._plans: dict[MemberId, Plan] = {}
        self._early: dict[tuple[MemberId, int], Heard] = {}
        """Answers that came before their question."""
        self._latest_by_asker: dict[MemberId, int] = {}
        self._sent: dict[tuple[MemberId, int], list[bytes]] = {}

    def begin(self, sides: tuple[Side, ...], side_by_member: dict[MemberId, int]) -> None:
        self.stop()
        self._sides, self._side_by_member = sides, side_by_member

    def stop(self) -> None:
        for plan in self._plans.values():
            plan.timer.cancel()
        self._plans.clear()
        self._early.clear()
        self._latest_by_asker.clear()
        self._sent.clear()

    def plan(self, question: Question) -> None:
        """A member asks; it is known that no later question of it has been heard."""
        self._latest_by_asker[question.asker] = question.number
        heard = self._early.pop((question.asker, question.number), None) or Heard(Ledger(), Ledger())
        mine = self._side_by_member.get(self.port.me)
        if mine is None or not self._sides[mine].view or mine not in question.sides:
            return
        old = self._plans.pop(question.asker, None)
        if len(self._plans) >= _PLANS_LIMIT:
            self.port.drops["too_many_questions"] += 1
            return
        alone = question.sides == (mine,) and self._sides[mine].members == (self.port.me,)
        pause = 0.0 if alone else self.port.settings.answer_s
        delay = self.port.rng.uniform(0.0, pause)
        history = self.history
        lost = history.before().without(question.have).common(history.absent())
        if lost or history.leaps_from(question.known_by_outcome) or self._unsure(question):
            delay += pause
        if old is not None and old.timer.callback is not None:
            # Somebody who is always overtaken by a faster side would never say anything.
            delay = min(delay, max(old.timer.when - self.port.now, 0.0))
            old.timer.cancel()
        timer = self.port.call_in(delay, lambda: self._answer(question.asker))
        self._plans[question.asker] = Plan(question, timer, heard)

    def heard(self, frame: SyncAnswer) -> None:
        """Somebody else answers."""
        plan = self._plans.get(frame.asker)
        if plan is not None and plan.question.number == frame.number:
            heard = plan.heard
        elif frame.number > self._latest_by_asker.get(frame.asker, 0):
            # The answer has overtaken the question.
            heard = self._early.setdefault((frame.asker, frame.number), Heard(Ledger(), Ledger()))
            if len(self._early) > _PLANS_LIMIT:
                del self._early[next(iter(self._early))]
        else:
            return
        if frame.lost:
            lost = Ledger.read(frame.lost)
            if lost is not None and frame.count == 1:
                heard.lost = lost if not heard.claims else heard.lost.common(lost)
                heard.claims += 1
        elif self._side_by_member.get(frame.member) == self._side_by_member.get(self.port.me):
            # An empty answer that is not the end says no more than that its sender is busy.
            heard.answered = heard.answered or bool(frame.items or frame.skipped or frame.epochs or not frame.more)
        else:
            for item in frame.items:
                if item.low <= item.high:
                    heard.given.add(item.sender, item.low, item.high)

    def again(self, frame: SyncAgain) -> None:
        """Parts of an answer of this member did not arrive."""
        wires = self._sent.get((frame.asker, frame.number), [])
        address = self.port.address_by_member.get(frame.member)
        if address is not None:
            for index in frame.missing[: self.port.settings.repair_frames]:
                if index < len(wires):
                    self.port.send_to((address,), wires[index])

    def _unsure(self, question: Question) -> bool:
        """Whether others of this side may know more of how those epochs ended that matter to the asker."""
        alone = self._sides[self._side_by_member[self.port.me]].members == (self.port.me,)
        minds = question.minds()
        return not alone and (self.history.missed(minds) or self.history.leaps_from(question.known_by_outcome, minds))

    def _answer(self, asker: MemberId) -> None:
        plan, port = self._plans.pop(asker), self.port
        question = plan.question
        assert port.view is not None, "questions are taken in a view, and stop when it ends"
        if plan.heard.answered:
            self.answers_suppressed += 1
            return
        if question.wants.kind == "last" and self.busy and not self.hollow:
            # Only who has everything can tell which messages are the last. Who has come for the last ones itself gives what it has: two
            # of these would put each other off for ever. Who came for all is put off by nobody, and may have half of them by now.
            answer = Answer(more=True)
        else:
            answer = gather(self.history, question, plan.heard.given, port.settings.chunk_bytes)
            if question.attempt < _REPEATS and self._unsure(question):
                # n5, who was there when the epoch ended, begins to tell n3 how; n0, who came by a state, hears nothing of that yet, has
                # nothing to add, and its word overtakes n5's. Taken for the end it would leave n3 with half of what n5 tells.
                answer.more = True
        if answer.lost and plan.heard.claims >= _CLAIMS and not Ledger.of(answer.given).common(plan.heard.lost):
            # It has been said often enough, and nothing of it is here.
            self.answers_suppressed += 1
            return
        self.answers_sent += 1
        parts = [codec.encode(part) for part in frames(answer, question, port.group, port.me, port.view.id, port.settings.frame_bytes)]
        others = tuple(address for member, address in port.address_by_member.items() if member != port.me and member in port.view)
        for wire in parts:
            port.send_to(others, wire)
        for late in [key for key in self._sent if key[0] == asker]:
            del self._sent[late]
        if len(self._sent) >= _ANSWERS_LIMIT:
            del self._sent[next(iter(self._sent))]
        self._sent[asker, question.number] = parts
