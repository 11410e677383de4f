"""One group of one run, watched: rows in, breaches out. Its state is plain data that outlives a process.

    watch = Watch.of(state)
    for breach in watch.round(rows):
        print(breach.sentence)
    state = watch.state()

Rows of one writer come in the order of their numbers, of several writers as they come; a row that comes again is passed over. Costs some
microseconds per row, and what `watching` says is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct, field

from antiphon.model.ranges import Ranges
from antiphon.spark.watching.deliveries import Deliveries
from antiphon.spark.watching.parents import Parents
from antiphon.spark.watching.sends import Sends
from antiphon.spark.watching.sequences import Sequence
from antiphon.spark.watching.told import Breach, Told

PATIENCE = 60
"""Rounds without a row after which a member holds nothing up any more."""
BURIED = 600
"""Rounds without a row after which it is forgotten altogether."""
REPORTS = 100
"""Breaches of one promise that are told of one group; the others are counted."""
_IN_ORDER = ("fifo", "causal", "total")
_PARENTS_FIRST = ("causal", "total", "semantic")


class Member(Struct, array_like=True):
    writer: str
    order: str = ""
    view: int = 0
    heard: int = 0
    """The last round in which it said anything."""
    left: bool = False
    position: int = 0
    """Of its next delivery. Where another comes, a row was missed."""
    given: dict[str, Deliveries] = field(default_factory=dict)
    """By sender."""
    ways: dict[int, str] = field(default_factory=dict)
    """By view: into which it went from there, and with whom."""
    catches_up: bool = False
    """It is given a state, which may stand for a beginning of the view that it is in: at which place it goes on nobody says."""


class Watch(Struct):
    rounds: int = 0
    index_by_writer: dict[str, int] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    awaited: dict[str, int] = field(default_factory=dict)
    """Who stands in a view and has said nothing yet, since which round."""
    sends: dict[str, Sends] = field(default_factory=dict)
    parents: Parents = field(default_factory=Parents)
    sequences: dict[int, Sequence] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    """Breaches by promise, those included that were only counted."""

    @classmethod
    def of(cls, state: bytes | None) -> Watch:
        return cls() if state is None else _decode(state)

    def state(self) -> bytes:
        return _encode(self)

    @property
    def over(self) -> bool:
        """Whether everybody has left."""
        return bool(self.members) and all(member.left for member in self.members.values())

    def round(self, rows: Iterable[Told]) -> list[Breach]:
        """The next rows, all there are now; what is certain by now."""
        self.rounds += 1
        found = [breach for row in sorted(rows, key=lambda row: (row.writer, row.index)) for breach in self._take(row)]
        for view, sequence in self.sequences.items():
            found += sequence.judge(lambda one, other, view=view: self._together(view, one, other))  # type: ignore[misc]
        self._forget()
        return list(self._bounded(found))

    def _take(self, row: Told) -> Iterator[Breach]:
        if row.index <= self.index_by_writer.get(row.writer, -1):
            return
        self.index_by_writer[row.writer] = row.index
        member = self.members.setdefault(row.member, Member(row.writer))
        member.heard = self.rounds
        self.awaited.pop(row.member, None)
        if row.kind == "deliver":
            yield from self._deliver(row, member)
        elif row.kind == "send":
            sender = row.sender or row.member
            yield from self._sends_of(sender).send(row)
            if row.names and member.order in _PARENTS_FIRST:
                given = {name: one.given for name, one in self.members.items()}
                yield from self.parents.send(sender, row.names, given)
        elif row.kind == "group":
            about = _said(row.note)
            member.order, member.catches_up = str(about.get("order", "")), about.get("wants") == "state"
        elif row.kind == "view":
            self._install(row, member)
        elif row.kind == "stable" and row.view in self.sequences:
            sequence = self.sequences[row.view]
            if row.note == "places":
                sequence.known = max(sequence.known, row.amount)
            else:
                for name in row.names:
                    sequence.note_held(name.sender, name.number)
        elif row.kind == "settled" and row.note != "stopped":
            member.catches_up = False
        elif row.kind == "leave":
            member.left = True

    def _deliver(self, row: Told, member: Member) -> Iterator[Breach]:
        yield from member.given.setdefault(row.sender, Deliveries()).take(row, member.order in _IN_ORDER)
        yield from self._sends_of(row.sender).deliver(row)
        if member.order in _PARENTS_FIRST:
            yield from self.parents.deliver(row, member.given)
        in_step, member.position = row.position == member.position, max(member.position, row.position + row.last - row.first + 1)
        if member.order == "total":
            sequence = self.sequences.setdefault(row.view, Sequence())
            if not in_step:
                sequence.pass_over(row.member)
            elif not row.note:
                sequence.take(row)

    def _sends_of(self, sender: str) -> Sends:
        sends = self.sends.setdefault(sender, Sends())
        sends.touched = self.rounds
        return sends

    def _install(self, row: Told, member: Member) -> None:
        sides = _said(row.note).get("sides") or [row.members]
        side = next((sorted(map(str, side)) for side in sides if row.member in side), [])
        member.ways[member.view] = f"{row.view} {' '.join(side)}"
        member.view, member.left = row.view, False
        if member.order == "total":
            sequence = self.sequences.setdefault(row.view, Sequence())
            sequence.members = row.members
            if member.catches_up:
                sequence.pass_over(row.member)
        for name in row.members:
            if name not in self.members:
                self.awaited.setdefault(name, self.rounds)

    def _together(self, view: int, one: str, other: str) -> bool | None:
        ways = [self.members[name].ways.get(view) if name in self.members else "" for name in (one, other)]
        return None if None in ways else ways[0] == ways[1]

    # -- forgetting ------------------------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        waited_for = {name: one for name, one in self.members.items() if not one.left and self.rounds - one.heard <= PATIENCE}
        # Whose first file is still to come has passed nothing: were forgotten what the others have passed, it would be judged from the
        # middle on, and what it did wrong before would go unseen. So would who is still to come into a view in which others go on.
        waited_for |= {name: Member("") for name, since in self.awaited.items() if self.rounds - since <= PATIENCE}
        through: dict[str, int] = {}
        for sender, sends in self.sends.items():
            through[sender] = min((one.given[sender].through if sender in one.given else 0 for one in waited_for.values()), default=0)
            sends.close(through[sender])
        self.parents.close(through)
        oldest = min((one.view for one in waited_for.values()), default=0)
        for view, sequence in list(self.sequences.items()):
            here = [name for name in sequence.members if name in waited_for and waited_for[name].view <= view]
            sequence.close(min((sequence.place_by_member.get(name, 0) for name in here), default=0))
            if view < oldest:
                # What is still undecided there concerns somebody who is gone, and never will be.
                del self.sequences[view]
        for one in self.members.values():
            for view in [view for view in one.ways if view < oldest]:
                del one.ways[view]
        self._bury()

    def _bury(self) -> None:
        """Members that have been gone for long are forgotten; so are senders that are no members, with what was given of them."""
        for name in [name for name, one in self.members.items() if self.rounds - one.heard > BURIED]:
            self.index_by_writer.pop(self.members.pop(name).writer, None)
        for name in [name for name, since in self.awaited.items() if self.rounds - since > BURIED]:
            del self.awaited[name]
        for sender in [one for one, sends in self.sends.items() if one not in self.members and self.rounds - sends.touched > BURIED]:
            del self.sends[sender]
            for one in self.members.values():
                one.given.pop(sender, None)

    def _bounded(self, found: list[Breach]) -> Iterator[Breach]:
        for breach in found:
            self.told[breach.promise] = self.told.get(breach.promise, 0) + 1
            if self.told[breach.promise] <= REPORTS:
                yield breach


def _said(note: str) -> dict[str, Any]:
    """What a note says in JSON; nothing where it is none."""
    try:
        said = json.loads(note or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _flat(ranges: Any) -> list[int]:
    return [number for pair in ranges for number in pair]


def _ranges(kind: type, flat: Any) -> Any:
    return Ranges(zip(flat[::2], flat[1::2], strict=True))


_encode = msgspec.msgpack.Encoder(enc_hook=_flat).encode
_decode = msgspec.msgpack.Decoder(Watch, dec_hook=_ranges).decode
