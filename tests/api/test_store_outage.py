"""Members of a group on a store that lose the store: they are told, their view is marked, and nothing that was accepted is lost."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest

import antiphon
import antiphon.sync
from antiphon.api import Group, Message, MessageBatch, ViewChange
from antiphon.errors import StoreUnreachable, TimedOut
from antiphon.model.ids import name_of
from antiphon.store.memory import MemoryBackend
from antiphon.store.settings import StoreSettings
from antiphon.store.store import Store

WAIT_S = 60.0
PATIENCE = {"retry_s": 0.01, "retry_max_s": 0.05, "outbox_s": 0.1, "timeout_s": 20.0, "lost_s": 0.2}


class Line:
    """A backend that can be cut off: calls fail, and waiting calls notice it."""

    def __init__(self, backend: Any) -> None:
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
            return _Reader(self, answer) if name == "reader" else answer

        return call

    def _check(self) -> None:
        if self.cut:
            raise StoreUnreachable(self._backend.url, "the line is cut")


class _Reader:
    def __init__(self, line: Line, reader: Any) -> None:
        self._line, self._reader = line, reader

    async def take(self, limit: int, timeout_s: float) -> Any:
        self._line._check()
        chunk = await self._reader.take(limit, min(timeout_s, 0.05))
        self._line._check()
        return chunk

    async def close(self) -> None:
        await self._reader.close()


class Site:
    """Nodes on one store in memory, each with a line of its own."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self._folder, self._stack = folder, stack
        self.line_by_name: dict[str, Line] = {}

    async def node(self, name: str, *, outbox: bool = False, **settings: Any) -> antiphon.Node:
        line = self.line_by_name[name] = Line(MemoryBackend(f"memory:{self._folder}"))
        file = self._folder / f"{name}.outbox" if outbox else None
        chosen = StoreSettings(**{**PATIENCE, **settings})
        store = await self._stack.enter_async_context(Store(line, name=name, outbox=file, settings=chosen))
        return await self._stack.enter_async_context(antiphon.Node(name, transport="memory", store=store))


@pytest.fixture
def site(tmp_path: Path) -> Callable[[Callable[[Site], Awaitable[None]]], None]:
    def run(story: Callable[[Site], Awaitable[None]]) -> None:
        async def whole() -> None:
            async with AsyncExitStack() as stack:
                await asyncio.wait_for(story(Site(tmp_path, stack)), WAIT_S)

        asyncio.run(whole())

    return run


class Witness:
    """Reads all events of a group, in their order."""

    def __init__(self, group: Group) -> None:
        self.told: list[Any] = []
        self._task = asyncio.create_task(self._read(group))

    async def _read(self, group: Group) -> None:
        async for event in group.events():
            self.told.append(event)

    def kinds(self) -> list[type]:
        return [type(event) for event in self.told if isinstance(event, antiphon.StoreLost | antiphon.StoreRestored)]

    def messages(self) -> list[Message]:
        return [message for batch in self.told if isinstance(batch, MessageBatch) for message in batch if isinstance(message, Message)]


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.01)


def people(group: Group) -> list[str]:
    return [name_of(member) for member in group.view.members]


def test_a_member_that_loses_the_store_is_told(site: Any, caplog: pytest.LogCaptureFixture) -> None:
    """It would show a view in which others are that have long been gone, and nobody would know that nothing is received."""
    caplog.set_level("INFO", "antiphon.store")

    async def story(place: Site) -> None:
        ana, ben = await place.node("ana"), await place.node("ben")
        here = await ana.create("root", on="store", silence_s=1.0)
        there = await ben.join("root", on="store")
        witness, other = Witness(here), Witness(there)
        await until(lambda: people(here) == ["ana", "ben"])
        assert (here.view_is_stale, here.stats()["view_stale"], "stale" in repr(here)) == (False, 0, False)
        place.line_by_name["ana"].cut = True
        await until(lambda: witness.kinds() == [antiphon.StoreLost])
        assert next(event for event in witness.told if type(event) is antiphon.StoreLost).why == "the line is cut"
        assert here.view_is_stale
        assert people(here) == ["ana", "ben"], "the last view that is known"
        assert "stale: the store does not answer" in repr(here)
        assert (here.stats()["view_stale"], here.stats()["store_losses"]) == (1, 1)
        await until(lambda: people(there) == ["ben"])
        await there.send(b"meanwhile")
        place.line_by_name["ana"].cut = False
        await until(lambda: antiphon.StoreRestored in witness.kinds() and people(there) == ["ben", "ana"] == people(here))
        assert (here.view_is_stale, here.stats()["view_stale"]) == (False, 0)
        assert witness.kinds() == [antiphon.StoreLost, antiphon.StoreRestored]
        restored = next(event for event in witness.told if type(event) is antiphon.StoreRestored)
        assert restored.away_s > 0
        await until(lambda: [message.data for message in witness.messages()] == [b"meanwhile"])
        assert other.kinds() == []
        assert not there.view_is_stale

    site(story)
    logged = [record.getMessage() for record in caplog.records]
    assert any("group root: the store" in line and "does not answer: the line is cut" in line for line in logged)
    assert any("group root: the store" in line and "answers again" in line for line in logged)


