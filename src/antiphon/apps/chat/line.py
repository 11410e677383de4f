"""What travels in a chat group, and what may be said."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from antiphon.apps.chat.harmless import JOINERS
from antiphon.errors import UsageError

TEXT_LIMIT = 2_000
"""Characters in a line. What claims to be a line and is longer is shown as unreadable."""


class ChatLine(Struct, frozen=True):
    """One line of a chat, a message of a group with `type=ChatLine`. `at` is the author's clock, for people; the order is the group's."""

    text: Annotated[str, Meta(max_length=TEXT_LIMIT)]
    at: float


class Unsayable(UsageError):
    """A line that cannot be sent; says why."""


def written(text: str, now: float) -> ChatLine:
    """The line that somebody has typed. Raises Unsayable for one that is empty, too long or not text."""
    text = " ".join(text.split())
    if not text:
        raise Unsayable("there is nothing in the line: type something first")
    if len(text) > TEXT_LIMIT:
        raise Unsayable(f"the line has {len(text):,} characters and may have {TEXT_LIMIT:,}: say it in several")
    if not text.isprintable():
        text = "".join(character for character in text if character.isprintable() or character in JOINERS)
        if not text:
            raise Unsayable("there are only unprintable characters in the line: type some text")
    return ChatLine(text, now)
