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
from antiphon.spark.audit.promised import described, not_judged
from antiphon.spark.watching.claims import Claims
from antiphon.spark.watching.deliveries import Deliveries
from antiphon.spark.watching.parents import Parents
from antiphon.spark.watching.sends import Sends
from antiphon.spark.watching.sequences import Sequence
from antiphon.spark.watching.told import Breach, Spot, Told

PATIENCE = 60
"""Rounds without a row after which a member holds nothing up any more."""
BURIED = 600
"""Rounds without a row after which it is forgotten altogether."""
REPORTS = 100
"""Breaches of one promise that are told of one group; the others are counted."""
JUDGED = frozenset({"integrity", "no_duplication", "fifo", "total", "parent_before_child"})
"""Promises that are judged here. Of others (agreement, views) some violations are seen, and the audit sees the rest."""
VIEWS = 1_024
"""Views whose members are kept, the newest."""


class Member(Struct, array_like=True):
    writer: str
    promises: list[str] = field(default_factory=list)
    """Of the group, as the member states them."""
    described: Spot | None = None
    """Its `group` row."""
    view: int = 0
    heard: int = 0
    """The last round in which it said anything."""
    left: bool = False
    left_at: Spot = Spot("", 0)
    position: int = 0
    """Of its next delivery."""
    delivered_at: Spot = Spot("", -1)
    """Its last delivery."""
    missed: bool = False
    """Whether a row may have been missed since then: then the next delivery may have a later position."""
    given: dict[str, Deliveries] = field(default_factory=dict)
    """By sender."""
    ways: dict[int, str] = field(default_factory=dict)
    """By view: into which it went from there, and with whom."""
    catches_up: bool = False
    """It is given a state, which may stand for a beginning of the view that it is in: at which place it goes on nobody says."""


