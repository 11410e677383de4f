"""The own numbers of one publisher's values: which is next, which the store is known to have, and which may be said once more.

Values are counted here, or whoever publishes says their numbers; not both in one topic. The store takes a number that is not above the
newest for a repeat and writes nothing, so a number that was said for one value and counted for another would be acknowledged and be
nowhere. What was counted may be said by whoever was told so by an error, to repeat it; and only while nothing later has been written.

Keeps at most `_RANGES` ranges of numbers of each kind; what is forgotten is refused, and not written in the wrong place.
"""

from __future__ import annotations

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
        """That of the newest value that was counted here, and that the store or the outbox has."""
        self._given_up = Ranges()
        """What was sent and failed: the store may have it or not."""
        self._told = Ranges()
        """What callers were told of with an error, so that they can repeat it."""

    def begin(self, grant: Grant) -> None:
        """The store has said how far this publisher is."""
        self.next = max(self.next, grant.number + 1)
        self.acknowledged = max(self.acknowledged, grant.number)

    def check(self, number: object, count: int) -> None:
        """Raises what is wrong with saying these numbers for `count` values."""
        if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= _LIMIT - count:
            raise InvalidOption("number", number, "a publisher's own numbers begin with 1 and grow")
        last = number + count - 1
        if _meet(self._given_up, number, min(last, self.acknowledged)):
            raise UsageError(
                f"the value {number} of {self._publisher!r} was given up, and later ones have been written: it can no longer be written in "
                "its place. Publish it without a number, or find out whether it is there"
            )
        if self._counted and (number not in self._told or self._told.missing(number, min(last, self._counted))):
            raise UsageError(
                f"the values of {self._publisher!r} in {self._topic!r} are counted by themselves, and {number} may be the number of "
                "another: give number= for all values of a topic or for none, but for the repeat of one that failed (error.number)"
            )

    def send(self, batch: Batch) -> None:
        """It is on its way."""
        self.next = max(self.next, batch.last + 1)

    def settle(self, batch: Batch) -> None:
        """The store has it."""
        self.acknowledged = max(self.acknowledged, batch.last)
        if not batch.said:
            self._counted = max(self._counted, batch.last)

    def queue(self, batch: Batch, *, numbered: bool) -> None:
        """The outbox has it, under its numbers, or to be numbered when it is sent: then every number may be taken."""
        if not batch.said:
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
