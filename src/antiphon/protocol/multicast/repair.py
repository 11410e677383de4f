"""Requests for what is missing, and the answers to them.

A request goes to everyone. Who hears another's request for what it misses too puts its own off. The stream's sender answers at
once: to the asker alone, or to all when another member asked for the same a moment ago. A repeated request means that the sender
is gone or unreachable: then whoever holds the frame answers after a random pause, to all, unless an answer is heard first. The
pause between requests follows the time that answers took. An answer is the original frame, byte for byte.

**When a gap is asked for.** What is missing may only be late. The time that late messages of a sender need is estimated as TCP estimates
its retransmission time-out (RFC 6298): the mean plus four mean deviations of how long a gap was open that closed by itself. Gaps that
somebody had asked for do not count, so a repair is not taken for a late message. The estimate halves every `_FADE_S` without such a gap,
and counts only while enough gaps close by themselves. Traffic in order costs nothing: only frames out of order are looked at.

| of this sender                                                                    | a gap is asked for when it has been open for   |
|-----------------------------------------------------------------------------------|------------------------------------------------|
| the last `_LOSSES` requests were of use, and late messages need < `nack_s` / 2    | `nack_s` / 2: it is very probably lost         |
| otherwise                                                                         | `nack_s`, or the estimate if that is longer    |
| in any case                                                                       | at most a quarter of `nack_max_s`, or `nack_s` |

**What only others tell of.** A message may be known of before it can be here: the digest of a member that is nearer to the sender, or
further up the tree, says that it has it. Only who sends a stream's frames to this member (its sender, or the parent in the sender's tree)
tells of nothing on the same link before the frame itself. What others tell of is a gap from then on only where it was of late always here
before they told, or had to be asked for. Otherwise it is given twice the time by which they were ahead of it at most, lately (a quarter of
`nack_max_s`, or `nack_s`, as long as that is not known), unless the member that sends it tells of it or a later message comes before that.

A request names also younger gaps, as far as late messages need less time than those have been open; while it is not known whether messages
are lost or late, it names only a few, and those that have been open for longer than the last line of the table says. It is repeated when an
answer should be here: after twice the time that answers took, at least `nack_s` and the estimate; the pause doubles while nothing comes of
what was asked for.

Where the first line of the table holds, gaps that are seen while answers are under way are asked for without waiting for these, and what
was asked for is asked for again after a quarter of the time that an answer takes, but not before `nack_s`: the request or the answer may be
lost as well. As long as answers come, the sender alone is asked.

Keeps one deadline per stream with a gap, since when its gaps are open, when they were asked for, and the frames answered lately, all
bounded.
"""

from __future__ import annotations

import math
from operator import itemgetter

from antiphon.model import codec
from antiphon.model.frames import Nack
from antiphon.model.ids import MemberId
from antiphon.protocol.multicast.request import RANGES_LIMIT, Request
from antiphon.protocol.multicast.stream import Stream
from antiphon.protocol.stage import Context
from antiphon.protocol.timers import Timer

_DOUBLINGS = 16
"""How often the pause between requests is doubled at most, whatever `nack_max_s` says."""
_SENDER_ALONE = 2
"""Up to this attempt the sender's own answer is enough."""
_SPREAD = 1.1
"""A gap is asked for within this many times the time it may be open: members that miss the same should not all ask at once."""
_DEVIATIONS = 4.0
"""How many mean deviations above the mean the estimate lies: as in RFC 6298."""
_FADE_S = 10.0
"""After how long without a late message the estimate counts half."""
_LATE_SHARE, _SHARE_GAIN = 0.04, 1 / 32
"""The share of gaps that must close by themselves for the estimate to count, and the weight of each gap in it. Where frames are lost and
requests are not heard, an answer to another member looks like a late message, and is rare."""
_LOSSES = 3
"""How often in a row a request must have been of use, where messages are not late, for gaps of the stream to count as losses."""
_UNNEEDED, _UNNEEDED_GAIN = 0.4, 1 / 8
"""The share of single requests that may bring something twice where messages are lost and not late, and the weight of each in it."""
_FILLED_LIMIT = 256
"""Messages remembered that came after one request."""
_SLOWER = 1 / 32
"""By how much the time of an answer grows with one that takes twice as long or longer."""
_AGAIN = 0.25
"""After which part of the time of an answer something lost is asked for again: at a loss of 10 %, one answer in five does not come."""
_PROBES = 4
"""How many messages are asked for together while it is not known whether they are lost or late."""
_TRUSTED, _DISTRUST = 3, 32
"""How often in a row what members tell of must not have been on its way here, for it to count at once; and how much more often after it
was."""
_LOOKS = 16
_ANSWERS_LIMIT = 4_096
"""Frames that wait to be sent as an answer, and answers remembered."""


