"""Parent before child, where a delivery is marked as orphaned: a parent that it calls lost must be lost.

A mark is false if it names no parent, or if another member delivered the parent in an earlier view than the orphan's, from which the two
went on together: then the parent was in the past of the group. A parent of the same view may not have been sent when the orphan was, which
only a faulty sender answers. Where it was, and the member has it, `parents` finds out by rows; where the member lacks it, so do `agreement`
and `virtual_synchrony`, which no mark excuses. Over best effort nothing is repaired, and each member may lose what others have.
"""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.spark.audit.finding import Finding, Point
from antiphon.spark.audit.ledger import GroupLedger, MemberLedger, Orphan
from antiphon.spark.audit.losses import disproof


def judge(ledger: GroupLedger) -> Iterator[Finding]:
    if "parent_before_child" not in ledger.promises:
        return
    for member in ledger.known:
        for orphan in member.orphans:
            yield from _judged(ledger, member, orphan)


def _judged(ledger: GroupLedger, member: MemberLedger, orphan: Orphan) -> Iterator[Finding]:
    me = member.member
    what = f"@{me} delivered message {orphan.number} of @{orphan.sender} as orphaned"
    if not orphan.lost:
        yield Finding(ledger.group, "parent_before_child", amount=1, story=f"{what} and names no lost parent", rows=[(me, orphan.at)])
    if "agreement" not in ledger.promises:
        return
    for sender, number in orphan.lost:
        other = disproof(ledger, member, sender, number, orphan.view) if member.delivery_of(sender, number) is None else None
        if other is not None:
            story = f"{what}, and its parent, message {number} of @{sender}, is not lost: @{other.member} delivered it"
            points = [Point("deliver", other.member, sender, number)]
            yield Finding(ledger.group, "parent_before_child", amount=1, story=story, rows=[(me, orphan.at)], points=points)
