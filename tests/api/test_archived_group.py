"""Groups on a network whose history is in the store: what is read there and what comes from the network make one story."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import antiphon.sync
from antiphon.api import Group, MessageBatch, Node, ViewChange
from antiphon.api.archived_group import ArchivedGroup
from antiphon.errors import StoreUnreachable
from antiphon.model.events import MissedMessages
from antiphon.model.frames import Batch
from antiphon.model.ids import GroupId, MemberId, MessageId
from antiphon.model.options import Settings
from antiphon.sim.world import World
from antiphon.store.groups import values
from antiphon.store.groups.archive import Archive
from antiphon.store.groups.past import Past
from antiphon.store.groups.values import Lost, Marker
from antiphon.store.memory import MemoryBackend
from antiphon.store.records import Entry
from antiphon.store.settings import StoreSettings
from antiphon.store.store import Store

_PATIENCE = StoreSettings(collect_s=0)


class Way:
    """A way to the store that can be cut."""

    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend
        self.cut = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._backend, name)
        if name in ("open", "close") or not asyncio.iscoroutinefunction(found):
            return found

        async def call(*arguments: Any, **more: Any) -> Any:
            self._check()
            answer = await found(*arguments, **more)
            self._check()
            return answer

        return call

    def _check(self) -> None:
        if self.cut:
            raise StoreUnreachable(self._backend.url, "the way is cut")


class Scene:
    """Nodes in virtual time that have one store in common."""

    def __init__(self, world: World, stack: AsyncExitStack, shelf: str) -> None:
        self.world, self._stack, self._shelf = world, stack, shelf
        self.way_by_name: dict[str, Way] = {}
        self.read_by_name: dict[str, list[Any]] = {}
        self.group_by_name: dict[str, ArchivedGroup] = {}

    async def node(self, name: str) -> Node:
        way = self.way_by_name[name] = Way(MemoryBackend(self._shelf, now=lambda: round(self.world.now * 1e9)))
        store = await self._stack.enter_async_context(Store(way, name=name, settings=_PATIENCE))
        node = self.world.node(name)
        node._store = store
        return await self._stack.enter_async_context(node)

    async def create(self, name: str, **options: Any) -> ArchivedGroup:
        node = await self.node(name)
        return self._begin(name, await node.create("trip", history_in="store", **options))

    async def join(self, name: str, **more: Any) -> ArchivedGroup:
        node = await self.node(name)
        info = await asyncio.wait_for(anext(node.discovered()), 30)
        return self._begin(name, await node.join(info.id, **more))

    def _begin(self, name: str, group: Group) -> ArchivedGroup:
        assert isinstance(group, ArchivedGroup)
        self.group_by_name[name] = group
        self.read_by_name[name] = []
        reading = asyncio.create_task(self._read(name, group))
        self._stack.callback(reading.cancel)
        return group

    async def _read(self, name: str, group: Group) -> None:
        async for event in group.events():
            if isinstance(event, ViewChange | MissedMessages):
                self.read_by_name[name].append(event)
            elif isinstance(event, MessageBatch):
                self.read_by_name[name] += [message.data for message in event if not message.private]

    def said(self, name: str) -> list[bytes]:
        """The messages that this one has read."""
        return [entry for entry in self.read_by_name[name] if isinstance(entry, bytes)]

    async def talk(self, name: str, count: int, pause_s: float = 0.01) -> list[bytes]:
        sent = [f"{name} {number}".encode() for number in range(count)]
        for text in sent:
            await self.group_by_name[name].send(text)
            await asyncio.sleep(pause_s)
        return sent

    async def until(self, condition: Callable[[], Any], seconds: float = 300.0) -> None:
        limit = self.world.now + seconds
        while not condition():
            assert self.world.now < limit, {name: (len(self.said(name)), group.stats()) for name, group in self.group_by_name.items()}
            await asyncio.sleep(0.05)

    async def archive(self) -> list[bytes]:
        """What a reader of the archive reads."""
        group = next(iter(self.group_by_name.values()))
        backend = MemoryBackend(self._shelf)
        await backend.open()
        past = Past(backend, group.id).until(None, 1.0)
        return [one.payload(number) async for one, low, high in past for number in range(low, high + 1)]


@pytest.fixture
def scene(quick: Settings, request: pytest.FixtureRequest) -> Callable[..., None]:
    def run(story: Callable[[Scene], Coroutine[Any, Any, None]], seed: int = 7) -> None:
        world = World(seed=seed, settings=quick)

        @asynccontextmanager
        async def opened() -> AsyncIterator[Scene]:
            async with AsyncExitStack() as stack:
                yield Scene(world, stack, f"memory:{request.node.nodeid}/{seed}")

        async def whole() -> None:
            async with opened() as place:
                await story(place)

        world.run(whole(), limit_s=2_000)

    return run


@pytest.mark.parametrize("order", ["total", "fifo", "causal", "semantic"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_newcomer_under_load_has_everything_once_and_in_order(scene: Any, order: str, seed: int) -> None:
    """Somebody who joins a busy group would miss what was said while it came, or hear it twice."""

    async def story(place: Scene) -> None:
        await place.create("ana", order=order)
        await place.join("ben")
        talking = [asyncio.create_task(place.talk(name, 60)) for name in ("ana", "ben")]
        await asyncio.sleep(0.25)
        await place.join("cleo")
        await asyncio.sleep(0.1)
        await place.join("dan")
        sent = [text for task in talking for text in await task]
        sent += await place.talk("dan", 3)
        await place.until(lambda: all(len(place.said(name)) >= len(sent) for name in place.read_by_name))
        for name in place.read_by_name:
            said = place.said(name)
            assert sorted(said) == sorted(sent), name
            for sender in ("ana", "ben", "dan"):
                own = [text for text in sent if text.startswith(sender.encode())]
                assert [text for text in said if text.startswith(sender.encode())] == own, f"{name} has {sender}'s in order"
            if order == "total":
                assert said == place.said("ana"), "one total order, wherever it came from"
        await place.until(lambda: not place.group_by_name["ana"].stats()["archive_waiting"])
        assert sorted(await place.archive()) == sorted(sent)

    scene(story, seed)


@pytest.mark.parametrize("seed", range(4))
def test_when_the_one_that_archives_dies_the_next_goes_on(scene: Any, seed: int) -> None:
    """A crash would leave a hole in the history, or write a part of it twice."""

    async def story(place: Scene) -> None:
        for name in ("ana", "ben", "cleo"):
            await (place.create(name, order="total") if name == "ana" else place.join(name))
        talking = [asyncio.create_task(place.talk(name, 80)) for name in ("ben", "cleo")]
        rng = random.Random(seed)
        place.way_by_name["ana"].cut = seed % 2 == 1  # it may be behind with archiving when it dies
        await asyncio.sleep(rng.uniform(0.1, 0.6))
        place.world.crash("ana")
        sent = [text for task in talking for text in await task]
        await place.until(lambda: all(set(sent) <= set(place.said(name)) for name in ("ben", "cleo")))
        await place.join("dan")
        await place.until(lambda: len(place.said("dan")) == len(place.said("ben")))
        assert place.said("dan") == place.said("ben") == place.said("cleo")
        await place.until(lambda: not place.group_by_name["ben"].stats()["archive_waiting"])
        assert await place.archive() == place.said("ben")

    scene(story, seed)


@pytest.mark.parametrize("seed", range(4))
def test_two_sides_archive_and_the_merged_group_has_both(scene: Any, seed: int) -> None:
    """After a partition the history would have one side's messages alone, or those of both twice."""

    async def story(place: Scene) -> None:
        names = ("ana", "ben", "cleo", "dan")
        for name in names:
            await (place.create(name, order="fifo") if name == "ana" else place.join(name))
        await place.talk("ana", 5)
        place.world.partition([["ana", "ben"], ["cleo", "dan"]])
        sent = [text for part in await asyncio.gather(place.talk("ben", 150, 0.05), place.talk("dan", 150, 0.05)) for text in part]
        await place.until(lambda: len(place.group_by_name["dan"].view.members) == 2)
        place.world.heal()
        await place.until(lambda: all(len(group.view.members) == 4 for group in place.group_by_name.values()))
        await place.join("eva")
        sent += await place.talk("cleo", 5)
        everything = sorted([*sent, *(f"ana {number}".encode() for number in range(5))])
        await place.until(lambda: all(len(place.said(name)) >= len(everything) for name in place.read_by_name))
        for name in place.read_by_name:
            assert sorted(place.said(name)) == everything, name
        await place.until(lambda: not place.group_by_name["ana"].stats()["archive_waiting"])
        await asyncio.sleep(20)
        assert sorted(await place.archive()) == everything

    scene(story, seed)


