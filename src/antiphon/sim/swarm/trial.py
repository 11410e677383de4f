"""Trials: parts of a run of nodes in which the network is calm and one promise can be judged exactly.

`requests`: messages on links of constant delays that differ, some longer than `nack_s`, and then under arrival jitter below `nack_s`,
before the faults begin. Nothing is lost, so nothing may be asked for; but where delays differ, each member may ask once for each sender
to learn that what others tell of may be on its way.
`eviction`: after the faults, a member of a group with `slow="evict"` stops reading while others want to send. It must leave the view within
a bounded time, and the others must go on.
`recovery`: after the last corrupted frame, all nodes that live must be in one view again, and what each of them sends then must reach all.
"""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import combinations
from typing import TYPE_CHECKING

from antiphon.errors import WorldError
from antiphon.model.ids import MemberId, MessageId
from antiphon.sim.log import Delivered, hash_of
from antiphon.sim.network import Constant, LinkModel, NetworkModel, Uniform
from antiphon.sim.oracles import Violation

if TYPE_CHECKING:
    from antiphon.sim.swarm.play import Play

_JITTER_MESSAGES = 40
_JITTER_SPAN_S = 1.0
_JITTER_REST_S = 0.5
_FAR_S = 0.05
"""The longest constant delay: members are probed over it, too."""
_LEAD_SHARE = 0.2
"""How much later than elsewhere a message may arrive at a member at most, as a share of `nack_max_s`: beyond a quarter it is asked for."""
_BACKLOG_WINDOWS = 3
"""How many windows of messages a sender has yet to say at any moment of an eviction."""
_STEP_S = 0.02
_EVICTION_S = 10.0
"""What an eviction may take beyond a few times `slow_s`: a change of the view, with retries."""
_GO_ON_S = 20.0
"""How long senders may wait after an eviction: with the smallest chunks it takes seconds until members of another side have caught up."""
_STOPPED_S = 20.0
"""After how long a group without a majority is believed to have lost it for good."""
_ROUND_S = 2.0
"""How long the messages of one round may take to reach everybody."""


def judge_requests(play: Play, group: str, jitter_s: float) -> list[Violation]:
    """Lets members talk on links of unlike but constant delays, and then under jitter."""
    far_s, network = _unlike(play)
    found = _judge_requests(play, group, network, f"constant delays up to {far_s * 1000:.1f} ms", each=1)
    jitter = NetworkModel(latency=Uniform(0.0, jitter_s))
    return found + _judge_requests(play, group, jitter, f"0 to {jitter_s * 1000:.1f} ms of jitter", each=0)


def _unlike(play: Play) -> tuple[float, NetworkModel]:
    """A network on which some pairs of nodes are far from each other, and how far."""
    world, rng = play.world, random.Random(f"{play.case.seed}/unlike-trial")
    hops = len(world.names) if play.weather.options.multicast == "tree" else 1
    far_s = rng.uniform(0.5, 1.0) * min(_FAR_S, _LEAD_SHARE * world.settings.nack_max_s / hops)
    far = LinkModel(latency=Constant(far_s))
    pairs = [pair for pair in combinations(world.names, 2) if rng.random() < 0.4]
    links = {link: far for one, other in pairs for link in ((one, other), (other, one))}
    return far_s, NetworkModel(latency=Constant(rng.uniform(0.0, 0.2) * far_s), links=links)


def _judge_requests(play: Play, group: str, network: NetworkModel, weather: str, each: int) -> list[Violation]:
    """Counts the repair requests while members talk on a network: `each` are allowed for each member and sender. A view that changes
    meanwhile is not judged."""
    world, rng = play.world, random.Random(f"{play.case.seed}/jitter-trial")
    calm, world.network = world.network, network
    world.run(_JITTER_REST_S)
    views = [world.view_of(name, group) for name in world.names if world.is_member(name, group)]
    before, start = world.requests, world.now

    def say(name: str, number: int) -> None:
        with suppress(WorldError):  # the window is full
            world.send(name, f"{name} under jitter {number}".encode(), group=group)

    names = [name for name in world.names if world.is_member(name, group)]
    for number in range(_JITTER_MESSAGES):
        name, at = rng.choice(names), start + rng.uniform(0.0, _JITTER_SPAN_S)
        world.at(at, lambda name=name, number=number: say(name, number))  # type: ignore[misc]
    world.run(_JITTER_SPAN_S + _JITTER_REST_S)
    made = world.requests - before
    unchanged = views == [world.view_of(name, group) for name in names]
    world.network = calm
    world.run(_JITTER_REST_S)
    if made <= each * len(names) * (len(names) - 1) or not unchanged:
        return []
    why = f"{made} repair requests at {weather}, nack_s={world.settings.nack_s:g}, although nothing was lost"
    return [Violation("requests", MemberId("group"), (), why)]