def test_a_single_lost_answer_is_no_outage(site: Any) -> None:
    """A store that is busy now and then would make members cry wolf."""

    async def story(place: Site) -> None:
        here = await (await place.node("ana", lost_s=5.0)).create("root", on="store", silence_s=0.5)
        witness = Witness(here)
        for _ in range(5):
            place.line_by_name["ana"].cut = True
            before = int(str(here.stats()["store_unreachable"]))
            await until(lambda before=before: int(str(here.stats()["store_unreachable"])) > before)
            place.line_by_name["ana"].cut = False
            await here.send(b"there")
            await until(witness.messages)
        assert witness.kinds() == []
        assert here.stats()["store_losses"] == 0

    site(story)


def test_sends_during_an_outage_are_answered_within_their_time(site: Any) -> None:
    """A sender would hang for ever, or take a message for sent that nobody has; or what waits would grow without a bound."""

    async def story(place: Site) -> None:
        ana = await place.node("ana", queue_values=3)
        here = await ana.create("root", on="store")
        witness = Witness(here)
        place.line_by_name["ana"].cut = True
        await until(lambda: here.view_is_stale)
        with pytest.raises(StoreUnreachable, match="the line is cut"):
            await here.send(b"no answer", timeout=0.2)
        waiting = [asyncio.create_task(here.send(b"%d" % number)) for number in range(3)]
        await until(lambda: ana.stats()["store"]["publishing"] == 3)  # type: ignore[index]
        with pytest.raises((StoreUnreachable, TimedOut)):
            await here.send(b"no room", timeout=0.2)
        assert not any(task.done() for task in waiting)
        place.line_by_name["ana"].cut = False
        await asyncio.gather(*waiting)
        await here.send(b"end")
        await until(lambda: [message.data for message in witness.messages()] == [b"0", b"1", b"2", b"end"])

    site(story)


def test_a_message_belongs_to_the_view_it_was_sent_in(site: Any) -> None:
    """Whoever looks up the sender in the current view would not find it, or a message would name a view without its sender."""

    async def story(place: Site) -> None:
        ana, ben = await place.node("ana", outbox=True), await place.node("ben")
        here = await ana.create("root", on="store", silence_s=1.0)
        there = await ben.join("root", on="store")
        witness, own = Witness(there), Witness(here)
        await until(lambda: people(here) == ["ana", "ben"])
        common = here.view
        place.line_by_name["ana"].cut = True
        await here.send(b"into the outbox")
        await until(lambda: people(there) == ["ben"])
        without = there.view
        place.line_by_name["ana"].cut = False
        await until(lambda: len(witness.messages()) == 1 and people(there) == ["ben", "ana"] == people(here))
        message = witness.messages()[0]
        assert (message.view, message.sender in common.members) == (common.id, True)
        installed = [event.view for event in witness.told if isinstance(event, ViewChange)]
        assert without in installed
        # Between being put out and coming in again this member knows a view without itself.
        changes = [event.view for event in own.told if isinstance(event, ViewChange)]
        assert without in changes
        here.take(_installed(without, here.view))
        await here.send(b"while put out")
        await until(lambda: len(witness.messages()) == 2)
        assert witness.messages()[1].view == there.view.id != without.id

    site(story)


def _installed(view: antiphon.View, previous: antiphon.View) -> Any:
    from antiphon.model.events import Installed

    return Installed(view, previous)


