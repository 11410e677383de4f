"""How faults are put into clean traces: the list of them, and how places are picked.

`FAULTS` has for each promise at least five kinds, from the files `injected_….py`: where they are put is drawn from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from scenes import Line, Plan, Scene, scene, topic

Proof: TypeAlias = "Sequence[tuple[str, Line]]"
Inject: TypeAlias = "Callable[[Scene, random.Random], list[Proof]]"


@dataclass(frozen=True)
class Fault:
    name: str
    promise: str
    breaks: frozenset[str]
    plan: Plan | None
    inject: Inject

    def scene(self, run: str, group: str, seed: int, events: int = 0) -> Scene:
        """A clean scene for it, with at least so many deliveries (or values of a topic) where that is asked for."""
        if self.plan is None:
            return topic(run, group, seed, events) if events else topic(run, group, seed)
        plan = replace(self.plan, sent={})
        if events:
            # Where messages answer each other, batches would prove it by other rows than one thinks.
            plan = replace(plan, rounds=events // 5) if plan.batch == 1 else replace(plan, rounds=events // 50, batch=20)
        return scene(run, group, plan, seed)


FAULTS: list[Fault] = []


def fault(promise: str, *also: str, plan: Plan | None) -> Callable[[Inject], Inject]:
    """Enters a fault under its function's name."""

    def enter(inject: Inject) -> Inject:
        FAULTS.append(Fault(inject.__name__, promise, frozenset({promise, *also}), plan, inject))
        return inject

    return enter


FIFO = Plan()
LATE = 2
"""The last view of a plan with two."""


def pick(rng: random.Random, lines: Sequence[Line]) -> Line:
    return rng.choice(list(lines))


def others(scene: Scene, *members: str) -> list[str]:
    return [member for member in scene.members if member not in members]


def end_of(scene: Scene, member: str) -> Line:
    return scene.lines[member][-1]


def sent(scene: Scene, sender: str, number: int) -> tuple[str, Line]:
    return sender, scene.one(sender, sender, number, "send")


def foreign(
    scene: Scene, rng: random.Random, *, view: int | None = None, count: int = 1, among: Sequence[str] | None = None
) -> tuple[str, Line]:
    """Somebody, and a delivery of somebody else's messages."""
    found = [
        (member, line)
        for member in among or scene.members
        for line in scene.of(member, view=view)
        if line.sender != member and line.count >= count
    ]
    return rng.choice(found)


def own(scene: Scene, rng: random.Random, *, view: int | None = None, count: int = 1) -> tuple[str, Line]:
    found = [(member, line) for member in scene.members for line in scene.of(member, view=view, sender=member) if line.count >= count]
    return rng.choice(found)


def cut_last(line: Line) -> None:
    """Takes the last message off a delivery; the checksum that is left is that of nobody, so none is."""
    line.last -= 1
    line.checks = None


def somebody_else(scene: Scene, lacks: str, sender: str, number: int, *more: tuple[str, Line]) -> list[Proof]:
    """One of those who did deliver the message, and where the one who did not should have done it."""
    has = [(member, line) for member in others(scene, lacks) for line in scene.of(member, sender=sender) if line.holds(number)]
    return [[one, *more] for one in has]
