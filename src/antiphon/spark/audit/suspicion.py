"""Quick judges: what certainly is right in a group, seen from its sheets. Everything else is suspected, and looked at by rows.

Each of them errs on one side only: it may suspect what turns out to be right, and never passes what is wrong. So nearly all of a trace is
judged here, with a few operations on arrays for each member, and the judges that sort rows and name witnesses see only what is suspect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from antiphon.spark.audit.evidence import Evidence
from antiphon.spark.audit.ledger import united, without
from antiphon.spark.audit.life import ODD_SENDS
from antiphon.spark.audit.promised import is_judged
from antiphon.spark.audit.sheet import DELIVER, GAP, HOLD, ORDINARY, ORPHANED, RECEIVE, RECOVERED, SEND, Longs, Sheet

INTEGRITY, LEDGER, CAUSAL, PARENTS, MINIMALITY, TOPICS = "integrity", "ledger", "causal", "parents", "minimality", "topics"
_ALL = 1 << 62


def suspected(evidence: Evidence) -> tuple[set[str], dict[str, int]]:
    """The families of promises that must be looked at by rows; and of the others how much was looked at."""
    suspects: set[str] = set()
    checked: dict[str, int] = {}
    promises = evidence.ledger.promises
    if evidence.runs and "integrity" in promises and _integrity(evidence):
        suspects.add(INTEGRITY)
    elif evidence.runs and "integrity" in promises:
        checked["integrity"] = sum(last - first + 1 for runs in evidence.runs.values() for first, last, _ in runs)
    if "causal" in promises:
        _enter(_causal(evidence), CAUSAL, "causal", suspects, checked)
    if "parent_before_child" in promises and evidence.names:
        _enter(_parents(evidence), PARENTS, "parent_before_child", suspects, checked)
    minimal = "minimality" in promises and is_judged("minimality", promises)
    if minimal and (evidence.large or any(_late(evidence, *one) for one in evidence.sheets.items())):
        suspects.add(MINIMALITY)
    return suspects, checked


def _enter(count: int | None, family: str, promise: str, suspects: set[str], checked: dict[str, int]) -> None:
    if count is None:
        suspects.add(family)
    elif count:
        checked[promise] = count


# -- integrity -----------------------------------------------------------------------------------------------------------------------


def _integrity(evidence: Evidence) -> bool:
    """Whether something may be invented or early; altered it is if its checksum is another (`checks`)."""
    if ODD_SENDS in evidence.odd:
        return True
    members = evidence.ledger.members
    for (_, sender), runs in evidence.runs.items():
        life = members.get(sender)
        sent = united(life.sent + life.guests) if life is not None else []
        judged = life is not None and life.known and life.complete
        if any(first < 1 for first, _, _ in runs) or (judged and without(united((first, last) for first, last, _ in runs), sent)):
            return True
    return False


# -- causal --------------------------------------------------------------------------------------------------------------------------


def _causal(evidence: Evidence) -> int | None:
    """How many deliveries were looked at; None: one may have come before its cause."""
    if "total" in evidence.ledger.promises and (evidence.large or evidence.sheets.away):
        count = _causal_by_places(evidence)
        if count is not None:
            return count
    if evidence.large:
        return None
    sends = {member: _Sends(sheet) for member, sheet in evidence.sheets.items()}
    pairs = [pair for member, sheet in evidence.sheets.items() for pair in _met(member, sheet, sends)]
    for other in evidence.ledger.known:
        if not _in_time(evidence, other.member, pairs):
            return None
    return sum(len(rows) for _, _, rows, _ in pairs)


class _Sends:
    """What a member sent, in the order of its numbers."""

    def __init__(self, sheet: Sheet) -> None:
        self.rows = np.flatnonzero(sheet.of(SEND))
        self.rows = self.rows[np.argsort(sheet.firsts[self.rows], kind="stable")]
        self.firsts, self.lasts = sheet.firsts[self.rows], sheet.lasts[self.rows]

    def holding(self, numbers: Longs) -> Longs:
        """The place of the row that holds each number, in the order of numbers; -1: there is none."""
        if not len(self.firsts):
            return np.full(len(numbers), -1, np.int64)
        place = np.searchsorted(self.firsts, numbers, "right") - 1
        return np.asarray(np.where((place >= 0) & (self.lasts[place] >= numbers), place, -1), np.int64)


def _met(member: int, sheet: Sheet, sends: dict[int, _Sends]) -> Iterator[tuple[int, int, Longs, Longs]]:
    """Who delivered whose, the rows that did, and those that sent it."""
    delivers = sheet.of(DELIVER)
    for sender, sent in sends.items():
        if sender == member or not len(sent.rows):
            continue
        rows = np.flatnonzero(delivers & (sheet.senders == sender))
        place = sent.holding(sheet.lasts[rows])
        yield member, sender, rows[place >= 0], sent.rows[place[place >= 0]]


def _in_time(evidence: Evidence, other: int, pairs: list[tuple[int, int, Longs, Longs]]) -> bool:
    """Whether nobody delivered something whose sender had more of `other` than it had itself."""
    heard: dict[int, Longs] = {}
    had: dict[int, Longs] = {}
    for member, sheet in evidence.sheets.items():
        of = sheet.senders == other
        lasts = np.where(of & sheet.of(DELIVER, GAP), sheet.lasts, 0)
        had[member] = np.concatenate([[0], np.maximum.accumulate(lasts)[:-1]])
        if member in evidence.begins:
            at, begins, members = evidence.begins[member]
            later = had[member][int(np.searchsorted(sheet.indices, at)) :]
            np.maximum(later, begins.get(other, 0) if other in members else _ALL, out=later)
        said = np.where(of & sheet.of(DELIVER), sheet.lasts, 0) if member != other else np.zeros(len(lasts), np.int64)
        heard[member] = np.concatenate([[0], np.maximum.accumulate(said)[:-1]])
    return not any((heard[sender][sent] > had[member][rows]).any() for member, sender, rows, sent in pairs)


def _causal_by_places(evidence: Evidence) -> int | None:
    """In a total order whoever delivers its own messages after it sent them has their causes before them; and so has everybody with the
    same messages at the same places. Where all have the same, that is enough."""
    ledger = evidence.ledger
    lives = list(ledger.members.values())
    one = lives[0]
    for life in lives:
        whole = life.known and life.complete and life.wants in ("founder", "all")
        whole = whole and not any(life.gaps.values()) and not any(life.adopted.values())
        ordinary = all(run.sort == "ordinary" for run in life.delivered)
        views = [install.view for install in life.installs] == [install.view for install in one.installs]
        if not (whole and ordinary and views and life.blocks == one.blocks) or any(install.sides for install in life.installs):
            return None
    if evidence.odd or any(sender not in ledger.members for _, sender in evidence.runs):
        return None
    count = 0
    for (member, sender), runs in evidence.runs.items():
        if without(united((first, last) for first, last, _ in runs), united(ledger.members[sender].sent + ledger.members[sender].guests)):
            return None
        count += sum(rows for _, _, rows in runs) if member != sender else 0
    return count


# -- parents and waiting -------------------------------------------------------------------------------------------------------------


class _Held:
    """Where a member has a message: of the rows that begin at or before it the last, and of those that begin together the earliest."""

    def __init__(self, sheet: Sheet, *kinds: int) -> None:
        rows = np.flatnonzero(sheet.of(*kinds))
        rows = rows[np.lexsort((-sheet.indices[rows], sheet.firsts[rows], sheet.senders[rows]))]
        self.rows, self._lasts = rows, sheet.lasts[rows]
        self._senders, self._begins = np.unique(sheet.senders[rows], return_index=True)
        self._ends = np.concatenate([self._begins[1:], [len(rows)]]) if len(rows) else self._begins
        self._firsts = sheet.firsts[rows]

    def find(self, senders: Longs, numbers: Longs) -> Longs:
        """The row in the sheet for each message, or -1."""
        found = np.full(len(numbers), -1, np.int64)
        for sender, begin, end in zip(self._senders.tolist(), self._begins.tolist(), self._ends.tolist(), strict=True):
            asked = np.flatnonzero(senders == sender)
            if not len(asked):
                continue
            place = np.searchsorted(self._firsts[begin:end], numbers[asked], "right") - 1
            held = (place >= 0) & (self._lasts[begin + np.maximum(place, 0)] >= numbers[asked])
            found[asked[held]] = self.rows[begin + place[held]]
        return found


def _pairs(evidence: Evidence) -> tuple[Longs, Longs, Longs, Longs]:
    """Who names whom: child's sender and number, parent's sender and number."""
    parts = []
    for member, sheet in evidence.sheets.items():
        sent = sheet.kinds[sheet.rows] == SEND
        children = sheet.children[sent]
        parts.append((np.full(len(children), member, np.int64), children, sheet.parents_of[sent], sheet.parents[sent]))
    one, two, three, four = (np.concatenate([part[place] for part in parts]) for place in range(4))
    return one, two, three, four


def _parents(evidence: Evidence) -> int | None:
    """How many answers were looked at; None: one may have come before what it answers."""
    if evidence.large:
        return None
    child_of, children, parent_of, parents = _pairs(evidence)
    count, repairs = 0, "agreement" in evidence.ledger.promises
    named: set[tuple[int, ...]] = set()
    if any(_marks(sheet).any() for sheet in evidence.sheets.values()):
        named = set(zip(*(one.tolist() for one in (child_of, children, parent_of, parents)), strict=True))
    for life in evidence.ledger.known:
        sheet = evidence.sheets.get(life.member)
        if sheet is None:
            continue
        had = _Held(sheet, DELIVER).find(child_of, children)
        there = had >= 0
        had, numbers = had[there], children[there]
        found = _Held(sheet, DELIVER, GAP).find(parent_of[there], parents[there])
        at = sheet.indices[found]
        later = (sheet.kinds[found] == DELIVER) & ((at > sheet.indices[had]) | ((at == sheet.indices[had]) & (parents[there] > numbers)))
        if not repairs:
            later &= sheet.sorts[found] != RECOVERED
        whole = life.wants in ("founder", "all") and repairs
        marked = (sheet.sorts[had] == ORPHANED) | (sheet.sorts[had] == RECOVERED)
        if marked.any():
            marked &= _excused(sheet, had, parent_of[there], parents[there])
        wrong = ~marked & np.where(found < 0, whole, later)
        if wrong.any() or _false_marks(sheet, repairs) or _unnamed_marks(sheet, named):
            return None
        count += len(had)
    return count


def _marks(sheet: Sheet) -> Any:
    """Which of the names on a sheet are those that the delivery of an orphan, recovered or not, calls lost."""
    sorts = sheet.sorts[sheet.rows]
    return (sheet.kinds[sheet.rows] == DELIVER) & ((sorts == ORPHANED) | (sorts == RECOVERED))


def _excused(sheet: Sheet, had: Longs, parent_of: Longs, parents: Longs) -> Any:
    """Of each child's row and parent: whether the row calls that parent lost, or is a mark without names."""
    marks = _marks(sheet)
    rows = sheet.rows[marks].tolist()
    lost = set(zip(rows, sheet.parents_of[marks].tolist(), sheet.parents[marks].tolist(), strict=True))
    named = set(rows)
    asked = zip(had.tolist(), parent_of.tolist(), parents.tolist(), (sheet.sorts[had] == ORPHANED).tolist(), strict=True)
    return np.fromiter((one[:3] in lost or (one[3] and one[0] not in named) for one in asked), bool, len(had))


