from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from antiphon.store.jetstream.subjects import TopicSubjects, name_of, token

_NAMES = st.text(max_size=64) | st.text(alphabet="=-_.*> aA0", max_size=12)


@given(_NAMES)
def test_a_token_says_its_name_again(name: str) -> None:
    """Listing the topics would give names under which nobody finds them."""
    assert name_of(token(name)) == name


@given(_NAMES, _NAMES)
def test_no_two_names_have_one_token(one: str, two: str) -> None:
    """Two topics would be one."""
    assert (token(one) == token(two)) == (one == two)


@given(_NAMES)
def test_a_token_can_stand_in_a_subject_and_in_a_line_of_the_protocol(name: str) -> None:
    """A name with a dot would reach into another topic, one with a line end could say anything to the server."""
    assert set(token(name)) <= set(string.ascii_letters + string.digits + "-_=")
    assert token(name)


def test_tokens_are_short_and_plain_names_are_themselves() -> None:
    """An operator who lists the streams would not know his topics again, and long names would not fit."""
    assert token("crash-2_a") == "crash-2_a"
    assert TopicSubjects("antiphon", "crash").value == "antiphon.t.crash.w.v"
    longest = TopicSubjects("p" * 32, "é" * 64)
    assert len(longest.stream) <= 255
