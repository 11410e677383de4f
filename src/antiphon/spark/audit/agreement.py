"""Agreement: what one member that stays delivers, all that stay deliver.

At the end of a trace those are judged who stand together in one view, all of them: everything any of them has, whichever way it came,
the others have, were told that it is lost (`losses` says when that is believed), or have in the state they were given; a newcomer that did
not want everything, from its beginning on. Of a member that crashed, or whose trace has no end, what all were known to have by then, or in
a safe group all it delivered, is delivered by those who went on.
"""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.spark.audit.finding import Finding, Point
from antiphon.spark.audit.ledger import GroupLedger, MemberLedger, Ranges, size, united, without
from antiphon.spark.audit.losses import believed
from antiphon.spark.audit.promised import SAFE
from antiphon.spark.audit.ranges import ORDINARY

_WHOLE = ("founder", "all")


def judge(ledger: GroupLedger) -> Iterator[Finding]:
    if "agreement" not in ledger.promises:
        return
    standing = ledger.last_view()
    yield Finding(ledger.group, "agreement", checked=sum(member.counts["delivered"] for member in standing))
    senders = {one.sender for member in standing for one in member.delivered}
    for sender in sorted(senders):
        everything = without(united(piece for member in standing for piece in member.ranges(sender)), ledger.guests_of(sender))
        for member in standing:
            missing = without(without(everything, member.ranges(sender)), excused(ledger, member, sender))
            if missing:
                number = missing[0][0]
                other = next(other for other in standing if any(first <= number <= last for first, last in other.ranges(sender)))
                yield _finding(ledger, other, member, sender, missing, (member.member, member.last_index))
    for member in ledger.known:
        if not member.closed and member.installs:
            yield from _crashed(ledger, member)


def excused(ledger: GroupLedger, member: MemberLedger, sender: int) -> Ranges:
    """Return what of a sender's messages a member need not deliver: what is lost to it or in its state, and what was before its time."""
    told = believed(ledger, member, sender)
    if member.wants not in _WHOLE:
        begin = member.installs[0]
        met = sender in begin.members
        told.append((0, begin.begins.get(sender, 0) if met else 1 << 62))
    return united(told)


def _crashed(ledger: GroupLedger, dead: MemberLedger) -> Iterator[Finding]:
    view = dead.installs[-1]
    survivors = [
        (member, after)
        for member in ledger.known
        if member is not dead and member.install_of(view.view) is not None and (after := member.next_of(view.view)) is not None
    ]
    safe = SAFE in ledger.promises
    stable = dead.stable.get(view.view, {})
    for sender in sorted({one.sender for one in dead.delivered if one.view == view.view and one.sort == ORDINARY}):
        had = dead.ranges(sender, view=view.view, sorts=(ORDINARY,))
        limit = 1 << 62 if safe else stable.get(sender, 0)
        judged = without([(first, min(last, limit)) for first, last in had if first <= limit], ledger.guests_of(sender))
        for member, after in survivors:
            side = next((side for side in after.sides if member.member in side), after.members)
            if safe and 2 * len([one for one in side if one in view.members]) < len(view.members):
                continue  # too few went on for one of them to be sure to have had it
            missing = without(without(judged, member.ranges(sender)), excused(ledger, member, sender))
            if missing:
                yield _finding(ledger, dead, member, sender, missing, (member.member, after.at))


def _finding(ledger: GroupLedger, had: MemberLedger, lacks: MemberLedger, sender: int, missing: Ranges, until: tuple[int, int]) -> Finding:
    number = missing[0][0]
    story = f"@{had.member} delivered message {number} of @{sender}, and @{lacks.member} never did"
    points = [Point("deliver", had.member, sender, number)]
    return Finding(ledger.group, "agreement", amount=size(missing), story=story, rows=[until], points=points)
