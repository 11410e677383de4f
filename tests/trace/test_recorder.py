"""The recorder and its transcripts: what becomes of ranges, checksums, and of rows for which there is no room."""

from __future__ import annotations

from zlib import crc32

import pytest
from msgspec import structs

from antiphon.errors import InvalidOption
from antiphon.model.events import Delivery, Installed
from antiphon.model.frames import Batch
from antiphon.model.ids import GroupId, MemberId, MessageId
from antiphon.model.options import GroupOptions
from antiphon.model.view import View
from antiphon.trace.recorder import Recorder
from antiphon.trace.row import Row
from antiphon.trace.schema import CHECK_EVERY, SHORT
from antiphon.trace.trace import Trace
from antiphon.trace.transcript import Transcript

A, B, G = MemberId("a#1"), MemberId("b#2"), GroupId("g#3")
VIEW = View(7, (A, B))


def recording(checks: str = "some", limit: int = 1_000) -> tuple[Recorder, Transcript]:
    recorder = Recorder("run", "", lambda: (1, 2), checks=checks, limit=limit)
    recorder.begin("w#0")
    transcript = recorder.transcript(G, A, GroupOptions(), None, ("fifo",))
    transcript.end_turn(1.0, 0.0, [Installed(VIEW, None)], None)
    return recorder, transcript


def batch(first: int, count: int, sender: MemberId = B) -> Delivery:
    return Batch(G, sender, VIEW.id, first, tuple(b"%d" % number for number in range(first, first + count))), first, first + count - 1


def rows(recorder: Recorder, *kinds: str) -> list[Row]:
    return [row for row in recorder.whole() if row.kind in kinds]


def test_consecutive_messages_are_one_row_whatever_they_came_in() -> None:
    """A row per batch would cost more than delivering it."""
    recorder, transcript = recording()
    pieces = [batch(1, 64), batch(65, 64), batch(1, 3, A), batch(129, 10)]
    for piece in pieces:
        transcript.received(*piece)
    transcript.end_turn(2.0, 1.5, pieces, None)
    told = [(row.kind, row.sender, row.first, row.last, row.position) for row in rows(recorder, "receive", "deliver")]
    ranges = [(B, 1, 128), (A, 1, 3), (B, 129, 138)]
    delivered = [("deliver", *each, at) for each, at in zip(ranges, (0, 128, 131), strict=True)]
    assert told == [*(("receive", *each, 0) for each in ranges), *delivered]
    assert {row.view for row in rows(recorder, "deliver")} == {VIEW.id}


def test_a_hole_or_another_view_is_never_papered_over() -> None:
    """Two ranges with a hole between would be told as one, and a lost message as delivered."""
    recorder, transcript = recording()
    other = batch(11, 5)
    late = (Batch(G, B, VIEW.id + 1, 16, (b"x",)), 16, 16)
    transcript.end_turn(2.0, 1.5, [batch(1, 5), other, late], None)
    assert [(row.first, row.last, row.view) for row in rows(recorder, "deliver")] == [(1, 5, 7), (11, 15, 7), (16, 16, 8)]


@pytest.mark.parametrize(("first", "count"), [(1, 1), (60, SHORT), (1, 63), (1, 64), (64, 9), (65, 200), (128, 1)])
def test_both_sides_take_the_checksums_of_the_same_messages(first: int, count: int) -> None:
    """What a sender checked and what a receiver checked would be different messages, and no damage ever seen."""
    recorder, transcript = recording()
    whole = batch(first, count, A)
    transcript.sent(2.0, VIEW.id, first, whole[0].payloads, count, sum(map(len, whole[0].payloads)))
    transcript.end_turn(2.0, 1.5, [(whole[0], first, first), (whole[0], first + 1, whole[2])] if count > 1 else [whole], None)
    (send,), (deliver,) = rows(recorder, "send"), rows(recorder, "deliver")
    numbers = range(first, first + count)
    chosen = [number for number in numbers if number % CHECK_EVERY == 0] if count > SHORT else numbers
    assert send.checks == deliver.checks == [crc32(b"%d" % number) for number in chosen]
    assert send.amount == sum(len(b"%d" % number) for number in numbers)


