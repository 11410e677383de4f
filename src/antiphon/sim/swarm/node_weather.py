"""The weather of nodes: everything about a run of theirs that its seed decides, as plain data.

What happens is a list of acts, each at its time; whoever looks into a failing seed can leave acts out and run the rest
(`msgspec.structs.replace(weather, acts=…)`). Every interval is a few times shorter than a user's would be, so that a run of a few
virtual seconds holds as many suspicions, changes and merges as an hour of a bad network.

Some nodes stay for the whole run, never crash and never leave: a group whose last member is gone is gone. Where only a majority goes on
they are a majority, as far as a weather can see to that.
"""

from __future__ import annotations

import random

from msgspec import Struct

from antiphon.model.control import Wants
from antiphon.model.options import GroupOptions, Settings
from antiphon.sim.network import NetworkModel
from antiphon.sim.swarm.case import Case, draw, faults_of, members_of
from antiphon.sim.swarm.weather import network_of

SHORT_HISTORY = 12
"""Messages that members keep in some seeds: fewer than are sent, so that those who were away must be told of a gap."""
Links = tuple[tuple[str, str], ...]


class Act(Struct, frozen=True, kw_only=True):
    """Something that happens. `crash`, `restart`, `pause`, `resume`, `leave` and `join` befall the node `who`; `slow` lets it take
    `seconds` per frame; from `unread` to `read` its application does not take what is delivered; `fail` loses most of what it sends;
    `strike` crashes whoever coordinates the view of `who` then; `cut` lets nothing through `links` until `mend` does, however many cuts
    there are."""

    at: float
    verb: str
    who: str = ""
    seconds: float = 0.0
    links: Links = ()
    wants: Wants = Wants()


class NodeWeather(Struct, frozen=True, kw_only=True):
    names: tuple[str, ...]
    late: tuple[str, ...]
    """Nodes that come in the middle of the run."""
    founding: bool
    """Whether all found the group at once and meet, or one creates it, all gather, and the faults begin only then."""
    messages: int
    private: int
    """Messages to one member alone."""
    span_s: float
    large: float
    options: GroupOptions
    settings: Settings
    network: NetworkModel
    acts: tuple[Act, ...]
    skews: tuple[tuple[float, float], ...] = ()
    """What each clock is ahead, and how fast it runs; empty when all are right."""

    @classmethod
    def of(cls, case: Case) -> NodeWeather:
        """The seed's weather."""
        rng = draw(case, "node-weather")
        faults = frozenset(faults_of(case))
        names = tuple(f"n{number}" for number in range(members_of(case)))
        late = tuple(f"l{number}" for number in range(rng.randint(1, 2))) if "churn" in faults else ()
        span_s = draw(case, "span").uniform(1.5, 5.0)
        frame_bytes = rng.choice((400, 1_400, 60_000))
        skew = draw(case, "skew")
        return cls(
            names=names,
            late=late,
            founding=case.partitions == "continue" and rng.random() < 0.3,
            messages=case.messages or draw(case, "messages").randint(20, 70),
            private=rng.choice((0, 5, 15)),
            span_s=span_s,
            large=0.05 if frame_bytes < 60_000 else 0.0,
            options=GroupOptions(
                order=case.order,
                multicast=case.multicast,
                delivery=case.delivery,
                partitions=case.partitions,
                fanout=rng.randint(1, 3),
                window=rng.choice((4, 16, 64, 8_192)),
                slow=rng.choice(("block", "block", "evict")),
                slow_s=rng.choice((0.5, 2.0)),
            ),
            settings=_settings(rng, frame_bytes, SHORT_HISTORY if draw(case, "history").random() < 0.15 else 65_536),
            network=network_of(rng, faults),
            acts=_acts(case, names, late, span_s),
            skews=tuple((skew.choice((0.0, 0.3, 600.0)), skew.uniform(0.8, 1.25)) for _ in (*names, *late)) if "skew" in faults else (),
        )


def _settings(rng: random.Random, frame_bytes: int, history_messages: int) -> Settings:
    return Settings(
        frame_bytes=frame_bytes,
        batch_messages=rng.choice((1, 3, 1_024)),
        waiting_messages=rng.choice((64, 131_072)),
        digest_s=rng.choice((0.025, 0.05)),
        nack_s=rng.choice((0.01, 0.05)),
        heartbeat_s=0.2,
        nack_max_s=0.4,
        parent_s=rng.choice((0.05, 0.5)),
        suspect_s=rng.choice((0.4, 0.7)),
        probe_s=0.12,
        probes=2,
        gather_s=rng.choice((0.01, 0.05)),
        change_s=rng.choice((0.4, 0.8)),
        settle_s=0.4,
        retry_s=0.1,
        seek_s=0.2,
        seek_max_s=rng.choice((0.8, 2.0)),
        answer_s=0.03,
        chunk_bytes=rng.choice((300, 4_000, 256 << 10)),
        history_messages=history_messages,
    )


