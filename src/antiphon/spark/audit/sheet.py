"""Sheets: the rows of one member in one group as plain arrays, in the order of their indices, packed into bytes for the way to the judges.

A sheet has a row for each send, delivery, receipt, wait and gap; what they name and their checksums are lists beside them. 64 bytes a row:
members with too many (`Limits`) have none, and are judged by what the walk itself adds up.

    kinds  indices  views  senders  firsts  lasts  times  sorts     names: rows  children  parents_of  parents     checks: numbers  values
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antiphon.trace.schema import CHECK_EVERY, SHORT

Longs = NDArray[np.int64]

GROUP, VIEW, GAP, STABLE, SETTLED, LEAVE, SEND, DELIVER, RECEIVE, HOLD, TOPIC = range(11)
KINDS = ("group", "view", "gap", "stable", "settled", "leave", "send", "deliver", "receive", "hold")
"""By code. All of topics are one code."""
ORDINARY, RECOVERED, ORPHANED, GUEST, OTHER = range(5)
"""What the `note` of a delivery or a send says."""
_COLUMNS = ("kinds", "indices", "views", "senders", "firsts", "lasts", "times", "sorts")
_NAMES = ("rows", "children", "parents_of", "parents")
_CHECKS = ("check_rows", "numbers", "values")


class Limits(NamedTuple):
    """What a task may keep of members and groups, in rows. Those who have more are judged by what the walk adds up."""

    of_member: int = 400_000
    of_group: int = 3_000_000


@dataclass
class Sheet:
    kinds: Longs
    indices: Longs
    views: Longs
    senders: Longs
    firsts: Longs
    lasts: Longs
    times: Longs
    sorts: Longs
    rows: Longs
    """Of names: the place of their row in the sheet."""
    children: Longs
    parents_of: Longs
    parents: Longs
    check_rows: Longs
    """Of checksums: the place of their row in the sheet."""
    numbers: Longs
    values: Longs

    @classmethod
    def joined(cls, sheets: list[Sheet]) -> Sheet:
        """One after the other."""
        if len(sheets) == 1:
            return sheets[0]
        columns: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in sheets]) for name in (*_COLUMNS, *_NAMES, *_CHECKS)}
        offsets = np.cumsum([0, *(len(one.kinds) for one in sheets[:-1])])
        for name in ("rows", "check_rows"):
            columns[name] = columns[name] + np.repeat(offsets, [len(getattr(one, name)) for one in sheets])
        return cls(**columns)

    def pack(self) -> bytes:
        sizes = np.array([len(self.kinds), len(self.rows), len(self.check_rows)], np.int64)
        return np.concatenate([sizes, *(getattr(self, name) for name in (*_COLUMNS, *_NAMES, *_CHECKS))]).tobytes()

    @classmethod
    def unpack(cls, data: bytes) -> Sheet:
        whole = np.frombuffer(data, np.int64)
        rows, names, checks = (int(size) for size in whole[:3])
        lengths = [rows] * len(_COLUMNS) + [names] * len(_NAMES) + [checks] * len(_CHECKS)
        ends = np.cumsum([3, *lengths])
        pieces = [whole[begin:end] for begin, end in itertools.pairwise(ends)]
        return cls(*pieces)

    def of(self, *kinds: int) -> NDArray[np.bool_]:
        chosen: NDArray[np.bool_] = self.kinds == kinds[0]
        for kind in kinds[1:]:
            chosen = chosen | (self.kinds == kind)
        return chosen

    def at_places(self, view: int, block: int, size: int) -> dict[int, tuple[int, int]]:
        """The messages at one block's places of a view, as (sender, number): the ordinary deliveries one after the other."""
        rows = np.flatnonzero((self.kinds == DELIVER) & (self.sorts == ORDINARY))
        views, lengths = self.views[rows], self.lasts[rows] - self.firsts[rows] + 1
        before = np.cumsum(lengths) - lengths
        opens = np.concatenate([[True], views[1:] != views[:-1]])[: len(rows)]
        places = before - np.maximum.accumulate(np.where(opens, before, 0))
        begin, end = block * size, (block + 1) * size
        there: dict[int, tuple[int, int]] = {}
        for at in np.flatnonzero((views == view) & (places < end) & (places + lengths > begin)).tolist():
            place, first, sender = int(places[at]), int(self.firsts[rows[at]]), int(self.senders[rows[at]])
            for one in range(max(place, begin), min(place + int(lengths[at]), end)):
                there[one - begin] = (sender, first + one - place)
        return there


def check_numbers(firsts: Longs, lasts: Longs, counts: Longs) -> Longs:
    """Of which message each checksum is, for rows with so many of them. A row has one for each message; or, if it is short, for its last
    ones; or else for those whose numbers are multiples of `CHECK_EVERY`."""
    messages = lasts - firsts + 1
    sparse = (counts < messages) & (messages > SHORT)
    begins = np.where(sparse, firsts + (-firsts) % CHECK_EVERY, lasts - counts + 1)
    steps = np.where(sparse, CHECK_EVERY, 1)
    places = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray(np.repeat(begins, counts) + places * np.repeat(steps, counts), np.int64)
