"""Requests for what is missing, and the answers to them.

A request goes to everyone. Who hears another's request for what it misses too puts its own off. The stream's sender answers at
once: to the asker alone, or to all when another member asked for the same a moment ago. A repeated request means that the sender
is gone or unreachable: then whoever holds the frame answers after a random pause, to all, unless an answer is heard first. The
pause between requests follows the time that answers took. An answer is the original frame, byte for byte.

Keeps one deadline per stream with a gap, and the frames answered lately, both bounded.
"""

from __future__ import annotations

from antiphon.model import codec
from antiphon.model.frames import Nack
from antiphon.model.ids import MemberId
from antiphon.protocol.multicast.stream import Stream
from antiphon.protocol.stage import Context
from antiphon.protocol.timers import Timer

_RANGES_PER_REQUEST = 64
_ANSWERS_LIMIT = 4_096
"""Frames that wait to be sent as an answer, and answers remembered."""


class Repair:
    def __init__(self, context: Context, streams: list[Stream]) -> None:
        self.context, self.settings, self.drops = context, context.settings, context.drops
        self.requests_sent = self.repairs_sent = 0
        self._answer_s = 0.0
        """How long an answer takes to come, smoothed."""
        self._timer: Timer | None = None
        self._answer_timer: Timer | None = None
        self.on_view(streams)

    def on_view(self, streams: list[Stream]) -> None:
        self.streams = streams
        self._gapped: dict[int, Stream] = {}
        self._answers: dict[tuple[int, int, int], float] = {}
        """(stream, first, part) of a frame to when it will be sent to all, unless somebody else does it first."""
        self._answered: dict[tuple[int, int, int], tuple[float, MemberId | None]] = {}
        """(stream, first, part) to when, and to whom alone, it was sent."""

    # -- asking ----------------------------------------------------------------------------------------------------------------

    def note_gap(self, stream: Stream) -> None:
        """Something of the stream is missing, at least for now."""
        if stream.index not in self._gapped and stream.high < stream.known:
            self._gapped[stream.index] = stream
            stream.attempt = 0
            self._ask_at(stream, self.settings.nack_s * self.context.rng.uniform(0.5, 1.5))

    def filled(self, stream: Stream) -> None:
        """Something that had been asked for is here: learns how long that takes, and asks for the rest soon."""
        self._answer_s += 0.125 * (self.context.now - stream.asked_at - self._answer_s)
        stream.attempt = 0
        if stream.high < stream.known:
            self._ask_at(stream, self.settings.nack_s * self.context.rng.uniform(0.5, 1.5))

    def _ask(self) -> None:
        now, settings = self.context.now, self.settings
        wants: list[tuple[int, int, int, int]] = []
        parts: list[tuple[int, int, list[int], int]] = []
        for stream in list(self._gapped.values()):
            if not stream.gapped:
                del self._gapped[stream.index]
                continue
            if stream.nack_at > now or len(wants) + len(parts) >= _RANGES_PER_REQUEST:
                continue
            for low, high in stream.gaps()[:_RANGES_PER_REQUEST]:
                wants.append((stream.index, low, high, stream.attempt))
            for number, (count, here) in list(stream.parts.items())[:_RANGES_PER_REQUEST]:
                absent = [index for index in range(count) if index not in here][: settings.repair_frames]
                parts.append((stream.index, number, absent, stream.attempt))
            if not stream.attempt:
                stream.asked_at = now
            # Asking again before an answer can be here would only bring it twice.
            pause = max(settings.nack_s, 2 * self._answer_s) * 2**stream.attempt
            stream.attempt += 1
            stream.nack_at = now + min(pause, settings.nack_max_s) * self.context.rng.uniform(0.75, 1.25)
        if wants or parts:
            self.requests_sent += 1
            nack = Nack(self.context.group, self.context.me, self.context.view.id, wants, parts)
            self.context.outbox.sends.append((None, codec.encode(nack)))
        if self._gapped:
            self._arm(max(min(stream.nack_at for stream in self._gapped.values()), now))

    def _put_off(self, stream: Stream, low: int, high: int) -> None:
        """Another member asks for `low … high`: no need to ask for the same now."""
        if stream.index in self._gapped and low <= stream.high + 1 <= high:
            pause = max(self.settings.nack_s, self._answer_s) * self.context.rng.uniform(1.0, 2.0)
            stream.nack_at = max(stream.nack_at, self.context.now + pause)

    def _ask_at(self, stream: Stream, seconds: float) -> None:
        stream.nack_at = self.context.now + seconds
        if self._timer is None or self._timer.callback is None or self._timer.when > stream.nack_at:
            self._arm(stream.nack_at)

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.context.timers.at(when, self._ask)

    # -- answering -------------------------------------------------------------------------------------------------------------

    def receive_nack(self, nack: Nack, wire: bytes, source: MemberId | None) -> None:
        if nack.member not in self.context.view or nack.member == self.context.me:
            self.drops["own_frame" if nack.member == self.context.me else "not_a_member"] += 1
            return
        wants, parts = nack.wants[:_RANGES_PER_REQUEST], nack.parts[:_RANGES_PER_REQUEST]
        if not all(0 <= want[0] < len(self.streams) for want in (*wants, *parts)):
            self.drops["malformed"] += 1
            return
        room = self.settings.repair_frames
        for index, low, high, attempt in wants:
            stream = self.streams[index]
            self._put_off(stream, low, high)
            for first, wires in stream.covering(low, high):
                for part in range(len(wires)):
                    if room <= 0:
                        break
                    room -= 1
                    self._answer(stream, first, part, nack.member, attempt)
        for index, number, absent, attempt in parts:
            stream = self.streams[index]
            if number in stream.frames:
                for part in absent[: max(room, 0)]:
                    room -= 1
                    self._answer(stream, number, part, nack.member, attempt)

    def heard(self, stream: Stream, first: int, part: int = 0) -> None:
        """A frame that is here came once more: somebody answered."""
        self._answers.pop((stream.index, first, part), None)

    def _answer(self, stream: Stream, first: int, part: int, asker: MemberId, attempt: int) -> None:
        key, now = (stream.index, first, part), self.context.now
        if stream.sender != self.context.me:
            # The first request is the sender's to answer. Without this, eight members would answer what one can.
            if attempt > 0 and key not in self._answers and len(self._answers) < _ANSWERS_LIMIT:
                self._answers[key] = now + self.settings.repair_s * self.context.rng.uniform(0.0, 1.0)
                if self._answer_timer is None or self._answer_timer.callback is None:
                    self._answer_timer = self.context.timers.at(self._answers[key], self._answer_due)
            return
        when, whom = self._answered.get(key, (-1e18, None))
        lately = now - when < self.settings.repair_s
        if lately and (whom is None or (whom == asker and not attempt)):
            return
        to_all = attempt > 0 or lately
        self._send(stream, first, part, None if to_all else asker)
        if len(self._answered) >= _ANSWERS_LIMIT:
            self._answered = {key: answer for key, answer in self._answered.items() if now - answer[0] < self.settings.repair_s}
        self._answered[key] = (now, None if to_all else asker)

    def _answer_due(self) -> None:
        now = self.context.now
        for key, when in list(self._answers.items()):
            if when <= now:
                del self._answers[key]
                self._send(self.streams[key[0]], key[1], key[2], None)
        if self._answers:
            self._answer_timer = self.context.timers.at(min(self._answers.values()), self._answer_due)

    def _send(self, stream: Stream, first: int, part: int, to: MemberId | None) -> None:
        _, wires = stream.frames.get(first, (0, ()))
        if 0 <= part < len(wires):
            self.repairs_sent += 1
            self.context.outbox.sends.append((None if to is None else (to,), wires[part]))
