"""The oracles where a membership makes the views: each sees what it should in logs made by hand, and nothing in those that are good."""

from __future__ import annotations

import pytest

from antiphon.model.control import Holdings, Wants
from antiphon.model.ids import MemberId, MessageId
from antiphon.model.options import GroupOptions
from antiphon.model.view import View
from antiphon.sim.log import (
    Adopted,
    Delivered,
    GotPrivately,
    LogEvent,
    MemberLog,
    Missed,
    Returned,
    Sent,
    SentPrivately,
    Viewed,
)
from antiphon.sim.oracles import check_group

CAUSAL = GroupOptions(order="causal")
TOTAL = GroupOptions(order="total")
SEMANTIC = GroupOptions(order="semantic")
SAFE = GroupOptions(order="fifo", delivery="safe")
MAJORITY = GroupOptions(order="total", delivery="safe", partitions="majority")


def message(text: str) -> MessageId:
    return MessageId(MemberId(text[0]), int(text[1:]))


def holdings(text: str) -> Holdings:
    return {MemberId(text[0]): [int(number) for number in text[1:].split("-")]}


def story(**lives: str) -> list[MemberLog]:
    """Logs in short. In the life of A, `v2:AB|C` installs view 2, whose sides are A, B and C (`v2:A+D`: D is new);
    `+1` sends A1, `+2>B1` sends A2 naming B1;
    `B1` delivers B1, sent in the view that A is in (`B1@3`: in view 3), `B1^3` catches up with B1, sent in view 3, `B2~B1` is delivered
    with B1 given up as lost. `-B1-3` is told that B1 to B3 are lost, `=B1-3` gets a state instead of them. `say:B1` and `say:B1/2` send
    number 1 to B alone (after A2), `got:B1` gets B's number 1, `back:B1` has it returned. `x` crashes (`x:B2` when B's messages up to 2
    were stable), `q` has left."""
    return [life(MemberId(name), words) for name, words in lives.items()]


def life(member: MemberId, words: str) -> MemberLog:
    log, view = MemberLog(member, []), 0
    for now, word in enumerate(words.split()):
        mark, rest = word[0], word[1:]
        event: LogEvent
        if mark == "x":
            log.crashed_at = now
            log.stable = dict(message(position) for position in rest.removeprefix(":").split(",") if position)
            continue
        if mark == "q":
            log.departed_at = now
            continue
        if mark == "v":
            number, _, members = rest.partition(":")
            former = members.partition("+")[0]
            sides = tuple(tuple(MemberId(name) for name in side) for side in former.split("|") if side)
            everyone = tuple(MemberId(name) for name in sorted(members.replace("|", "").replace("+", "")))
            event = Viewed(now, View(int(number), everyone), view, sides)
            view = int(number)
        elif mark == "+":
            seqno, _, names = rest.partition(">")
            event = Sent(0.0, MessageId(member, int(seqno)), tuple(message(name) for name in names.split(",") if name), bool(names))
        elif mark == "-":
            event = Missed(now, holdings(rest))
        elif mark == "=":
            event = Adopted(now, holdings(rest))
        elif word.startswith("say:"):
            number, _, after = word[5:].partition("/")
            event = SentPrivately(now, MemberId(word[4]), int(number), int(after or 0), int(number))
        elif word.startswith("got:"):
            event = GotPrivately(now, MemberId(word[4]), int(word[5:]))
        elif word.startswith("back:"):
            event = Returned(now, MemberId(word[5]), int(word[6:]))
        else:
            text, recovered, where = word.partition("^")
            identity, _, lost = text.partition("~")
            parents = tuple(message(name) for name in lost.split(",") if name)
            identity, _, elsewhere = identity.partition("@")
            event = Delivered(now, message(identity), 0, parents, int(where or elsewhere or view), bool(recovered))
        log.events.append(event)
    return log


def broken(logs: list[MemberLog], options: GroupOptions = CAUSAL, wants: dict[MemberId, Wants] | None = None) -> set[str]:
    return {violation.promise for violation in check_group(logs, options, wants)}


