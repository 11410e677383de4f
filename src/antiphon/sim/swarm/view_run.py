"""A case of a group whose views are given, run to its end: a world full of faults, then quiet, then judgement.

While the conversation lasts, the faults do what they like. Then they stop: nothing is lost any more and nobody is slow. Now
everything must arrive. After a crash the survivors first give each other what they have (what depends on messages that no survivor
holds may stay held: that is no fault); then they get a view without the dead, as a membership service would give them, perhaps with
the dead one's successor in it or in the next; then they go on talking, which shows that credit came back, perhaps with losses again;
and then nothing may be left waiting.

Safety is judged by the oracles, over the whole run. Liveness: at the end every member has delivered everything that any member
delivered or sent in the views that it was in, holds nothing back, and no send is refused. What is left is a stall. Every wait has a
limit, in virtual time and in frames.
"""

from __future__ import annotations

from functools import partial

import msgspec

from antiphon.sim.log import MemberLog
from antiphon.sim.network import LinkModel
from antiphon.sim.oracles import check
from antiphon.sim.oracles.history import History
from antiphon.sim.swarm.bounded import Bounded
from antiphon.sim.swarm.case import Case, run_name
from antiphon.sim.swarm.outcome import Keep, Outcome, outcome_of
from antiphon.sim.swarm.weather import Weather
from antiphon.sim.view_world import ViewWorld
from antiphon.sim.workload import Workload

SETTLE_LIMIT_S = 60.0
"""Virtual seconds of quiet after which what has not arrived never will."""
_FLUSH_STEP_S = 3.0
"""Longer than a heartbeat, a few requests and their answers take in a quiet network: if nothing changed over one such step, nothing
will."""
_FAILING_LOSS = 0.7


def run_views(case: Case, weather: Weather | None = None, trace: Keep | None = None) -> Outcome:
    """Runs a case, in another weather than its seed's if one is given. The same case gives the same outcome, `log_hash` included,
    in every process. What the protocols raise is in the outcome; only a case that cannot be run raises."""
    weather = weather or Weather.of(case)
    name = run_name(case) if trace is not None else False
    world = _BoundedWorld(case.seed, weather.names, weather.options, weather.settings, weather.network, name)
    workload = Workload(
        world,
        case.seed,
        messages=weather.messages,
        span_s=weather.span_s,
        large=weather.large,
        own=weather.own,
        names_limit=weather.names_limit,
    )
    stalled = error = ""
    try:
        stalled = _live(world, workload, weather)
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    if trace is not None:
        trace(world)
    return _outcome(case, world, workload, stalled=stalled, error=error)


class _BoundedWorld(Bounded, ViewWorld):
    frames_limit = 1_000_000
    """Most runs have two thousand frames, the wildest of six thousand seeds had 250,000."""


def _live(world: ViewWorld, workload: Workload, weather: Weather) -> str:
    for name, (offset_s, rate) in zip(weather.names, weather.skews, strict=bool(weather.skews)):
        world.skew(name, offset_s, rate)
    victim = weather.names[weather.victim] if "crash" in weather.faults else None
    if victim is not None:
        world.at(weather.crash_at - weather.failing_s, partial(_fail, world, victim))
        world.at(weather.crash_at, partial(world.crash, victim))
    if "slow" in weather.faults:
        world.slow(weather.names[weather.sluggard], weather.service_s)
    if "cut" in weather.faults:
        for source, destination in weather.cuts:
            world.at(weather.cut_at, partial(world.cut, weather.names[source], weather.names[destination]))
        world.at(weather.heal_at, world.heal)
    if "pause" in weather.faults:
        world.at(weather.pause_at, partial(_pause, world, weather.names[weather.sleeper]))
        world.at(weather.resume_at, partial(_resume, world, workload, weather.names[weather.sleeper]))
    world.run(weather.span_s)
    _calm(world, workload, weather)
    members = [name for name in world.names if world.alive(name)]
    if weather.options.multicast == "besteffort":
        return _end_besteffort(world, members)
    if victim is not None:
        _flush(world, members)
        if weather.returns == "later":
            world.install_view(members)
            _speak(workload, members)
            if waits := _end(world, workload, members):
                return waits
            _flush(world, members)
        if weather.returns:
            world.restart(victim)
            if weather.skews:
                world.skew(victim, *weather.skews[weather.victim])
            workload.begin_anew(victim)
            members = [victim, *members] if weather.first else [*members, victim]
        world.install_view(members)
        _speak(workload, members)
    if weather.encore:
        world.network = weather.network
        workload.plan(weather.encore, weather.span_s / 2)
        world.run(weather.span_s / 2)
        _calm(world, workload, weather)
    return _end(world, workload, members)


