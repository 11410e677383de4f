"""What the judges of whole groups see: one ledger for each group, made of its ranges and of the rows of which there are few.

A ledger is as large as the group's members, views and senders make it, not as its messages are many; it fits into memory where the trace
does not.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from antiphon.spark.audit.promised import UNREADABLE, Description, agreed, described

Ranges = list[tuple[int, int]]
"""Disjoint, ascending, inclusive."""


class Delivered(NamedTuple):
    """A range of one sender's messages. `low` and `high` are the first and last index of the rows that delivered it."""

    sender: int
    view: int
    sort: str
    first: int
    last: int
    low: int
    high: int


class Install(NamedTuple):
    """A view, as one member was told of it. `sides` are empty where there was one."""

    view: int
    at: int
    """The index of the row."""
    members: tuple[int, ...]
    sides: tuple[tuple[int, ...], ...]
    begins: dict[int, int]


class Orphan(NamedTuple):
    """A delivery that is marked as orphaned, and the parents that it calls lost, as (sender, number)."""

    sender: int
    number: int
    view: int
    at: int
    """The index of the row."""
    lost: tuple[tuple[int, int], ...]


class Jump(NamedTuple):
    """The first of `amount` deliveries whose position does not follow from the one before it (`before`: its index, or -1)."""

    at: int
    before: int
    expected: int
    found: int
    amount: int


class Late(NamedTuple):
    """The first of `amount` messages that a member delivered after it had left."""

    at: int
    left_at: int
    sender: int
    number: int
    amount: int


@dataclass
class MemberLedger:
    """The life of one member."""

    member: int
    description: Description = UNREADABLE
    known: bool = False
    """Whether its `group` row is there: otherwise nobody knows what was promised to it."""
    known_at: int = 0
    """The index of that row."""
    described_again: int | None = None
    """The index of a second one."""
    wants: str = "all"
    closed: bool = False
    crashed: bool = False
    installs: list[Install] = field(default_factory=list)
    delivered: list[Delivered] = field(default_factory=list)
    gaps: dict[int, Ranges] = field(default_factory=lambda: defaultdict(list))
    """By sender: what it was told is lost."""
    adopted: dict[int, Ranges] = field(default_factory=lambda: defaultdict(list))
    """By sender: what is in a state that it was given."""
    states: list[tuple[int, int, int, int]] = field(default_factory=list)
    """What it said is in such a state: sender, first, last, and the index of the row."""
    caught_up_at: int | None = None
    """The index of the first row that says that it has caught up."""
    orphans: list[Orphan] = field(default_factory=list)
    jump: Jump | None = None
    late: Late | None = None
    sent: Ranges = field(default_factory=list)
    sent_index: int = 0
    guests: Ranges = field(default_factory=list)
    stable: dict[int, dict[int, int]] = field(default_factory=dict)
    """By view: up to where all have each sender's messages, as this member knew last."""
    places: dict[int, int] = field(default_factory=dict)
    """By view: how many places of a total order all know."""
    settled: dict[int, int] = field(default_factory=dict)
    """By view: the index of the row that says that everybody is there."""
    stopped_in: int | None = None
    """The last view in which it was without a majority."""
    left_at: int | None = None
    unsaid: int = 0
    last_index: int = 0
    blocks: dict[tuple[int, int], tuple[int, int, int]] = field(default_factory=dict)
    """By view and block of places: how many of them, and two sums over them."""
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    examples: dict[str, list[tuple[int, int, int, int]]] = field(default_factory=lambda: defaultdict(list))
    """By promise: sender, number, and two indices."""

    @property
    def complete(self) -> bool:
        """Whether what is not in its rows did not happen."""
        return self.closed or self.crashed

    @property
    def stands(self) -> bool:
        """Whether it was in the group to the end."""
        return self.closed and not self.crashed and self.left_at is None and bool(self.installs)

    def adopt_states(self) -> None:
        """Believe that a state stands for messages where the member joined for one, had not caught up yet and had delivered nothing, or
        where it is not known what it wanted. Other claims are as good as `gap` rows without a state."""
        first_at = min((one.low for one in self.delivered), default=None)
        for sender, first, last, at in self.states:
            early = (self.caught_up_at is None or at < self.caught_up_at) and (first_at is None or at < first_at)
            believed = (self.wants == "state" and early) or not self.description.readable
            (self.adopted if believed else self.gaps)[sender].append((first, last))

    def next_of(self, view: int) -> Install | None:
        """What it installed after `view`."""
        for before, after in zip(self.installs, self.installs[1:], strict=False):
            if before.view == view:
                return after
        return None

    @cached_property
    def ways(self) -> dict[int, tuple[object, ...]]:
        """By view: the next view that it installed, and its side in that; `there` for the view in which it stays to the end."""
        ways: dict[int, tuple[object, ...]] = {}
        for before, after in zip(self.installs, self.installs[1:], strict=False):
            ways.setdefault(before.view, (after.view, next((side for side in after.sides if self.member in side), ())))
        if self.stands:
            ways.setdefault(self.installs[-1].view, ("there",))
        return ways

    @cached_property
    def delivered_by_sender(self) -> dict[int, list[Delivered]]:
        """In the order of the numbers. Read it when the ledger is complete."""
        found: dict[int, list[Delivered]] = defaultdict(list)
        for one in sorted(self.delivered, key=lambda one: one.first):
            found[one.sender].append(one)
        return found

    def delivery_of(self, sender: int, number: int) -> Delivered | None:
        """Return the range in which it delivered a message."""
        ranges = self.delivered_by_sender.get(sender, [])
        place = bisect_right(ranges, number, key=lambda one: one.first) - 1
        return ranges[place] if place >= 0 and ranges[place].last >= number else None

    def install_of(self, view: int) -> Install | None:
        return next((install for install in self.installs if install.view == view), None)

    def ranges(self, sender: int, *, view: int | None = None, sorts: tuple[str, ...] | None = None) -> Ranges:
        """What it delivered of one sender."""
        found = [
            (one.first, one.last)
            for one in self.delivered
            if one.sender == sender and (view is None or one.view == view) and (sorts is None or one.sort in sorts)
        ]
        return united(found)


