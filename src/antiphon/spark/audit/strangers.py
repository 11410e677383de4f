"""Integrity, where it shows in whole groups: nothing is delivered of a sender that is not in the group.

A message travels in a view, and its sender is a member of that view. Where any member installed the view, its members are known, and a
delivery of somebody else's message is a violation, whatever the deliverer wanted of the past. Where nobody recorded the view, the sender of
what was not recovered must have been in one of the deliverer's own views: only in those are messages delivered as they come. What was
recovered from such a view is judged where the traces of all members of all views are there, a founder's among them: otherwise its sender
may only not have been recorded. A sender that describes the group writes its first view as the next row: it may have been in one if its
trace ends before that, and otherwise is one of those who are in a view, or never was in the group.
"""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.spark.audit.finding import Finding
from antiphon.spark.audit.ledger import GroupLedger
from antiphon.spark.audit.ranges import RECOVERED


def judge(ledger: GroupLedger) -> Iterator[Finding]:
    if "integrity" not in ledger.promises:
        return
    members_by_view: dict[int, set[int]] = {}
    for member in ledger.members.values():
        for install in member.installs:
            members_by_view.setdefault(install.view, set()).update(install.members)
    everybody = set().union(*members_by_view.values())
    recorded = {member.member for member in ledger.known}
    whole = everybody <= recorded and any(member.wants == "founder" for member in ledger.known)
    perhaps = {member.member for member in ledger.known if member.last_index <= member.known_at}
    for member in ledger.members.values():
        met = {one for install in member.installs for one in install.members}
        for one in member.delivered:
            there = members_by_view.get(one.view)
            if there is not None and one.sender not in there:
                end = "who was not in its view"
            elif whole and one.sender not in everybody and one.sender not in perhaps:
                end = "who never was in the group"
            elif there is None and one.sort != RECOVERED and member.known and met and one.sender not in met:
                end = "who was in none of its views"
            else:
                continue
            story = f"@{member.member} delivered message {one.first} of @{one.sender}, {end}"
            yield Finding(ledger.group, "integrity", amount=1, story=story, rows=[(member.member, one.low)])
