"""Integrity, where it shows in whole groups: nothing is delivered of somebody who never was in the group.

Judged where the traces of all members of all views are there: otherwise a sender may only not have been recorded.
"""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.spark.audit.finding import Finding
from antiphon.spark.audit.ledger import GroupLedger


def judge(ledger: GroupLedger) -> Iterator[Finding]:
    everybody = {one for member in ledger.members.values() for install in member.installs for one in install.members}
    recorded = {member.member for member in ledger.known}
    if not everybody <= recorded or not any(member.wants == "founder" for member in ledger.known):
        return
    for member in ledger.known:
        for one in member.delivered:
            if one.sender not in everybody and one.sender not in recorded:
                story = f"@{member.member} delivered message {one.first} of @{one.sender}, who never was in the group"
                yield Finding(ledger.group, "integrity", amount=1, story=story, rows=[(member.member, one.low)])