@dataclass
class GroupLedger:
    group: int
    members: dict[int, MemberLedger]

    @classmethod
    def of(cls, group: int, rows: Iterable[Mapping[str, Any]]) -> GroupLedger:
        members: dict[int, MemberLedger] = {}
        for row in rows:
            member = members.get(row["member_id"])
            if member is None:
                member = members[row["member_id"]] = MemberLedger(row["member_id"])
            _ENTER[row["kind"]](member, row)
        for member in members.values():
            member.installs.sort(key=lambda install: install.at)
            member.delivered.sort(key=lambda one: one.low)
            member.adopt_states()
        return cls(group, members)

    @property
    def known(self) -> list[MemberLedger]:
        return [member for member in self.members.values() if member.known]

    @cached_property
    def promises(self) -> frozenset[str]:
        """What the group promises, as most of its members state it. Read it when the ledger is complete."""
        return agreed(member.description for member in self.known)

    @cached_property
    def partitions(self) -> str:
        """Which side of a partition goes on, as a member states it."""
        return next((str(member.description.options.get("partitions") or "") for member in self.known if member.description.readable), "")

    def guests_of(self, sender: int) -> Ranges:
        """Numbers under which a member passed on what an outsider said: who hears it through two members leaves one of them out."""
        member = self.members.get(sender)
        return united(member.guests) if member is not None else []

    def last_view(self) -> list[MemberLedger]:
        """Those who stand in one view to the end, when all its members do and, where views are agreed on, know it of each other; otherwise
        nobody: something may have been under way. So it may where they were stopped in it for want of a majority."""
        standing = [member for member in self.known if member.stands]
        if not standing:
            return []
        last = max((member.installs[-1] for member in standing), key=lambda install: install.view)
        agreed = any(member.settled for member in self.known)
        there = [member for member in standing if member.installs[-1].view == last.view]
        if any(member.stopped_in == last.view for member in there):
            return []
        here = {member.member for member in there if not agreed or last.view in member.settled}
        return [member for member in standing if member.member in here] if here == set(last.members) else []