class Watch(Struct):
    rounds: int = 0
    index_by_writer: dict[str, int] = field(default_factory=dict)
    through_by_writer: dict[str, int] = field(default_factory=dict)
    """Up to which index all rows after that one have been read."""
    members: dict[str, Member] = field(default_factory=dict)
    awaited: dict[str, int] = field(default_factory=dict)
    """Who stands in a view and has said nothing yet, since which round."""
    sends: dict[str, Sends] = field(default_factory=dict)
    parents: Parents = field(default_factory=Parents)
    sequences: dict[int, Sequence] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    """Breaches by promise, those included that were only counted."""
    claims: Claims = field(default_factory=Claims)
    members_by_view: dict[int, tuple[str, ...]] = field(default_factory=dict)
    shared: dict[str, tuple[str, str, Spot]] = field(default_factory=dict)
    """What the group's description says: by name the value, the first member that stated it, and where."""
    promises: list[str] = field(default_factory=list)
    """As the first member stated them: for members whose description is missing or cannot be read."""
    unjudged: list[str] = field(default_factory=list)
    """Promises of the group for which there is no check, live or afterwards."""
    left: list[str] = field(default_factory=list)
    """Promises of the group that are judged afterwards, by the audit of whole traces."""

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
        found += self.claims.judge({name: one.given for name, one in self.members.items()}, self.sends, self._together, self.rounds)
        self._forget()
        return list(self._bounded(found))

    def _take(self, row: Told) -> Iterator[Breach]:
        last = self.index_by_writer.get(row.writer, -1)
        if row.index <= last:
            return
        self.index_by_writer[row.writer] = row.index
        member = self.members.setdefault(row.member, Member(row.writer))
        member.heard = self.rounds
        begins = row.index if row.since < 0 else row.since
        member.missed |= begins > self.through_by_writer.get(row.writer, -1) + 1
        self.through_by_writer[row.writer] = max(row.index, row.until)
        self.awaited.pop(row.member, None)
        if row.kind == "deliver":
            yield from self._deliver(row, member)
        elif row.kind == "send":
            sender = row.sender or row.member
            yield from self._sends_of(sender).send(row)
            if row.names and "parent_before_child" in self._promises_to(member):
                given = {name: one.given for name, one in self.members.items()}
                yield from self.parents.send(sender, row.names, given)
        elif row.kind == "group":
            yield from self._describe(row, member)
        elif row.kind == "view":
            yield from self._install(row, member)
        elif row.kind == "gap":
            # A state stands for messages only where the member wants one, has not caught up and has delivered nothing; or it is not known
            # what it wants.
            if row.note != "state" or (member.promises and not (member.catches_up and member.delivered_at.index < 0)):
                self.claims.gap(row, self.rounds, self._promises_to(member))
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
            member.left, member.left_at = True, row.spot

    def _describe(self, row: Told, member: Member) -> Iterator[Breach]:
        """Take what a member states about the group, and compare it with what others state."""
        if member.described is not None:
            yield Breach("description", f"{row.member} described the group twice", (member.described, row.spot))
            return
        member.described = row.spot
        member.missed &= member.delivered_at.index >= 0  # nothing of a member lies before its description
        description = described(row.note)
        member.catches_up = description.wants == "state"
        if not description.readable:
            yield Breach("description", f"{row.member} gave a description of the group that cannot be read", (row.spot,))
            return
        member.promises = sorted(description.promises)
        self.promises = self.promises or member.promises
        unjudged = not_judged(description.promises)
        self.unjudged += [name for name in unjudged if name not in self.unjudged]
        later = sorted(description.promises - JUDGED - {*unjudged})
        self.left += [name for name in later if name not in self.left]
        wrong: dict[tuple[str, Spot], list[str]] = {}
        for name, value in description.shared.items():
            stated, by, spot = self.shared.setdefault(name, (value, row.member, row.spot))
            if stated != value:
                wrong.setdefault((by, spot), []).append(name)
        for (by, spot), names in wrong.items():
            yield Breach("description", f"{by} and {row.member} describe the group with different {', '.join(names)}", (spot, row.spot))

    def _deliver(self, row: Told, member: Member) -> Iterator[Breach]:
        promises = self._promises_to(member)
        found = [*member.given.setdefault(row.sender, Deliveries()).take(row, "fifo" in promises)]
        found += self._sends_of(row.sender).deliver(row)
        found += self._presence(row, member)
        # Promises that the group does not give are not judged.
        yield from (breach for breach in found if breach.promise in promises)
        if "parent_before_child" in promises:
            if row.note == "orphaned" or (row.note == "recovered" and row.names):
                yield from self.claims.orphan(row, self.rounds, promises)
            yield from self.parents.deliver(row, member.given)
        if row.position < member.position or (row.position != member.position and not member.missed):
            sentence = f"{row.member} numbered a delivery {row.position} which is its number {member.position}"
            yield Breach("positions", sentence, (member.delivered_at, row.spot) if member.delivered_at.index >= 0 else (row.spot,))
        member.delivered_at, member.missed = row.spot, False
        in_step, member.position = row.position == member.position, row.position + row.last - row.first + 1
        if "total" in promises:
            sequence = self.sequences.setdefault(row.view, Sequence())
            if not in_step:
                sequence.pass_over(row.member)
            elif not row.note:
                sequence.take(row)

    def _promises_to(self, member: Member) -> list[str]:
        return member.promises or self.promises

    def _presence(self, row: Told, member: Member) -> Iterator[Breach]:
        """Judge whether the sender was in the view of its message, and the member still is in the group."""
        view = self.members_by_view.get(row.view)
        if view is not None and row.sender not in view:
            sentence = f"{row.member} delivered message {row.first} of {row.sender}, who was not in its view"
            yield Breach("integrity", sentence, (row.spot,))
        if member.left:
            sentence = f"{row.member} delivered message {row.first} of {row.sender} after it had left the group"
            yield Breach("integrity", sentence, (member.left_at, row.spot))

    def _sends_of(self, sender: str) -> Sends:
        sends = self.sends.setdefault(sender, Sends())
        sends.touched = self.rounds
        return sends

    def _install(self, row: Told, member: Member) -> Iterator[Breach]:
        self.members_by_view.setdefault(row.view, row.members)
        if len(self.members_by_view) > VIEWS:
            del self.members_by_view[min(self.members_by_view)]
        if "views" in self._promises_to(member) and len(set(row.members)) < len(row.members):
            twice = next(name for place, name in enumerate(row.members) if name in row.members[:place])
            yield Breach("views", f"{row.member} installed a view that has {twice} twice", (row.spot,))
        sides = _said(row.note).get("sides") or [row.members]
        side = next((sorted(map(str, side)) for side in sides if row.member in side), [])
        member.ways[member.view] = f"{row.view} {' '.join(side)}"
        member.view, member.left = row.view, False
        if "total" in self._promises_to(member):
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
        for view in [view for view in self.members_by_view if view < oldest]:
            del self.members_by_view[view]
        for one in self.members.values():
            for view in [view for view in one.ways if view < oldest]:
                del one.ways[view]
        self._bury()

    def _bury(self) -> None:
        """Members that have been gone for long are forgotten; so are senders that are no members, with what was given of them."""
        for name in [name for name, one in self.members.items() if self.rounds - one.heard > BURIED]:
            writer = self.members.pop(name).writer
            self.index_by_writer.pop(writer, None)
            self.through_by_writer.pop(writer, None)
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
