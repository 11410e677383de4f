"""reliable: if any member that stays in the view delivers a message, all that stay deliver it.

Keeps every frame, own and received, until all members of the view have it: at most `window` messages per sender, because no
sender may be further ahead of the slowest member. Cost of a batch that arrives in order: one dictionary entry and one list
append beyond handing it up, whatever the group's size; digests cost O(members) each, requests only what was lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from antiphon.model import codec
from antiphon.model.events import Why
from antiphon.model.frames import Batch, Digest, Fragment, Nack, Record, Stamp
from antiphon.model.ids import MemberId, MessageId, name_of
from antiphon.model.view import View
from antiphon.protocol.multicast.besteffort import BestEffort
from antiphon.protocol.multicast.gate import Gate
from antiphon.protocol.multicast.records import Records
from antiphon.protocol.multicast.repair import Repair
from antiphon.protocol.multicast.stability import Stability
from antiphon.protocol.multicast.stream import Stream
from antiphon.protocol.stage import Context, OnAccept, Ordering


class Reliable(BestEffort):
    forwards = False
    """Whether a frame is sent on by those who receive it."""

    def __init__(self, context: Context, ordering: Ordering, on_accept: OnAccept | None) -> None:
        super().__init__(context, ordering, on_accept)
        self.window = context.options.window
        self.records = Records(ordering)
        self.streams = self._number_streams()
        self.stability = Stability(context, self.streams)
        self.repair = Repair(context, self.streams)
        self.gate: Gate | None = None
        if context.options.delivery == "safe":
            self.gate = Gate(self.accept, self.records, self.stability)
            self.accept = self.gate.hold
        self.handlers |= {Record: self.receive_record, Digest: self.receive_digest, Nack: self.repair.receive_nack}

    def _number_streams(self) -> list[Stream]:
        """All streams of the view, by index: data by rank, then records by rank."""
        data = list(self.data.values())
        if not self.ordering.makes_records:
            return data
        self.record_streams = {stream.sender: Stream(len(data) + stream.index, stream.sender) for stream in data}
        self.records.reset(self.record_streams.values())
        return data + list(self.record_streams.values())

    # -- sending ---------------------------------------------------------------------------------------------------------------

    def send(self, wire: bytes) -> None:
        if len(self.data) > 1:
            super().send(wire)

    def keep(self, stream: Stream, first: int, last: int, wires: Sequence[bytes]) -> None:
        stream.keep(first, last, wires)
        self.stability.news = True
        if last >= stream.say_at and stream is not self.mine:
            self.stability.due = True

    def cast_record(self, count: int, body: Stamp) -> None:
        stream = self.record_streams[self.me]
        first, last = stream.high + 1, stream.high + count
        record = Record(self.context.group, self.me, self.context.view.id, first, last, body)
        stream.high = stream.top = stream.known = last
        wire = codec.encode(record)
        self.keep(stream, first, last, (wire,))
        self.send(wire)
        self._hand_up_record(stream, record)

    # -- receiving -------------------------------------------------------------------------------------------------------------

    def receive_batch(self, batch: Batch, wire: bytes, source: MemberId | None) -> None:
        stream = self.data.get(batch.sender)
        if stream is None or stream is self.mine:
            self.drops["not_a_member" if stream is None else "own_frame"] += 1
            return
        first = batch.first
        count = len(batch.payloads)
        last = first + count - 1
        if (batch.parents is not None or batch.stamp is not None) and last > stream.high:
            reason = self.ordering.refuses(batch)
            if reason is not None:
                self.drops[reason] += 1
                return
        if first == stream.high + 1 and stream.top == stream.high and count <= self.window:
            # The way of nearly every batch: it is the next of its stream and nothing lies beyond a gap.
            stream.high = stream.top = last
            if last > stream.known:
                stream.known = last
            if stream.attempt:
                self.repair.filled(stream)
            stream.firsts.append(first)
            stream.frames[first] = (last, (wire,))
            stream.bytes += len(wire)
            stability = self.stability
            stability.news = True
            if last >= stream.say_at:
                stability.due = True
            if self.forwards:
                self.forward(stream, wire, source)
            self.accept(batch, first, last)
            return
        fresh = self._take(stream, first, last, wire, source)
        for low, high in fresh:
            self.accept(batch, low, high)

    def receive_record(self, record: Record, wire: bytes, source: MemberId | None) -> None:
        stream = self.record_streams.get(record.sender) if self.ordering.makes_records else None
        if stream is None or record.last < record.first or record.sender == self.me:
            self.drops["unexpected_record" if record.sender != self.me else "own_frame"] += 1
        elif self._take(stream, record.first, record.last, wire, source):
            self._hand_up_record(stream, record)

    def receive_fragment(self, fragment: Fragment, wire: bytes, source: MemberId | None) -> None:
        stream = self.data.get(fragment.sender)
        if stream is None or stream is self.mine:
            self.drops["not_a_member" if stream is None else "own_frame"] += 1
        elif fragment.first > stream.high + self.window:
            self.drops["beyond_window"] += 1
        elif not self.add_part(stream, fragment, wire):
            self.repair.heard(stream, fragment.first, fragment.index)
        else:
            if self.forwards:
                self.forward(stream, wire, source)
            whole = self.assembled(stream, fragment.first)
            if whole is None:
                self.repair.note_gap(stream)
                return
            batch, wires = whole
            if (batch.parents is not None or batch.stamp is not None) and (reason := self.ordering.refuses(batch)) is not None:
                self.drops[reason] += 1
            elif stream.take(fragment.first, fragment.first):
                self.keep(stream, fragment.first, fragment.first, wires)
                if stream.attempt:
                    self.repair.filled(stream)
                if stream.high < stream.known:
                    self.repair.note_gap(stream)
                self.accept(batch, fragment.first, fragment.first)

    def _take(self, stream: Stream, first: int, last: int, wire: bytes, source: MemberId | None) -> list[tuple[int, int]]:
        """The way of everything that is late, early, doubled or overlapping: returns what is new of it."""
        if last > stream.high + self._reach(stream):
            # A sender waits for the slowest member, so it cannot be further ahead of this one than the window.
            self.drops["beyond_window"] += 1
            return []
        fresh = stream.take(first, last)
        if not fresh:
            self.drops["duplicate"] += 1
            self.repair.heard(stream, first)
            return fresh
        for number in [number for number in stream.parts if first <= number <= last]:
            stream.drop_parts(number)
        if first not in stream.frames:
            self.keep(stream, first, last, (wire,))
        if stream.attempt:
            self.repair.filled(stream)
        if stream.high < stream.known:
            self.repair.note_gap(stream)
        if self.forwards:
            self.forward(stream, wire, source)
        return fresh

    def receive_digest(self, digest: Digest, wire: bytes, source: MemberId | None) -> None:
        rank = self.stability.rank_by_member.get(digest.member)
        tops = digest.have if digest.tops is None else digest.tops
        if digest.member == self.me:
            self.drops["own_frame"] += 1
            return
        if rank is None or len(digest.have) != len(self.streams) or len(tops) != len(self.streams):
            self.drops["malformed"] += 1
            return
        for stream, top in zip(self.streams, tops, strict=True):
            if top > stream.known:
                # No further than the window: what lies beyond would not be taken yet, and may be a lie.
                stream.known = max(stream.known, min(top, stream.high + self._reach(stream)))
                self.repair.note_gap(stream)
        if self.gate is not None:
            self.gate.pending = True
        if self.stability.take(rank, digest.have):
            self.mine.forget(self.stability.own_stable)

    def _reach(self, stream: Stream) -> int:
        """How far a stream's sender may be ahead of the slowest member. A record stream numbers the messages of all."""
        return self.window if stream.index < len(self.data) else self.window * len(self.data)

    def forward(self, stream: Stream, wire: bytes, source: MemberId | None) -> None:
        """Sends a frame on, on first receipt: here, nobody does."""

    def _hand_up_record(self, stream: Stream, record: Record) -> None:
        self.records.take(stream, record)
        if self.gate is None:
            self.records.hand_up(stream, stream.high)
        else:
            self.gate.pending = True

    # -- the turn, the view ----------------------------------------------------------------------------------------------------

    def release(self) -> bool:
        return self.gate is not None and self.gate.release()

    def flush(self) -> None:
        self.stability.flush()

    def before_view(self, previous: View) -> None:
        if self.gate is not None:
            self.gate.release_all()

    def on_view(self, view: View, previous: View, cut: dict[MemberId, int]) -> None:
        super().on_view(view, previous, cut)
        for stream in self.data.values():
            # All that come along hold the same; nobody needs a frame of the old view any more.
            stream.forget(stream.top)
            for number in list(stream.parts):
                self.drops["abandoned_fragment"] += stream.drop_parts(number)
            stream.high = stream.known = stream.top
            stream.above.pop_up_to(stream.top)
            stream.attempt = 0
        self.streams = self._number_streams()
        self.stability.on_view(self.streams)
        self.repair.on_view(self.streams)

    # -- questions -------------------------------------------------------------------------------------------------------------

    def credit(self, last: int) -> int:
        """Derived, never counted: window − (last sent − lowest position over the current view)."""
        if self.mine.bytes >= self.settings.window_bytes:
            return 0
        stable, delivered = self.stability.own_stable, self.ordering.own_delivered()
        return self.window - (last - (stable if delivered is None else min(stable, delivered)))

    def record_room(self) -> int:
        stream = self.record_streams[self.me]
        return self._reach(stream) - (stream.high - self.stability.lowest(stream))

    def congestion(self) -> str:
        slowest, lag = self.stability.slowest()
        if self.mine.bytes >= self.settings.window_bytes:
            return f"{self.mine.bytes:,} bytes are not yet everywhere and at most {self.settings.window_bytes:,} may be"
        delivered = self.ordering.own_delivered()
        if delivered is not None and self.mine.high - delivered >= self.window:
            return f"{self.mine.high - delivered:,} own messages wait for their place and the window is {self.window:,}"
        if lag < self.window:
            return f"the open batch fills the window of {self.window:,} messages"
        return f"{name_of(slowest)} is {lag:,} messages behind and the window is {self.window:,}"

    def want(self, ids: Iterable[MessageId]) -> None:
        for sender, seqno in ids:
            stream = self.data.get(sender)
            if stream is not None and stream.high < seqno <= stream.high + self.window:
                stream.known = max(stream.known, seqno)
                self.repair.note_gap(stream)

    def repairs(self) -> bool:
        return True

    def level(self) -> bool:
        return all(stream.high >= stream.known for stream in self.streams)

    def stable_positions(self) -> dict[MemberId, int]:
        self.stability.settle()
        return {member: stream.stable for member, stream in self.data.items()}

    def why(self, message: MessageId) -> Why:
        stream = self.data.get(message.sender)
        if stream is not None and stream.high < message.seqno <= stream.known and message.seqno not in stream.above:
            asked = f"was asked for {stream.attempt} times" if stream.attempt else "will be asked for"
            half = " and is half here" if message.seqno in stream.parts else ""
            return Why("missing", f"exists{half}; it {asked}", (message,))
        if self.gate is not None and stream is not None and self.gate.holds(message):
            return Why("held", "is here and waits until a majority of the view has it")
        return super().why(message)

    def stats(self) -> dict[str, object]:
        return {
            **super().stats(),
            "kept_frames": sum(len(stream.firsts) for stream in self.streams),
            "kept_bytes": sum(stream.bytes for stream in self.streams),
            "gaps": sum(stream.known - stream.high for stream in self.streams),
            "requests_sent": self.repair.requests_sent,
            "repairs_sent": self.repair.repairs_sent,
            "digests_sent": self.stability.digests_sent,
            "lag_by_member": {name_of(member): lag for member, lag in self.stability.lags()},
        }
