"""One incarnation of a member in the world: its endpoint, its clock, its log, and the queue its kernel keeps.

A process takes inputs only while it runs. While it is paused, what arrives waits in order, at most `BACKLOG_LIMIT` frames (later
ones are dropped and counted as `backlog_full`), and is taken in one turn when it resumes. A slow process takes `service_s` per
frame, one after the other, with the same bound. A crashed one takes nothing, ever; its log stays.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from antiphon.errors import UsageError
from antiphon.model import codec
from antiphon.model.frames import Batch
from antiphon.model.ids import GroupId, MemberId, MessageId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint
from antiphon.protocol.multicast.reliable import Reliable
from antiphon.sim.clock import Clock
from antiphon.sim.log import MemberLog, Received, Viewed
from antiphon.sim.scheduler import Scheduler

BACKLOG_LIMIT = 10_000


class Process:
    def __init__(self, name: str, member: MemberId, scheduler: Scheduler, touched: Callable[[Process], None]) -> None:
        """`touched` is told once per turn that this process had an input, so that its turn must be ended."""
        self.name, self.id = name, member
        self.alive, self.paused = True, False
        self.clock = Clock()
        self.log = MemberLog(member, [])
        self.drops: Counter[str] = Counter()
        """Frames that reached this machine and not the endpoint: `dead`, `outside_view`, `backlog_full`."""
        self.service_s = 0.0
        self.waiting = 0
        """Frames other than digests that a slow process has yet to take."""
        self.in_turn = False
        self._endpoint: Endpoint | None = None
        self._scheduler, self._touched = scheduler, touched
        self._backlog: deque[Callable[[Endpoint], None]] = deque()
        self._serving, self._busy_until = 0, 0.0
        self._armed: float | None = None
        self._others: tuple[View | None, tuple[MemberId, ...]] = (None, ())

    @property
    def endpoint(self) -> Endpoint:
        if self._endpoint is None:
            raise UsageError(f"{self.name} is in no view since it restarted: call install_view with it first")
        return self._endpoint

    @property
    def joined(self) -> bool:
        return self._endpoint is not None

    @property
    def others(self) -> tuple[MemberId, ...]:
        """Every other member of the endpoint's view."""
        view = self.endpoint.view
        if self._others[0] is not view:
            self._others = (view, tuple(member for member in view.members if member != self.id))
        return self._others[1]

    def acting(self) -> Endpoint:
        """The endpoint, for an input of the application; UsageError when this process cannot act."""
        if not self.alive or self.paused:
            raise UsageError(f"{self.name} {'is paused: resume' if self.alive else 'has crashed: restart'} it before it sends")
        endpoint = self.endpoint
        self.touch()
        return endpoint

    def now(self) -> float:
        return self.clock.local(self._scheduler.now)

    def touch(self) -> None:
        """This process had an input: its turn must be ended."""
        if not self.in_turn and self._endpoint is not None:
            self.in_turn = True
            self._touched(self)

    # -- inputs ----------------------------------------------------------------------------------------------------------------

    def join(
        self, group: GroupId, view: View, options: GroupOptions, settings: Settings, rng: random.Random, cut: dict[MemberId, int] | None
    ) -> None:
        """Starts the endpoint in its first view."""
        self._endpoint = Endpoint(
            self.id, group, view, options, rng=rng, settings=settings, now=self.now(), cut=cut, on_accept=self._log_received
        )
        self.log.events.append(Viewed(self._scheduler.now, view))
        self.touch()

    def flush(self) -> None:
        """Sends no more until the next view."""
        self._take(lambda endpoint: endpoint.pause(self.now()))

    def install(self, view: View) -> None:
        """Takes the next view, after what waits in the kernel's queue."""
        self._take(lambda endpoint: endpoint.install(self.now(), view))

    def arrive(self, source: MemberId, wire: bytes) -> None:
        """A frame reaches this machine."""
        if not self.alive or self._endpoint is None:
            self.drops["dead" if not self.alive else "outside_view"] += 1
        elif self.service_s and not self.paused:
            if self._serving >= BACKLOG_LIMIT:
                self.drops["backlog_full"] += 1
                return
            self._busy_until = max(self._scheduler.now, self._busy_until) + self.service_s
            self._serving += 1
            self.waiting += codec.kind_of(wire) != "digest"
            self._scheduler.at(self._busy_until, self._serve, source, wire)
        elif self.paused:
            self._queue(source, wire)
        else:
            self.touch()
            self._endpoint.receive(self.now(), source, wire)

    def crash(self) -> None:
        """Never acts again. What was stable when it died is in its log, for those who judge it."""
        self.alive = False
        self.log.crashed_at = self._scheduler.now
        if self._endpoint is not None:
            multicast = self._endpoint.multicast
            self.log.stable = multicast.stable_positions()
            if isinstance(multicast, Reliable) and self._endpoint.ordering.makes_records:
                self.log.stable_records = {sender: stream.stable for sender, stream in multicast.record_streams.items()}
        self._backlog.clear()

    def resume(self) -> None:
        self.paused = False
        self.touch()  # a turn that the pause interrupted is still to be ended
        while self._backlog:
            self._take(self._backlog.popleft())
        self.arm()

    def skew(self, offset_s: float, rate: float) -> None:
        self.clock.set(offset_s, rate)
        self._armed = None
        self.arm()

    # -- the one timer ---------------------------------------------------------------------------------------------------------

    def arm(self) -> None:
        """Arms the timer for the endpoint's deadline. A deadline that moved later is noticed when the timer comes up."""
        if self._endpoint is None or not self.alive or self.paused:
            return
        deadline = self._endpoint.deadline
        if deadline is not None:
            when = self.clock.world(deadline)
            if self._armed is None or when < self._armed:
                self._armed = when
                self._scheduler.at(when, self._ring, when)

    def _ring(self, armed: float, _: Any) -> None:
        if armed != self._armed:
            return  # an earlier or later timer has taken its place
        self._armed = None
        if self._endpoint is None or not self.alive or self.paused:
            return
        deadline = self._endpoint.deadline
        if deadline is None or self.clock.world(deadline) > self._scheduler.now:
            self.arm()
            return
        self.clock.reach(deadline)
        self.touch()
        self._endpoint.tick(self.now())

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _take(self, action: Callable[[Endpoint], None]) -> None:
        if self.paused:
            self._backlog.append(action)
        else:
            self.touch()
            action(self.endpoint)

    def _queue(self, source: MemberId, wire: bytes) -> None:
        if len(self._backlog) >= BACKLOG_LIMIT:
            self.drops["backlog_full"] += 1
        else:
            self._backlog.append(lambda endpoint: endpoint.receive(self.now(), source, wire))

    def _serve(self, source: MemberId, wire: bytes) -> None:
        self._serving -= 1
        self.waiting -= codec.kind_of(wire) != "digest"
        if self.alive and self.paused:
            self._queue(source, wire)
        elif self.alive:
            self.touch()
            self.endpoint.receive(self.now(), source, wire)

    def _log_received(self, batch: Batch, low: int, high: int) -> None:
        now, sender, append = self._scheduler.now, batch.sender, self.log.events.append
        for seqno in range(low, high + 1):
            append(Received(now, MessageId(sender, seqno)))