def test_each_message_has_its_checksum_where_that_is_asked_for() -> None:
    """A simulated run could lose the one damaged message of a long range."""
    recorder, transcript = recording("each")
    transcript.sent(2.0, VIEW.id, 1, batch(1, 100)[0].payloads, 100, 192)
    transcript.end_turn(2.0, 1.5, [batch(1, 50), batch(51, 50)], None)
    expected = [crc32(b"%d" % number) for number in range(1, 101)]
    assert [row.checks for row in rows(recorder, "send", "deliver")] == [expected, expected]


def test_sends_of_one_turn_are_one_row_with_their_names() -> None:
    """A program that sends one by one would write a row per message; or the names would be those of other messages."""
    recorder, transcript = recording()
    transcript.sent(2.0, VIEW.id, 1, (b"q",), 1, 1)
    transcript.sent(2.0, VIEW.id, 2, (b"a",), 1, 1, (MessageId(B, 4), MessageId(A, 1)))
    transcript.sent(2.0, VIEW.id, 3, (b"x", b"y", b"refused"), 2, 2)
    transcript.sent(2.0, VIEW.id, 5, (b"z",), 1, 1, (MessageId(B, 5),), "after")
    transcript.sent(2.0, VIEW.id + 1, 6, (b"!",), 1, 1)
    transcript.end_turn(2.0, 1.5, [], None)
    told = [(row.first, row.last, row.view, row.names, row.note) for row in rows(recorder, "send")]
    assert told == [
        (1, 4, 7, [(2, B, 4), (2, A, 1)], None),
        (5, 5, 7, [(5, B, 5)], "after"),
        (6, 6, 8, None, None),
    ]


def test_a_row_without_room_is_missed_and_shows() -> None:
    """A disk that cannot keep up would stop the node, eat its memory, or leave a trace that looks whole and is not."""
    recorder, transcript = recording(limit=10)
    for number in range(1, 101):
        transcript.end_turn(2.0, 1.5, [batch(number, 1)], None)
    assert len(recorder.rows) == 10
    assert recorder.dropped == 100 - 10 + 3
    kept = recorder.whole()
    recorder.rows.clear()
    transcript.end_turn(3.0, 1.5, [Installed(View(8, (A, B)), VIEW), batch(101, 1)], None)
    transcript.sent(3.0, 8, 1, (b"x",), 1, 1)
    recorder.close()
    later = recorder.whole()
    assert [row.index for row in kept] == list(range(10))
    assert [row.index for row in later] == [103, 104, 105, 106], "the numbers between were used up"
    assert [row.kind for row in later] == ["view", "deliver", "send", "close"]
    assert later[1].position == 100, "positions count what was delivered, not what was written"


def test_after_the_end_nothing_is_told() -> None:
    """Rows after the closing row would make a trace that was ended well look damaged."""
    recorder, transcript = recording()
    transcript.sent(2.0, VIEW.id, 1, (b"last words",), 1, 10)
    recorder.close()
    transcript.sent(2.0, VIEW.id, 2, (b"x",), 1, 1)
    transcript.end_turn(2.0, 1.5, [batch(1, 1)], None)
    recorder.close()
    assert [row.kind for row in recorder.whole()][-2:] == ["send", "close"]


def test_what_cannot_be_recorded_like_that_is_refused_with_what_to_do() -> None:
    """A typing mistake would be found when the trace is needed."""
    with pytest.raises(InvalidOption, match="some"):
        Recorder("run", "w", lambda: (0, 0), checks="all")
    with pytest.raises(InvalidOption, match="directory"):
        Trace(directory="")
    for wrong in ({"rotate_s": 0.0}, {"run": ""}, {"waiting_rows": 0}, {"rotate_rows": 0}):
        with pytest.raises(InvalidOption):
            structs.replace(Trace(directory="x"), **wrong)
