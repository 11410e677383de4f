"""Faults in views, and in what is delivered in which of them."""

from __future__ import annotations

import random

from injecting import FIFO, LATE, Proof, fault, foreign, others, own, somebody_else
from scenes import Plan, Scene

# -- virtual synchrony ---------------------------------------------------------------------------------------------------------------


@fault("virtual_synchrony", "agreement", plan=FIFO)
def missing_in_the_old_view(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = foreign(scene, rng, view=1)
    scene.remove(member, line)
    return somebody_else(scene, member, line.sender or "", line.first, (member, scene.of(member, "view", view=LATE)[0]))


@fault("virtual_synchrony", plan=FIFO)
def after_the_next_view(scene: Scene, rng: random.Random) -> list[Proof]:
    member = rng.choice(scene.members)
    line, view = scene.of(member, view=1)[-1], scene.of(member, "view", view=LATE)[0]
    scene.move(member, [line], after=view)
    return [[(member, view), (member, line)]]


@fault("virtual_synchrony", plan=FIFO)
def recovered_in_the_next_view(scene: Scene, rng: random.Random) -> list[Proof]:
    member = rng.choice(scene.members)
    line, view = scene.of(member, view=1)[-1], scene.of(member, "view", view=LATE)[0]
    line.note = "recovered"
    scene.move(member, [line], after=view)
    return somebody_else(scene, member, line.sender or "", line.first, (member, view))


@fault("virtual_synchrony", plan=FIFO)
def before_its_view(scene: Scene, rng: random.Random) -> list[Proof]:
    member = rng.choice(scene.members)
    line = next(line for line in scene.of(member, view=LATE) if line.sender != member)
    view = scene.of(member, "view", view=LATE)[0]
    scene.move(member, [line], before=view)
    return [[(member, line), (member, view)]]


@fault("virtual_synchrony", plan=FIFO)
def of_a_view_nobody_had(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = foreign(scene, rng, view=LATE)
    line.view = 99
    return [[(member, line)]]


@fault("virtual_synchrony", "agreement", plan=FIFO)
def only_the_sender_had_it(scene: Scene, rng: random.Random) -> list[Proof]:
    sender, line = own(scene, rng, view=1)
    for member in others(scene, sender):
        scene.remove(member, scene.one(member, sender, line.first))
    return [[(sender, line), (member, scene.of(member, "view", view=LATE)[0])] for member in others(scene, sender)]


# -- views ---------------------------------------------------------------------------------------------------------------------------


def each_other(scene: Scene, member: str, view: int = LATE) -> list[Proof]:
    mine = (member, scene.of(member, "view", view=view)[0])
    return [[mine, (other, scene.of(other, "view", view=view)[0])] for other in others(scene, member)]


@fault("views", plan=FIFO)
def other_order_of_members(scene: Scene, rng: random.Random) -> list[Proof]:
    member = rng.choice(scene.members)
    (scene.of(member, "view", view=LATE)[0].members or []).reverse()
    return each_other(scene, member)


@fault("views", plan=FIFO)
def a_member_less(scene: Scene, rng: random.Random) -> list[Proof]:
    member, gone = rng.sample(scene.members, 2)
    (scene.of(member, "view", view=LATE)[0].members or []).remove(gone)
    return each_other(scene, member)


@fault("views", plan=FIFO)
def not_in_its_own_view(scene: Scene, rng: random.Random) -> list[Proof]:
    member = rng.choice(scene.members)
    view = scene.of(member, "view", view=LATE)[0]
    (view.members or []).remove(member)
    return [[(member, view)], *each_other(scene, member)]


@fault("views", plan=FIFO)
def the_same_view_again(scene: Scene, rng: random.Random) -> list[Proof]:
    member = rng.choice(scene.members)
    view = scene.of(member, "view", view=LATE)[0]
    again = view.copy()
    scene.move(member, [again], before=scene.end(member))
    return [[(member, view), (member, again)]]


@fault("views", plan=FIFO)
def back_to_an_earlier_view(scene: Scene, rng: random.Random) -> list[Proof]:
    member = rng.choice(scene.members)
    again = scene.of(member, "view", view=1)[0].copy()
    last = scene.of(member, "view", view=LATE)[0]
    scene.move(member, [again], before=scene.end(member))
    return [[(member, last), (member, again)]]


@fault("views", plan=FIFO)
def other_sides(scene: Scene, rng: random.Random) -> list[Proof]:
    member = rng.choice(scene.members)
    view = scene.of(member, "view", view=LATE)[0]
    view.note = (view.note or "{}").replace("}", f', "sides": [["{member}"]]}}')
    return each_other(scene, member)


@fault("views", plan=Plan(views=3, empty=(2,), rounds=12))
def came_from_another_view(scene: Scene, rng: random.Random) -> list[Proof]:
    member = rng.choice(scene.members)
    scene.remove(member, scene.of(member, "view", view=2)[0])
    mine = [(member, scene.of(member, "view", view=view)[0]) for view in (1, 3)]
    return [[*mine, *((other, scene.of(other, "view", view=view)[0]) for view in (2, 3))] for other in others(scene, member)]
