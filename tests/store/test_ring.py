"""The ring: nobody's horizon passes what is in somebody's hands, a silent node holds it back for its time-out, and it moves on.

Most of it is played with real nodes of the ring on a store whose every question and answer a seeded scheduler lets through, one at a time,
or loses, or lets happen later; an oracle that knows only who held what, and when, judges every horizon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from antiphon.errors import BadStore, Conflict, InvalidOption, StoreFull, StoreUnreachable
from antiphon.store.holdings import Holdings
from antiphon.store.horizon import HORIZON, TOKEN, horizon, keep_horizon, read_horizon, read_token
from antiphon.store.memory import MemoryBackend
from antiphon.store.presence import PRESENCES, Heart, Presence
from antiphon.store.records import SECOND, Moment, Record
from antiphon.store.ring import RingNode
from antiphon.store.token import Token

TIMEOUT_S = 30.0
TIMEOUT = round(TIMEOUT_S * SECOND)
LEASE = 60 * SECOND
PATIENCE_S = 60.0


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
    def lowest(self) -> Moment | None:
        self.asked_at = self._world.step
        return super().lowest


class Hold:
    """One value in one node's hands, asked for or taken."""

    def __init__(self, time: Moment, step: int) -> None:
        self.time, self.since, self.until = time, step, -1
        self.protected = True
        self.told = False

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

    def ask(self, time: Moment) -> None:
        hold = Hold(time, self.world.step)
        self.holds.append(hold)
        if not self.world.says_late:
            self.say(hold)

    def say(self, hold: Hold) -> None:
        hold.told = True
        self.holdings.set(hold, hold.time)

    def give_back(self, hold: Hold) -> None:
        hold.until = self.world.step
        self.holdings.set(hold, None)


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
        self.always: set[Moment] = set()
        """In the hands of somebody in the ring at every step since the last round was over."""
        self.horizons: list[Moment] = []
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
        # Everybody answers again and holds nothing: the horizon comes to where the time is now.
        self.lossy = False
        for actor in self.actors:
            actor.stopped = False
            for hold in actor.now_held:
                actor.give_back(hold)
        target = self.now
        for _ in range(6_000):
            if (await read_horizon(self.store)).moment >= target:
                break
            await self.one_step(self._let_through if self.chance.random() < 0.98 else self._tick)
        else:
            raise Wrong(f"the horizon did not come to {target} although everybody answers: {self.token}")
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

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
            self.chance.choice(takers).ask(self.chance.choice(due))

    def _hand_over(self) -> None:
        """A node comes back as the subscriber that another was, and has what that one had; which knows it at once, or later."""
        givers = [actor for actor in self.actors if self._is_in(actor) and any(self.now <= hold.time + LEASE for hold in actor.now_held)]
        takers = [actor for actor in self.actors if self._is_in(actor)]
        if givers and len(takers) > 1 and self._fenced is None:
            giver = self.chance.choice(givers)
            hold = self.chance.choice([hold for hold in giver.now_held if self.now <= hold.time + LEASE])
            self.chance.choice([actor for actor in takers if actor is not giver]).ask(hold.time)
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
                self.horizons.append(await horizon(store))  # type: ignore[arg-type]

    # --- the oracle

    def _is_in(self, actor: Actor) -> bool:
        """In the ring, by the token and by what it knows itself."""
        return actor.ring.id in self.token.members and actor.ring.is_member and not actor.stopped and not actor.leaving

    def _judge(self) -> None:
        record = self.store._shelf.records.get(TOKEN)
        before, self.token = self.token, msgspec.json.decode(record.data, type=Token) if record else Token()
        self._judge_leavers(before)
        in_hands = {hold.time for actor in self.actors if self._is_in(actor) for hold in actor.now_held if hold.protected}
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
        found = after.low
        if not found <= after.started <= self.now:
            raise Wrong(f"the horizon {found} is beyond the store's time {self.now}")
        if low := [time for time in self.always if time < found]:
            raise Wrong(f"step {self.step}: {low} was in somebody's hands all the time since the last round, and the horizon is {found}")
        for actor in self.actors:
            if actor.ring.id not in after.members or not actor.visited_first:
                continue
            last = actor.holdings.asked_at
            first = min(actor.visited_first, last)
            if low := [hold.time for hold in actor.holds if hold.protected and hold.held_in(first, last) and hold.time < found]:
                raise Wrong(f"step {self.step}: node {actor.index} held {low} between the cuts, and the horizon is {found}")
        self.horizons.append(found)

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
        newest = max(self.horizons, default=0)
        for actor in self.actors:
            for hold in actor.now_held:
                if hold.protected and newest > hold.time + LEASE:
                    raise Wrong(f"step {self.step}: node {actor.index} holds {hold.time}, which is collected at {newest}")


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

    def lowest(holdings: Watched) -> Moment | None:
        holdings.asked_at = holdings._world.step
        return holdings.oldest

    patch.setattr(Watched, "lowest", property(lowest))
    return {}


