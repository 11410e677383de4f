"""A case: one seed, and the group it is about.

What a case leaves open is drawn from its seed: how many members and messages, the faults of a `mix`, and the weather. Each is drawn
from a generator of its own, so naming what the seed had drawn anyway (as a replay command does) changes nothing else.
"""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterator, Sequence

from msgspec import Struct, structs

from antiphon.errors import InvalidOption
from antiphon.model.options import GroupOptions
from antiphon.protocol.registry import MULTICASTS, ORDERS, stages

KINDS = ("views", "nodes")
"""One group of members whose views are given to them; or nodes that find, join and leave a group and agree on its views themselves."""
FAULTS = ("loss", "duplication", "reordering", "crash", "slow", "cut", "pause")
"""Frames are lost, doubled, or late; a member dies; a member takes long for every frame; nothing passes from one member to another
for a while; a member stands still for a while. A new fault goes to the end, so that the mixes of old seeds keep what they had."""
EARLY_NODE_FAULTS = (*FAULTS, "skew", "restart", "partition", "flapping", "churn", "reader")
"""What else can happen to nodes: clocks go wrong; who crashed comes back as somebody new; the network falls into parts; a part of it comes
and goes; nodes leave, and others come; an application does not take what is delivered to it."""
NODE_FAULTS = (*EARLY_NODE_FAULTS, "founding", "reboot", "stuck", "parents", "jitter", "corruption", "unreachable")
"""The rest: every node founds the group if it does not find it, at the same moment or one after another; a node is killed and restarted at
its address within 10 s, also while it is cut off; a member of a group with `slow="evict"` stops reading; messages answer ids that do not
exist in the group; frames arrive with jitter; altered frames arrive under the addresses of members for a while; nodes start while they are
cut off, and nobody calls `advertise`."""
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
    kind: str = "views"
    partitions: str = "continue"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidOption("kind", self.kind, f"choose {' or '.join(KINDS)}")
        known = possible_faults(self.kind)
        for fault in self.faults:
            if fault not in known and fault != MIX:
                hint = "; it befalls nodes only: add --kind nodes" if fault in NODE_FAULTS else ""
                raise InvalidOption("faults", fault, f"choose from {', '.join(known)}, or {MIX} for a random choice of them{hint}")
        if self.members is not None and not 2 <= self.members <= 64:
            raise InvalidOption("members", self.members, "a swarm's group has 2 to 64 members")
        if self.messages is not None and not 1 <= self.messages <= 100_000:
            raise InvalidOption("messages", self.messages, "choose 1 to 100,000")
        stages(GroupOptions(order=self.order, multicast=self.multicast, delivery=self.delivery, partitions=self.partitions))


def possible_faults(kind: str) -> tuple[str, ...]:
    """Everything that can happen in a case of this kind."""
    return NODE_FAULTS if kind == "nodes" else FAULTS


def members_of(case: Case) -> int:
    """How many members the case's group has: three to seven, now and then two, or up to twelve; of nodes three to six, seldom more."""
    rng = draw(case, "members")
    usual, size = rng.randint(3, 7), rng.random()
    if case.kind == "nodes":
        return case.members or (rng.randint(8, 12) if size < 0.04 else min(usual, 6))
    return case.members or (2 if size < 0.03 else rng.randint(8, 12) if size < 0.1 else usual)


def faults_of(case: Case) -> tuple[str, ...]:
    """The faults of a case, the seed's own choice included, in the order of `possible_faults`."""
    chosen = set(case.faults) - {MIX}
    if MIX in case.faults:
        rng = draw(case, "faults")
        chosen.update(fault for fault in possible_faults(case.kind) if rng.random() < _share(fault))
    return tuple(fault for fault in possible_faults(case.kind) if fault in chosen)


def _share(fault: str) -> float:
    """The share of seeds whose mix has this fault."""
    return 0.5 if fault in FAULTS else 0.4 if fault in EARLY_NODE_FAULTS else 0.25


def auditable(case: Case) -> Case:
    """Return the case with its seed's faults except those that an audit of its traces does not judge as the oracles do: forged frames,
    forged answers, and groups that several nodes found at the same time."""
    left_out = ("corruption", "parents", "founding")
    return structs.replace(case, faults=tuple(fault for fault in faults_of(case) if fault not in left_out))


def run_name(case: Case) -> str:
    """The name of the case's run in a trace."""
    return f"{case.kind}-{case.order}-{case.multicast}-{case.delivery}-{case.seed}"


def replay_command(case: Case, load: Sequence[str] = ()) -> str:
    """The command that runs exactly this case again, in the directory where `load` names the same files."""
    words = ["antiphon sim swarm", *(f"--load {shlex.quote(file)}" for file in load), f"--kind {case.kind}"]
    words += [f"--order {case.order}", f"--multicast {case.multicast}", f"--members {members_of(case)}"]
    words += [f"--seeds {case.seed}:{case.seed + 1}", f"--faults {','.join(faults_of(case)) or 'none'}", f"--delivery {case.delivery}"]
    if case.kind == "nodes":
        words.append(f"--partitions {case.partitions}")
    if case.messages is not None:
        words.append(f"--messages {case.messages}")
    return " ".join(words)


def default_cases(seeds: range, kind: str | None = None) -> Iterator[Case]:
    """Spreads the seeds over every order, every multicast that repairs, both deliveries and, among nodes, both policies for partitions; the
    faults are a mix. Without a `kind` even seeds are groups with given views, odd ones are nodes."""
    repairing = [multicast for multicast in MULTICASTS if multicast != "besteffort"]
    groups = [(order, multicast, delivery) for delivery in ("agreed", "safe") for multicast in repairing for order in ORDERS]
    for seed in seeds:
        chosen = kind or KINDS[seed % len(KINDS)]
        turn = seed if kind is not None else seed // len(KINDS)
        order, multicast, delivery = groups[turn % len(groups)]
        if chosen == "views":
            yield Case(seed=seed, order=order, multicast=multicast, delivery=delivery)
        else:
            # Every round over the groups has the other policy, and now and then one has a multicast that repairs nothing.
            partitions = ("continue", "majority")[turn // len(groups) % 2]
            if turn % 41 == 40:
                order, multicast, delivery = ("unordered", "semantic")[turn // 41 % 2], "besteffort", "agreed"
            yield Case(seed=seed, kind=chosen, order=order, multicast=multicast, delivery=delivery, partitions=partitions)


def draw(case: Case, purpose: str) -> random.Random:
    """The seed's chance for one purpose: what is drawn for another changes nothing here."""
    return random.Random(f"{case.seed}/swarm/{purpose}")
