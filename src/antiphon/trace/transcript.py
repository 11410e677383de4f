"""What one membership did, taken down as rows of its node's recorder.

Rows are written once per turn: what the application sent since the last one, what reached the ordering, what the application is told, and
what of the received has to wait. Consecutive messages of one sender are one row, whatever batches they came in. The application sends
knowing nothing of what it is told at the end of a turn, so this order is happened-before order.

The hybrid clock of a row is the latest of the node's own clock, the row before, and the time of sending of everything received so far.
A sender's time of sending is later than all it had received, so of two rows of one group the one that happened before has no larger
hybrid clock, and a receive or deliver has a larger one than the send: also where clocks go wrong, by up to an hour (beyond that a time of
sending is not believed). Between groups it promises nothing.

Keeps what was sent and received in the turn. Cost: 0.2 µs per range and 0.5 µs per row; nothing per message where ranges are long.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from antiphon.model.control import Holdings, Wants
from antiphon.model.events import (
    Delivery,
    Departed,
    Event,
    Installed,
    MissedMessages,
    NoMajority,
    Orphaned,
    Recovered,
    Stabilised,
    StateArrived,
    Synchronised,
)
from antiphon.model.frames import Batch
from antiphon.model.ids import GroupId, MemberId, MessageId, name_of
from antiphon.model.options import GroupOptions
from antiphon.model.recording import Waits
from antiphon.trace.row import Name
from antiphon.trace.schema import CHECK_EVERY, SHORT
from antiphon.trace.sends import Sends

if TYPE_CHECKING:
    from antiphon.trace.recorder import Recorder

_BELIEVED_S = 3_600.0
"""How far ahead another's time of sending may be."""


