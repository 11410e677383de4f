"""What a member keeps of the past: bounds, bookkeeping, order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.model import codec
from antiphon.model.control import Epoch
from antiphon.model.frames import Batch
from antiphon.model.ids import GroupId, MemberId
from antiphon.model.options import Settings
from antiphon.protocol.sync import archive as archive_module
from antiphon.protocol.sync import history as history_module
from antiphon.protocol.sync.canonical import Packed, Stub
from antiphon.protocol.sync.history import History

GROUP, A, B = GroupId("trip#1"), MemberId("a"), MemberId("b")


def batch(sender: str, first: int, count: int = 1, sent_at: float = 0.0, size: int = 10) -> Batch:
    return Batch.compose(GROUP, MemberId(sender), 1, first, [bytes(size)] * count, sent_at=sent_at)


def started(order: str = "fifo", **settings: object) -> History:
    history = History(order, Settings(**settings))  # type: ignore[arg-type]
    history.begin(Epoch(1, 2))
    return history


def test_a_batch_in_pieces_is_one_batch() -> None:
    """Histories would differ by how a batch happened to be delivered, and numbers between the pieces would be asked for again."""
    history = started()
    one = batch("a", 1, 6)
    for low, high in ((3, 4), (1, 2), (5, 6)):
        history.add(one, low, high)
    assert history.messages() == [(one, 1, 6)]
    assert history.have() == {A: [1, 6]}
    assert history.delivered_up_to(A) == 6
    assert history.covers(A, 4, 9) == [(7, 9)]
    assert history.follow((batch("a", 7, 8), 7, 8))
    assert history.have() == {A: [1, 8]}


def test_what_came_by_other_ways_is_known() -> None:
    """A message that a state stands for, or that came by synchronisation, would be delivered again when it comes live."""
    history = started()
    history.skip({A: [1, 4]})
    history.lose({A: [7, 8]})
    assert history.covers(A, 1, 10) == [(5, 6), (9, 10)]
    assert history.delivered_up_to(A) == 4
    assert not history.follow((batch("a", 5, 5), 5, 5))
    assert history.covers(A, 1, 10) == [(5, 6), (9, 10)]
    history.adopt({B: [1, 3]}, {B: 3})
    assert history.before().flat()[B] == [1, 2]
    assert history.adopted.flat() == {B: [1, 3]}
    assert history.covers(B, 2, 4) == [(4, 4)]
    assert history.messages() == []
    assert history.absent().flat() == {A: [1, 4, 7, 8], B: [1, 3]}


def test_the_oldest_is_forgotten_first_and_remembered_as_had() -> None:
    """Memory would grow with the life of a group; or what was forgotten would be taken for new when somebody still has it."""
    history = started(history_messages=10)
    for number in range(1, 3_001):
        history.add(batch("a", number, sent_at=float(number)), number, number)
    assert [low for _, low, _ in history.messages()] == list(range(2_991, 3_001))
    assert history.have() == {A: [1, 3_000]}
    assert history.absent().flat() == {A: [1, 2_990]}
    assert history.forgotten_at == 2_990.0


def test_the_bound_in_bytes_holds() -> None:
    """A few large messages would take all memory."""
    history = started(history_bytes=1_000)
    for number in range(1, 101):
        history.add(batch("a", number, size=100), number, number)
    assert len(history.messages()) == 10
    assert history.stats()["history_bytes"] == 1_000


def test_older_epochs_are_forgotten_before_newer_ones() -> None:
    """What a merge brought would push out what was sent since."""
    history = started(history_messages=4)
    history.add(batch("a", 1, 2), 1, 2)
    history.begin(Epoch(5, 2, (1, 3)))
    history.learn([Epoch(3, 1, (1,))])
    history.add(batch("a", 3, 2), 3, 4)
    for number in (1, 2, 3):
        assert history.recover(3, batch("b", number, sent_at=1.0), number, number) == [(number, number)]
    assert [(one.sender, low, high) for one, low, high in history.messages()] == [("b", 2, 2), ("b", 3, 3), ("a", 3, 4)]


def test_ids_without_payloads() -> None:
    """A member with little memory would have to keep payloads all the same, or could not say what it has."""
    history = started(retention="ids")
    history.add(batch("a", 1, 3, sent_at=2.0), 1, 3)
    history.add(batch("b", 1, sent_at=1.0), 1, 1)
    assert history.messages() == []
    assert history.have() == {A: [1, 3], B: [1, 1]}
    assert history.absent().flat() == history.have()
    assert history.stats()["history_bytes"] == 0


def test_what_is_recovered_twice_is_new_once() -> None:
    """Answers of two members would deliver a message twice."""
    history = started()
    history.begin(Epoch(4, 2, (1,)))
    one = batch("b", 1, 4)
    assert history.recover(1, one, 2, 3) == [(2, 3)]
    assert history.recover(1, one, 1, 4) == [(1, 1), (4, 4)]
    assert history.recover(1, one, 1, 4) == []
    assert history.messages() == [(one, 1, 4)]


def test_two_ends_of_one_epoch() -> None:
    """In total order each side would keep its own end of the common past, and histories would never be equal again."""
    a, b, c = batch("a", 1, 2), batch("b", 1), batch("c", 1)
    here, there = started("total"), started("total")
    here.add(a, 1, 2)
    here.add(b, 1, 1)
    there.add(a, 1, 2)
    there.add(c, 1, 1)
    here.begin(Epoch(2, 2, (1,)))
    there.begin(Epoch(3, 3, (1,)))
    here.learn([Epoch(3, 3, (1,))])
    there.learn([Epoch(2, 2, (1,))])
    here.recover(1, Stub(A), 1, 2, 3, 0)
    assert here.recover(1, c, 1, 1, 3, 2) == [(1, 1)]
    there.recover(1, Stub(A), 1, 2, 2, 0)
    assert there.recover(1, b, 1, 1, 2, 2) == [(1, 1)]
    assert here.messages() == there.messages() == [(a, 1, 2), (c, 1, 1), (b, 1, 1)]
    assert here.outcomes() == there.outcomes() == [(1, 2, 3), (1, 3, 3)]


def test_in_one_line_an_epoch_has_one_end() -> None:
    """A member that was stopped would get what it lacks beside the beginning it knows, in an order of its own."""
    a, b = batch("a", 1, 2, sent_at=2.0), batch("b", 1, sent_at=1.0)
    went_on, stopped = (History("total", Settings(), one_line=True) for _ in range(2))
    for history in (went_on, stopped):
        history.begin(Epoch(1, 3))
        history.add(a, 1, 1)
    went_on.add(a, 2, 2)
    went_on.add(b, 1, 1)
    went_on.begin(Epoch(2, 2, (1,)))
    stopped.begin(Epoch(3, 3, (1, 2)))
    assert (went_on.outcomes(), stopped.outcomes()) == ([(1, 1, 3)], [(1, 1, 1)])
    stopped.recover(1, a, 2, 2, 1, 1)
    stopped.recover(1, b, 1, 1, 1, 2)
    assert stopped.outcomes() == went_on.outcomes()
    assert stopped.messages() == went_on.messages() == [(a, 1, 2), (b, 1, 1)]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 6)), max_size=20))
def test_places_are_entered_once(answers: list[tuple[int, int]]) -> None:
    """Answers that overlap would count a place twice, and the rest of the outcome would never be asked for."""
    history = started("total")
    history.begin(Epoch(9, 2, (1,)))
    one = batch("b", 1, 16)
    known = 0
    for position, count in answers:
        if position <= known:
            history.recover(1, one, position + 1, position + count, 7, position)
            known = max(known, position + count)
    assert history.outcomes() == ([(1, 7, known)] if known else [])
    assert [(low, high) for _, low, high in history.messages()] == ([(1, known)] if known else [])


def test_epochs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that changes every second would remember every view for ever."""
    monkeypatch.setattr(archive_module, "EPOCH_LIMIT", 8)
    history = started()
    for number in range(2, 40):
        history.add(batch("a", number), number, number)
        history.begin(Epoch(number, 2, (number - 1,)))
    assert len(history.epochs()) == 8
    assert len(history.messages()) == 7
    assert history.have() == {A: [2, 39]}
    history.recover(1, batch("b", 1), 1, 1)
    assert len(history.epochs()) == 8


