"""A case: one seed, the group it is about, and everything that the seed decides.

What a case leaves open is drawn from its seed: how many members and messages, the faults of a `mix`, and the weather. Each is drawn
from a generator of its own, so naming what the seed had drawn anyway (as a replay command does) changes nothing else.
"""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterator, Sequence

from msgspec import Struct

from antiphon.errors import InvalidOption
from antiphon.model.options import GroupOptions, Settings
from antiphon.protocol.registry import MULTICASTS, ORDERS, stages
from antiphon.sim.network import Constant, Exponential, Latency, LogNormal, NetworkModel, Uniform

FAULTS = ("loss", "duplication", "reordering", "crash", "slow")
"""Frames are lost, doubled, or late; a member dies; a member takes long for every frame."""
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


class Weather(Struct, frozen=True, kw_only=True):
    """Everything about a run that its seed decided."""

    members: int
    messages: int
    faults: frozenset[str]
    span_s: float
    large: float
    options: GroupOptions
    settings: Settings
    network: NetworkModel
    victim: int
    crash_at: float
    failing_s: float
    """How long before it dies the victim's frames begin to get lost: a member that fails seldom fails cleanly."""
    sluggard: int
    service_s: float

    @classmethod
    def of(cls, case: Case) -> Weather:
        members = case.members or _draw(case, "members").randint(3, 7)
        messages = case.messages or _draw(case, "messages").randint(30, 120)
        faults = frozenset(faults_of(case))
        span_s = _draw(case, "span").uniform(0.3, 3.0)
        rng = _draw(case, "weather")
        frame_bytes = rng.choice((400, 1_400, 60_000))
        crash = _draw(case, "crash")
        slow = _draw(case, "slow")
        return cls(
            members=members,
            messages=messages,
            faults=faults,
            span_s=span_s,
            large=0.05 if frame_bytes < 60_000 else 0.0,
            options=GroupOptions(
                order=case.order,
                multicast=case.multicast,
                delivery=case.delivery,
                fanout=rng.randint(1, 3),
                window=rng.choice((4, 16, 64, 8_192)),
            ),
            settings=Settings(
                frame_bytes=frame_bytes,
                batch_messages=rng.choice((1, 3, 1_024)),
                waiting_messages=rng.choice((8, 64, 131_072)),
                digest_s=rng.choice((0.01, 0.025, 0.1)),
                nack_s=rng.choice((0.005, 0.02, 0.1)),
                heartbeat_s=0.5,
                nack_max_s=0.4,
                parent_s=rng.choice((0.05, 0.5)),
            ),
            network=_network(rng, faults),
            # The first member of a view has the special part, where there is one; it deserves to die more often.
            victim=0 if crash.random() < 0.4 else crash.randrange(members),
            crash_at=span_s * crash.uniform(0.1, 1.0),
            failing_s=min(crash.choice((0.0, 0.02, 0.1, 0.3)), span_s / 10),
            sluggard=slow.randrange(members),
            service_s=slow.uniform(0.0005, 0.01),
        )


def faults_of(case: Case) -> tuple[str, ...]:
    """The faults of a case, the seed's own choice included, in the order of `FAULTS`."""
    chosen = set(case.faults) - {MIX}
    if MIX in case.faults:
        rng = _draw(case, "faults")
        chosen.update(fault for fault in FAULTS if rng.random() < 0.5)
    return tuple(fault for fault in FAULTS if fault in chosen)


def replay_command(case: Case, load: Sequence[str] = ()) -> str:
    """The command that runs exactly this case again, in the directory where `load` names the same files."""
    members = case.members or Weather.of(case).members
    words = ["antiphon sim swarm", *(f"--load {shlex.quote(file)}" for file in load)]
    words += [f"--order {case.order}", f"--multicast {case.multicast}", f"--members {members}"]
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


def _draw(case: Case, purpose: str) -> random.Random:
    return random.Random(f"{case.seed}/swarm/{purpose}")


def _network(rng: random.Random, faults: frozenset[str]) -> NetworkModel:
    latencies: tuple[Latency, ...] = (
        Constant(rng.uniform(0.0005, 0.02)),
        Uniform(0.001, rng.uniform(0.01, 0.1)),
        Exponential(0.001, rng.uniform(0.002, 0.03)),
        LogNormal(rng.uniform(0.002, 0.02), rng.uniform(0.3, 0.9)),
    )
    latency = rng.choice(latencies)
    loss, duplicate, reorder, reorder_s = rng.uniform(0.0, 0.2), rng.uniform(0.0, 0.2), rng.uniform(0.0, 0.4), rng.uniform(0.005, 0.1)
    return NetworkModel(
        latency=latency,
        loss=loss if "loss" in faults else 0.0,
        duplicate=duplicate if "duplication" in faults else 0.0,
        reorder=reorder if "reordering" in faults else 0.0,
        reorder_s=reorder_s,
    )