def test_what_is_in_the_archive_and_on_the_network_is_delivered_once(scene: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the marker of a view is late, what was said in the view meanwhile would be delivered from the archive and from the network."""
    note_marker = ArchivedGroup._note_marker

    def later(group: ArchivedGroup) -> None:
        asyncio.get_running_loop().call_later(0.5, note_marker, group)

    monkeypatch.setattr(ArchivedGroup, "_note_marker", later)

    async def story(place: Scene) -> None:
        await place.create("ana", order="total")
        await place.join("ben")
        talking = asyncio.create_task(place.talk("ana", 150))
        await asyncio.sleep(0.2)
        await place.join("cleo")
        sent = await talking
        await place.until(lambda: len(place.said("cleo")) >= len(sent))
        assert place.said("cleo") == sent

    scene(story)


def test_what_the_archive_had_of_another_side_is_not_recovered_again(scene: Any) -> None:
    """Who joins one side of a partition, and has read there what the other said, would hear it again after the merge."""

    async def story(place: Scene) -> None:
        for name in ("ana", "ben"):
            await (place.create(name, order="fifo") if name == "ana" else place.join(name))
        cleo = await place.node("cleo")
        place.world.partition([["ana", "cleo"], ["ben"]])
        await place.until(lambda: all(len(group.view.members) == 1 for group in place.group_by_name.values()))
        sent = [*await place.talk("ben", 20), *await place.talk("ana", 20)]
        place._begin("cleo", await cleo.join(place.group_by_name["ana"].id))
        await place.until(lambda: sorted(place.said("cleo")) == sorted(sent))
        place.world.heal()
        await place.until(lambda: all(len(group.view.members) == 3 for group in place.group_by_name.values()))
        sent += await place.talk("cleo", 3)
        for name in place.read_by_name:
            await place.until(lambda: all(len(place.said(one)) >= len(sent) for one in place.read_by_name))
            assert sorted(place.said(name)) == sorted(sent), name

    scene(story)


def test_an_archive_catches_up_when_the_store_is_back(scene: Any) -> None:
    """What was said while the store was away would be in nobody's history."""

    async def story(place: Scene) -> None:
        await place.create("ana", order="total")
        await place.join("ben")
        for way in place.way_by_name.values():
            way.cut = True
        sent = [*await place.talk("ana", 40), *await place.talk("ben", 40)]
        await place.until(lambda: len(place.said("ana")) == 80)
        assert place.group_by_name["ana"].stats()["archived"] == 0
        for way in place.way_by_name.values():
            way.cut = False
        await place.join("cleo")
        await place.until(lambda: len(place.said("cleo")) == 80)
        assert place.said("cleo") == place.said("ana") == sent
        assert await place.archive() == sent

    scene(story)


def test_another_archives_while_the_store_is_out_of_reach_for_the_first(scene: Any) -> None:
    """One member with a broken way to the store would leave everybody without a history."""

    async def story(place: Scene) -> None:
        await place.create("ana", order="total")
        await place.join("ben")
        place.way_by_name["ana"].cut = True
        sent = await place.talk("ana", 20)
        await place.until(lambda: place.group_by_name["ben"].stats()["archived"] == 20)
        await place.join("cleo")
        await place.until(lambda: place.said("cleo") == sent)
        place.way_by_name["ana"].cut = False
        sent += await place.talk("ben", 5)
        await place.until(lambda: not place.group_by_name["ana"].stats()["archive_waiting"])
        assert await place.archive() == sent, "what two have written is read once"

    scene(story)


@pytest.mark.parametrize(
    ("history", "expected"),
    [("none", slice(10, None)), (("last", 3), slice(7, None)), ("all", slice(0, None)), (("last", 99), slice(0, None))],
)
def test_how_much_of_the_past(scene: Any, history: Any, expected: slice) -> None:
    """A newcomer that wants the last three messages would get all of them, or none."""

    async def story(place: Scene) -> None:
        await place.create("ana", order="total")
        sent = await place.talk("ana", 10)
        await place.join("ben", history=history)
        sent += [b"now"]
        await place.group_by_name["ana"].send(b"now")
        await place.until(lambda: b"now" in place.said("ben"))
        assert place.said("ben") == sent[expected]

    scene(story)


def test_what_memory_has_forgotten_can_be_read(scene: Any, quick: Settings) -> None:
    """History in the store would be as short as history in memory."""
    async def story(place: Scene) -> None:
        place.world.settings = structs.replace(quick, history_messages=10)
        await place.create("ana", order="total")
        sent = await place.talk("ana", 100)
        await place.until(lambda: len(place.said("ana")) == 100)
        assert len(place.group_by_name["ana"].history()) <= 10
        late = await place.join("ben")
        await place.until(lambda: place.said("ben") == sent)
        assert not any(isinstance(entry, MissedMessages) for entry in place.read_by_name["ben"])
        assert [message.data async for message in late.archived()] == sent

    scene(story)


def test_what_another_side_has_forgotten_comes_from_the_store(scene: Any, quick: Settings) -> None:
    """After a long partition half of what the other side said would be lost, although the store has it."""

    async def story(place: Scene) -> None:
        place.world.settings = structs.replace(quick, history_messages=60)
        for name in ("ana", "ben"):
            await (place.create(name, order="fifo") if name == "ana" else place.join(name))
        place.world.partition([["ana"], ["ben"]])
        parts = await asyncio.gather(place.talk("ana", 150, 0.05), place.talk("ben", 150, 0.05))
        await place.until(lambda: not any(group.stats()["archive_waiting"] for group in place.group_by_name.values()))
        place.world.heal()
        await place.until(lambda: all(len(group.view.members) == 2 for group in place.group_by_name.values()))
        await place.group_by_name["ana"].send(b"together")
        await place.until(lambda: all(b"together" in place.said(name) for name in ("ana", "ben")))
        for name, other in (("ana", parts[1]), ("ben", parts[0])):
            said = place.said(name)
            assert sorted(said) == sorted([*parts[0], *parts[1], b"together"]), "all of it, each once"
            assert [text for text in said if text in other] == other, "in its order"
            assert said[-1] == b"together", "before what was said afterwards"
            assert not any(isinstance(entry, MissedMessages) for entry in place.read_by_name[name])

    scene(story)


def test_a_history_that_does_not_come_is_an_explicit_gap(scene: Any) -> None:
    """A newcomer whose store is out of reach would wait for ever, or go on as if nothing had been said."""

    async def story(place: Scene) -> None:
        await place.create("ana", order="total")
        await place.talk("ana", 5)
        ben = await place.node("ben")
        place.way_by_name["ben"].cut = True
        info = await asyncio.wait_for(anext(ben.discovered()), 30)
        place._begin("ben", await ben.join(info.id))
        await place.group_by_name["ana"].send(b"now")
        await place.until(lambda: b"now" in place.said("ben"))
        gap = [type(entry) for entry in place.read_by_name["ben"]].index(MissedMessages)
        assert place.read_by_name["ben"].index(b"now") > gap
        assert place.said("ben") == [b"now"]

    scene(story)


# --- the archive alone --------------------------------------------------------------------------------------------------------------

GROUP = GroupId("trip#0000000000000001")
ANA, BEN = MemberId("ana#0000000000000001"), MemberId("ben#0000000000000002")


def batch(sender: MemberId, first: int, *payloads: bytes) -> Batch:
    return Batch(GROUP, sender, 1, first, payloads)


def alone(story: Callable[[MemoryBackend], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        backend = MemoryBackend()
        await backend.open()
        await asyncio.wait_for(story(backend), 60)

    asyncio.run(whole())


async def read(backend: Any) -> tuple[list[bytes], dict[Any, list[int]]]:
    past = Past(backend, GROUP)
    found = [one.payload(number) async for one, low, high in past.until(None, 1.0) for number in range(low, high + 1)]
    return found, dict(past.lost)


def test_parts_of_batches_keep_what_they_answer() -> None:
    """A message that was archived without the first half of its batch would have lost what it answers."""
    whole = Batch.compose(
        GROUP, ANA, 3, 5, [b"a", b"b", b"c"], [None, MessageId(BEN, 7), MessageId(ANA, 5)], None, 2.5, {7: [MessageId(BEN, 1)]}
    )
    part = values.decode(values.encode(values.part_of(whole, 6, 7)))
    assert isinstance(part, Batch)
    assert (part.first, part.payloads, part.view, part.sent_at) == (6, (b"b", b"c"), 3, 2.5)
    assert (part.reply_to(6), part.follows(7)) == (MessageId(BEN, 7), (MessageId(ANA, 5), MessageId(BEN, 1)))
    assert values.part_of(whole, 1, 99) is whole
    assert [piece.payloads for piece in values.pieces(whole, 7)] == [(b"a",), (b"b",), (b"c",)]


def test_two_that_archive_the_same_are_read_as_one() -> None:
    """Two sides of a partition, or one that was taken for dead, would fill the history with repeats."""

    async def story(backend: MemoryBackend) -> None:
        archives = [Archive(backend, GROUP, member) for member in (ANA, BEN)]
        for archive in archives:
            archive.stand(0)
            archive.note((batch(ANA, 1, b"1", b"2", b"3"), 1, 3))
            archive.note((batch(BEN, 1, b"x"), 1, 1))
            archive.mark(1)
        tasks = [asyncio.create_task(archive.run()) for archive in archives]
        await asyncio.gather(*(archive.flushed() for archive in archives))
        archives[0].note((batch(ANA, 2, b"2", b"3", b"4"), 2, 4))
        await archives[0].flushed()
        assert await read(backend) == ([b"1", b"2", b"3", b"x", b"4"], {})
        for task in tasks:
            task.cancel()

    alone(story)


def test_whoever_archives_next_writes_only_what_is_missing() -> None:
    """Each new member at the head of the view would write the whole history again."""

    async def story(backend: MemoryBackend) -> None:
        first, second = Archive(backend, GROUP, ANA), Archive(backend, GROUP, BEN)
        for archive in (first, second):
            for number in range(1, 11):
                archive.note((batch(ANA, number, b"%d" % number), number, number))
        first.stand(0)
        task = asyncio.create_task(first.run())
        await first.flushed()
        task.cancel()  # it died: nobody knows from its progress record how far it was
        second.note((batch(ANA, 11, b"11"), 11, 11))
        second.stand(0)
        task = asyncio.create_task(second.run())
        await second.flushed()
        assert (await backend.info(f"history/{GROUP}")).last == 11
        assert second.archived == 1
        task.cancel()

    alone(story)


def test_beyond_its_bounds_the_archive_says_what_is_lost() -> None:
    """A store that is away for a day would fill the memory of every member, or leave a hole that nobody knows of."""

    async def story(backend: MemoryBackend) -> None:
        archive = Archive(backend, GROUP, ANA, messages=3)
        for number in range(1, 7):
            archive.note((batch(ANA, number, b"%d" % number), number, number))
        assert (archive.messages, archive.dropped) == (3, 3)
        archive.note((batch(ANA, 7, bytes(backend.value_bytes)), 7, 7))
        archive.stand(0)
        task = asyncio.create_task(archive.run())
        await archive.flushed()
        found, lost = await read(backend)
        assert found == [b"5", b"6"]
        assert lost == {ANA: [1, 1, 2, 2, 3, 3, 4, 4, 7, 7]}, "also what is too large for the store"
        task.cancel()

    alone(story)


def test_values_that_are_none_of_an_archive_are_passed_over() -> None:
    """Anybody who can write to the store could make a history unreadable."""

    async def story(backend: MemoryBackend) -> None:
        archive = Archive(backend, GROUP, ANA)
        archive.note((batch(ANA, 1, b"1"), 1, 1))
        archive.stand(0)
        task = asyncio.create_task(archive.run())
        await archive.flushed()
        grant = await backend.register(f"history/{GROUP}", "somebody")
        rubbish = [b"", b"nonsense", values.encode(Lost({BEN: [3]})), values.encode(Marker(9)), values.encode(values.Placed(1, (ANA,)))]
        await backend.publish(grant, 1, [Entry(data) for data in rubbish])
        archive.note((batch(ANA, 2, b"2"), 2, 2))
        await archive.flushed()
        assert (await read(backend))[0] == [b"1", b"2"]
        task.cancel()

    alone(story)


def test_without_async(tmp_path: Path) -> None:
    """Programs with threads could not read what was said before they came."""
    with antiphon.sync.Node("ana", transport="memory", store=f"memory:{tmp_path}") as ana:
        trip = ana.create("trip", history_in="store")
        assert isinstance(trip, antiphon.sync.ArchivedGroup)
        trip.send_many([b"%d" % number for number in range(1_500)])
        assert trip.flush_archive(timeout=60.0)
        assert [message.data for message in trip.archived()] == [b"%d" % number for number in range(1_500)]
