"""The first picture of semantic order: an unrelated message does not wait."""

from __future__ import annotations

import pytest

from antiphon.sim.figure_one import FAST_S, SLOW_S, figure_one

EARLY_S = SLOW_S - 2 * FAST_S


@pytest.fixture(scope="module")
def scenes():
    return {scenes.order: scenes for scenes in figure_one()}


def test_every_order_sees_the_same_arrivals(scenes):
    """The orders would be compared on different networks, and the difference called the order's."""
    for both in scenes.values():
        assert both.answer.early_s == pytest.approx(EARLY_S)
        assert both.unrelated.early_s == pytest.approx(EARLY_S)


def test_an_unrelated_message_is_shown_at_once_where_nothing_promises_more(scenes):
    """Semantic order would be as slow as causal order, and nobody would need it."""
    assert {order for order, both in scenes.items() if both.unrelated.held_s == 0.0} == {"unordered", "fifo", "semantic"}


def test_causal_and_total_hold_the_unrelated_message_until_the_other_came(scenes):
    """A promise would be broken: the message that happened before is not there yet."""
    assert scenes["causal"].unrelated.held_s == pytest.approx(EARLY_S)
    assert scenes["total"].unrelated.held_s >= EARLY_S - 1e-9


def test_an_answer_waits_for_its_question(scenes):
    """Somebody would read an answer to a question they have not seen."""
    assert scenes["semantic"].answer.held_s == pytest.approx(EARLY_S)
    assert {order for order, both in scenes.items() if both.answer.held_s == 0.0} == {"unordered", "fifo"}
