"""Description: every member's `group` row can be read, and says of the group what the other members' rows say.

Where members contradict each other, the value that most of them give counts, and the others are reported. A member that installs views or
delivers without a `group` row is reported as well: its rows are whole up to there, so the row is not merely missing from the trace.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from antiphon.spark.audit.finding import Finding
from antiphon.spark.audit.ledger import GroupLedger, MemberLedger


def judge(ledger: GroupLedger) -> Iterator[Finding]:
    yield Finding(ledger.group, "description", checked=len(ledger.members))
    readable = [member for member in ledger.members.values() if member.description.readable]
    for member in ledger.members.values():
        if not member.known and (member.installs or member.delivered):
            first = min([install.at for install in member.installs] + [one.low for one in member.delivered])
            yield _finding(ledger, f"@{member.member} took part without describing the group", [(member.member, first)])
        elif member.known and not member.description.readable:
            story = f"@{member.member} gave a description of the group that cannot be read"
            yield _finding(ledger, story, [(member.member, member.known_at)])
        if member.described_again is not None:
            rows = [(member.member, member.known_at), (member.member, member.described_again)]
            yield _finding(ledger, f"@{member.member} described the group twice", rows)
    yield from _contradictions(ledger, readable)


def _contradictions(ledger: GroupLedger, readable: list[MemberLedger]) -> Iterator[Finding]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for member in readable:
        for name, value in member.description.shared.items():
            counts[name][value] += 1
    usual = {name: min(values, key=lambda value: (-values[value], value)) for name, values in counts.items() if len(values) > 1}
    if not usual:
        return
    for member in readable:
        shared = member.description.shared
        wrong = sorted(name for name, value in usual.items() if shared.get(name, value) != value)
        if wrong:
            other = next(one for one in readable if one.description.shared.get(wrong[0]) == usual[wrong[0]])
            story = f"@{member.member} and @{other.member} describe the group with different {', '.join(wrong)}"
            yield _finding(ledger, story, [(member.member, member.known_at), (other.member, other.known_at)])


def _finding(ledger: GroupLedger, story: str, rows: list[tuple[int, int]]) -> Finding:
    return Finding(ledger.group, "description", amount=1, story=story, rows=rows)
