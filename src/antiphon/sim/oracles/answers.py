"""Promises about answers: a message comes after those it names, and waits for nothing else.

Cost: both look at every name of every delivery once.
"""

from __future__ import annotations

from antiphon.model.ids import MessageId
from antiphon.sim.log import Delivered, Sent
from antiphon.sim.oracles.history import History, Life, Logs, Violation, history_of


def parent_before_child(logs: Logs, final: bool = True) -> list[Violation]:
    """A message is delivered after every message it names, except those it is delivered with as lost.

    `final`: a parent may be called lost only when no member that stayed delivers it, ever; so it is wherever lost messages
    are repaired. Over best effort a parent that was given up may still come. Where a membership makes the views it may come from another
    side: there a parent must not be called lost when somebody of the same company has delivered it. And what a member catches up with
    may answer a message that is lost to all who are left; over best effort each view begins with a cut, and what a newcomer gets of the
    past is what this or that member happened to have.

    A faulty member may name a message that did not exist when it sent its own. That is delivered as an orphan, whether the number it names
    is used later or not. And `final` marks are the same at all who go together from a view to the next."""
    history, found = history_of(logs), []
    alive = {message for life in history.lives if life.current for message in life.place}
    for life in history.lives:
        for place, event in enumerate(life.delivered):
            for parent in history.sent[event.id].names:
                if parent in event.lost:
                    if final and not _is_false(history, event.id, parent) and _is_wrongly_lost(history, life, place, parent, alive):
                        why = f"delivered {event.id} with {parent} given up as lost, but it was not lost"
                        found.append(Violation("parent_before_child", life.member, (parent, event.id), why))
                elif _is_lost_to_all(history, life, event, parent, alive, final):
                    continue
                elif history.answers_for(life, parent) and life.place.get(parent, place) >= place:
                    why = f"delivered {event.id} before {parent}, which it answers"
                    found.append(Violation("parent_before_child", life.member, (parent, event.id), why))
    return found + _differing_marks(history) if final else found


def orphans(logs: Logs) -> list[Violation]:
    """A message that names one which nobody ever sent in the group is delivered with that one marked as lost, by every member that can
    know: of a sender that was never a member all can, of the numbers of a member those that were in a view with it, and of what came by
    synchronisation all can."""
    history, found = history_of(logs), []
    members = {life.member for life in history.lives}
    for life in history.lives:
        met = {member for event in life.viewed for member in event.view.members}
        for event in life.delivered:
            for parent in history.sent[event.id].names:
                known = event.recovered or parent.sender not in members or parent.sender in met
                unknown = parent not in history.sent and known
                if unknown and parent not in event.lost:
                    why = f"delivered {event.id} as if {parent}, which does not exist, had been delivered"
                    found.append(Violation("orphans", life.member, (parent, event.id), why))
    return found


def minimality(logs: Logs) -> list[Violation]:
    """A message is delivered in the very moment when it and all messages it names are there, not later. What is delivered with a
    lost parent is not judged: it had to wait until the loss was certain; nor what came by synchronisation, which has its own order."""
    history, found = history_of(logs), []
    for life in history.lives:
        for place, event in enumerate(life.delivered):
            received_at = life.received_at.get(event.id)
            if received_at is None or event.lost or event.recovered:
                continue
            possible_at = received_at
            for parent in history.sent[event.id].names:
                parent_place = life.place.get(parent)
                if parent_place is None:
                    # What lies before a newcomer's time is not delivered, and yet not there before a copy comes that shows it.
                    possible_at = max(possible_at, life.received_at.get(parent, possible_at))
                elif parent_place < place:
                    possible_at = max(possible_at, life.delivered[parent_place].at)
            if event.at > possible_at:
                why = f"held {event.id} for {(event.at - possible_at) * 1000:.3f} ms although nothing it answers was missing"
                found.append(Violation("minimality", life.member, (event.id,), why))
    return found


def _is_false(history: History, child: MessageId, parent: MessageId) -> bool:
    """Whether the parent was not in the past of the child's sender: neither sent nor delivered by it before, nor before its time."""
    if parent not in history.sent:
        return True
    life = next(life for life in history.lives if life.member == child.sender)
    for event in life.log.events:
        if isinstance(event, Sent | Delivered) and event.id == parent:
            return False
        if type(event) is Sent and event.id == child:
            break
    return not (history.view_of[parent] not in life.installed if history.given else history.before(life, parent))


def _differing_marks(history: History) -> list[Violation]:
    """Messages that one member delivered as an orphan, and another of the same company in the same view did not. A number that was used
    after it had been named is left out: it may have come before it was known that it did not exist."""
    found: list[Violation] = []
    for company in history.companies:
        first_by_message: dict[MessageId, tuple[Life, tuple[MessageId, ...]]] = {}
        for life in company.lives:
            for event, where in zip(life.delivered, life.delivered_in, strict=True):
                if where != company.old or event.recovered or not history.sent[event.id].names:
                    continue
                lost = tuple(sorted(name for name in event.lost if name not in history.sent or not _is_false(history, event.id, name)))
                other, marks = first_by_message.setdefault(event.id, (life, lost))
                if lost != marks:
                    why = f"delivered {event.id} with {lost or 'nothing'} given up as lost, and {other.member} with {marks or 'nothing'}"
                    found.append(Violation("parent_before_child", life.member, (event.id,), why))
    return found


def _is_lost_to_all(history: History, life: Life, event: Delivered, parent: MessageId, alive: set[MessageId], final: bool) -> bool:
    if history.given:
        return False
    if not final:
        # What was lost in a view where nothing is repaired may still be caught up with in the next.
        late = parent not in life.place or life.delivered[life.place[parent]].recovered
        return event.recovered or (late and history.view_of.get(parent) != history.view_of[event.id])
    return event.recovered and parent not in alive and parent not in life.place


def _is_wrongly_lost(history: History, life: Life, place: int, parent: MessageId, alive: set[MessageId]) -> bool:
    if history.given:
        return parent in alive and history.answers_for(life, parent)
    if life.delivered[place].recovered:
        # It may be marked because the side that it came from lost the parent; another side may have it, and be met in a later view.
        return parent in life.place and (life.place[parent] < place or life.delivered_in[life.place[parent]] == life.delivered_in[place])
    where = life.delivered_in[place]
    company = next((company for company in history.companies if company.old == where and life in company.lives), None)
    if company is None:
        return False  # it was gone before the view ended
    return any(
        parent in other.place and not other.delivered[other.place[parent]].recovered and other.delivered_in[other.place[parent]] == where
        for other in company.lives
    )
