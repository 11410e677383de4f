"""What others say is lost, until it is believed.

A member that knows of messages and keeps them no longer says so, and what it could give of the rest. A side is certain when all of its
members have said so, or some in three questions running; when every side that must be heard is certain, what nobody keeps is lost. Where
each has forgotten something that another keeps, nobody knows where that belongs between the rest of its own, so nobody can give anything
before the asker does without: then the smallest of their losses is accepted.

Keeps the last claim of each member, until anything new arrives.
"""

from __future__ import annotations

from collections.abc import Iterable

from antiphon.model.control import Side
from antiphon.model.ids import MemberId
from antiphon.protocol.sync.history import History
from antiphon.protocol.sync.ledger import Ledger

_QUESTIONS = 3
"""Questions running in which something must be said to be lost."""


class Losses:
    def __init__(self, me: MemberId, history: History) -> None:
        self._me, self._history = me, history
        self.clear()

    def clear(self) -> None:
        """Something new has come: what was said before need not be true any more."""
        self._claims_by_side: dict[int, dict[MemberId, tuple[Ledger, Ledger]]] = {}
        self._questions_by_side: dict[int, dict[tuple[MemberId, int], None]] = {}

    def claim(self, side: int, member: MemberId, question: tuple[MemberId, int], lost: Ledger, kept: Ledger) -> None:
        """In its answer to a question a member of a side says what is lost, and what it keeps of the rest."""
        self._claims_by_side.setdefault(side, {})[member] = (lost, kept)
        self._questions_by_side.setdefault(side, {})[question] = None

    def verdict(self, sides: tuple[Side, ...], heard: Iterable[int]) -> Ledger:
        """What is lost for certain when these sides must be heard; nothing as long as one of them may still give it."""
        heard = tuple(heard)
        if not heard or not all(self._certain(side, sides[side]) for side in heard):
            return Ledger()
        lost, kept = Ledger(), Ledger()
        claims = [claim for side in heard for claim in self._claims_by_side[side].values()]
        for forgotten, given in claims:
            lost.merge(forgotten)
            kept.merge(given)
        self.clear()
        unknown = self._history.unknown
        return unknown(lost.without(kept)) or min((unknown(forgotten) for forgotten, _ in claims), key=len)

    def _certain(self, index: int, side: Side) -> bool:
        claims = self._claims_by_side.get(index, {})
        others = sum(member != self._me for member in side.members)
        return bool(claims) and (len(claims) >= others or len(self._questions_by_side[index]) >= _QUESTIONS)
