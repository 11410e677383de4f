"""The promise about messages to one member: each arrives once, in order, after the sender's group messages that came before it, or comes
back. Cost: one look at every event of every life.
"""

from __future__ import annotations

from antiphon.model.ids import MemberId, name_of
from antiphon.sim.log import Delivered, GotPrivately, Returned, SentPrivately
from antiphon.sim.oracles.history import History, Life, Logs, Reach, Violation, history_of


def private(logs: Logs, *, settled: bool = True, after: bool = True) -> list[Violation]:
    """Of the messages that a member sent to another alone, that one gets each at most once, in order, and leaves out only what was returned
    to the sender. When the run has settled, a sender that is still there has everything either arrived or returned (or both:
    the receiver may have gone before it could say so). `after`: the receiver has delivered the sender's earlier group messages
    by then, as far as it answers for them; not so where lost messages are not repaired."""
    history, found = history_of(logs), []
    sent: dict[tuple[MemberId, MemberId], list[SentPrivately]] = {}
    returned: dict[tuple[MemberId, MemberId], set[int]] = {}
    for life in history.lives:
        for event in life.log.events:
            if type(event) is SentPrivately:
                sent.setdefault((life.member, event.to), []).append(event)
            elif type(event) is Returned:
                returned.setdefault((life.member, event.to), set()).add(event.number)
    got: dict[tuple[MemberId, MemberId], set[int]] = {}
    for life in history.lives:
        found += _arrivals(history, life, sent, returned, got, after)
    if settled:
        current = {life.member for life in history.lives if life.current}
        for (sender, to), messages in sent.items():
            for message in messages if sender in current else ():
                if message.number not in got.get((sender, to), ()) and message.number not in returned.get((sender, to), ()):
                    why = f"number {message.number} to {name_of(to)} neither arrived nor came back"
                    found.append(Violation("private", sender, (), why))
    return found


def _arrivals(
    history: History,
    life: Life,
    sent: dict[tuple[MemberId, MemberId], list[SentPrivately]],
    returned: dict[tuple[MemberId, MemberId], set[int]],
    got: dict[tuple[MemberId, MemberId], set[int]],
    after: bool,
) -> list[Violation]:
    found: list[Violation] = []
    reach = Reach(history, life)
    reached_by_sender: dict[MemberId, int] = {}
    for event in life.log.events:
        if type(event) is Delivered:
            reach.delivered(event.id)
        if type(event) is not GotPrivately:
            continue
        pair = (event.sender, life.member)
        messages = sent.get(pair, [])
        reached = reached_by_sender.get(event.sender, 0)
        place = next((place for place in range(reached, len(messages)) if messages[place].payload_hash == event.payload_hash), None)
        if place is None:
            again = any(message.payload_hash == event.payload_hash for message in messages[:reached])
            why = f"got one from {name_of(event.sender)} {'again, or late' if again else 'that was never sent'}"
            found.append(Violation("private", life.member, (), why))
            continue
        skipped = [message.number for message in messages[reached:place] if message.number not in returned.get(pair, ())]
        if skipped:
            why = f"got number {messages[place].number} from {name_of(event.sender)} without number {skipped[0]}"
            found.append(Violation("private", life.member, (), why))
        missing = reach.first_missing(event.sender, messages[place].after) if after else None
        if missing is not None:
            why = f"got number {messages[place].number} from {name_of(event.sender)} before {missing}, which was sent earlier"
            found.append(Violation("private", life.member, (missing,), why))
        got.setdefault(pair, set()).add(messages[place].number)
        reached_by_sender[event.sender] = place + 1
    return found
