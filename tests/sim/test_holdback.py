"""Hold-back: what counts as waiting, and what does not."""

from __future__ import annotations

import pytest

from antiphon.model.ids import MemberId, MessageId
from antiphon.sim.holdback import hold_back, passage
from antiphon.sim.log import Delivered, MemberLog, Received, Sent

A, B = MemberId("a#1"), MemberId("b#1")


def logs(*waits_s: float) -> list[MemberLog]:
    """`a` sends one message a second; each takes 0.5 s to `b` and then waits there; `a` itself waits ten times as long."""
    sender, receiver = MemberLog(A, []), MemberLog(B, [])
    for number, wait_s in enumerate(waits_s, start=1):
        message = MessageId(A, number)
        sender.events += [Sent(number, message), Received(number, message), Delivered(number + 10 * wait_s, message)]
        receiver.events += [Received(number + 0.5, message), Delivered(number + 0.5 + wait_s, message)]
    return [sender, receiver]


def test_only_other_members_waits_count_and_travelling_is_no_waiting():
    """An order would look cheap because everybody sees their own messages at once, or dear because the network is slow."""
    seen = hold_back(logs(0.0, 0.25, 0.0, 0.75))
    assert (seen.deliveries, seen.held, seen.held_share) == (4, 2, 0.5)
    assert (seen.mean_s, seen.p50_s, seen.max_s) == (0.25, 0.0, 0.75)
    assert seen.end_to_end_mean_s == 0.75


def test_percentiles_are_values_that_occurred():
    """A percentile would be invented between a message that did not wait and one that waited long."""
    seen = hold_back(logs(*[0.0] * 98, 1.0, 2.0))
    assert (seen.p50_s, seen.p99_s, seen.max_s) == (0.0, 1.0, 2.0)
    assert hold_back(logs(0.5)).p99_s == 0.5


def test_a_run_without_deliveries_has_no_hold_back():
    """A conversation with one speaker and no listener would end in a division by zero."""
    assert hold_back([MemberLog(A, [])]).mean_s == 0.0


def test_passage_tells_when_a_message_came_and_when_it_was_shown():
    """A picture of one message would show another one's times."""
    _, receiver = logs(0.0, 0.25)
    assert passage(receiver, MessageId(A, 2)) == (2.5, 2.75)
    with pytest.raises(KeyError):
        passage(receiver, MessageId(A, 3))
