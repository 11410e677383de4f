"""Jobs that wait are committed together, each with its own outcome; and an acknowledgement comes after the sync."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import Conflict, Fenced, StoreUnreachable
from antiphon.store.records import Entry
from antiphon.store.sqlite import jobs


async def test_what_waits_is_committed_together(file: Path, opened: Any, locked: Any) -> None:
    """A hundred programs' values would cost a hundred syncs of the disk, one after the other."""
    async with opened(file) as store:
        grant = await store.register("t", "p")
        before = store.commits
        with locked(file):  # the first one waits for the lock, the others for the first one
            calls = [asyncio.create_task(store.publish(grant, number, [Entry(b"%d" % number)])) for number in range(1, 201)]
            await asyncio.sleep(0.1)
        receipts = await asyncio.gather(*calls)
        assert store.commits - before <= 2
        assert [receipt.first for receipt in receipts] == list(range(1, 201))


async def test_the_error_of_one_is_its_own(file: Path, opened: Any, locked: Any) -> None:
    """A fenced publisher would take the values of everybody down with it who published in the same moment."""
    async with opened(file) as store:
        old = await store.register("t", "p")
        grant = await store.register("t", "p")
        with locked(file):
            calls = [
                asyncio.create_task(call)
                for call in (
                    store.time(),
                    store.put("k", b"first", 0),
                    store.publish(grant, 1, [Entry(b"a")]),
                    store.publish(old, 1, [Entry(b"fenced")]),
                    store.put("k", b"second", 0),
                    store.publish(grant, 2, [Entry(b"b")]),
                    store.register("\ud800", "p"),
                )
            ]
            await asyncio.sleep(0.1)
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes if isinstance(outcome, Exception)][:2] == [Fenced, Conflict]
        assert [(outcome.first, outcome.last) for outcome in (outcomes[2], outcomes[5])] == [(1, 1), (2, 2)]
        assert [value.data for value in (await (await store.reader("t", 0)).take(10, 0)).values] == [b"a", b"b"]


async def test_a_call_given_up_before_it_was_begun_never_happens(file: Path, opened: Any, locked: Any) -> None:
    """A program that stopped waiting, and decided otherwise, would find later that it has happened after all."""
    async with opened(file) as store:
        with locked(file):
            call = asyncio.create_task(store.put("k", b"late", 0))
            await asyncio.sleep(0.1)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        assert (await store.put("other", b"", 0)).key == "other"
        assert await store.get("k") is None


async def test_more_than_may_wait_waits_outside(file: Path, opened: Any, locked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is slower than a program would fill the memory with what is to be written."""
    monkeypatch.setattr(jobs, "QUEUE_JOBS", 10)
    monkeypatch.setattr(jobs, "GROUP_JOBS", 4)
    async with opened(file) as store:
        grant = await store.register("t", "p")
        with locked(file):
            calls = [asyncio.create_task(store.publish(grant, number, [Entry(b"%d" % number)])) for number in range(1, 101)]
            await asyncio.sleep(0.1)
            assert store._house.writer._jobs.waiting == 10
            calls[50].cancel()
        receipts = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(receipts.pop(50), asyncio.CancelledError)
        assert [receipt.first for receipt in receipts] == list(range(1, 100)), "none overtook another"


async def test_closing_ends_those_who_stand_in_line(file: Path, opened: Any, locked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that wants to end would wait for what can never be written any more."""
    monkeypatch.setattr(jobs, "QUEUE_JOBS", 2)
    async with opened(file) as store:
        grant = await store.register("t", "p")
        with locked(file):
            calls = [asyncio.create_task(store.publish(grant, number, [Entry(b"x")])) for number in range(1, 11)]
            await asyncio.sleep(0.05)
            closing = asyncio.create_task(store.close())
            await asyncio.sleep(0.05)
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        await closing
        assert [type(outcome).__name__ for outcome in outcomes] == ["Receipt"] * 2 + ["StoreUnreachable"] * 8


async def test_closing_answers_what_was_submitted(file: Path, opened: Any, locked: Any) -> None:
    """A program that ends would not know whether its last values were written."""
    async with opened(file) as store:
        grant = await store.register("t", "p")
        with locked(file):
            calls = [asyncio.create_task(store.publish(grant, number, [Entry(b"x")])) for number in range(1, 21)]
            await asyncio.sleep(0.05)
            closing = asyncio.create_task(store.close())
            await asyncio.sleep(0.05)
        assert (await asyncio.gather(*calls))[-1].last == 20
        await closing
        with pytest.raises(StoreUnreachable):
            await store.publish(grant, 21, [Entry(b"x")])


async def test_a_store_that_everybody_closed_is_one_file(file: Path, opened: Any) -> None:
    """Who copies the file of a program that has ended would lose what is still in the log beside it."""
    for _ in range(50):
        async with opened(file) as store:
            await store.put("k", b"v", record.revision if (record := await store.get("k")) else 0)
        assert sorted(file.parent.glob("a.db*")) == [file]


async def test_relaxed_receipts_say_so(file: Path, opened: Any) -> None:
    """The faster and weaker acknowledgement would look like the other one."""
    async with opened(file) as store:
        grant = await store.register("t", "p")
        assert not (await store.publish(grant, 1, [Entry(b"a")], synced=False)).synced
        assert (await store.publish(grant, 2, [Entry(b"b")])).synced
        together = await asyncio.gather(store.publish(grant, 3, [Entry(b"c")]), store.publish(grant, 4, [Entry(b"d")], synced=False))
        assert together[0].synced


TRACE = ("strace", "-f", "-y", "-s", "64", "-e", "trace=fsync,fdatasync,write,pwrite64")


def synced_before_said(log: str) -> list[bool]:
    """For each acknowledgement that the traced program said: whether everything it had written to the log of the database by then was
    synced. A call that strace shows in two pieces counts when it ends."""
    verdicts: list[bool] = []
    is_dirty = False
    begun: dict[str, str] = {}
    for line in log.splitlines():
        process, _, call = line.partition(" ")
        call = call.strip()
        if call.endswith("<unfinished ...>"):
            begun[process] = call
            is_dirty = is_dirty or bool(re.match(r"pwrite64\(\d+<[^>]*-wal>", call))
            continue
        if call.startswith("<..."):
            call = begun.pop(process, "") + call
        if re.match(r"pwrite64\(\d+<[^>]*-wal>", call):
            is_dirty = True
        elif re.match(r"(fsync|fdatasync)\(\d+<[^>]*-wal>", call) and call.endswith("= 0"):
            is_dirty = False
        elif re.match(r'write\(1<[^>]*>, "\d+\\n"', call):
            verdicts.append(not is_dirty)
    return verdicts


@pytest.mark.parametrize(("durability", "verdict"), [("synced", True), ("relaxed", False)])
async def test_the_acknowledgement_comes_after_the_sync(
    file: Path, started: Callable[..., Any], durability: str, verdict: bool
) -> None:
    """A loss of power just after an acknowledgement would lose what was acknowledged. The relaxed mode shows that the test would see it."""
    if shutil.which("strace") is None or subprocess.run([*TRACE, "-o", "/dev/null", "true"], check=False, timeout=20).returncode:
        pytest.skip("strace is not here, or may not trace")
    log = file.with_suffix(".strace")
    await started("publish", file, "t", "p", 10, 12, durability, before=(*TRACE, "-o", str(log))).output()
    assert synced_before_said(log.read_text()) == [verdict] * 12