def _calm(world: ViewWorld, workload: Workload, weather: Weather) -> None:
    """The faults stop, and the reactions, so that everything can come to its end."""
    world.network = msgspec.structs.replace(weather.network, loss=0.0, duplicate=0.0, reorder=0.0, links={})
    for name in world.names:
        if world.alive(name):
            world.slow(name, 0.0)
    workload.stop()


def _speak(workload: Workload, members: list[str]) -> None:
    for name in members:
        workload.say(name, 2)


def _pause(world: ViewWorld, name: str) -> None:
    if world.alive(name):
        world.pause(name)


def _resume(world: ViewWorld, workload: Workload, name: str) -> None:
    if world.alive(name):
        world.resume(name)
        workload.say(name, 0)


def _fail(world: ViewWorld, victim: str) -> None:
    """Most of what the victim sends from now on is lost."""
    link = LinkModel(latency=world.network.latency, loss=_FAILING_LOSS)
    world.network = msgspec.structs.replace(world.network, links={(victim, name): link for name in world.names})


def _flush(world: ViewWorld, survivors: list[str]) -> None:
    """Runs until the survivors have given each other what they have: until a step brings nothing new to any of them."""
    world.begin_flush(survivors)
    limit = world.now + SETTLE_LIMIT_S
    before: object = None
    while world.now < limit:
        world.run(_FLUSH_STEP_S)
        now = [(world.endpoint(name).multicast.positions(), len(_log(world, name).events)) for name in survivors]
        if now == before:
            return
        before = now


def _end(world: ViewWorld, workload: Workload, members: list[str]) -> str:
    limit = world.now + SETTLE_LIMIT_S
    world.settle(SETTLE_LIMIT_S)
    step_s = 0.05
    while (waits := _waits(world, workload, members)) and world.now < limit:
        world.run(step_s)
        step_s = min(step_s * 2, 2.0)
    return waits


def _end_besteffort(world: ViewWorld, members: list[str]) -> str:
    """What was lost stays lost; but nothing may wait for it longer than the group waits for a parent."""
    world.run(2 * world.settings.parent_s + _FLUSH_STEP_S)
    held = {name: world.endpoint(name).ordering.held for name in members}
    return ", ".join(f"{name} holds {count}" for name, count in held.items() if count)


def _waits(world: ViewWorld, workload: Workload, members: list[str]) -> str:
    """What is not as it must be at the end, in words; empty when all is well."""
    if workload.waiting:
        return f"{workload.waiting} messages are still refused"
    history = History(world.logs)
    lives = {name: next(life for life in history.lives if life.member == world.id_of(name)) for name in members}
    expected = {message for life in lives.values() for message in life.place}
    expected.update(message for message in history.sent if any(message.sender == life.member for life in lives.values()))
    for name, life in lives.items():
        missing = {message for message in expected if message not in life.place and history.answers_for(life, message)}
        if missing:
            first = min(missing)
            return f"{name} lacks {len(missing)} messages, {first} for one: {world.endpoint(name).why(first).reason}"
        if held := world.endpoint(name).ordering.held:
            return f"{name} holds {held} messages back"
    return ""


def _log(world: ViewWorld, name: str) -> MemberLog:
    member = world.id_of(name)
    return next(log for log in world.logs if log.member == member)


def _outcome(case: Case, world: ViewWorld, workload: Workload, stalled: str = "", error: str = "") -> Outcome:
    # A run that did not come to its end is judged only for what may be said at any moment.
    violations = check(world.logs, case.order, case.multicast, case.delivery, settled=not (stalled or error))
    return outcome_of(case, world, violations, sent=workload.sent, refused=workload.refused, stalled=stalled, error=error)
