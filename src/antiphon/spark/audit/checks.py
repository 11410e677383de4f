"""Checksums of large members, by sender and block of numbers: what was sent against what was delivered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from antiphon.spark.audit.sheet import Longs
from antiphon.spark.audit.suspicion import same_values


class Checks:
    """Takes the checksums out of entries that pass by, and notices topics. Keeps: what all members have of a block."""

    def __init__(self) -> None:
        self.topics = False
        self._packed: dict[tuple[int, int, bool], list[Longs]] = defaultdict(list)

    def apart(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """The other entries."""
        for row in rows:
            if row["kind"] == "checks":
                self._packed[row["sender_id"], row["index"], row["note"] is not None].append(np.frombuffer(row["sheet"], np.int64))
            elif row["kind"] == "topic":
                self.topics = True
            else:
                yield row

    def same(self) -> bool:
        """Whether no message was delivered with another checksum than it was sent with."""
        blocks = {(sender, block) for sender, block, _ in self._packed}
        return all(same_values(*self._columns(*block, sent=True), *self._columns(*block, sent=False)) for block in blocks)

    def _columns(self, sender: int, block: int, *, sent: bool) -> tuple[Longs, Longs]:
        packed = self._packed.get((sender, block, sent)) or [np.zeros(0, np.int64)]
        numbers = np.concatenate([one[: len(one) // 2] for one in packed])
        return numbers, np.concatenate([one[len(one) // 2 :] for one in packed])
