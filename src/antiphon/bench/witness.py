"""Whether the promise was kept: what each member delivered, as a hash that does not depend on how it was cut into batches.

A witness sits in every member and is told each delivered run of one sender's numbers. Fifo order is judged at once: numbers of a sender
come without gap, one after another. Total order is judged by comparing digests: neighbouring runs of a sender are joined before they
are hashed, so members that were handed the same sequence in different portions have the same digest, and a swap of two messages anywhere
gives another one.

Keeps a number per sender and the run that is growing. Cost: 0.5 µs per run.
"""

from __future__ import annotations

import hashlib
import struct
import time
from collections.abc import Sequence

from msgspec import Struct

from antiphon.bench.work import Tally

_COMPLAINTS = 5
"""So many are written out; the rest is counted."""
_RUN = struct.Struct("<HQQ")


class Witness:
    def __init__(self, members: int) -> None:
        self.delivered = 0
        self.last_at = time.monotonic()
        """When the last delivery was."""
        self.faults = 0
        self._complaints: list[str] = []
        self._next_by_sender = [1] * members
        self._hash = hashlib.blake2b(digest_size=16)
        self._sender, self._first, self._last = -1, 0, -1

    def take(self, sender: int, first: int, last: int) -> None:
        """Messages `first … last` of a sender were delivered, in this order, as the next ones."""
        if first != self._next_by_sender[sender]:
            self.complain(f"after {self._next_by_sender[sender] - 1:,} of member {sender} came {first:,}")
        self._next_by_sender[sender] = last + 1
        if sender == self._sender and first == self._last + 1:
            self._last = last
        else:
            self._close_run()
            self._sender, self._first, self._last = sender, first, last
        self.delivered += last - first + 1
        self.last_at = time.monotonic()

    def complain(self, sentence: str) -> None:
        self.faults += 1
        if len(self._complaints) < _COMPLAINTS:
            self._complaints.append(sentence)

    def complaints(self) -> list[str]:
        more = self.faults - len(self._complaints)
        return [*self._complaints, f"and {more:,} more"] if more else list(self._complaints)

    def count_by_sender(self) -> list[int]:
        return [following - 1 for following in self._next_by_sender]

    def delivered_of(self, sender: int) -> int:
        return self._next_by_sender[sender] - 1

    def digest(self) -> str:
        """Of everything so far."""
        whole = self._hash.copy()
        if self._last >= self._first:
            whole.update(_RUN.pack(self._sender, self._first, self._last))
        return whole.hexdigest()

    def _close_run(self) -> None:
        if self._last >= self._first:
            self._hash.update(_RUN.pack(self._sender, self._first, self._last))


class Verdict(Struct, frozen=True):
    """`kept` says whether everybody delivered everything in the promised order; `complaints` what was wrong, in sentences."""

    kept: bool
    complaints: tuple[str, ...] = ()


def judge(tallies: Sequence[Tally], order: str) -> Verdict:
    """Compares what the members report. Under `total` the sequences must be equal, under every other order the sets."""
    found = [f"member {tally.member}: {complaint}" for tally in tallies for complaint in tally.complaints]
    sent = {tally.member: tally.sent for tally in tallies}
    for tally in tallies:
        for sender, count in sent.items():
            delivered = tally.count_by_sender[sender]
            if delivered != count:
                found.append(f"member {tally.member} delivered {delivered:,} of the {count:,} messages of member {sender}")
    if order == "total" and len({tally.digest for tally in tallies}) > 1:
        found.append("the members delivered in different orders")
    return Verdict(not found, tuple(found))
