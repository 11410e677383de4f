"""Ranges of numbers, and the judges of whole groups, without Spark."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import antiphon.spark.audit as package
import antiphon.spark.watching as watching
from antiphon.spark.audit import description, virtual_synchrony
from antiphon.spark.audit.ledger import Delivered, GroupLedger, Install, MemberLedger, Ranges, size, united, without
from antiphon.spark.audit.losses import believed, disproof
from antiphon.spark.audit.promised import described

PACKAGES = [path for one in (package, watching) for path in Path(one.__path__[0]).glob("*.py")]

NUMBERS = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 6)).map(lambda one: (one[0], one[0] + one[1])), max_size=8)


def numbers(ranges: Ranges) -> set[int]:
    return {number for first, last in ranges for number in range(first, last + 1)}


@given(NUMBERS, NUMBERS)
def test_ranges_are_the_sets_they_stand_for(one: Ranges, two: Ranges) -> None:
    """A range that is one too long hides a lost message, one too short invents one."""
    assert numbers(united(one)) == numbers(one)
    assert all(after[0] > before[1] + 1 for before, after in zip(united(one), united(one)[1:], strict=False))
    assert numbers(without(united(one), united(two))) == numbers(one) - numbers(two)
    assert size(united(one)) == len(numbers(one))


def test_only_those_who_go_together_are_compared() -> None:
    """Two sides of a split deliver different messages, and that is what was promised: whoever calls it broken is not believed again."""

    def life(member: int, side: int, last: int) -> MemberLedger:
        views = [Install(1, 1, (1, 2, 3), (), {}), Install(side, 9, (member,), (), {})]
        had = [Delivered(1, 1, "ordinary", 1, last, 2, 5)]
        return MemberLedger(member, described('{"order": "fifo", "multicast": "reliable"}'), known=True, installs=views, delivered=had)

    together = GroupLedger(7, {1: life(1, 2, 9), 2: life(2, 2, 8), 3: life(3, 3, 4)})
    found = [finding for finding in virtual_synchrony.judge(together) if finding.amount]
    assert [(finding.amount, finding.rows) for finding in found] == [(1, [(2, 9)])]


def test_what_is_called_lost_is_believed_only_where_nobody_had_it() -> None:
    """A member that loses messages would only have to say so; and one that was cut off would be blamed for what it never could have."""

    def life(member: int, after: int, *, had: bool, gaps: Ranges, closed: bool = True, sort: str = "ordinary") -> MemberLedger:
        views = [Install(1, 1, (1, 2, 3), (), {}), Install(after, 9, (1, 2, 3), (), {})]
        delivered = [Delivered(3, 1, sort, 5, 9, 2, 5)] if had else []
        one = MemberLedger(member, described('{"order": "fifo"}'), known=True, closed=closed, installs=views, delivered=delivered)
        one.gaps[3] += gaps
        return one

    def kept(other: MemberLedger, mine: MemberLedger) -> Ranges:
        ledger = GroupLedger(7, {1: mine, 2: other})
        assert (disproof(ledger, mine, 3, 6, before=2) is None) == (numbers(believed(ledger, mine, 3)) >= {6})
        assert disproof(ledger, mine, 3, 6, before=1) is None, "it may not have been sent then"
        return believed(ledger, mine, 3)

    mine = life(1, 2, had=False, gaps=[(1, 6)])
    assert kept(life(2, 2, had=True, gaps=[]), mine) == [(1, 4)], "they went on together"
    assert kept(life(2, 3, had=True, gaps=[]), mine) == [(1, 6)], "it went another way"
    assert kept(life(2, 2, had=False, gaps=[]), mine) == [(1, 6)], "nobody had it"
    assert kept(life(2, 2, had=True, gaps=[], sort="recovered"), mine) == [(1, 6)], "it came from another side"
    assert kept(life(2, 2, had=True, gaps=[], closed=False), mine) == [(1, 4)], "what became of it later is no matter"
    mine.adopted[3].append((6, 7))
    assert kept(life(2, 2, had=True, gaps=[]), mine) == [(1, 4), (6, 7)], "a state stands for it"


def test_a_group_row_that_cannot_be_read_says_nothing() -> None:
    """A damaged row of one member would change what is asked of all others."""
    lives = {
        number: MemberLedger(number, described(note), known=True)
        for number, note in enumerate(['{"order": "fifo"}', "{", '{"order": "total"}', '{"order": "fifo", "wants": "none"}'])
    }
    ledger = GroupLedger(7, lives)
    assert ledger.promises == described('{"order": "fifo"}').promises
    assert [(finding.amount, finding.rows) for finding in description.judge(ledger) if finding.amount] == [
        (1, [(1, 0)]),
        (1, [(2, 0), (0, 0)]),
    ]


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("path", [*PACKAGES], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_audit_does_not_know_the_oracles(path: Path) -> None:
    """Two who copy from each other agree on every mistake."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [one.name for one in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        assert not [name for name in names if name.startswith(("antiphon.sim", "antiphon.protocol"))], path.name
