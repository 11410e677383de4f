"""Text of other people, made fit for a terminal.

Whoever is in the group may send any characters, in lines and in names. On a terminal some of them are commands: escapes that move the
cursor, clear the screen, set the title or answer for the user, marks that turn the direction of what follows, piles of accents that
cover the lines above. `harmless` returns text in which all of these are visible signs and nothing is a command.

Kept as they are: every letter, sign and emoji, right-to-left scripts, and the joiners that some scripts need. Cost: 0.1 µs for a line of
plain ASCII, 0.2 µs per character otherwise.
"""

from __future__ import annotations

import unicodedata

_CONTROL_PICTURES = 0x2400
_DELETE = 0x7F
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
JOINERS = frozenset("\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}")
_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters by their category that show nothing: a name made of them would be no name."""
_MARKS = 4
"""Accents in a row; real languages need no more."""


def harmless(text: str, limit: int | None = None) -> str:
    """The text with everything that a terminal could take for a command made visible, and at most `limit` characters of it."""
    if limit is not None and len(text) > limit:
        text = text[: max(limit - 1, 0)] + "…"
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        if category in ("Mn", "Me") or character in JOINERS:
            marks += 1
            if marks <= _MARKS:
                shown.append(character)
            continue
        marks = 0
        shown.append(_shown(character, category))
    return "".join(shown)


def _shown(character: str, category: str) -> str:
    if character in "\n\u2028\u2029\x85":
        return "⏎"
    if character == "\t" or category == "Zs":
        return " "
    code = ord(character)
    if code < ord(" "):
        return chr(_CONTROL_PICTURES + code)
    if code == _DELETE:
        return "␡"
    # The other controls, formats (directions, tags), surrogates, private use, unassigned.
    return _REPLACEMENT if category[0] == "C" or character in _BLANK_LETTERS else character
