"""The ring, played: nobody's horizon passes what is in somebody's hands, whatever the line does.

Most of it is played with real nodes of the ring on a store whose every question and answer a seeded scheduler lets through, one at a time,
or loses, or lets happen later; an oracle that knows only who held what, and when, judges every horizon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

import msgspec
import pytest

from antiphon.errors import Conflict, StoreUnreachable
from antiphon.store.holdings import Holdings, TopicHold
from antiphon.store.horizon import TOKEN, Horizon, horizon, read_horizon
from antiphon.store.memory import MemoryBackend
from antiphon.store.presence import Heart, Presence
from antiphon.store.records import SECOND, Moment, Record
from antiphon.store.ring import RingNode
from antiphon.store.token import Token

TIMEOUT_S = 30.0
TIMEOUT = round(TIMEOUT_S * SECOND)
LEASE = 60 * SECOND
TOPICS = ("a", "b")


class Wrong(AssertionError):
    """What the oracle saw."""


# --- a world in which a scheduler decides what happens next ----------------------------------------------------------------------


class Gated:
    """The store as one node sees it: every question and every answer waits until the scheduler lets it through."""

    def __init__(self, world: World, node: int) -> None:
        self._world, self._node = world, node
        self.url = "memory:world"

    async def time(self) -> Moment:
        return await self._call(self._world.store.time)

    async def get(self, key: str) -> Record | None:
        return await self._call(lambda: self._world.store.get(key))

    async def records(self, prefix: str) -> list[Record]:
        return await self._call(lambda: self._world.store.records(prefix))

    async def put(self, key: str, data: bytes, revision: int) -> Record:
        return await self._call(lambda: self._world.store.put(key, data, revision), loses=True)

    async def remove(self, key: str, revision: int) -> None:
        await self._call(lambda: self._world.store.remove(key, revision), loses=True)

    async def _call(self, call: Callable[[], Awaitable[Any]], *, loses: bool = False) -> Any:
        world = self._world
        await world.gate(self._node)
        fate = world.chance.random() if loses and world.lossy else 1.0
        if fate < 0.03:
            raise StoreUnreachable(self.url, "lost on the way there")
        if fate < 0.08:
            world.spawn(self._later(call))
            raise StoreUnreachable(self.url, "late")
        answer = await call()
        await world.gate(self._node)
        if fate < 0.11:
            raise StoreUnreachable(self.url, "lost on the way back")
        return answer

    async def _later(self, call: Callable[[], Awaitable[Any]]) -> None:
        await self._world.gate(-1)
        with suppress(Conflict):
            await call()


class Watched(Holdings):
    """Tells the oracle at which step it was asked."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world, self.asked_at = world, 0

    @property
    def lowest_by_topic(self) -> dict[str, TopicHold]:
        self.asked_at = self._world.step
        return super().lowest_by_topic


class Hold:
    """One value of a topic in one node's hands, asked for or taken: by a reader with a lease, or by an outbox."""

    def __init__(self, time: Moment, step: int, topic: str, leased: bool) -> None:
        self.time, self.since, self.until = time, step, -1
        self.topic, self.leased = topic, leased
        self.protected = True
        self.told = False

    def counts(self, now: Moment) -> bool:
        return self.protected and not (self.leased and now > self.time + LEASE)

    def held_in(self, first: int, last: int) -> bool:
        return self.since <= last and (self.until < 0 or self.until >= first)


class Actor:
    def __init__(self, world: World, index: int) -> None:
        self.world, self.index = world, index
        self.holds: list[Hold] = []
        self.stopped = False
        self.leaving = False
        self.was_silent = True
        self.holdings = Watched(world)
        self.ring = RingNode(Gated(world, index), self.holdings, node_timeout_s=TIMEOUT_S, chance=world.chance)  # type: ignore[arg-type]
        self.visited_first = 0
        world.spawn(self._run())

    async def _run(self) -> None:
        while True:
            await self.world.gate(self.index)
            try:
                if self.leaving:
                    await self.ring.leave()
                    self.leaving = False
                    for _ in range(self.world.chance.randrange(20)):
                        await self.world.gate(self.index)
                await self.ring.turn(fresh=self.world.chance.random() < 0.3)
            except StoreUnreachable:
                pass

    # what a node does with values; all of it happens at once, at a step of the world

    @property
    def now_held(self) -> list[Hold]:
        return [hold for hold in self.holds if hold.until < 0]

    def ask(self, time: Moment, topic: str, leased: bool) -> None:
        hold = Hold(time, self.world.step, topic, leased)
        self.holds.append(hold)
        if not self.world.says_late:
            self.say(hold)

    def say(self, hold: Hold) -> None:
        hold.told = True
        self.holdings.hold(hold, TopicHold(hold.time, hold.topic, "reader", hold.time, LEASE if hold.leased else None))

    def give_back(self, hold: Hold) -> None:
        hold.until = self.world.step
        self.holdings.release(hold, hold.topic)


