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


def take_text(rest: list[Word], what: str) -> str:
    """Takes a word in quotes."""
    if not rest or not rest[0].quoted:
        raise ValueError(f"{what} is missing: write it in quotes")
    return rest.pop(0).text


def given(rest: list[Word], word: str) -> bool:
    """Takes the next word if it is this one; says whether it was."""
    if rest and rest[0] == Word(word):
        rest.pop(0)
        return True
    return False


def end(rest: list[Word]) -> None:
    """The line ends here."""
    if rest:
        raise ValueError(f"{rest[0].text!r} is too much: the command ends before it")
