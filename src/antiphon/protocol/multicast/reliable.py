"""reliable: if any member that stays in the view delivers a message, all that stay deliver it.

Keeps every frame, own and received, until all members of the view have it: about `window` messages per sender, because a sender that
keeps its window is never further ahead of the slowest member. Cost of a batch that arrives in order: one dictionary entry and
one list append beyond handing it up, whatever the group's size; digests cost O(members) each, requests only what was lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from antiphon.model import codec
from antiphon.model.events import Why
from antiphon.model.frames import Batch, Digest, Fragment, Nack, Record, Stamp
from antiphon.model.ids import MemberId, MessageId, name_of
from antiphon.model.view import View
from antiphon.protocol.multicast.gate import Gate
from antiphon.protocol.multicast.multicast import Multicast
from antiphon.protocol.multicast.records import Records
from antiphon.protocol.multicast.repair import Repair
from antiphon.protocol.multicast.stability import Stability
from antiphon.protocol.multicast.stream import Stream
from antiphon.protocol.stage import Context, OnAccept, Ordering


class Reliable(Multicast):
    forwards = False
    """Whether a frame is sent on by those who receive it."""

    def __init__(self, context: Context, ordering: Ordering, on_accept: OnAccept | None) -> None:
        super().__init__(context, ordering, on_accept)
        self.window = context.options.window
        self.records = Records(ordering)
        self.record_streams: dict[MemberId, Stream] = {}
        self.streams = self._number_streams()
        self.stability = Stability(context, self.streams, self.reach)
        self.repair = Repair(context, self.streams)
        self.gate: Gate | None = None
        if context.options.delivery == "safe":
            self.gate = Gate(self.accept, self.records, self.stability)
            self.accept = self.gate.hold
        self.handlers |= {Record: self.receive_record, Digest: self.receive_digest, Nack: self.receive_nack}

    def _number_streams(self) -> list[Stream]:
        """All streams of the view, by index: data by rank, then records by rank."""
        data = list(self.data.values())
        if self.ordering.makes_records:
            self.record_streams = {stream.sender: Stream(len(data) + stream.index, stream.sender) for stream in data}
            self.records.reset(self.record_streams.values())
        return data + list(self.record_streams.values())

    def reach(self, stream: Stream) -> int:
        """How far a stream's sender may be ahead of the slowest member. A record stream numbers the messages of all."""
        return self.window if stream.index < len(self.data) else self.window * len(self.data)

    # -- sending ---------------------------------------------------------------------------------------------------------------

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
        self.put_on_its_way(self.me, wire)
        self._hand_up_record(stream, record)

    # -- receiving -------------------------------------------------------------------------------------------------------------

    def receive_batch(self, batch: Batch, wire: bytes, source: MemberId | None) -> None:
        stream = self.data.get(batch.sender)
        if stream is None or stream is self.mine:
            self.stream_of(batch)
            return
        first = batch.first
        count = len(batch.payloads)
        last = first + count - 1
        if (batch.parents is not None or batch.stamp is not None or self.ordering.crowded) and last > stream.high:
            reason = self.ordering.refuses(batch)
            if reason is not None:
                self.drops[reason] += 1
                return
        if first == stream.high + 1 and stream.top == stream.high and count <= self.window:
            # The way of nearly every batch: it is the next of its stream and nothing lies beyond a gap. `stream_of`, `refused`, `_take` and
            # `keep` are written out above and here.
            stream.high = stream.top = last
            if last > stream.known:
                stream.known = last
            stream.firsts.append(first)
            stream.frames[first] = (last, (wire,))
            stream.bytes += len(wire)
            stability = self.stability
            stability.news = True
            if last >= stream.say_at:
                stability.due = True
            if stream.attempt:
                self.repair.progress(stream)
            if self.forwards:
                self.forward(stream, wire, source)
            self.accept(batch, first, last)
            return
        for low, high in self._take(stream, first, last, (wire,), source):
            self.accept(batch, low, high)

    def receive_record(self, record: Record, wire: bytes, source: MemberId | None) -> None:
        stream = self.record_streams.get(record.sender)
        if stream is None or record.last < record.first or record.sender == self.me:
            self.drops["own_frame" if record.sender == self.me else "unexpected_record"] += 1
            return
        fresh = self._take(stream, record.first, record.last, (wire,), source)
        if fresh == [(record.first, record.last)]:
            self._hand_up_record(stream, record)
        elif fresh:
            # A sequencer never says a number twice in different records.
            self.drops["malformed_record"] += 1

    def receive_fragment(self, fragment: Fragment, wire: bytes, source: MemberId | None) -> None:
        stream = self.stream_of(fragment)
        if stream is None:
            return
        number = fragment.first
        if number > stream.high + self.window:
            self.drops["beyond_window"] += 1
        elif not self.add_part(stream, fragment, wire):
            self.repair.heard(stream, number, fragment.index, source)
        else:
            if self.forwards and stream.passes_first(fragment):
                self.forward(stream, wire, source)
            if stream.attempt and number == stream.high + 1:
                self.repair.progress(stream)
            whole = self.assembled(stream, number)
            if whole is None:
                self.repair.note_gap(stream)
            elif not self.refused(whole[0]) and self._take(stream, number, number, whole[1], source, forward=False):
                self.accept(whole[0], number, number)

    def _take(
        self, stream: Stream, first: int, last: int, wires: Sequence[bytes], source: MemberId | None, forward: bool = True
    ) -> list[tuple[int, int]]:
        """The way of everything that is late, early, doubled or overlapping: returns what is new of it."""
        if last > stream.high + self.reach(stream):
            # A sender waits for the slowest member, so it cannot be further ahead of this one than the window.
            self.drops["beyond_window"] += 1
            return []
        before = stream.high
        fresh = stream.take(first, last)
        if not fresh:
            self.drops["duplicate"] += 1
            self.repair.heard(stream, first, 0, source)
            return fresh
        for number in [number for number in stream.parts if first <= number <= last]:
            stream.drop_parts(number)
        if first not in stream.frames:
            self.keep(stream, first, last, wires)
        if stream.attempt and stream.high > before:
            self.repair.progress(stream)
        if stream.high < stream.known:
            self.repair.note_gap(stream)
        if forward and self.forwards:
            self.forward(stream, wires[0], source)
        return fresh

    def forward(self, stream: Stream, wire: bytes, source: MemberId | None) -> None:
        """Sends a frame on, on first receipt."""

    def receive_digest(self, digest: Digest, wire: bytes, source: MemberId | None) -> None:
        if not self._is_its_own(digest, source):
            return
        streams = self.streams[digest.start : digest.start + len(digest.have)]
        tops = digest.have if digest.tops is None else digest.tops
        if len(streams) != len(digest.have) or len(tops) != len(digest.have):
            self.drops["malformed"] += 1
            return
        for stream, top in zip(streams, tops, strict=True):
            if top > stream.known and stream.sender != self.me:
                # No further than the window: what lies beyond would not be taken yet, and may be a lie.
                stream.known = max(stream.known, min(top, stream.high + self.reach(stream)))
                self.repair.note_gap(stream)
        if self.gate is not None:
            self.gate.pending = True
        if self.stability.take(digest.member, digest.start, digest.have):
            self.mine.forget(self.stability.own_stable)

    def receive_nack(self, nack: Nack, wire: bytes, source: MemberId | None) -> None:
        if self._is_its_own(nack, source):
            self.repair.answer(nack)

    def _is_its_own(self, frame: Digest | Nack, source: MemberId | None) -> bool:
        """Whether a frame that is never sent on comes from another member, and from the one it speaks for."""
        if frame.member == self.me:
            self.drops["own_frame"] += 1
        elif frame.member not in self.data:
            self.drops["not_a_member"] += 1
        elif source is not None and source != frame.member:
            self.drops["forged"] += 1
        else:
            return True
        return False

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

    def first_missing(self, members: Iterable[MemberId]) -> MessageId | None:
        for member in members:
            stream = self.data.get(member)
            if stream is not None and stream.high < stream.top:
                return MessageId(member, stream.high + 1)
        return None

    def before_view(self) -> None:
        if self.gate is not None:
            self.gate.release_all()

    def on_view(self, view: View, cut: dict[MemberId, int]) -> None:
        super().on_view(view, cut)
        for stream in self.data.values():
            # All that come along hold the same; nobody needs a frame of the old view any more.
            stream.forget(stream.high)
            stream.known = stream.high
        self.streams = self._number_streams()
        self.stability.on_view(self.streams)
        self.repair.on_view(self.streams)

    # -- for the ordering ------------------------------------------------------------------------------------------------------

    def record_room(self) -> int:
        stream = self.record_streams[self.me]
        return self.reach(stream) - (stream.high - self.stability.lowest(stream))

    def want(self, ids: Iterable[MessageId]) -> None:
        starved: list[tuple[Stream, int]] = []
        for sender, seqno in ids:
            stream = self.data.get(sender)
            if stream is not None and stream.high < seqno <= stream.high + self.window:
                stream.known = max(stream.known, seqno)
                self.repair.note_gap(stream)
                if stream.attempt and seqno not in stream.above:
                    starved.append((stream, seqno))
        if starved:
            self.repair.ask_for(starved)

    def repairs(self) -> bool:
        return True

    # -- questions -------------------------------------------------------------------------------------------------------------

    def credit(self, last: int) -> int:
        """Derived, never counted: window − (last sent − lowest position over the current view)."""
        if self.mine.bytes >= self.settings.window_bytes:
            return 0
        stable, delivered = self.stability.own_stable, self.ordering.own_delivered()
        return self.window - (last - (stable if delivered is None else min(stable, delivered)))

    def congestion(self) -> str:
        if self.mine.bytes >= self.settings.window_bytes:
            return f"{self.mine.bytes:,} bytes are not yet everywhere and at most {self.settings.window_bytes:,} may be"
        slowest, lag = self.stability.slowest()
        if lag >= self.window:
            return f"{name_of(slowest)} has not acknowledged {lag:,} messages and the window is {self.window:,}"
        delivered = self.ordering.own_delivered()
        if delivered is not None and self.mine.high - delivered >= self.window:
            return f"{self.mine.high - delivered:,} own messages wait for their place and the window is {self.window:,}"
        return f"the open batch fills the window of {self.window:,} messages"

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
        if self.gate is not None and self.gate.holds(message):
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
            "lag_by_member": dict(self.stability.lags()),
        }
