"""Total order: the sequence of each view. Whoever delivers a place first writes it down; everybody else is held against it.

Two members that differ at a place have not broken anything yet: one of them may be about to crash, or to find itself on another side of a
partition, and then what it was given beyond what all knew does not count. It is a breach as soon as it is known that all members knew the
place and had both messages (`stable` rows, one a second), or that the two went together into the next view. The place alone is not enough:
who knows it, and is cut off before the message comes, has the next one there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator

from msgspec import Struct, field

from antiphon.spark.watching.told import Breach, Spot, Told

RUNS = 65_536
"""Ranges of places that are kept of a view."""


class Run(Struct, array_like=True, frozen=True):
    """From `place` on lie messages `first … last` of `sender`, says this row of `member`."""

    place: int
    sender: str
    first: int
    last: int
    member: str
    spot: Spot

    @property
    def end(self) -> int:
        return self.place + self.last - self.first + 1


class Difference(Struct, array_like=True, frozen=True):
    place: int
    one: str
    other: str
    sentence: str
    witness: tuple[Spot, Spot]
    messages: tuple[tuple[str, int], ...] = ()
    """What lies there, says the one and says the other: whose message, and which."""


class Sequence(Struct, array_like=True):
    members: tuple[str, ...] = ()
    """Who is in the view."""
    runs: list[Run] = field(default_factory=list)
    place_by_member: dict[str, int] = field(default_factory=dict)
    """How many places each has delivered."""
    known: int = 0
    """So many places are known to all."""
    differences: list[Difference] = field(default_factory=list)
    lost: dict[str, bool] = field(default_factory=dict)
    """Who differs, or whose rows are missing, is not looked at again in this view."""
    forgotten: int = 0
    held: dict[str, int] = field(default_factory=dict)
    """Up to which number all have each sender's messages."""

    @property
    def length(self) -> int:
        return self.runs[-1].end if self.runs else 0

    def take(self, row: Told) -> None:
        member, place, number = row.member, self.place_by_member.get(row.member, 0), row.first
        self.place_by_member[member] = place + row.last - row.first + 1
        if member in self.lost:
            return
        if self.runs and place < self.runs[0].place:
            # What lies there is forgotten: this member's rows came too late to be judged.
            number, place = number + self.runs[0].place - place, self.runs[0].place
        while number <= row.last:
            if place >= self.length:
                self.runs.append(Run(place, row.sender, number, row.last, member, row.spot))
                break
            run = self.runs[bisect_right(self.runs, place, key=lambda one: one.place) - 1]
            expected = run.first + place - run.place
            if (run.sender, expected) != (row.sender, number):
                sentence = (
                    f"at place {place} of view {row.view} {member} delivered message {number} of {row.sender}, "
                    f"and {run.member} message {expected} of {run.sender}"
                )
                messages = ((run.sender, expected), (row.sender, number))
                self.differences.append(Difference(place, run.member, member, sentence, (run.spot, row.spot), messages))
                self.lost[member] = True
                return
            step = min(run.end - place, row.last - number + 1)
            place, number = place + step, number + step
        self.forgotten += max(0, len(self.runs) - RUNS)
        del self.runs[:-RUNS]

    def pass_over(self, member: str) -> None:
        """Rows of this member are missing, so that nobody knows at which place it is."""
        self.lost[member] = True

    def judge(self, together: Callable[[str, str], bool | None]) -> Iterator[Breach]:
        """What has become certain. `together` says whether two went on together; None: it is not known yet."""
        waiting: list[Difference] = []
        for difference in self.differences:
            verdict = True if self._was_everywhere(difference) else together(difference.one, difference.other)
            if verdict is None:
                waiting.append(difference)
            elif verdict:
                yield Breach("total", difference.sentence, difference.witness)
        self.differences = waiting

    def note_held(self, sender: str, number: int) -> None:
        self.held[sender] = max(self.held.get(sender, 0), number)

    def _was_everywhere(self, difference: Difference) -> bool:
        return difference.place < self.known and all(number <= self.held.get(sender, 0) for sender, number in difference.messages)

    def close(self, place: int) -> None:
        """Everybody has passed this place. The newest run stays, so that the count goes on."""
        gone = bisect_right(self.runs, place, key=lambda one: one.end)
        del self.runs[: min(gone, len(self.runs) - 1)]