def _false_marks(sheet: Sheet, repairs: bool) -> bool:
    """Whether an orphaned delivery calls a parent lost that this member delivered."""
    marks = _marks(sheet)
    if not marks.any():
        return False
    found = _Held(sheet, DELIVER).find(sheet.parents_of[marks], sheet.parents[marks])
    later = repairs & (sheet.sorts[found] != RECOVERED)
    return bool(((found >= 0) & ((sheet.indices[found] < sheet.indices[sheet.rows[marks]]) | later)).any())


def _unnamed_marks(sheet: Sheet, named: set[tuple[int, ...]]) -> bool:
    """Whether an orphaned delivery calls something lost that the message may not have named."""
    marks = _marks(sheet)
    rows = sheet.rows[marks]
    columns = (sheet.senders[rows], sheet.firsts[rows], sheet.parents_of[marks], sheet.parents[marks])
    return any(one not in named for one in zip(*(column.tolist() for column in columns), strict=True))


def _late(evidence: Evidence, member: int, sheet: Sheet) -> bool:
    """Whether something may have waited for nothing."""
    rows = np.flatnonzero(sheet.of(RECEIVE, DELIVER, HOLD))
    if not len(rows):
        return False
    received = sheet.kinds[rows] == RECEIVE
    times = sheet.times[rows]
    goes_on = np.concatenate([[False], received[:-1] & (times[1:] == times[:-1])])
    turns = np.maximum.accumulate(np.where(received & ~goes_on, sheet.indices[rows], -1))
    delivered = (sheet.kinds[rows] == DELIVER) & (sheet.sorts[rows] == ORDINARY)
    turn_of = np.full(len(sheet.kinds), -1, np.int64)
    turn_of[rows] = turns
    deliveries, receipts = rows[delivered], rows[received]
    if _overlap(sheet, deliveries) or _overlap(sheet, receipts):
        return True
    late = _late_pieces(sheet, deliveries, receipts, turn_of)
    if late and ("parent_before_child" not in evidence.ledger.promises or not _had_to_wait(evidence, sheet, late, turn_of)):
        return True
    held = sheet.kinds[sheet.rows] == HOLD
    if not held.any():
        return False
    found = _Held(sheet, DELIVER).find(sheet.parents_of[held], sheet.parents[held])
    return bool(((found >= 0) & (sheet.indices[found] < sheet.indices[sheet.rows[held]])).any())


