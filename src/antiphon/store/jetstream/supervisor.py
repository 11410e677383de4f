"""Restarts servers of `LocalServers` that end by themselves, and leaves the others alone.

A server that has ended is started again after a pause: `FIRST_PAUSE_S`, doubled each time it ends within `STABLE_S` of its start, up to
`LONGEST_PAUSE_S`. It is never given up, since what was in its way (a full disk, a port in use) may go. Each end, each start that fails and
each return is reported once.

`tick` looks once and does what is due. It does not wait for servers to become ready: two of three that ended together need each other for
that. The time is an argument, so that tests do not wait for pauses.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable

from msgspec import Struct

from antiphon.errors import AntiphonError
from antiphon.store.jetstream.server import LocalServers

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
STABLE_S = 10.0
"""A server that ran for this long did start: the next pause is the first one again."""

log = logging.getLogger("antiphon.store")


class ServerSupervisor:
    def __init__(self, servers: LocalServers, now: float, report: Callable[[str], None] = log.warning) -> None:
        """`servers` run since `now`, in seconds of a steady clock. `report` is called with a sentence for each event."""
        self._servers, self._report = servers, report
        self._watches = [_Watch(started=now) for _ in servers.ports]
        self.restarts = 0

    def tick(self, now: float) -> None:
        """Note which servers have ended, start those whose pause is over, and note which are ready again."""
        running = self._servers.processes
        for number, watch in enumerate(self._watches):
            if number in running:
                if not watch.ready and self._servers.is_ready(number):
                    watch.ready = True
                    self._report(f"server {number} is back (process {running[number]})")
            elif watch.restart_at is None:
                if now - watch.started >= STABLE_S:
                    watch.failures = 0
                self._pause(watch, now, f"server {number} {_ending(self._servers.exit_status(number))}")
            elif now >= watch.restart_at:
                self._start(number, watch, now)

    def _start(self, number: int, watch: _Watch, now: float) -> None:
        try:
            self._servers.spawn(number)
        except (OSError, TimeoutError, AntiphonError) as error:
            self._pause(watch, now, f"server {number} could not be started ({error})")
        else:
            watch.started, watch.restart_at, watch.ready = now, None, False
            self.restarts += 1

    def _pause(self, watch: _Watch, now: float, what: str) -> None:
        pause_s = min(FIRST_PAUSE_S * 2 ** min(watch.failures, 16), LONGEST_PAUSE_S)
        watch.failures += 1
        watch.restart_at = now + pause_s
        self._report(f"{what}: it is started again in {pause_s:g} s. Its log is under {self._servers.directory}")


class _Watch(Struct):
    """What is known of one server."""

    started: float
    failures: int = 0
    """How often it has ended, one time soon after the other."""
    restart_at: float | None = None
    """When it is to be started again; None while it runs."""
    ready: bool = True


def _ending(status: int | None) -> str:
    if status is None:
        return "does not run"
    if status < 0:
        try:
            return f"was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"was ended by signal {-status}"
    return f"has ended with status {status}"
