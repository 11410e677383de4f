"""The walk on the executors: see `walk`."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from antiphon.spark.audit import sheet as sheets
from antiphon.spark.audit.sheet import DELIVER, GROUP, KINDS, LEAVE, SEND, TOPIC, Limits, Longs, Sheet, check_numbers
from antiphon.spark.audit.total import BLOCK, PRIME

if TYPE_CHECKING:
    import pyarrow

SORTS = ("ordinary", "recovered", "orphaned", "guest", "other")
CHECK_BITS = 18
"""Checksums are compared in blocks of 2^18 numbers of one sender."""
RUNS = 50_000
"""So many runs of one member are handed on; one that has more is judged by its rows."""
ODD_LEDGER, ODD_SENDS = "ledger", "sends"
"""What is strange about a member: its ranges cannot be trusted, or it sent with holes, or delivered before it sent."""
_LOOSE = ("unordered", "semantic")
_COLUMNS = ("group_id", "member_id", "kind", "index", "view", "sender_id", "first", "last", "at", "sort")


def walk(batches: Iterable[pyarrow.RecordBatch], limits: Limits) -> Iterator[pyarrow.RecordBatch]:
    """Rows sorted by group, member and index become entries."""
    walker = Walker(limits)
    for batch in batches:
        if batch.num_rows:
            yield from walker.take(batch)
    yield from walker.end()


class Walker:
    def __init__(self, limits: Limits) -> None:
        self._most = limits.of_member
        self._found: dict[str, list[Any]] = defaultdict(list)
        self._life: Life | None = None

    def take(self, batch: pyarrow.RecordBatch) -> Iterator[pyarrow.RecordBatch]:
        columns = {name: _longs(batch.column(name)) for name in _COLUMNS}
        kinds = columns["kind"]
        yield from _few(batch, kinds)
        lists = _Lists(batch)
        orders = _orders(batch, kinds)
        keys = columns["group_id"], columns["member_id"]
        changes = np.flatnonzero((keys[0][1:] != keys[0][:-1]) | (keys[1][1:] != keys[1][:-1])) + 1
        bounds = [0, *changes.tolist(), batch.num_rows]
        for begin, end in itertools.pairwise(bounds):
            group, member = int(keys[0][begin]), int(keys[1][begin])
            if self._life is None or (self._life.group, self._life.member) != (group, member):
                self._finish()
                self._life = Life(group, member, self._most, self._found)
            if (kinds[begin:end] == TOPIC).any():
                self._life.add(kind="topic")
                continue
            order = next((orders[place] for place in orders if begin <= place < end), None) if orders else None
            self._life.take({name: column[begin:end] for name, column in columns.items()}, lists.part(begin, end), order)
        yield from self._emit(5_000)

    def end(self) -> Iterator[pyarrow.RecordBatch]:
        self._finish()
        yield from self._emit(1)

    def _finish(self) -> None:
        if self._life is not None:
            self._life.end()
            self._life = None

    def _emit(self, least: int) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow as pa

        count = len(self._found["part"])
        if count >= least:
            found, fields = dict(self._found), list(_schema())
            # Lists are empty rather than absent: see `walk`.
            lists = [[()] * count if pa.types.is_list(field.type) else found[field.name] for field in fields]
            arrays = [pa.array(values, field.type) for values, field in zip(lists, fields, strict=True)]
            self._found.clear()
            yield pa.RecordBatch.from_arrays(arrays, schema=_schema())


class _Lists:
    """Names and checksums of a batch, by row."""

    def __init__(self, batch: pyarrow.RecordBatch) -> None:
        names, checks = batch.column("names"), batch.column("checks")
        self._name_at, flat = _offsets(names)
        self._names = [_longs(flat.field(place)) for place in range(3)]
        self._check_at, values = _offsets(checks)
        self._values = _longs(values)

    def part(self, begin: int, end: int) -> tuple[Longs, list[Longs], Longs, Longs]:
        """Of some rows: how many names each has, the names; how many checksums each has, and those."""
        name_at, check_at = self._name_at[begin : end + 1], self._check_at[begin : end + 1]
        names = [one[name_at[0] : name_at[-1]] for one in self._names]
        return np.diff(name_at), names, np.diff(check_at), self._values[check_at[0] : check_at[-1]]


class Life:
    """One member on its way."""

    def __init__(self, group: int, member: int, most: int, found: dict[str, list[Any]]) -> None:
        """`most` rows on its sheet."""
        self.group, self.member, self._most, self._found = group, member, most, found
        self._sheets: list[Sheet] | None = []
        self._rows = 0
        self._sent = self._place = self._runs = self._names = 0
        self._order = ""
        self._view: int | None = None
        self._odd: set[str] = set()

    def add(self, *, part: int | None = None, **values: Any) -> None:
        for name in _names():
            self._found[name].append(values.get(name))
        self._found["part"][-1] = self.group if part is None else part
        self._found["group_id"][-1], self._found["member_id"][-1] = self.group, self.member

    def take(self, rows: dict[str, Longs], lists: tuple[Longs, list[Longs], Longs, Longs], order: str | None) -> None:
        """Rows that follow those before; the group's order, if one of them tells it."""
        kinds = rows["kind"]
        sends, delivers = kinds == SEND, kinds == DELIVER
        if order is not None:
            if self._order or self._runs or (delivers & (rows["index"] < rows["index"][kinds == GROUP][0])).any():
                self._odd.add(ODD_LEDGER)
            self._order = order
        if sends.any():
            self._send(rows, sends)
        if delivers.any():
            self._deliver(rows, delivers)
            self._own(rows, sends, delivers)
            if self._order == "total":
                self._blocks(rows, delivers & (rows["sort"] == sheets.ORDINARY))
        if sends.any():
            self._sent = max(self._sent, int(rows["last"][sends].max()))
            self._names += int(lists[0][sends].sum())
        chosen = (kinds >= SEND) | (kinds == sheets.GAP)
        if chosen.any():
            self._keep(_sheet(rows, chosen, lists))

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

    def _deliver(self, rows: dict[str, Longs], delivers: Any) -> None:
        """Runs of one sender's numbers, without holes, of one view and sort."""
        senders, firsts, lasts = rows["sender_id"][delivers], rows["first"][delivers], rows["last"][delivers]
        views, sorts, indices = rows["view"][delivers], rows["sort"][delivers], rows["index"][delivers]
        if (sorts == sheets.OTHER).any():
            self._odd.add(ODD_LEDGER)
        # Where nobody asks for each sender's order, what came out of order makes no more runs than what did not.
        order = np.lexsort((indices, firsts, senders)) if self._order in _LOOSE else np.argsort(senders, kind="stable")
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
        if self._sheets is not None:
            self._sheets.append(rows)
            if self._rows <= self._most:
                return
            rows, self._sheets = Sheet.joined(self._sheets), None
        self._checks(rows)

    def _checks(self, rows: Sheet) -> None:
        """Checksums, to be compared by sender and block."""
        if not len(rows.numbers):
            return
        senders, blocks = rows.senders[rows.check_rows], rows.numbers >> CHECK_BITS
        sent = rows.kinds[rows.check_rows] == SEND
        order = np.lexsort((blocks, senders, sent))
        senders, blocks, sent, numbers, values = (one[order] for one in (senders, blocks, sent, rows.numbers, rows.values))
        changes = (senders[1:] != senders[:-1]) | (blocks[1:] != blocks[:-1]) | (sent[1:] != sent[:-1])
        bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(numbers)]
        for begin, end in itertools.pairwise(bounds):
            sender, block = int(senders[begin]), int(blocks[begin])
            packed = np.concatenate([numbers[begin:end], values[begin:end]]).tobytes()
            part = int(_mixed(np.array([sender ^ self.group]), np.array([block]), 3)[0])
            self.add(part=part, kind="checks", sender_id=sender, index=block, note="sent" if sent[begin] else None, sheet=packed)

    def end(self) -> None:
        packed = Sheet.joined(self._sheets).pack() if self._sheets else None
        if self._rows:
            self.add(kind="sheet", sheet=packed, note=" ".join(sorted(self._odd)), rows=self._rows, amount=self._names)


