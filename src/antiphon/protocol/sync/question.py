"""A question: one request for synchronisation, as its asker means it and as it travels.

It says what the asker has and wants, so that anybody can tell what it lacks, and whether an answer to it serves somebody else as well:
an answer leaves out what the asker has, so it serves everyone who has all of that too. A question that does not fit into a frame
travels in parts; it is a question when all of them are here, from this or from earlier attempts to ask the same.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TypeAlias

from msgspec import Struct

from antiphon.model.control import Holdings, SyncRequest, Wants
from antiphon.model.ids import GroupId, MemberId
from antiphon.protocol.sync.history import History
from antiphon.protocol.sync.ledger import Ledger
from antiphon.protocol.sync.packing import ENTRY_BYTES, NUMBER_BYTES, holdings_entries, pack, room

_PARTS_LIMIT = 4_096


class Question(Struct):
    """`sides` are indexes into the sides of the view: those whose members are asked. `known_by_outcome` says for (epoch, next view) how
    many messages of that end of the epoch the asker knows, and `cut` what of `have` it does not keep (both in total order)."""

    asker: MemberId
    number: int
    sides: tuple[int, ...]
    wants: Wants
    have: Ledger
    epochs: frozenset[int]
    known_by_outcome: dict[tuple[int, int], int]
    cut: Ledger
    attempt: int = 0

    @classmethod
    def of(cls, history: History, asker: MemberId, number: int, sides: tuple[int, ...], wants: Wants) -> Question:
        known = {(epoch, following): count for epoch, following, count in history.outcomes()}
        epochs = frozenset(epoch.id for epoch in history.epochs())
        return cls(asker, number, sides, wants, history.before().copy(), epochs, known, history.cut().copy())

    def minds(self) -> Set[int]:
        """The epochs whose ends matter to the asker: all that it knows, or those it has heard an end of, if it has not the whole past."""
        return {epoch for epoch, _ in self.known_by_outcome} if self.cut else self.epochs

    def repeats(self, other: Question) -> bool:
        """Whether it says the same."""
        mine = (self.sides, self.wants, self.epochs, self.known_by_outcome, self.have.flat(), self.cut.flat())
        return mine == (other.sides, other.wants, other.epochs, other.known_by_outcome, other.have.flat(), other.cut.flat())

    def serves(self, history: History, wants: Wants) -> bool:
        """Whether an answer to this question can be taken by a member with this history that wants this."""
        if self.wants != wants and not self.wants.kind == wants.kind == "all":
            return False
        known = {(epoch, following): count for epoch, following, count in history.outcomes()}
        return (
            self.have.within(history.before())
            and self.cut.within(history.cut())
            and self.epochs.issubset(epoch.id for epoch in history.epochs())
            and all(count <= known.get(outcome, 0) for outcome, count in self.known_by_outcome.items())
        )

    def frames(self, group: GroupId, view: int, frame_bytes: int) -> list[SyncRequest]:
        """As it travels."""
        space = room(frame_bytes, group, self.asker) - NUMBER_BYTES * len(self.sides)
        entries: list[tuple[int, _Entry]] = [(NUMBER_BYTES, epoch) for epoch in sorted(self.epochs)]
        for word, ledger in (("have", self.have), ("cut", self.cut)):
            entries += [(size, (word, sender, flat)) for size, (sender, flat) in holdings_entries(ledger.flat())]
        entries += [(ENTRY_BYTES + 3 * NUMBER_BYTES, (*outcome, known)) for outcome, known in sorted(self.known_by_outcome.items())]
        parts = pack(entries, space)
        return [
            SyncRequest(group, self.asker, view, self.number, index, len(parts), self.sides, self.wants, *_lists(part), self.attempt)
            for index, part in enumerate(parts)
        ]


_Entry: TypeAlias = int | tuple[str, MemberId, list[int]] | tuple[int, int, int]


def _lists(part: list[_Entry]) -> tuple[Holdings, tuple[int, ...], tuple[tuple[int, int, int], ...], Holdings]:
    """The entries of one part as the fields of its frame."""
    holdings: dict[str, Holdings] = {"have": {}, "cut": {}}
    epochs: list[int] = []
    outcomes: list[tuple[int, int, int]] = []
    for entry in part:
        if isinstance(entry, int):
            epochs.append(entry)
        elif isinstance(entry[0], str):
            word, sender, flat = entry
            holdings[word].setdefault(sender, []).extend(flat)
        else:
            outcomes.append(entry)
    return holdings["have"], tuple(epochs), tuple(outcomes), holdings["cut"]


class Arriving:
    """A question as its parts come in. `base` is the number under which it was asked first."""

    def __init__(self, frame: SyncRequest) -> None:
        self.base, self.count = frame.number - frame.attempt, frame.count
        self._parts: dict[int, SyncRequest] = {}

    def add(self, frame: SyncRequest) -> None:
        if frame.number - frame.attempt == self.base and frame.count == self.count <= _PARTS_LIMIT and frame.index < frame.count:
            self._parts[frame.index] = frame

    @property
    def whole(self) -> bool:
        return len(self._parts) == self.count

    def question(self) -> Question | None:
        """The question; None when it makes no sense."""
        have, cut = Ledger(), Ledger()
        for _, part in sorted(self._parts.items()):
            for ledger, holdings in ((have, part.have), (cut, part.cut)):
                some = Ledger.read(holdings)
                if some is None:
                    return None
                ledger.merge(some)
        frame = max(self._parts.values(), key=lambda part: part.number)
        epochs = frozenset(epoch for part in self._parts.values() for epoch in part.epochs)
        known = {(epoch, following): known for part in self._parts.values() for epoch, following, known in part.outcomes}
        return Question(frame.member, frame.number, frame.sides, frame.wants, have, epochs, known, cut, frame.attempt)
