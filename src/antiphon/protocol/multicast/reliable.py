"""reliable: if any member that stays in the view delivers a message, all that stay deliver it.

Keeps every frame, own and received, until all members of the view have it: about `window` messages per sender, because a sender that
keeps its window is never further ahead of the slowest member. Cost of a batch that arrives in order: one dictionary entry and
one list append beyond handing it up, whatever the group's size; digests cost O(members) each, requests only what was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from antiphon.model import codec
from antiphon.model.events import Why
from antiphon.model.frames import SEQNO_LIMIT, Batch, Digest, Fragment, Nack, Record, Stamp
from antiphon.model.ids import MemberId, MessageId, name_of
from antiphon.model.view import View
from antiphon.protocol.multicast.flush import Flush, parse_target
from antiphon.protocol.multicast.gate import Gate
from antiphon.protocol.multicast.multicast import Handler, Multicast, batch_of
from antiphon.protocol.multicast.records import Records
from antiphon.protocol.multicast.repair import Repair
from antiphon.protocol.multicast.stability import Stability
from antiphon.protocol.multicast.stream import Stream
from antiphon.protocol.stage import CLOCK_LIMIT_S, Context, OnAccept, Ordering


class Reliable(Multicast):
    promises = ("agreement", "nothing_lost", "virtual_synchrony")
    forwards = False
    """Whether a frame is sent on by those who receive it."""

    def __init__(self, context: Context, ordering: Ordering, on_accept: OnAccept | None) -> None:
        super().__init__(context, ordering, on_accept)
        self.window = context.options.window
        self._own_waits = type(ordering).own_delivered is not Ordering.own_delivered
        self._calm = not self._own_waits and type(ordering).flush is Ordering.flush
        """Whether an order that delivers what comes wants nothing of the end of a turn: neither to say something, nor that it is asked
        for credit."""
        self.records = Records(ordering.accept_record)
        self.record_streams: dict[MemberId, Stream] = {}
        self.streams = self._number_streams()
        self.stability: Stability = Stability(context, self.streams, self.reach, ordering.own_delivered)
        self.repair = Repair(context, self.streams)
        self._looked = 0
        self.gate: Gate | None = None
        if context.options.delivery == "safe":
            self.gate = Gate(self.accept, self.records, self.stability)
            self.accept = self.gate.hold
        self._flush: Flush | None = None

    def usual_handlers(self) -> dict[type, Handler]:
        return super().usual_handlers() | {Record: self.receive_record, Digest: self.receive_digest, Nack: self.receive_nack}

    def _choose_handlers(self) -> None:
        super()._choose_handlers()
        self.repair.rest(self.resting)

    def _number_streams(self) -> list[Stream]:
        """All streams of the view, by index: data by rank, then records by rank."""
        data = list(self.data.values())
        if self.ordering.makes_records:
            self.record_streams = {stream.sender: Stream(len(data) + stream.index, stream.sender) for stream in data}
            self.records.reset(self.record_streams.values())
        return data + list(self.record_streams.values())

    def reach(self, stream: Stream) -> int:
        """How far a stream's sender may be ahead of the slowest member. A record stream numbers the messages of all. What was agreed on
        at the end of a view may lie anywhere."""
        if self.frozen:
            return SEQNO_LIMIT
        return self.window if stream.index < len(self.data) else self.window * len(self.data)

    # -- sending ---------------------------------------------------------------------------------------------------------------

    def is_calm(self) -> bool:
        stability = self.stability
        return self._calm and stability.soon and not stability.due and not self.sends

    def keep(self, stream: Stream, first: int, last: int, wires: Sequence[bytes]) -> None:
        stream.keep(first, last, wires)
        self.stability.news = True
        if (last >= stream.say_at or stream.bytes >= stream.say_at_bytes) and stream is not self.mine:
            self.stability.due = True

    def cast_record(self, count: int, body: Stamp) -> None:
        if self.frozen:
            # It would come too late to be agreed on.
            self.drops["flushing"] += 1
            return
        stream = self.record_streams[self.me]
        first, last = stream.high + 1, stream.high + count
        record = Record(self.context.group, self.me, self.context.view.id, first, last, body)
        stream.high = stream.top = stream.known = last
        wire = codec.encode(record)
        self.keep(stream, first, last, (wire,))
        self.put_on_its_way(self.me, wire)
        self._hand_up_record(stream, record)

    # -- receiving -------------------------------------------------------------------------------------------------------------

    def receive_batch(self, batch: Batch, wire: bytes, source: MemberId | None) -> bool:
        stream = self.data.get(batch.sender)
        if stream is None or stream is self.mine:
            self.stream_of(batch)
            return False
        first, count, high = batch.first, len(batch.payloads), stream.high
        last = first + count - 1
        if (batch.parents is not None or batch.stamp is not None or self.ordering.crowded) and last > high:
            reason = self.ordering.refuses(batch)
            if reason is not None:
                self.drops[reason] += 1
                return False
        if first == high + 1 and stream.top == high and count <= self.window:
            # The way of nearly every batch: it is the next of its stream and nothing lies beyond a gap. `stream_of`, `refused`, `_take`,
            # `keep` and `adopt` are written out above and here.
            stream.high = stream.top = last
            if last > stream.known:
                stream.known = last
            stream.firsts.append(first)
            stream.frames[first] = wire
            if count > 1:
                stream.lasts[first] = last
            stream.bytes = kept = stream.bytes + len(wire)
            stability = self.stability
            stability.news = True
            if last >= stream.say_at or kept >= stream.say_at_bytes:
                stability.due = True
            context, sent_at = self.context, batch.sent_at
            if context.latest < sent_at <= context.now + CLOCK_LIMIT_S:
                context.latest = sent_at
            elif sent_at > context.latest:
                self.drops["clock_ahead"] += 1
            if stream.marks:
                self.repair.fill(stream, first, high)
            if self.forwards and not self.frozen:
                self.forward(stream, wire, source)
            self.accept(batch, first, last)
            return self._calm and stability.soon and not stability.due and not self.sends  # as `is_calm` says
        fresh = self._take(stream, first, last, (wire,), source)
        if fresh:
            self.adopt(batch.sent_at)
        for low, high in fresh:
            self.accept(batch, low, high)
        return False

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
        number, known = fragment.first, stream.known
        if number > stream.high + self.reach(stream):
            self.drops["beyond_window"] += 1
        elif not self.add_part(stream, fragment, wire):
            self.repair.heard(stream, number, fragment.index, source)
            self.repair.note_gap(stream, False, number)
        else:
            if self.forwards and not self.frozen and stream.passes_first(fragment):
                self.forward(stream, wire, source)
            if stream.attempt and number == stream.high + 1:
                self.repair.progress(stream)
            whole = self.assembled(stream, number)
            if whole is None:
                self.repair.note_gap(stream, number > known, number)
            elif not self.refused(whole[0]) and self._take(stream, number, number, whole[1], source, forward=False):
                self.adopt(whole[0].sent_at)
                self.accept(whole[0], number, number)

    def _take(
        self, stream: Stream, first: int, last: int, wires: Sequence[bytes], source: MemberId | None, forward: bool = True
    ) -> list[tuple[int, int]]:
        """The way of everything that is late, early, doubled or overlapping: returns what is new of it."""
        if last > stream.high + self.reach(stream):
            # A sender waits for the slowest member, so it cannot be further ahead of this one than the window.
            self.drops["beyond_window"] += 1
            return []
        before, known = stream.high, stream.known
        fresh = stream.take(first, last)
        if not fresh:
            self.drops["duplicate"] += 1
            if stream.filled:
                self.repair.note_duplicate(stream, first)
            self.repair.heard(stream, first, 0, source)
            return fresh
        for number in [number for number in stream.parts if first <= number <= last]:
            stream.drop_parts(number)
        if first not in stream.frames:
            self.keep(stream, first, last, wires)
        if first <= known and stream.marks:
            self.repair.fill(stream, first, before)
        if stream.high < stream.known:
            self.repair.note_gap(stream, first > known + 1, last)
        if forward and self.forwards and not self.frozen:
            self.forward(stream, wires[0], source)
        return fresh

    def forward(self, stream: Stream, wire: bytes, source: MemberId | None) -> None:
        """Sends a frame on, on first receipt."""

    def bringer(self, stream: Stream) -> MemberId:
        """Return the member that sends the frames of a stream to this one: on the same link its digest cannot overtake them."""
        return stream.sender

    def receive_digest(self, digest: Digest, wire: bytes, source: MemberId | None) -> None:
        if not self._is_its_own(digest, source):
            return
        have, start = digest.have, digest.start
        if self.gate is not None:
            self.gate.pending = True
        if digest.catching_up or self.stability.catching_up:
            self.stability.note_catching_up(digest.member, digest.catching_up)
        if not have:
            behind = self.stability.positions_behind(digest.member, digest.check)
            if behind is None:
                self.repair.ask_positions(digest.member)
            elif not digest.catching_up:
                self.stability.note_said(digest.member, behind)
            if not behind:
                return
            have, start = behind, 0
        streams = self.streams[start : start + len(have)]
        tops = have if digest.tops is None else digest.tops
        if len(streams) != len(have) or len(tops) != len(have):
            self.drops["malformed"] += 1
            return
        if len(have) == len(self.streams) and not digest.catching_up:
            self.stability.note_said(digest.member, have)
        for stream, top in zip(streams, tops, strict=True):
            if top > stream.known and stream.sender != self.me and not self.frozen:
                # No further than the window: what lies beyond would not be taken yet, and may be a lie.
                stream.known = max(stream.known, min(top, stream.high + self.reach(stream)))
                self.repair.note_gap(stream, True, top if self.bringer(stream) == digest.member else 0)
            elif stream.marks and stream.vouched < top and stream.vouched < stream.known and self.bringer(stream) == digest.member:
                self.repair.note_gap(stream, False, top)
        if streams:
            # One stream of each digest shows often enough which come first here, messages or what others tell of them.
            self._looked = at = (self._looked + 1) % len(streams)
            stream, row = streams[at], self.stability.rows[self.stability.rank_by_member[digest.member]]
            if row[start + at] < have[at] <= stream.high and self.me != stream.sender and self.bringer(stream) != digest.member:
                self.repair.note_level(stream)
        if self.stability.take(digest.member, start, have):
            self.stability.forget_own()

    def receive_aimed(self, frame: Batch | Fragment | Record, wire: bytes, source: MemberId | None) -> None:
        stream = (self.record_streams if type(frame) is Record else self.data).get(frame.sender)
        last = frame.first if type(frame) is Fragment else frame.last  # type: ignore[union-attr]
        if stream is not None and self._flush is not None and not self._flush.contains(stream, frame.first, last):
            self.drops["outside_target"] += 1
        else:
            self.usual[type(frame)](frame, wire, source)

    def receive_unread(self, frame: Batch | Fragment | Record, wire: bytes, source: MemberId | None) -> None:
        super().receive_unread(frame, wire, source)
        stream = (self.record_streams if type(frame) is Record else self.data).get(frame.sender)
        if stream is not None and stream.sender != self.me:
            # That it exists is remembered, as of a digest: it is asked for when the application reads again.
            last = frame.first if type(frame) is Fragment else frame.last  # type: ignore[union-attr]
            stream.known = max(stream.known, min(last, stream.high + self.reach(stream)))

    def receive_nack(self, nack: Nack, wire: bytes, source: MemberId | None) -> None:
        if self._is_its_own(nack, source):
            if nack.wants or nack.parts:
                self.repair.answer(nack)
            else:
                self.stability.tell(nack.member)

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
        # What becomes safe while a view ends is let through with all the rest, at its end.
        return self.gate is not None and not self.frozen and self.gate.release()

    def first_missing(self, members: Iterable[MemberId]) -> MessageId | None:
        for member in members:
            stream = self.data.get(member)
            if stream is not None and stream.high < stream.top:
                return MessageId(member, stream.high + 1)
        return None

    def freeze(self) -> None:
        super().freeze()
        self.repair.freeze()
        self._end_flush()

    def holdings(self) -> list[list[int]]:
        return [stream.holding() for stream in self.streams]

    def aim(self, target: list[list[int]], holders: tuple[MemberId, ...]) -> None:
        parsed = parse_target(target, len(self.streams))
        if parsed is None:
            self.drops["malformed"] += 1
            return
        self._end_flush()
        self.aimed = True
        self._choose_handlers()
        self._flush = Flush(self.context, self.streams, parsed, tuple(name for name in holders if name != self.me and name in self.data))

    @property
    def flushed(self) -> bool:
        return self._flush is not None and self._flush.done

    def _end_flush(self) -> None:
        if self._flush is not None:
            self._flush.stop()
            self._flush = None

    def before_view(self) -> None:
        if self.gate is not None:
            self.gate.release_all()
        super().before_view()

    def drop_held(self) -> int:
        return super().drop_held() + (self.gate.drop() if self.gate is not None else 0)

    def kept_after(self) -> int:
        held = self.first_own_held()
        return self.mine.stable if held is None else min(self.mine.stable, held - 1)

    def sent_after(self, number: int) -> list[Batch]:
        frames = (batch_of(wires) for _, wires in self.mine.covering(number + 1, self.mine.high))
        own = [frame for frame in frames if isinstance(frame, Batch)]
        # What everybody has is no longer kept as a frame, but as long as it waits here it is nobody's yet.
        for waiting in (self.held, self.gate):
            own += () if waiting is None else (batch for batch, _, high in waiting.pieces_of(self.me) if high > number)
        return [batch for _, batch in sorted({batch.first: batch for batch in own}.items())]

    def on_view(self, view: View, starts: dict[MemberId, int]) -> None:
        super().on_view(view, starts)
        for stream in self.data.values():
            # All that come along hold the same; nobody needs a frame of the old view any more.
            stream.forget(stream.high)
            stream.known = stream.high
        self._end_flush()
        self.streams = self._number_streams()
        self.stability.on_view(self.streams)
        self.repair.on_view(self.streams)

    def lead_to(self, accept: OnAccept, accept_record: Callable[[Record], None]) -> None:
        self.records.accept_record = accept_record
        if self.gate is None:
            self.accept = accept
        else:
            self.gate.accept = accept

    def end_hold(self) -> None:
        super().end_hold()
        if self.gate is not None:
            # From now on this member counts.
            self.gate.pending = self.stability.news = self.stability.due = True

    def first_own_held(self) -> int | None:
        gated = self.gate.first_of(self.me) if self.gate is not None else None
        return super().first_own_held() if gated is None else min(gated, super().first_own_held() or gated)

    # -- for the ordering ------------------------------------------------------------------------------------------------------

    def record_room(self) -> int:
        if self.frozen:
            return 0
        stream = self.record_streams[self.me]
        return self.reach(stream) - (stream.high - self.stability.lowest(stream))

    def want(self, ids: Iterable[MessageId]) -> None:
        if self.resting:
            return
        starved: list[tuple[Stream, int]] = []
        for sender, seqno in ids:
            stream = self.data.get(sender)
            if stream is not None and stream.high < seqno <= stream.high + self.window:
                new, stream.known = seqno > stream.known, max(stream.known, seqno)
                self.repair.note_gap(stream, new, seqno)
                if stream.attempt and seqno not in stream.above:
                    starved.append((stream, seqno))
        if starved:
            self.repair.ask_for(starved)

    def repairs(self) -> bool:
        return True

    def disproves(self, child: MessageId, parent: MessageId) -> bool:
        stream = self.data.get(parent.sender)
        if stream is None:
            return False
        if stream is self.mine:
            return stream.high < parent.seqno
        said, source = self.stability.said.get(parent.sender), self.data.get(child.sender)
        if said is None or source is None or said[stream.index] >= parent.seqno or said[source.index] < child.seqno:
            return False
        # Only `want` can have made it known. If it was sent since then, a digest or the next frame will tell.
        stream.forget_known(said[stream.index], self.context.now)
        return True

    # -- questions -------------------------------------------------------------------------------------------------------------

    def credit(self, last: int) -> int:
        """Derived, never counted: window − (last sent − lowest position over the current view)."""
        if self.mine.bytes >= self.settings.window_bytes:
            return 0
        stable = self.stability.own_stable
        if self._own_waits and (delivered := self.ordering.own_delivered()) is not None and delivered < stable:
            stable = delivered
        return self.window - (last - stable)

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

    def contradictions(self) -> list[tuple[str, int, int, int]]:
        """What members claim and what contradicts it: its kind, where it is, the number claimed, and the number that may reach it.

        A `position` is one that a member does not repeat: it is in an earlier digest of the member, and not in the last. A `message` is one
        that somebody has or knows of, and its own sender has not sent yet, as far as that has said."""
        stability, found = self.stability, list[tuple[str, int, int, int]]()
        rows, stated, streams = stability.rows, stability.stated, self.streams
        for (rank, start), have in stated.items():
            for index, (number, before) in enumerate(zip(have, rows[rank][start:], strict=False), start):
                if number < before:
                    found.append(("position", rank * len(streams) + index, before, number))
        for stream in streams:
            index, rank = stream.index, stability.rank_by_member[stream.sender]
            said = stream.high if stream.sender == self.me else rows[rank][index]
            for (whose, start), have in stated.items():
                if whose == rank and start <= index < start + len(have):
                    said = have[index - start]
            claimed = max(stream.known, *(row[index] for row in rows))
            if claimed > said:
                found.append(("message", index, claimed, said))
        return found

    def stable_positions(self) -> dict[MemberId, int]:
        self.stability.settle()
        return self.known_stable()

    def known_stable(self) -> dict[MemberId, int]:
        if self.held is not None or self.stability.catching_up:
            # Who is catching up would drop what it holds if the view ended now: nothing of this view is certain.
            return {member: self.stability.start[stream.index] for member, stream in self.data.items()}
        return {member: stream.stable for member, stream in self.data.items()}

    def proven(self) -> int:
        return self.known_stable()[self.context.me]

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
