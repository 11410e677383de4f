"""What this node has asked name servers, and what of the answers has come.

A question is asked again until every frame of the answer has come, the other refuses, or `question_s` are over; each ends in exactly one
`NameServerAnswer`. At most `QUESTION_LIMIT` are open at a time. Numbers begin at random, so an answer cannot be guessed from outside.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from antiphon.errors import WouldBlock
from antiphon.model.control import AskGroups, GroupInfo, Groups
from antiphon.model.events import NameServerAnswer
from antiphon.model.ids import Address, GroupId, MemberId
from antiphon.model.options import Settings
from antiphon.protocol.discovery.hints import KNOWN_LIMIT, merge

QUESTION_LIMIT = 64
RETRY_MAX_S = 2.0


class _Question:
    """An open question: the groups heard so far, and which of `count` frames they came in."""

    def __init__(self, address: Address, wait_s: float) -> None:
        self.address = address
        self.wait_s = wait_s
        self.left_s = 0.0
        self.count = 0
        self.indexes: set[int] = set()
        self.info_by_group: dict[GroupId, GroupInfo] = {}


class Questions:
    def __init__(
        self,
        node: MemberId,
        settings: Settings,
        rng: random.Random,
        call_in: Callable[[float, Callable[[], None]], object],
        send: Callable[[Address, AskGroups], None],
        tell: Callable[[NameServerAnswer], None],
    ) -> None:
        self._node, self._settings = node, settings
        self._call_in, self._send, self._tell = call_in, send, tell
        self._last = rng.getrandbits(32)
        self._open: dict[int, _Question] = {}

    def ask(self, address: Address) -> int:
        """Asks the node at `address`, and returns the number that the answer will carry."""
        if len(self._open) >= QUESTION_LIMIT:
            raise WouldBlock(f"{QUESTION_LIMIT} questions to name servers are open")
        self._last += 1
        question = self._open[self._last] = _Question(address, self._settings.retry_s)
        question.left_s = self._settings.question_s
        self._put(self._last, question)
        return self._last

    def __contains__(self, number: int) -> bool:
        return number in self._open

    def receive(self, frame: Groups, believed: tuple[GroupInfo, ...]) -> None:
        """Takes one frame of the answer to an open question, with those of its groups that are believed."""
        question = self._open[frame.question]
        if frame.refused:
            self._close(frame.question, NameServerAnswer(frame.question, (), refused=True))
            return
        if frame.count != question.count:
            # The list has changed since the question was first asked: what frames are missing is now counted anew.
            question.count = frame.count
            question.indexes.clear()
        question.indexes.add(frame.index)
        for info in believed:
            known = question.info_by_group.get(info.id)
            if known is not None or len(question.info_by_group) < KNOWN_LIMIT:
                question.info_by_group[info.id] = merge(known, info) if known else info
        if len(question.indexes) >= frame.count:
            self._close(frame.question, NameServerAnswer(frame.question, tuple(question.info_by_group.values())))

    def _put(self, number: int, question: _Question) -> None:
        self._send(question.address, AskGroups(self._node, number))
        wait_s = min(question.wait_s, question.left_s)
        question.left_s -= wait_s
        question.wait_s = min(2 * question.wait_s, RETRY_MAX_S)
        self._call_in(wait_s, partial(self._wait_is_over, number))

    def _wait_is_over(self, number: int) -> None:
        question = self._open.get(number)
        if question is None:
            return
        if question.left_s > 0:
            self._put(number, question)
            return
        heard = f"only {len(question.indexes)} of {question.count} parts of the answer came" if question.indexes else "no answer came"
        reason = f"{heard} within {self._settings.question_s:g} s: ask again, or ask another node"
        self._close(number, NameServerAnswer(number, tuple(question.info_by_group.values()), reason=reason))

    def _close(self, number: int, answer: NameServerAnswer) -> None:
        del self._open[number]
        self._tell(answer)