class Transcript:
    def __init__(
        self,
        recorder: Recorder,
        group: GroupId,
        member: MemberId,
        options: GroupOptions,
        wants: Wants | None,
        promises: tuple[str, ...],
    ) -> None:
        self._recorder, self._group, self._me = recorder, group, member
        self._options, self._wants, self._promises = options, wants, promises
        self._each = recorder.each
        self._view = self._position = self._hlc = 0
        self._introduced = False
        """Whether there is a row that says what group this is."""
        self._arrived: list[tuple[Batch, int, int]] = []
        self.arrive = self._arrived.append
        self._cuts: list[Mapping[MemberId, int]] = []
        self._states: list[Holdings] = []
        self._stable: dict[MemberId, int] = {}
        self._places = 0
        self._counted: dict[tuple[str, str], int] = {}
        self._sends = Sends(recorder.each)

    # -- what is told ----------------------------------------------------------------------------------------------------------

    def sent(
        self,
        now: float,
        view: int,
        first: int,
        payloads: Sequence[bytes],
        count: int,
        size: int,
        names: Sequence[MessageId] = (),
        note: str | None = None,
    ) -> None:
        sends = self._sends
        if not sends.follows(view, first, note):
            self._flush_sends()
            self._hlc = max(self._hlc, int(now * 1e9))
            sends.begin(view, first, note, self._recorder.clock())
        sends.add(payloads, count, size, names)

    def received(self, batch: Batch, low: int, high: int) -> None:
        self.arrive((batch, low, high))

    def begins(self, cut: Mapping[MemberId, int]) -> None:
        self._cuts.append(dict(cut))

    def adopted(self, have: Holdings) -> None:
        self._states.append(have)

    def end_turn(self, now: float, latest: float, events: Sequence[Event], waits: Waits | None) -> None:
        """Writes the rows of a turn. Written out for speed: this is where the rows of all messages are made."""
        recorder = self._recorder
        arrived = self._arrived
        if not recorder.open:
            arrived.clear()
            return
        self._flush_sends()
        if not arrived and not events:
            return
        at, wall = recorder.clock()
        hlc = self._hlc = max(self._hlc, int(now * 1e9), int(latest * 1e9) + 1 if latest < now + _BELIEVED_S and latest > 0.0 else 0)
        group, me = self._group, self._me
        rows = recorder.rows if len(recorder.rows) < recorder.limit else []
        append, index, before = rows.append, recorder.index, recorder.index
        sender, view, first, last = "", 0, 0, 0
        for batch, low, high in arrived:
            if low == last + 1 and batch.sender == sender and batch.view == view:
                last = high
                continue
            if sender:
                append((index, "receive", at, wall, hlc, group, me, view, sender, first, last, 0, 0, None, None, None, None))
                index += 1
            sender, view, first, last = batch.sender, batch.view, low, high
        if sender:
            append((index, "receive", at, wall, hlc, group, me, view, sender, first, last, 0, 0, None, None, None, None))
            index += 1
        sender, position = "", self._position
        each, next_check = self._each, 0
        checks: list[int] = []
        pieces: list[Delivery] = []
        for event in events:
            if type(event) is tuple:
                batch, low, high = event
                if low == last + 1 and batch.sender == sender and batch.view == view:
                    last = high
                    if each or last - first < SHORT:
                        pieces.append(event)
                    while next_check <= high:
                        checks.append(crc32(batch.payloads[next_check - batch.first]))
                        next_check += CHECK_EVERY
                    continue
            if sender:
                if each or last - first < SHORT:
                    checks = _all_checks(pieces)
                append((index, "deliver", at, wall, hlc, group, me, view, sender, first, last, position, 0, None, None, checks, None))
                index += 1
                position += last - first + 1
                sender = ""
            if type(event) is tuple:
                pieces, checks = [event], []
                batch, first, last = event
                sender, view = batch.sender, batch.view
                next_check = first + -first % CHECK_EVERY
                while next_check <= last:
                    checks.append(crc32(batch.payloads[next_check - batch.first]))
                    next_check += CHECK_EVERY
            else:
                recorder.index, self._position = index, position
                if rows is recorder.rows:
                    self._tell(event)
                else:
                    self._tell_in_vain(event)
                index, position = recorder.index, self._position
        if sender:
            if each or last - first < SHORT:
                checks = _all_checks(pieces)
            append((index, "deliver", at, wall, hlc, group, me, view, sender, first, last, position, 0, None, None, checks, None))
            index += 1
            position += last - first + 1
        self._position = position
        recorder.index = index
        if rows is not recorder.rows:
            recorder.dropped += index - before
        if waits is not None and arrived:
            self._hold(waits)
        arrived.clear()

    def sample(
        self,
        view: int,
        stable: Mapping[MemberId, int],
        places: int,
        drops: Mapping[str, int],
        repairs: Mapping[str, int],
        queues: Mapping[str, int],
    ) -> None:
        if view != self._view:
            return  # the application has yet to be told of the view
        self._flush_sends()
        if stable != self._stable:
            self._stable = dict(stable)
            names: list[Name] = [(0, sender, number) for sender, number in stable.items() if number]
            if names:
                self._add("stable", view=view, names=names)
        if places != self._places:
            self._places = places
            self._add("stable", view=view, amount=places, note="places")
        for kind, counts in (("drop", drops), ("repair", repairs)):
            for note, count in counts.items():
                since = count - self._counted.get((kind, note), 0)
                if since > 0:
                    self._counted[kind, note] = count
                    self._add(kind, amount=since, note=note)
        for note, length in queues.items():
            if length != self._counted.get(("queue", note), 0):
                self._counted["queue", note] = length
                self._add("queue", amount=length, note=note)

    def flush(self) -> None:
        """Writes what was sent and received in a turn that has not ended."""
        self.end_turn(0.0, 0.0, (), None)

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _flush_sends(self) -> None:
        sends, recorder = self._sends, self._recorder
        if not sends.count or not recorder.open:
            return
        if len(recorder.rows) < recorder.limit:
            head = (recorder.index, "send", *sends.clocks, self._hlc, self._group, self._me, sends.view, self._me)
            said = (None, sends.names or None, sends.checks, sends.note)
            recorder.rows.append((*head, sends.first, sends.last, 0, sends.size, *said))
        else:
            recorder.dropped += 1
        recorder.index += 1
        sends.count = 0

    def _add(self, kind: str, **columns: Any) -> None:
        self._recorder.add(kind, hlc=self._hlc, group=self._group, member=self._me, **columns)

    def _hold(self, waits: Waits) -> None:
        for batch, low, high in self._arrived:
            for first, last, names in waits(batch, low, high):
                told: list[Name] = [(0, sender, number) for sender, number in names]
                self._add("hold", view=batch.view, sender=batch.sender, first=first, last=last, names=told)

    def _deliver(self, batch: Batch, low: int, high: int, note: str, names: Sequence[MessageId] = ()) -> None:
        if batch.sent_at > 0.0:
            self._hlc = max(self._hlc, int(batch.sent_at * 1e9) + 1)
        self._add(
            "deliver",
            view=batch.view,
            sender=batch.sender,
            first=low,
            last=high,
            position=self._position,
            names=[(low, sender, number) for sender, number in names] or None,
            checks=_all_checks([(batch, low, high)]),
            note=note,
        )
        self._position += high - low + 1

    def _tell(self, event: Event) -> None:
        """Writes the row of an event that is no ordinary delivery."""
        if type(event) is Orphaned:
            self._deliver(event.batch, event.seqno, event.seqno, "orphaned", event.missing)
        elif type(event) is Recovered:
            self._deliver(event.batch, event.low, event.high, "recovered", event.missing)
        elif type(event) is Installed:
            self._install(event)
        elif type(event) is MissedMessages:
            self._lose(event.lost, None)
        elif type(event) is StateArrived:
            self._lose(self._states.pop(0) if self._states else {}, "state")
        elif type(event) is Synchronised:
            self._add("settled", view=event.view.id)
        elif type(event) is Stabilised:
            self._add("settled", view=event.view.id, note="stable")
        elif type(event) is NoMajority:
            self._add("settled", view=event.view.id, note="stopped")
        elif type(event) is Departed:
            self._add("leave", view=self._view, amount=event.unsaid, note=event.reason)
            self._recorder.forget(self)

    def _tell_in_vain(self, event: Event) -> None:
        """There is no room for rows: what later ones depend on goes on all the same, and one row is missed."""
        self._recorder.index += 1
        if type(event) is Installed:
            self._view = event.view.id
            self._places, self._stable = 0, {}
            del self._cuts[:1]
        elif type(event) is StateArrived:
            del self._states[:1]
        elif type(event) is Departed:
            self._recorder.forget(self)
        elif type(event) is Orphaned:
            self._position += 1
        elif type(event) is Recovered:
            self._position += event.high - event.low + 1

    def _install(self, event: Installed) -> None:
        if not self._introduced:
            self._introduced = True
            wants = "founder" if self._wants is None else self._wants.kind
            options = msgspec.structs.asdict(self._options)
            about = {"name": name_of(self._group), **options, "promises": [*self._promises], "wants": wants}
            self._add("group", view=event.view.id, note=json.dumps(about))
        view, previous = event.view, event.previous
        self._view, self._places, self._stable = view.id, 0, {}
        cut = self._cuts.pop(0) if self._cuts else {}
        told: dict[str, object] = {"coordinator": view.members[0], "previous": previous.id if previous else 0}
        told |= {"makers": view.makers} if view.makers else {}
        told |= {"sides": event.sides} if event.sides else {}
        names: list[Name] = [(0, sender, number) for sender, number in cut.items() if number]
        self._add("view", view=view.id, members=[*view.members], names=names or None, note=json.dumps(told))

    def _lose(self, lost: Holdings, note: str | None) -> None:
        for sender, flat in lost.items():
            for low, high in zip(flat[::2], flat[1::2], strict=True):
                self._add("gap", view=self._view, sender=sender, first=low, last=high, note=note)


def _all_checks(pieces: Sequence[Delivery]) -> list[int]:
    """The checksum of each message."""
    return [crc32(payload) for batch, low, high in pieces for payload in batch.payloads[low - batch.first : high + 1 - batch.first]]
