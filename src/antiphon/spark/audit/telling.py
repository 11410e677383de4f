"""From findings to violations: names instead of ids, rows looked up, orders compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from antiphon.model.ids import name_of
from antiphon.spark.audit.acts import Acts
from antiphon.spark.audit.finding import Compare, Finding, Point
from antiphon.spark.audit.opening import Difference, find_points, open_blocks
from antiphon.spark.audit.verdict import VIOLATIONS, Violation, Witness

_ID = re.compile(r"@(-?\d+)")


class Detail(NamedTuple):
    """A finding that will be told in full."""

    group: int
    promise: str
    amount: int
    story: str
    rows: tuple[tuple[int, int], ...]
    points: tuple[Point, ...]


@dataclass
class Cell:
    """What was found of one promise in one group."""

    group_id: int
    promise: str
    run: str = ""
    group: str = ""
    checked: int = 0
    amount: int = 0
    details: list[Finding] = field(default_factory=list)


class Who(NamedTuple):
    member: str
    writer: str


def details_of(acts: Acts, cells: Iterable[Cell]) -> list[Detail]:
    """What the cells say is wrong; comparisons are decided here."""
    details: list[Detail] = []
    compares: list[tuple[int, Compare]] = []
    for cell in cells:
        for one in cell.details:
            if one.compare is not None:
                compares.append((cell.group_id, one.compare))
            else:
                details.append(Detail(cell.group_id, cell.promise, one.amount, one.story, tuple(one.rows), tuple(one.points)))
    return details + [_of_difference(difference) for difference in open_blocks(acts, compares)]


def _of_difference(difference: Difference) -> Detail:
    """Two members that had different messages at one place. Where each of them has both, the four rows show it."""
    one, other = difference.compare.one, difference.compare.other
    (sender, number, index), (their_sender, their_number, their_index) = difference.one, difference.other
    story = f"@{one} delivered message {number} of @{sender} where @{other} delivered message {their_number} of @{their_sender}"
    points = (Point("deliver", one, their_sender, their_number), Point("deliver", other, sender, number))
    return Detail(difference.group, "total", 1, story, ((one, index), (other, their_index)), points)


def told(acts: Acts, cells: Iterable[Cell], details: Sequence[Detail]) -> list[Violation]:
    """The first `VIOLATIONS` of them, with names and all their rows."""
    chosen = sorted(details, key=lambda detail: (detail.promise, detail.group, detail.story))[:VIOLATIONS]
    if not chosen:
        return []
    names = {cell.group_id: (cell.run, cell.group) for cell in cells}
    indices = find_points(acts, [(detail.group, point) for detail in chosen for point in detail.points])
    people = _people(acts, chosen)
    violations = []
    for detail in chosen:
        looked_up = [(point.member_id, indices[detail.group, point]) for point in detail.points if (detail.group, point) in indices]
        run, group = names[detail.group]
        rows = [(people[member].writer, index) for member, index in [*detail.rows, *looked_up] if member in people]
        witness = tuple(sorted({Witness(run, writer, index) for writer, index in rows}))
        violations.append(Violation(run, group, detail.promise, _sentence(detail.story, people), witness, detail.amount))
    return violations


def _sentence(story: str, people: Mapping[int, Who]) -> str:
    def name(found: re.Match[str]) -> str:
        member = int(found[1])
        return name_of(people[member].member) if member in people else "a stranger"

    return _ID.sub(name, story) + "."


def _people(acts: Acts, details: Sequence[Detail]) -> dict[int, Who]:
    """Everybody in the groups of these findings, and the writers that topics name, by id."""
    groups = sorted({detail.group for detail in details if not detail.promise.startswith("topic")})
    people = {row.member_id: Who(row.member, row.writer) for row in acts.named_in(groups).collect()} if groups else {}
    members = {member for detail in details if not detail.promise.startswith("topic") for member, _ in detail.rows}
    for row in acts.named_by_rows(sorted(members - {*people})).collect() if members - {*people} else ():
        people[row.member_id] = Who(row.member, row.writer)
    writers = sorted({member for detail in details if detail.promise.startswith("topic") for member, _ in detail.rows})
    for row in acts.writers_in(writers).collect() if writers else ():
        people[row.writer_id] = Who(row.writer, row.writer)
    return people
