"""No duplication: nobody is given a message twice. Ranges of one member and sender that overlap say otherwise."""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.spark.audit.finding import Finding
from antiphon.spark.audit.ledger import GroupLedger


def judge(ledger: GroupLedger) -> Iterator[Finding]:
    if "no_duplication" not in ledger.promises:
        return
    yield Finding(ledger.group, "no_duplication", checked=sum(member.counts["delivered"] for member in ledger.members.values()))
    for member in ledger.members.values():
        for place, (sender, number, one, two) in enumerate(member.examples["doubled"]):
            rest = member.counts["doubled"] - len(member.examples["doubled"]) if place == 0 else 0
            story = f"@{member.member} delivered message {number} of @{sender} twice"
            rows = [(member.member, one), (member.member, two)]
            yield Finding(ledger.group, "no_duplication", amount=1 + rest, story=story, rows=rows)
