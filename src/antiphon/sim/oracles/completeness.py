"""Promises about which messages are delivered, whatever their order: integrity, no duplication, validity, agreement and virtual
synchrony.

`integrity` and `no_duplication` hold at every moment. `validity` and `agreement` speak of the end: ask them when the run has
settled. Cost: each looks at every delivery once.
"""

from __future__ import annotations

from antiphon.model.ids import MessageId, name_of
from antiphon.sim.log import Delivered
from antiphon.sim.oracles.history import History, Life, Logs, Violation, history_of


def integrity(logs: Logs) -> list[Violation]:
    """What is delivered was sent before, by the member it names, with this payload."""
    history, found = history_of(logs), []
    for life in history.lives:
        for event in life.log.events:
            if type(event) is not Delivered:
                continue
            sent = history.sent.get(event.id)
            if sent is None:
                why = f"delivered {event.id}, which its sender never sent"
            elif event.payload_hash != sent.payload_hash:
                why = f"delivered {event.id} with another payload than it was sent with"
            elif event.at < sent.at:
                why = f"delivered {event.id} at {event.at:.6f} s, before it was sent at {sent.at:.6f} s"
            else:
                continue
            found.append(Violation("integrity", life.member, (event.id,), why))
    return found


def no_duplication(logs: Logs) -> list[Violation]:
    """No member delivers a message twice."""
    found = []
    for life in history_of(logs).lives:
        seen: set[MessageId] = set()
        for event in life.log.events:
            if type(event) is Delivered:
                if event.id in seen:
                    found.append(Violation("no_duplication", life.member, (event.id,), f"delivered {event.id} again"))
                seen.add(event.id)
    return found


def validity(logs: Logs) -> list[Violation]:
    """A member that lives, and was not left behind, has delivered its own messages."""
    history, found = history_of(logs), []
    current = {life.member: life for life in history.lives if life.current}
    for message in history.sent:
        life = current.get(message.sender)
        if life is not None and message not in life.place:
            found.append(Violation("validity", life.member, (message,), f"sent {message} and never delivered it"))
    return found


def agreement(logs: Logs, delivery: str = "agreed") -> list[Violation]:
    """What one current member of a view delivered, all of them did, as far as they were in the view it was sent in.

    What a member delivered before it crashed, or was left behind, the others deliver too: in a safe group all of it, in an agreed
    one what had become stable by then, because the rest may have died with it."""
    history, found = history_of(logs), []
    for members in history.groups().values():
        everything: dict[MessageId, Life] = {}
        for life in members:
            for event in life.delivered:
                everything.setdefault(event.id, life)
        for life in members:
            for message, other in everything.items():
                if message not in life.place and history.answers_for(life, message):
                    why = f"never delivered {message}, which {name_of(other.member)} did"
                    found.append(Violation("agreement", life.member, (message,), why))
        for gone in history.lives:
            if gone.current or not any(gone.views[-1] in life.installed for life in members):
                continue
            for message in (event.id for event in gone.delivered):
                if message not in everything and (delivery == "safe" or _is_stable(history, gone, message)):
                    why = f"delivered {message} before it was gone, and no member that stayed did"
                    found.append(Violation("agreement", gone.member, (message,), why))
    return found


def virtual_synchrony(logs: Logs) -> list[Violation]:
    """Members that went together from one view to the next have delivered the same messages in the old one."""
    history, found = history_of(logs), []
    travellers: dict[tuple[int, int], list[Life]] = {}
    for life in history.lives:
        for old, new in zip(life.views, life.views[1:], strict=False):
            travellers.setdefault((old, new), []).append(life)
    for (old, new), members in travellers.items():
        within = [dict.fromkeys(life.delivered_within(old), life) for life in members]
        everything: dict[MessageId, Life] = {}
        for own in reversed(within):
            everything |= own
        for life, own in zip(members, within, strict=True):
            for message, other in everything.items():
                if message not in own:
                    why = f"went on to {history.views[new]} without {message}, which {name_of(other.member)} had delivered before"
                    found.append(Violation("virtual_synchrony", life.member, (message,), why))
    return found


def _is_stable(history: History, gone: Life, message: MessageId) -> bool:
    return history.view_of[message] != gone.views[-1] or message.seqno <= gone.log.stable.get(message.sender, 0)
