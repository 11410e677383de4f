from __future__ import annotations

import random

import pytest

from antiphon.debugger.pattern import Pattern, take_pattern
from antiphon.debugger.rule import Rule
from antiphon.debugger.words import split


def acting(rule: Rule, count: int) -> list[bool]:
    chance = random.Random(1).random
    return [rule.acts("out", "a", "b", "data", chance) for _ in range(count)]


@pytest.mark.parametrize(
    "text",
    [
        "drop data from a to b out first 1",
        "hold record from a in",
        "delay 50ms data to c out",
        "duplicate nack out every 2nd",
        "reorder fragment from a to b in with 12.5%",
        "drop frames out",
        'drop digest from "to" out',
    ],
)
def test_a_rule_is_read_and_written_in_the_same_words(text: str) -> None:
    """The studio, a scenario and the log would name the same rule differently."""
    assert str(Rule.parse(text)) == text


def test_a_rule_acts_on_the_way_out_unless_it_says_in() -> None:
    """Every rule would act twice on each frame."""
    rule = Rule.parse("drop data")
    assert rule.acts("out", "a", "b", "data", random.random)
    assert not rule.acts("in", "a", "b", "data", random.random)


def test_a_rule_acts_only_on_what_it_names() -> None:
    """A rule for one link would disturb another."""
    rule = Rule.parse("drop data from a to b")
    for source, destination, kind in (("b", "a", "data"), ("a", "c", "data"), ("a", "b", "nack")):
        assert not rule.acts("out", source, destination, kind, random.random)
    assert rule.acts("out", "a", "b", "data", random.random)
    assert (rule.seen, rule.acted) == (1, 1)
    assert Rule.parse("drop frames from a").acts("out", "a", "z", "nack", random.random)


def test_first_every_and_with_choose_among_the_frames_that_match() -> None:
    """`drop data first 1` would drop every repair of that message too, and nothing would ever arrive."""
    assert acting(Rule.parse("drop data first 2"), 5) == [True, True, False, False, False]
    assert acting(Rule.parse("drop data every 2nd"), 5) == [False, True, False, True, False]
    assert 60 < sum(acting(Rule.parse("drop data with 10%"), 1_000)) < 140


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "starts with"),
        ("explode data", "starts with"),
        ("drop", "which frames"),
        ("drop everything", "which frames"),
        ("delay", "how long"),
        ("delay data", "no duration"),
        ("delay 0ms data", "above 0"),
        ("drop data from", "name is missing"),
        ("drop data from a from b", "once"),
        ("drop data in out", "once"),
        ("drop data from z", "there is no member z"),
        ("drop data first", "needs a number"),
        ("drop data first 0", "whole number"),
        ("drop data first many", "whole number"),
        ("drop data every 2", "ordinal"),
        ("drop data every 0th", "ordinal"),
        ("drop data with 150%", "share"),
        ("drop data sometimes", "not understood"),
        ("drop data first 1 every 2nd", "too much"),
        ('"drop" data', "starts with"),
    ],
)
def test_a_rule_that_is_wrong_says_what_would_be_right(text: str, says: str) -> None:
    """Somebody debugging a group at night would have to read the parser."""
    with pytest.raises(ValueError, match=says):
        Rule.parse(text, members=("a", "b"))


def test_a_pattern_takes_its_words_and_leaves_the_rest() -> None:
    """What follows a pattern in a line would be lost."""
    rest = split("record to b first 3")
    assert take_pattern(rest) == Pattern(kind="record", destination="b")
    assert [word.text for word in rest] == ["first", "3"]
