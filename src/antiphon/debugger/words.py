"""The words of rules and scenario files: how a line is cut, and how durations, shares and ordinals are written.

Words are separated by spaces; one in double quotes may contain spaces, and `\\"`, `\\\\` and `\\n` inside it. `#` starts a comment.
Everything here raises ValueError with a sentence for people; who knows the file and the line adds them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

WORDS_LIMIT = 256
"""The most words a line may have."""


class Word(NamedTuple):
    """One word, and whether it stood in quotes (then it is text, never a command)."""

    text: str
    quoted: bool = False


def split(line: str) -> list[Word]:
    """The words of a line, without its comment."""
    words: list[Word] = []
    at = 0
    while at < len(line):
        match = _WORD.match(line, at)
        if match is None:
            raise ValueError(f"at column {at + 1} a quote is not closed, or a quoted word is not followed by a space")
        at = match.end()
        if match["quoted"] is not None:
            words.append(Word(_ESCAPE.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], match["quoted"][1:-1]), True))
        elif match["plain"] is not None:
            words.append(Word(match["plain"]))
        if len(words) > WORDS_LIMIT:
            raise ValueError(f"a line has at most {WORDS_LIMIT} words")
    return words


def quote(text: str) -> str:
    """Text as a quoted word."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def seconds(text: str) -> float:
    """`50ms`, `1.5s`, `200us` or `2min` in seconds."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no duration: write a number and us, ms, s or min, like 50ms")
    return float(match[1]) * _UNIT_S[match[2]]


def duration(value: float) -> str:
    """Seconds as people write them: `50ms`, `1.5s`."""
    for unit, unit_s in (("s", 1.0), ("ms", 1e-3)):
        if abs(value) >= unit_s or value == 0.0:
            return f"{round(value / unit_s, 3):g}{unit}"
    return f"{round(value * 1e6, 3):g}us"


def share(text: str) -> float:
    """`10%` or `0.1`, as 0.1."""
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{text!r} is no share: write 0% to 100%")
    return value


def ordinal(text: str) -> int:
    """`2nd` as 2."""
    match = _ORDINAL.fullmatch(text)
    if match is None or int(match[1]) < 1:
        raise ValueError(f"{text!r} is no ordinal: write 1st, 2nd, 3rd, 4th, …")
    return int(match[1])


def whole(text: str, low: int, high: int) -> int:
    """A whole number from `low` to `high`."""
    if not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
        raise ValueError(f"{text!r} is no whole number from {low:,} to {high:,}")
    return int(text)


def _suffix(number: int) -> str:
    return "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def nth(number: int) -> str:
    """2 as `2nd`."""
    return f"{number}{_suffix(number)}"


_WORD = re.compile(r"""(?:\s+|\#.*|(?P<quoted>"(?:[^"\\]|\\.)*")(?=\s|$|\#)|(?P<plain>[^\s"#]+)(?=\s|$|\#))""")
_ESCAPE = re.compile(r"\\(.)")
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(us|ms|s|min)")
_ORDINAL = re.compile(r"(\d{1,9})(?:st|nd|rd|th)")
_WHOLE = re.compile(r"-?\d{1,18}")
_UNIT_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
