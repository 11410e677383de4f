"""Faults in the order of deliveries: of one sender, of causes, of all, of answers; and what waits for nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from injecting import FIFO, LATE, Proof, cut_last, fault, foreign, others, own, sent
from scenes import Line, Plan, Scene

# -- fifo ----------------------------------------------------------------------------------------------------------------------------


def two_of_one(scene: Scene, rng: random.Random, mine: bool = False) -> tuple[str, Line, Line]:
    """Somebody, and two deliveries of one sender that follow each other in one view."""
    found = [
        (member, one, two)
        for member in scene.members
        for sender in scene.members
        if (member == sender) == mine
        for one, two in pairwise(scene.of(member, sender=sender))
        if one.view == two.view
    ]
    return rng.choice(found)


@fault("fifo", plan=FIFO)
def second_before_first(scene: Scene, rng: random.Random) -> list[Proof]:
    member, one, two = two_of_one(scene, rng)
    scene.move(member, [two], before=one)
    return [[(member, one), (member, two)]]


@fault("fifo", plan=FIFO)
def first_after_second(scene: Scene, rng: random.Random) -> list[Proof]:
    member, one, two = two_of_one(scene, rng)
    scene.move(member, [one], after=two)
    return [[(member, one), (member, two)]]


@fault("fifo", plan=FIFO)
def first_at_the_end(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = foreign(scene, rng, view=LATE)
    one, *later = [
        one
        for one in scene.of(member, view=LATE, sender=line.sender)
        if one.first >= scene.of(member, view=LATE, sender=line.sender)[0].first
    ]
    if not later:
        return first_at_the_end(scene, rng)
    scene.move(member, [one], before=scene.end(member))
    return [[(member, one), (member, two)] for two in later]


@fault("fifo", plan=FIFO)
def one_batch_backwards(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = foreign(scene, rng, count=2)
    tail = line.copy(first=line.first + 1)
    line.last, line.checks = line.first, None
    scene.move(member, [tail], before=line)
    return [[(member, tail), (member, line)]]


@fault("fifo", plan=FIFO)
def own_backwards(scene: Scene, rng: random.Random) -> list[Proof]:
    member, one, two = two_of_one(scene, rng, mine=True)
    scene.move(member, [one], after=two)
    return [[(member, one), (member, two)]]


# -- causal --------------------------------------------------------------------------------------------------------------------------

CAUSAL = Plan(order="causal")


def caused(scene: Scene, rng: random.Random, mine: bool = False) -> tuple[str, Line, Line]:
    """Somebody, and two deliveries that follow each other, of two senders and two rounds: the first is a cause of the second."""
    found = [
        (member, one, two)
        for member in scene.members
        for one, two in pairwise(scene.of(member))
        if one.view == two.view and one.round != two.round and one.sender != two.sender and two.sender != member
        if (one.sender == member) == mine
    ]
    return rng.choice(found)


def effect_first(scene: Scene, member: str, cause: Line, effect: Line) -> list[Proof]:
    scene.move(member, [effect], before=cause)
    sender = effect.sender or ""
    heard = scene.one(sender, cause.sender or "", cause.last)
    return [[sent(scene, sender, effect.last), (sender, heard), (member, effect), (member, cause)]]


@fault("causal", plan=CAUSAL)
def effect_before_its_cause(scene: Scene, rng: random.Random) -> list[Proof]:
    return effect_first(scene, *caused(scene, rng))


@fault("causal", plan=CAUSAL)
def answer_to_me_before_my_own(scene: Scene, rng: random.Random) -> list[Proof]:
    return effect_first(scene, *caused(scene, rng, mine=True))


@fault("causal", plan=replace(CAUSAL, members=19, rounds=8))
def in_a_group_larger_than_a_clock(scene: Scene, rng: random.Random) -> list[Proof]:
    return effect_first(scene, *caused(scene, rng))


@fault("causal", "total", plan=replace(CAUSAL, order="total"))
def effect_before_its_cause_in_total_order(scene: Scene, rng: random.Random) -> list[Proof]:
    return effect_first(scene, *caused(scene, rng))


@fault("causal", plan=replace(CAUSAL, dies=True, places=False, members=5, rounds=24))
def without_its_cause_before_a_crash(scene: Scene, rng: random.Random) -> list[Proof]:
    dead = scene.members[-1]
    lines = scene.of(dead, view=1)
    found = [
        (one, two)
        for one, two in pairwise(lines)
        if one.round != two.round and one.sender != two.sender and dead not in (one.sender, two.sender)
    ]
    cause, effect = found[-1]
    scene.remove(dead, cause)
    sender = effect.sender or ""
    return [[sent(scene, sender, effect.last), (sender, scene.one(sender, cause.sender or "", cause.last)), (dead, effect)]]


@fault("causal", plan=replace(CAUSAL, batch=1))
def effect_of_one_message(scene: Scene, rng: random.Random) -> list[Proof]:
    return effect_first(scene, *caused(scene, rng))


# -- total ---------------------------------------------------------------------------------------------------------------------------

TOTAL = Plan(order="total")


def concurrent(
    scene: Scene, rng: random.Random, among: Sequence[str] | None = None, view: int | None = None, count: int = 1
) -> tuple[str, Line, Line]:
    """Somebody, and two deliveries that follow each other, of two senders in one round: nothing but the order is between them."""
    found = [
        (member, one, two)
        for member in among or scene.members
        for one, two in pairwise(scene.of(member, view=view))
        if one.round == two.round and one.count >= count
    ]
    return rng.choice(found)


def in_another_order(scene: Scene, member: str, one: Line, two: Line) -> list[Proof]:
    def theirs(other: str, line: Line) -> tuple[str, Line]:
        return other, scene.one(other, line.sender or "", line.first)

    return [[(member, one), (member, two), theirs(other, one), theirs(other, two)] for other in others(scene, member)]


@fault("total", plan=TOTAL)
def two_exchanged(scene: Scene, rng: random.Random) -> list[Proof]:
    member, one, two = concurrent(scene, rng)
    scene.move(member, [two], before=one)
    return in_another_order(scene, member, one, two)


@fault("total", plan=TOTAL)
def two_exchanged_in_the_last_view(scene: Scene, rng: random.Random) -> list[Proof]:
    member, one, two = concurrent(scene, rng, view=LATE)
    scene.move(member, [one], after=two)
    return in_another_order(scene, member, one, two)


@fault("total", plan=TOTAL)
def one_in_the_middle_of_another(scene: Scene, rng: random.Random) -> list[Proof]:
    member, one, two = concurrent(scene, rng, count=2)
    tail = one.copy(first=one.last)
    one.last, one.checks = one.last - 1, None
    scene.move(member, [tail], after=two)
    proofs = in_another_order(scene, member, tail, two)
    return proofs


@fault("total", "agreement", "causal", plan=TOTAL)
def one_left_out(scene: Scene, rng: random.Random) -> list[Proof]:
    """What is sent in later rounds follows from it."""
    member, one, two = concurrent(scene, rng, view=LATE)
    while member == one.sender or not _followed(scene, member, one):
        member, one, two = concurrent(scene, rng, view=LATE)
    scene.remove(member, one)
    number = two.first
    theirs = [
        (other, scene.one(other, one.sender or "", one.first), scene.one(other, two.sender or "", number))
        for other in others(scene, member)
    ]
    return [[(member, two), (other, first), (other, second)] for other, first, second in theirs]


def _followed(scene: Scene, member: str, cause: Line) -> bool:
    """Whether a third says something in a later round, before the sender of `cause` does: that is an effect of it."""
    for line in scene.of(member, view=cause.view):
        if line.round > cause.round and line.sender != member:
            return line.sender != cause.sender
    return False


@fault("total", plan=replace(TOTAL, dies=True))
def stable_places_before_a_crash(scene: Scene, rng: random.Random) -> list[Proof]:
    member, one, two = concurrent(scene, rng, among=scene.members[-1:], view=1)
    scene.move(member, [two], before=one)
    return in_another_order(scene, member, one, two)


@fault("total", plan=replace(TOTAL, dies=True, delivery="safe", places=False))
def safe_places_before_a_crash(scene: Scene, rng: random.Random) -> list[Proof]:
    return stable_places_before_a_crash(scene, rng)


# -- parent before child -------------------------------------------------------------------------------------------------------------

SEMANTIC = Plan(order="semantic", replies=0.6, batch=1, rounds=16)


def sends_of(scene: Scene) -> dict[tuple[str | None, int], Line]:
    """The line that sent each message."""
    sends = ((sender, line) for sender in scene.members for line in scene.of(sender, "send"))
    return {(sender, number): line for sender, line in sends for number in range(line.first, line.last + 1)}


def answers_to(scene: Scene, member: str, parent: Line) -> list[tuple[tuple[str, Line], tuple[str, Line]]]:
    """What the member delivered that names it: how it was sent, and delivered."""
    sends, asked = sends_of(scene), (parent.sender, parent.first)
    children = ((line, sends[line.sender, line.first]) for line in scene.of(member))
    return [((line.sender or "", send), (member, line)) for line, send in children if asked in [one[1:] for one in send.names or []]]


def answered(
    scene: Scene, rng: random.Random, name: int = 0, same: bool = False, among: Sequence[str] | None = None
) -> tuple[str, Line, Line]:
    """Somebody, and two deliveries of one view: the second answers the first. `name` is the place among the names."""
    found = []
    sends = sends_of(scene)
    for member in among or scene.members:
        delivered = {(line.sender, number): line for line in reversed(scene.of(member)) for number in range(line.first, line.last + 1)}
        for child in scene.of(member):
            names = [one for one in sends[child.sender, child.first].names or [] if one[0] == child.first]
            if len(names) <= name or child.sender == member:
                continue
            _, sender, number = names[name]
            parent = delivered[sender, number]
            if parent.view == child.view and (sender == child.sender) == same:
                found.append((member, parent, child))
    return rng.choice(found)


def child_first(scene: Scene, member: str, parent: Line, child: Line) -> list[Proof]:
    scene.move(member, scene.unit(member, child), before=scene.unit(member, parent)[0])
    return [[sent(scene, child.sender or "", child.first), (member, child), (member, parent)]]


@fault("parent_before_child", plan=SEMANTIC)
def answer_first(scene: Scene, rng: random.Random) -> list[Proof]:
    return child_first(scene, *answered(scene, rng))


@fault("parent_before_child", plan=SEMANTIC)
def second_parent_later(scene: Scene, rng: random.Random) -> list[Proof]:
    member, parent, child = answered(scene, rng, name=1)
    scene.move(member, scene.unit(member, parent), after=child)
    return [[sent(scene, child.sender or "", child.first), (member, child), (member, parent)]]


@fault("parent_before_child", plan=replace(SEMANTIC, members=3, rounds=40))
def answer_to_oneself_first(scene: Scene, rng: random.Random) -> list[Proof]:
    return child_first(scene, *answered(scene, rng, same=True))


@fault("parent_before_child", plan=SEMANTIC)
def parent_at_the_end(scene: Scene, rng: random.Random) -> list[Proof]:
    member, parent, _ = answered(scene, rng)
    while parent.view != LATE:
        member, parent, _ = answered(scene, rng)
    scene.move(member, scene.unit(member, parent), before=scene.end(member))
    parent.at = scene.lines[member][scene.index(member, parent) - 1].at = 1 << 30
    return [[send, child, (member, parent)] for send, child in answers_to(scene, member, parent)]


@fault("parent_before_child", plan=replace(SEMANTIC, dies=True, places=False))
def without_its_parent_before_a_crash(scene: Scene, rng: random.Random) -> list[Proof]:
    member, parent, _ = answered(scene, rng, among=scene.members[-1:])
    scene.remove(member, *scene.unit(member, parent))
    return [[send, child] for send, child in answers_to(scene, member, parent)]


# -- minimality ----------------------------------------------------------------------------------------------------------------------

UNORDERED = Plan(order="unordered")


def next_unit(scene: Scene, member: str, line: Line) -> Line | None:
    """The delivery of the turn after the line's."""
    lines = scene.of(member, view=line.view)
    place = lines.index(line)
    return lines[place + 1] if place + 1 < len(lines) else None


