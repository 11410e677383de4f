"""Questions that were asked of the group, and the replies that have come.

A question to one member ends with its reply; one to all ends when everybody has replied, gone, or the asker waits no longer. Keeps one
entry per question that somebody waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from antiphon.errors import NotAMember
from antiphon.model.ids import MemberId


class Question:
    def __init__(self, asked: Iterable[MemberId]) -> None:
        self.replies: dict[MemberId, Any] = {}
        self.waiting = dict.fromkeys(asked)
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._end_if_done()

    def take(self, member: MemberId, data: Any) -> None:
        if member in self.waiting:
            del self.waiting[member]
            self.replies[member] = data
            self._end_if_done()

    def lose(self, member: MemberId) -> None:
        """The member has gone without a reply."""
        self.waiting.pop(member, None)
        self._end_if_done()

    def fail(self, error: Exception) -> None:
        if not self.over.done():
            self.over.set_exception(error)

    def _end_if_done(self) -> None:
        if not self.waiting and not self.over.done():
            self.over.set_result(None)


class Questions:
    def __init__(self) -> None:
        self._by_number: dict[int, Question] = {}

    def open(self, number: int, asked: Iterable[MemberId]) -> Question:
        question = self._by_number[number] = Question(asked)
        return question

    def close(self, number: int) -> None:
        self._by_number.pop(number, None)

    def reply(self, number: int, member: MemberId, data: Any) -> bool:
        """A reply came; whether anybody waits for it."""
        question = self._by_number.get(number)
        if question is not None:
            question.take(member, data)
        return question is not None

    def lose(self, number: int, member: MemberId) -> None:
        question = self._by_number.get(number)
        if question is not None:
            question.lose(member)

    def fail(self, error: Exception) -> None:
        for question in self._by_number.values():
            question.fail(error)

    @staticmethod
    def only_reply(question: Question, member: MemberId) -> Any:
        """The reply to a question to one member."""
        if member not in question.replies:
            raise NotAMember(member)
        return question.replies[member]