def test_senders_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody who ever spoke would be remembered for ever."""
    monkeypatch.setattr(history_module, "SENDER_LIMIT", 8)
    history = started()
    for number in range(40):
        history.skip({MemberId(f"m{number}"): [1, 3]})
    assert len(history.have()) == 8


@pytest.mark.parametrize(("count", "size"), [(500, 10), (1, 50_000)])
def test_what_has_just_been_delivered_is_bounded_too(count: int, size: int) -> None:
    """Large batches, or large messages, would pile up to many times of what may be kept before any is forgotten."""
    history = started(history_messages=4_000, history_bytes=400_000)
    first = 1
    for _ in range(200):
        one = batch("a", first, count, size=size)
        history.add(one, first, first + count - 1)
        first += count
        fresh = history._fresh
        assert sum(high - low + 1 for _, low, high in fresh) <= 500 + count
        assert sum(map(len, (payload for batch, _, _ in fresh for payload in batch.payloads))) <= 50_000 + count * size
    assert history.stats()["history_messages"] <= 4_000  # type: ignore[operator]
    assert history.stats()["history_bytes"] <= 400_000  # type: ignore[operator]


def test_a_large_batch_is_kept_as_its_frame_and_told_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood would leave behind an object for each message, in memory that is cold when the next ones are made; or the past would be told
    otherwise than it was delivered."""
    monkeypatch.setattr(history_module, "_MANY", 16)
    packed, plain = History("fifo", Settings(), frame_of=codec.encode), History("fifo", Settings())
    large, parted, small = batch("a", 1, 100, sent_at=1.0), batch("a", 101, 100, sent_at=2.0), batch("b", 1, sent_at=1.5)
    for history in (packed, plain):
        history.begin(Epoch(1, 2))
        history.add(large, 1, 100)
        history.add(small, 1, 1)
        history.add(parted, 101, 150)
        history.add(parted, 151, 200)
    assert packed.messages() == plain.messages() == [(large, 1, 100), (small, 1, 1), (parted, 101, 200)]
    assert [type(kept) for kept, _, _ in packed._archive.current.outcome(0).pieces] == [Packed, Batch, Batch, Batch]  # type: ignore[union-attr]
    assert packed.stats()["history_bytes"] == len(codec.encode(large)) + 101 * 10
    assert packed.have() == plain.have()


def test_packed_batches_keep_to_the_bound() -> None:
    """Frames would not count, or be forgotten without being remembered as had."""
    history = History("total", Settings(history_bytes=50_000), frame_of=codec.encode)
    history.begin(Epoch(1, 2))
    for number in range(200):
        history.add(batch("a", 1 + 100 * number, 100, sent_at=float(number)), 1 + 100 * number, 100 + 100 * number)
    kept = history.messages()
    assert 40_000 < sum(len(codec.encode(one)) for one, _, _ in kept) <= 50_000
    assert history.absent().flat() == {A: [1, kept[0][1] - 1]}
    assert history.have() == {A: [1, 20_000]}
    assert history.forgotten_at == kept[0][0].sent_at - 1


@pytest.mark.parametrize("most", [8, 64, 127, 128])
def test_messages_that_come_one_by_one_keep_to_the_bound(most: int) -> None:
    """A program that can afford to keep a few large messages would keep more of them."""
    history = started(history_messages=most)
    history.add(batch("ana", 1), 1, 1)
    for number in range(2, 300):
        assert history.follow((batch("ana", number), number, number))
        assert len(history._fresh) <= most // 8, "what is not entered yet is few beside it"
    assert history.stats()["history_messages"] <= most  # type: ignore[operator]
