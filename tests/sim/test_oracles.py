"""The oracles are the judges of everything else, so they are judged first: each sees what it should, and nothing more."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.errors import InvalidOption
from antiphon.model.ids import MemberId, MessageId
from antiphon.model.view import View
from antiphon.sim import oracles
from antiphon.sim.log import Delivered, LogEvent, MemberLog, Received, Sent, Viewed
from antiphon.sim.oracles import ORACLES, PROMISES, check, check_all, promised


def message(text: str) -> MessageId:
    return MessageId(MemberId(text[0]), int(text[1:]))


def story(**lives: str) -> list[MemberLog]:
    """Logs in short. In the life of A, `+1` sends A1 and `+2>B1,B2` sends A2 naming two; `?B1` receives and `B1` delivers; `B1!` is
    delivered with another payload, `B2~B1` with B1 given up as lost; `v2:AB` installs a view, `@3` sets the clock, and `x` crashes
    (`x:B2` when B's messages up to 2 were stable, `x:B2/4` when also four positions of the order were)."""
    return [life(MemberId(name), words) for name, words in lives.items()]


def life(member: MemberId, words: str) -> MemberLog:
    log, now = MemberLog(member, []), 0.0
    for word in words.split():
        mark, rest = word[0], word[1:]
        event: LogEvent
        if mark == "@":
            now = float(rest)
            continue
        if mark == "x":
            positions, _, records = rest.removeprefix(":").partition("/")
            log.crashed_at = now
            log.stable = dict(message(position) for position in positions.split(",") if position)
            log.stable_records = {MemberId("A"): int(records)} if records else {}
            continue
        if mark == "v":
            number, _, members = rest.partition(":")
            event = Viewed(now, View(int(number), tuple(MemberId(name) for name in members)))
        elif mark == "+":
            seqno, _, names = rest.partition(">")
            event = Sent(now, MessageId(member, int(seqno)), tuple(message(name) for name in names.split(",") if name), bool(names))
        elif mark == "?":
            event = Received(now, message(rest))
        else:
            identity, _, lost = word.rstrip("!").partition("~")
            event = Delivered(now, message(identity), int(word.endswith("!")), tuple(message(name) for name in lost.split(",") if name))
        log.events.append(event)
    return log


def broken(logs: list[MemberLog], delivery: str = "agreed") -> set[str]:
    return {promise for promise, found in check_all(logs, delivery=delivery).items() if found}


EXACTLY: list[tuple[str, dict[str, str]]] = [
    ("integrity", {"A": "+1 A1", "B": "A1 C9"}),
    ("integrity", {"A": "+1 A1", "B": "A1!"}),
    ("integrity", {"A": "@2 +1 A1", "B": "@1 A1"}),
    ("no_duplication", {"A": "+1 A1", "B": "A1 A1"}),
    ("validity", {"A": "+1", "B": ""}),
    ("agreement", {"A": "+1 A1", "B": ""}),
    ("agreement", {"A": "v1:AB +1 A1", "B": "v1:AB"}),
    ("agreement", {"A": "+1 A1 x:A1", "B": "", "C": ""}),
    ("virtual_synchrony", {"A": "v1:ABC +1 A1 v2:AB", "B": "v1:ABC v2:AB A1", "C": "v1:ABC x"}),
    ("fifo", {"A": "+1 +2 A1 A2 x", "B": "A2 A1"}),
    ("causal", {"A": "+1 A1 x", "B": "A1 +1 B1 x", "C": "B1 A1"}),
    ("total", {"A": "+1 A1 B1", "B": "+1 B1 A1"}),
    ("parent_before_child", {"A": "+1 A1 B1", "B": "+1>A1 A1 B1", "C": "B1 A1 x"}),
    ("minimality", {"A": "+1 A1", "B": "@1 ?A1 @2 A1"}),
]


@pytest.mark.parametrize(("promise", "lives"), EXACTLY)
def test_each_promise_broken_alone(promise: str, lives: dict[str, str]) -> None:
    """An oracle that misses its own violation, or shouts at another's, would let a broken protocol pass or blame the wrong part."""
    logs = story(**lives)
    # A sender's messages also happen one after the other, so what breaks FIFO breaks causality.
    assert broken(logs) == ({"fifo", "causal"} if promise == "fifo" else {promise})
    for violation in check_all(logs)[promise]:
        assert violation.promise == promise
        assert violation.messages
        assert str(violation).startswith(promise)


def test_every_promise_has_a_log_that_breaks_it() -> None:
    """A promise without such a log would be one whose oracle nobody ever saw working."""
    assert {promise for promise, _ in EXACTLY} == set(ORACLES)


GOOD: list[tuple[str, dict[str, str]]] = [
    ("a question and two answers", {"A": "+1 A1 B1 C1", "B": "A1 +1>A1 B1 C1", "C": "A1 +1>A1 B1 C1"}),
    ("a newcomer starts at its cut", {"A": "v1:A +1 A1 v2:AB +2>A1 A2", "B": "v2:AB A2"}),
    ("the crashed delivered more than the rest", {"A": "v1:ABC +1 +2 A1 A2 x:A1", "B": "v1:ABC A1 v2:BC", "C": "v1:ABC A1 v2:BC"}),
    ("one left behind hears nothing more", {"A": "v1:AB +1 A1 v2:A +2 A2", "B": "v1:AB A1 +1"}),
    ("two halves go on apart", {"A": "v1:AB v2:A +1 A1", "B": "v1:AB v3:B +1 B1"}),
    ("two halves meet again", {"A": "v1:AB v2:A +1 A1 v4:AB +2 A2 B2", "B": "v1:AB v3:B +1 B1 v4:AB +2 A2 B2"}),
    ("each view starts a new sequence", {"A": "v1:AB +1 A1 v2:AB +2 A2 B1", "B": "v1:AB A1 v2:AB +1 A2 B1"}),
    ("nothing at all", {"A": "", "B": "x"}),
]


@pytest.mark.parametrize(("what", "lives"), GOOD, ids=[what for what, _ in GOOD])
def test_what_is_allowed_is_not_blamed(what: str, lives: dict[str, str]) -> None:
    """An oracle that blames a legal run makes every swarm red, and soon nobody looks."""
    assert not broken(story(**lives))


def test_a_crashed_member_is_judged_as_far_as_its_group_promised() -> None:
    """A replica that acted on a message before it crashed must not have been alone with it, if its group was a safe one."""
    alone = story(A="v1:ABC +1 A1 x", B="v1:ABC v2:BC", C="v1:ABC v2:BC")
    assert not broken(alone)
    assert broken(alone, "safe") == {"agreement"}
    other_order = story(A="v1:ABC +1 A1 B1 x:A1,B1", B="v1:ABC +1 B1 A1 v2:BC", C="v1:ABC B1 A1 v2:BC")
    assert not broken(other_order)
    assert broken(other_order, "safe") == {"total"}
    stable_order = story(A="v1:ABC +1 A1 B1 x:A1,B1/2", B="v1:ABC +1 B1 A1 v2:BC", C="v1:ABC B1 A1 v2:BC")
    assert broken(stable_order) == {"total"}


def test_three_members_that_agree_in_pairs_but_not_together() -> None:
    """Compared two by two these three look consistent, yet no single sequence explains them."""
    assert "total" in broken(story(A="+1 A1 B1 x", B="+1 B1 C1 x", C="+1 C1 A1 x"), "safe")


def test_causality_runs_through_other_senders_and_gaps() -> None:
    """An effect seen before its cause is a violation also when the link between them was never delivered here."""
    logs = story(A="+1 A1 +2 A2", B="A2 +1 B1", C="B1 +1 C1", D="C1")
    found = [violation for violation in oracles.causal(logs) if violation.member == "D"]
    assert [violation.messages for violation in found] == [(message("A1"), message("C1"))]


def test_a_parent_called_lost_is_excused_only_when_it_is() -> None:
    """Giving up a question that everybody else can read would split the conversation; one that died must not stop the answer."""
    assert not check(story(A="v1:ABC +1 A1 x", B="v1:ABC A1 +1>A1 B1 x", C="v1:ABC v2:C B1~A1"), "semantic")
    logs = story(A="+1 A1 B1", B="A1 +1>A1 B1", C="B1~A1 A1")
    assert broken(logs) >= {"parent_before_child"}
    assert not oracles.parent_before_child(logs, final=False)


def test_promises_follow_the_options() -> None:
    """A check that asks for too little is blind, and one that asks for too much is never green."""
    assert "agreement" in promised("fifo", "tree")
    assert "agreement" not in promised("unordered", "besteffort")
    assert "minimality" in promised("semantic", "flood")
    assert "minimality" not in promised("total", "flood")
    assert all(names <= set(ORACLES) for names in PROMISES.values())
    with pytest.raises(InvalidOption, match="PROMISES"):
        promised("alphabetical", "reliable")


def test_a_run_that_goes_on_is_not_blamed_for_what_is_on_its_way() -> None:
    """In the middle of a run a message may be on its way; only at the end it is missing."""
    logs = story(A="+1 A1 +2", B="")
    assert {violation.promise for violation in check(logs, "fifo")} == {"validity", "agreement"}
    assert not check(logs, "fifo", settled=False)


# -- good runs, and what may happen to them ------------------------------------------------------------------------------------------


def good_run(rng: random.Random) -> list[MemberLog]:
    """A run that keeps every promise: one sequence, which all members follow; each sends at points of it, now and then an answer."""
    members = [MemberId(name) for name in "ABCD"[: rng.randint(2, 4)]]
    count = rng.randint(2, 14)
    senders = [rng.choice(members) for _ in range(count)]
    sequence: list[MessageId] = []
    sends: dict[MemberId, list[tuple[int, Sent]]] = {member: [] for member in members}
    for position, sender in enumerate(senders):
        earlier = sends[sender]
        seen = rng.randint(earlier[-1][0] if earlier else 0, position)
        identity = MessageId(sender, len(earlier) + 1)
        names = (sequence[rng.randrange(seen)],) if seen and rng.random() < 0.5 else ()
        earlier.append((seen, Sent(float(seen), identity, names, bool(names))))
        sequence.append(identity)
    logs = []
    for member in members:
        events: list[LogEvent] = []
        for position in range(count + 1):
            events += [sent for seen, sent in sends[member] if seen == position]
            if position < count:
                events += [Received(position + 0.5, sequence[position]), Delivered(position + 0.5, sequence[position])]
        logs.append(MemberLog(member, events))
    return logs


def wild_run(rng: random.Random) -> list[MemberLog]:
    """A run that could happen where nothing is promised: whoever is next sends, or delivers anything that was sent."""
    logs = [MemberLog(MemberId(name), []) for name in "ABCD"]
    sent: list[MessageId] = []
    for _ in range(rng.randint(5, 60)):
        log = rng.choice(logs)
        ready = [message for message in sent if Delivered(0.0, message) not in log.events]
        if ready and rng.random() < 0.7:
            log.events.append(Delivered(0.0, rng.choice(ready)))
        else:
            sent.append(MessageId(log.member, 1 + sum(message.sender == log.member for message in sent)))
            log.events.append(Sent(0.0, sent[-1]))
    return logs


def causal_by_closure(logs: list[MemberLog]) -> set[tuple[MemberId, MessageId]]:
    """Causal precedence the slow way: the whole happened-before relation, and who delivered what without something before it."""
    before: dict[MessageId, set[MessageId]] = {}
    for log in logs:
        past: set[MessageId] = set()
        for event in log.events:
            if type(event) is Sent:
                before[event.id] = set(past)
                past.add(event.id)
            elif type(event) is Delivered:
                past.add(event.id)
    grown = True
    while grown:
        grown = False
        for past in before.values():
            size = len(past)
            for earlier in list(past):
                past |= before[earlier]
            grown = grown or len(past) > size
    found = set()
    for log in logs:
        done: set[MessageId] = set()
        for event in log.events:
            if type(event) is Delivered:
                if not before[event.id] <= done:
                    found.add((log.member, event.id))
                done.add(event.id)
    return found


Runs = st.integers(0, 2**32).map(random.Random)


@given(Runs)
@settings(max_examples=60, deadline=None)
def test_good_runs_are_clean(rng: random.Random) -> None:
    """What keeps every promise must pass every oracle."""
    assert not broken(good_run(rng))


def delivery_at(log: MemberLog, place: int) -> Delivered:
    event = log.events[place]
    assert type(event) is Delivered
    return event


def swap(log: MemberLog, places: list[int], rng: random.Random) -> set[str]:
    one, two = sorted(rng.sample(places, 2))
    first, second = delivery_at(log, one), delivery_at(log, two)
    log.events[one], log.events[two] = Delivered(first.at, second.id), Delivered(second.at, first.id)
    return {"total"} | ({"fifo", "causal"} if first.id.sender == second.id.sender else set())


def drop(log: MemberLog, places: list[int], rng: random.Random) -> set[str]:
    place = rng.choice(places)
    event = delivery_at(log, place)
    del log.events[place]
    return {"agreement"} | ({"validity"} if event.id.sender == log.member else set())


def double(log: MemberLog, places: list[int], rng: random.Random) -> set[str]:
    place = rng.choice(places)
    log.events.insert(rng.randint(place + 1, len(log.events)), log.events[place])
    return {"no_duplication"}


def alter(log: MemberLog, places: list[int], rng: random.Random) -> set[str]:
    place = rng.choice(places)
    event = delivery_at(log, place)
    log.events[place] = Delivered(event.at, event.id, 1)
    return {"integrity"}


def invent(log: MemberLog, places: list[int], rng: random.Random) -> set[str]:
    log.events.insert(rng.randint(0, len(log.events)), Delivered(99.0, MessageId(MemberId("Z"), 1)))
    return {"integrity"}


def linger(log: MemberLog, places: list[int], rng: random.Random) -> set[str]:
    place = rng.choice(places)
    event = delivery_at(log, place)
    log.events[place] = Delivered(event.at + 0.1, event.id)
    return {"minimality"}


Mutation = Callable[[MemberLog, list[int], random.Random], set[str]]


@pytest.mark.parametrize("mutation", [swap, drop, double, alter, invent, linger])
@given(rng=Runs)
@settings(max_examples=60, deadline=None)
def test_one_wrong_delivery_is_seen(mutation: Mutation, rng: random.Random) -> None:
    """A single delivery swapped, dropped, doubled, altered, invented or kept back, in any run, at any member, must not escape."""
    logs = good_run(rng)
    log = rng.choice(logs)
    places = [place for place, event in enumerate(log.events) if type(event) is Delivered]
    expected = mutation(log, places, rng)
    seen = broken(logs)
    assert expected <= seen
    if mutation in (double, alter, invent, linger):
        assert seen == expected, "one kind of mistake must not be taken for another"


@given(rng=Runs)
@settings(max_examples=120, deadline=None)
def test_causality_agrees_with_the_closure(rng: random.Random) -> None:
    """The quick oracle keeps one number per sender; were that not exact, causal order would be judged wrongly in odd runs only."""
    logs = wild_run(rng)
    assert {(violation.member, violation.messages[1]) for violation in oracles.causal(logs)} == causal_by_closure(logs)
