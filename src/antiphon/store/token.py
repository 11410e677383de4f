"""The token of the ring, by which the nodes on a store agree how far time has passed for all of them: the *horizon*.

What the collector must not do is remove what somebody is reading, or has not sent yet, because the store's clock says that it is old. So it
does not go by the store's time but by global virtual time, as in Mattern's algorithm (Mattern, Mehl, Schoone, Tel 1991): a lower bound of
the times of everything that is in anybody's hands, found without stopping anybody.

**One cut is not enough.** Let the token ask each node once what it holds. Bea is asked and holds nothing; Ana hands Bea an old value (Bea
comes back as the subscriber that Ana was); Ana is asked and holds nothing. The value was in somebody's hands all the time, and nobody
said so.

**Two cuts.** In the first the token comes by every node and asks it to remember, from now on, the lowest time it holds at any moment
(`Holdings.mark`). When it has been everywhere it goes round again and asks each what that was (`Holdings.lowest`). Every first visit comes
before every second one, so there is a moment between them at which all nodes remember: whatever was in somebody's hands then, or at any
time between that node's two visits, has been told. With it each node tells the store's time it has last heard, and the round starts out
with the time at which it began.

**One horizon for each topic.** What a node holds it tells by topic, with the time until which it holds it; a topic's horizon is the least
of all the times told and of what is held in this topic. (One number for all topics is what the algorithm has, for a message of one process
may cause one to any other. A value is only ever read in its own topic, so one reader would stop expiry in topics it has nothing to do
with.) A hold ends with the lease of its values: an expired value is not due to its reader any more, and would be skipped by whoever came
back in its place. Hence, for each topic,

- horizon ≤ store time, at the beginning of the round and at each visit;
- horizon ≤ the time of every value of the topic that a node held, within its lease, at any time between its two visits;
- what a node takes later was due when it took it, at a time ≥ the horizon; so no value that a node of the ring holds is collected by this
  or any earlier horizon before its lease is over, however late the collector uses it.

Values that were read ahead and not handed to anybody are not held. They need not be: as long as the lease lasts, the subscriber's record
keeps every value after its position (`retention.py`), and the horizon is never beyond the store's time.

The token lies in the store and its holder changes it by compare-and-set, so it cannot be lost with a node. The ring has no fixed order:
whoever still has to be visited takes its turn when it sees the token, and a slow one holds up the end of the cut but nobody's turn.

Who joins in the middle of a round is visited in what is left of it. Who leaves tells what it held; who is silent is taken out and tells
nothing: what it holds does not count until it has joined again.

Pure: every method returns another token. `members` is bounded by `MEMBERS`, which makes about 40 kB at most; `held` by `HELD_TOPICS`, about
120 kB at most. Where more topics are held, the newest holds count for all topics (`low`): collection is later than need be, never early.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from antiphon.store.records import Moment

MEMBERS = 1_000
HELD_TOPICS = 256


class HeldTopic(Struct, frozen=True):
    """What is needed of one topic, by the node that needs the oldest of it."""

    moment: Moment
    """The time of the oldest value that is needed."""
    until: Moment | None = None
    """The last moment at which this counts; None: until it is released."""
    node: str = ""
    """The name of the node, or its id where it has none."""
    reader: str = ""
    """The id of the subscriber; empty for an outbox."""

    def merged(self, other: HeldTopic) -> HeldTopic:
        first = self if self.moment <= other.moment else other
        return replace(first, until=None if self.until is None or other.until is None else max(self.until, other.until))

    def counts(self, now: Moment) -> bool:
        return self.until is None or now <= self.until


class Token(Struct, frozen=True):
    round: int = 0
    """Of the round that is under way, or was last. Never comes twice: a ring made anew counts on from the store's time."""
    cut: Literal[0, 1, 2] = 0
    """0: no round is under way."""
    started: Moment = 0
    """The store's time when the round began."""
    low: Moment = 0
    """The least of the times told in this round; when it is over, the horizon of every topic in which nothing is held."""
    held: dict[str, HeldTopic] = {}
    """What has been told in this round to be held in single topics."""
    members: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    """Those still to be visited in this cut."""

    def joined(self, node: str) -> Token:
        if node in self.members:
            return self
        return replace(self, members=(*self.members, node), waiting=(*self.waiting, node) if self.cut else ())

    def left(self, node: str, told: Moment | None = None, held: Mapping[str, HeldTopic] | None = None) -> Token:
        """`told` and `held` are what it has held since its last visit; None if nobody knows, because it is silent."""
        members = tuple(member for member in self.members if member != node)
        waiting = tuple(member for member in self.waiting if member != node)
        return replace(self._told(told, held) if self.cut else self, members=members, waiting=waiting)._moved_on()

    def begun(self, now: Moment) -> Token:
        """A new round, at this time of the store."""
        assert not self.cut, f"round {self.round} is still under way"
        return replace(self, round=self.round + 1, cut=1, started=now, low=now, held={}, waiting=self.members)._moved_on()

    def visited(self, node: str, told: Moment, held: Mapping[str, HeldTopic] | None = None) -> Token:
        """`told` is the store's time the node has last heard, or the lowest time it has held in all topics since its first visit if that
        is lower; `held` what it has held in single topics."""
        assert node in self.waiting, f"{node} is not to be visited in cut {self.cut} of round {self.round}"
        waiting = tuple(member for member in self.waiting if member != node)
        return replace(self._told(told, held), waiting=waiting)._moved_on()

    def _told(self, told: Moment | None, held: Mapping[str, HeldTopic] | None) -> Token:
        together = dict(self.held)
        for topic, hold in (held or {}).items():
            together[topic] = together[topic].merged(hold) if topic in together else hold
        low = self.low if told is None else min(self.low, told)
        if len(together) > HELD_TOPICS:
            # The newest ones: counting for every topic they hold the others back least.
            by_age = sorted(together, key=lambda topic: (together[topic].moment, topic))
            low = min(low, together[by_age[HELD_TOPICS]].moment)
            together = {topic: together[topic] for topic in by_age[:HELD_TOPICS]}
        return replace(self, low=low, held=together)

    def _moved_on(self) -> Token:
        """The next cut, if everybody has been visited in this one."""
        if self.waiting or not self.cut:
            return self
        if self.cut == 1 and self.members:
            return replace(self, cut=2, waiting=self.members)
        return replace(self, cut=0)
