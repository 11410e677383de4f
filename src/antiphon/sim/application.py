"""The application of one member, or of one node, in all its lives: hears what the protocols tell, and writes it into the log.

The log is written before anybody is called back, so a callback that sends, crashes its member or fails finds its cause recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from antiphon.model.events import (
    Departed,
    Event,
    Installed,
    MissedMessages,
    Orphaned,
    PrivateMessage,
    Recovered,
    Undelivered,
    Writable,
)
from antiphon.model.frames import Batch
from antiphon.model.ids import GroupId, MessageId
from antiphon.sim.log import Delivered, GotPrivately, MemberLog, Missed, Returned, Viewed, hash_of

OnDeliver: TypeAlias = Callable[[MessageId, bytes, MessageId | None], None]
OnWritable: TypeAlias = Callable[[], None]
OnEvent: TypeAlias = Callable[[GroupId | None, Event], None]


class Application:
    def __init__(self) -> None:
        self.on_deliver: list[OnDeliver] = []
        self.on_writable: list[OnWritable] = []
        self.on_event: list[OnEvent] = []
        self.get_state: Callable[[], bytes] | None = None
        self.set_state: Callable[[bytes], None] | None = None

    def hear(self, now: float, log: MemberLog, event: Event) -> None:
        if type(event) is tuple:
            batch, low, high = event
            for seqno in range(low, high + 1):
                self._deliver(now, log, batch, seqno)
        elif type(event) is Orphaned:
            self._deliver(now, log, event.batch, event.seqno, event.missing)
        elif type(event) is Recovered:
            for seqno in range(event.low, event.high + 1):
                self._deliver(now, log, event.batch, seqno, event.missing, recovered=True)
        elif type(event) is Installed:
            log.events.append(Viewed(now, event.view, event.previous.id if event.previous else 0, event.sides))
        elif type(event) is MissedMessages:
            log.events.append(Missed(now, event.lost))
        elif type(event) is PrivateMessage:
            log.events.append(GotPrivately(now, event.sender, hash_of(event.data)))
        elif type(event) is Undelivered:
            log.events.append(Returned(now, event.to, event.number))
        elif type(event) is Departed:
            log.departed_at = now
        elif type(event) is Writable:
            for callback in self.on_writable:
                callback()

    def _deliver(
        self, now: float, log: MemberLog, batch: Batch, seqno: int, lost: tuple[MessageId, ...] = (), recovered: bool = False
    ) -> None:
        if log.crashed_at is not None:
            return  # a callback crashed this member in the middle of its deliveries
        message, payload = MessageId(batch.sender, seqno), batch.payload(seqno)
        log.events.append(Delivered(now, message, hash_of(payload), lost, batch.view, recovered))
        for callback in self.on_deliver:
            callback(message, payload, batch.reply_to(seqno))
