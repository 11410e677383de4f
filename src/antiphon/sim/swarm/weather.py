"""The weather of a case: everything about a run that its seed decides.

Half of the seeds are fair: the clocks are right, the names short, the bounds those of a usual group, and who crashed stays away. The
other half are rough: bounds so small that every one of them is reached, names of any length and alphabet, clocks that go wrong,
answers to what was sent in the same breath, members that come back as somebody new, and a second act in the last view.
"""

from __future__ import annotations

import random

import msgspec
from msgspec import Struct

from antiphon.model.options import GroupOptions, Settings
from antiphon.sim.network import Constant, Exponential, Latency, LogNormal, NetworkModel, Uniform
from antiphon.sim.swarm.case import Case, draw, faults_of, members_of

_ALPHABETS = ("m", "ñ", "член", "名", "🦜", "a b ")
_NAME_LENGTH = 60
"""Characters of the longest name; its number comes after them."""
_FRAME_BYTES = 167
"""What a member's frames must have beyond its name: an endpoint takes no less."""


class Weather(Struct, frozen=True, kw_only=True):
    """Members are named by their place; what belongs to a fault counts only when it is among `faults`."""

    names: tuple[str, ...]
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
    cuts: tuple[tuple[int, int], ...]
    """From whom to whom nothing passes between `cut_at` and `heal_at`."""
    cut_at: float
    heal_at: float
    sleeper: int
    pause_at: float
    resume_at: float
    skews: tuple[tuple[float, float], ...] = ()
    """What each clock is ahead, and how fast it runs; empty when all are right."""
    own: float = 0.0
    """The share of messages that answer the one their sender sent before."""
    names_limit: int = 3
    """How many others a message names at most."""
    returns: str = ""
    """Whether the victim comes back as somebody new: `at once`, in the view that the dead one is not in; `later`, in the one after."""
    first: bool = False
    """Whether who comes back takes the first place in its view, and with it the special part, where there is one."""
    encore: int = 0
    """Messages of a second act, with the faults of the network again, in the last view."""

    @property
    def members(self) -> int:
        return len(self.names)

    @classmethod
    def of(cls, case: Case, rough: bool | None = None) -> Weather:
        """The seed's weather; `rough` chooses instead of the seed."""
        fair = _fair(case)
        rng = draw(case, "rough")
        seeds_own = rng.random() < 0.5
        return _rough(fair, rng) if (seeds_own if rough is None else rough) else fair


def _fair(case: Case) -> Weather:
    members, faults = members_of(case), frozenset(faults_of(case))
    span_s = draw(case, "span").uniform(0.3, 3.0)
    rng = draw(case, "weather")
    frame_bytes = rng.choice((400, 1_400, 60_000))
    crash, slow, cut, pause = draw(case, "crash"), draw(case, "slow"), draw(case, "cut"), draw(case, "pause")
    pairs = [(source, destination) for source in range(members) for destination in range(members) if source != destination]
    cut_at, heal_at = sorted((cut.uniform(0.0, span_s), cut.uniform(0.0, span_s)))
    pause_at, resume_at = sorted((pause.uniform(0.0, span_s), pause.uniform(0.0, span_s)))
    return Weather(
        names=tuple(f"m{number}" for number in range(members)),
        messages=case.messages or draw(case, "messages").randint(30, 120),
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
        network=network_of(rng, faults),
        # The first member of a view has the special part, where there is one; it deserves to die more often.
        victim=0 if crash.random() < 0.4 else crash.randrange(members),
        crash_at=span_s * crash.uniform(0.1, 1.0),
        failing_s=min(crash.choice((0.0, 0.02, 0.1, 0.3)), span_s / 10),
        sluggard=slow.randrange(members),
        service_s=slow.uniform(0.0005, 0.01),
        cuts=tuple(cut.sample(pairs, min(cut.randint(1, 3), len(pairs)))),
        cut_at=cut_at,
        heal_at=heal_at,
        sleeper=pause.randrange(members),
        pause_at=pause_at,
        resume_at=resume_at,
    )


def _rough(fair: Weather, rng: random.Random) -> Weather:
    names = _names(rng, fair.members)
    smallest = max(256, _FRAME_BYTES + max(len(name.encode()) for name in names))
    frame_bytes = rng.choice((smallest, smallest + 50, 2 * smallest, max(smallest, fair.settings.frame_bytes)))
    settings = msgspec.structs.replace(
        fair.settings,
        frame_bytes=frame_bytes,
        batch_messages=rng.choice((2, fair.settings.batch_messages)),
        waiting_messages=rng.choice((1, 3, fair.settings.waiting_messages)),
        reassembly_bytes=rng.choice((1, 2 * frame_bytes, 32 << 20)),
        repair_frames=rng.choice((1, 3, 128)),
        window_bytes=rng.choice((1_000, 32 << 20)),
    )
    return msgspec.structs.replace(
        fair,
        names=names,
        large=0.05 if frame_bytes < 60_000 else 0.0,
        options=msgspec.structs.replace(fair.options, window=rng.choice((1, 2, fair.options.window, fair.options.window))),
        settings=settings,
        skews=tuple((rng.choice((0.0, 0.3, 1e6)), rng.uniform(0.8, 1.25)) for _ in fair.names),
        own=rng.choice((0.0, 0.1, 0.5)),
        names_limit=rng.choice((3, 12)),
        returns=rng.choice(("", "at once", "later")),
        first=rng.random() < 0.3,
        encore=rng.choice((0, fair.messages // 3)),
    )


def _names(rng: random.Random, members: int) -> tuple[str, ...]:
    longest = rng.choice((1, 4, 20, _NAME_LENGTH))
    return tuple(f"{(rng.choice(_ALPHABETS) * longest)[: rng.randint(1, longest)].strip()}{number}" for number in range(members))


def network_of(rng: random.Random, faults: frozenset[str]) -> NetworkModel:
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
