"""Answers that tell an outcome from beyond what is known of it here: refused as long as somebody may know what lies between.

The next question says what is known, and another member may tell the rest. When every member of the sides that must be heard leaps, or
many answers do, nobody knows it, and the leap is taken.
"""

from __future__ import annotations

from collections.abc import Iterable

from antiphon.model.ids import MemberId
from antiphon.protocol.sync.history import History

_ANSWERS = 12
"""Answers that leap before one is taken though others have not been heard; the asker gives the silent up after sixteen questions."""


class Leaps:
    def __init__(self, history: History) -> None:
        self._history = history
        self._by_outcome: dict[tuple[int, int], tuple[int, set[MemberId], set[object]]] = {}
        """Per outcome: how much of it was known, who left something out, and in which answers."""

    def refuses(self, place: tuple[int, int, int], answer: tuple[MemberId, MemberId, int], heard: Iterable[MemberId]) -> bool:
        """Whether an answer (who, to whom, which question) that goes on at `place` is to be refused, when all of `heard` may know more."""
        epoch, following, position = place
        known = self._history.known(epoch, following)
        if position <= known or (not known and self._history.cut()):
            # Who does not want the whole past is told an outcome from where it matters.
            return False
        before, members, answers = self._by_outcome.get((epoch, following), (known, set[MemberId](), set[object]()))
        if before != known:
            members, answers = set(), set()
        members.add(answer[0])
        answers.add(answer)
        self._by_outcome[epoch, following] = (known, members, answers)
        return len(answers) <= _ANSWERS and not members.issuperset(heard)
