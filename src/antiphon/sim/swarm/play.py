"""What happens in a run of nodes: they gather, the acts of the weather befall them, and then the world is calm.

A node that is put out of the group, or cannot come in, tries again, as a user's program would. Cuts add up: a link that two acts have
cut carries nothing until both have mended it. Whoever a `strike` hit in a node's stead restarts in its stead.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import msgspec

from antiphon.errors import WorldError
from antiphon.model.control import Wants
from antiphon.model.events import Departed, Event
from antiphon.model.ids import GroupId, MemberId, name_of
from antiphon.sim.network import LinkModel
from antiphon.sim.node_world import NodeWorld
from antiphon.sim.oracles import Violation, private
from antiphon.sim.oracles.history import History
from antiphon.sim.swarm.bounded import Bounded
from antiphon.sim.swarm.case import Case, run_name
from antiphon.sim.swarm.chatter import GROUP, Chatter
from antiphon.sim.swarm.node_weather import Act, NodeWeather

CALM_LIMIT_S = 120.0
"""Virtual seconds of quiet after which those who have not found together never will."""
GATHER_LIMIT_S = 60.0
_FAILING_LOSS = 0.7
_REJOIN_S = 0.3
"""After how long a node that was put out, or could not come in, tries again."""


class Play:
    """One run: the world, what is cut in it now, and who wanted what of the past."""

    def __init__(self, case: Case, weather: NodeWeather, trace: bool = False) -> None:
        self.case, self.weather = case, weather
        calm = msgspec.structs.replace(weather.network, loss=0.0, duplicate=0.0, reorder=0.0, links={})
        name = run_name(case) if trace else False
        self.world = world = _BoundedWorld(case.seed, weather.names, weather.settings, calm, late=weather.late, trace=name)
        self.chatter: Chatter | None = None
        self.wants: dict[MemberId, Wants] = {}
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
        for name, (offset_s, rate) in zip((*weather.names, *weather.late), weather.skews, strict=False):
            if world.started(name):
                world.skew(name, offset_s, rate)
        world.network = weather.network
        self.chatter = Chatter(
            world, self.case.seed, messages=weather.messages, private=weather.private, span_s=weather.span_s, large=weather.large
        )
        start = world.now
        for act in weather.acts:
            world.at(start + act.at, partial(self._perform, act))
        end = max([weather.span_s, *(act.at for act in weather.acts)])
        world.run_until(start + end)
        self._calm()
        if stalled := self._find_together():
            return stalled
        if self.stopped:
            return ""
        for name in world.names:
            self.chatter.say(name, 2)
        return self._find_together()

    # -- the beginning, and the acts -------------------------------------------------------------------------------------------

    def _open(self) -> str:
        world, weather = self.world, self.weather
        if weather.founding:
            for name in weather.names:
                world.at(0.0, partial(self._join, name, Wants()))
            return ""
        first, *others = weather.names
        self._group = world.create(first, GROUP, weather.options)
        world.run(1.0)
        for name in others:
            self._join(name, Wants())
        gathered = world.wait_for(lambda: world.converged(self._group), GATHER_LIMIT_S)
        return "" if gathered else f"never gathered: {self._describe()}"

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
            if not world.started(who):
                world.start(who)
            self._leaving.discard(who)
            self._join(who, act.wants)
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
        if not self.world.alive(who):
            self.world.restart(who)
            self._leaving.discard(who)
            self._join(who, wants)

    def _join(self, who: str, wants: Wants) -> None:
        """Lets a node join, or try again later if it cannot even begin."""
        world = self.world
        if not world.started(who) or not world.alive(who) or who in self._leaving or world.is_member(who, GROUP):
            return
        self._wants_by_name[who] = wants
        if world.paused(who):
            world.at(world.now + _REJOIN_S, partial(self._join, who, wants))
            return
        try:
            if self.weather.founding:
                world.join(who, GROUP, wants, create=self.weather.options)
            else:
                world.join(who, self._group, wants)
        except WorldError:
            world.advertise(who)
            world.at(world.now + _REJOIN_S, partial(self._join, who, wants))
            return
        self.wants[world.id_of(who, GROUP)] = wants

    def _on_event(self, who: str, group: GroupId | None, event: Event) -> None:
        if type(event) is Departed and who not in self._leaving:
            self._losses += 1
            self.world.at(self.world.now + _REJOIN_S, partial(self._come_back, who))

    def _come_back(self, who: str) -> None:
        """Asks anew which groups there are, and tries again."""
        if self.world.alive(who) and not self.world.paused(who):
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

    def _is_together(self) -> bool:
        world = self.world
        names = [name for name in world.names if world.started(name) and world.alive(name)]
        if any(not world.is_member(name, GROUP) for name in names if name not in self._leaving):
            return False
        members = [world.member(name, GROUP) for name in names if world.is_member(name, GROUP)]
        if self._losses and members and all(not member.quorum or member.view is None for member in members):
            self.stopped = any(member.view is not None for member in members)
            return self.stopped
        if (self.chatter is not None and self.chatter.waiting) or not world.settle(0.0, GROUP):
            return False
        return not self._on_its_way()

    def _on_its_way(self) -> list[Violation]:
        """Private messages that have neither arrived nor come back."""
        history = History(self.world.logs_of(GROUP), self.wants)
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
            told.append(f"{name} in {' '.join(words)}")
        waiting = self.chatter.waiting if self.chatter is not None else {}
        told += [f"{name} has {count} messages that are refused" for name, count in waiting.items()]
        told += [str(violation) for violation in self._on_its_way()[:3]]
        return "; ".join(told)


class _BoundedWorld(Bounded, NodeWorld):
    frames_limit = 400_000
