"""Pairs: real endpoints, a scripted link, a clock in the test's hand."""

from __future__ import annotations

import doctest
import importlib

import pytest

from antiphon.errors import WouldBlock
from antiphon.model.options import GroupOptions
from antiphon.testing import pair


@pytest.mark.parametrize(
    "module",
    [
        *("antiphon.testing", "antiphon.testing.pair", "antiphon.testing.playbook", "antiphon.testing.batches"),
        "antiphon.testing.broken",
    ],
)
def test_the_examples_in_the_docstrings_are_true(module: str) -> None:
    """Whoever starts from an example that does not work goes away."""
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted
    assert not result.failed


def test_messages_of_one_turn_leave_as_one_batch() -> None:
    """Without batching, every message would pay for a frame of its own."""
    two = pair("fifo")
    for number in range(5):
        two.send("a", b"%d" % number)
    two.rule("drop data first 1")
    two.exchange()
    assert two.payloads("b") == []
    assert len(two.payloads("a")) == 5
    two.wait(2.0)
    assert two.payloads("b") == [b"0", b"1", b"2", b"3", b"4"]


def test_a_link_can_be_scripted() -> None:
    """Tests that cannot say what the network does cannot show what the protocol does about it."""
    two = pair("unordered")
    two.rule("reorder data from a to b first 1")
    two.rule("duplicate data from b to a")
    for number in range(2):
        two.send("a", b"%d" % number)
        two.exchange()
    two.send("b", b"once")
    two.exchange()
    assert two.payloads("b") == [b"1", b"0", b"once"]
    assert two.payloads("a") == [b"0", b"1", b"once"]
    assert two.check() == []


def test_a_delayed_frame_comes_at_its_time() -> None:
    """A link that forgets what it delays would turn every delay into a loss."""
    two = pair("unordered", "besteffort")
    two.rule("delay 300ms data")
    two.send("a", b"x")
    two.wait(0.2)
    assert two.payloads("b") == []
    two.wait(0.2)
    assert two.payloads("b") == [b"x"]


def test_a_full_window_blocks_and_opens_again() -> None:
    """A slow member must slow the sender down, and not for ever."""
    two = pair(options=GroupOptions(window=2))
    two.rule("hold frames from b to a")
    for _ in range(2):
        two.send("a", b"x")
    with pytest.raises(WouldBlock, match="wait for Writable"):
        two.send("a", b"x")
    two.wait(1.0)
    assert two.endpoint["a"].credit == 0
    two.rules.clear()
    two.release()
    two.wait(3.0)
    assert two.endpoint["a"].credit == 2
    two.send("a", b"x")


def test_a_view_of_one_goes_on_alone() -> None:
    """When the other one is gone, the last member must not wait for its acknowledgements."""
    two = pair("total", options=GroupOptions(order="total", window=4))
    two.exchange()
    two.install("b")
    for _ in range(10):
        two.send("b", b"x")
        two.exchange()
    assert len(two.payloads("b")) == 10
    assert two.check() == []


def test_a_broken_promise_is_seen() -> None:
    """A pair whose check sees nothing would be a pair that tests nothing."""
    two = pair("fifo")
    two.rule("drop frames")
    two.send("a", b"x")
    two.exchange()
    assert {violation.promise for violation in two.check()} == {"agreement"}
    assert two.check(settled=False) == []
