"""What happens in a run of nodes: they gather, the acts of the weather befall them, and then the world is calm.

A node that is put out of the group, or cannot come in, tries again, as a user's program would. Cuts add up: a link that two acts have
cut carries nothing until both have mended it. Whoever a `strike` hit in a node's stead restarts in its stead.

In the weather that tests discovery (`unreachable`) nobody calls `advertise`: what a node has not heard of when the world has been calm for
long, it will never hear of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import msgspec

from antiphon.debugger.tap import Passage
from antiphon.errors import InvalidOption, WorldError
from antiphon.model import codec
from antiphon.model.control import Wants
from antiphon.model.events import Departed, Event
from antiphon.model.frames import Nack
from antiphon.model.ids import GroupId, MemberId, name_of
from antiphon.model.options import GroupOptions
from antiphon.sim.network import LinkModel, NetworkModel, Uniform
from antiphon.sim.node_world import NodeWorld
from antiphon.sim.oracles import Violation, private
from antiphon.sim.oracles.history import History
from antiphon.sim.swarm.bounded import Bounded
from antiphon.sim.swarm.case import Case, run_name
from antiphon.sim.swarm.chatter import GROUP, Chatter
from antiphon.sim.swarm.corruption import Corrupter
from antiphon.sim.swarm.node_weather import Act, NodeWeather
from antiphon.sim.swarm.strange_parents import StrangeParents
from antiphon.sim.swarm.trial import judge_eviction, judge_requests, wait_for_recovery

CALM_LIMIT_S = 120.0
"""Virtual seconds of quiet after which those who have not found together never will."""
GATHER_LIMIT_S = 60.0
_CALM_JITTER_S = 0.05
_FAILING_LOSS = 0.7
_REJOIN_S = 0.3
"""After how long a node that was put out, or could not come in, tries again."""


class Play:
    """One run: the world, and what is cut in it now."""

    def __init__(self, case: Case, weather: NodeWeather, trace: bool = False) -> None:
        self.case, self.weather = case, weather
        calm = _calmed(weather.network)
        name = run_name(case) if trace else False
        first = tuple(name for name, start in zip(weather.names, weather.starts, strict=False) if not start) or weather.names
        late = (*(name for name in weather.names if name not in first), *weather.late, *weather.isolated)
        self.world = world = SwarmWorld(case.seed, first, weather.settings, calm, late=late, trace=name)
        self.chatter: Chatter | None = None
        self.strange: StrangeParents | None = None
        if weather.corruption is not None:
            world.corrupter = Corrupter(weather.corruption, case.seed)
        self.violations: list[Violation] = []
        """What was found broken on the way."""
        self.stopped = False
        """Whether no majority is left, and nobody goes on."""
        self._calm_network = calm
        self._cuts: Counter[tuple[str, str]] = Counter()
        self._group: str = GROUP
        self._wants_by_name: dict[str, Wants] = {}
        self._leaving: set[str] = set()
        self._victim_of: dict[str, str] = {}
        self._losses = 0
        self._over = False
        for name in world.names:
            world.on_event(name, partial(self._on_event, name))
            world.on_state(name, bytes, lambda state: None)

    def run(self) -> str:
        world, weather = self.world, self.weather
        if stalled := self._open():
            return stalled
        if weather.jitter_s and not weather.founding:
            self.violations += judge_requests(self, GROUP, weather.jitter_s)
        for name, (offset_s, rate) in zip((*weather.names, *weather.late), weather.skews, strict=False):
            if world.started(name):
                world.skew(name, offset_s, rate)
        world.network = weather.network
        if weather.parents:
            existing = weather.options.order == "semantic"
            self.strange = StrangeParents(world, GROUP, self.case.seed, weather.parents, existing=existing)
        self.chatter = Chatter(
            world,
            self.case.seed,
            messages=weather.messages,
            private=weather.private,
            span_s=weather.talk_s or weather.span_s,
            large=weather.large,
            strange=self.strange,
        )
        start = world.now
        for act in weather.acts:
            world.at(start + act.at, partial(self._perform, act))
        if weather.corruption is not None:
            world.at(start + weather.corruption.at, partial(self._corrupt, True))
            world.at(start + weather.corruption.until, partial(self._corrupt, False))
        end = max([weather.span_s, *(act.at for act in weather.acts), *weather.starts])
        end = max(end, weather.talk_s, weather.corruption.until if weather.corruption is not None else 0.0)
        world.run_until(start + end)
        self._calm()
        if weather.corruption is not None:
            self._corrupt(False)
            return self._recover()
        if stalled := self._find_together():
            self._judge_discovery()
            return stalled
        if self.stopped:
            return ""
        for name in world.names:
            self.chatter.say(name, 2)
        stalled = self._find_together()
        if weather.evicts and not stalled and not self.stopped:
            self.violations += judge_eviction(self, GROUP)
            stalled = self._find_together()
        return stalled

    # -- the beginning, and the acts -------------------------------------------------------------------------------------------

    def _open(self) -> str:
        world, weather = self.world, self.weather
        if weather.founding:
            for name, start in zip(weather.names, weather.starts, strict=True):
                world.at(start, partial(self._begin, name))
            return ""
        first, *others = weather.names
        self._group = world.create(first, GROUP, weather.options)
        world.run(1.0)
        for name in others:
            self._join(name, Wants())
        gathered = world.wait_for(lambda: world.converged(self._group), GATHER_LIMIT_S)
        return "" if gathered else f"never gathered: {self._describe()}"

    def _begin(self, who: str, wants: Wants | None = None) -> None:
        """Starts a node if it has not started, and lets it join."""
        if not self.world.started(who):
            self.world.start(who)
        self._leaving.discard(who)
        self._join(who, wants or Wants())

    def _corrupt(self, active: bool) -> None:
        if self.world.corrupter is not None:
            self.world.corrupter.active = active

    def _perform(self, act: Act) -> None:
        world, who = self.world, act.who
        if act.verb in ("cut", "mend"):
            self._cuts.update(dict.fromkeys(act.links, 1 if act.verb == "cut" else -1))
            world.heal()
            for (source, destination), count in self._cuts.items():
                if count > 0:
                    world.cut(source, destination)
        elif act.verb == "restart":
            self._restart(self._victim_of.get(who, who), act.wants)
        elif act.verb == "join":
            self._begin(who, act.wants)
        elif act.verb == "create":
            world.start(who)
            world.create(who, f"of-{who}")
        elif world.started(who) and world.alive(who):
            self._befall(act)

    def _befall(self, act: Act) -> None:
        world, who = self.world, act.who
        if act.verb == "crash":
            self._crash(who)
        elif act.verb == "strike":
            view = world.view_of(who, GROUP)
            self._victim_of[who] = victim = name_of(view.members[0]) if view is not None else who
            if world.alive(victim):
                self._crash(victim)
        elif act.verb == "fail":
            link = LinkModel(latency=world.network.latency, loss=_FAILING_LOSS)
            world.network = msgspec.structs.replace(world.network, links={(who, name): link for name in world.names})
        elif act.verb == "pause":
            world.pause(who)
        elif act.verb == "resume":
            self._resume(who)
        elif act.verb == "slow":
            world.slow(who, act.seconds)
        elif act.verb in ("unread", "read"):
            self._read(who, act.verb == "read")
        elif act.verb == "leave" and not world.paused(who) and world.is_member(who, GROUP):
            self._losses += 1
            self._leaving.add(who)
            world.leave(who, GROUP)

    def _resume(self, who: str) -> None:
        self.world.resume(who)
        if self.chatter is not None:
            self.chatter.say(who, 0)  # what it was to say in the meantime

    def _read(self, who: str, reading: bool) -> None:
        """The application of a node takes what is delivered, or does not; one that stands still cannot do either."""
        if self.world.is_member(who, GROUP) and not self.world.paused(who):
            (self.world.resume_reader if reading else self.world.pause_reader)(who, GROUP)

    def _crash(self, who: str) -> None:
        self._losses += 1
        self.world.crash(who)
        if self.chatter is not None:
            self.chatter.begin_anew(who)

    def _restart(self, who: str, wants: Wants) -> None:
        if self.world.started(who) and not self.world.alive(who):
            self.world.restart(who)
            self._leaving.discard(who)
            self._join(who, wants)

    def _join(self, who: str, wants: Wants) -> None:
        """Lets a node join, or try again later if it cannot even begin."""
        world = self.world
        if not world.started(who) or not world.alive(who) or who in self._leaving:
            return
        if world.is_member(who, GROUP) or world.seeks(who, GROUP):
            return
        self._wants_by_name[who] = wants
        if world.paused(who):
            world.at(world.now + _REJOIN_S, partial(self._join, who, wants))
            return
        try:
            if self.weather.founding:
                self._found(who, wants)
            else:
                self._enter(who, self._group, wants)
        except (WorldError, InvalidOption) as error:
            if isinstance(error, InvalidOption) and self.weather.corruption is None:
                raise  # only a forged description has options that cannot be
            if self.weather.advertises:
                world.advertise(who)
            world.at(world.now + _REJOIN_S, partial(self._join, who, wants))

    def _found(self, who: str, wants: Wants) -> None:
        """Join the group and found it if nobody has it. Where only a majority goes on, its founders do that together, and are given by
        number or by name; nodes that come later do not found it."""
        names = self.weather.names
        if not self._needs_founders():
            self._enter(who, GROUP, wants, self.weather.options)
        elif who in names:
            self._enter(who, GROUP, wants, self.weather.options, names if self.case.seed % 2 else len(names))
        else:
            self._enter(who, GROUP, wants)

    def _enter(
        self, who: str, group: str, wants: Wants, create: GroupOptions | None = None, expect: int | Sequence[str] = 0
    ) -> None:
        """Begin to join; of several groups of this name, which forged frames leave behind, look for the one that has members."""
        enter = self.world.look_for if self.world.is_ambiguous(who, group) else self.world.join
        enter(who, group, wants, create=create, expect=expect)

    def _on_event(self, who: str, group: GroupId | None, event: Event) -> None:
        if group is not None and name_of(group) != GROUP:
            return
        if type(event) is Departed and who not in self._leaving:
            self._losses += 1
            self.world.at(self.world.now + _REJOIN_S, partial(self._come_back, who))

    def _come_back(self, who: str) -> None:
        """Asks anew which groups there are, and tries again."""
        if self.weather.advertises and self.world.alive(who) and not self.world.paused(who):
            self.world.advertise(who)
        self.world.at(self.world.now + _REJOIN_S, partial(self._join, who, self._wants_by_name.get(who, Wants())))

    # -- the end ---------------------------------------------------------------------------------------------------------------

    def _calm(self) -> None:
        """The faults stop, and the reactions, so that everything can come to its end."""
        world = self.world
        world.network = self._calm_network
        world.heal()
        if self.chatter is not None:
            self.chatter.stop()
        for name in world.names:
            if world.started(name) and world.alive(name):
                world.slow(name, 0.0)
                self._resume(name)
                self._read(name, True)

    def _find_together(self) -> str:
        """Runs until the members have found together and nobody has anything left to say; says what is missing if they do not."""
        world, limit, step_s = self.world, self.world.now + CALM_LIMIT_S, 0.1
        while True:
            world.run(step_s)
            if self._is_together():
                return ""
            if world.now >= limit:
                return self._describe()
            step_s = min(step_s * 1.3, 2.0)

    def _recover(self) -> str:
        """Waits until the group has recovered from corrupted frames; says what is wrong if it does not."""
        if wait_for_recovery(self, GROUP, CALM_LIMIT_S):
            return ""
        why = f"the group has not recovered {CALM_LIMIT_S:g} s after the last corrupted frame"
        self.violations.append(Violation("recovery", MemberId("group"), (), why))
        return self._describe()

    def _judge_discovery(self) -> None:
        for name, group in self._unheard():
            why = f"has not heard of {group} {CALM_LIMIT_S:g} s after the network was calm"
            self.violations.append(Violation("discovery", MemberId(name), (), why))

    def _unheard(self) -> list[tuple[str, str]]:
        """Which nodes do not know which groups, where nobody calls `advertise`."""
        if self.weather.advertises:
            return []
        known = {name: {info.id for info in self.world.known(name)} for name in self._living()}
        groups = {group for name in known for group, member in self.world.node(name).memberships.items() if member.view is not None}
        return [(name, group) for name, infos in known.items() for group in sorted(groups - infos)]

    def _living(self) -> list[str]:
        return [name for name in self.world.names if self.world.started(name) and self.world.alive(name)]

    def in_one_view(self) -> bool:
        """Whether all nodes that live and have not left are in one stable view of just them."""
        world = self.world
        names = [name for name in self._living() if name not in self._leaving or world.is_member(name, GROUP)]
        if not names or not all(world.is_member(name, GROUP) for name in names):
            return False
        members = [world.member(name, GROUP) for name in names]
        view = members[0].view
        if view is None or {member.me for member in members} != set(view.members):
            return False
        return all(member.view == view and member.stable for member in members)

    def is_stopped(self) -> bool:
        """Whether a majority is lost for good, because nodes died or left, and all who are left know."""
        members = [self.world.member(name, GROUP) for name in self._living() if self.world.is_member(name, GROUP)]
        if self._losses and members and all(not member.quorum or member.view is None for member in members):
            self.stopped = any(member.view is not None for member in members)
        return self.stopped or self._never_founded()

    def _never_founded(self) -> bool:
        """Whether the group does not exist because one of its founders died or left before it was founded."""
        if self._needs_founders() and not any(self.world.view_of(name, GROUP) for name in self._living()):
            gone = set(self.weather.names) - set(self._living()) | self._leaving
            self.stopped = not gone.isdisjoint(self.weather.names)
        return self.stopped

    def _needs_founders(self) -> bool:
        return self.weather.founding and self.weather.options.partitions == "majority"

    def _is_together(self) -> bool:
        world = self.world
        if self._never_founded():
            return True
        if any(not world.is_member(name, GROUP) for name in self._living() if name not in self._leaving):
            return False
        members = [world.member(name, GROUP) for name in self._living() if world.is_member(name, GROUP)]
        if self._losses and members and all(not member.quorum or member.view is None for member in members):
            return self.is_stopped()
        if self._unheard():
            return False
        if (self.chatter is not None and self.chatter.waiting) or not world.settle(0.0, GROUP):
            return False
        return not self._on_its_way()

    def _on_its_way(self) -> list[Violation]:
        """Private messages that have neither arrived nor come back."""
        history = History(self.world.logs_of(GROUP), self.world.wants)
        return private(history, after=False)[len(private(history, settled=False, after=False)) :]

    def _describe(self) -> str:
        """Who is where, and what it waits for."""
        told = []
        for name in self.world.names:
            if not self.world.started(name) or not self.world.alive(name):
                continue
            if not self.world.is_member(name, GROUP):
                told.append(f"{name} is in no group")
                continue
            member = self.world.member(name, GROUP)
            words = [str(member.view), "stable" if member.stable else "not stable"]
            words += [] if member.settled else ["not settled"]
            words += ["catching up"] if member.synchronising else []
            words += [] if member.quorum else ["no majority"]
            if member.endpoint is not None and member.endpoint.ordering.held:
                words.append(f"holds {member.endpoint.ordering.held} messages back")
            told.append(f"{name} in {' '.join(words)}")
        waiting = self.chatter.waiting if self.chatter is not None else {}
        told += [f"{name} has {count} messages that are refused" for name, count in waiting.items()]
        told += [str(violation) for violation in self._on_its_way()[:3]]
        return "; ".join(told)


class SwarmWorld(Bounded, NodeWorld):
    """The world of a run: bounded, with corrupted frames, and with the repair requests counted."""

    frames_limit = 400_000
    corrupter: Corrupter | None = None
    requests = 0
    """Repair requests that arrived; those that only ask how far a member is are not among them."""

    def _arrive(self, passage: Passage) -> None:
        if self.corrupter is not None and self.corrupter.active:
            for wire in self.corrupter.pass_on(passage.kind, passage.wire):
                super()._arrive(Passage(passage.source, passage.destination, passage.kind, wire))
            return
        if passage.kind == "nack":
            frame = codec.decode(passage.wire)
            self.requests += isinstance(frame, Nack) and bool(frame.wants or frame.parts)
        super()._arrive(passage)


def _calmed(network: NetworkModel) -> NetworkModel:
    """The network without its faults, and with no more jitter than a heartbeat bears."""
    latency = network.latency
    if isinstance(latency, Uniform) and latency.low == 0.0:
        latency = Uniform(0.0, min(latency.high, _CALM_JITTER_S))
    return msgspec.structs.replace(network, latency=latency, loss=0.0, duplicate=0.0, reorder=0.0, links={})