def _overlap(sheet: Sheet, rows: Longs) -> bool:
    rows = rows[np.lexsort((sheet.firsts[rows], sheet.senders[rows]))]
    same = sheet.senders[rows][1:] == sheet.senders[rows][:-1]
    return bool((same & (sheet.firsts[rows][1:] <= sheet.lasts[rows][:-1])).any())


def _late_pieces(sheet: Sheet, deliveries: Longs, receipts: Longs, turn_of: Longs) -> list[tuple[int, int, int, int]]:
    """What one row received and one of a later turn delivered: sender, first, last, the row of the delivery."""
    late: dict[tuple[int, int, int, int], None] = {}
    for mine, theirs, forward in ((deliveries, receipts, True), (receipts, deliveries, False)):
        found = _find_in(sheet, theirs, mine)
        there = found >= 0
        one, two = mine[there], found[there]
        given, got = (one, two) if forward else (two, one)
        wrong = turn_of[given] > turn_of[got]
        for give, get in zip(given[wrong].tolist(), got[wrong].tolist(), strict=True):
            first, last = max(sheet.firsts[give], sheet.firsts[get]), min(sheet.lasts[give], sheet.lasts[get])
            late[int(sheet.senders[give]), int(first), int(last), give] = None
    return list(late)


def _find_in(sheet: Sheet, rows: Longs, asking: Longs) -> Longs:
    """The one of `rows` (which do not overlap) that holds the first message of each asking row, or -1."""
    found = np.full(len(asking), -1, np.int64)
    for sender in np.unique(sheet.senders[asking]).tolist():
        here = rows[sheet.senders[rows] == sender]
        if not len(here):
            continue
        here = here[np.argsort(sheet.firsts[here], kind="stable")]
        mine = np.flatnonzero(sheet.senders[asking] == sender)
        numbers = sheet.firsts[asking[mine]]
        place = np.searchsorted(sheet.firsts[here], numbers, "right") - 1
        held = (place >= 0) & (sheet.lasts[here[place]] >= numbers)
        found[mine[held]] = here[place[held]]
    return found


def _had_to_wait(evidence: Evidence, sheet: Sheet, late: list[tuple[int, int, int, int]], turn_of: Longs) -> bool:
    """Whether each message that came late names one that came in the same turn."""
    child_of, children, parent_of, parents = _pairs(evidence)
    held = _Held(sheet, DELIVER, GAP)
    found = held.find(parent_of, parents)
    at = np.where(found >= 0, sheet.indices[found], _ALL)
    came: dict[tuple[int, int], int] = {}
    for sender, child, index in zip(child_of.tolist(), children.tolist(), at.tolist(), strict=True):
        came[sender, child] = max(index, came.get((sender, child), -1))
    return all(came.get((sender, number), -1) >= turn_of[row] for sender, first, last, row in late for number in range(first, last + 1))
