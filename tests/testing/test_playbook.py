"""The playbook itself: that it tells the story, and that it fails when the story goes otherwise."""

from __future__ import annotations

import pytest

from antiphon.model.frames import Batch
from antiphon.protocol.stage import Ordering
from antiphon.testing import batch, delivers, got, holds, nothing, play, record, sends


def test_a_wrong_expectation_tells_the_whole_story() -> None:
    """A playbook that accepts anything proves nothing; one that only says False helps nobody."""
    b1, b2 = batch("B", 1), batch("B", 2)
    with pytest.raises(AssertionError) as failure:
        play("fifo") >> got(b2) << nothing() >> got(b1) << delivers(b1)
    told = str(failure.value)
    assert ">> got B2" in told
    assert "expected ['B1']" in told
    assert "but was  ['B1', 'B2']" in told


@pytest.mark.parametrize(
    "wrong",
    [
        lambda book: book >> got(batch("B", 1)) << nothing(),
        lambda book: book >> got(batch("B", 2)) << delivers("B2"),
        lambda book: book >> got(batch("B", 2)) << holds(0),
        lambda book: book >> got(batch("B", 1, b"x", b"y")) << delivers("B2", "B1"),
    ],
)
def test_every_expectation_can_fail(wrong: object) -> None:
    """An expectation that cannot fail would let a broken ordering pass."""
    assert callable(wrong)
    with pytest.raises(AssertionError, match="otherwise"):
        wrong(play("fifo"))


def test_an_ordering_of_ones_own_is_played_without_being_registered() -> None:
    """Who writes an ordering needs a test before it is good enough to be registered."""

    class Backwards(Ordering):
        def accept(self, batch: Batch, low: int, high: int) -> None:
            for seqno in range(high, low - 1, -1):
                self.deliver((batch, seqno, seqno))

    play(Backwards) >> got(batch("B", 1, b"x", b"y")) << delivers("B2", "B1")


def test_own_messages_take_the_same_way() -> None:
    """A member's own messages obey its order like everybody else's."""
    play("fifo") >> sends(b"x") << delivers("A1") >> sends(b"y") << delivers("A2")


def test_frames_in_short_form_are_checked() -> None:
    """A typing mistake in a test must not become a test of something else."""
    with pytest.raises(ValueError, match="like B2"):
        batch("B", 1, parents=["2"])
    with pytest.raises(ValueError, match="need 1 parents"):
        batch("B", 1, parents=["A1", "A2"])
    assert record("A", 1, 2, [1, 1, 2]).last == 2