def marks_again(patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A visit that is repeated because its answer was lost begins to remember anew."""
    played = RingNode._played

    def forgetful(node: RingNode, *arguments: Any) -> Token:
        node._marked = 0
        return played(node, *arguments)

    patch.setattr(RingNode, "_played", forgetful)
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

    async def clock(backend: Any) -> Moment:
        return await backend.time()  # type: ignore[no-any-return]

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


@pytest.mark.parametrize("mutant", [one_cut, forgets, says_late, impatient, goes_by_the_clock, never_takes_out])
def test_the_oracle_sees(mutant: Callable[[pytest.MonkeyPatch], dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation would pass whatever the ring does, and its silence means nothing."""
    options = mutant(monkeypatch)
    for seed in range(300):
        try:
            play(seed, **options)
        except Wrong:
            return
    pytest.fail(f"{mutant.__name__}: not seen in 300 worlds")


# --- two interleavings, step by step ----------------------------------------------------------------------------------------------


class Clock:
    """The store's time, moved by hand."""

    def __init__(self, now: Moment = 1_000 * SECOND) -> None:
        self.now = now

    def __call__(self) -> Moment:
        return self.now

    def wait(self, seconds: float) -> Moment:
        self.now += round(seconds * SECOND)
        return self.now


class Scripted(MemoryBackend):
    """A store on which one change comes late, and one answer."""

    late: bool = False
    before_answering: Callable[[], Awaitable[None]] | None = None
    kept_back: Callable[[], Awaitable[Record]] | None = None

    async def put(self, key: str, data: bytes, revision: int) -> Record:
        if self.late and key == TOKEN:
            self.late, self.kept_back = False, lambda: MemoryBackend.put(self, key, data, revision)
            raise StoreUnreachable(self.url, "it took too long")
        return await super().put(key, data, revision)

    async def get(self, key: str) -> Record | None:
        answer = await super().get(key)
        if key == TOKEN and self.before_answering is not None:
            script, self.before_answering = self.before_answering, None
            await script()
        return answer


async def ring_of(store: MemoryBackend, count: int) -> tuple[list[RingNode], list[Holdings]]:
    holdings = [Holdings() for _ in range(count)]
    nodes = [RingNode(store, held, node_timeout_s=TIMEOUT_S) for held in holdings]
    for node in nodes:
        await node.turn()
    while (await read_token(store, 0))[0].cut:
        for node in nodes:
            await node.turn()
    return nodes, holdings


async def handed_over_between_two_visits() -> tuple[Moment, Moment]:
    """The time of a value that was in somebody's hands all the time, and the horizon."""
    clock = Clock()
    store = MemoryBackend("memory:", now=clock)
    await store.open()
    (ana, bea), (anas, beas) = await ring_of(store, 2)
    old, reader, other = clock.now, Clock(), Clock()
    anas.set(reader, old)
    clock.wait(15)
    await bea.turn(fresh=True)  # the round begins, and Bea is asked: she holds nothing
    beas.set(other, old)  # she comes back as the subscriber that Ana was
    anas.set(reader, None)  # and Ana is fenced
    while (await read_token(store, 0))[0].cut:
        await ana.turn()  # Ana is asked: she holds nothing
        await bea.turn()
    return old, (await read_horizon(store)).moment


def test_handed_over_between_two_visits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value goes from a node that has not been asked to one that has, nobody tells of it, and it is collected while it is read."""
    old, found = asyncio.run(handed_over_between_two_visits())
    assert found <= old
    one_cut(monkeypatch)
    old, found = asyncio.run(handed_over_between_two_visits())
    assert found > old, "a ring with one cut is wrong here, and this test would not notice"


async def visited_late_and_again() -> tuple[Moment, Moment]:
    clock = Clock()
    store = Scripted("memory:", now=clock)
    await store.open()
    (ana, bea, cleo), (anas, beas, _) = await ring_of(store, 3)
    old, reader, other = clock.now, Clock(), Clock()
    clock.wait(15)
    await bea.turn(fresh=True)
    store.late = True
    with pytest.raises(StoreUnreachable):
        await ana.turn()  # she remembers from here on, and her visit is on its way
    anas.set(reader, old)

    async def meanwhile() -> None:
        assert store.kept_back is not None
        await store.kept_back()  # the visit arrives
        await cleo.turn()  # the last one: the second cut begins
        await bea.turn()  # Bea has held nothing
        beas.set(other, old)  # and takes over what Ana holds
        anas.set(reader, None)

    store.before_answering = meanwhile
    await ana.turn()  # the token she is told of is that of the first cut, in which she is still to be visited
    assert not (await read_token(store, 0))[0].cut
    return old, (await read_horizon(store)).moment


def test_a_visit_whose_answer_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node repeats its first visit after the second cut has begun, forgets what it held in between, and that is collected."""
    old, found = asyncio.run(visited_late_and_again())
    assert found <= old
    marks_again(monkeypatch)
    old, found = asyncio.run(visited_late_and_again())
    assert found > old, "a ring that remembers anew is wrong here, and this test would not notice"


def test_handed_over_by_one_who_leaves() -> None:
    """A node hands on what it reads and is closed before it is asked again; nobody tells of it."""

    async def story() -> None:
        clock = Clock()
        store = await memory(clock)
        (ana, bea, cleo), (anas, beas, _) = await ring_of(store, 3)
        old, reader, other = clock.now, Clock(), Clock()
        clock.wait(15)
        for node in (bea, ana, cleo, bea):
            await node.turn(fresh=True)
            if node is ana:
                anas.set(reader, old)
        token, _ = await read_token(store, 0)
        assert (token.cut, token.waiting) == (2, (ana.id,)), "only Ana has not told"
        beas.set(other, old)
        anas.set(reader, None)
        await ana.leave()
        assert (await read_token(store, 0))[0].members == (bea.id, cleo.id)
        assert (await read_horizon(store)).moment == old

    asyncio.run(story())


def test_the_end_of_an_old_round_comes_late() -> None:
    """Whoever ended a round slept before it could write the horizon, and now puts an old one in the place of a newer, lower one."""

    async def story() -> None:
        store = await memory(Clock())
        await keep_horizon(store, Token(round=5, started=500, low=100))
        await keep_horizon(store, Token(round=4, started=400, low=400))
        assert (await read_horizon(store)).moment == 100
        await keep_horizon(store, Token(round=6, started=600, low=600))
        assert (await read_horizon(store)).moment == 600

    asyncio.run(story())


# --- the token by itself ----------------------------------------------------------------------------------------------------------


def test_who_comes_and_goes_in_the_middle_of_a_round() -> None:
    """Somebody who joins while the token goes round is not asked, or somebody who leaves takes with it what it held."""
    token = Token(members=("ana", "bea")).begun(100)
    assert (token.cut, token.waiting, token.low) == (1, ("ana", "bea"), 100)
    token = token.visited("ana", 100).joined("cleo")
    assert token.waiting == ("bea", "cleo"), "in the first cut"
    token = token.visited("cleo", 100).visited("bea", 100)
    assert (token.cut, token.waiting) == (2, ("ana", "bea", "cleo"))
    token = token.visited("bea", 100).joined("dora")
    assert token.waiting == ("ana", "cleo", "dora"), "in the second"
    assert token.joined("dora") is token
    token = token.left("cleo", 40)
    assert (token.low, token.waiting) == (40, ("ana", "dora"))
    token = token.left("ana").visited("dora", 60)
    assert (token.cut, token.low, token.members) == (0, 40, ("bea", "dora"))
    assert token.left("bea", 10).low == 40, "what is told between two rounds belongs to none"


def test_the_last_one_leaves() -> None:
    """The last node leaves in the middle of a round, and the token waits for somebody who is not there."""
    token = Token(members=("ana",)).begun(100).left("ana")
    assert (token.cut, token.members, token.waiting) == (0, (), ())
    assert Token().begun(7).low == 7


# --- nodes on a store -------------------------------------------------------------------------------------------------------------


async def memory(clock: Clock) -> MemoryBackend:
    store = MemoryBackend("memory:", now=clock)
    await store.open()
    return store


def test_nobody_there() -> None:
    """With nobody in the ring nothing is ever collected, because nobody makes a horizon."""

    async def story() -> None:
        clock = Clock()
        store = await memory(clock)
        assert await horizon(store) == clock.now
        (ana,), _ = await ring_of(store, 1)
        await ana.leave()
        clock.wait(50)
        assert await horizon(store) == clock.now
        assert await store.records(PRESENCES) == []

    asyncio.run(story())


def test_alone() -> None:
    """The only node of a store waits for others before it may collect."""

    async def story() -> None:
        clock = Clock()
        store = await memory(clock)
        (ana,), (anas,) = await ring_of(store, 1)
        clock.wait(1)
        assert await ana.horizon(0) == clock.now
        anas.set(clock, clock.now - 500)
        clock.wait(1)
        assert await ana.horizon(0) == clock.now - SECOND - 500
        anas.set(clock, None)
        assert await ana.horizon(0) == clock.now

    asyncio.run(story())


def test_a_silent_node_holds_the_horizon_back_for_its_time_out() -> None:
    """A crashed node stops collection for ever; or a node that is merely slow is not waited for, and what it reads is collected."""

    async def story() -> None:
        clock = Clock()
        store = await memory(clock)
        (ana, bea), (_, beas) = await ring_of(store, 2)
        beas.set(clock, clock.now)
        held = clock.now
        clock.wait(1)
        await bea.turn()
        while (await read_token(store, 0))[0].cut:
            await ana.turn()
            await bea.turn()
        beat = presence_of(store, bea).beat
        while clock.now + 2 * SECOND <= beat + TIMEOUT:  # Bea says nothing any more
            clock.wait(2)
            await ana.turn()
            assert (await read_horizon(store)).moment <= held
            assert await horizon(store) <= held, "nor for somebody who is not in the ring"
        clock.now = beat + TIMEOUT
        await ana.turn()
        assert (await read_horizon(store)).moment <= held, "to the nanosecond"
        clock.now += 1
        assert await ana.horizon(0) == clock.now
        assert (await read_token(store, 0))[0].members == (ana.id,)

    asyncio.run(story())


def presence_of(store: MemoryBackend, node: RingNode) -> Presence:
    return msgspec.json.decode(store._shelf.records[PRESENCES + node.id].data, type=Presence)


def test_back_after_a_silence() -> None:
    """A node that slept does not know that it was given up, and believes what it holds to be safe."""

    async def story() -> None:
        clock = Clock()
        store = await memory(clock)
        (ana, bea), (_, beas) = await ring_of(store, 2)
        beas.set(clock, clock.now)
        held = clock.now
        clock.wait(2 * TIMEOUT_S)
        assert await ana.horizon(0) == clock.now
        assert bea.absences == 0
        await bea.turn()
        assert (bea.absences, bea.is_member) == (1, True)
        while (await read_token(store, 0))[0].cut:
            await ana.turn()
            await bea.turn()
        clock.wait(1)
        await bea.turn(fresh=True)
        while (await read_token(store, 0))[0].cut:
            await ana.turn()
            await bea.turn()
        assert (await read_horizon(store)).moment == held, "what it holds counts again"
        assert ana.absences == 0

    asyncio.run(story())


def test_what_an_idle_ring_costs() -> None:
    """Nodes that do nothing keep the store busy."""

    async def story() -> None:
        calls: dict[str, int] = {}

        class Counted(MemoryBackend):
            async def put(self, *arguments: Any) -> Record:
                calls["write"] = calls.get("write", 0) + 1
                return await super().put(*arguments)

            async def get(self, *arguments: Any) -> Record | None:
                calls["read"] = calls.get("read", 0) + 1
                return await super().get(*arguments)

            async def records(self, *arguments: Any) -> list[Record]:
                calls["list"] = calls.get("list", 0) + 1
                return await super().records(*arguments)

        clock = Clock()
        store = Counted("memory:", now=clock)
        await store.open()
        nodes, _ = await ring_of(store, 10)
        calls.clear()
        for _ in range(120):  # ten minutes, a look every five seconds
            clock.wait(5)
            for node in nodes:
                await node.turn()
        per_node_and_second = {what: count / 10 / 600 for what, count in calls.items()}
        assert per_node_and_second["write"] < 0.5
        assert per_node_and_second["read"] < 0.5
        assert per_node_and_second["list"] < 0.1, "while everybody answers, who begins a round looks for who is silent"
        assert clock.now - (await read_horizon(store)).moment <= TIMEOUT

    asyncio.run(story())


def test_a_list_that_is_no_snapshot() -> None:
    """A node beats while somebody lists who is there, is missing in the list, and is taken for dead."""

    async def story() -> None:
        class Forgetful(MemoryBackend):
            async def records(self, prefix: str) -> list[Record]:
                return (await super().records(prefix))[1:]

        clock = Clock()
        store = Forgetful("memory:", now=clock)
        await store.open()
        nodes, _ = await ring_of(store, 3)
        clock.wait(TIMEOUT_S / 2)
        await horizon(store)
        assert {node.id for node in nodes} == set((await read_token(store, 0))[0].members)
        clock.wait(TIMEOUT_S)
        assert await horizon(store) == clock.now

    asyncio.run(story())


def test_records_that_are_not_ours() -> None:
    """Somebody wrote nonsense under the ring's keys, and nodes end with a parser's error that does not say where to look."""

    async def story() -> None:
        clock = Clock()
        store = await memory(clock)
        (ana,), _ = await ring_of(store, 1)
        record = await store.get(HORIZON)
        assert record is not None
        await store.put(HORIZON, b"[]", record.revision)
        with pytest.raises(BadStore, match=r"ring/horizon.*remove it"):
            await horizon(store)
        await store.put(PRESENCES + "x", b"{}", 0)
        with pytest.raises(BadStore, match=r"ring/nodes/x.*remove it"):
            await horizon(store)
        record = await store.get(TOKEN)
        assert record is not None
        await store.put(TOKEN, b"\xff", record.revision)
        with pytest.raises(BadStore, match=r"ring/token.*remove it"):
            await ana.turn()
        for key in (TOKEN, HORIZON, PRESENCES + "x"):
            record = await store.get(key)
            assert record is not None
            await store.remove(key, record.revision)
        clock.wait(1)
        assert await ana.horizon(0) == clock.now, "removed, they are made anew"

    asyncio.run(story())


def test_a_full_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    """One program that opens stores in a loop makes the token so large that nobody can write it any more."""

    async def story() -> None:
        store = await memory(Clock())
        await ring_of(store, 3)
        with pytest.raises(StoreFull, match="3 nodes"):
            await RingNode(store, Holdings()).turn()

    monkeypatch.setattr("antiphon.store.ring.MEMBERS", 3)
    asyncio.run(story())


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_absurd_time_outs(timeout: float) -> None:
    """A time-out of nothing makes every node silent, an endless one none."""
    with pytest.raises(InvalidOption, match="node_timeout_s"):
        RingNode(MemoryBackend("memory:"), Holdings(), node_timeout_s=timeout)


@contextmanager
def servers(kind: str, directory: Path) -> Iterator[Callable[[], Any]]:
    """Gives what opens another handle on a store of this kind."""
    if kind == "sqlite":
        from antiphon.store.sqlite import SqliteBackend

        yield lambda: SqliteBackend(f"sqlite:{directory / 'store.db'}")
    else:
        pytest.importorskip("nats", reason="the extra nats is not installed")
        from antiphon.store.jetstream import JetStreamBackend
        from antiphon.store.jetstream.server import LocalServers

        with LocalServers(1, directory) as running:
            yield lambda: JetStreamBackend(running.url)


@pytest.mark.parametrize(("kind", "count"), [("sqlite", 3), ("sqlite", 10), ("jetstream", 3)])
def test_nodes_that_run(tmp_path: Path, kind: str, count: int) -> None:
    """On a real store, with real tasks, the token is not passed on; whether they watch it or look now and then."""

    async def story(another: Callable[[], Any]) -> None:
        stores = [another() for _ in range(count)]
        holdings = [Holdings() for _ in stores]
        nodes = [RingNode(store, held, node_timeout_s=1.5) for store, held in zip(stores, holdings, strict=True)]
        for store, node in zip(stores, nodes, strict=True):
            await store.open()
            node.start()
            await node.ready(PATIENCE_S)
        asked = await stores[0].time()
        assert await nodes[0].horizon(PATIENCE_S) >= asked
        holdings[1].set(stores[1], asked)
        assert await nodes[2].horizon(PATIENCE_S) <= asked
        holdings[1].set(stores[1], None)
        assert await nodes[0].horizon(PATIENCE_S) > asked
        assert nodes[0].stats()["member"]
        for store, node in zip(stores, nodes, strict=True):
            await node.stop()
            await store.close()

    with servers(kind, tmp_path) as another:
        asyncio.run(asyncio.wait_for(story(another), PATIENCE_S))


def test_a_store_out_of_reach() -> None:
    """A store that is away for a while ends the node's part in the ring for good."""

    async def story() -> None:
        clock = Clock()
        store = await memory(clock)
        node = RingNode(store, Holdings(), node_timeout_s=0.06)
        await store.close()
        node.start()
        with pytest.raises(StoreUnreachable, match="join the ring"):
            await node.ready(0.05)
        while not node.unreachable:
            await asyncio.sleep(0.001)
        await store.open()
        await node.ready(PATIENCE_S)
        assert await node.horizon(PATIENCE_S) == clock.now
        await store.close()
        await node.stop()

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))