def judge_eviction(play: Play, group: str) -> list[Violation]:
    """Lets a member stop reading while two others always have something to send; it must be put out, and the two must go on."""
    world, chatter, rng = play.world, play.chatter, random.Random(f"{play.case.seed}/eviction-trial")
    names = [name for name in world.names if world.is_member(name, group)]
    view = world.view_of(names[0], group) if names else None
    options = play.weather.options
    if chatter is None or view is None or len(view.members) < 3 or options.multicast == "besteffort":
        return []
    victim, *others = rng.sample(names, len(names))
    senders, who = others[:2], world.id_of(victim, group)

    def talk(until: float, done: bool = False) -> bool:
        """Keeps the senders busy until the victim is in no other's view; whether that happened in time."""
        while world.now < until:
            for name in senders:
                missing = _BACKLOG_WINDOWS * options.window - chatter.waiting.get(name, 0)
                if missing > 0:
                    chatter.say(name, missing)
            world.run(_STEP_S)
            if not done and all(who not in seen.members for name in others if (seen := world.view_of(name, group)) is not None):
                return True
            if done and all(chatter.sent_by_name[name] > sent[name] for name in senders):
                return True
        return False

    talk(world.now + rng.uniform(0.05, 0.4))
    world.pause_reader(victim, group)
    stopped_at = world.now
    found: list[Violation] = []
    sent = dict(chatter.sent_by_name)
    if not talk(stopped_at + 4 * options.slow_s + _EVICTION_S):
        credits = ", ".join(f"{name} has credit {world.endpoint(name, group).credit}" for name in senders if world.is_member(name, group))
        where = f"in {world.view_of(others[0], group)}; {credits}"
        why = f"has not read for {world.now - stopped_at:.1f} s (slow_s={options.slow_s:g}) and is {where}"
        found.append(Violation("eviction", who, (), why))
    else:
        sent = {name: chatter.sent_by_name[name] for name in senders}
        if not talk(world.now + _GO_ON_S, done=True):
            found.append(Violation("eviction", who, (), f"was evicted, and {' and '.join(senders)} did not go on"))
    for name in senders:
        chatter.forget(name)
    if world.is_member(victim, group):
        world.resume_reader(victim, group)
    return found


def wait_for_recovery(play: Play, group: str, limit_s: float) -> bool:
    """Whether, within `limit_s`, two rounds of messages in a row reach everybody."""
    world = play.world
    start, good, rounds = world.now, 0, 0
    while world.now < start + limit_s:
        if world.now >= start + _STOPPED_S and play.is_stopped():
            return True
        rounds += 1
        if play.in_one_view() and _round(play, group, rounds):
            good += 1
            if good == 2:
                return True
        else:
            good = 0
            world.run(1.0)
    return False


def _round(play: Play, group: str, number: int) -> bool:
    """Each member sends one message; whether each delivers all of them, once, as they were sent."""
    world = play.world
    names = [name for name in world.names if world.is_member(name, group)]
    hash_by_message: dict[MessageId, int] = {}
    for name in names:
        payload = f"{name} in round {number}".encode()
        try:
            hash_by_message[world.send(name, payload, group=group)] = hash_of(payload)
        except WorldError:
            return False
    since = world.now
    world.run(_ROUND_S)
    for name in names:
        if not world.is_member(name, group):
            return False
        seen = [event for event in world.log_of(name, group).events if type(event) is Delivered and event.at >= since]
        got = {event.id: event.payload_hash for event in seen if event.id in hash_by_message}
        if got != hash_by_message or sum(event.id in hash_by_message for event in seen) != len(hash_by_message):
            return False
    return True
