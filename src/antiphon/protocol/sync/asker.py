"""Asks for what this member lacks, chunk after chunk, until every other side has said that there is nothing more.

Answers reach everyone, so one member's questions can serve its whole side: who hears a question whose answer it can take listens, and
asks itself only when that brings nothing for a while. A question that is not answered is repeated, ever less often; when a side stays
silent for sixteen questions, or says nothing new for 256, or in 64 answers that cannot be taken, it is given up, for the next view
will be without it.

What nobody keeps any more (`losses`) is told to the application as MissedMessages.

Keeps the latest question of every member of the view, up to sixteen answers on their way in, each within four chunks, the names of as many
that were of no use, and sixteen parts of answers that came before their questions.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from antiphon.model.control import Side, SyncAgain, SyncAnswer, Wants
from antiphon.model.events import MissedMessages
from antiphon.model.frames import Batch
from antiphon.model.ids import MemberId
from antiphon.protocol.membership.port import Port
from antiphon.protocol.sync.history import History
from antiphon.protocol.sync.incoming import PARTS_LIMIT, Incoming, Progress
from antiphon.protocol.sync.leaps import Leaps
from antiphon.protocol.sync.ledger import Ledger
from antiphon.protocol.sync.losses import Losses
from antiphon.protocol.sync.question import Question
from antiphon.protocol.timers import Timer

_ATTEMPTS = 16
_FRUITLESS = 256
_UNUSABLE = 4
"""An answer that cannot be taken counts as so many questions that brought nothing: histories that contradict each other, because frames
were forged, never fit, and must not keep this member from the messages of its view for minutes."""
_DOUBLINGS = 3
_INCOMING_LIMIT = 16
_EARLY_LIMIT = 16
_PARTS_PER_REQUEST = 64
_REQUESTS = 6
"""How often missing parts are asked for in vain before the answer is given up."""


class Asker:
    def __init__(
        self,
        port: Port,
        history: History,
        on_recovered: Callable[[Batch, int, int], None],
        on_lost: Callable[[Ledger], None],
        on_done: Callable[[], None],
    ) -> None:
        self.port, self.history, self._on_lost = port, history, on_lost
        self.questions_sent = self.recovered = 0
        self.wants = Wants()
        """What is still wanted."""
        self._on_recovered, self._on_done = on_recovered, on_done
        self._number = 0
        self._timer: Timer | None = None
        self._parts_timer: Timer | None = None
        self._sides: tuple[Side, ...] = ()
        self._side_by_member: dict[MemberId, int] = {}
        self._rest()

    def _rest(self) -> None:
        self._open: dict[int, None] = {}
        """The sides that may have something that is missing here."""
        self._first = self._number + 1
        """Answers to own questions before this one belong to a view that has ended."""
        self._attempt = self._fruitless = 0
        """Questions since anybody answered, and since anything new came."""
        self._question: Question | None = None
        """The last one of this member."""
        self._leading = False
        """Whether this member's own question is under way, and not another's that serves as well."""
        self._question_by_member: dict[MemberId, Question] = {}
        self._incoming: dict[tuple[MemberId, MemberId, int], Incoming] = {}
        self._unusable: dict[tuple[MemberId, MemberId, int], None] = {}
        """Answers that could not be taken, the latest. Their other parts would make this member fetch the whole again, and again in vain,
        and put its next question off for ever."""
        self._early: list[SyncAnswer] = []
        """Parts of answers to questions of others that have not come yet."""
        self._losses = Losses(self.port.me, self.history)
        self._leaps = Leaps(self.history)
        self._noticed: set[MemberId] = set()
        """Who has been looked at for something that is missing here."""

    def begin(self, sides: tuple[Side, ...], side_by_member: dict[MemberId, int], wanted: tuple[int, ...]) -> None:
        """There is a view; `wanted` are those of its sides that must be heard."""
        self.stop()
        self._sides, self._side_by_member = sides, side_by_member
        self._open = dict.fromkeys(wanted)
        if self._open:
            self.history.doubt()
            # Not at once: the others may not have installed the view.
            pause = self.port.settings.answer_s
            self._ask_in(self.port.rng.uniform(pause / 4, pause))

    def stop(self) -> None:
        for timer in (self._timer, self._parts_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._parts_timer = None
        self._rest()

    # -- questions -------------------------------------------------------------------------------------------------------------

    def _ask_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.port.call_in(seconds, self._ask)

    def _patience_s(self) -> float:
        """How long answers may take: their pause, that of members who cannot give everything, and the way."""
        settings = self.port.settings
        return (3 * settings.answer_s + settings.retry_s) * float(2 ** min(self._attempt, _DOUBLINGS))

    def _ask(self) -> None:
        port = self.port
        if self._attempt >= _ATTEMPTS or self._fruitless >= _FRUITLESS:
            port.drops["sides_given_up"] += len(self._open)
            self._open.clear()
            self._finish()
            return
        assert port.view is not None, "a member asks in a view, and stops when it ends"
        self._number += 1
        question = Question.of(self.history, port.me, self._number, tuple(self._open), self.wants)
        if self._question is not None and question.repeats(self._question):
            question.attempt = self._question.attempt + 1
        self._question = question
        for frame in question.frames(port.group, port.view.id, port.settings.frame_bytes):
            port.broadcast(frame)
        self.questions_sent += 1
        self._leading = True
        self._ask_in(self._patience_s())
        self._attempt += 1
        self._fruitless += 1

    def heard(self, question: Question) -> None:
        """Another member asks: perhaps for what is missing here, perhaps because it has what is missing here."""
        asker, mine = question.asker, self._side_by_member.get(self.port.me)
        theirs = self._side_by_member.get(asker)
        if theirs is None or mine is None:
            return
        if self._open:
            self._question_by_member[asker] = question
            alike = theirs == mine and set(self._open) <= set(question.sides)
            if alike and (not self._leading or asker < self.port.me) and question.serves(self.history, self.wants):
                self._leading = False
                self._ask_in(self._patience_s() * self.port.rng.uniform(1.0, 2.0))
            early = [frame for frame in self._early if frame.asker == asker]
            self._early = [frame for frame in self._early if frame.asker != asker]
            for frame in early:
                self.take(frame)
        elif theirs != mine and asker not in self._noticed and self._sides[theirs].view and self._sides[mine].view:
            # Once per member: what it claims to have may not exist.
            self._noticed.add(asker)
            if not question.have.within(self.history.before()):
                self._open[theirs] = None
                self._attempt = self._fruitless = 0
                self._ask_in(self.port.rng.uniform(0.0, self.port.settings.answer_s))

    # -- answers ---------------------------------------------------------------------------------------------------------------

    def take(self, frame: SyncAnswer) -> None:
        """A part of somebody's answer to somebody."""
        key = (frame.member, frame.asker, frame.number)
        incoming = self._incoming.get(key)
        if incoming is None:
            if not self._open or frame.member not in self._side_by_member or key in self._unusable:
                return
            if not self._useful(frame):
                self._keep_for_later(frame)
                return
            if len(self._incoming) >= _INCOMING_LIMIT:
                del self._incoming[next(iter(self._incoming))]
            incoming = self._incoming[key] = Incoming(
                frame,
                self.history,
                self._deliver,
                lambda place: self._leaps.refuses(place, key, (member for side in self._open for member in self._sides[side].members)),
                4 * self.port.settings.chunk_bytes,
            )
        if not incoming.add(frame):
            return
        self._advance(key, incoming)
        # What was blocked may follow what has just come.
        for other in list(self._incoming):
            if other != key and self._open and other in self._incoming:
                self._advance(other, self._incoming[other])

    def _keep_for_later(self, frame: SyncAnswer) -> None:
        """An answer may overtake its question, which comes from somebody else. Who then listened for it would listen in vain."""
        question = self._question_by_member.get(frame.asker)
        if frame.asker != self.port.me and (question is None or question.number < frame.number) and len(self._early) < _EARLY_LIMIT:
            self._early.append(frame)

    def _useful(self, frame: SyncAnswer) -> bool:
        if frame.index >= frame.count or frame.count > PARTS_LIMIT:
            self.port.drops["malformed"] += 1
            return False
        if frame.asker == self.port.me:
            return self._first <= frame.number <= self._number
        question = self._question_by_member.get(frame.asker)
        return question is not None and question.number == frame.number and question.serves(self.history, self.wants)

    def _advance(self, key: tuple[MemberId, MemberId, int], incoming: Incoming) -> None:
        progress = incoming.take()
        if incoming.news:
            self._attempt = self._fruitless = 0
        if progress is Progress.WHOLE or progress is Progress.BROKEN:
            del self._incoming[key]
            if progress is Progress.BROKEN:
                self.port.drops["unusable_answer"] += 1
                self._fruitless += _UNUSABLE
                self._unusable[key] = None
                if len(self._unusable) > _INCOMING_LIMIT:
                    del self._unusable[next(iter(self._unusable))]
            else:
                self._ended(incoming)
        elif self._open:
            # As long as parts come there is no need to ask for the whole again.
            self._ask_in(self._patience_s() * (1.0 if self._leading else self.port.rng.uniform(1.0, 2.0)))
            if self._parts_timer is None or self._parts_timer.callback is None:
                self._parts_timer = self.port.call_in(self.port.settings.retry_s / 2, self._ask_for_parts)

    def _ended(self, incoming: Incoming) -> None:
        """All of an answer has been taken."""
        side = self._side_by_member[incoming.answerer]
        lost = self.history.unknown(incoming.lost)
        if not lost:
            self._attempt = 0
        if incoming.news:
            self._losses.clear()
        if lost:
            self._losses.claim(side, incoming.answerer, (incoming.asker, incoming.number), lost, incoming.given)
        elif not incoming.more:
            self._open.pop(side, None)
        if not self._open:
            self._finish()
        elif incoming.more and incoming.news and incoming.asker == self.port.me and incoming.number == self._number and self._leading:
            self._ask()
        else:
            if incoming.news and not self._leading:
                self._ask_in(self._patience_s() * self.port.rng.uniform(1.0, 2.0))
            self._believe()

    def _deliver(self, batch: Batch, low: int, high: int) -> None:
        self.recovered += high - low + 1
        if self.wants.kind == "last" and batch.view < self.wants.before:
            self.wants = msgspec.structs.replace(self.wants, count=max(self.wants.count - (high - low + 1), 0))
        self._on_recovered(batch, low, high)

    def _ask_for_parts(self) -> None:
        port = self.port
        for key, incoming in list(self._incoming.items()):
            missing = incoming.missing(_PARTS_PER_REQUEST)
            if incoming.requests >= _REQUESTS:
                del self._incoming[key]
            elif missing:
                if incoming.requests:
                    assert port.view is not None, "parts come in a view, and are forgotten when it ends"
                    again = SyncAgain(port.group, port.me, port.view.id, incoming.asker, incoming.number, missing)
                    port.send((incoming.answerer,), again)
                # The first look only makes sure that parts are really missing and not still on their way.
                incoming.requests += 1
        if any(incoming.missing(1) for incoming in self._incoming.values()):
            self._parts_timer = port.call_in(port.settings.retry_s / 2, self._ask_for_parts)

    def _believe(self) -> None:
        """Gives up what is lost, if nobody is left who may have it."""
        lost = self._losses.verdict(self._sides, self._open)
        if lost:
            self.history.lose(lost.flat())
            self.port.tell(MissedMessages(lost.flat()))
            self._on_lost(lost)
            self._attempt = self._fruitless = 0
            self._ask()

    def _finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._incoming.clear()
        self._early.clear()
        self._question_by_member.clear()
        self.wants = Wants()
        self._on_done()
