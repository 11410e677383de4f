"""The outbox and its draining: what was acknowledged is on disk, leaves in order, and is in the store once, whatever happens in between."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from antiphon.errors import BadStore, StoreFull, StoreUnreachable, TimedOut, UsageError
from antiphon.store.draining import STRIDE, Draining
from antiphon.store.holdings import Holdings
from antiphon.store.memory import MemoryBackend
from antiphon.store.outbox import Outbox
from antiphon.store.outbox_file import OutboxFile
from antiphon.store.records import Entry, Grant, Receipt, TopicOptions

PATIENCE_S = 60.0


def values(*numbers: int) -> list[Entry]:
    return [Entry(b"%d" % number) for number in numbers]


async def opened_store() -> MemoryBackend:
    store = MemoryBackend("memory:")
    await store.open()
    return store


async def written(store: Any, topic: str = "crash") -> list[int]:
    """The numbers that are in the store, in order."""
    reader = await store.reader(topic, 0)
    found: list[int] = []
    while chunk := (await reader.take(1_000, 0)).values:
        found += [int(value.data) for value in chunk]
    await reader.close()
    return found


@asynccontextmanager
async def outbox_at(path: Path, **options: Any) -> AsyncIterator[Outbox]:
    outbox = Outbox(path, node="hotline", **options)
    await outbox.open()
    try:
        yield outbox
    finally:
        await outbox.close()


@asynccontextmanager
async def draining(outbox: Outbox, store: Any, **options: Any) -> AsyncIterator[Draining]:
    drain = Draining(outbox, store, retry_s=0.001, retry_limit_s=0.01, chance=Random(1), **options)
    drain.start()
    try:
        yield drain
    finally:
        await drain.stop()


class Killed(BaseException):
    """Stands for the end of the process."""


class Faulty:
    """A store in front of which a plan says, call by call, whether it is out of reach, and whether before or after the call was done."""

    def __init__(self, store: MemoryBackend, plan: Callable[[str], str]) -> None:
        self._store, self._plan = store, plan
        self.url, self.batch_values, self.batch_bytes = store.url, 7, 1_000

    async def register(self, *arguments: Any, **options: Any) -> Grant:
        return await self._do("register", lambda: self._store.register(*arguments, **options))

    async def publish(self, *arguments: Any, **options: Any) -> Receipt:
        return await self._do("publish", lambda: self._store.publish(*arguments, **options))

    async def _do(self, what: str, call: Callable[[], Awaitable[Any]]) -> Any:
        match self._plan(what):
            case "before":
                raise StoreUnreachable(self.url, "the cable is out")
            case "after":
                await call()
                raise StoreUnreachable(self.url, "the answer was lost")
            case _:
                return await call()


# --- what is acknowledged is kept ----------------------------------------------------------------------------------------------


def test_acknowledged_values_survive_a_kill(tmp_path: Path) -> None:
    """A node that loses its power in the field loses reports it had confirmed."""
    program = """
        import asyncio, sys
        from antiphon.store.outbox import Outbox
        from antiphon.store.records import Entry
        async def main():
            outbox = Outbox(sys.argv[1], node="hotline")
            await outbox.open()
            number = 0
            while True:
                await outbox.put("crash", None, [Entry(b"%d" % (number + k)) for k in range(3)])
                number += 3
                print(number, flush=True)
        asyncio.run(main())
    """
    process = spawned(program, tmp_path / "outbox.db")
    assert process.stdout is not None
    told = [process.stdout.readline() for _ in range(40)]
    process.kill()
    told += process.stdout.read().splitlines(keepends=True)
    process.wait(PATIENCE_S)
    acknowledged = max(int(line) for line in told if line.endswith("\n"))

    async def story() -> list[int]:
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            waiting = await outbox.waiting("crash", 1_000_000, 1 << 30)
            assert waiting is not None
            return [int(entry.data) for entry in waiting.entries]

    kept = asyncio.run(story())
    assert len(kept) >= acknowledged >= 120
    assert len(kept) % 3 == 0, "half a put was kept"
    assert kept == list(range(len(kept)))


def test_acknowledged_after_the_sync(tmp_path: Path) -> None:
    """The node says that a report is safe, the power fails, and it was only on its way to the disk."""
    if not (strace := shutil.which("strace")):
        pytest.skip("strace is not installed")
    program = """
        import asyncio, os, sys
        from antiphon.store.outbox import Outbox
        from antiphon.store.records import Entry
        async def main():
            outbox = Outbox(sys.argv[1], node="hotline")
            await outbox.open()
            for number in range(5):
                os.write(1, b"asks %d\\n" % number)
                await outbox.put("crash", None, [Entry(b"report %d" % number)])
                os.write(1, b"kept %d\\n" % number)
            os._exit(0)
        asyncio.run(main())
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "box")]
    traced = subprocess.run(
        [strace, "-f", "-y", "-e", "trace=write,pwrite64,fsync,fdatasync", *command],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    if "asks 0" not in traced.stdout:
        pytest.skip("processes may not be traced here")
    assert "kept 4" in traced.stdout
    calls = traced.stderr.splitlines()
    for number in range(5):
        asks = next(at for at, call in enumerate(calls) if f"asks {number}" in call)
        kept = next(at for at, call in enumerate(calls) if f"kept {number}" in call)
        of_the_log = [call for call in calls[asks:kept] if "box-wal" in call]
        assert any("pwrite64" in call for call in of_the_log)
        assert "sync(" in of_the_log[-1], "the last that happens to the file before the answer is a sync"


async def several(outbox: Outbox, puts: Sequence[Sequence[int]]) -> list[int]:
    return await asyncio.gather(*(outbox.put("crash", None, values(*numbers)) for numbers in puts))


def test_puts_that_wait_together_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node with a thousand reports a second waits for a thousand syncs of the disk, and falls behind."""
    commits: list[int] = []
    commit = OutboxFile.commit
    monkeypatch.setattr(OutboxFile, "commit", lambda file: (commits.append(1), commit(file))[1])

    async def story() -> list[int]:
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            return await several(outbox, [[n] for n in range(200)])

    assert asyncio.run(story()) == list(range(1, 201)), "in the order of the calls"
    assert len(commits) < 50


def test_bounds(tmp_path: Path) -> None:
    """A store that stays away fills the disk of every node; or a refused report is sent later all the same."""

    async def story() -> None:
        async with outbox_at(tmp_path / "outbox.db", values=5, size=20) as outbox:
            await outbox.put("crash", None, values(1, 2, 3))
            with pytest.raises(StoreFull, match="5 values"):
                await outbox.put("crash", None, values(4, 5, 6))
            assert await outbox.put("crash", None, values(7, 8)) == 5, "exactly full is not too full"
            assert (outbox.values, outbox.size) == (5, 5)
        async with outbox_at(tmp_path / "outbox.db", values=50, size=20) as outbox:
            assert (outbox.values, outbox.size) == (5, 5), "counted again after a restart"
            with pytest.raises(StoreFull, match="20 bytes"):
                await outbox.put("crash", None, [Entry(b"x" * 16)])
            await outbox.put("crash", None, [Entry(b"x" * 15)])
            waiting = await outbox.waiting("crash", 100, 100)
            assert waiting is not None
            assert [entry.data for entry in waiting.entries] == [b"1", b"2", b"3", b"7", b"8", b"x" * 15]

    asyncio.run(story())


def test_disk_full(tmp_path: Path) -> None:
    """A full disk takes with it the reports of others that wait for the same sync, or ends the outbox for good."""

    async def story() -> None:
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            await outbox._ask(lambda file: file._run("PRAGMA max_page_count = 16"), alone=True)
            large = outbox.put("crash", None, [Entry(b"x" * 200_000)])
            small, other = outbox.put("crash", None, values(1)), outbox.put("crash", None, values(2))
            outcomes = await asyncio.gather(small, large, other, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [int, StoreFull, int]
            waiting = await outbox.waiting("crash", 100, 100)
            assert waiting is not None
            assert [entry.data for entry in waiting.entries] == [b"1", b"2"]
            assert outbox.size == 2

    asyncio.run(story())


def test_cancelled_put_is_counted_as_it_is_kept(tmp_path: Path) -> None:
    """A publish that its caller gave up is on disk and nobody counts it: the next value overtakes it."""

    async def story() -> None:
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            for turns in range(6):
                put = asyncio.ensure_future(outbox.put("crash", None, values(turns)))
                for _ in range(turns):
                    await asyncio.sleep(0)
                put.cancel()
                with suppress(asyncio.CancelledError):
                    await put
                await outbox.put("other", None, values(turns))
                waiting = await outbox.waiting("crash", 100, 100)
                assert outbox.pending("crash") == (len(waiting.entries) if waiting else 0)
            assert outbox.pending("crash") > 0, "nothing was ever begun"

    asyncio.run(story())


# --- files that are no good ----------------------------------------------------------------------------------------------------


def directory(path: Path) -> None:
    path.mkdir()


def noise(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + Random(1).randbytes(8_000))


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE recipes (name)")
    database.close()


def of_the_future(path: Path) -> None:
    OutboxFile(path, "hotline").close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 9")
    database.close()


def of_another(path: Path) -> None:
    OutboxFile(path, "kitchen").close()


def torn(path: Path) -> None:
    file = OutboxFile(path, "hotline")
    file.begin()
    file.put("crash", None, [Entry(bytes([n]) * 3_000) for n in range(50)], None, 0)
    file.commit()
    file.close()
    content = bytearray(path.read_bytes())
    for at in range(4 * 4_096, len(content), 4_096):
        content[at : at + 64] = b"\xff" * 64
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (directory, "directory"),
        (noise, "lost|malformed"),
        (foreign, "something else"),
        (of_the_future, "version 9"),
        (of_another, "'kitchen'"),
        (torn, "lost|malformed"),
    ],
)
def test_refused_files(tmp_path: Path, spoil: Callable[[Path], None], told: str) -> None:
    """A damaged or foreign file is taken for an empty outbox, and what waited in it is gone without a word."""
    path = tmp_path / "outbox.db"
    spoil(path)
    with pytest.raises(BadStore, match=told) as refused:
        asyncio.run(Outbox(path, node="hotline").open())
    assert str(path) in str(refused.value)


def test_no_directory(tmp_path: Path) -> None:
    """A mistyped path is told as a database error that says nothing."""
    with pytest.raises(BadStore, match="directory is not there"):
        asyncio.run(Outbox(tmp_path / "no" / "outbox.db", node="hotline").open())


def test_one_process_at_a_time(tmp_path: Path) -> None:
    """Two processes drain one outbox, and each removes what the other has not sent."""
    program = """
        import asyncio, sys
        from antiphon.store.outbox import Outbox
        async def main():
            await Outbox(sys.argv[1], node="hotline").open()
            print("open", flush=True)
            await asyncio.sleep(600)
        asyncio.run(main())
    """
    holder = spawned(program, tmp_path / "outbox.db")
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == "open"

    async def again() -> None:
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            with pytest.raises(BadStore, match="open"):
                await Outbox(tmp_path / "outbox.db", node="hotline").open()
            await outbox.put("crash", None, values(1))

    with pytest.raises(BadStore, match="another process"):
        asyncio.run(again())
    holder.kill()
    holder.wait(PATIENCE_S)
    asyncio.run(again())  # a killed process leaves no lock behind


# --- draining ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_each_once_and_in_order_over_a_bad_line(tmp_path: Path, seed: int) -> None:
    """Answers get lost on a bad line, and reports are written twice, or not, or in another order."""
    chance = Random(seed)

    async def story() -> None:
        store = await opened_store()
        faulty = Faulty(store, lambda _: chance.choice(("before", "after", "well", "well")))
        async with outbox_at(tmp_path / "outbox.db") as outbox, draining(outbox, faulty) as drain:
            number = 0
            for _ in range(chance.randrange(5, 20)):
                count = chance.randrange(1, 20)
                await outbox.put("crash", None, values(*range(number, number + count)))
                number += count
                await asyncio.sleep(chance.choice((0, 0, 0.002)))
            await drain.empty(PATIENCE_S)
            assert outbox.values == outbox.size == 0
            assert drain.drained == number
            assert await written(store) == list(range(number))

    asyncio.run(story())


POINTS = [(what, when) for what in ("register", "number", "publish", "remove") for when in ("before", "after")]


@pytest.mark.parametrize(("what", "when"), POINTS)
@pytest.mark.parametrize("batch", [0, 1])
def test_killed_at_every_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, when: str, batch: int) -> None:
    """A node is switched off while it sends what had waited, and a report is lost or comes twice."""
    seen = 0

    def struck(step: str, moment: str) -> None:
        nonlocal seen
        if (step, moment) == (what, when):
            seen += 1
            if seen == batch + 1:
                raise Killed

    def around(step: str, real: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        async def call(*arguments: Any) -> None:
            struck(step, "before")
            await real(*arguments)
            struck(step, "after")

        return call

    monkeypatch.setattr(Outbox, "number", around("number", Outbox.number))
    monkeypatch.setattr(Outbox, "remove", around("remove", Outbox.remove))

    class Deadly(Faulty):
        async def _do(self, what: str, call: Callable[[], Awaitable[Any]]) -> Any:
            struck(what, "before")
            answer = await call()
            struck(what, "after")
            return answer

    async def story() -> None:
        store = await opened_store()
        deadly = Deadly(store, lambda _: "well")
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            await outbox.put("crash", None, values(*range(20)))
            drain = Draining(outbox, deadly)
            with suppress(Killed):
                while await drain._send_one_batch("crash"):
                    pass
        killed = seen == batch + 1
        assert killed or (what, batch) == ("register", 1), "this point was never reached"
        async with outbox_at(tmp_path / "outbox.db") as outbox, draining(outbox, Faulty(store, lambda _: "well")) as drain:
            await drain.empty(PATIENCE_S)
        assert await written(store) == list(range(20))

    asyncio.run(story())


@pytest.mark.parametrize("was_written", [False, True])
def test_values_in_doubt_keep_their_numbers(tmp_path: Path, was_written: bool) -> None:
    """A publish without an answer goes to the outbox, and is in the store twice, or not at all."""

    async def story() -> None:
        store = await opened_store()
        grant = await store.register("crash", "hotline")
        await store.publish(grant, 1, values(0, 1))
        if was_written:
            await store.publish(grant, 3, values(2, 3))
        async with outbox_at(tmp_path / "outbox.db") as outbox, draining(outbox, store) as drain:
            await outbox.put("crash", None, values(2, 3), 3)
            await outbox.put("crash", None, values(4, 5))
            await drain.empty(PATIENCE_S)
        assert await written(store) == [0, 1, 2, 3, 4, 5]
        # and whoever publishes next goes on behind them
        grant = await store.register("crash", "hotline")
        await store.publish(grant, grant.number + 1, values(6))
        assert await written(store) == [0, 1, 2, 3, 4, 5, 6]

    asyncio.run(story())


@pytest.mark.parametrize("was_written", [False, True])
def test_somebody_published_under_this_name_meanwhile(tmp_path: Path, was_written: bool) -> None:
    """An operator helps out under the name of a node that crashed while draining; when it is back, its reports are taken for sent."""

    async def story() -> None:
        store = await opened_store()
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            await outbox.put("crash", None, values(1, 2, 3))
            waiting = await outbox.waiting("crash", 100, 100)
            assert waiting is not None
            grant = await store.register("crash", "hotline")
            await outbox.number(waiting, grant.number + STRIDE)
            if was_written:
                await store.publish(grant, grant.number + STRIDE, waiting.entries)
        grant = await store.register("crash", "hotline")
        await store.publish(grant, grant.number + 1, values(101, 102, 103, 104))
        async with outbox_at(tmp_path / "outbox.db") as outbox, draining(outbox, store) as drain:
            await drain.empty(PATIENCE_S)
        here = await written(store)
        assert sorted(here) == [1, 2, 3, 101, 102, 103, 104]
        assert [number for number in here if number < 100] == [1, 2, 3]

    asyncio.run(story())


def test_numbers_are_not_put_behind_values_without(tmp_path: Path) -> None:
    """A value with a lower number than one sent before it is taken for written by the store, and lost."""

    async def story() -> None:
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            await outbox.put("crash", None, values(1))
            with pytest.raises(UsageError, match="leave `first` out"):
                await outbox.put("crash", None, values(2), 2)
            await outbox.put("fire", None, values(1, 2), 10)
            with pytest.raises(UsageError, match="leave `first` out"):
                await outbox.put("fire", None, values(3), 11)
            await outbox.put("fire", None, values(3), 12)
            assert (outbox.pending("crash"), outbox.pending("fire")) == (1, 3)

    asyncio.run(story())


def test_a_topic_that_is_taken_waits_and_the_others_go_on(tmp_path: Path) -> None:
    """One topic in the wrong hands holds up everything a node has to say; or what it could not say is thrown away."""

    async def story() -> None:
        store = await opened_store()
        theirs = await store.register("crash", "somebody")
        await store.register("fire", "hotline", options=TopicOptions(shared=True))
        async with outbox_at(tmp_path / "outbox.db") as outbox, draining(outbox, store) as drain:
            await outbox.put("crash", None, values(1, 2))
            await outbox.put("fire", TopicOptions(mutable=True), values(1))  # other options than it has
            await outbox.put("flood", None, values(1, 2))
            while outbox.pending("flood") or len(drain.stats()["blocked"]) < 2:  # type: ignore[arg-type]
                await asyncio.sleep(0.001)
            assert await written(store, "flood") == [1, 2]
            blocked = drain.stats()["blocked"]
            assert isinstance(blocked, dict)
            assert "somebody" in blocked["crash"]
            assert "options" in blocked["fire"]
            with pytest.raises(TimedOut, match="3 values"):
                await drain.empty(0.02)
            await store.release(theirs)
            while outbox.pending("crash"):
                await asyncio.sleep(0.001)
            assert await written(store) == [1, 2]
            assert "crash" not in drain.stats()["blocked"]  # type: ignore[operator]

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


def test_fenced_while_draining(tmp_path: Path) -> None:
    """Somebody registers under this name while the outbox is sent, and what is left of it is never sent."""

    async def story() -> None:
        store = await opened_store()

        class Disturbed(Faulty):
            disturbances = 3

            async def publish(self, grant: Grant, *arguments: Any, **options: Any) -> Receipt:
                if self.disturbances:
                    self.disturbances -= 1
                    await store.register("crash", "hotline")
                return await super().publish(grant, *arguments, **options)

        async with outbox_at(tmp_path / "outbox.db") as outbox, draining(outbox, Disturbed(store, lambda _: "well")) as drain:
            await outbox.put("crash", None, values(*range(30)))
            await drain.empty(PATIENCE_S)
            assert drain.retries == 3
        assert await written(store) == list(range(30))

    asyncio.run(story())


def test_a_store_out_of_reach_is_not_asked_more_often_because_more_comes_in(tmp_path: Path) -> None:
    """Every report of a busy node asks a store that is struggling to come back once more."""

    async def story() -> None:
        asked: list[str] = []
        away = True

        def plan(what: str) -> str:
            asked.append(what)
            return "before" if away else "well"

        store = await opened_store()
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            drain = Draining(outbox, Faulty(store, plan), retry_s=1_000.0, retry_limit_s=1_000.0)
            drain.start()
            for number in range(50):
                await outbox.put("crash", None, values(number))
            assert len(asked) == 1
            assert "cable" in str(drain.stats()["unreachable"])
            away = False
            drain.nudge()
            await drain.empty(PATIENCE_S)
            assert await written(store) == list(range(50))
            assert drain.stats()["unreachable"] == ""
            await drain.stop()

    asyncio.run(story())


def test_what_waits_is_held(tmp_path: Path) -> None:
    """The horizon passes a value that may be in the store already, while its publisher still asks itself whether it is."""

    async def story() -> None:
        store, holdings = await opened_store(), Holdings()
        holdings.saw(500)
        async with outbox_at(tmp_path / "outbox.db", holdings=holdings) as outbox:
            await outbox.put("crash", None, values(1))
            assert holdings.oldest == 500
            holdings.saw(900)
            await outbox.put("fire", None, values(1), since=300)
            assert holdings.oldest == 300
        assert holdings.oldest is None, "a closed outbox belongs to nobody in the ring"
        async with outbox_at(tmp_path / "outbox.db", holdings=holdings) as outbox, draining(outbox, store) as drain:
            holdings.mark()
            assert holdings.oldest == 300, "also after a restart"
            await drain.empty(PATIENCE_S)
            assert (holdings.oldest, holdings.lowest) == (None, 300)

    asyncio.run(story())


def test_drained_into_jetstream(tmp_path: Path) -> None:
    """The numbers that draining gives its batches are such as only some stores understand."""
    pytest.importorskip("nats", reason="the extra nats is not installed")
    from antiphon.store.jetstream import JetStreamBackend
    from antiphon.store.jetstream.server import LocalServers

    async def story(url: str) -> None:
        store = JetStreamBackend(url)
        await store.open()
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            await outbox.put("crash", None, values(*range(2_500)))
            waiting = await outbox.waiting("crash", 700, 1 << 20)
            assert waiting is not None
            grant = await store.register("crash", "hotline")
            await outbox.number(waiting, grant.number + STRIDE)
            await store.publish(grant, grant.number + STRIDE, waiting.entries)  # and here it was killed
        async with outbox_at(tmp_path / "outbox.db") as outbox, draining(outbox, store) as drain:
            await outbox.put("crash", None, values(*range(2_500, 2_600)))
            await drain.empty(PATIENCE_S)
        assert await written(store) == list(range(2_600))
        await store.close()

    with LocalServers(1, tmp_path / "servers") as running:
        asyncio.run(asyncio.wait_for(story(running.url), PATIENCE_S))


# --- draining, with real kills -------------------------------------------------------------------------------------------------


DRAINER = """
    import asyncio, sys
    from antiphon.store.draining import Draining
    from antiphon.store.outbox import Outbox
    from antiphon.store.sqlite import SqliteBackend
    async def main():
        store, outbox = SqliteBackend(sys.argv[1]), Outbox(sys.argv[2], node="hotline")
        store.batch_values = 16
        await store.open()
        await outbox.open()
        print("begins", flush=True)
        drain = Draining(outbox, store)
        drain.start()
        await drain.empty(120)
        print("empty", flush=True)
    asyncio.run(main())
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_drained_by_processes_that_are_killed(tmp_path: Path, seed: int) -> None:
    """A node that crashes again and again while it sends what had waited writes a report twice, or never."""
    from antiphon.store.sqlite import SqliteBackend

    chance, count, kills = Random(seed), 3_000, 0

    async def fill() -> None:
        async with outbox_at(tmp_path / "outbox.db") as outbox:
            for begin in range(0, count, 500):
                await outbox.put("crash", None, values(*range(begin, begin + 500)))

    asyncio.run(fill())
    for _ in range(200):
        process = spawned(DRAINER, f"sqlite:{tmp_path / 'store.db'}", tmp_path / "outbox.db")
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "begins"
        if kills < 8:
            # where in its work it is by then is as good as random
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0.0, 0.04))
            process.kill()
            kills += process.wait(PATIENCE_S) == -signal.SIGKILL
        process.wait(PATIENCE_S)
        if process.stdout.read().strip() == "empty":
            break

    async def look() -> list[int]:
        store = SqliteBackend(f"sqlite:{tmp_path / 'store.db'}")
        await store.open()
        try:
            return await written(store)
        finally:
            await store.close()

    assert asyncio.run(look()) == list(range(count))
    assert kills >= 2, "nobody was killed in the middle"


def spawned(program: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)], stdout=subprocess.PIPE, text=True, bufsize=1
    )
