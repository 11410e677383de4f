"""Store time: the machine's clock since its boot, which no wall clock and no operator moves, plus an offset kept in the file.

The file holds (boot, ahead, latest). While the machine runs, store time is `clock + ahead`. After a reboot the clock begins anew, so the
first process that opens the file sets `ahead` such that time goes on from `latest`: time stands still while the machine is off, and leases
last longer by that. `latest` is kept by every transaction that writes, so whatever the file says of the time is never above it. Under the
write lock time is `max(clock + ahead, latest)`: it does not go back whatever another process wrote.

Linux: CLOCK_BOOTTIME (goes on while the machine sleeps), the boot's id, and minus the offset of the process's time namespace, so that
containers with shifted clocks agree. Elsewhere: `time.monotonic`, which may stand still while the machine sleeps, and a reboot is seen by
the clock being far behind `latest`.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from antiphon.store.records import SECOND, Moment

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE_OFFSETS = Path("/proc/self/timens_offsets")
_NAMESPACE, _NAMESPACE_OF_CHILDREN = "/proc/self/ns/time", "/proc/self/ns/time_for_children"
_FAR_BEHIND = 2 * SECOND  # further than two processors' clocks are ever apart


class NoClock(Exception):
    """What the machine's clock says cannot be known here."""


class BootClock:
    """Nanoseconds since the machine was booted, the same for every process of the machine."""

    def __init__(self, read: Callable[[], int] | None = None, boot: str | None = None) -> None:
        self.boot = _boot_id() if boot is None else boot
        """Which boot of the machine this is; empty where the machine does not say."""
        self._read = read or _machine_clock()

    def now(self) -> int:
        return self._read()


def advance(connection: sqlite3.Connection, clock: BootClock) -> tuple[Moment, int]:
    """The time now and the newest revision, inside a write transaction, whose end must keep the time as `latest`."""
    boot, ahead, latest, revision = connection.execute("SELECT boot, ahead, latest, revision FROM clock").fetchone()
    now = clock.now() + ahead
    if boot != clock.boot or (not clock.boot and now < latest - _FAR_BEHIND):
        ahead, now = latest - clock.now(), latest
        connection.execute("UPDATE clock SET boot = ?, ahead = ?", (clock.boot, ahead))
    return max(now, latest), revision


def shown(clock: BootClock, boot: str, ahead: int, latest: Moment) -> Moment:
    """The time for somebody who only reads, from the row as it is."""
    return max(clock.now() + ahead, latest) if boot == clock.boot else latest


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _machine_clock() -> Callable[[], int]:
    which = getattr(time, "CLOCK_BOOTTIME", None)
    if which is None:
        return time.monotonic_ns
    try:
        if os.readlink(_NAMESPACE) != os.readlink(_NAMESPACE_OF_CHILDREN):
            # The offsets the kernel shows are those of the children. Taken for ours, they would move everybody's time by that.
            raise NoClock("this process has made a time namespace for its children and is not in it; open it in a child")
        shift = namespace_shift(_NAMESPACE_OFFSETS.read_text())
    except OSError:  # a kernel without time namespaces
        shift = 0
    return lambda: time.clock_gettime_ns(which) - shift


def namespace_shift(offsets: str) -> int:
    """How many nanoseconds the boot-time clock of this process's time namespace is ahead of the machine's."""
    for line in offsets.splitlines():
        name, *numbers = line.split()
        if name in ("boottime", "7") and len(numbers) == 2:
            return int(numbers[0]) * SECOND + int(numbers[1])
    return 0
