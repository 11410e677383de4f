"""Promises about the order of deliveries: FIFO, causal precedence, one total order.

All three are judged without gaps: a message is out of order when a member delivers it while one that comes before it has not been
delivered there, whether that one comes later or never. Each delivery gives at most one violation, so the numbers can be compared
between orders. A second delivery of a message, or one that nobody sent, is not looked at: that is for other oracles.
"""

from __future__ import annotations

from itertools import pairwise

from antiphon.model.ids import MemberId, MessageId
from antiphon.sim.log import Delivered, Sent
from antiphon.sim.oracles.history import History, Life, Logs, Reach, Violation, history_of


def fifo(logs: Logs) -> list[Violation]:
    """Of each sender's messages, every member delivers them in the order they were sent. Cost: O(deliveries)."""
    history, found = history_of(logs), []
    for life in history.lives:
        reach = Reach(history, life)
        for event in life.delivered:
            sender, seqno = event.id
            missing = reach.first_missing(sender, seqno - 1)
            if missing is not None:
                found.append(Violation("fifo", life.member, (missing, event.id), f"delivered {event.id} without the earlier {missing}"))
            reach.delivered(event.id)
    return found


def causal(logs: Logs) -> list[Violation]:
    """A message is delivered after everything that happened before it: whatever its sender had sent or delivered until then, and
    whatever happened before that. Cost: O(deliveries × senders).

    The past of a message contains, with a message, all earlier ones of the same sender, because a sender's sends follow each other.
    So one number per sender describes it exactly, also where deliveries themselves have gaps, and no closure is computed."""
    history, found = history_of(logs), []
    past = _pasts(history)
    for life in history.lives:
        reach = Reach(history, life)
        for event in life.delivered:
            for sender, seqno in past[event.id].items():
                missing = reach.first_missing(sender, seqno)
                if missing is not None:
                    why = f"delivered {event.id} without {missing}, which happened before it"
                    found.append(Violation("causal", life.member, (missing, event.id), why))
                    break
            reach.delivered(event.id)
    return found


def total(logs: Logs, delivery: str = "agreed") -> list[Violation]:
    """In each view there is one sequence, and every member delivers a beginning of it. Cost: O(deliveries).

    The sequence is that of the current member that got furthest. A member that crashed is judged entirely in a safe group; in an
    agreed group, in its last view, up to the last position at which both the message and its order record were stable: what
    it delivered after that, the survivors may have numbered anew.

    Where a membership makes the views, a view may end in several ways, one for each company that goes on from it, and each ends the
    sequence in its own way: the sequence is one within each company. A member that was gone is held against every company, in a
    safe group against those only that must have held what it delivered."""
    history, found = history_of(logs), []
    if history.given:
        for view in range(len(history.views)):
            sequences = [(life, _judged(life, view, delivery)) for life in history.lives if view in life.installed]
            # Current members first, and among them the one that got furthest: its sequence is the one the others are held against.
            sequences.sort(key=lambda pair: (not pair[0].current, -len(pair[1])))
            found += _against_the_first(sequences)
        return found
    for company in history.companies:
        members = [(life, _judged(life, company.old, delivery)) for life in company.lives]
        members.sort(key=lambda pair: -len(pair[1]))
        old = history.views[company.old]
        enough = old is not None and len(set(company.side) & set(old.members)) > len(old.members) - old.majority
        judged = delivery if enough else "agreed"
        gone = [(life, _judged(life, company.old, judged)) for life in history.lives if not life.current and life.views[-1] == company.old]
        found += _against_the_first([*members, *gone])
    return found