def late_by_a_turn(scene: Scene, rng: random.Random, mine: bool = False) -> list[Proof]:
    while True:
        member, line = own(scene, rng) if mine else foreign(scene, rng)
        after = next_unit(scene, member, line)
        named = sent(scene, line.sender or "", line.first)[1].names
        children = [
            one
            for other in scene.members
            for one in scene.of(other, "send")
            if any(name[1:] == (line.sender, line.first) for name in one.names or [])
        ]
        if after is not None and not named and not children:
            break
    received = scene.unit(member, line)[0]
    scene.move(member, [line], after=after)
    return [[(member, received), (member, line)]]


@fault("minimality", plan=UNORDERED)
def delivered_a_turn_later(scene: Scene, rng: random.Random) -> list[Proof]:
    return late_by_a_turn(scene, rng)


@fault("minimality", plan=UNORDERED)
def own_delivered_a_turn_later(scene: Scene, rng: random.Random) -> list[Proof]:
    return late_by_a_turn(scene, rng, mine=True)


@fault("minimality", plan=UNORDERED)
def tail_delivered_a_turn_later(scene: Scene, rng: random.Random) -> list[Proof]:
    while True:
        member, line = foreign(scene, rng, count=2)
        if (after := next_unit(scene, member, line)) is not None:
            break
    received = scene.unit(member, line)[0]
    tail = line.copy(first=line.last)
    cut_last(line)
    scene.move(member, [tail], after=after)
    return [[(member, received), (member, tail)]]


