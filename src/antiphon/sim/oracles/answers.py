"""Promises about answers: a message comes after those it names, and waits for nothing else.

Cost: both look at every name of every delivery once.
"""

from __future__ import annotations

from antiphon.model.ids import MessageId
from antiphon.sim.oracles.history import Logs, Violation, history_of


def parent_before_child(logs: Logs, final: bool = True) -> list[Violation]:
    """A message is delivered after every message it names, except those it is delivered with as lost.

    `final`: a parent may be called lost only when no member that stayed delivers it, ever; so it is wherever lost messages
    are repaired. Over best effort a parent that was given up may still come."""
    history, found = history_of(logs), []
    alive = {message for life in history.lives if life.current for message in life.place} if final else set[MessageId]()
    for life in history.lives:
        for place, event in enumerate(life.delivered):
            for parent in history.sent[event.id].names:
                if parent in event.lost:
                    if parent in alive and history.answers_for(life, parent):
                        why = f"delivered {event.id} with {parent} given up as lost, but it was not lost"
                        found.append(Violation("parent_before_child", life.member, (parent, event.id), why))
                elif history.answers_for(life, parent) and life.place.get(parent, place) >= place:
                    why = f"delivered {event.id} before {parent}, which it answers"
                    found.append(Violation("parent_before_child", life.member, (parent, event.id), why))
    return found


def minimality(logs: Logs) -> list[Violation]:
    """A message is delivered in the very moment when it and all messages it names are there, not later. What is delivered with a
    lost parent is not judged: it had to wait until the loss was certain."""
    history, found = history_of(logs), []
    for life in history.lives:
        for place, event in enumerate(life.delivered):
            received_at = life.received_at.get(event.id)
            if received_at is None or event.lost:
                continue
            possible_at = received_at
            for parent in history.sent[event.id].names:
                parent_place = life.place.get(parent, place)
                if parent_place < place:
                    possible_at = max(possible_at, life.delivered[parent_place].at)
            if event.at > possible_at:
                why = f"held {event.id} for {(event.at - possible_at) * 1000:.3f} ms although nothing it answers was missing"
                found.append(Violation("minimality", life.member, (event.id,), why))
    return found