GOOD: dict[str, tuple[GroupOptions, dict[str, str]]] = {
    "one comes": (CAUSAL, {"A": "v1:+A +1 A1 v2:A+B +2 A2", "B": "v2:A+B A1^1 A2"}),
    "two halves part, go on, and meet": (
        CAUSAL,
        {
            "A": "v1:+AB v2:A +1 A1 v4:A|B B1^3 +2 A2 B2",
            "B": "v1:+AB v3:B +1 B1 v4:A|B A1^2 A2 +2 B2",
        },
    ),
    "each half ends the old view in its own order": (
        TOTAL,
        {
            "A": "v1:+AB +1 A1 v2:A v4:A|B B1^1",
            "B": "v1:+AB +1 B1 v3:B v4:A|B A1^1",
        },
    ),
    "the dead had delivered more": (CAUSAL, {"A": "v1:+AB +1 A1 x", "B": "v1:+AB v2:B"}),
    "the only one who had it died before the other had caught up": (
        CAUSAL,
        {"A": "v1:+A +1 A1 v2:A+B +2 A2 x", "B": "v2:A+B v3:B +1 B1"},
    ),
    "one leaves": (CAUSAL, {"A": "v1:+AB +1 A1 B1 v2:A", "B": "v1:+AB A1 +1 B1 q"}),
    "what nobody keeps is told": (CAUSAL, {"A": "v1:+A +1 +2 A1 A2 v2:A+B", "B": "v2:A+B -A1-1 A2^1"}),
    "a state stands for messages": (CAUSAL, {"A": "v1:+A +1 A1 v2:A+B +2 A2", "B": "v2:A+B =A1-1 A2"}),
    "a parent on the other side is called lost and comes later": (
        SEMANTIC,
        {
            "A": "v1:+ABC B1~C1 v2:A v4:A|BC C1^1",
            "B": "v1:+ABC C1 +1>C1 B1 v3:BC v4:A|BC",
            "C": "v1:+ABC +1 C1 B1 v3:BC v4:A|BC",
        },
    ),
    "who was catching up comes alone": (
        CAUSAL,
        {"A": "v1:+A +1 A1 v2:A+B +2 A2 v3:A|B", "B": "v2:A+B v3:A|B A1^1 A2^2"},
    ),
    "a private message after what came before it": (
        CAUSAL,
        {"A": "v1:+AB +1 A1 say:B1/1 say:B2/1", "B": "v1:+AB A1 got:A1 got:A2"},
    ),
    "a private message comes back": (CAUSAL, {"A": "v1:+AB say:B1 v2:A back:B1", "B": "v1:+AB got:A1 x"}),
    "a minority waits": (
        MAJORITY,
        {
            "A": "v1:+ABC +1 A1 v2:AB v3:AB|C C1",
            "B": "v1:+ABC A1 v2:AB v3:AB|C C1",
            "C": "v1:+ABC +1 v3:AB|C A1^1 C1",
        },
    ),
}


@pytest.mark.parametrize("what", GOOD)
def test_what_is_allowed_is_not_blamed(what: str) -> None:
    """An oracle that blames a legal run makes every swarm red, and soon nobody looks."""
    options, lives = GOOD[what]
    assert not check_group(story(**lives), options)