@fault("minimality", plan=SEMANTIC)
def without_parents_a_turn_later(scene: Scene, rng: random.Random) -> list[Proof]:
    return late_by_a_turn(scene, rng)


@fault("minimality", plan=replace(SEMANTIC, rounds=24, replies=0.3))
def answer_a_turn_after_its_question(scene: Scene, rng: random.Random) -> list[Proof]:
    """The answer comes first and is held, as it should; the question comes; and the answer waits for one turn more."""
    while True:
        member, parent, child = answered(scene, rng)
        names = sent(scene, child.sender or "", child.first)[1].names or []
        later = next_unit(scene, member, parent)
        alone = len(names) == 1 and later is not None and later is not child and scene.index(member, later) < scene.index(member, child)
        if alone and not any(
            name[1:] == (child.sender, child.first)
            for other in scene.members
            for one in scene.of(other, "send")
            for name in one.names or []
        ):
            break
    received = scene.unit(member, child)[0]
    question = scene.unit(member, parent)[0]
    held = Line("hold", child.view, child.sender, child.first, child.last, [(0, parent.sender or "", parent.first)], at=question.at)
    scene.move(member, [received, held], before=question)
    scene.move(member, [child], after=later)
    received.at = question.at - 1
    return [[(member, received), (member, child), (member, parent)]]


@fault("minimality", plan=SEMANTIC)
def held_for_what_was_delivered(scene: Scene, rng: random.Random) -> list[Proof]:
    member, parent, child = answered(scene, rng)
    held = Line("hold", child.view, child.sender, child.first, child.last, [(0, parent.sender or "", parent.first)], at=child.at)
    scene.move(member, [held], after=child)
    return [[(member, parent), (member, held)]]
