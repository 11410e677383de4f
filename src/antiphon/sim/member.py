"""One incarnation of a member of a world's one group: the process that runs its endpoint, and its log.

It is in no view when it starts; `join` gives it its endpoint. After a crash the log stays.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import ClassVar

from antiphon.model.control import Wants
from antiphon.model.events import Installed
from antiphon.model.frames import Batch
from antiphon.model.ids import GroupId, MemberId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint
from antiphon.protocol.registry import promises_of
from antiphon.protocol.samples import sample_endpoint
from antiphon.sim.log import MemberLog, Viewed
from antiphon.sim.process import Process
from antiphon.sim.scheduler import Scheduler
from antiphon.trace.recorder import Recorder


class Member(Process[Endpoint]):
    idle: ClassVar[str] = "is in no view since it restarted: call install_view with it first"

    def __init__(self, name: str, member: MemberId, scheduler: Scheduler, touched: Callable[[Member], None]) -> None:
        super().__init__(name, scheduler, touched)
        self.id = member
        self.log = MemberLog(member, [])
        self._recorder: Recorder | None = None
        self._others: tuple[View | None, tuple[MemberId, ...]] = (None, ())

    @property
    def joined(self) -> bool:
        return self._core is not None

    @property
    def others(self) -> tuple[MemberId, ...]:
        """Every other member of the endpoint's view."""
        view = self.core.view
        if self._others[0] is not view:
            self._others = (view, tuple(member for member in view.members if member != self.id))
        return self._others[1]

    def join(
        self,
        group: GroupId,
        view: View,
        options: GroupOptions,
        settings: Settings,
        rng: random.Random,
        cut: dict[MemberId, int] | None,
        recorder: Recorder | None = None,
    ) -> None:
        """Starts the endpoint in its first view."""
        self._recorder, transcript = recorder, None
        if recorder is not None:
            recorder.begin(self.id)
            wants = None if cut is None else Wants("none")
            transcript = recorder.transcript(group, self.id, options, wants, promises_of(options))
            transcript.begins(cut or {})
            transcript.end_turn(self.now(), 0.0, [Installed(view, None)], None)
        self._core = Endpoint(
            self.id,
            group,
            view,
            options,
            rng=rng,
            settings=settings,
            now=self.now(),
            cut=cut,
            on_accept=self._log_received,
            transcript=transcript,
        )
        self.log.events.append(Viewed(self._scheduler.now, view))
        self.touch()

    def flush(self) -> None:
        """Sends no more until the next view."""
        self.take(lambda endpoint: endpoint.pause(self.now()))

    def install(self, view: View) -> None:
        """Takes the next view, after what waits in the kernel's queue."""
        self.take(lambda endpoint: endpoint.install(self.now(), view))

    def crash(self) -> None:
        """Never acts again. What was stable when it died is in its log, for those who judge it."""
        super().crash()
        self.log.crash(self._scheduler.now, self._core)
        if self._recorder is not None:
            self.sample()
            self._recorder.crash()

    def sample(self) -> None:
        """Records how things stand."""
        if self._core is not None:
            sample_endpoint(self._core)

    def _log_received(self, batch: Batch, low: int, high: int) -> None:
        self.log.received(self._scheduler.now, batch, low, high)
