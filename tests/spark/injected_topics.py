"""Faults in durable topics."""

from __future__ import annotations

import random
from collections.abc import Sequence

from injecting import Proof, end_of, fault
from scenes import Line, Scene

# -- durable topics ------------------------------------------------------------------------------------------------------------------


def of_role(scene: Scene, role: str) -> str:
    return next(writer for writer in scene.members if writer.startswith(role))


def inner(rng: random.Random, lines: Sequence[Line]) -> int:
    """The place of a line that has one before and one after it."""
    return rng.randrange(1, len(lines) - 1)


def published(scene: Scene, rng: random.Random) -> tuple[str, Line, Line]:
    writer = of_role(scene, "pub")
    lines = scene.of(writer, "publish")
    place = inner(rng, lines)
    return writer, lines[place - 1], lines[place]


def read(scene: Scene, rng: random.Random, role: str) -> tuple[str, Line, Line]:
    """A writer and two of its reads that follow each other."""
    writer = of_role(scene, role)
    lines = scene.of(writer, "read")
    place = inner(rng, lines)
    return writer, lines[place - 1], lines[place]


@fault("topic_numbers", plan=None)
def a_number_taken_twice(scene: Scene, rng: random.Random) -> list[Proof]:
    writer, one, two = published(scene, rng)
    two.first -= 1
    return [[(writer, one), (writer, two)]]


@fault("topic_numbers", plan=None)
def a_batch_written_twice(scene: Scene, rng: random.Random) -> list[Proof]:
    writer, _, line = published(scene, rng)
    again = line.copy(position=line.position + 10_000_000)
    scene.move(writer, [again], before=end_of(scene, writer))
    return [[(writer, line), (writer, again)]]


@fault("topic_numbers", plan=None)
def the_number_of_another_publisher(scene: Scene, rng: random.Random) -> list[Proof]:
    writer, _, line = published(scene, rng)
    other = line.copy(sender="publisher-2", first=line.last, position=1)
    elsewhere = of_role(scene, "gc")
    scene.move(elsewhere, [other], before=end_of(scene, elsewhere))
    return [[(writer, line), (elsewhere, other)]]


@fault("topic_numbers", plan=None)
def a_number_before_the_first(scene: Scene, rng: random.Random) -> list[Proof]:
    writer = of_role(scene, "pub")
    line = scene.of(writer, "publish")[0]
    line.first = 0
    return [[(writer, line)]]


@fault("topic_numbers", plan=None)
def own_values_exchanged(scene: Scene, rng: random.Random) -> list[Proof]:
    writer, one, two = published(scene, rng)
    one.position, two.position = two.position, one.position
    return [[(writer, one), (writer, two)]]


@fault("topic_order", plan=None)
def handed_out_twice(scene: Scene, rng: random.Random) -> list[Proof]:
    writer, one, _ = read(scene, rng, "one")
    again = one.copy()
    scene.move(writer, [again], after=one)
    return [[(writer, one), (writer, again)]]


@fault("topic_order", plan=None)
def the_last_handed_out_again(scene: Scene, rng: random.Random) -> list[Proof]:
    writer, one, two = read(scene, rng, "one")
    two.first -= 1
    return [[(writer, one), (writer, two)]]


@fault("topic_order", plan=None)
def handed_out_much_later(scene: Scene, rng: random.Random) -> list[Proof]:
    writer, one, _ = read(scene, rng, "late")
    last = scene.of(writer, "read")[-1]
    again = one.copy(note=None)
    scene.move(writer, [again], after=last)
    return [[(writer, last), (writer, again)]]


@fault("topic_order", plan=None)
def handed_out_after_it_was_done(scene: Scene, rng: random.Random) -> list[Proof]:
    writer, before = of_role(scene, "two"), of_role(scene, "one")
    line = scene.of(writer, "read")[0]
    line.first -= 2
    return [[(before, scene.of(before, "done")[0]), (writer, line)]]


@fault("topic_order", plan=None)
def from_the_beginning_after_it_was_done(scene: Scene, rng: random.Random) -> list[Proof]:
    writer, before = of_role(scene, "two"), of_role(scene, "one")
    line = scene.of(writer, "read")[0]
    line.first = 1
    return [[(before, scene.of(before, "done")[0]), (writer, line)]]


@fault("topic_nothing_lost", plan=None)
def a_batch_passed_over(scene: Scene, rng: random.Random) -> list[Proof]:
    writer, one, two = read(scene, rng, "one")
    after = scene.of(writer, "read")[scene.of(writer, "read").index(two) + 1]
    scene.remove(writer, two)
    return [[(writer, one), (writer, after)]]


