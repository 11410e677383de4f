"""Faults in what members state about their group, in how they number their deliveries, and in orders of somebody's own."""

from __future__ import annotations

import json
import random
from dataclasses import replace

from injected_orders import caused, concurrent, effect_first, in_another_order, two_of_one
from injecting import FIFO, LATE, Proof, fault, foreign, others
from scenes import Line, Plan, Scene

COMMON = ("integrity", "no_duplication", "validity", "views", "agreement", "nothing_lost", "virtual_synchrony")
STATED = replace(FIFO, promises=(*COMMON, "fifo"))
_LAMPORT = (*COMMON, "fifo", "causal", "total", "parent_before_child", "heard_before")
LAMPORT = Plan(order="lamport", promises=_LAMPORT)
"""The order of `examples/lamport_order.py`: the audit knows its promises but for one, and not its name."""

# -- description ---------------------------------------------------------------------------------------------------------------------


def described_otherwise(scene: Scene, rng: random.Random, **changes: object) -> list[Proof]:
    member = rng.choice(scene.members)
    line = scene.of(member, "group")[0]
    line.note = json.dumps({**json.loads(line.note or "{}"), **changes})
    return [[(member, line), (other, scene.of(other, "group")[0])] for other in others(scene, member)]


@fault("description", plan=FIFO)
def unreadable(scene: Scene, rng: random.Random) -> list[Proof]:
    member = rng.choice(scene.members)
    line = scene.of(member, "group")[0]
    line.note = (line.note or "")[:-3]
    return [[(member, line)]]


@fault("description", plan=Plan(order="total"))
def no_object(scene: Scene, rng: random.Random) -> list[Proof]:
    member = rng.choice(scene.members)
    line = scene.of(member, "group")[0]
    line.note = '["total"]'
    return [[(member, line)]]


@fault("description", plan=Plan(order="semantic", replies=0.5))
def without_an_order(scene: Scene, rng: random.Random) -> list[Proof]:
    member = rng.choice(scene.members)
    line = scene.of(member, "group")[0]
    line.note = '{"name": "trip", "multicast": "reliable"}'
    return [[(member, line)]]


def alone_described_otherwise(scene: Scene, rng: random.Random, **changes: object) -> list[Proof]:
    return [proof[:1] for proof in described_otherwise(scene, rng, **changes)[:1]]


@fault("description", plan=FIFO)
def promises_that_are_no_list(scene: Scene, rng: random.Random) -> list[Proof]:
    """By its order it would promise what the others do."""
    return alone_described_otherwise(scene, rng, promises=7)


@fault("description", plan=STATED)
def a_promise_that_is_no_name(scene: Scene, rng: random.Random) -> list[Proof]:
    return alone_described_otherwise(scene, rng, promises=[*COMMON, "fifo", 7])


@fault("description", plan=STATED)
def wants_what_there_is_not(scene: Scene, rng: random.Random) -> list[Proof]:
    """It would be excused whatever it lacks of the past."""
    return alone_described_otherwise(scene, rng, wants="nothing")


@fault("description", plan=FIFO)
def not_described_at_all(scene: Scene, rng: random.Random) -> list[Proof]:
    member = rng.choice(scene.members)
    scene.remove(member, scene.of(member, "group")[0])
    return [[(member, scene.of(member, "view", view=1)[0])]]


@fault("description", plan=FIFO)
def described_twice(scene: Scene, rng: random.Random) -> list[Proof]:
    member = rng.choice(scene.members)
    line = scene.of(member, "group")[0]
    again = line.copy()
    scene.move(member, [again], before=scene.end(member))
    return [[(member, line), (member, again)]]


@fault("description", plan=FIFO)
def another_order(scene: Scene, rng: random.Random) -> list[Proof]:
    return described_otherwise(scene, rng, order="total")


@fault("description", plan=Plan(order="semantic", replies=0.5))
def another_multicast(scene: Scene, rng: random.Random) -> list[Proof]:
    return described_otherwise(scene, rng, multicast="besteffort")


@fault("description", plan=STATED)
def another_delivery(scene: Scene, rng: random.Random) -> list[Proof]:
    return described_otherwise(scene, rng, delivery="safe")


@fault("description", plan=STATED)
def a_promise_less(scene: Scene, rng: random.Random) -> list[Proof]:
    return described_otherwise(scene, rng, promises=list(COMMON))


@fault("description", plan=STATED)
def a_promise_more(scene: Scene, rng: random.Random) -> list[Proof]:
    return described_otherwise(scene, rng, promises=[*COMMON, "fifo", "total", "unheard_of"])


@fault("description", plan=Plan(order="total"))
def promises_less_than_follows_from_the_order(scene: Scene, rng: random.Random) -> list[Proof]:
    """The others state no promises: theirs follow from the order."""
    return described_otherwise(scene, rng, promises=["integrity", "fifo"])


@fault("description", plan=FIFO)
def promises_more_than_follows_from_the_order(scene: Scene, rng: random.Random) -> list[Proof]:
    return described_otherwise(scene, rng, promises=[*COMMON, "fifo", "total"])