def _sheet(rows: dict[str, Longs], chosen: Any, lists: tuple[Longs, list[Longs], Longs, Longs]) -> Sheet:
    name_counts, names, check_counts, values = lists
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
        check_rows=np.repeat(places, check_counts),
        numbers=check_numbers(rows["first"], rows["last"], check_counts),
        values=values,
    )


def _few(batch: pyarrow.RecordBatch, kinds: Longs) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow as pa

    chosen = np.flatnonzero((kinds >= GROUP) & (kinds <= LEAVE))
    if not len(chosen):
        return
    few = batch.take(pa.array(chosen))
    own = {"part": few.column("group_id"), "kind": pa.array([KINDS[code] for code in kinds[chosen].tolist()])}
    arrays = [
        own[field.name]
        if field.name in own
        else few.column(field.name).cast(field.type)
        if field.name in few.schema.names
        else pa.nulls(len(chosen), field.type)
        for field in _schema()
    ]
    yield pa.RecordBatch.from_arrays(arrays, schema=_schema())


def _orders(batch: pyarrow.RecordBatch, kinds: Longs) -> dict[int, str]:
    """Of each `group` row in the batch, by its place: the order that it tells."""
    notes = batch.column("note")
    return {place: about_of(notes[place].as_py()).get("order") or "" for place in np.flatnonzero(kinds == GROUP).tolist()}


def about_of(note: str | None) -> dict[str, Any]:
    """What a `group` or `view` row says, as far as it can be read."""
    try:
        about = json.loads(note or "{}")
    except ValueError:
        return {}
    return about if isinstance(about, dict) else {}


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


def _longs(column: Any) -> Longs:
    return np.asarray((column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False), np.int64)


def _offsets(column: Any) -> tuple[Longs, Any]:
    """Where each row's list begins, and all lists as one; a list that is not there is empty."""
    import pyarrow.compute as pc

    lengths = _longs(pc.list_value_length(column))
    return np.concatenate([[0], np.cumsum(lengths)]), column.flatten()


@cache
def _schema() -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    from antiphon.spark.audit.walk import ENTRIES

    return to_arrow_schema(ENTRIES)


@cache
def _names() -> tuple[str, ...]:
    return tuple(_schema().names)
