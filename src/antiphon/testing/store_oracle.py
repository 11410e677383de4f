"""Judges a store by what the processes that worked on it wrote down, and by what is left in it.

`judge(evidence)` returns what was broken, each as a sentence under the name of its rule:

    altered      a value does not have the bytes that its publisher wrote
    invented     a value that nobody meant to publish
    disagreement two saw different values under one number, or an acknowledgement names the number of another value
    lost         an acknowledged value that nobody can have seen, or a number that is neither there nor gone for a reason
    twice        one value under two numbers
    reordered    a publisher's values out of order, times that fall, or a subscriber that was given a number again or too late
    early        a value was gone while it was due to a subscriber
    silence      a subscriber was done with numbers that it neither read nor was told to be gone
    continuation what a subscriber came back to is not what it made of the values before, or lies before what it was done with
    count        not as many values as were to be published

Gone for a reason are values that were erased, and values up to the floor. That nothing goes early is proven from the times that are known:
a value is not older than the values before it. Works in O(events + values).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from antiphon.model.ranges import Ranges
from antiphon.store.records import Moment
from antiphon.testing.store_journal import (
    Acknowledged,
    AnyEvent,
    Began,
    Done,
    Erased,
    Intended,
    Missed,
    Read,
    Seen,
    Subscribed,
    digest,
)


class Left(NamedTuple):
    """What is left in a topic at the end."""

    last: int
    floor: int
    values: Sequence[Seen]


class Evidence(NamedTuple):
    journals: Sequence[Sequence[AnyEvent]]
    """One per process name, in the order of its lives."""
    left: Mapping[str, Left]
    expected: Mapping[tuple[str, str], int] = {}
    """How many values each (topic, publisher) was to publish, by its own numbers 1 … n."""


class Violation(NamedTuple):
    rule: str
    what: str


def judge(evidence: Evidence) -> list[Violation]:
    found: list[Violation] = []
    for topic in sorted(evidence.left):
        journals = [[event for event in journal if event.topic == topic] for journal in evidence.journals]
        expected = {publisher: count for (of, publisher), count in evidence.expected.items() if of == topic}
        found += _Topic(topic, journals, evidence.left[topic], expected).judge()
    return found


class _Topic:
    def __init__(self, topic: str, journals: Sequence[Sequence[AnyEvent]], left: Left, expected: Mapping[str, int]) -> None:
        self.topic, self.journals, self.left, self.expected = topic, journals, left, expected
        self.events = [event for journal in journals for event in journal]
        self.log: dict[int, Seen] = {}
        self.erased = {seq for event in self.events if isinstance(event, Erased) for seq in event.seqs}
        self.there = {value.seq for value in left.values}
        self.began = min((event.time for event in self.events if isinstance(event, Began)), default=0)

    def judge(self) -> list[Violation]:
        # The first pass makes the log, from which all others judge.
        found = list(self.agreed())
        found += [*self.published(), *self.ordered(), *self.acknowledged(), *self.complete()]
        for journal in self.journals:
            found += self.subscribed(journal)
        return found

    def agreed(self) -> Iterator[Violation]:
        reads = [value for event in self.events if isinstance(event, Read) for value in event.values]
        for value in (*reads, *self.left.values):
            if not value.publisher:
                yield self.broken("altered", f"number {value.seq} does not have the bytes that were published")
            elif value != self.log.setdefault(value.seq, value):
                yield self.broken("disagreement", f"number {value.seq} is {self.log[value.seq]} to one and {value} to another")
            if value.seq > self.left.last:
                yield self.broken("lost", f"number {value.seq} was read, and at the end the newest is {self.left.last}")

    def published(self) -> Iterator[Violation]:
        intended: defaultdict[str, Ranges] = defaultdict(Ranges)
        for event in self.events:
            if isinstance(event, Intended):
                intended[event.name].add(event.first, event.last)
        at: dict[tuple[str, int], int] = {}
        for value in self.log.values():
            whose = (value.publisher, value.number)
            if value.number not in intended[value.publisher]:
                yield self.broken("invented", f"number {value.seq} is {whose}, which nobody published")
            if at.setdefault(whose, value.seq) != value.seq:
                yield self.broken("twice", f"{whose} has the numbers {at[whose]} and {value.seq}")

    def ordered(self) -> Iterator[Violation]:
        values = [self.log[seq] for seq in sorted(self.log)]
        for before, after in pairwise(values):
            if after.time < before.time:
                yield self.broken("reordered", f"number {after.seq} is older than number {before.seq}")
        newest: defaultdict[str, Seen] = defaultdict(lambda: Seen(0, 0, "", 0))
        for value in values:
            if value.number < newest[value.publisher].number:
                yield self.broken("reordered", f"{value} comes after {newest[value.publisher]} of the same publisher")
            newest[value.publisher] = value

    def acknowledged(self) -> Iterator[Violation]:
        for event in self.events:
            if not isinstance(event, Acknowledged) or not event.seq_first:
                continue
            if event.seq_last > self.left.last:
                yield self.broken("lost", f"number {event.seq_last} was acknowledged, and at the end the newest is {self.left.last}")
            # Values of a batch that was repeated in part may have others between them; its ends are where the receipt says.
            for seq, number in ((event.seq_first, event.first), (event.seq_last, event.last)):
                value = self.log.get(seq)
                if value is not None and (value.publisher, value.number) != (event.name, number):
                    yield self.broken("disagreement", f"{event.name} was told that its {number} is number {seq}, which is {value}")

    def complete(self) -> Iterator[Violation]:
        for seq in range(self.left.floor + 1, self.left.last + 1):
            if seq not in self.there and seq not in self.erased:
                yield self.broken("lost", f"number {seq} of {self.left.last} is not there, and the floor is {self.left.floor}")
        known: defaultdict[str, Ranges] = defaultdict(Ranges)
        for value in self.log.values():
            known[value.publisher].add(value.number, value.number)
        # Only a log without holes can show that an own number is missing.
        if len(self.log) == self.left.last:
            for event in self.events:
                if isinstance(event, Acknowledged) and (gone := known[event.name].missing(event.first, event.last)):
                    yield self.broken("lost", f"{event.name} was told that {event.first} … {event.last} are written, and {gone} are not")
            for publisher, count in self.expected.items():
                if list(known[publisher]) != ([(1, count)] if count else []):
                    yield self.broken("count", f"{publisher} was to publish 1 … {count}, and there are {known[publisher]}")
            if self.expected and len(self.log) != sum(self.expected.values()):
                yield self.broken("count", f"{len(self.log)} values, where {sum(self.expected.values())} were to be published")

    def subscribed(self, journal: Sequence[AnyEvent]) -> Iterator[Violation]:
        """One process name: its lives one after the other, each going on from the continuation of the one before."""
        covered, gone = Ranges(), Ranges()
        lease = newest = position = count = value_digest = 0
        for event in journal:
            if isinstance(event, Subscribed | Done):
                if isinstance(event, Subscribed):
                    lease, newest = event.lease, event.position
                    position = event.position if event.anew else position
                if event.position < position:
                    yield self.broken("continuation", f"{event.name} was done with {position} and came back to {event.position}")
                if silent := covered.missing(position + 1, event.position):
                    yield self.broken("silence", f"{event.name} is done with {silent}, which it never saw")
                for seq in range(position + 1, event.position + 1):
                    if seq in self.log and seq not in gone:
                        count, value_digest = count + 1, digest(value_digest, self.log[seq])
                position = max(position, event.position)
                if position == event.position and (event.count, event.digest) != (count, value_digest):
                    said = f"{event.name} is done with {position} and has counted {event.count} values"
                    yield self.broken("continuation", f"{said}, which were {count}, or others")
            elif isinstance(event, Read):
                for value in event.values:
                    if value.seq <= newest:
                        yield self.broken("reordered", f"{event.name} was given number {value.seq} after {newest}")
                    newest = value.seq
                    covered.add(value.seq, value.seq)
            elif isinstance(event, Missed):
                yield from self.missed(event, lease)
                covered.add(event.first, event.last)
                gone.add(event.first, event.last)
                newest = max(newest, event.last)

    def missed(self, event: Missed, lease: Moment) -> Iterator[Violation]:
        before = next((self.log[seq] for seq in range(event.first - 1, 0, -1) if seq in self.log), None)
        oldest = before.time if before else self.began
        for seq in range(event.first, event.last + 1):
            oldest = self.log[seq].time if seq in self.log else oldest
            if seq in self.erased:
                continue
            if seq in self.there:
                yield self.broken("lost", f"{event.name} was told that number {seq} is gone, and it is there")
            elif event.time <= oldest + lease:
                yield self.broken("early", f"number {seq} was gone while it was due to {event.name}")

    def broken(self, rule: str, what: str) -> Violation:
        return Violation(rule, f"{self.topic}: {what}")
