"""One case run to its end: a world full of faults, then quiet, then judgement.

While the conversation lasts, the faults do what they like. Then they stop: nothing is lost any more and nobody is slow. Now
everything must arrive. After a crash the survivors first give each other what they have (what depends on messages that no survivor
holds may stay held: that is no fault); then they get a view without the dead, as a membership service would give them; then they go
on talking, which shows that credit came back; and then nothing may be left waiting.

Safety is judged by the oracles, over the whole run. Liveness: at the end every survivor has delivered everything that any survivor
delivered or sent, holds nothing back, and no send is refused. What is left is a stall.
"""

from __future__ import annotations

from functools import partial
from hashlib import blake2b

import msgspec
from msgspec import Struct

from antiphon.model.ids import MessageId
from antiphon.sim.log import Delivered, MemberLog, Sent
from antiphon.sim.network import LinkModel
from antiphon.sim.oracles import check
from antiphon.sim.swarm.case import Case, Weather
from antiphon.sim.workload import Workload
from antiphon.sim.world import World

SETTLE_LIMIT_S = 60.0
"""Virtual seconds of quiet after which what has not arrived never will."""
_FLUSH_STEP_S = 1.5
"""Longer than a heartbeat, a request and its answer take in a quiet network: if nothing changed over one such step, nothing will."""
_FAILING_LOSS = 0.7
_SENTENCES_KEPT = 3


class Outcome(Struct, frozen=True, kw_only=True):
    """What came of a case. `broken` counts the violations of each promise, and `violations` tells the first few of each; `stalled` says
    what still waits, `error` what was raised. All empty is good."""

    case: Case
    broken: dict[str, int] = {}
    violations: tuple[str, ...] = ()
    stalled: str = ""
    error: str = ""
    sent: int = 0
    refused: int = 0
    deliveries: int = 0
    frames: int = 0
    virtual_s: float = 0.0
    log_hash: str = ""

    @property
    def ok(self) -> bool:
        return not (self.broken or self.stalled or self.error)

    def __str__(self) -> str:
        if self.ok:
            return f"seed {self.case.seed}: {self.deliveries:,} deliveries, every promise kept"
        told = [*([self.error] if self.error else []), *([f"stalled: {self.stalled}"] if self.stalled else []), *self.violations]
        more = sum(self.broken.values()) - len(self.violations)
        told += [f"and {more} more violations"] if more else []
        return f"seed {self.case.seed} ({self.case.order} over {self.case.multicast}, {self.case.delivery}): {'; '.join(told)}"


def run_seed(case: Case) -> Outcome:
    """Runs a case. The same case gives the same outcome, `log_hash` included, in every process. What the protocols raise is in the
    outcome; only a case that cannot be run raises."""
    weather = Weather.of(case)
    names = tuple(f"m{number}" for number in range(weather.members))
    world = World(case.seed, names, weather.options, weather.settings, weather.network)
    workload = Workload(world, case.seed, messages=weather.messages, span_s=weather.span_s, large=weather.large)
    try:
        stalled = _live(world, workload, weather)
    except Exception as raised:
        return _outcome(case, world, workload, error=f"{type(raised).__name__}: {raised}")
    return _outcome(case, world, workload, stalled=stalled)


def _live(world: World, workload: Workload, weather: Weather) -> str:
    victim = world.names[weather.victim] if "crash" in weather.faults else None
    if victim is not None:
        world.at(weather.crash_at - weather.failing_s, partial(_fail, world, victim))
        world.at(weather.crash_at, partial(world.crash, victim))
    if "slow" in weather.faults:
        world.slow(world.names[weather.sluggard], weather.service_s)
    world.run(weather.span_s)

    world.network = msgspec.structs.replace(weather.network, loss=0.0, duplicate=0.0, reorder=0.0, links={})
    survivors = [name for name in world.names if world.alive(name)]
    for name in survivors:
        world.slow(name, 0.0)
    workload.stop()
    if weather.options.multicast == "besteffort":
        return _end_besteffort(world, survivors)
    if victim is not None:
        _flush(world, survivors)
        world.install_view(survivors)
        for name in survivors:
            workload.say(name, 2)
    return _end(world, workload, survivors)


def _fail(world: World, victim: str) -> None:
    """Most of what the victim sends from now on is lost."""
    link = LinkModel(latency=world.network.latency, loss=_FAILING_LOSS)
    world.network = msgspec.structs.replace(world.network, links={(victim, name): link for name in world.names})


def _flush(world: World, survivors: list[str]) -> None:
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


def _end(world: World, workload: Workload, survivors: list[str]) -> str:
    limit = world.now + SETTLE_LIMIT_S
    world.settle(SETTLE_LIMIT_S)
    step_s = 0.05
    while (waits := _waits(world, workload, survivors)) and world.now < limit:
        world.run(step_s)
        step_s = min(step_s * 2, 2.0)
    return waits


def _end_besteffort(world: World, survivors: list[str]) -> str:
    """What was lost stays lost; but nothing may wait for it longer than the group waits for a parent."""
    world.run(2 * world.settings.parent_s + _FLUSH_STEP_S)
    held = {name: world.endpoint(name).ordering.held for name in survivors}
    return ", ".join(f"{name} holds {count}" for name, count in held.items() if count)


def _waits(world: World, workload: Workload, survivors: list[str]) -> str:
    """What is not as it must be at the end, in words; empty when all is well."""
    if workload.waiting:
        return f"{workload.waiting} messages are still refused"
    logs = [_log(world, name) for name in survivors]
    delivered = [{event.id for event in log.events if type(event) is Delivered} for log in logs]
    expected: set[MessageId] = set().union(*delivered)
    expected.update(event.id for log in logs for event in log.events if type(event) is Sent)
    for name, ids in zip(survivors, delivered, strict=True):
        missing = expected - ids
        if missing:
            first = min(missing)
            return f"{name} lacks {len(missing)} messages, {first} for one: {world.endpoint(name).why(first).reason}"
        if held := world.endpoint(name).ordering.held:
            return f"{name} holds {held} messages back"
    return ""


def _log(world: World, name: str) -> MemberLog:
    member = world.id_of(name)
    return next(log for log in world.logs if log.member == member)


def _outcome(case: Case, world: World, workload: Workload, stalled: str = "", error: str = "") -> Outcome:
    # A run that did not come to its end is judged only for what may be said at any moment.
    broken: dict[str, int] = {}
    sentences: list[str] = []
    for violation in check(world.logs, case.order, case.multicast, case.delivery, settled=not (stalled or error)):
        broken[violation.promise] = broken.get(violation.promise, 0) + 1
        if broken[violation.promise] <= _SENTENCES_KEPT:
            sentences.append(str(violation))
    return Outcome(
        case=case,
        broken=broken,
        violations=tuple(sentences),
        stalled=stalled,
        error=error,
        sent=workload.sent,
        refused=workload.refused,
        deliveries=sum(type(event) is Delivered for log in world.logs for event in log.events),
        frames=world.frames.total(),
        virtual_s=world.now,
        log_hash=blake2b(msgspec.msgpack.encode(world.logs), digest_size=8).hexdigest(),
    )
