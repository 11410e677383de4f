"""The own numbers of one publisher's values: which is next, which the store is known to have, and which may be said once more.

Values are counted here, or whoever publishes says their numbers; not both in one topic. The store takes a number that is not above the
newest for a repeat and writes nothing, so a number that was said for one value and counted for another would be acknowledged and be
nowhere. What was counted may be said by whoever was told so by an error, to repeat it; and only while nothing later has been written.
For the same reason a number that is said is above all that were said before, or is one of them: one that was left out comes too late.

The first call decides, once its values are sent; while it is under way, calls of the other kind are refused. What another program has done
under the same name nobody knows here: numbers up to the one that the store tells with the right to write are taken for repeats.

Keeps at most `_RANGES` ranges of numbers of each kind; what is forgotten is refused, and not written in the wrong place, or of what was
said taken for a repeat.
"""

from __future__ import annotations

from typing import Literal

from antiphon.errors import InvalidOption, UsageError
from antiphon.model.ranges import Ranges
from antiphon.store.gathering import Batch, Job
from antiphon.store.records import Grant

_LIMIT = 1 << 62
_RANGES = 1_024


class Numbering:
    def __init__(self, topic: str, publisher: str) -> None:
        self._topic, self._publisher = topic, publisher
        self.next = 1
        """That of the next value."""
        self.acknowledged = 0
        """That of the newest value that the store is known to have."""
        self._counted = 0
        """That of the newest value that was counted here and sent, or that the outbox has."""
        self._says = False
        """Whether values with numbers that were said have been sent, or are in the outbox."""
        self._counting = self._saying = 0
        """Calls under way whose values are counted, and whose numbers are said."""
        self._sent, self._open = Ranges(), Ranges()
        """Numbers that were said: of values that were sent or queued, and of calls under way."""
        self._foreign = 0
        """Another program under this name may have used the numbers up to this one."""
        self._given_up = Ranges()
        """What was sent and failed: the store may have it or not."""
        self._told = Ranges()
        """What callers were told of with an error, so that they can repeat it."""

    def begin(self, grant: Grant) -> None:
        """The store has said how far this publisher is."""
        if grant.number >= self.next:
            self._foreign = grant.number
        self.next = max(self.next, grant.number + 1)
        self.acknowledged = max(self.acknowledged, grant.number)

    # -- calls -----------------------------------------------------------------------------------------------------------------

    def check(self, number: object, count: int) -> None:
        """Raises what is wrong with saying these numbers for `count` values."""
        if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= _LIMIT - count:
            raise InvalidOption("number", number, "a publisher's own numbers begin with 1 and grow")
        last = number + count - 1
        if _meet(self._given_up, number, min(last, self.acknowledged)):
            raise UsageError(
                f"the value {number} of {self._publisher!r} was given up, and later ones have been written: it can no longer be written in "
                "its place. Publish it without a number (under a higher one, where you give numbers), or find out whether it is there"
            )
        if self._counted or self._counting:
            if number not in self._told or self._told.missing(number, min(last, self._counted)):
                raise UsageError(
                    f"the values of {self._publisher!r} in {self._topic!r} are counted by themselves, and {number} may be the number of "
                    "another: give number= for all values of a topic or for none, but for the repeat of one that failed (error.number)"
                )
            return
        newest = max(self.next - 1, self._open.highs[-1] if self._open.highs else 0)
        low, high = max(number, self._foreign + 1), min(last, newest)
        if low <= high and any(self._open.missing(*unsent) for unsent in self._sent.missing(low, high)):
            raise UsageError(
                f"{self._publisher!r} has published the number {newest} in {self._topic!r}, and not all of {number} … {last} before it: "
                "the store would take them for repeats. A publisher's own numbers grow: give this value a higher one"
            )

    def accept(self, number: int | None, count: int) -> Literal["counted", "said", "repeat"]:
        """Note that a call with `count` values is under way; `number` is what it says and `check` has passed, None if its values are to be
        counted. Returns what `finish` wants to be told. Raises UsageError for a call without a number where numbers are given."""
        if number is None:
            if self._says or self._saying:
                raise UsageError(
                    f"{self._publisher!r} gives numbers to its values of {self._topic!r}, and a value that is counted could get the number "
                    "of one that is yet to come: give number= for all values of a topic or for none"
                )
            self._counting += 1
            return "counted"
        if self._counted:
            return "repeat"
        self._saying += 1
        self._open.add(number, number + count - 1)
        return "said"

    def finish(self, kind: Literal["counted", "said", "repeat"]) -> None:
        """Note that a call is over, one way or the other."""
        if kind == "counted":
            self._counting -= 1
        elif kind == "said":
            self._saying -= 1
            if not self._saying:
                self._open = Ranges()

    # -- batches ---------------------------------------------------------------------------------------------------------------

    def send(self, batch: Batch) -> None:
        """It is on its way."""
        self.next = max(self.next, batch.last + 1)
        if not batch.said:
            self._counted = max(self._counted, batch.last)
        else:
            self._say(batch)

    def _say(self, batch: Batch) -> None:
        if self._counted:  # a repeat
            return
        self._says = True
        self.next = max(self.next, batch.last + 1)
        self._sent.add(batch.first, batch.last)
        if len(self._sent) > _RANGES:
            self._foreign = max(self._foreign, self._sent.pop_up_to(self._sent.lows[0]))

    def settle(self, batch: Batch) -> None:
        """The store has it."""
        self.acknowledged = max(self.acknowledged, batch.last)

    def queue(self, batch: Batch, *, numbered: bool) -> None:
        """The outbox has it, under its numbers, or to be numbered when it is sent: then every number may be taken."""
        if batch.said:
            self._say(batch)
        else:
            self._counted = max(self._counted, batch.last) if numbered else _LIMIT

    def give_up(self, batch: Batch) -> None:
        _add(self._given_up, batch.first, batch.last)

    def tell(self, job: Job) -> int | None:
        """The number of the first value of a call that fails, for it to be repeated; None where it was not begun."""
        if job.first is not None and job.next_number is not None and job.next_number > job.first:
            _add(self._told, job.first, job.next_number - 1)
        return job.first


def _meet(ranges: Ranges, low: int, high: int) -> bool:
    return low <= high and ranges.missing(low, high) != [(low, high)]


def _add(ranges: Ranges, low: int, high: int) -> None:
    ranges.add(low, high)
    if len(ranges) > _RANGES:
        ranges.pop_up_to(ranges.lows[0])