def _acts(case: Case, names: tuple[str, ...], late: tuple[str, ...], span_s: float) -> tuple[Act, ...]:
    """What happens, in the order of time. Each fault draws from a chance of its own."""
    faults = faults_of(case)
    acts: list[Act] = []
    mortals = list(names[: max(1, (len(names) - 1) // 2)])
    draw(case, "mortals").shuffle(mortals)
    if "crash" in faults or "restart" in faults:
        rng = draw(case, "crash")
        deaths = mortals[: rng.randint(1, len(mortals))]
        mortals = mortals[len(deaths) :]
        for name in deaths:
            at = span_s * rng.uniform(0.05, 1.0)
            if rng.random() < 0.3:
                acts.append(Act(at=max(0.0, at - rng.uniform(0.02, 0.3)), verb="fail", who=name))
            acts.append(Act(at=at, verb="strike" if rng.random() < 0.25 else "crash", who=name))
            if "restart" in faults and rng.random() < 0.8:
                acts.append(Act(at=at + rng.choice((0.0, 0.1, 0.5, 2.0)), verb="restart", who=name, wants=_wants(rng, span_s)))
    if "churn" in faults:
        rng = draw(case, "churn")
        for name in late:
            acts.append(Act(at=span_s * rng.uniform(0.0, 1.0), verb="join", who=name, wants=_wants(rng, span_s)))
        for name in mortals[:1]:
            at = span_s * rng.uniform(0.0, 1.0)
            acts.append(Act(at=at, verb="leave", who=name))
            if rng.random() < 0.5:
                acts.append(Act(at=at + rng.choice((0.3, 1.0)), verb="join", who=name, wants=_wants(rng, span_s)))
    if "pause" in faults:
        rng = draw(case, "pause")
        for name in rng.sample(names, rng.randint(1, 2)):
            at = span_s * rng.uniform(0.0, 1.0)
            acts.append(Act(at=at, verb="pause", who=name))
            acts.append(Act(at=at + rng.choice((0.05, 0.3, 1.0, 2.5)), verb="resume", who=name))
    if "slow" in faults:
        rng = draw(case, "slow")
        acts.append(Act(at=0.0, verb="slow", who=rng.choice(names), seconds=rng.uniform(0.0005, 0.006)))
    if "reader" in faults:
        rng = draw(case, "reader")
        for name in rng.sample(names, rng.randint(1, min(3, len(names)))):
            at = span_s * rng.uniform(0.0, 1.0)
            acts.append(Act(at=at, verb="unread", who=name))
            acts.append(Act(at=at + rng.choice((0.05, 0.5, 1.0, 4.0)), verb="read", who=name))
    if "cut" in faults:
        acts += _cuts(draw(case, "cut"), names, span_s)
    if "partition" in faults:
        acts += _partitions(draw(case, "partition"), (*names, *late), span_s)
    if "flapping" in faults:
        acts += _flapping(draw(case, "flapping"), (*names, *late), span_s)
    return tuple(sorted(acts, key=lambda act: act.at))


def _wants(rng: random.Random, span_s: float) -> Wants:
    kind = rng.choice(("all", "all", "all", "none", "last", "since", "state"))
    return Wants(kind, count=rng.randint(1, 5) if kind == "last" else 0, since=rng.uniform(0.0, span_s) if kind == "since" else 0.0)


def _cuts(rng: random.Random, names: tuple[str, ...], span_s: float) -> list[Act]:
    """One direction between two nodes, or both, so that two do not reach each other while both reach the others."""
    acts: list[Act] = []
    for _ in range(rng.randint(1, 3)):
        one, two = rng.sample(names, 2)
        links: Links = ((one, two),) if rng.random() < 0.5 else ((one, two), (two, one))
        acts += _while(rng, links, span_s)
    return acts


def _partitions(rng: random.Random, names: tuple[str, ...], span_s: float) -> list[Act]:
    """Two parts, or several, or everybody alone; perhaps another one later, or before the first is over."""
    acts: list[Act] = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        shuffled = list(names)
        rng.shuffle(shuffled)
        parts = rng.choice((2, 2, 2, 3, len(names)))
        part_of = {name: min(place, parts - 1) if place < parts else rng.randrange(parts) for place, name in enumerate(shuffled)}
        links = tuple((one, two) for one in names for two in names if part_of[one] != part_of[two])
        acts += _while(rng, links, span_s)
    return acts


def _flapping(rng: random.Random, names: tuple[str, ...], span_s: float) -> list[Act]:
    """One node, or one pair, that comes and goes."""
    one, two = rng.sample(names, 2)
    others = [two] if rng.random() < 0.5 else [name for name in names if name != one]
    links = tuple(link for other in others for link in ((one, other), (other, one)))
    acts: list[Act] = []
    at, period_s = span_s * rng.uniform(0.0, 0.5), rng.choice((0.1, 0.4, 0.8))
    while at < span_s:
        acts.append(Act(at=at, verb="cut", links=links))
        acts.append(Act(at=at + period_s * rng.uniform(0.3, 0.8), verb="mend", links=links))
        at += period_s
    return acts


def _while(rng: random.Random, links: Links, span_s: float) -> list[Act]:
    at = span_s * rng.uniform(0.0, 0.9)
    return [
        Act(at=at, verb="cut", links=links),
        Act(at=at + rng.choice((0.2, 0.8, 1.5, 3.0)) * rng.uniform(0.7, 1.3), verb="mend", links=links),
    ]
