"""Taking the words of a command one by one."""

from __future__ import annotations

from antiphon.debugger.words import Word


def take(rest: list[Word], what: str, exactly: str | None = None) -> Word:
    """Takes the next word, which is `what` (for the error), and `exactly` this word where that is given."""
    if not rest:
        raise ValueError(f"the line ends where {what} is expected")
    if exactly is not None and rest[0] != Word(exactly):
        raise ValueError(f"{rest[0].text!r} stands where {what} is expected")
    return rest.pop(0)


def end(rest: list[Word]) -> None:
    """The line ends here."""
    if rest:
        raise ValueError(f"{rest[0].text!r} is too much: the command ends before it")
