"""Faults in what is delivered at all: altered, invented, doubled, missing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from injecting import FIFO, LATE, Proof, cut_last, end_of, fault, foreign, others, own, pick, sent, somebody_else
from scenes import Line, Plan, Scene

from antiphon.trace.schema import CHECK_EVERY, SHORT

# -- integrity -----------------------------------------------------------------------------------------------------------------------


@fault("integrity", plan=FIFO)
def altered(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = foreign(scene, rng)
    line.checks = [*(line.checks or [0])[:-1], (line.checks or [0])[-1] ^ 1]
    return [[(member, line), sent(scene, line.sender or "", line.last)]]


@fault("integrity", plan=replace(FIFO, each=True))
def altered_in_the_middle(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = foreign(scene, rng, count=3)
    assert line.checks
    line.checks[1] ^= 4
    return [[(member, line), sent(scene, line.sender or "", line.first + 1)]]


@fault("integrity", plan=replace(FIFO, batch=40, rounds=40))
def altered_where_few_are_checked(scene: Scene, rng: random.Random) -> list[Proof]:
    """Long deliveries say the checksums of every 64th message only, whatever their sends say."""
    found = []
    for member in scene.members:
        for line in scene.of(member):
            if line.count > SHORT:
                line.checks = [check for number, check in enumerate(line.checks or [], line.first) if number % CHECK_EVERY == 0]
                found += [(member, line)] if line.checks and line.sender != member else []
    member, line = rng.choice(found)
    line.checks = [(line.checks or [0])[0] ^ 2]
    return [[(member, line), sent(scene, line.sender or "", line.last)]]


@fault("integrity", plan=FIFO)
def payloads_exchanged(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = foreign(scene, rng)
    other = pick(rng, [one for one in scene.of(member) if one.sender != line.sender])
    line.checks, other.checks = [*(line.checks or [])[:-1], (other.checks or [])[-1]], [*(other.checks or [])[:-1], (line.checks or [])[-1]]
    return [[(member, one), sent(scene, one.sender or "", one.last)] for one in (line, other)]


@fault("integrity", plan=FIFO)
def invented_at_all(scene: Scene, rng: random.Random) -> list[Proof]:
    sender = rng.choice(scene.members)
    number = scene.of(sender, "send")[-1].last + 1
    proofs: list[Proof] = []
    for member in scene.members:
        line = Line("deliver", LATE, sender, number, number, checks=[7])
        scene.move(member, [line], before=scene.end(member))
        proofs.append([(member, line)])
    return proofs


@fault("integrity", "agreement", plan=FIFO)
def invented_at_one(scene: Scene, rng: random.Random) -> list[Proof]:
    sender, member = rng.sample(scene.members, 2)
    number = scene.of(sender, "send")[-1].last + 1
    line = Line("deliver", LATE, sender, number, number, checks=[7])
    scene.move(member, [line], before=scene.end(member))
    return [[(member, line)]]


@fault("integrity", plan=FIFO)
def of_a_stranger(scene: Scene, rng: random.Random) -> list[Proof]:
    proofs: list[Proof] = []
    for member in scene.members:
        line = Line("deliver", LATE, "mallory#0123456789abcdef", 1, 1, checks=[7])
        scene.move(member, [line], before=scene.end(member))
        proofs.append([(member, line)])
    return proofs


@fault("integrity", plan=FIFO)
def before_it_was_sent(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = own(scene, rng)
    _, send = sent(scene, member, line.last)
    scene.move(member, [send], after=line)
    return [[(member, send), (member, line)]]


# -- no duplication ------------------------------------------------------------------------------------------------------------------


@fault("no_duplication", plan=FIFO)
def again_at_once(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = foreign(scene, rng)
    again = line.copy()
    scene.move(member, [again], after=line)
    return [[(member, line), (member, again)]]


@fault("no_duplication", plan=FIFO)
def again_later(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = foreign(scene, rng, view=LATE)
    again = line.copy()
    scene.move(member, [again], before=scene.end(member))
    return [[(member, line), (member, again)]]


@fault("no_duplication", plan=FIFO)
def the_last_again(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = foreign(scene, rng, view=LATE, count=2)
    again = line.copy(first=line.last)
    scene.move(member, [again], before=scene.end(member))
    return [[(member, line), (member, again)]]


@fault("no_duplication", plan=FIFO)
def overlapping(scene: Scene, rng: random.Random) -> list[Proof]:
    member = rng.choice(scene.members)
    pairs = [(one, two) for sender in scene.members for one, two in pairwise(scene.of(member, sender=sender)) if one.view == two.view]
    one, two = rng.choice(pairs)
    two.first, two.checks = two.first - 1, None  # a long row's checksums would now be those of other messages
    return [[(member, one), (member, two)]]


@fault("no_duplication", plan=FIFO)
def own_again(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = own(scene, rng, view=LATE)
    again = line.copy()
    scene.move(member, [again], before=scene.end(member))
    return [[(member, line), (member, again)]]


@fault("no_duplication", plan=FIFO)
def recovered_again(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = foreign(scene, rng, view=1)
    again = line.copy(note="recovered")
    scene.move(member, [again], after=scene.of(member, "view", view=LATE)[0])
    return [[(member, line), (member, again)]]


# -- validity ------------------------------------------------------------------------------------------------------------------------


@fault("validity", "agreement", plan=FIFO)
def own_not_delivered(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = own(scene, rng, view=LATE)
    scene.remove(member, line)
    return [[sent(scene, member, line.first), (member, end_of(scene, member))]]


@fault("validity", "agreement", plan=FIFO)
def own_tail_not_delivered(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = own(scene, rng, view=LATE, count=2)
    cut_last(line)
    return [[sent(scene, member, line.last + 1), (member, end_of(scene, member))]]


@fault("validity", "agreement", plan=FIFO)
def own_only_held(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = own(scene, rng, view=LATE)
    line.kind, line.checks = "hold", None
    return [[sent(scene, member, line.first), (member, end_of(scene, member))]]


@fault("validity", plan=Plan(order="unordered", multicast="besteffort"))
def own_not_delivered_over_best_effort(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = own(scene, rng)
    scene.remove(member, *scene.unit(member, line))
    return [[sent(scene, member, line.first), (member, end_of(scene, member))]]


@fault("validity", "nothing_lost", plan=FIFO)
def delivered_by_nobody(scene: Scene, rng: random.Random) -> list[Proof]:
    member = rng.choice(scene.members)
    number = scene.of(member, "send")[-1].last + 1
    line = Line("send", LATE, member, number, number, checks=[1])
    scene.move(member, [line], before=scene.end(member))
    return [[(member, line), (member, end_of(scene, member))]]


@fault("validity", "agreement", "virtual_synchrony", plan=FIFO)
def own_not_delivered_before_the_view(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = own(scene, rng, view=1)
    scene.remove(member, line)
    return [[sent(scene, member, line.first), (member, end_of(scene, member))]]


# -- agreement -----------------------------------------------------------------------------------------------------------------------


@fault("agreement", plan=FIFO)
def missing_at_one(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = foreign(scene, rng, view=LATE)
    scene.remove(member, line)
    return somebody_else(scene, member, line.sender or "", line.first, (member, end_of(scene, member)))


@fault("agreement", plan=FIFO)
def tail_missing_at_one(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = foreign(scene, rng, view=LATE, count=2)
    cut_last(line)
    return somebody_else(scene, member, line.sender or "", line.last + 1, (member, end_of(scene, member)))


@fault("agreement", plan=FIFO)
def head_missing_at_one(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = foreign(scene, rng, view=LATE, count=2)
    line.first += 1
    return somebody_else(scene, member, line.sender or "", line.first - 1, (member, end_of(scene, member)))


@fault("agreement", plan=FIFO)
def only_the_sender_has_it(scene: Scene, rng: random.Random) -> list[Proof]:
    sender, line = own(scene, rng, view=LATE)
    for member in others(scene, sender):
        scene.remove(member, scene.one(member, sender, line.first))
    return [[(sender, line), (member, end_of(scene, member))] for member in others(scene, sender)]


@fault("agreement", plan=Plan(dies=True))
def stable_before_a_crash(scene: Scene, rng: random.Random) -> list[Proof]:
    dead = scene.members[-1]
    line = scene.of(dead, view=1, sender=dead)[-1]
    for member in others(scene, dead):
        scene.remove(member, scene.one(member, dead, line.first))
    return [[(dead, line), (member, scene.of(member, "view", view=LATE)[0])] for member in others(scene, dead)]


@fault("agreement", plan=Plan(dies=True, delivery="safe", places=False))
def safe_before_a_crash(scene: Scene, rng: random.Random) -> list[Proof]:
    return stable_before_a_crash(scene, rng)


# -- nothing lost --------------------------------------------------------------------------------------------------------------------


@fault("nothing_lost", "validity", plan=FIFO)
def sent_to_nobody(scene: Scene, rng: random.Random) -> list[Proof]:
    (first, *_), *_ = delivered_by_nobody(scene, rng)
    return [[first, *((member, end_of(scene, member)) for member in scene.members)]]


def lost_with_a_leaver(scene: Scene, lost: Sequence[Line]) -> list[Proof]:
    gone = scene.members[-1]
    stayers = others(scene, gone)
    for member in stayers:
        scene.remove(member, *(scene.one(member, gone, line.first) for line in lost))
    return [[sent(scene, gone, min(line.first for line in lost)), *((member, end_of(scene, member)) for member in stayers)]]


LEAVES = Plan(leaves=True, members=3, rounds=24)


@fault("nothing_lost", plan=LEAVES)
def last_of_a_leaver(scene: Scene, rng: random.Random) -> list[Proof]:
    return lost_with_a_leaver(scene, scene.of(scene.members[-1], sender=scene.members[-1])[-1:])


@fault("nothing_lost", plan=LEAVES)
def first_of_a_leaver(scene: Scene, rng: random.Random) -> list[Proof]:
    return lost_with_a_leaver(scene, scene.of(scene.members[-1], sender=scene.members[-1])[:1])


@fault("nothing_lost", plan=LEAVES)
def all_of_a_leaver(scene: Scene, rng: random.Random) -> list[Proof]:
    return lost_with_a_leaver(scene, scene.of(scene.members[-1], sender=scene.members[-1]))


@fault("nothing_lost", plan=replace(LEAVES, batch=1))
def more_than_a_leaver_was_told(scene: Scene, rng: random.Random) -> list[Proof]:
    gone = scene.members[-1]
    scene.of(gone, "leave")[0].amount = 1
    return lost_with_a_leaver(scene, scene.of(gone, sender=gone)[-2:])


@fault("nothing_lost", plan=LEAVES)
def some_of_a_leaver(scene: Scene, rng: random.Random) -> list[Proof]:
    return lost_with_a_leaver(scene, [pick(rng, scene.of(scene.members[-1], sender=scene.members[-1]))])
