"""Timers: what is due when, and how cheaply that nothing is can be seen."""

from __future__ import annotations

from antiphon.protocol.timers import NEVER, Timers


def test_nothing_is_due_before_it_is_said_to_be() -> None:
    """A node that looks at `quiet_until` alone would sleep through its timers."""
    timers, ran = Timers(), list[str]()
    assert (timers.quiet_until, timers.deadline) == (NEVER, None)
    timers.at(3.0, lambda: ran.append("late"))
    timers.at(1.0, lambda: ran.append("early"))
    timers.at(2.0, lambda: ran.append("between"))
    for now in (1.0, 2.0, 3.0):
        assert timers.quiet_until == timers.deadline == now
        timers.run(now)
    assert ran == ["early", "between", "late"]
    assert timers.quiet_until == NEVER


def test_a_timer_that_was_cancelled_wakes_once_at_most() -> None:
    """A node would tick for ever at a time that has passed, for a timer that nobody waits for."""
    timers = Timers()
    timers.at(1.0, lambda: None).cancel()
    timers.at(5.0, lambda: None)
    assert timers.quiet_until <= 5.0
    timers.run(1.0)
    assert timers.quiet_until == 5.0
    timers.at(2.0, lambda: None).cancel()
    assert timers.deadline == timers.quiet_until == 5.0


def test_a_timer_set_by_a_timer_counts() -> None:
    """What repeats itself would run once, and then whenever something else happens."""
    timers = Timers()

    def again() -> None:
        timers.at(2.0, lambda: None)

    timers.at(1.0, again)
    timers.at(9.0, lambda: None)
    timers.run(1.0)
    assert timers.quiet_until == 2.0
