"""What others send on the screen, and what may be said."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.theme import Theme

from antiphon.apps.chat.harmless import JOINERS, harmless
from antiphon.apps.chat.line import TEXT_LIMIT, Unsayable, written
from antiphon.apps.chat.screen.themes import DAY, NIGHT
from antiphon.apps.chat.screen.wrapping import cut, wrapped


@given(st.text())
def test_nothing_that_is_shown_is_a_command(text: str) -> None:
    """A member of the group could clear the screen, set the title or type into the shell of everybody else."""
    shown = harmless(text)
    for character in shown:
        assert character in JOINERS or character.isprintable(), f"U+{ord(character):04X}"
        assert character in JOINERS or unicodedata.category(character)[0] != "C"
    assert harmless(shown) == shown


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("\x1b[2J\x1b]0;owned\x07", "␛[2J␛]0;owned␇"),
        ("one\ntwo\r\nthree\ttab", "one⏎two␍⏎three tab"),
        ("\x9b31m\x85", "\ufffd31m⏎"),
        ("abc\u202edcba", "abc\ufffddcba"),
        ("\u2066hidden\u2069\ufeff\u200b", "\ufffdhidden\ufffd\ufffd\ufffd"),
        ("e" + "\u0301" * 50, "e" + "\u0301" * 4),
        ("\u3164\u2800", "\ufffd\ufffd"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("Zoë 日本語 👩\u200d🚀", "Zoë 日本語 👩\u200d🚀"),
        ("[bold]plain[/]", "[bold]plain[/]"),
    ],
)
def test_what_is_made_visible_and_what_is_left_alone(sent: str, shown: str) -> None:
    """Attacks would get through, or people could not write their language."""
    assert harmless(sent) == shown


def test_long_text_is_cut_with_a_sign() -> None:
    """A name of a megabyte would push everything else off the screen."""
    assert harmless("a" * 100, 10) == "a" * 9 + "…"
    assert harmless("a" * 10, 10) == "a" * 10


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("", "nothing in the line"),
        (" \t\n ", "nothing in the line"),
        ("a" * (TEXT_LIMIT + 1), "2,001 characters"),
        ("\x00\x1b", "unprintable"),
    ],
)
def test_what_cannot_be_said_is_refused_with_the_reason(typed: str, why: str) -> None:
    """The user would press Enter and nothing would happen."""
    with pytest.raises(Unsayable, match=why):
        written(typed, 1.0)


def test_what_is_typed_is_cleaned() -> None:
    """A pasted line would carry the colours of the terminal it was copied from."""
    assert written("  two\n\tlines \x1b[31m ", 5.0).text == "two lines [31m"
    assert len(written("a" * TEXT_LIMIT, 5.0).text) == TEXT_LIMIT


@given(
    st.text(st.characters(exclude_categories=("C", "Z", "M"), include_characters=" "), max_size=200), st.integers(0, 40), st.integers(1, 40)
)
def test_wrapped_text_is_all_there_and_fits(text: str, first: int, rest: int) -> None:
    """The end of a long line would be missing, or run over the border."""
    rows = wrapped(text, first, rest)
    assert "".join(rows).replace(" ", "") == text.replace(" ", "")
    assert cell_len(rows[0]) <= max(first, 0)
    widest = max((cell_len(character) for character in text), default=0)
    assert all(cell_len(row) <= max(rest, widest) for row in rows[1:])


@given(st.text(st.characters(exclude_categories=("C", "Z", "M"))), st.integers(-1, 20))
def test_a_cut_text_fits(text: str, width: int) -> None:
    """A long name would push the others out of the list."""
    assert cell_len(cut(text, width)) <= max(width, 0)


@pytest.mark.parametrize("theme", [NIGHT, DAY], ids=lambda theme: theme.name)
def test_every_colour_can_be_read_on_every_ground(theme: Theme) -> None:
    """On light terminals, or for those who see less well, names and warnings would be unreadable."""
    for ground in (theme.background, theme.surface, theme.panel):
        for colour in (theme.primary, theme.secondary, theme.accent, theme.success, theme.warning, theme.error, theme.foreground):
            assert ground is not None
            assert colour is not None
            darker, lighter = sorted((_luminance(ground), _luminance(colour)))
            assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (ground, colour)


def _luminance(colour: str) -> float:
    """As the guidelines for accessible web content (WCAG 2) define it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
