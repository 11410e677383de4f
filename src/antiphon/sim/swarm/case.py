"""A case: one seed, and the group it is about.

What a case leaves open is drawn from its seed: how many members and messages, the faults of a `mix`, and the weather. Each is drawn
from a generator of its own, so naming what the seed had drawn anyway (as a replay command does) changes nothing else.
"""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterator, Sequence

from msgspec import Struct

from antiphon.errors import InvalidOption
from antiphon.model.options import GroupOptions
from antiphon.protocol.registry import MULTICASTS, ORDERS, stages

FAULTS = ("loss", "duplication", "reordering", "crash", "slow", "cut", "pause")
"""Frames are lost, doubled, or late; a member dies; a member takes long for every frame; nothing passes from one member to another
for a while; a member stands still for a while. A new fault goes to the end, so that the mixes of old seeds keep what they had."""
MIX = "mix"
"""A random choice of the faults, another one for each seed."""


class Case(Struct, frozen=True, kw_only=True):
    """One run to do. None and `mix` leave the choice to the seed."""

    seed: int
    order: str = "fifo"
    multicast: str = "reliable"
    members: int | None = None
    faults: tuple[str, ...] = (MIX,)
    delivery: str = "agreed"
    messages: int | None = None

    def __post_init__(self) -> None:
        for fault in self.faults:
            if fault not in FAULTS and fault != MIX:
                raise InvalidOption("faults", fault, f"choose from {', '.join(FAULTS)}, or {MIX} for a random choice of them")
        if self.members is not None and not 2 <= self.members <= 64:
            raise InvalidOption("members", self.members, "a swarm's group has 2 to 64 members")
        if self.messages is not None and not 1 <= self.messages <= 100_000:
            raise InvalidOption("messages", self.messages, "choose 1 to 100,000")
        stages(GroupOptions(order=self.order, multicast=self.multicast, delivery=self.delivery))


def members_of(case: Case) -> int:
    """How many members the case's group has: three to seven, now and then two, or up to twelve."""
    rng = draw(case, "members")
    usual, size = rng.randint(3, 7), rng.random()
    return case.members or (2 if size < 0.03 else rng.randint(8, 12) if size < 0.1 else usual)


def faults_of(case: Case) -> tuple[str, ...]:
    """The faults of a case, the seed's own choice included, in the order of `FAULTS`."""
    chosen = set(case.faults) - {MIX}
    if MIX in case.faults:
        rng = draw(case, "faults")
        chosen.update(fault for fault in FAULTS if rng.random() < 0.5)
    return tuple(fault for fault in FAULTS if fault in chosen)


def replay_command(case: Case, load: Sequence[str] = ()) -> str:
    """The command that runs exactly this case again, in the directory where `load` names the same files."""
    words = ["antiphon sim swarm", *(f"--load {shlex.quote(file)}" for file in load)]
    words += [f"--order {case.order}", f"--multicast {case.multicast}", f"--members {members_of(case)}"]
    words += [f"--seeds {case.seed}:{case.seed + 1}", f"--faults {','.join(faults_of(case)) or 'none'}", f"--delivery {case.delivery}"]
    if case.messages is not None:
        words.append(f"--messages {case.messages}")
    return " ".join(words)


def default_cases(seeds: range) -> Iterator[Case]:
    """Spreads the seeds over every order, every multicast that repairs, and both deliveries; the faults are a mix."""
    groups = [
        (order, multicast, delivery)
        for delivery in ("agreed", "safe")
        for multicast in MULTICASTS
        if multicast != "besteffort"
        for order in ORDERS
    ]
    for seed in seeds:
        order, multicast, delivery = groups[seed % len(groups)]
        yield Case(seed=seed, order=order, multicast=multicast, delivery=delivery)


def draw(case: Case, purpose: str) -> random.Random:
    """The seed's chance for one purpose: what is drawn for another changes nothing here."""
    return random.Random(f"{case.seed}/swarm/{purpose}")