@fault("description", plan=STATED)
def says_nothing_of_the_delivery(scene: Scene, rng: random.Random) -> list[Proof]:
    proofs = described_otherwise(scene, rng)
    _, line = proofs[0][0]
    line.note = json.dumps({name: value for name, value in json.loads(line.note or "").items() if name != "delivery"})
    return proofs


@fault("description", plan=FIFO)
def promises_nothing(scene: Scene, rng: random.Random) -> list[Proof]:
    """It would be told to have kept all of it."""
    return alone_described_otherwise(scene, rng, promises=[])


@fault("description", plan=Plan(order="lamport", promises=(*COMMON, "total")))
def promises_nothing_in_an_order_of_its_own(scene: Scene, rng: random.Random) -> list[Proof]:
    return alone_described_otherwise(scene, rng, promises=[])


@fault("description", plan=FIFO)
def a_multicast_that_there_is_not(scene: Scene, rng: random.Random) -> list[Proof]:
    """What it promises nobody knows."""
    return alone_described_otherwise(scene, rng, multicast="pigeon")


@fault("description", plan=STATED)
def a_delivery_that_there_is_not(scene: Scene, rng: random.Random) -> list[Proof]:
    return alone_described_otherwise(scene, rng, delivery=3)


# -- positions -----------------------------------------------------------------------------------------------------------------------


def jumps(scene: Scene, rng: random.Random, by: int) -> list[Proof]:
    member, line = foreign(scene, rng, view=LATE)
    line.jump = by
    lines = scene.of(member)
    return [[(member, lines[lines.index(line) - 1]), (member, line)]]


@fault("positions", plan=FIFO)
def one_skipped(scene: Scene, rng: random.Random) -> list[Proof]:
    return jumps(scene, rng, 1)


@fault("positions", plan=Plan(order="total"))
def one_repeated(scene: Scene, rng: random.Random) -> list[Proof]:
    return jumps(scene, rng, -1)


@fault("positions", plan=Plan(order="unordered", multicast="besteffort"))
def many_skipped(scene: Scene, rng: random.Random) -> list[Proof]:
    return jumps(scene, rng, 1 << 40)


@fault("positions", plan=Plan(order="semantic", replies=0.5))
def back_to_the_beginning(scene: Scene, rng: random.Random) -> list[Proof]:
    member, line = foreign(scene, rng, view=LATE)
    lines = scene.of(member)
    before = lines[: lines.index(line)]
    line.jump = -sum(one.count for one in before)
    return [[(member, before[-1]), (member, line)]]


@fault("positions", plan=FIFO)
def not_from_the_beginning(scene: Scene, rng: random.Random) -> list[Proof]:
    member = rng.choice(scene.members)
    line = scene.of(member)[0]
    line.jump = 3
    return [[(member, line)]]


# -- promises of an order that the audit does not know -------------------------------------------------------------------------------


@fault("total", plan=LAMPORT)
def two_exchanged_in_an_order_of_its_own(scene: Scene, rng: random.Random) -> list[Proof]:
    member, one, two = concurrent(scene, rng)
    scene.move(member, [two], before=one)
    return in_another_order(scene, member, one, two)


@fault("total", plan=replace(LAMPORT, delivery="safe", promises=(*_LAMPORT, "safe"), dies=True, places=False))
def safe_places_in_an_order_of_its_own(scene: Scene, rng: random.Random) -> list[Proof]:
    member, one, two = concurrent(scene, rng, among=scene.members[-1:], view=1)
    scene.move(member, [two], before=one)
    return in_another_order(scene, member, one, two)


@fault("causal", plan=Plan(order="vector", promises=(*COMMON, "causal")))
def effect_first_in_an_order_of_its_own(scene: Scene, rng: random.Random) -> list[Proof]:
    return effect_first(scene, *caused(scene, rng))


@fault("fifo", plan=Plan(order="queue", promises=(*COMMON, "fifo")))
def second_first_in_an_order_of_its_own(scene: Scene, rng: random.Random) -> list[Proof]:
    member, one, two = two_of_one(scene, rng)
    scene.move(member, [two], before=one)
    return [[(member, one), (member, two)]]


@fault("no_duplication", plan=Plan(order="whim"))
def twice_in_an_order_that_states_nothing(scene: Scene, rng: random.Random) -> list[Proof]:
    """An older trace: what every group promises is promised here too."""
    member, line = foreign(scene, rng, view=LATE)
    again = line.copy()
    scene.move(member, [again], before=scene.end(member))
    return [[(member, line), (member, again)]]


@fault("integrity", "agreement", plan=Plan(order="whim"))
def a_strangers_in_an_order_that_states_nothing(scene: Scene, rng: random.Random) -> list[Proof]:
    member = rng.choice(scene.members)
    line = Line("deliver", LATE, "mallory#0123456789abcdef", 1, 1, checks=[7])
    scene.move(member, [line], before=scene.end(member))
    return [[(member, line)]]