BAD: list[tuple[str, str, GroupOptions, dict[str, str]]] = [
    ("views", "is not in the view it installs", CAUSAL, {"A": "v1:+A", "B": "v1:+A x"}),
    ("views", "goes back to an older view", CAUSAL, {"A": "v2:+A v1:A"}),
    ("views", "one view is two things", CAUSAL, {"A": "v1:+AB v2:AB", "B": "v1:+AB v2:B x"}),
    ("views", "who came with whom differs", CAUSAL, {"A": "v1:+AB v2:AB", "B": "v1:+AB v2:B|A"}),
    ("views", "one side from two views", CAUSAL, {"A": "v1:+A v3:AB", "B": "v2:+B v3:AB"}),
    ("primary", "two halves go on", MAJORITY, {"A": "v1:+AB v2:A x", "B": "v1:+AB v3:B"}),
    ("convergence", "two halves never meet", CAUSAL, {"A": "v1:+AB v2:A", "B": "v1:+AB v3:B"}),
    ("convergence", "the dead stay in the view", CAUSAL, {"A": "v1:+AB", "B": "v1:+AB x"}),
    ("convergence", "one never comes in", CAUSAL, {"A": "v1:+A", "B": ""}),
    ("virtual_synchrony", "one goes on without a message", CAUSAL, {"A": "v1:+AB +1 A1 v2:AB", "B": "v1:+AB v2:AB A1^1"}),
    ("virtual_synchrony", "a message in the wrong view", CAUSAL, {"A": "v1:+AB +1 A1 v2:A|B", "B": "v1:+AB v2:A|B A1@1"}),
    ("virtual_synchrony", "one message in two views", CAUSAL, {"A": "v1:+AB +1 A1 v2:A|B", "B": "v1:+AB v2:A|B A1"}),
    ("agreement", "a side's message is never caught up with", CAUSAL, {"A": "v1:+A +1 A1 v3:A|B", "B": "v2:+B v3:A|B"}),
    ("agreement", "what was stable died with one", CAUSAL, {"A": "v1:+AB +1 A1 x:A1", "B": "v1:+AB v2:B"}),
    ("agreement", "what was safe died with one", SAFE, {"A": "v1:+ABC +1 A1 x", "B": "v1:+ABC v2:BC", "C": "v1:+ABC v2:BC"}),
    ("validity", "a message is forgotten by its own sender", CAUSAL, {"A": "v1:+AB +1 v2:AB", "B": "v1:+AB v2:AB"}),
    ("no_duplication", "caught up with twice", CAUSAL, {"A": "v1:+A +1 A1 v3:A|B", "B": "v2:+B v3:A|B A1^1 A1^1"}),
    ("no_duplication", "delivered although in the state", CAUSAL, {"A": "v1:+A +1 A1 v2:A+B", "B": "v2:A+B =A1-1 A1^1"}),
    ("fifo", "caught up with in the wrong order", GroupOptions(), {"A": "v1:+A +1 +2 A1 A2 v3:A|B", "B": "v2:+B v3:A|B A2^1 A1^1"}),
    ("causal", "new before old", CAUSAL, {
        "A": "v1:+A +1 A1 v4:A|B|C B1", "B": "v2:+B v4:A|B|C A1^1 +1 B1", "C": "v3:+C v4:A|B|C B1 A1^1",
    }),
    ("total", "one company, two orders", TOTAL, {"A": "v1:+AB +1 A1 B1 v2:AB", "B": "v1:+AB +1 B1 A1 v2:AB"}),
    ("one_stream", "the minority orders its own", MAJORITY, {
        "A": "v1:+ABC +1 A1 v2:AB v3:AB|C C1^1", "B": "v1:+ABC A1 v2:AB v3:AB|C C1^1", "C": "v1:+ABC +1 C1 v3:AB|C A1^1",
    }),
    ("parent_before_child", "an answer is caught up with before its question", SEMANTIC, {
        "A": "v1:+AC +1 A1 C1 v3:AC|B", "B": "v2:+B v3:AC|B C1^1 A1^1", "C": "v1:+AC A1 +1>A1 C1 v3:AC|B",
    }),
    ("parent_before_child", "called lost beside one who has it", SEMANTIC, {
        "A": "v1:+ABC B1~C1 v2:AB", "B": "v1:+ABC C1 +1>C1 B1 v2:AB", "C": "v1:+ABC +1 x",
    }),
    ("private", "arrives twice", CAUSAL, {"A": "v1:+AB say:B1", "B": "v1:+AB got:A1 got:A1"}),
    ("private", "was never sent", CAUSAL, {"A": "v1:+AB", "B": "v1:+AB got:A1"}),
    ("private", "overtakes", CAUSAL, {"A": "v1:+AB say:B1 say:B2", "B": "v1:+AB got:A2 got:A1"}),
    ("private", "overtakes the group", CAUSAL, {"A": "v1:+AB +1 A1 say:B1/1", "B": "v1:+AB got:A1 A1"}),
    ("private", "is lost in silence", CAUSAL, {"A": "v1:+AB say:B1", "B": "v1:+AB"}),
    ("private", "is lost with its receiver", CAUSAL, {"A": "v1:+AB say:B1 v2:A", "B": "v1:+AB x"}),
]  # fmt: skip


@pytest.mark.parametrize(("promise", "what", "options", "lives"), BAD, ids=[f"{promise}: {what}" for promise, what, _, _ in BAD])
def test_each_promise_broken(promise: str, what: str, options: GroupOptions, lives: dict[str, str]) -> None:
    """An oracle that misses its own violation would let a broken membership pass."""
    assert promise in broken(story(**lives), options)


def test_a_newcomer_gets_what_it_asked_for_and_may_lack_the_rest() -> None:
    """A newcomer that wanted no past would be blamed for having none; one that wanted all could be given none."""
    logs = story(A="v1:+A +1 A1 v2:A+B +2>A1 A2", B="v2:A+B A2")
    assert broken(logs) == {"agreement"}
    assert not broken(logs, wants={MemberId("B"): Wants("none")})
    apart = story(A="v3:+A +1 A1 v4:A|B", B="v2:+B v4:A|B")
    assert broken(apart, wants={MemberId("B"): Wants("none")}) == {"agreement"}, "what another side sent meanwhile is not the past"


def test_a_run_that_goes_on_is_not_blamed_for_what_is_on_its_way() -> None:
    """In the middle of a run two halves may still be apart, and a message on its way; only at the end is it missing."""
    logs = story(A="v1:+AB +1 v2:A say:B1", B="v1:+AB v3:B")
    assert broken(logs) >= {"convergence", "validity", "private"}
    assert not check_group(logs, CAUSAL, settled=False)


def test_in_a_small_part_of_a_safe_group_what_was_safe_may_be_lost() -> None:
    """A majority of the view held it; when that majority has gone for good, those who stay cannot be blamed."""
    assert not broken(story(A="v1:+ABC +1 A1 x", B="v1:+ABC A1 x", C="v1:+ABC v2:C"), SAFE)
