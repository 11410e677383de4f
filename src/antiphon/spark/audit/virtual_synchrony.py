"""Virtual synchrony: members that go together from one view to the next have delivered the same messages in the old one.

Those who come on one side of the next view go together. What a member recovers, or is given after its parents were lost, is not of the view
in which that happens. An ordinary message is delivered while its view is the installed one. Not promised over best effort.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from antiphon.spark.audit.finding import Finding, Point
from antiphon.spark.audit.ledger import GroupLedger, MemberLedger, size, united, without
from antiphon.spark.audit.ranges import ORDINARY

_IN_VIEW = (ORDINARY,)


def judge(ledger: GroupLedger) -> Iterator[Finding]:
    if "virtual_synchrony" not in ledger.promises:
        return
    for member in ledger.known:
        yield Finding(ledger.group, "virtual_synchrony", checked=len(member.installs))
        yield from _outside_its_view(ledger, member)
    together: dict[tuple[int, int, tuple[int, ...]], list[tuple[MemberLedger, int]]] = defaultdict(list)
    for member in ledger.known:
        for old, new in zip(member.installs, member.installs[1:], strict=False):
            side = next((side for side in new.sides if member.member in side), ())
            together[old.view, new.view, side].append((member, new.at))
    for (view, _, _), mates in together.items():
        if len(mates) > 1:
            yield from _compare(ledger, view, mates)


def _compare(ledger: GroupLedger, view: int, mates: list[tuple[MemberLedger, int]]) -> Iterator[Finding]:
    senders = {one.sender for member, _ in mates for one in member.delivered if one.view == view and one.sort in _IN_VIEW}
    for sender in sorted(senders):
        had = [(member, index, member.ranges(sender, view=view, sorts=_IN_VIEW)) for member, index in mates]
        everything = without(united(piece for _, _, ranges in had for piece in ranges), ledger.guests_of(sender))
        for member, index, ranges in had:
            # What it had before, or has in a state that it was given, it need not deliver again. That it was told lost is no excuse.
            had_before = [(one.first, one.last) for one in member.delivered if one.sender == sender and one.low < index]
            missing = without(without(everything, ranges), united([*had_before, *member.adopted[sender]]))
            if not missing:
                continue
            number = missing[0][0]
            other = next(other for other, _, theirs in had if any(first <= number <= last for first, last in theirs))
            story = f"@{member.member} went on with @{other.member}, which had delivered message {number} of @{sender}, and had not"
            yield Finding(
                ledger.group,
                "virtual_synchrony",
                amount=size(missing),
                story=story,
                rows=[(member.member, index)],
                points=[Point("deliver", other.member, sender, number)],
            )


def _outside_its_view(ledger: GroupLedger, member: MemberLedger) -> Iterator[Finding]:
    """Ordinary deliveries before the view of their message was installed here, or after the next one was."""
    began = {install.view: install.at for install in reversed(member.installs)}
    ended = {old.view: new.at for old, new in reversed([*zip(member.installs, member.installs[1:], strict=False)])}
    for one in member.delivered:
        if one.sort != ORDINARY:
            continue
        begin, end = began.get(one.view), ended.get(one.view)
        if begin is None or one.low < begin or (end is not None and one.high > end):
            late = end is not None and one.high > end
            when = "after the next view" if late else "before that view" if begin is not None else "without having installed that view"
            story = f"@{member.member} delivered a message of @{one.sender} {when}"
            rows = (
                [(member.member, end or 0), (member.member, one.high)]
                if late
                else [(member.member, one.low), *([(member.member, begin)] if begin is not None else [])]
            )
            yield Finding(ledger.group, "virtual_synchrony", amount=1, story=story, rows=rows)
