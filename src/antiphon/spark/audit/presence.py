"""Where a member's own deliveries contradict each other: positions that are not consecutive, and deliveries after it left.

The walk sees both as it goes through the rows (`life.py`) and hands on one example for each member with a count.
"""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.spark.audit.finding import Finding
from antiphon.spark.audit.ledger import GroupLedger


def judge(ledger: GroupLedger) -> Iterator[Finding]:
    for member in ledger.members.values():
        me = member.member
        if member.jump is not None:
            jump = member.jump
            story = f"@{me} numbered a delivery {jump.found} which is its number {jump.expected}"
            rows = [(me, index) for index in (jump.before, jump.at) if index >= 0]
            yield Finding(ledger.group, "positions", amount=jump.amount, story=story, rows=rows)
        if member.late is not None and "integrity" in ledger.promises:
            late = member.late
            story = f"@{me} delivered message {late.number} of @{late.sender} after it had left the group"
            yield Finding(ledger.group, "integrity", amount=late.amount, story=story, rows=[(me, late.left_at), (me, late.at)])
