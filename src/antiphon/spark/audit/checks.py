"""Checksums: what was sent against what was delivered, by blocks of numbers.

The walk packs those of each member (`Packing`), cut into blocks of 2^18 numbers; everybody's of one block come together and are compared
there (`Checks`). So a large group is not one large task, and a small one has a single block, which is judged with everything else of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from antiphon.spark.audit.sheet import Longs
from antiphon.trace.schema import CHECK_EVERY, SHORT

_BITS = 18
_AT_ONCE = 1 << 17
"""So many are packed together."""
_MOST = 1 << 40


class Packing:
    """Those of one member, as they come. Keeps: what is to be packed next, at most `_AT_ONCE` and a batch."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Longs, Longs, Longs]] = []
        self._count = 0

    def take(self, senders: Longs, firsts: Longs, lasts: Longs, counts: Longs, values: Longs, sent: Any) -> Iterator[tuple[int, bytes]]:
        """Of rows that have so many checksums, and were sent or else delivered. Gives blocks that are full."""
        if not len(values):
            return
        marks = _numbers(firsts, lasts, counts) << 1 | np.repeat(sent, counts)
        self._waiting.append((np.repeat(senders, counts), marks, values))
        self._count += len(values)
        if self._count >= _AT_ONCE:
            yield from self.end()

    def end(self) -> Iterator[tuple[int, bytes]]:
        """What is left: blocks and what is in them."""
        if not self._waiting:
            return
        senders, marks, values = (np.concatenate(columns) for columns in zip(*self._waiting, strict=True))
        self._waiting, self._count = [], 0
        blocks = marks >> (_BITS + 1)
        if blocks[0] == blocks[-1] and (blocks == blocks[0]).all():
            yield int(blocks[0]), np.concatenate([senders, marks, values]).tobytes()
            return
        order = np.argsort(blocks, kind="stable")
        senders, marks, values, blocks = senders[order], marks[order], values[order], blocks[order]
        begins = np.concatenate([[0], np.flatnonzero(blocks[1:] != blocks[:-1]) + 1, [len(blocks)]]).tolist()
        for begin, end in itertools.pairwise(begins):
            yield int(blocks[begin]), np.concatenate([senders[begin:end], marks[begin:end], values[begin:end]]).tobytes()


class Checks:
    """Takes the checksums out of entries that pass by, and notices topics. Keeps: what all members have of a block."""

    def __init__(self) -> None:
        self.topics = False
        self._packed: list[Longs] = []

    def apart(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """The other entries."""
        for row in rows:
            if row["kind"] == "checks":
                self._packed.append(np.frombuffer(row["sheet"], np.int64))
            elif row["kind"] == "topic":
                self.topics = True
            else:
                yield row

    def same(self) -> bool:
        """Whether no message was delivered with another checksum than it was sent with."""
        if not self._packed:
            return True
        thirds = [one.reshape(3, -1) for one in self._packed]
        senders, marks, values = (np.concatenate([one[place] for one in thirds]) for place in range(3))
        if (marks >= _MOST).any() or (marks < 0).any():
            return False
        _, codes = np.unique(senders, return_inverse=True)
        keys, sent = codes * _MOST + (marks >> 1), (marks & 1).astype(bool)
        return _same(keys[sent], values[sent], keys[~sent], values[~sent])


def _same(sent: Longs, sent_values: Longs, had: Longs, had_values: Longs) -> bool:
    """Whether what is there twice is there with the same value."""
    if not len(sent) or not len(had):
        return True
    order = np.argsort(sent, kind="stable")
    sent, sent_values = sent[order], sent_values[order]
    place = np.minimum(np.searchsorted(sent, had), len(sent) - 1)
    return not bool(((sent[place] == had) & (sent_values[place] != had_values)).any())


def _numbers(firsts: Longs, lasts: Longs, counts: Longs) -> Longs:
    """Of which message each checksum is, for rows with so many of them. A row has one for each message; or, if it is short, for its last
    ones; or else for those whose numbers are multiples of `CHECK_EVERY`."""
    messages = lasts - firsts + 1
    sparse = (counts < messages) & (messages > SHORT)
    begins = np.where(sparse, firsts + (-firsts) % CHECK_EVERY, lasts - counts + 1)
    steps = np.where(sparse, CHECK_EVERY, 1)
    places = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray(np.repeat(begins, counts) + places * np.repeat(steps, counts), np.int64)
