"""A message to this member alone, whose `reply` waits instead of being awaited."""

from __future__ import annotations

from typing import Any

from antiphon.api.message import Letter as AsyncLetter
from antiphon.api.message import MessageBatch
from antiphon.sync.background import background


class Letter(AsyncLetter, frozen=True, weakref=False):
    """A message to this member alone. One that is a `question` waits for `reply`."""

    def reply(self, data: Any) -> None:  # type: ignore[override]
        """Answers a question."""
        background().run(AsyncLetter.reply(self, data))


def with_letter(batch: MessageBatch) -> MessageBatch:
    """A batch as it was fetched, with the letter in it, if it is one, answered without await."""
    letter = batch.letter
    if letter is None:
        return batch
    here = Letter(letter.sender, letter.data, letter.raw, letter.question, letter.answer)
    return MessageBatch(batch.batch, batch.first, batch.last, letter=here)
