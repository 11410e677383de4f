"""Validity: a living member delivers its own messages. And nothing is lost: what who stays, or left in order, had sent is delivered by
somebody who stays, but for as many of its last messages as it was told about when it left.

Judged at the end of a trace, where all members of one view stand in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.spark.audit.finding import Finding, Point
from antiphon.spark.audit.ledger import GroupLedger, MemberLedger, Ranges, size, united, without
from antiphon.spark.audit.losses import believed


def judge(ledger: GroupLedger) -> Iterator[Finding]:
    standing = ledger.last_view()
    if "validity" in ledger.promises:
        yield from _own(ledger, standing)
    if "nothing_lost" in ledger.promises:
        yield from _nothing_lost(ledger, standing)


def _own(ledger: GroupLedger, standing: list[MemberLedger]) -> Iterator[Finding]:
    yield Finding(ledger.group, "validity", checked=sum(size(united(member.sent)) for member in standing))
    for member in standing:
        sent = without(united(member.sent), united(member.guests))
        missing = without(sent, united([*member.ranges(member.member), *believed(ledger, member, member.member)]))
        if missing:
            number = missing[0][0]
            yield Finding(
                ledger.group,
                "validity",
                amount=size(missing),
                story=f"@{member.member} sent message {number} and never delivered it itself",
                rows=[(member.member, member.last_index)],
                points=[Point("send", member.member, member.member, number)],
            )

def _nothing_lost(ledger: GroupLedger, standing: list[MemberLedger]) -> Iterator[Finding]:
    if not standing:
        return
    for sender in ledger.known:
        if not sender.sent or not (sender.left_at is not None or sender in standing):
            continue
        sent = without(_said(sender), united(sender.guests))
        yield Finding(ledger.group, "nothing_lost", checked=size(sent))
        missing = without(sent, _had(standing, sender.member))
        if missing:
            number = missing[0][0]
            yield Finding(
                ledger.group,
                "nothing_lost",
                amount=size(missing),
                story=f"@{sender.member} sent message {number}, was not told that it is lost, and nobody who stayed delivered it",
                rows=[(member.member, member.last_index) for member in standing],
                points=[Point("send", sender.member, sender.member, number)],
            )


def _said(sender: MemberLedger) -> Ranges:
    """What a sender may believe to be said: all of it while it stays; who left, all but the last messages that it was told about."""
    last = max(last for _, last in sender.sent) - (sender.unsaid if sender.left_at is not None else 0)
    return [(first, min(end, last)) for first, end in united(sender.sent) if first <= last]


def _had(standing: list[MemberLedger], sender: int) -> Ranges:
    """What any of them delivered of the sender, was told is lost, or has in its state."""
    return united(piece for member in standing for piece in [*member.ranges(sender), *member.gaps[sender], *member.adopted[sender]])
