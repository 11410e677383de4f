"""What a member says is lost, and what of that is contradicted: by other members, or by its own deliveries.

Members that go together from one view to the next, or are in it to the end, have the same messages of it (virtual synchrony). So a message
that one of them delivered in that view was there to be had by the other: neither a `gap` row nor an orphan's mark of the other excuses
that it is missing. What was said in a view that a member never installed, or left on another side of a partition, may be lost to it.
"""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.spark.audit.finding import Finding, Point
from antiphon.spark.audit.ledger import GroupLedger, MemberLedger, Ranges, size, united, without
from antiphon.spark.audit.ranges import RECOVERED


def judge(ledger: GroupLedger) -> Iterator[Finding]:
    """Find messages that a member delivered although it was told that they are lost to it. Over best effort ranges hide holes (`ranges`),
    and say nothing about single messages."""
    if not {"integrity", "agreement"} <= ledger.promises:
        return
    for member in ledger.known:
        for sender, ranges in sorted(member.gaps.items()):
            told = united(ranges)
            kept = without(told, without(told, member.ranges(sender)))
            if kept:
                number = kept[0][0]
                story = f"@{member.member} delivered message {number} of @{sender}, of which it was told that it is lost"
                points = [Point(kind, member.member, sender, number) for kind in ("gap", "deliver")]
                yield Finding(ledger.group, "integrity", amount=size(kept), story=story, points=points)


def believed(ledger: GroupLedger, member: MemberLedger, sender: int) -> Ranges:
    """Return what a member need not deliver of a sender: it is in a state that the member was given, or was told lost and no other member
    contradicts that."""
    told = united(member.gaps[sender])
    if told:
        told = without(told, united(piece for other in ledger.known for piece in _contradicted(member, other, sender)))
    return united([*told, *member.adopted[sender]])


def disproof(ledger: GroupLedger, member: MemberLedger, sender: int, number: int, before: int) -> MemberLedger | None:
    """Return a member that shows that a message of a view `before` another was not lost to `member`; None where a state stands for the
    message."""
    if any(first <= number <= last for first, last in member.adopted[sender]):
        return None
    for other in ledger.known:
        one = other.delivery_of(sender, number) if other is not member else None
        if one is not None and one.view < before and one.sort != RECOVERED and _together(member, other, one.view):
            return other
    return None


def _contradicted(member: MemberLedger, other: MemberLedger, sender: int) -> Ranges:
    if other is member:
        return []
    theirs = other.delivered_by_sender.get(sender, [])
    return [(one.first, one.last) for one in theirs if one.sort != RECOVERED and _together(member, other, one.view)]


def _together(one: MemberLedger, other: MemberLedger, view: int) -> bool:
    way = one.ways.get(view)
    return way is not None and way == other.ways.get(view)
