"""One member on its way: what is left of its rows, however many there are.

Keeps: how far it is, a piece of its sheet, and some checksums.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from antiphon.spark.audit import sheet as sheets
from antiphon.spark.audit.checks import Packing
from antiphon.spark.audit.promised import Description
from antiphon.spark.audit.sheet import DELIVER, GROUP, SEND, Longs, Sheet
from antiphon.spark.audit.total import BLOCK, PRIME

if TYPE_CHECKING:
    from antiphon.spark.audit.walker import Found

SORTS = ("ordinary", "recovered", "orphaned", "guest", "other")
RUNS = 50_000
"""So many runs of one member are handed on; one that has more is judged by its rows."""
PIECE = 65_536
"""Rows in a piece of a sheet: whole, a large one would fill the memory of the Java process on its way."""
ODD_LEDGER, ODD_SENDS = "ledger", "sends"
"""What is strange about a member: its ranges cannot be trusted, or it sent with holes, or delivered before it sent."""


class Life:
    """One member on its way."""

    def __init__(self, group: int, member: int, most: int, found: Found) -> None:
        """`most` rows on its sheet."""
        self.group, self.member, self._most, self._found = group, member, most, found
        self._piece: list[Sheet] = []
        self._rows = self._piece_rows = self._pieces = 0
        self._checks = Packing()
        self._sent = self._place = self._runs = self._names = 0
        self._promises: frozenset[str] = frozenset()
        self._described = False
        self._view: int | None = None
        self._odd: set[str] = set()
        self._position = 0
        """That the next delivery must have."""
        self._delivered_at = self._left_at = self._viewed_at = -1
        """The index of the last delivery, of the last `leave`, and of the last view."""
        self._jump: dict[str, int] | None = None
        self._late: dict[str, int] | None = None

    def add(self, *, part: int | None = None, **values: Any) -> None:
        self._found.add(part=self.group if part is None else part, group_id=self.group, member_id=self.member, **values)

    def take(self, rows: dict[str, Longs], lists: tuple[Longs, list[Longs], Longs, Longs], told: Sequence[Description]) -> None:
        """Rows that follow those before; what the `group` rows among them say."""
        kinds = rows["kind"]
        sends, delivers = kinds == SEND, kinds == DELIVER
        for one in told[:1] if not self._described else ():
            if not one.readable or (delivers & (rows["index"] < rows["index"][kinds == GROUP][0])).any():
                self._odd.add(ODD_LEDGER)
            self._promises, self._described = one.promises, True
        if sends.any():
            self._send(rows, sends)
        if delivers.any():
            if not self._described:
                self._odd.add(ODD_LEDGER)
            self._number(rows, delivers)
            self._deliver(rows, delivers)
            self._own(rows, sends, delivers)
            if "total" in self._promises:
                self._blocks(rows, delivers & (rows["sort"] == sheets.ORDINARY))
        if sends.any():
            self._sent = max(self._sent, int(rows["last"][sends].max()))
        self._stay(rows, delivers)
        name_counts, names, check_counts, values = lists
        self._names += int(name_counts[sends | delivers].sum())
        self._check(self._checks.take(rows["sender_id"], rows["first"], rows["last"], check_counts, values, sends))
        chosen = sends | delivers | (kinds == sheets.GAP)
        if "minimality" in self._promises:  # elsewhere nobody asks how long something waited
            chosen |= (kinds == sheets.RECEIVE) | (kinds == sheets.HOLD)
        if chosen.any():
            self._keep(_sheet(rows, chosen, name_counts, names))

    def end(self) -> None:
        """It goes no further."""
        self._check(self._checks.end())
        if self._jump is not None:
            self.add(kind="jump", **self._jump)
        if self._late is not None:
            self.add(kind="late", **self._late)
        if self._rows:
            self._hand_on(note=" ".join(sorted(self._odd)), amount=self._names)

    def _send(self, rows: dict[str, Longs], sends: Any) -> None:
        firsts, lasts, indices = rows["first"][sends], rows["last"][sends], rows["index"][sends]
        expected = np.concatenate([[self._sent], lasts[:-1]]) + 1
        if (firsts != expected).any():
            self._odd.add(ODD_SENDS)
        guests = rows["sort"][sends] == sheets.GUEST
        for place in np.flatnonzero(guests).tolist():
            here = {"first": int(firsts[place]), "last": int(lasts[place]), "index": int(indices[place]), "high": int(indices[place])}
            self.add(kind="sent", note="guest", **here)
        own = ~guests
        if own.any():
            low, high = int(indices[own].min()), int(indices[own].max())
            self.add(kind="sent", first=int(firsts[own].min()), last=int(lasts[own].max()), index=low, high=high)

    def _number(self, rows: dict[str, Longs], delivers: Any) -> None:
        """Whether each delivery has the position after the one before it."""
        found, indices = rows["position"][delivers], rows["index"][delivers]
        ends = found + rows["last"][delivers] - rows["first"][delivers] + 1
        expected = np.concatenate([[self._position], ends[:-1]])
        wrong = np.flatnonzero(found != expected)
        if len(wrong):
            at = int(wrong[0])
            before = int(indices[at - 1]) if at else self._delivered_at
            example = {"index": int(indices[at]), "high": before, "first": int(expected[at]), "last": int(found[at]), "amount": 0}
            self._jump = self._jump or example
            self._jump["amount"] += len(wrong)
        self._position, self._delivered_at = int(ends[-1]), int(indices[-1])

    def _stay(self, rows: dict[str, Longs], delivers: Any) -> None:
        """Whether it delivered something after it had left, and before it came into another view."""
        kinds, indices = rows["kind"], rows["index"]
        leaves, views = kinds == sheets.LEAVE, kinds == sheets.VIEW
        if self._left_at >= 0 or leaves.any():
            left_at = np.maximum.accumulate(np.where(leaves, indices, self._left_at))
            late = np.flatnonzero(delivers & (left_at > np.maximum.accumulate(np.where(views, indices, self._viewed_at))))
            if len(late):
                at = int(late[0])
                example = {"index": int(indices[at]), "high": int(left_at[at]), "sender_id": int(rows["sender_id"][at])}
                self._late = self._late or {**example, "first": int(rows["first"][at]), "amount": 0}
                self._late["amount"] += int((rows["last"][late] - rows["first"][late] + 1).sum())
            self._left_at = int(left_at[-1])
        if views.any():
            self._viewed_at = int(indices[views][-1])

    def _deliver(self, rows: dict[str, Longs], delivers: Any) -> None:
        """Runs of one sender's numbers, without holes, of one view and sort."""
        senders, firsts, lasts = rows["sender_id"][delivers], rows["first"][delivers], rows["last"][delivers]
        views, sorts, indices = rows["view"][delivers], rows["sort"][delivers], rows["index"][delivers]
        if (sorts == sheets.OTHER).any():
            self._odd.add(ODD_LEDGER)
        # Where nobody asks for each sender's order, what came out of order makes no more runs than what did not.
        order = np.lexsort((indices, firsts, senders)) if "fifo" not in self._promises else np.argsort(senders, kind="stable")
        senders, firsts, lasts, views, sorts, indices = (one[order] for one in (senders, firsts, lasts, views, sorts, indices))
        goes_on = (senders[1:] == senders[:-1]) & (firsts[1:] == lasts[:-1] + 1) & (views[1:] == views[:-1]) & (sorts[1:] == sorts[:-1])
        begins = np.concatenate([[0], np.flatnonzero(~goes_on) + 1])
        ends = np.concatenate([begins[1:], [len(senders)]])
        self._runs += len(begins)
        if self._runs > RUNS:
            self._odd |= {ODD_LEDGER, ODD_SENDS}
            return
        lows, highs = np.minimum.reduceat(indices, begins), np.maximum.reduceat(indices, begins)
        chosen = (senders[begins], views[begins], sorts[begins], firsts[begins], lasts[ends - 1], lows, highs, ends - begins)
        runs = zip(*(one.tolist() for one in chosen), strict=True)
        for sender, view, sort, first, last, low, high, count in runs:
            here = {"sender_id": sender, "view": view, "note": SORTS[sort], "first": first, "last": last, "index": low, "high": high}
            self.add(kind="range", amount=last - first + 1, rows=count, **here)

    def _own(self, rows: dict[str, Longs], sends: Any, delivers: Any) -> None:
        """Whether it delivered a message of its own before it sent it."""
        sent = np.maximum.accumulate(np.where(sends, rows["last"], 0))
        own = delivers & (rows["sender_id"] == self.member)
        if (rows["last"][own] > np.maximum(sent[own], self._sent)).any():
            self._odd.add(ODD_SENDS)

    def _blocks(self, rows: dict[str, Longs], ordinary: Any) -> None:
        """Sums over blocks of places: `total` says what they mean."""
        if not ordinary.any():
            return
        views, senders, firsts = rows["view"][ordinary], rows["sender_id"][ordinary], rows["first"][ordinary]
        lengths = rows["last"][ordinary] - firsts + 1
        changes = np.concatenate([[self._view != int(views[0])], views[1:] != views[:-1]])
        before = np.cumsum(lengths) - lengths
        opened = np.maximum.accumulate(np.where(changes, before, -self._place))
        places = before - opened
        self._view, self._place = int(views[-1]), int(places[-1] + lengths[-1])
        ends = places + lengths - 1
        spans = ends // BLOCK - places // BLOCK + 1
        of = np.repeat(np.arange(len(places)), spans)
        blocks = places[of] // BLOCK + np.arange(len(of)) - np.repeat(np.cumsum(spans) - spans, spans)
        lows = np.maximum(places[of] - blocks * BLOCK, 0) + 1
        highs = np.minimum(ends[of] - blocks * BLOCK, BLOCK - 1) + 1
        here, there = (_mixed(senders, firsts - places, salt)[of] for salt in (1, 2))
        sums = here * (_sum_to(highs) - _sum_to(lows - 1))
        squares = there * (_squares_to(highs) - _squares_to(lows - 1))
        starts = np.concatenate([[0], np.flatnonzero((blocks[1:] != blocks[:-1]) | changes[of][1:] & (np.diff(of) > 0)) + 1])
        totals = (np.add.reduceat(one, starts).tolist() for one in (highs - lows + 1, sums, squares))
        for view, block, count, total, square in zip(views[of][starts].tolist(), blocks[starts].tolist(), *totals, strict=True):
            self.add(kind="block", view=view, index=block, amount=count, first=total, last=square)

    def _keep(self, rows: Sheet) -> None:
        self._rows += len(rows.kinds)
        if self._rows > self._most:
            self._piece = []
            return
        if self._piece and self._piece_rows + len(rows.kinds) > PIECE:
            self._hand_on()
        self._piece.append(rows)
        self._piece_rows += len(rows.kinds)

    def _hand_on(self, **last: Any) -> None:
        """A piece of the sheet, or nothing where there are too many; with the last comes what there is to say about all."""
        sheet = Sheet.joined(self._piece).pack() if self._piece else None
        self.add(kind="sheet", sheet=sheet, index=self._pieces, rows=self._rows, **last)
        self._piece, self._piece_rows, self._pieces = [], 0, self._pieces + 1

    def _check(self, packed: Iterable[tuple[int, bytes]]) -> None:
        for block, checks in packed:
            part = self.group if block == 0 else int(_mixed(np.array([self.group]), np.array([block]), 3)[0])
            self.add(part=part, kind="checks", sheet=checks)


