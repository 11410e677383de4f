"""The ring, step by step: a silent node holds the horizon back for its time-out, it moves on, and what it costs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.errors import BadStore, InvalidOption, StoreFull, StoreUnreachable
from antiphon.store.holdings import Holdings
from antiphon.store.horizon import HORIZON, TOKEN, horizon, keep_horizon, read_horizon, read_token
from antiphon.store.memory import MemoryBackend
from antiphon.store.presence import PRESENCES, Presence
from antiphon.store.records import SECOND, Moment, Record
from antiphon.store.ring import RingNode
from antiphon.store.token import Token

TIMEOUT_S = 30.0
TIMEOUT = round(TIMEOUT_S * SECOND)
PATIENCE_S = 60.0


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


def one_cut(patch: pytest.MonkeyPatch) -> None:
    """The round is over when everybody has been asked once."""

    def moved_on(token: Token) -> Token:
        return token if token.waiting or not token.cut else msgspec.structs.replace(token, cut=0)

    patch.setattr(Token, "_moved_on", moved_on)


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


def marks_again(patch: pytest.MonkeyPatch) -> None:
    """A visit that is repeated because its answer was lost begins to remember anew."""
    played = RingNode._played

    def forgetful(node: RingNode, *arguments: Any) -> Token:
        node._marked = 0
        return played(node, *arguments)

    patch.setattr(RingNode, "_played", forgetful)


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
        assert (await horizon(store)).moment == clock.now
        (ana,), _ = await ring_of(store, 1)
        await ana.leave()
        clock.wait(50)
        assert (await horizon(store)).moment == clock.now
        assert await store.records(PRESENCES) == []

    asyncio.run(story())


def test_alone() -> None:
    """The only node of a store waits for others before it may collect."""

    async def story() -> None:
        clock = Clock()
        store = await memory(clock)
        (ana,), (anas,) = await ring_of(store, 1)
        clock.wait(1)
        assert (await ana.horizon(0)).moment == clock.now
        anas.set(clock, clock.now - 500)
        clock.wait(1)
        assert (await ana.horizon(0)).moment == clock.now - SECOND - 500
        anas.set(clock, None)
        assert (await ana.horizon(0)).moment == clock.now

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
            assert (await horizon(store)).moment <= held, "nor for somebody who is not in the ring"
        clock.now = beat + TIMEOUT
        await ana.turn()
        assert (await read_horizon(store)).moment <= held, "to the nanosecond"
        clock.now += 1
        assert (await ana.horizon(0)).moment == clock.now
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
        assert (await ana.horizon(0)).moment == clock.now
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
        assert (await horizon(store)).moment == clock.now

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
        assert (await ana.horizon(0)).moment == clock.now, "removed, they are made anew"

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
        # A node that is slow tells the time at which its turn began, which may be before this was asked; the next round passes it.
        while (await nodes[0].horizon(PATIENCE_S)).moment < asked:
            pass
        holdings[1].set(stores[1], asked)
        assert (await nodes[2].horizon(PATIENCE_S)).moment <= asked
        holdings[1].set(stores[1], None)
        while (await nodes[0].horizon(PATIENCE_S)).moment <= asked:
            pass
        assert nodes[0].stats()["member"]
        for store, node in zip(stores, nodes, strict=True):
            await node.stop()
            await store.close()

    with servers(kind, tmp_path) as another:
        asyncio.run(asyncio.wait_for(story(another), PATIENCE_S))


def test_why_it_cannot_join_is_told() -> None:
    """Whoever subscribes on a disk that is full would look for the fault in the network."""

    async def story() -> None:
        store = await memory(Clock())

        async def no_room(*arguments: Any) -> Any:
            raise StoreFull(store.url, "the disk has no room")

        store.put = no_room  # type: ignore[method-assign]
        node = RingNode(store, Holdings())
        node.start()
        try:
            with pytest.raises(StoreUnreachable, match="the disk has no room"):
                await node.ready(0.2)
        finally:
            await node.stop()

    asyncio.run(story())


def test_a_store_that_is_damaged_is_not_waited_for() -> None:
    """Whoever subscribes would wait half a minute, and then be told to try again what can never be."""

    async def story() -> None:
        store = await memory(Clock())
        nonsense = await store.put(TOKEN, b"\xff", 0)
        node = RingNode(store, Holdings(), node_timeout_s=0.06)
        node.start()
        try:
            with pytest.raises(BadStore, match="is no token of the ring"):
                await node.ready(PATIENCE_S)
            await store.remove(TOKEN, nonsense.revision)
            while not node.is_member:
                await asyncio.sleep(0.001)
            await node.ready(PATIENCE_S)
        finally:
            await node.stop()

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


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
        assert (await node.horizon(PATIENCE_S)).moment == clock.now
        await store.close()
        await node.stop()

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))
