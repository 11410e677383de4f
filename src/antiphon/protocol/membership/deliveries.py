"""From what the endpoint delivers to what the application gets, once each, with the history written on the way.

The endpoint delivers each message of its view once. But some of them may already be here: a state stood for them, synchronisation
brought them, or they were sent again in a later view; an outsider's message may come through two members. Those are left out.

In semantic order a message that synchronisation brings is marked as an orphan if it names one that is not in the history at that point.
Synchronisation brings messages in an order that extends happened-before, and tells first what is skipped or lost. So an honest parent that
anybody has is in the history before its child; a parent that is not was lost with its sender, or is forged.

Keeps nothing of its own. Cost: one call per range in the usual case.
"""

from __future__ import annotations

from collections.abc import Iterable

from antiphon.model.control import Epoch
from antiphon.model.events import Delivery, Event, Installed, Orphaned, Recovered
from antiphon.model.frames import Batch
from antiphon.protocol.endpoint import Endpoint
from antiphon.protocol.membership.guests import Guests
from antiphon.protocol.membership.port import Port
from antiphon.protocol.sync.history import History


class Deliveries:
    def __init__(self, port: Port, history: History, guests: Guests) -> None:
        self._port, self._history, self._guests = port, history, guests
        self._marks_orphans = port.options.order == "semantic"
        self.epoch = Epoch(0, 0)
        """What the next installed view is to history."""

    def take(self, events: Iterable[Event]) -> None:
        """Takes events of the endpoint, in their order."""
        tell, follow = self._port.events.append, self._history.follow
        for event in events:
            # The way of nearly every one: the next messages of their sender, none of them an outsider's.
            if type(event) is tuple and event[0].guests is None and follow(event):
                tell(event)
            else:
                self.hear(event)

    def hear(self, event: Event) -> None:
        """Takes an event of the endpoint, in its order."""
        if type(event) is tuple:
            self._deliver(event)
        elif type(event) is Orphaned:
            if self._history.covers(event.batch.sender, event.seqno, event.seqno):
                self._history.add(event.batch, event.seqno, event.seqno)
                if self._first_times(event.batch, event.seqno, event.seqno):
                    self._port.tell(event)
        elif type(event) is Installed:
            self._history.begin(self.epoch)
            self._port.tell(event)
        else:
            self._port.tell(event)

    def hear_all(self, endpoint: Endpoint) -> None:
        """Takes the endpoint's events so far, before something else is told."""
        waiting = endpoint.context.outbox.events
        events = waiting[:]
        waiting.clear()
        self.take(events)

    def recover(self, batch: Batch, low: int, high: int) -> None:
        """Synchronisation brought these messages, and has entered them into the history."""
        for first, last in self._first_times(batch, low, high):
            if self._marks_orphans and batch.parents is not None:
                first = self._recover_orphans(batch, first, last)
            if first <= last:
                self._port.tell(Recovered(batch, first, last))

    def _recover_orphans(self, batch: Batch, low: int, high: int) -> int:
        """Tell the orphans among these messages, each by itself, and what lies before them; return the number after the last one."""
        for seqno in range(low, high + 1):
            missing = self._history.missing_parents(batch, seqno)
            if missing:
                if low < seqno:
                    self._port.tell(Recovered(batch, low, seqno - 1))
                self._port.tell(Recovered(batch, seqno, seqno, missing))
                low = seqno + 1
        return low

    def _deliver(self, delivery: Delivery) -> None:
        batch, low, high = delivery
        history = self._history
        for first, last in history.covers(batch.sender, low, high):
            history.add(batch, first, last)
            self._port.events += ((batch, once, until) for once, until in self._first_times(batch, first, last))

    def _first_times(self, batch: Batch, low: int, high: int) -> list[tuple[int, int]]:
        """The messages without those that an outsider sent once more, through another member."""
        guests = batch.guests
        if guests is None:
            return [(low, high)]
        return [(seqno, seqno) for seqno in range(low, high + 1) if seqno not in guests or self._guests.first_time(*guests[seqno])]
