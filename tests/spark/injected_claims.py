"""False claims: that a message is lost, or an orphan; deliveries of those who are not in the group, or to those who have left it."""

from __future__ import annotations

import json
import random
from dataclasses import replace

from injected_orders import SEMANTIC, answered, child_first, sends_of
from injecting import FIFO, LATE, Proof, end_of, fault, foreign, others, own, sent, somebody_else
from scenes import Line, Plan, Scene

STRANGER = "mallory#0123456789abcdef"


def lost(line: Line, note: str | None = None) -> Line:
    """The row by which a member says that it will never deliver these messages."""
    return Line("gap", line.view, line.sender, line.first, line.last, note=note)


def told_lost(scene: Scene, member: str, line: Line, note: str | None = None) -> None:
    scene.move(member, [lost(line, note)], after=line)
    scene.remove(member, line)


# -- gaps ----------------------------------------------------------------------------------------------------------------------------


@fault("agreement", plan=FIFO)
def told_lost_what_others_have(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = foreign(scene, rng, view=LATE)
    told_lost(scene, member, line)
    return somebody_else(scene, member, line.sender or "", line.first, (member, end_of(scene, member)))


@fault("agreement", plan=replace(FIFO, members=3, wants="none"))
def told_lost_at_the_end(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = foreign(scene, rng, view=LATE)
    scene.remove(member, line)
    scene.move(member, [lost(line)], before=scene.end(member))
    return somebody_else(scene, member, line.sender or "", line.first, (member, end_of(scene, member)))


@fault("agreement", plan=FIFO)
def told_lost_what_the_sender_has(scene: Scene, rng: random.Random) -> list[Proof]:
    sender, line = own(scene, rng, view=LATE)
    for member in others(scene, sender):
        told_lost(scene, member, scene.one(member, sender, line.first))
    return [[(sender, line), (member, end_of(scene, member))] for member in others(scene, sender)]


@fault("agreement", plan=Plan(order="unordered"))
def some_of_it_told_lost(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = foreign(scene, rng, view=LATE, count=2)
    scene.move(member, [lost(line.copy(last=line.first))], after=line)
    line.first += 1
    return somebody_else(scene, member, line.sender or "", line.first - 1, (member, end_of(scene, member)))


@fault("virtual_synchrony", "agreement", plan=FIFO)
def told_lost_before_the_view(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = foreign(scene, rng, view=1)
    told_lost(scene, member, line)
    return somebody_else(scene, member, line.sender or "", line.first, (member, scene.of(member, "view", view=LATE)[0]))


@fault("validity", "agreement", plan=FIFO)
def own_told_lost(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = own(scene, rng, view=LATE)
    told_lost(scene, member, line)
    return [[sent(scene, member, line.first), (member, end_of(scene, member))]]


@fault("agreement", plan=FIFO)
def in_a_state_of_a_founder(scene: Scene, rng: random.Random) -> list[Proof]:
    """Nobody gave it a state: it was there from the beginning."""
    member, line = foreign(scene, rng, view=LATE)
    told_lost(scene, member, line, "state")
    return somebody_else(scene, member, line.sender or "", line.first, (member, end_of(scene, member)))


@fault("agreement", plan=replace(FIFO, wants="state"))
def in_a_state_after_it_had_caught_up(scene: Scene, rng: random.Random) -> list[Proof]:
    for name in scene.members:
        view = scene.of(name, "view", view=1)[0]
        scene.move(name, [Line("gap", 1, name, 0, 0, note="state"), Line("settled", 1)], after=view)
    member, line = foreign(scene, rng, view=LATE)
    told_lost(scene, member, line, "state")
    return somebody_else(scene, member, line.sender or "", line.first, (member, end_of(scene, member)))


@fault("agreement", plan=replace(FIFO, wants="state"))
def in_a_state_after_it_had_delivered(scene: Scene, rng: random.Random) -> list[Proof]:
    """Nothing says that it has caught up; but a state comes before everything else."""
    member, line = foreign(scene, rng, view=LATE)
    scene.remove(member, line)
    scene.move(member, [lost(line, "state")], before=scene.end(member))
    return somebody_else(scene, member, line.sender or "", line.first, (member, end_of(scene, member)))


@fault("integrity", plan=FIFO)
def told_lost_and_delivered(scene: Scene, rng: random.Random) -> list[Proof]:
    """Otherwise whoever delivers an effect before its cause could call the cause lost for as long."""
    member, line = foreign(scene, rng)
    gap = lost(line)
    scene.move(member, [gap], before=line)
    return [[(member, gap), (member, line)]]


# -- orphans -------------------------------------------------------------------------------------------------------------------------


def mark(child: Line, *parents: tuple[str, int]) -> None:
    child.note, child.names = "orphaned", [(child.first, *parent) for parent in parents]


@fault("parent_before_child", plan=SEMANTIC)
def orphan_of_what_it_had(scene: Scene, rng: random.Random) -> list[Proof]:
    member, parent, child = answered(scene, rng)
    mark(child, (parent.sender or "", parent.first))
    return [[(member, parent), (member, child)]]


@fault("parent_before_child", plan=replace(SEMANTIC, multicast="besteffort"))
def orphan_of_what_it_had_over_best_effort(scene: Scene, rng: random.Random) -> list[Proof]:
    member, parent, child = answered(scene, rng)
    mark(child, (parent.sender or "", parent.first))
    return [[(member, parent), (member, child)]]


@fault("parent_before_child", plan=SEMANTIC)
def orphan_of_what_came_later(scene: Scene, rng: random.Random) -> list[Proof]:
    member, parent, child = answered(scene, rng)
    child_first(scene, member, parent, child)
    mark(child, (parent.sender or "", parent.first))
    return [[(member, parent), (member, child)]]


@fault("parent_before_child", "agreement", "virtual_synchrony", plan=replace(SEMANTIC, rounds=40))
def orphan_of_what_others_had_before(scene: Scene, rng: random.Random) -> list[Proof]:
    """The question was delivered in the view before that of the answer, by all but one."""
    sends, member = sends_of(scene), rng.choice(scene.members)
    early = {(line.sender, line.first) for line in scene.of(member, view=1)}
    found = [
        (child, names[0][1:])
        for child in scene.of(member, view=LATE)
        if len(names := sends[child.sender, child.first].names or []) == 1 and names[0][1] != member and names[0][1:] in early
    ]
    child, question = rng.choice(found)
    parent = scene.one(member, *question)
    received = scene.unit(member, parent)[0]
    told_lost(scene, member, parent)
    scene.remove(member, received)
    mark(child, question)
    return [[(member, child), (other, scene.one(other, *question))] for other in others(scene, member)]


@fault("agreement", plan=SEMANTIC)
def orphan_instead_of_what_others_have(scene: Scene, rng: random.Random) -> list[Proof]:
    """The mark excuses nothing: the question is missing."""
    member, parent, child = answered(scene, rng)
    while parent.view != LATE or parent.sender == member:
        member, parent, child = answered(scene, rng)
    received = scene.unit(member, parent)[0]
    told_lost(scene, member, parent)
    scene.remove(member, received)
    mark(child, (parent.sender or "", parent.first))
    return somebody_else(scene, member, parent.sender or "", parent.first, (member, end_of(scene, member)))


@fault("parent_before_child", plan=SEMANTIC)
def orphan_of_nobody(scene: Scene, rng: random.Random) -> list[Proof]:
    member, _, child = answered(scene, rng)
    mark(child)
    return [[(member, child)]]


@fault("parent_before_child", plan=SEMANTIC)
def orphan_of_another(scene: Scene, rng: random.Random) -> list[Proof]:
    """The mark names a message that nobody sent; the parent that comes too late is another."""
    member, parent, child = answered(scene, rng)
    proofs = child_first(scene, member, parent, child)
    mark(child, (parent.sender or "", 100_000))
    return proofs


def orphan_of_what_it_does_not_name(scene: Scene, rng: random.Random, note: str) -> list[Proof]:
    sends, member = sends_of(scene), rng.choice(scene.members)
    child = rng.choice([line for line in scene.of(member) if line.count == 1 and not sends[line.sender, line.first].names])
    mark(child, (STRANGER, 3))
    child.note = note
    return [[(child.sender or "", sends[child.sender, child.first]), (member, child)]]


@fault("parent_before_child", plan=SEMANTIC)
def orphan_that_names_nothing(scene: Scene, rng: random.Random) -> list[Proof]:
    return orphan_of_what_it_does_not_name(scene, rng, "orphaned")


@fault("parent_before_child", plan=replace(SEMANTIC, multicast="besteffort"))
def orphan_that_names_nothing_over_best_effort(scene: Scene, rng: random.Random) -> list[Proof]:
    return orphan_of_what_it_does_not_name(scene, rng, "orphaned")


@fault("parent_before_child", plan=replace(SEMANTIC, wants="all"))
def recovered_orphan_that_names_nothing(scene: Scene, rng: random.Random) -> list[Proof]:
    return orphan_of_what_it_does_not_name(scene, rng, "recovered")


@fault("parent_before_child", plan=SEMANTIC)
def orphan_of_another_than_it_names(scene: Scene, rng: random.Random) -> list[Proof]:
    """What it names was delivered before it; what the mark names is of another group."""
    member, _, child = answered(scene, rng)
    mark(child, (STRANGER, 3))
    return [[sent(scene, child.sender or "", child.first), (member, child)]]


# -- who is not in the group ---------------------------------------------------------------------------------------------------------


def of_a_stranger_at_one(scene: Scene, rng: random.Random, view: int = LATE, note: str | None = None) -> list[Proof]:
    member = rng.choice(scene.members)
    line = Line("deliver", view, STRANGER, 1, 1, checks=[7], note=note)
    scene.move(member, [line], before=scene.end(member))
    return [[(member, line)]]


@fault("integrity", "agreement", plan=replace(FIFO, wants="all"))
def of_a_stranger_to_who_wants_all(scene: Scene, rng: random.Random) -> list[Proof]:
    return of_a_stranger_at_one(scene, rng)


@fault("integrity", plan=replace(FIFO, wants="none"))
def of_a_stranger_to_who_wants_nothing(scene: Scene, rng: random.Random) -> list[Proof]:
    return of_a_stranger_at_one(scene, rng)


@fault("integrity", plan=replace(FIFO, wants="since", delivery="safe"))
def of_a_stranger_to_who_wants_some(scene: Scene, rng: random.Random) -> list[Proof]:
    return of_a_stranger_at_one(scene, rng)


@fault("integrity", plan=Plan(order="total", wants="state"))
def of_a_stranger_to_who_wants_a_state(scene: Scene, rng: random.Random) -> list[Proof]:
    return of_a_stranger_at_one(scene, rng, note="recovered")


@fault("integrity", plan=Plan(order="unordered", multicast="besteffort", wants="all"))
def of_a_stranger_over_best_effort(scene: Scene, rng: random.Random) -> list[Proof]:
    return of_a_stranger_at_one(scene, rng)


@fault("integrity", "agreement", plan=FIFO)
def recovered_of_a_stranger_from_nowhere(scene: Scene, rng: random.Random) -> list[Proof]:
    """From a view that nobody has: the founders were there from the beginning, so it never was."""
    return of_a_stranger_at_one(scene, rng, view=77, note="recovered")


def of_who_was_in_no_view(scene: Scene, ends: bool = True) -> list[Proof]:
    """Somebody describes the group, and all recover what it said in a view that nobody has. Its trace may end with the description."""
    members, stranger = scene.members, f"mallory@{scene.group}"  # of its own: a writer is known by its name
    describes = scene.of(members[0], "group")[0].copy()
    describes.note = json.dumps({**json.loads(describes.note or ""), "wants": "all"})
    more = [Line("send", LATE, stranger, 1, 1, checks=[7]), Line("close")]
    scene.lines[stranger] = [Line("open", note="{}"), describes, *(more if ends else [])]
    proofs: list[Proof] = []
    for member in members:
        line = Line("deliver", 77, stranger, 1, 1, checks=[7], note="recovered")
        scene.move(member, [line], before=scene.end(member))
        proofs.append([(member, line)])
    return proofs


@fault("integrity", plan=FIFO)
def recovered_of_a_stranger_that_describes_the_group(scene: Scene, rng: random.Random) -> list[Proof]:
    """A view would have been the next that it wrote down."""
    return of_who_was_in_no_view(scene)


@fault("integrity", plan=Plan(order="unordered", multicast="besteffort", wants="all"))
def of_a_stranger_in_a_view_of_nobody(scene: Scene, rng: random.Random) -> list[Proof]:
    """No founder was recorded, so there may be views that nobody knows; but not in which this member delivered as messages came."""
    return of_a_stranger_at_one(scene, rng, view=77)


@fault("integrity", plan=Plan(dies=True))
def of_one_who_had_died(scene: Scene, rng: random.Random) -> list[Proof]:
    dead = scene.members[-1]
    number = scene.of(dead, "send")[-1].last + 1
    send = Line("send", 1, dead, number, number, checks=[7])
    scene.move(dead, [send], before=scene.lines[dead][-1])
    proofs: list[Proof] = []
    for member in others(scene, dead):
        line = Line("deliver", LATE, dead, number, number, checks=[7])
        scene.move(member, [line], before=scene.end(member))
        proofs.append([(member, line)])
    return proofs


@fault("integrity", plan=Plan(leaves=True))
def delivered_after_it_left(scene: Scene, rng: random.Random) -> list[Proof]:
    gone = scene.members[-1]
    line, leave = scene.of(gone)[-1], scene.of(gone, "leave")[0]
    scene.move(gone, [line], after=leave)
    return [[(gone, leave), (gone, line)]]


@fault("integrity", plan=Plan(leaves=True, order="total"))
def recovered_after_it_left(scene: Scene, rng: random.Random) -> list[Proof]:
    gone = scene.members[-1]
    leave = scene.of(gone, "leave")[0]
    other = rng.choice(others(scene, gone))
    said = scene.of(other, view=LATE)[0]
    line = said.copy(note="recovered")
    scene.move(gone, [line], after=leave)
    return [[(gone, leave), (gone, line)]]


# -- views ---------------------------------------------------------------------------------------------------------------------------


@fault("views", plan=FIFO)
def somebody_twice_for_all(scene: Scene, rng: random.Random) -> list[Proof]:
    twice = rng.choice(scene.members)
    for member in scene.members:
        (scene.of(member, "view", view=LATE)[0].members or []).append(twice)
    return [[(member, scene.of(member, "view", view=LATE)[0])] for member in scene.members]


@fault("views", plan=Plan(order="total", wants="all"))
def oneself_twice(scene: Scene, rng: random.Random) -> list[Proof]:
    member = rng.choice(scene.members)
    view = scene.of(member, "view", view=LATE)[0]
    (view.members or []).insert(0, member)
    return [[(member, view)]]
