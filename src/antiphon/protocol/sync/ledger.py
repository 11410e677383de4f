"""A ledger: which numbers of which senders, the memory that two members compare.

It is what `have` means in a request, what an answer carried, what is lost. Written flat it is `Holdings`, a few bytes per sender that
spoke without a gap. Cost: O(1) for numbers that come in order; comparing two ledgers looks once at every range.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from antiphon.model.control import Holdings
from antiphon.model.ids import ID_LIMIT, MemberId
from antiphon.model.ranges import Ranges


class Ledger:
    __slots__ = ("ranges_by_sender",)

    def __init__(self) -> None:
        self.ranges_by_sender: dict[MemberId, Ranges] = {}

    @classmethod
    def of(cls, holdings: Holdings) -> Ledger:
        """The ledger that was written flat here."""
        ledger = cls.read(holdings)
        assert ledger is not None, "what this member writes can be read"
        return ledger

    @classmethod
    def read(cls, holdings: Holdings) -> Ledger | None:
        """The ledger that a peer wrote; None when it is not one."""
        ledger = cls()
        for sender, flat in holdings.items():
            if len(flat) % 2 or len(sender) > ID_LIMIT:
                return None
            highest = 0
            for low, high in zip(flat[::2], flat[1::2], strict=True):
                if not highest < low <= high:
                    return None
                highest = high
                ledger.add(sender, low, high)
        return ledger

    def add(self, sender: MemberId, low: int, high: int) -> None:
        ranges = self.ranges_by_sender.get(sender)
        if ranges is None:
            ranges = self.ranges_by_sender[sender] = Ranges()
        ranges.add(low, high)

    def merge(self, other: Ledger) -> None:
        for sender, low, high in other:
            self.add(sender, low, high)

    def missing(self, sender: MemberId, low: int, high: int) -> list[tuple[int, int]]:
        """The parts of `low … high` that are not in the ledger, in order."""
        ranges = self.ranges_by_sender.get(sender)
        return [(low, high)] if ranges is None else ranges.missing(low, high)

    def cut_off(self, last_by_sender: Mapping[MemberId, int]) -> None:
        """Remove of each of these senders the numbers above its last."""
        ranges_by_sender = self.ranges_by_sender
        for sender in [sender for sender in last_by_sender if sender in ranges_by_sender]:
            ranges, last = ranges_by_sender[sender], last_by_sender[sender]
            if ranges.highs and ranges.highs[-1] > last:
                ranges.cut_off(last)
                if not ranges.lows:
                    del ranges_by_sender[sender]

    def without(self, other: Ledger) -> Ledger:
        """What this ledger has and the other has not."""
        rest = Ledger()
        for sender, low, high in self:
            for piece in other.missing(sender, low, high):
                rest.add(sender, *piece)
        return rest

    def common(self, other: Ledger) -> Ledger:
        """What both have."""
        return self.without(self.without(other))

    def within(self, other: Ledger) -> bool:
        """Whether the other has all of this."""
        return not any(other.missing(sender, low, high) for sender, low, high in self)

    def highest(self, sender: MemberId) -> int:
        """The sender's highest number, 0 for none."""
        ranges = self.ranges_by_sender.get(sender)
        return ranges.highs[-1] if ranges is not None and ranges.highs else 0

    def copy(self) -> Ledger:
        twin = Ledger()
        for sender, ranges in self.ranges_by_sender.items():
            again = twin.ranges_by_sender[sender] = Ranges()
            again.lows, again.highs = ranges.lows[:], ranges.highs[:]
        return twin

    def flat(self) -> Holdings:
        """As it travels."""
        return {
            sender: [bound for pair in ranges for bound in pair] for sender, ranges in sorted(self.ranges_by_sender.items()) if len(ranges)
        }

    def __iter__(self) -> Iterator[tuple[MemberId, int, int]]:
        for sender, ranges in self.ranges_by_sender.items():
            for low, high in ranges:
                yield sender, low, high

    def __bool__(self) -> bool:
        return any(len(ranges) for ranges in self.ranges_by_sender.values())

    def __len__(self) -> int:
        """How many messages it names."""
        return sum(high - low + 1 for _, low, high in self)

    def __repr__(self) -> str:
        return f"Ledger({self.flat()})"
