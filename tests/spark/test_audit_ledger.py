"""Ranges of numbers, and the judges of whole groups, without Spark."""

from __future__ import annotations

import ast
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import antiphon.spark.audit as package
from antiphon.spark.audit import virtual_synchrony
from antiphon.spark.audit.ledger import Delivered, GroupLedger, Install, MemberLedger, Ranges, size, united, without

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
        return MemberLedger(member, order="fifo", multicast="reliable", known=True, installs=views, delivered=had)

    together = GroupLedger(7, {1: life(1, 2, 9), 2: life(2, 2, 8), 3: life(3, 3, 4)})
    found = [finding for finding in virtual_synchrony.judge(together) if finding.amount]
    assert [(finding.amount, finding.rows) for finding in found] == [(1, [(2, 9)])]


def test_the_audit_does_not_know_the_oracles() -> None:
    """Two who copy from each other agree on every mistake."""
    for path in Path(package.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [one.name for one in node.names]
                if isinstance(node, ast.Import)
                else []
            )
            assert not [name for name in names if name.startswith("antiphon.sim")], path.name
