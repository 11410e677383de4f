"""Fifo: each sender's messages in the order it sent them; causal and total order promise it too.

Judged over a member's whole life, what it caught up with included. A message that comes again is `no_duplication`'s affair.
"""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.spark.audit.finding import Finding
from antiphon.spark.audit.ledger import GroupLedger


def judge(ledger: GroupLedger) -> Iterator[Finding]:
    if "fifo" not in ledger.promises:
        return
    yield Finding(ledger.group, "fifo", checked=sum(member.counts["delivered"] for member in ledger.members.values()))
    for member in ledger.members.values():
        for place, (sender, number, early, late) in enumerate(member.examples["inverted"]):
            rest = member.counts["inverted"] - len(member.examples["inverted"]) if place == 0 else 0
            story = f"@{member.member} delivered message {number} of @{sender} before an earlier one of the same sender"
            rows = [(member.member, early), (member.member, late)]
            yield Finding(ledger.group, "fifo", amount=1 + rest, story=story, rows=rows)