def _sheet(rows: dict[str, Longs], chosen: Any, name_counts: Longs, names: list[Longs]) -> Sheet:
    # A view's names are of another sort: they stay with the view.
    name_counts, wanted = np.where(chosen, name_counts, 0), np.repeat(chosen, name_counts)
    places = np.cumsum(chosen) - 1
    named = np.repeat(places, name_counts)
    children, parents_of, parents = (one[wanted] for one in names)
    return Sheet(
        kinds=rows["kind"][chosen],
        indices=rows["index"][chosen],
        views=rows["view"][chosen],
        senders=rows["sender_id"][chosen],
        firsts=rows["first"][chosen],
        lasts=rows["last"][chosen],
        times=rows["at"][chosen],
        sorts=rows["sort"][chosen],
        rows=named,
        children=children,
        parents_of=parents_of,
        parents=parents,
    )


def _mixed(one: Longs, two: Longs, salt: int) -> Longs:
    """Two numbers as one below 2^31 - 1, by chance."""
    whole = one.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + two.astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    whole = whole + np.uint64(salt * 0x165667B19E3779F9 & 0xFFFF_FFFF_FFFF_FFFF)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        whole = (whole ^ (whole >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(((whole ^ (whole >> np.uint64(31))) % np.uint64(PRIME)).astype(np.int64))


def _sum_to(n: Longs) -> Longs:
    return n * (n + 1) // 2


def _squares_to(n: Longs) -> Longs:
    return n * (n + 1) * (2 * n + 1) // 6