def united(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The same numbers as disjoint ranges that do not touch."""
    merged: Ranges = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def without(ranges: Ranges, taken: Ranges) -> Ranges:
    """What is in `ranges` and not in `taken`; both as `united` makes them."""
    left: Ranges = []
    place = 0
    for first, last in ranges:
        while place < len(taken) and taken[place][1] < first:
            place += 1
        at = place
        while at < len(taken) and taken[at][0] <= last:
            if first < taken[at][0]:
                left.append((first, taken[at][0] - 1))
            first = taken[at][1] + 1
            at += 1
        if first <= last:
            left.append((first, last))
    return left


def size(ranges: Ranges) -> int:
    return sum(last - first + 1 for first, last in ranges)


# -- how rows come in ----------------------------------------------------------------------------------------------------------------


def _group(member: MemberLedger, row: Mapping[str, Any]) -> None:
    if member.known:
        earlier, later = sorted((member.known_at, row["index"]))
        member.described_again = later
        if earlier == member.known_at:
            return
    member.known, member.known_at = True, row["index"]
    member.description = described(row["note"])
    member.wants = member.description.wants
    member.closed, member.crashed = bool(row["closed"]), bool(row["crashed"])
    member.last_index = row["last"]


def _view(member: MemberLedger, row: Mapping[str, Any]) -> None:
    begins = {name["sender"]: name["number"] for name in row["names"] or ()}
    sides = tuple(tuple(side) for side in row["sides"] or ())
    member.installs.append(Install(row["view"], row["index"], tuple(row["members"] or ()), sides, begins))


def _range(member: MemberLedger, row: Mapping[str, Any]) -> None:
    sender = row["sender_id"]
    member.delivered.append(Delivered(sender, row["view"], row["note"], row["first"], row["last"], row["index"], row["high"]))
    member.counts["delivered"] += row["amount"]
    for promise in ("doubled", "inverted"):
        if row[promise]:
            at = row[f"{promise}_at"]
            member.counts[promise] += row[promise]
            member.examples[promise].append((sender, at["first"], at["one"], at["two"]))


def _gap(member: MemberLedger, row: Mapping[str, Any]) -> None:
    if row["note"] == "state":
        member.states.append((row["sender_id"], row["first"], row["last"], row["index"]))
    else:
        member.gaps[row["sender_id"]].append((row["first"], row["last"]))


def _orphan(member: MemberLedger, row: Mapping[str, Any]) -> None:
    lost = tuple((name["sender"], name["number"]) for name in row["names"] or ())
    member.orphans.append(Orphan(row["sender_id"], row["first"], row["view"], row["index"], lost))


def _jump(member: MemberLedger, row: Mapping[str, Any]) -> None:
    member.jump = Jump(row["index"], row["high"], row["first"], row["last"], row["amount"])


def _late(member: MemberLedger, row: Mapping[str, Any]) -> None:
    member.late = Late(row["index"], row["high"], row["sender_id"], row["first"], row["amount"])


def _sent(member: MemberLedger, row: Mapping[str, Any]) -> None:
    (member.guests if row["note"] == "guest" else member.sent).append((row["first"], row["last"]))
    member.sent_index = max(member.sent_index, row["high"])


def _stable(member: MemberLedger, row: Mapping[str, Any]) -> None:
    if row["note"] == "places":
        member.places[row["view"]] = max(row["amount"], member.places.get(row["view"], 0))
        return
    known = member.stable.setdefault(row["view"], {})
    for name in row["names"] or ():
        known[name["sender"]] = max(name["number"], known.get(name["sender"], 0))


def _settled(member: MemberLedger, row: Mapping[str, Any]) -> None:
    if row["note"] == "stable":
        member.settled.setdefault(row["view"], row["index"])
    elif row["note"] == "stopped":
        member.stopped_in = row["view"]
    else:
        member.caught_up_at = row["index"] if member.caught_up_at is None else min(row["index"], member.caught_up_at)


def _leave(member: MemberLedger, row: Mapping[str, Any]) -> None:
    member.left_at, member.unsaid = row["index"], row["amount"]


def _block(member: MemberLedger, row: Mapping[str, Any]) -> None:
    count, total, square = member.blocks.get((row["view"], row["index"]), (0, 0, 0))
    member.blocks[row["view"], row["index"]] = (count + row["amount"], total + row["first"], square + row["last"])


_ENTER = {
    "group": _group, "view": _view, "range": _range, "gap": _gap, "sent": _sent, "stable": _stable, "settled": _settled, "leave": _leave,
    "block": _block, "orphan": _orphan, "jump": _jump, "late": _late,
}  # fmt: skip
