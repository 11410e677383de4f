from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.debugger import words
from antiphon.debugger.words import Word


def test_a_line_is_cut_into_words_and_its_comment_dropped() -> None:
    """A scenario would do something else than it says."""
    assert words.split('A sends q1 "Did you # visit \\"Delhi\\"?" # a comment') == [
        Word("A"),
        Word("sends"),
        Word("q1"),
        Word('Did you # visit "Delhi"?', True),
    ]
    assert words.split("   # nothing") == []


@pytest.mark.parametrize("line", ['A sends "never closed', '"a"b', 'a"b"', "x " * 300])
def test_a_line_that_cannot_be_cut_is_refused(line: str) -> None:
    """Half a line would be carried out."""
    with pytest.raises(ValueError, match=r"column|words"):
        words.split(line)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n")))
def test_quoted_text_comes_back_as_it_was(text: str) -> None:
    """A rewritten scenario would say something else than before."""
    assert words.split(words.quote(text)) == [Word(text, True)]


@given(st.text(max_size=60))
def test_no_line_does_worse_than_being_refused(line: str) -> None:
    """A stray character would stop the simulator with an error nobody understands."""
    with contextlib.suppress(ValueError):
        words.split(line)


def test_numbers_with_units_are_read_and_written() -> None:
    """50ms would be 50 seconds."""
    assert [words.seconds(text) for text in ("50ms", "1.5s", "200us", "2min")] == [0.05, 1.5, pytest.approx(0.0002), 120.0]
    assert [words.duration(value) for value in (0.05, 1.5, 0.0002, 0.0)] == ["50ms", "1.5s", "200us", "0s"]
    assert (words.share("10%"), words.share("0.1"), words.ordinal("2nd"), words.nth(11), words.nth(22)) == (0.1, 0.1, 2, "11th", "22nd")


@pytest.mark.parametrize("text", ["50", "ms", "-5ms", "1e9s", "5 ms", "nan", ""])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """A delay would be silently nothing."""
    with pytest.raises(ValueError, match="like 50ms"):
        words.seconds(text)


@pytest.mark.parametrize("text", ["101%", "-1%", "nan", "x", "", "2"])
def test_what_is_no_share_is_refused(text: str) -> None:
    """A rule would act always, or never."""
    with pytest.raises(ValueError, match="0% to 100%"):
        words.share(text)
