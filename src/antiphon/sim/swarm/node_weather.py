"""The weather of nodes: everything about a run of theirs that its seed decides, as plain data.

What happens is a list of acts, each at its time; whoever looks into a failing seed can leave acts out and run the rest
(`msgspec.structs.replace(weather, acts=…)`). Every interval is a few times shorter than a user's would be, so that a run of a few
virtual seconds holds as many suspicions, changes and merges as an hour of a bad network.

Some nodes stay for the whole run, never crash and never leave: a group whose last member is gone is gone. Where only a majority goes on
they are a majority, as far as a weather can see to that.
"""

from __future__ import annotations

import random

import msgspec
from msgspec import Struct

from antiphon.model.control import Wants
from antiphon.model.options import GroupOptions, Settings
from antiphon.sim.network import NetworkModel, Uniform
from antiphon.sim.swarm.case import Case, draw, faults_of, members_of
from antiphon.sim.swarm.corruption import Corruption
from antiphon.sim.swarm.weather import network_of

SHORT_HISTORY = 12
"""Messages that members keep in some seeds: fewer than are sent, so that those who were away must be told of a gap."""
Links = tuple[tuple[str, str], ...]


class Act(Struct, frozen=True, kw_only=True):
    """Something that happens. `crash`, `restart`, `pause`, `resume`, `leave` and `join` befall the node `who`; `slow` lets it take
    `seconds` per frame; from `unread` to `read` its application does not take what is delivered; `fail` loses most of what it sends;
    `strike` crashes whoever coordinates the view of `who` then; `cut` lets nothing through `links` until `mend` does, however many cuts
    there are; `create` starts the node `who` and lets it create a group of its own."""

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
    starts: tuple[float, ...] = ()
    """When each of `names` starts and founds the group unless it finds it. Empty: the first creates it, all gather, and the faults begin
    only then."""
    isolated: tuple[str, ...] = ()
    """Nodes that start while they are cut off from all others."""
    advertises: bool = True
    """Whether a node that cannot join yet calls `advertise`, as no application should have to."""
    parents: float = 0.0
    """The share of messages that answer an id which does not exist in the group."""
    jitter_s: float = 0.0
    """Arrival jitter below `nack_s` at which no repair request may be sent, tested before the faults begin; 0 for no test."""
    evicts: bool = False
    """Whether a member stops reading at the end, and must be evicted."""
    talk_s: float = 0.0
    """For how long the nodes talk; 0: for `span_s`."""
    corruption: Corruption | None = None

    @property
    def founding(self) -> bool:
        return bool(self.starts)

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
        if case.partitions == "continue":
            rng.random()  # `founding` was drawn here once: what follows in old seeds stays what it was
        isolated = tuple(f"u{number}" for number in range(draw(case, "isolated").randint(1, 2))) if "unreachable" in faults else ()
        acts = _acts(case, names, late, isolated, span_s)
        weather = cls(
            names=names,
            late=late,
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
            acts=acts,
            skews=tuple((skew.choice((0.0, 0.3, 600.0)), skew.uniform(0.8, 1.25)) for _ in (*names, *late)) if "skew" in faults else (),
            isolated=isolated,
            advertises="unreachable" not in faults,
            talk_s=max(span_s, *(act.at for act in acts)) if faults & {"reboot", "unreachable"} else 0.0,
            parents=draw(case, "parents").choice((0.05, 0.2, 0.5)) if "parents" in faults else 0.0,
        )
        for fault, change in (("founding", _founding), ("stuck", _stuck), ("jitter", _jitter), ("corruption", _corruption)):
            if fault in faults:
                weather = msgspec.structs.replace(weather, **change(draw(case, fault), weather))
        return weather


def _founding(rng: random.Random, weather: NodeWeather) -> dict[str, object]:
    """All at the same moment, or one after another, quickly or slowly, in any order."""
    spread_s = rng.choice((0.0, 0.1, 0.5, 3.0))
    starts = [rng.uniform(0.0, spread_s) for _ in weather.names]
    return {"starts": tuple(0.0 if start == min(starts) else start for start in starts)}


