"""Store time in a SQLite file: across reboots, between processes whose clocks are shifted, and never back."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon.store.records import SECOND, Entry, Moment, Value
from antiphon.store.sqlite import SqliteBackend
from antiphon.store.sqlite.clock import BootClock, namespace_shift

DAY = 86_400 * SECOND


class Machine:
    """A clock that a test moves, and the boot it counts from."""

    def __init__(self, boot: str, now: Moment) -> None:
        self.boot, self.now = boot, now

    def clock(self) -> BootClock:
        return BootClock(lambda: self.now, self.boot)


async def test_time_goes_on_after_a_reboot(file: Path, opened: Any) -> None:
    """After a reboot the clock begins with zero: every lease would hold for as long again as the machine had been up."""
    before = Machine("first boot", 90 * DAY)
    async with opened(file, clock=before.clock()) as store:
        grant = await store.register("t", "p")
        before.now += DAY
        await store.publish(grant, 1, [Entry(b"old")])
        newest = await store.time()
        assert newest == 91 * DAY
    after = Machine("second boot", 5 * SECOND)
    async with opened(file, clock=after.clock()) as store:
        assert await store.time() == newest
        after.now += 7 * SECOND
        assert await store.time() == newest + 7 * SECOND
        await store.publish(grant, 2, [Entry(b"new")])
        assert [value.time for value in await everything(store)] == [91 * DAY, newest + 7 * SECOND]
    # Whoever opens it later in the same boot takes part in the same time.
    after.now += 3 * SECOND
    async with opened(file, clock=after.clock()) as store:
        assert await store.time() == newest + 10 * SECOND


async def test_a_reboot_does_not_bring_leases_to_an_end(file: Path, opened: Any) -> None:
    """A clock that jumped after a reboot would make every value older than every lease, and the collector would remove all of them."""
    machine = Machine("first boot", 10 * SECOND)
    async with opened(file, clock=machine.clock()) as store:
        grant = await store.register("t", "p")
        await store.subscribe("t", "s", 60 * SECOND)
        await store.publish(grant, 1, [Entry(b"due")])
    machine.boot, machine.now = "second boot", 400 * DAY  # an uptime that another machine might have
    async with opened(file, clock=machine.clock()) as store:
        machine.now += 60 * SECOND
        assert (await store.collect("t", await store.time())).removed == 0
        machine.now += 1
        assert (await store.collect("t", await store.time())).removed == 1


async def test_time_does_not_go_back_when_another_process_was_ahead(file: Path, opened: Any) -> None:
    """Values would have times that fall with their numbers, and what has expired could not be found by looking for it."""
    ahead, behind = Machine("boot", 100 * SECOND), Machine("boot", 40 * SECOND)
    async with opened(file, clock=ahead.clock()) as one, opened(file, clock=behind.clock()) as other:
        grant = await one.register("t", "p")
        await one.publish(grant, 1, [Entry(b"a")])
        assert await other.time() == 100 * SECOND
        await other.publish(grant, 2, [Entry(b"b")])
        behind.now = 101 * SECOND
        await other.publish(grant, 3, [Entry(b"c")])
        await one.publish(grant, 4, [Entry(b"d")])
        assert [value.time // SECOND for value in await everything(one)] == [100, 100, 101, 101]


async def test_where_no_boot_has_an_id_a_reboot_is_seen_by_the_clock(file: Path, opened: Any) -> None:
    """Where the system does not say which boot it is, time would stand still until the machine had been up for as long as before."""
    machine = Machine("", 50 * DAY)
    async with opened(file, clock=machine.clock()) as store:
        await store.register("t", "p")
    machine.now = 3 * SECOND
    async with opened(file, clock=machine.clock()) as store:
        assert await store.time() == 50 * DAY
        machine.now += 9 * SECOND
        assert await store.time() == 50 * DAY + 9 * SECOND


async def test_the_clock_that_was_kept_is_of_the_newest_transaction(file: Path, opened: Any) -> None:
    """After a reboot time would begin before values that are already there."""
    machine = Machine("first boot", 10 * SECOND)
    async with opened(file, clock=machine.clock()) as store:
        machine.now = 20 * SECOND
        await store.put("k", b"", 0)
    connection = sqlite3.connect(file)
    assert connection.execute("SELECT latest FROM clock").fetchone() == (20 * SECOND,)
    connection.close()


@pytest.mark.parametrize(
    ("offsets", "shift"),
    [
        ("monotonic           0         0\nboottime            0         0\n", 0),
        ("monotonic          10         5\nboottime       86400       250\n", 86_400 * SECOND + 250),
        ("monotonic           0         0\nboottime          -3 999999999\n", -3 * SECOND + 999_999_999),
        ("1 0 0\n7 12 1\n", 12 * SECOND + 1),
        ("", 0),
    ],
)
def test_the_shift_of_a_time_namespace(offsets: str, shift: int) -> None:
    """A container with a shifted clock would date its values hours into the future, for everybody."""
    assert namespace_shift(offsets) == shift


async def test_a_process_with_a_shifted_clock_agrees(file: Path, opened: Any, started: Callable[..., Any]) -> None:
    """A process in a container with a shifted boot-time clock would let everybody's leases expire at once."""
    shifted = ("unshare", "--time", "--boottime", "864000", "--fork")
    if shutil.which("unshare") is None or subprocess.run([*shifted, "true"], capture_output=True, timeout=20, check=False).returncode:
        pytest.skip("this machine does not let the test make a time namespace")
    async with opened(file) as store:
        before = await store.time()
        there = int(await started("time", file, before=shifted).line())
        assert before <= there <= await store.time()


def test_whose_clock_cannot_be_known(file: Path) -> None:
    """The shift that a process prepares for its children would be taken for its own, and move everybody's time by it."""
    program = f"""
import asyncio, ctypes, sys
from antiphon.store.sqlite import SqliteBackend
if ctypes.CDLL(None).unshare(0x80):
    sys.exit(3)
asyncio.run(SqliteBackend({str(file)!r}).open())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode == 3:
        pytest.skip("this machine does not let the test make a time namespace")
    assert "BadStore" in done.stderr
    assert "time namespace for its children" in done.stderr


async def everything(store: SqliteBackend) -> list[Value]:
    return list((await (await store.reader("t", 0)).take(1_000, 0)).values)