@fault("topic_nothing_lost", plan=None)
def one_value_passed_over(scene: Scene, rng: random.Random) -> list[Proof]:
    writer, one, two = read(scene, rng, "one")
    two.first += 1
    return [[(writer, one), (writer, two)]]


@fault("topic_nothing_lost", plan=None)
def passed_over_between_two_epochs(scene: Scene, rng: random.Random) -> list[Proof]:
    writer, before = of_role(scene, "two"), of_role(scene, "one")
    line = scene.of(writer, "read")[0]
    line.first += 1
    return [[(before, scene.of(before, "done")[0]), (writer, line)]]


@fault("topic_nothing_lost", plan=None)
def passed_over_after_a_gap(scene: Scene, rng: random.Random) -> list[Proof]:
    writer = of_role(scene, "late")
    gap, line = scene.of(writer, "read")[:2]
    line.first += 1
    return [[(writer, gap), (writer, line)]]


@fault("topic_nothing_lost", plan=None)
def the_end_of_a_batch_passed_over(scene: Scene, rng: random.Random) -> list[Proof]:
    writer, one, two = read(scene, rng, "late")
    if one.note is None:
        one.last -= 1
    else:
        two.first += 1
    return [[(writer, one), (writer, two)]]


@fault("topic_gaps", plan=None)
def a_gap_beyond_the_floor(scene: Scene, rng: random.Random) -> list[Proof]:
    writer = of_role(scene, "late")
    gap, line = scene.of(writer, "read")[:2]
    gap.last += 1
    line.first += 1
    return [[(writer, gap)]]


@fault("topic_gaps", plan=None)
def a_value_told_to_be_gone(scene: Scene, rng: random.Random) -> list[Proof]:
    writer, _, two = read(scene, rng, "two")
    two.note = "gap"
    return [[(writer, two)]]


@fault("topic_gaps", plan=None)
def gone_before_it_was_collected_as_far(scene: Scene, rng: random.Random) -> list[Proof]:
    scene.of(of_role(scene, "gc"), "collect")[0].last -= 1
    writer = of_role(scene, "late")
    return [[(writer, scene.of(writer, "read")[0])]]


@fault("topic_gaps", plan=None)
def everything_told_to_be_gone(scene: Scene, rng: random.Random) -> list[Proof]:
    writer = of_role(scene, "late")
    lines = scene.of(writer, "read")
    for line in lines:
        line.note = "gap"
    return [[(writer, line)] for line in lines[1:]]


@fault("topic_gaps", plan=None)
def nothing_was_collected(scene: Scene, rng: random.Random) -> list[Proof]:
    collector = of_role(scene, "gc")
    scene.remove(collector, *scene.of(collector, "collect"))
    writer = of_role(scene, "late")
    return [[(writer, scene.of(writer, "read")[0])]]


@fault("topic_done", plan=None)
def done_goes_back(scene: Scene, rng: random.Random) -> list[Proof]:
    writer = of_role(scene, "two")
    one, two = scene.of(writer, "done")
    two.last = one.last - 1
    return [[(writer, one), (writer, two)]]


@fault("topic_done", plan=None)
def done_goes_back_over_an_epoch(scene: Scene, rng: random.Random) -> list[Proof]:
    writer, before = of_role(scene, "two"), of_role(scene, "one")
    one, _ = scene.of(writer, "done")
    one.last = scene.of(before, "done")[0].last - 1
    return [[(before, scene.of(before, "done")[0]), (writer, one)]]


@fault("topic_done", plan=None)
def done_with_what_was_not_read(scene: Scene, rng: random.Random) -> list[Proof]:
    writer = of_role(scene, "two")
    line, last = scene.of(writer, "done")[1], scene.of(writer, "read")[-1]
    line.last += 1
    return [[(writer, last), (writer, line)]]


@fault("topic_done", plan=None)
def done_before_it_was_read(scene: Scene, rng: random.Random) -> list[Proof]:
    writer, one, two = read(scene, rng, "two")
    line = scene.of(writer, "done")[0]
    scene.move(writer, [line], before=two)
    return [[(writer, one), (writer, line)]]


@fault("topic_done", plan=None)
def done_far_ahead(scene: Scene, rng: random.Random) -> list[Proof]:
    writer = of_role(scene, "late")
    line = Line("done", 1, None, 0, 10_000_000, member="s-2")
    last = scene.of(writer, "read")[-1]
    scene.move(writer, [line], after=last)
    return [[(writer, last), (writer, line)]]
