"""The application of one member, in all its incarnations: hears what its endpoint tells, and writes it into the log.

The log is written before anybody is called back, so a callback that sends, crashes its member or fails finds its cause recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from antiphon.model.events import Event, Installed, Orphaned, Writable
from antiphon.model.frames import Batch
from antiphon.model.ids import MessageId
from antiphon.sim.log import Delivered, MemberLog, Viewed, hash_of

OnDeliver: TypeAlias = Callable[[MessageId, bytes, MessageId | None], None]
OnWritable: TypeAlias = Callable[[], None]


class Application:
    def __init__(self) -> None:
        self.on_deliver: list[OnDeliver] = []
        self.on_writable: list[OnWritable] = []

    def hear(self, now: float, log: MemberLog, event: Event) -> None:
        if type(event) is tuple:
            batch, low, high = event
            for seqno in range(low, high + 1):
                self._deliver(now, log, batch, seqno, ())
        elif type(event) is Orphaned:
            self._deliver(now, log, event.batch, event.seqno, event.missing)
        elif type(event) is Installed:
            log.events.append(Viewed(now, event.view))
        elif type(event) is Writable:
            for callback in self.on_writable:
                callback()

    def _deliver(self, now: float, log: MemberLog, batch: Batch, seqno: int, lost: tuple[MessageId, ...]) -> None:
        if log.crashed_at is not None:
            return  # a callback crashed this member in the middle of its deliveries
        message, payload = MessageId(batch.sender, seqno), batch.payload(seqno)
        log.events.append(Delivered(now, message, hash_of(payload), lost))
        for callback in self.on_deliver:
            callback(message, payload, batch.reply_to(seqno))