class World:
    def __init__(self, seed: int, *, nodes: int = 3, says_late: bool = False, lossy: bool = True) -> None:
        self.chance, self.lossy, self.says_late = Random(seed), lossy, says_late
        self.now, self.step = 1_000 * SECOND, 0
        self.store = MemoryBackend("memory:", now=lambda: self.now)
        self.times = [self.now]
        self._gates: list[tuple[int, asyncio.Future[None]]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.actors = [Actor(self, index) for index in range(nodes)]
        self.token = Token()
        self.began_at, self.turned_at = 0, 0
        self.always: set[tuple[str, Moment]] = set()
        """In the hands of somebody in the ring at every step since the last round was over."""
        self.newest = dict.fromkeys(TOPICS, 0)
        """The highest horizon of each topic that anybody has found."""
        self.rounds = 0
        self._fenced: tuple[Actor, Hold] | None = None

    def spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def gate(self, node: int) -> None:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._gates.append((node, gate))
        await gate

    async def play(self, steps: int) -> None:
        await self.store.open()
        self.spawn(self._collector())
        for _ in range(steps):
            await self.one_step(self._chosen())
        # Everybody answers again and holds one value of one topic: the horizon of the others comes to where the time is now.
        self.lossy = False
        for actor in self.actors:
            actor.stopped = False
            for hold in actor.now_held:
                actor.give_back(hold)
        stuck = self._stuck()
        target = self.now + 1
        self.now = target
        for _ in range(6_000):
            found = await read_horizon(self.store)
            if found.of("b", self.now) >= target:
                if stuck is not None and found.of("a", self.now) > stuck.time:
                    raise Wrong(f"{stuck.time} of topic a is in hand, and its horizon is {found}")
                break
            await self.one_step(self._let_through if self.chance.random() < 0.98 else self._tick)
        else:
            raise Wrong(f"the horizon did not come to {target} although everybody answers: {self.token}")
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _stuck(self) -> Hold | None:
        """Somebody in the ring takes a value of topic a, and never gives it back."""
        takers = [actor for actor in self.actors if self._is_in(actor)]
        if not takers or self.says_late:
            return None
        taker = self.chance.choice(takers)
        taker.ask(self.now, "a", leased=False)
        return taker.holds[-1]

    async def one_step(self, act: Callable[[], None]) -> None:
        self.step += 1
        act()
        for _ in range(8):
            await asyncio.sleep(0)
        for task in self._tasks:
            if task.done() and not task.cancelled() and task.exception():
                raise task.exception()  # type: ignore[misc]
        self._judge()

    # --- what can happen

    def _chosen(self) -> Callable[[], None]:
        values = [self._take, self._hand_over, self._notice, self._done, self._publish]
        return self.chance.choices([self._let_through, *values, self._tick, self._stop, self._leave], [60, 3, 8, 8, 0.6, 2, 3, 0.3, 0.7])[0]

    def _let_through(self) -> None:
        ready = [entry for entry in self._gates if entry[0] < 0 or not self.actors[entry[0]].stopped]
        if ready:
            entry = self.chance.choice(ready)
            self._gates.remove(entry)
            if not entry[1].done():
                entry[1].set_result(None)

    def _take(self) -> None:
        takers = [actor for actor in self.actors if self._is_in(actor)]
        due = [time for time in self.times[-20:] if self.now <= time + LEASE]
        # Few values are in hands at a time, or there would always be an older one that hides what is forgotten.
        if takers and due and sum(len(actor.now_held) for actor in self.actors) < 2:
            self.chance.choice(takers).ask(self.chance.choice(due), self.chance.choice(TOPICS), self.chance.random() < 0.3)

    def _hand_over(self) -> None:
        """A node comes back as the subscriber that another was, and has what that one had; which knows it at once, or later."""
        givers = [actor for actor in self.actors if self._is_in(actor) and any(self.now <= hold.time + LEASE for hold in actor.now_held)]
        takers = [actor for actor in self.actors if self._is_in(actor)]
        if givers and len(takers) > 1 and self._fenced is None:
            giver = self.chance.choice(givers)
            hold = self.chance.choice([hold for hold in giver.now_held if self.now <= hold.time + LEASE])
            self.chance.choice([actor for actor in takers if actor is not giver]).ask(hold.time, hold.topic, hold.leased)
            if self.chance.random() < 0.5:
                giver.give_back(hold)
            else:
                self._fenced = giver, hold

    def _notice(self) -> None:
        """Who was fenced notices it."""
        if self._fenced is not None:
            giver, hold = self._fenced
            self._fenced = None
            if not giver.stopped and hold.until < 0:
                giver.give_back(hold)

    def _done(self) -> None:
        actor = self.chance.choice(self.actors)
        if actor.stopped or not actor.now_held:
            return
        hold = self.chance.choice(actor.now_held)
        if hold.told:
            actor.give_back(hold)
        else:
            actor.say(hold)

    def _tick(self) -> None:
        self.now += self.chance.choice((SECOND // 10, SECOND, 5 * SECOND))

    def _publish(self) -> None:
        self.times.append(self.now)

    def _stop(self) -> None:
        actor = self.chance.choice(self.actors)
        actor.stopped = not actor.stopped
        if actor.stopped and self.chance.random() < 0.5:
            self.now += TIMEOUT * self.chance.choice((1, 2)) // 2 + 1

    def _leave(self) -> None:
        self.chance.choice(self.actors).leaving = True

    async def _collector(self) -> None:
        """Somebody who is not in the ring, and wants to collect."""
        store = Gated(self, -1)
        while True:
            await self.gate(-1)
            with suppress(StoreUnreachable):
                self._found(await horizon(store))  # type: ignore[arg-type]

    # --- the oracle

    def _is_in(self, actor: Actor) -> bool:
        """In the ring, by the token and by what it knows itself."""
        return actor.ring.id in self.token.members and actor.ring.is_member and not actor.stopped and not actor.leaving

    def _judge(self) -> None:
        record = self.store._shelf.records.get(TOKEN)
        before, self.token = self.token, msgspec.json.decode(record.data, type=Token) if record else Token()
        self._judge_leavers(before)
        held = [hold for actor in self.actors if self._is_in(actor) for hold in actor.now_held if hold.counts(self.now)]
        in_hands = {(hold.topic, hold.time) for hold in held}
        if self.token.round != before.round:
            self.rounds += 1
            for actor in self.actors:
                actor.visited_first = 0
        self.always &= in_hands
        for actor in self.actors:
            if self.token.cut == 2 and not actor.visited_first and actor.ring.id in self.token.members:
                actor.visited_first = self.step
        over = self.token.round > before.round if not before.cut else self.token.round == before.round
        if not self.token.cut and over and self.token != before:
            self._judge_horizon(self.token)
            self.always = set(in_hands)
        self._judge_leases()

    def _judge_horizon(self, after: Token) -> None:
        horizon_of = {topic: Horizon(after.round, after.started, after.low, after.held).of(topic, self.now) for topic in TOPICS}
        if not max(horizon_of.values()) <= after.started <= self.now:
            raise Wrong(f"the horizon {horizon_of} is beyond the store's time {self.now}")
        if low := [(topic, time) for topic, time in self.always if time < horizon_of[topic]]:
            raise Wrong(f"step {self.step}: {low} was in somebody's hands all the time since the last round, the horizon is {horizon_of}")
        for actor in self.actors:
            if actor.ring.id not in after.members or not actor.visited_first:
                continue
            last = actor.holdings.asked_at
            first = min(actor.visited_first, last)
            between = [hold for hold in actor.holds if hold.counts(self.now) and hold.held_in(first, last)]
            if low := [(hold.topic, hold.time) for hold in between if hold.time < horizon_of[hold.topic]]:
                raise Wrong(f"step {self.step}: node {actor.index} held {low} between the cuts, and the horizon is {horizon_of}")
        self._found(Horizon(after.round, after.started, after.low, after.held))

    def _found(self, found: Horizon) -> None:
        """Somebody knows this horizon, and may collect by it."""
        for topic in TOPICS:
            self.newest[topic] = max(self.newest[topic], found.of(topic, self.now))

    def _judge_leavers(self, before: Token) -> None:
        for actor in self.actors:
            beat = actor.ring._heart._beaten
            if beat is None or self.now > beat + TIMEOUT:
                actor.was_silent = True
            elif actor.ring.id in before.waiting and actor.ring.id not in self.token.waiting and actor.ring.id in self.token.members:
                actor.was_silent = False  # it has been visited since
            gone = actor.ring.id in before.members and actor.ring.id not in self.token.members
            if gone and actor.ring.is_member and not (actor.leaving or actor.was_silent):
                raise Wrong(f"step {self.step}: node {actor.index} was taken out at {self.now}, and its last beat was at {beat}")
            if actor.ring.id not in self.token.members:
                for hold in actor.holds:
                    hold.protected = False

    def _judge_leases(self) -> None:
        for actor in self.actors:
            for hold in actor.now_held:
                newest = self.newest[hold.topic]
                if hold.counts(self.now) and newest > hold.time + LEASE:
                    raise Wrong(f"step {self.step}: node {actor.index} holds {hold.time} of {hold.topic}, which is collected at {newest}")


def play(seed: int, steps: int = 700, **options: Any) -> World:
    async def story() -> World:
        world = World(seed, **options)
        await world.play(steps)
        return world

    try:
        return asyncio.run(story())
    except Wrong as wrong:
        raise Wrong(f"seed {seed}: {wrong}") from None


@pytest.mark.parametrize("block", range(6))
def test_no_horizon_passes_what_is_in_somebodys_hands(block: int) -> None:
    """In some order of events a value is collected while somebody reads it, or nothing is ever collected again."""
    worlds = [play(seed) for seed in range(block * 10, block * 10 + 10)]
    assert sum(world.rounds for world in worlds) > 50, "too little happened for this to mean anything"
    assert sum(actor.ring.absences for world in worlds for actor in world.actors), "nobody was ever silent"


# --- rings that are wrong, each in one way: the oracle must see it ----------------------------------------------------------------


def one_cut(patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The round is over when everybody has been asked once."""

    def moved_on(token: Token) -> Token:
        return token if token.waiting or not token.cut else msgspec.structs.replace(token, cut=0)

    patch.setattr(Token, "_moved_on", moved_on)
    return {}


def forgets(patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The second visit tells what is held then, not what was held since the first."""

    def lowest(holdings: Watched) -> dict[str, TopicHold]:
        holdings.asked_at = holdings._world.step
        holdings.mark()
        return Holdings.lowest_by_topic.fget(holdings)  # type: ignore[attr-defined, no-any-return]

    patch.setattr(Watched, "lowest_by_topic", property(lowest))
    return {}


def one_horizon_for_all_topics(patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is held in one topic holds back every other."""

    def of(found: Horizon, topic: str, now: Moment) -> Moment:
        return min(found.moment, *(hold.moment for hold in found.held.values()), found.moment)

    patch.setattr(Horizon, "of", of)
    return {}


def forgets_the_topic(patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is held in single topics is left out of the horizon."""
    patch.setattr(Horizon, "of", lambda found, topic, now: found.moment)
    return {}


def says_late(patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A reader says what it holds when it has it, not when it asks for it."""
    return {"says_late": True}


def impatient(patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A node is silent after half of its time-out."""
    patch.setattr(Presence, "silent", lambda presence, now: now > presence.beat + presence.timeout // 2)
    return {}


def goes_by_the_clock(patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The collector takes the store's time for the horizon."""

    async def clock(backend: Any) -> Horizon:
        return Horizon(moment=await backend.time())

    patch.setitem(globals(), "horizon", clock)
    return {}


def never_takes_out(patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Nobody is ever silent: who leaves without a word is waited for."""
    patch.setattr(Presence, "silent", lambda presence, now: False)

    async def stays(node: RingNode) -> None:
        await asyncio.sleep(0)

    patch.setattr(RingNode, "leave", stays)

    async def only_once(heart: Heart, now: Moment) -> None:
        if heart._beaten is None:
            await beat(heart, now)

    beat = Heart.beat
    patch.setattr(Heart, "beat", only_once)
    patch.setattr(World, "_stop", _stop_for_good)
    return {}


def _stop_for_good(world: World) -> None:
    """The process is killed, and another begins in its place."""
    actor = world.chance.choice(world.actors)
    if not actor.stopped:
        actor.stopped = True
        world._gates = [entry for entry in world._gates if entry[0] != actor.index]
        world.actors[actor.index] = Actor(world, actor.index)


MUTANTS = [
    *(one_cut, forgets, one_horizon_for_all_topics, forgets_the_topic),
    *(says_late, impatient, goes_by_the_clock, never_takes_out),
]


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_oracle_sees(mutant: Callable[[pytest.MonkeyPatch], dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation would pass whatever the ring does, and its silence means nothing."""
    options = mutant(monkeypatch)
    for seed in range(300):
        try:
            play(seed, **options)
        except Wrong:
            return
    pytest.fail(f"{mutant.__name__}: not seen in 300 worlds")
