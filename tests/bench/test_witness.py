"""The verifier of the benchmarks: it must see what it is there to see."""

from __future__ import annotations

import msgspec
import pytest

from antiphon.bench.witness import Witness, judge
from antiphon.bench.work import Pool, Tally, payload, stamp_of


def tally(member: int, runs: list[tuple[int, int, int]], sent: tuple[int, ...] = (6, 6)) -> Tally:
    """What a member reports that delivered these runs of (sender, first, last)."""
    witness = Witness(len(sent))
    for run in runs:
        witness.take(*run)
    return Tally(
        member=member,
        sent=sent[member],
        delivered=witness.delivered,
        seconds=1.0,
        deliveries=witness.delivered,
        cpu_s=0.1,
        server_cpu_s=0.0,
        rss_mb=1.0,
        digest=witness.digest(),
        count_by_sender=witness.count_by_sender(),
        complaints=witness.complaints(),
    )


WHOLE = [(0, 1, 4), (1, 1, 6), (0, 5, 6)]


def test_the_same_sequence_in_other_portions_is_the_same() -> None:
    """A correct run would be called broken because one member was handed larger batches than another."""
    portions = [(0, 1, 1), (0, 2, 4), (1, 1, 3), (1, 4, 4), (1, 5, 6), (0, 5, 5), (0, 6, 6)]
    assert tally(0, WHOLE).digest == tally(1, portions).digest
    assert judge([tally(0, WHOLE), tally(1, portions)], "total").kept


@pytest.mark.parametrize("order", ["total", "fifo"])
def test_two_messages_of_a_sender_that_changed_places_are_seen(order: str) -> None:
    """A table would show a fast row for a system that breaks the order of a sender."""
    swapped = [(0, 1, 4), (1, 1, 2), (1, 4, 4), (1, 3, 3), (1, 5, 6), (0, 5, 6)]
    verdict = judge([tally(0, WHOLE), tally(1, swapped)], order)
    assert not verdict.kept
    assert "after 2 of member 1 came 4" in verdict.complaints[0]


def test_messages_of_two_senders_that_changed_places_break_total_order_only() -> None:
    """Total order would be called kept where members disagree, or fifo order broken where they may."""
    other = [(0, 1, 3), (1, 1, 1), (0, 4, 4), (1, 2, 6), (0, 5, 6)]
    both = [tally(0, WHOLE), tally(1, other)]
    assert judge(both, "total").complaints == ("the members delivered in different orders",)
    assert judge(both, "fifo").kept


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([(0, 1, 4), (1, 1, 6), (0, 5, 5)], "delivered 5 of the 6 messages of member 0"),
        ([(0, 1, 4), (1, 1, 3), (1, 5, 6), (0, 5, 6)], "after 3 of member 1 came 5"),
        ([(0, 1, 4), (1, 1, 6), (0, 4, 6)], "after 4 of member 0 came 4"),
    ],
    ids=["the last one missing", "one missing in the middle", "one twice"],
)
def test_a_message_too_few_or_too_many_is_seen(runs: list[tuple[int, int, int]], said: str) -> None:
    """A system that loses or repeats messages would look faster than one that does not."""
    verdict = judge([tally(0, WHOLE), tally(1, runs)], "fifo")
    assert not verdict.kept
    assert any(said in complaint for complaint in verdict.complaints)


def test_all_losing_the_same_is_seen() -> None:
    """Equal hashes would hide that nobody delivered the last messages."""
    short = [(0, 1, 4), (1, 1, 6)]
    assert not judge([tally(0, short), tally(1, short)], "total").kept


def test_very_many_faults_are_counted_and_few_written_out() -> None:
    """A thoroughly broken run would fill the memory and the screen."""
    witness = Witness(1)
    for number in range(1, 2_001, 2):
        witness.take(0, number, number)
    assert len(witness.complaints()) <= 6
    assert "994 more" in witness.complaints()[-1]


def test_a_payload_that_came_under_another_number_is_seen() -> None:
    """Ids in the right order over exchanged contents would pass for a kept promise."""
    pool, other = Pool(3, 100), Pool(4, 100)
    messages = pool.slice(250, 64)
    assert len(messages) == 64
    assert all(pool.holds(250 + place, data) for place, data in enumerate(messages))
    assert not pool.holds(251, messages[0])
    assert not other.holds(250, messages[0])


def test_a_stamp_comes_back_as_it_was_given() -> None:
    """Delays would be computed from another clock reading than the sender's."""
    data = payload(7, 4_000_000_000, 256, 123_456_789_012_345)
    assert len(data) == 256
    assert stamp_of(data) == (7, 4_000_000_000, 123_456_789_012_345)


def test_a_tally_survives_its_way_to_the_parent() -> None:
    """The parent would judge something else than the member saw."""
    report = tally(0, WHOLE)
    assert msgspec.json.decode(msgspec.json.encode(report), type=Tally) == report