def one_stream(logs: Logs) -> list[Violation]:
    """Where only a majority goes on, and what is delivered is safe, total order is more than a sequence per view: what two members both
    deliver, in whatever views, recovered or not, they deliver in the same order; and the orders of all of them, those that came back as
    somebody new included, are parts of one. Cost: O(deliveries)."""
    history, found = history_of(logs), []
    stream: list[MessageId] = []
    for life in sorted(history.lives, key=lambda life: -len(life.delivered)):
        place_of = {message: place for place, message in enumerate(stream)}
        furthest = -1
        for event in life.delivered:
            place = place_of.get(event.id)
            if place is None:
                continue
            if place < furthest:
                why = f"delivered {stream[furthest]} before {event.id}, which comes first elsewhere"
                found.append(Violation("one_stream", life.member, (event.id, stream[furthest]), why))
                break
            furthest = place
        if not stream:
            stream = [event.id for event in life.delivered]
    return found or _circle(history)


def _circle(history: History) -> list[Violation]:
    """A violation if the orders of all members cannot be put into one, although no member contradicts the one that got furthest."""
    after: dict[MessageId, set[MessageId]] = {}
    before: dict[MessageId, int] = {}
    for life in history.lives:
        for one, two in pairwise(event.id for event in life.delivered):
            if two not in after.setdefault(one, set()):
                after[one].add(two)
                before[two] = before.get(two, 0) + 1
    ready = [message for message in after if not before.get(message)]
    while ready:
        for message in after.pop(ready.pop(), ()):
            before[message] -= 1
            if not before[message]:
                ready.append(message)
    stuck = {message for message, count in before.items() if count}
    for life in history.lives if stuck else ():
        messages = tuple(event.id for event in life.delivered if event.id in stuck)
        if len(messages) > 1:
            why = f"delivered {messages[0]} before {messages[1]}; together with what the others delivered, that is no single order"
            return [Violation("one_stream", life.member, messages[:2], why)]
    return []


def _against_the_first(sequences: list[tuple[Life, list[MessageId]]]) -> list[Violation]:
    found: list[Violation] = []
    sequence: list[MessageId] = []
    position: dict[MessageId, int] = {}
    for life, messages in sequences:
        done: set[MessageId] = set()
        reached = 0
        for message in messages:
            while reached < len(sequence) and (sequence[reached] in done or life.adopts(sequence[reached])):
                reached += 1
            if message not in position and reached == len(sequence):
                # This member has the whole sequence and one more: the sequence simply goes on here.
                position[message] = len(sequence)
                sequence.append(message)
            elif position.get(message, len(sequence)) > reached:
                missing = sequence[reached]
                why = f"delivered {message} without {missing}, which comes before it elsewhere"
                found.append(Violation("total", life.member, (missing, message), why))
            done.add(message)
    return found


def _judged(life: Life, view: int, delivery: str) -> list[MessageId]:
    """The deliveries of a member in a view that must agree with the others'."""
    if life.current or delivery == "safe" or view != life.views[-1]:
        return life.delivered_within(view)
    return life.stable_within(view)


def _pasts(history: History) -> dict[MessageId, dict[MemberId, int]]:
    """For every message, how far each sender's messages lie in its past.

    The logs are walked side by side; a member that delivers a message whose sending was not reached yet waits for it. Should all
    of them wait (a log that says something was delivered before it was sent) the first goes on as if that message had no past."""
    past: dict[MessageId, dict[MemberId, int]] = {}
    clocks: list[dict[MemberId, int]] = [{} for _ in history.lives]
    at = [0] * len(history.lives)
    force = False
    while True:
        moved = unfinished = False
        for index, life in enumerate(history.lives):
            clock, events, position = clocks[index], life.log.events, at[index]
            while position < len(events):
                event = events[position]
                if type(event) is Delivered and event.id in history.sent:
                    before = past.get(event.id)
                    if before is None and not force:
                        break
                    force = False
                    for sender, seqno in (before or {}).items():
                        if clock.get(sender, 0) < seqno:
                            clock[sender] = seqno
                    if clock.get(event.id.sender, 0) < event.id.seqno:
                        clock[event.id.sender] = event.id.seqno
                elif type(event) is Sent and history.sent.get(event.id) is event:
                    past[event.id] = dict(clock)
                    clock[life.member] = event.id.seqno
                position += 1
            moved = moved or position > at[index]
            unfinished = unfinished or position < len(events)
            at[index] = position
        if not unfinished:
            return past
        force = not moved