def _stuck(rng: random.Random, weather: NodeWeather) -> dict[str, object]:
    options = msgspec.structs.replace(weather.options, slow="evict", slow_s=rng.choice((0.5, 2.0)), window=rng.choice((4, 16, 64)))
    settings = msgspec.structs.replace(weather.settings, window_bytes=rng.choice((4_000, 32 << 20)))
    return {"options": options, "settings": settings, "evicts": True}


def _jitter(rng: random.Random, weather: NodeWeather) -> dict[str, object]:
    """Frames take from nothing to a few times `nack_s`, at most 0.2 s, whatever they overtake. In the test before that it is less than
    `nack_s` over the longest way through the group."""
    nack_s = weather.settings.nack_s
    hops = len(weather.names) if weather.options.multicast == "tree" else 1
    latency = Uniform(0.0, min(nack_s * rng.choice((0.5, 2.0, 5.0)), 0.2))
    network = msgspec.structs.replace(weather.network, latency=latency)
    return {"network": network, "jitter_s": nack_s * rng.uniform(0.2, 0.9) / hops}


def _corruption(rng: random.Random, weather: NodeWeather) -> dict[str, object]:
    at = weather.span_s * rng.uniform(0.0, 0.7)
    return {
        "corruption": Corruption(
            at=at,
            until=at + rng.uniform(0.2, 2.0),
            share=rng.choice((0.05, 0.3, 1.0)),
            data_only=rng.random() < 0.5,
            bits=rng.choice((0.0, 0.3, 1.0)),
            replaces=rng.choice((0.0, 0.5)),
            copies=rng.choice((1, 3, 10)),
        )
    }


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


def _acts(case: Case, names: tuple[str, ...], late: tuple[str, ...], isolated: tuple[str, ...], span_s: float) -> tuple[Act, ...]:
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
    if "reboot" in faults:
        acts += _reboots(draw(case, "reboot"), names, (*names, *late, *isolated), span_s)
    if "stuck" in faults:
        rng = draw(case, "stuck-act")
        acts.append(Act(at=span_s * rng.uniform(0.0, 0.7), verb="unread", who=rng.choice(names)))
    if isolated:
        acts += _isolated_starts(draw(case, "unreachable"), isolated, (*names, *late, *isolated), span_s)
    return tuple(sorted(acts, key=lambda act: act.at))


def _reboots(rng: random.Random, names: tuple[str, ...], everybody: tuple[str, ...], span_s: float) -> list[Act]:
    """Nodes, at most a minority, are killed and restarted at their address within 10 s; half of them are cut off from before they die until
    some time after they are back."""
    acts: list[Act] = []
    mortals = names[: max(1, (len(names) - 1) // 2)]
    for name in rng.sample(mortals, rng.randint(1, min(2, len(mortals)))):
        at = span_s * rng.uniform(0.1, 1.0)
        back = at + rng.choice((0.0, rng.uniform(0.0, 1.0), rng.uniform(0.0, 10.0)))
        acts.append(Act(at=at, verb="crash", who=name))
        acts.append(Act(at=back, verb="restart", who=name, wants=_wants(rng, span_s)))
        if rng.random() < 0.5:
            acts.append(Act(at=max(0.0, at - rng.choice((0.0, 0.5))), verb="cut", links=_around(name, everybody)))
            acts.append(Act(at=back + rng.choice((0.3, 1.0, 3.0)), verb="mend", links=_around(name, everybody)))
    return acts


def _isolated_starts(rng: random.Random, isolated: tuple[str, ...], everybody: tuple[str, ...], span_s: float) -> list[Act]:
    """Each starts cut off from all others and wants to join, or creates a group of its own first."""
    acts: list[Act] = []
    for name in isolated:
        at = span_s * rng.uniform(0.0, 1.0)
        acts.append(Act(at=at, verb="cut", links=_around(name, everybody)))
        if rng.random() < 0.4:
            acts.append(Act(at=at, verb="create", who=name))
        acts.append(Act(at=at + rng.choice((0.0, 0.5)), verb="join", who=name, wants=_wants(rng, span_s)))
        acts.append(Act(at=at + rng.choice((0.6, 2.0, 10.0)), verb="mend", links=_around(name, everybody)))
    return acts


def _around(name: str, everybody: tuple[str, ...]) -> Links:
    return tuple(link for other in everybody if other != name for link in ((name, other), (other, name)))


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