def test_events_that_nobody_reads_are_bounded(site: Any) -> None:
    """A program that reads no events would fill its memory with them while the store comes and goes."""

    async def story(place: Site) -> None:
        from antiphon.model.events import StoreLost, StoreRestored

        here = await (await place.node("ana")).create("root", on="store")
        for _ in range(500):
            here.take(StoreLost("flapping"))
            here.take(StoreRestored(1.0))
        assert len(here._inbox) < 80
        place.line_by_name["ana"].cut = True
        await until(lambda: here.view_is_stale)
        witness = Witness(here)
        await until(lambda: len(here._inbox) == 0)
        assert witness.kinds()[-1] is antiphon.StoreLost, "what holds is told at last"
        assert witness.told[-1].why == "the line is cut"
        place.line_by_name["ana"].cut = False

    site(story)


def test_a_file_that_is_locked_is_an_outage(tmp_path: Path) -> None:
    """A member that cannot write its beats would be put out by the others without knowing why."""

    async def story() -> None:
        url = f"sqlite:{tmp_path / 'field.db'}?busy_s=0.1"
        settings = StoreSettings(**PATIENCE)
        async with (
            antiphon.open_store(url, name="ana", settings=settings) as store,
            antiphon.Node("ana", transport="memory", store=store) as node,
        ):
            group = await node.create("root", on="store", silence_s=1.0)
            witness = Witness(group)
            with closing(sqlite3.connect(tmp_path / "field.db", timeout=WAIT_S, isolation_level=None)) as file:
                file.execute("BEGIN IMMEDIATE")
                await until(lambda: witness.kinds() == [antiphon.StoreLost])
                assert group.view_is_stale
                with pytest.raises(StoreUnreachable):
                    await group.send(b"locked", timeout=0.3)
                file.execute("ROLLBACK")
            await until(lambda: witness.kinds() == [antiphon.StoreLost, antiphon.StoreRestored])
            assert not group.view_is_stale
            await group.send(b"after")
            await until(lambda: witness.messages() and witness.messages()[-1].data == b"after")

    asyncio.run(asyncio.wait_for(story(), WAIT_S))


@pytest.mark.parametrize("outbox", [False, True])
def test_a_send_that_is_not_answered_reveals_the_outage(tmp_path: Path, outbox: bool) -> None:
    """Reading still works and the next beat is ten seconds away: until then the sender would not be told why its messages do not arrive."""

    async def story() -> None:
        url = f"sqlite:{tmp_path / 'field.db'}?busy_s=0.1"
        settings = StoreSettings(**PATIENCE)
        box = tmp_path / "outbox.db" if outbox else None
        async with (
            antiphon.open_store(url, name="ana", settings=settings, outbox=box) as store,
            antiphon.Node("ana", transport="memory", store=store) as node,
        ):
            group = await node.create("root", on="store", silence_s=3600.0)
            witness = Witness(group)
            await group.send(b"before")
            await until(lambda: bool(witness.messages()))
            with closing(sqlite3.connect(tmp_path / "field.db", timeout=WAIT_S, isolation_level=None)) as file:
                file.execute("BEGIN IMMEDIATE")
                if outbox:
                    await group.send(b"locked")
                else:
                    with pytest.raises(StoreUnreachable):
                        await group.send(b"locked", timeout=0.3)
                await until(lambda: witness.kinds() == [antiphon.StoreLost])
                assert group.view_is_stale
                file.execute("ROLLBACK")
            await until(lambda: witness.kinds() == [antiphon.StoreLost, antiphon.StoreRestored])
            await group.send(b"after")
            await until(lambda: witness.messages()[-1].data == b"after")

    asyncio.run(asyncio.wait_for(story(), WAIT_S))


def test_without_async(tmp_path: Path) -> None:
    """Programs with threads would not be told."""
    url = f"sqlite:{tmp_path / 'field.db'}?busy_s=0.1"
    settings = StoreSettings(**PATIENCE)
    with (
        antiphon.sync.open_store(url, name="ana", settings=settings) as store,
        antiphon.sync.Node("ana", transport="memory", store=store) as node,
    ):
        group = node.create("root", on="store", silence_s=1.0)
        events = (event for event in group.events() if isinstance(event, antiphon.StoreLost | antiphon.StoreRestored))
        with closing(sqlite3.connect(tmp_path / "field.db", timeout=WAIT_S, isolation_level=None)) as file:
            file.execute("BEGIN IMMEDIATE")
            assert isinstance(next(events), antiphon.StoreLost)
            assert group.view_is_stale
            assert "stale" in repr(group)
            file.execute("ROLLBACK")
        assert isinstance(next(events), antiphon.StoreRestored)
        assert not group.view_is_stale
