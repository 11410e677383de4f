"""Promises about which messages are delivered, whatever their order: integrity, no duplication, validity, agreement and virtual
synchrony.

They look at whole lives, what a member caught up with included. Of a member that has gone the rest may demand something only where
somebody stayed who must have held it.

`integrity` and `no_duplication` hold at every moment. `validity` and `agreement` speak of the end: ask them when the run has
settled. Cost: each looks at every delivery once.
"""

from __future__ import annotations

from collections import Counter

from antiphon.model.ids import MemberId, MessageId, name_of
from antiphon.model.ranges import Ranges
from antiphon.sim.log import Adopted, Delivered
from antiphon.sim.oracles.history import Company, History, Life, Logs, Violation, history_of

_NONE = Ranges()


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
    """No member delivers a message twice, or one that is in the state it was given before."""
    found = []
    for life in history_of(logs).lives:
        seen: set[MessageId] = set()
        adopted: dict[MemberId, Ranges] = {}
        for event in life.log.events:
            if type(event) is Delivered:
                if event.id in seen:
                    found.append(Violation("no_duplication", life.member, (event.id,), f"delivered {event.id} again"))
                elif event.id.seqno in adopted.get(event.id.sender, _NONE):
                    why = f"delivered {event.id}, which is in the state it was given"
                    found.append(Violation("no_duplication", life.member, (event.id,), why))
                seen.add(event.id)
            elif type(event) is Adopted:
                for sender, flat in event.have.items():
                    adopted[sender] = Ranges(zip(flat[::2], flat[1::2], strict=False))
    return found


def validity(logs: Logs) -> list[Violation]:
    """A member that lives, and was not left behind, has delivered its own messages, but for those it was told are lost to it, or in a state
    that it was given."""
    history, found = history_of(logs), []
    current = {life.member: life for life in history.lives if life.current}
    for message in history.sent:
        life = current.get(message.sender)
        if life is not None and message not in life.place and not life.told(message):
            found.append(Violation("validity", life.member, (message,), f"sent {message} and never delivered it"))
    return found


def agreement(logs: Logs, delivery: str = "agreed") -> list[Violation]:
    """What one current member of a view delivered, all of them did, as far as they were in the view it was sent in; or, where members
    catch up with each other, as far as they wanted and were not told that it is lost. With `validity` this says that no message of a
    member that lives is lost.

    What a member delivered before it crashed, or was left behind, the others deliver too: in a safe group all of it, in an agreed
    one what had become stable by then, because the rest may have died with it. Where views may shrink to any size that is said of
    its last view alone, and of a safe group only if so many of that view went on together that one of them must have held it: of several
    sides, each may lack something that comes before it in the order of the group."""
    history, found = history_of(logs), []
    for members in history.groups().values():
        everything: dict[MessageId, Life] = {}
        for life in members:
            for event in life.delivered:
                everything.setdefault(event.id, life)
        for life in members:
            for message, other in everything.items():
                if message not in life.place and history.owes(life, message):
                    why = f"never delivered {message}, which {name_of(other.member)} did"
                    found.append(Violation("agreement", life.member, (message,), why))
        for gone in history.lives:
            nexts = Counter(_next_view(life, gone.views[-1]) for life in members if gone.views[-1] in life.installed)
            if gone.current or not nexts:
                continue
            witnesses = max(nexts.values())
            for message in (event.id for event in gone.delivered):
                if message not in everything and _survives(history, gone, message, delivery, witnesses):
                    why = f"delivered {message} before it was gone, and no member that stayed did"
                    found.append(Violation("agreement", gone.member, (message,), why))
    return found


def _next_view(life: Life, view: int) -> int | None:
    """The view that a member installed after another; None if that was its last."""
    place = life.views.index(view) + 1
    return life.views[place] if place < len(life.views) else None


def virtual_synchrony(logs: Logs) -> list[Violation]:
    """Members that went together from one view to the next have delivered the same messages in the old one, but for those that are in a
    state that one of them was given; and what a member delivers
    in a view, apart from what it catches up with, was sent in that view, of which all current members have the same opinion."""
    history, found = history_of(logs), []
    view_by_message: dict[MessageId, int] = {}
    for company in history.companies:
        if company.new is not None:
            found += _differences(history, company)
    if not history.given:
        for life in history.lives:
            for event, where in zip(life.delivered, life.delivered_in, strict=True):
                view = history.views[where]
                if life.current and view_by_message.setdefault(event.id, event.view) != event.view:
                    why = f"delivered {event.id} as one of another view than others did"
                    found.append(Violation("virtual_synchrony", life.member, (event.id,), why))
                if not event.recovered and (view is None or event.view != view.id):
                    why = f"delivered {event.id} in {view}, but it was sent in another"
                    found.append(Violation("virtual_synchrony", life.member, (event.id,), why))
    return found


def _differences(history: History, company: Company) -> list[Violation]:
    found: list[Violation] = []
    assert company.new is not None
    within = [dict.fromkeys(life.delivered_within(company.old), life) for life in company.lives]
    everything: dict[MessageId, Life] = {}
    for own in reversed(within):
        everything |= own
    for life, own in zip(company.lives, within, strict=True):
        for message, other in everything.items():
            if message not in own and not life.adopts(message):
                where = history.views[company.new]
                why = f"went on to {where} without {message}, which {name_of(other.member)} had delivered before"
                found.append(Violation("virtual_synchrony", life.member, (message,), why))
    return found


def _survives(history: History, gone: Life, message: MessageId, delivery: str, witnesses: int) -> bool:
    """Whether a message that `gone` delivered must have been held by one of so many members of its last view that are still there."""
    stable = message.seqno <= gone.log.stable.get(message.sender, 0)
    last = gone.views[-1]
    if stable and gone.log.stable_records and history.view_of[message] == last:
        # In total order a message is stable with its place. Without it, nobody knows what its sender had read before.
        stable = message in gone.stable_within(last)
    if history.given:
        return delivery == "safe" or history.view_of[message] != last or stable
    view = history.views[last]
    if view is None or history.view_of[message] != last or gone.delivered[gone.place[message]].recovered:
        return False
    return stable or (delivery == "safe" and witnesses > len(view.members) - view.majority)
