"""Sheets: the rows of one member in one group as plain arrays, in the order of their indices, packed into bytes for the way to the judges.

A sheet has a row for each send, delivery and gap, and where it matters for each receipt and wait; what they name is a list beside them. 64
bytes a row: members with too many (`Limits`) have none, and are judged by what the walk itself adds up.

    kinds  indices  views  senders  firsts  lasts  times  sorts     names: rows  children  parents_of  parents
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

GROUP, VIEW, GAP, STABLE, SETTLED, LEAVE, SEND, DELIVER, RECEIVE, HOLD, TOPIC = range(11)
KINDS = ("group", "view", "gap", "stable", "settled", "leave", "send", "deliver", "receive", "hold")
"""By code. All of topics are one code."""
ORDINARY, RECOVERED, ORPHANED, GUEST, OTHER = range(5)
"""What the `note` of a delivery or a send says."""
_COLUMNS = ("kinds", "indices", "views", "senders", "firsts", "lasts", "times", "sorts")
_NAMES = ("rows", "children", "parents_of", "parents")


class Limits(NamedTuple):
    """What a task may keep of members and groups, in rows. Those who have more are judged by what the walk adds up."""

    of_member: int = 6_000_000
    of_group: int = 60_000_000


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

    @classmethod
    def joined(cls, sheets: list[Sheet]) -> Sheet:
        """One after the other."""
        if len(sheets) == 1:
            return sheets[0]
        columns: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in sheets]) for name in (*_COLUMNS, *_NAMES)}
        offsets = np.cumsum([0, *(len(one.kinds) for one in sheets[:-1])])
        columns["rows"] = columns["rows"] + np.repeat(offsets, [len(one.rows) for one in sheets])
        return cls(**columns)

    def pack(self) -> bytes:
        sizes = np.array([len(self.kinds), len(self.rows)], np.int64)
        return np.concatenate([sizes, *(getattr(self, name) for name in (*_COLUMNS, *_NAMES))]).tobytes()

    @classmethod
    def unpack(cls, data: bytes) -> Sheet:
        whole = np.frombuffer(data, np.int64)
        rows, names = (int(size) for size in whole[:2])
        lengths = [rows] * len(_COLUMNS) + [names] * len(_NAMES)
        ends = np.cumsum([2, *lengths])
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
