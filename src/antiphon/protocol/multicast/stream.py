"""One stream of a view as one member sees it: what arrived, what is missing, and the frames others may still need.

Keeps: the position without a gap (`high`), the ranges above it, and every frame byte for byte until it is stable. Bounded by the
group's window: a sender cannot be further ahead than that of the slowest member. Half-arrived messages are bounded in bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from antiphon.model.frames import Fragment
from antiphon.model.ids import MemberId
from antiphon.model.ranges import Ranges

_MARKS_LIMIT = 64
"""How many times are remembered at which gaps were seen."""
_PASSED_LIMIT = 4_096
"""Parts that are remembered as sent on; beyond it none is, and repair does the rest."""


class Stream:
    __slots__ = (
        *("_passed", "above", "answers", "asked_to", "asks", "attempt", "bytes", "doublings", "firsts", "frames", "heard_to"),
        *("high", "index", "known", "lasts", "late_at", "late_dev_s", "late_s", "late_share", "lead_s", "losses", "marks", "nack_at"),
        *("parts", "parts_bytes", "put_off", "rests", "say_at", "say_at_bytes", "sender", "stable", "tidy", "told", "top", "trust"),
        *("filled", "unneeded", "vouched"),
    )

    def __init__(self, index: int, sender: MemberId, cut: int = 0) -> None:
        self.index, self.sender = index, sender
        self.high = self.top = self.known = self.stable = cut
        """Has everything up to `high`; holds `top` as its highest; knows that `known` exists; everyone has up to `stable`."""
        self.say_at, self.say_at_bytes = cut, 0
        """The position, and how much is kept, at which the members' digests must be renewed at once."""
        self.above = Ranges()
        """What is here beyond the first gap."""
        self.frames: dict[int, bytes] = {}
        """First number to the frame, or the first frame of a fragmented message. Bytes alone, because they are many: neither forgetting
        them nor Python's collector has to look at each."""
        self.rests: dict[int, tuple[bytes, ...]] = {}
        """Number of a fragmented message to its further frames."""
        self.lasts: dict[int, int] = {}
        """First number to the last, of those frames that hold more than one message."""
        self.firsts: list[int] = []
        """The keys of `frames`, sorted while `tidy`."""
        self.tidy = True
        self.bytes = 0
        self.parts: dict[int, tuple[int, dict[int, bytes]]] = {}
        """Number of a half-arrived message to how many parts it has and the frames of those that are here, by index."""
        self.parts_bytes = 0
        self.attempt, self.nack_at = 0, 0.0
        self.answers = self.doublings = 0
        """How much of what was asked for came since the last request, and how often in a row nothing did."""
        self.put_off = False
        self.asked_to = self.heard_to = cut
        """Up to which number messages were asked for by this member, and by any."""
        self.asks: list[list[float]] = []
        """When what is missing was asked for first and last, and up to which number, rising: what is above the number before it."""
        self.marks: list[tuple[float, int, float]] = []
        """Since when what is missing up to which number should be here, both rising, and when that was first heard of. Empty when nothing
        is missing. In the future for what only members told of who do not send the stream's frames to this one."""
        self.vouched = self.told = cut
        """Up to which number what is missing should be here: a later message came, or the member that sends the stream's frames to this one
        told of it. And up to which number other members told of what was missing."""
        self.trust, self.lead_s = 0, 0.0
        """How often in a row what other members told of first was here already or had to be asked for; negative after it was on its way.
        And how much longer it may then be missing."""
        self.late_s = self.late_dev_s = self.late_at = 0.0
        """How long after its gap was seen a late message comes: mean, mean deviation, and when that was last seen."""
        self.late_share = 0.0
        """Of the gaps that closed lately, the share that closed before anybody asked."""
        self.losses = 0
        """How often in a row something came after it was asked for, and messages were not late."""
        self.filled: dict[int, tuple[float, float]] = {}
        """What came after one request: how late it was, and how much of that others had told of it before it could be here."""
        self.unneeded = 0.0
        """The share of such requests, lately, of which the message came twice."""
        self._passed: set[tuple[int, int]] = set()
        """Number and index of the parts that were sent on, of messages that are not here yet."""

    def take(self, first: int, last: int) -> list[tuple[int, int]]:
        """Notes that `first … last` is here and returns what of it is new."""
        if first == self.high + 1 and self.top == self.high:
            self.high = self.top = last
            if last > self.known:
                self.known = last
            return [(first, last)]
        if first <= self.high:
            if last <= self.high:
                return []
            first = self.high + 1
        above = self.above
        fresh = above.missing(first, last)
        if not fresh:
            return fresh
        if first > self.high + 1:
            above.add(first, last)
        else:
            self.high = above.pop_up_to(last)
        if last > self.top:
            self.top = last
        if last > self.known:
            self.known = last
        return fresh

    def mark(self, since: float, now: float) -> None:
        """Notes that everything missing up to `known`, as far as it was not noted before, is missing since then."""
        marks = self.marks
        if not marks or marks[-1][1] < self.known:
            marks.append((max(since, marks[-1][0]) if marks else since, self.known, now))
            if len(marks) > _MARKS_LIMIT:
                # The later mark of two counts for both: what is missing is at worst asked for a little later.
                del marks[:-1:2]

    def vouch(self, now: float, upto: int) -> bool:
        """Notes that everything up to `upto` that is not here is missing, from now on at the latest. Returns whether that is news."""
        marks = self.marks
        self.vouched = max(self.vouched, upto)
        if not marks or marks[-1][0] <= now:
            return False
        place = next(place for place, (since, _, _) in enumerate(marks) if since > now)
        if upto <= (marks[place - 1][1] if place else self.high):
            return False
        marks[place:] = [(now, upto, now), *(mark for mark in marks[place:] if mark[1] > upto)]
        return True

    def ask_of(self, number: int) -> list[float] | None:
        """The entry of `asks` for a number, if it was asked for."""
        return next((ask for ask in self.asks if ask[2] >= number), None)

    def note_asks(self, now: float, again_since: float, upto: int) -> None:
        """Record a request made `now` for numbers up to `upto`: those last requested before `again_since`, and new ones."""
        asks, low = self.asks, self.high
        for place, ask in enumerate(asks):
            if ask[1] <= again_since and ask[2] <= upto:
                ask[1] = now
            elif ask[1] <= again_since and low < upto:
                asks.insert(place, [ask[0], now, upto])
                break
            low = int(ask[2])
        if upto > (asks[-1][2] if asks else self.high):
            asks.append([now, now, upto])
        if len(asks) > _MARKS_LIMIT:
            # The later time of two counts for both.
            for dropped, kept in zip(asks[:-1:2], asks[1::2], strict=False):
                kept[1] = max(kept[1], dropped[1])
            del asks[:-1:2]
        self.asked_to, self.heard_to = max(self.asked_to, upto), max(self.heard_to, upto)

    def missing_since(self, number: int) -> float | None:
        """Since when a number is known to be missing; None when it is not."""
        mark = self.mark_of(number)
        return None if mark is None else mark[0]

    def mark_of(self, number: int) -> tuple[float, int, float] | None:
        """The entry of `marks` for a number, if it is missing."""
        return next((mark for mark in self.marks if mark[1] >= number), None)

    def prune_marks(self, now: float) -> None:
        """Forgets the marks of what is here, and when it was asked for."""
        asks = self.asks
        while asks and asks[0][2] <= self.high:
            del asks[0]
        marks, count = self.marks, 0
        while count < len(marks) and marks[count][1] <= self.high:
            count += 1
        del marks[:count]
        if not marks and self.high < self.known:
            # A message of which only a part came, and was abandoned, is known and was not marked.
            self.mark(now, now)

    def forget_known(self, known: int, now: float) -> None:
        """No more than `known` is known to exist, whatever was said before."""
        self.known = max(known, self.top, self.high)
        self.marks = [(since, min(upto, self.known), told_at) for since, upto, told_at in self.marks]
        self.asked_to, self.heard_to = min(self.asked_to, self.known), min(self.heard_to, self.known)
        self.vouched = min(self.vouched, self.known)
        while self.asks and self.asks[-1][2] > self.known:
            del self.asks[-1]
        self.prune_marks(now)

    def keep(self, first: int, last: int, wires: Sequence[bytes]) -> None:
        """Keeps a frame, or the fragments of one message, for repairs."""
        firsts = self.firsts
        if firsts and first < firsts[-1]:
            self.tidy = False
        firsts.append(first)
        self.frames[first] = wires[0]
        if last > first:
            self.lasts[first] = last
        if len(wires) > 1:
            self.rests[first] = tuple(wires[1:])
            self.bytes += sum(map(len, wires))
        else:
            self.bytes += len(wires[0])

    def kept(self, first: int) -> tuple[bytes, ...]:
        """The frame, or the fragments of one message, that begin with this number; none when they are not kept."""
        wire = self.frames.get(first)
        return () if wire is None else (wire, *self.rests.get(first, ()))

    def covering(self, low: int, high: int) -> Iterator[tuple[int, Sequence[bytes]]]:
        """The kept frames that hold any of `low … high`, with their first numbers."""
        firsts = self._sorted_firsts()
        at = max(bisect_right(firsts, low) - 1, 0)
        while at < len(firsts) and firsts[at] <= high:
            first = firsts[at]
            if self.lasts.get(first, first) >= low:
                yield first, self.kept(first)
            at += 1

    def forget(self, stable: int) -> None:
        """Drops the frames that lie entirely at or below `stable`. Those of single messages, of which there may be a thousand, cost no
        more than their memory: whoever waits for this member meanwhile does not notice."""
        self.stable = stable
        firsts, lasts = self._sorted_firsts(), self.lasts
        count = bisect_right(firsts, stable)
        if lasts:
            count = next((at for at, first in enumerate(firsts[:count]) if lasts.get(first, first) > stable), count)
        gone = firsts[:count]
        del firsts[:count]
        self.bytes -= sum(map(len, map(self.frames.pop, gone)))
        if lasts:
            for first in gone:
                lasts.pop(first, None)
        if self.rests:
            self.bytes -= sum(len(wire) for first in gone for wire in self.rests.pop(first, ()))
        if self._passed:
            self._passed = {key for key in self._passed if key[0] > self.high}

    def _sorted_firsts(self) -> list[int]:
        # Sorted when they are read, not when they are added: a thousand frames that arrive backwards cost one sort.
        if not self.tidy:
            self.firsts.sort()
            self.tidy = True
        return self.firsts

    @property
    def gapped(self) -> bool:
        """Whether something is known to be missing."""
        return self.high < self.known

    def holding(self) -> list[int]:
        """The position without a gap, then the ranges above it, flat."""
        return [self.high, *chain.from_iterable(self.above)]

    def lacks(self, low: int, high: int) -> list[tuple[int, int]]:
        """What of `low … high`, all of it beyond the first gap, is not here. A half-arrived message stands alone."""
        gaps = self.above.missing(low, high)
        if self.parts:
            begun = Ranges((number, number) for number in sorted(self.parts))
            whole = [piece for first, last in gaps for piece in begun.missing(first, last)]
            gaps = sorted(whole + [(number, number) for number in self.parts if low <= number <= high])
        return gaps

    # -- fragments -------------------------------------------------------------------------------------------------------------

    def add_part(self, fragment: Fragment, wire: bytes, limit: int, victim: Callable[[Iterable[int]], int]) -> tuple[bool, int]:
        """Keeps a part. Returns whether it was new and is kept, and how many parts were abandoned for room, the `victim`'s first."""
        count, wires = self.parts.setdefault(fragment.first, (fragment.count, {}))
        if count != fragment.count:
            # One of them is false. Whichever it is, what comes last may be true, and the rest of it will come again.
            self.drop_parts(fragment.first)
            count, wires = self.parts.setdefault(fragment.first, (fragment.count, {}))
        if fragment.index in wires:
            return False, 0
        wires[fragment.index] = wire
        self.parts_bytes += len(wire)
        self.known = max(self.known, fragment.first)
        abandoned = 0
        while self.parts_bytes > limit and len(self.parts) > 1:
            abandoned += self.drop_parts(victim(self.parts))
        return fragment.first in self.parts, abandoned

    def passes_first(self, fragment: Fragment) -> bool:
        """Whether this part passes here for the first time. A message may be assembled and not be taken, for want of room, and its
        parts then come again as if new: were they sent on each time, members would send them on to each other for ever."""
        key = (fragment.first, fragment.index)
        if key in self._passed or len(self._passed) >= _PASSED_LIMIT:
            return False
        self._passed.add(key)
        return True

    def drop_parts(self, number: int) -> int:
        """Forgets the parts of a message; returns how many there were."""
        _, wires = self.parts.pop(number, (0, {}))
        self.parts_bytes -= sum(map(len, wires.values()))
        return len(wires)