class Repair:
    def __init__(self, context: Context, streams: list[Stream]) -> None:
        self.context, self.settings, self.drops = context, context.settings, context.drops
        self.requests_sent = self.repairs_sent = 0
        self._longest_s = max(context.settings.nack_s, context.settings.nack_max_s / 4)
        """How long a gap may be open at most before it is asked for."""
        self._answer_s = 0.0
        """How long an answer takes to come, smoothed; lost ones do not count."""
        self._timer: Timer | None = None
        self._answer_timer: Timer | None = None
        self._resting = False
        self.on_view(streams)

    def on_view(self, streams: list[Stream]) -> None:
        self.streams = streams
        self._frozen = False
        self._gapped: dict[int, Stream] = {}
        for stream in streams:
            stream.marks.clear()
            stream.asks.clear()
            stream.filled.clear()
            stream.asked_to, stream.heard_to = min(stream.asked_to, stream.known), min(stream.heard_to, stream.known)
            stream.vouched, stream.told = min(stream.vouched, stream.known), min(stream.told, stream.known)
            stream.attempt = stream.trust = 0
            stream.lead_s = self._longest_s
        self._answers: dict[tuple[int, int, int], tuple[float, int]] = {}
        """(stream, first, part) of a frame to when it will be sent to all, unless somebody else does it first, and the attempt."""
        self._answered: dict[tuple[int, int, int], tuple[float, MemberId | None]] = {}
        """(stream, first, part) to when, and to whom alone, it was sent."""

    def freeze(self) -> None:
        """Asks for nothing more until the next view: what would come is not taken. Goes on answering."""
        self._frozen = True
        self._forget_gaps()

    def rest(self, resting: bool) -> None:
        """While nothing would be taken, nothing is asked for; afterwards what is missing, at once."""
        if resting and not self._resting:
            self._forget_gaps()
        elif self._resting and not resting:
            self._resting = False
            for stream in self.streams:
                self.note_gap(stream, at_once=True)
        self._resting = resting

    # -- asking ----------------------------------------------------------------------------------------------------------------

    def note_gap(self, stream: Stream, new: bool = True, upto: int | None = None, at_once: bool = False) -> None:
        """Note that messages of the stream are missing, at least for now; `new`: more than before. They are requested after a while, or
        `at_once`. Numbers beyond `upto` are known only from members other than the `bringer`, which may have received them earlier."""
        if stream.high >= stream.known or self._frozen or self._resting:
            return
        now, sure = self.context.now, stream.known if upto is None else min(upto, stream.known)
        nearer = stream.vouch(now, sure)
        if new or not stream.marks:
            if at_once:
                stream.mark(now - self._longest_s, now)
            elif new and sure < stream.known:
                stream.told = stream.known
                stream.mark(now + self._hearsay_s(stream), now)
            else:
                stream.mark(now, now)
        if stream.index not in self._gapped:
            self._gapped[stream.index] = stream
            stream.attempt = stream.doublings = 0
            self._ask_at(stream, now if at_once else self._due(stream))
        elif not stream.attempt:
            # Its time may be that of something that was only hearsay then.
            if (nearer or (new and not stream.put_off)) and stream.nack_at > self._due_by(stream):
                self._ask_at(stream, self._due(stream))
        elif (new or nearer) and self._is_lossy(stream):
            self._ask_at(stream, min(stream.nack_at, self._due_further(stream)))

    def _hearsay_s(self, stream: Stream) -> float:
        """Return the additional time for a gap that only members other than the `bringer` have announced."""
        return 0.0 if stream.trust >= _TRUSTED else min(stream.lead_s, self._longest_s)

    def _note_filled(self, stream: Stream, number: int) -> None:
        """Remember a message that came after one request: if it comes a second time, the request was not needed."""
        ask, mark = stream.ask_of(number), stream.mark_of(number)
        if ask is None or mark is None or ask[0] < ask[1]:
            return
        if len(stream.filled) >= _FILLED_LIMIT:
            del stream.filled[next(iter(stream.filled))]
        lead_s = self.context.now - mark[2] if stream.vouched < number <= stream.told else 0.0
        stream.filled[number] = (self.context.now - mark[0], lead_s)
        stream.unneeded -= stream.unneeded * _UNNEEDED_GAIN

    def note_duplicate(self, stream: Stream, number: int) -> None:
        """Note that a message came a second time. If it had been asked for once, it was late and not lost: a lost message comes once, as
        the answer."""
        late_s, lead_s = stream.filled.pop(number, (math.inf, 0.0))
        if late_s == math.inf:
            return
        stream.unneeded += _UNNEEDED_GAIN
        if lead_s:
            self._note_lead(stream, lead_s)
        if stream.unneeded > _UNNEEDED and late_s <= self._longest_s:
            stream.losses = 0
            self._learn(stream, late_s)

    def _note_lead(self, stream: Stream, lead_s: float) -> None:
        """Learn that a message arrived `lead_s` after members other than the `bringer` had announced it."""
        if lead_s > self.settings.nack_s / 2:
            stream.trust = -_DISTRUST
        stream.lead_s = max(2 * lead_s, stream.lead_s - (stream.lead_s - 2 * lead_s) / 32)

    def note_level(self, stream: Stream) -> None:
        """Learn that a message was here before a member other than the `bringer` announced it."""
        stream.trust = min(stream.trust + 1, _TRUSTED)

    def fill(self, stream: Stream, first: int, before: int) -> None:
        """Something that was missing is here, from number `first` on; the stream was without a gap up to `before`."""
        if first <= stream.heard_to:
            if stream.attempt and first <= stream.asked_to:
                if not stream.answers:
                    self._note_filled(stream, first)
                self._note_answer(stream, first)
            stream.late_share -= stream.late_share * _SHARE_GAIN
        elif (mark := stream.mark_of(first)) is not None:
            since, _, told_at = mark
            if first > stream.vouched:
                self._note_lead(stream, self.context.now - told_at)
            if since <= self.context.now:
                self._learn(stream, self.context.now - since)
        if stream.high > before:
            stream.prune_marks(self.context.now)
            if stream.attempt:
                if before < stream.told:
                    self.note_level(stream)
                self.progress(stream)
            elif not stream.marks and (stream.put_off or stream.nack_at > self.context.now + self.settings.nack_s):
                # Otherwise its time, which is not too late for another gap, stays: it costs less to look again then.
                self._gapped.pop(stream.index, None)

    def _note_answer(self, stream: Stream, number: int) -> None:
        """Something that was asked for is here: learns how long that takes. Only the first of it counts: the others may have been lost."""
        stream.answers += 1
        ask = stream.ask_of(number)
        if stream.answers > 1 or ask is None:
            return
        # Where nothing comes for a while, or it is asked for again before an answer can be here, the answer may be to any of the requests.
        took = self.context.now - (ask[0] if stream.doublings or self._is_lossy(stream) else ask[1])
        if not self._answer_s:
            self._answer_s = took
        elif took < 2 * self._answer_s:
            self._answer_s += (took - self._answer_s) / (4 if took < self._answer_s else 8)
        else:
            # The answer was lost, very probably, and this is another one. If all take so long, the estimate follows in a few dozen.
            self._answer_s += self._answer_s * _SLOWER

    def _learn(self, stream: Stream, late_s: float) -> None:
        """A message that nobody had asked for came so much after its gap was seen."""
        if stream.late_s:
            stream.late_dev_s += (abs(stream.late_s - late_s) - stream.late_dev_s) / 4
            stream.late_s += (late_s - stream.late_s) / 8
        else:
            stream.late_s, stream.late_dev_s = late_s, late_s / 2
        stream.late_at = self.context.now
        stream.late_share += (1.0 - stream.late_share) * _SHARE_GAIN

    def _late_s(self, stream: Stream) -> float:
        """How long late messages of the stream need, almost always; 0 when there are none."""
        if stream.late_share < _LATE_SHARE:
            return 0.0
        late_s = stream.late_s + _DEVIATIONS * stream.late_dev_s
        return min(late_s * math.exp2((stream.late_at - self.context.now) / _FADE_S), self._longest_s)

    def _wait_s(self, stream: Stream) -> float:
        """How long a gap of the stream may be open before it is asked for."""
        late_s, nack_s = self._late_s(stream), self.settings.nack_s
        if self._is_lossy(stream):
            return nack_s / 2
        return max(nack_s, late_s)

    def _is_lossy(self, stream: Stream) -> bool:
        """Whether what is missing of the stream is very probably lost, and not late."""
        return stream.losses >= _LOSSES and stream.unneeded <= _UNNEEDED and self._late_s(stream) < self.settings.nack_s / 2

    def _due(self, stream: Stream) -> float:
        """When the first gap of the stream will have been open for long enough."""
        return stream.marks[0][0] + self._wait_s(stream) * self.context.rng.uniform(1.0, _SPREAD)

    def _due_by(self, stream: Stream) -> float:
        """The latest time that `_due` may give."""
        return stream.marks[0][0] + self._wait_s(stream) * _SPREAD

    def _due_further(self, stream: Stream) -> float:
        """When the first gap that was not asked for yet will have been open for long enough."""
        since = stream.missing_since(stream.asked_to + 1)
        return math.inf if since is None else since + self._wait_s(stream) * self.context.rng.uniform(1.0, _SPREAD)

    def _pause_s(self, stream: Stream) -> float:
        """How long an answer may take. Asking again before it can be here would only bring it twice."""
        settings, answer_s = self.settings, self._answer_s
        if self._is_lossy(stream) and answer_s:
            answer_s *= _AGAIN
        else:
            answer_s = 2 * (answer_s or settings.nack_s)
        pause_s = max(settings.nack_s, answer_s, self._late_s(stream)) * float(2 ** min(stream.doublings, _DOUBLINGS))
        return min(pause_s, settings.nack_max_s)

    def _forget_gaps(self) -> None:
        for stream in self._gapped.values():
            stream.attempt = 0
            stream.marks.clear()
            stream.asks.clear()
        self._gapped.clear()

    def progress(self, stream: Stream) -> None:
        """The first thing missing of the stream, which had been asked for, is here, or a part of it: asks for the rest soon."""
        if not stream.answers:
            self._note_answer(stream, stream.high + 1)
        stream.attempt = stream.doublings = 0
        late = self._late_s(stream) >= self.settings.nack_s / 2
        stream.losses = max(stream.losses - 1, 0) if late else min(stream.losses + 1, 2 * _LOSSES)
        ask = stream.ask_of(stream.high + 1)
        if not stream.marks:
            self._gapped.pop(stream.index, None)
        elif ask is None:
            self._ask_at(stream, self._due(stream))
        elif self._is_lossy(stream):
            stream.attempt = 1
            self._ask_at(stream, min(ask[1] + self._pause_s(stream), self._due_further(stream)))
        else:
            # The answer to what was asked for with it may still be on its way.
            again = self.context.now + max(self.settings.nack_s / 2, self._late_s(stream)) * self.context.rng.uniform(1.0, _SPREAD)
            self._ask_at(stream, max(again, self._due(stream)))

    def _ask(self) -> None:
        request = Request(self.context)
        for stream in list(self._gapped.values()):
            if not stream.marks:
                del self._gapped[stream.index]
            elif stream.nack_at <= self.context.now and request.room > 0:
                self._ask_of(stream, request)
        self.requests_sent += request.send(None)
        if self._gapped:
            self._arm(max(min(stream.nack_at for stream in self._gapped.values()), self.context.now))

    def _ask_of(self, stream: Stream, request: Request) -> None:
        """Asks for what is missing of one stream, as far as it is time, and notes when to look at the stream again."""
        now, settings = self.context.now, self.settings
        wait_s, late_s = self._wait_s(stream), self._late_s(stream)
        if stream.marks[0][0] + wait_s > now:
            # The gap for which the time was set has closed, or late messages need more than they did then.
            stream.nack_at = self._due(stream)
            return
        lossy, ask = self._is_lossy(stream), stream.ask_of(stream.high + 1)
        again_since = now - self._pause_s(stream) if lossy else now
        repeats = ask is None or not lossy or ask[1] <= again_since
        # As long as nothing is known to be lost, some gaps are left to show whether they close by themselves.
        ripe = now - max(min(late_s, wait_s), 0.0 if stream.losses >= _LOSSES else settings.nack_s / 4)
        upto = max((upto for since, upto, _ in stream.marks if since <= ripe), default=stream.marks[0][1])
        # The lowest number first: it is what the rest waits for, and the last to be abandoned. But nobody may have it any more, or
        # there may be no room for it here before another has come: so every other repeated request begins further on.
        missing = self._unanswered(stream, upto, again_since) if lossy else stream.lacks(stream.high + 1, upto)
        # Not in the third request and later ones: what is asked for first may be what nobody has.
        if stream.attempt < 2 and stream.losses < _LOSSES and stream.late_share < 0.5:
            probes = _first(missing, _PROBES << stream.losses)
            # Gaps older than `_longest_s` are lost and not late, so the request names all of them.
            upto = max((upto for since, upto, _ in stream.marks if since <= now - self._longest_s), default=0)
            missing = probes if upto <= probes[-1][1] else stream.lacks(stream.high + 1, upto)
            upto = missing[-1][1]
        attempt = 0 if not repeats or (lossy and stream.answers) else stream.attempt
        turn = attempt // 2 % len(missing) if attempt % 2 and missing else 0
        for low, high in missing[turn:]:
            if request.room <= 0:
                upto = low - 1
                break
            request.add(stream, low, high, attempt)
        if repeats:
            # Some answers arrive, so the pause between requests is not doubled.
            stream.doublings = 0 if not stream.attempt or (stream.answers and late_s < settings.nack_s / 2) else stream.doublings + 1
            stream.attempt += 1
            stream.put_off = False
            stream.answers = 0
        stream.note_asks(now, again_since, upto)
        ask = stream.ask_of(stream.high + 1)
        pause_s = self._pause_s(stream) * self.context.rng.uniform(1.0 if lossy else 0.75, 1.25)
        stream.nack_at = (now if ask is None else ask[1]) + pause_s
        if lossy:
            stream.nack_at = max(min(stream.nack_at, self._due_further(stream)), now + settings.nack_s / 4)

    def _unanswered(self, stream: Stream, upto: int, again_since: float) -> list[tuple[int, int]]:
        """Return the missing numbers up to `upto` that were not requested after `again_since`; answers to those may be on their way."""
        missing: list[tuple[int, int]] = []
        low = stream.high + 1
        for _, last_at, high in stream.asks:
            if last_at <= again_since and low <= min(high, upto):
                missing += stream.lacks(low, min(int(high), upto))
            low = max(low, int(high) + 1)
        return missing + (stream.lacks(low, upto) if low <= upto else [])

    def ask_for(self, wanted: list[tuple[Stream, int]]) -> None:
        """Asks for these messages by themselves, for as many as fit. An answer holds so many frames and begins with the first that is
        missing; if there is no room for that here, what would make room never came."""
        request = Request(self.context)
        for stream, number in wanted[: max(request.room // 2, 1)]:
            request.add(stream, number, number, stream.attempt, parts=4)
        self.requests_sent += request.send(None)

    def ask_positions(self, member: MemberId) -> None:
        """Asks a member for a whole digest."""
        self.requests_sent += 1
        nack = Nack(self.context.group, self.context.me, self.context.view.id, [])
        self.context.outbox.sends.append(((member,), codec.encode(nack)))

    def _put_off(self, stream: Stream, low: int, high: int) -> None:
        """Another member asks for `low … high`: no need to ask for the same now. Once for each own request: who asks without end must
        not keep the others from asking."""
        stream.heard_to = max(stream.heard_to, min(high, stream.known))
        if stream.index in self._gapped and low <= stream.high + 1 <= high and not stream.put_off:
            stream.put_off = True
            pause = max(self.settings.nack_s, self._answer_s) * self.context.rng.uniform(1.0, 2.0)
            due = stream.nack_at if stream.attempt or not stream.marks else min(stream.nack_at, self._due_by(stream))
            self._ask_at(stream, max(due, self.context.now + pause))

    def _ask_at(self, stream: Stream, when: float) -> None:
        stream.nack_at = when
        if self._timer is None or self._timer.callback is None or self._timer.when > stream.nack_at:
            self._arm(stream.nack_at)

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.context.timers.at(when, self._ask)

    # -- answering -------------------------------------------------------------------------------------------------------------

    def answer(self, nack: Nack) -> None:
        """Sends what another member misses, or plans to."""
        wants, parts = nack.wants[:RANGES_LIMIT], nack.parts[:RANGES_LIMIT]
        if not all(0 <= want[0] < len(self.streams) for want in (*wants, *parts)):
            self.drops["malformed"] += 1
            return
        frames: list[tuple[Stream, int, int, int]] = []
        limit = self.settings.repair_frames
        for index, low, high, _ in wants:
            self._put_off(self.streams[index], low, high)
        # The lowest numbers first: the asker may have no room for later ones before it has those.
        asked: list[tuple[int, int, int, int, list[int] | None]]
        asked = [(low, index, high, attempt, None) for index, low, high, attempt in wants]
        asked += [(number, index, number, attempt, absent) for index, number, absent, attempt in parts]
        for low, index, high, attempt, absent in sorted(asked, key=itemgetter(0, 1)):
            stream = self.streams[index]
            if absent is not None:
                if low in stream.frames:
                    frames += [(stream, low, part, attempt) for part in absent[: max(limit - len(frames), 0)]]
                continue
            for first, wires in stream.covering(low, high):
                if len(frames) >= limit:
                    break
                frames += [(stream, first, part, attempt) for part in range(len(wires))]
        for stream, first, part, attempt in frames[:limit]:
            self._answer(stream, first, part, nack.member, attempt)

    def heard(self, stream: Stream, first: int, part: int, source: MemberId | None) -> None:
        """A frame that is here came once more: somebody answered."""
        key = (stream.index, first, part)
        # The sender's own answer, when even the second request was in vain, proves nothing: a link from it to the asker may be cut,
        # and if all who hear the sender kept silent, the asker would wait for ever.
        if key in self._answers and (source != stream.sender or self._answers[key][1] < _SENDER_ALONE):
            del self._answers[key]

    def _answer(self, stream: Stream, first: int, part: int, asker: MemberId, attempt: int) -> None:
        key, now = (stream.index, first, part), self.context.now
        if stream.sender != self.context.me:
            # The first request is the sender's to answer. Without this, eight members would answer what one can.
            if attempt > 0 and key not in self._answers and len(self._answers) < _ANSWERS_LIMIT:
                due = now + self.settings.repair_s * self.context.rng.uniform(0.0, 1.0)
                self._answers[key] = (due, attempt)
                if self._answer_timer is None or self._answer_timer.callback is None:
                    self._answer_timer = self.context.timers.at(due, self._answer_due)
            return
        when, whom = self._answered.get(key, (-1e18, None))
        lately = now - when < self.settings.repair_s
        if lately and (whom is None or (whom == asker and not attempt)):
            return
        to_all = attempt > 0 or lately
        self._send(stream, first, part, None if to_all else asker)
        if len(self._answered) >= _ANSWERS_LIMIT:
            # What is forgotten here too early is at worst sent twice.
            lately_answered = {key: answer for key, answer in self._answered.items() if now - answer[0] < self.settings.repair_s}
            self._answered = lately_answered if len(lately_answered) < _ANSWERS_LIMIT // 2 else {}
        self._answered[key] = (now, None if to_all else asker)

    def _answer_due(self) -> None:
        now = self.context.now
        for key, (when, _) in list(self._answers.items()):
            if when <= now:
                del self._answers[key]
                self._send(self.streams[key[0]], key[1], key[2], None)
        if self._answers:
            # A look goes over all that is planned, so there are only a few looks in the time over which answers are spread.
            soonest = now + self.settings.repair_s / _LOOKS
            self._answer_timer = self.context.timers.at(max(min(self._answers.values())[0], soonest), self._answer_due)

    def _send(self, stream: Stream, first: int, part: int, to: MemberId | None) -> None:
        wires = stream.kept(first)
        if 0 <= part < len(wires):
            self.repairs_sent += 1
            self.context.outbox.sends.append((None if to is None else (to,), wires[part]))


def _first(ranges: list[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """The first `count` numbers of these ranges."""
    found: list[tuple[int, int]] = []
    for low, high in ranges:
        if count <= 0:
            break
        found.append((low, min(high, low + count - 1)))
        count -= high - low + 1
    return found
