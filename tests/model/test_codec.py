"""The codec: what goes in comes out, and nothing else comes out whatever goes in."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import BadFrame
from antiphon.model import codec
from antiphon.model.codec import Frame
from antiphon.model.frames import KINDS, Batch, Digest, Fragment, Nack, Record
from antiphon.model.ids import GroupId, MemberId, MessageId

GROUP, ANA, BOB = GroupId("trip#1"), MemberId("ana#1"), MemberId("bob#2")
names = st.builds(MessageId, st.sampled_from([ANA, BOB, MemberId("cleo#3")]), st.integers(1, 2**40))


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    payloads = draw(st.lists(st.binary(max_size=40), min_size=1, max_size=8))
    first = draw(st.integers(1, 2**40))
    parents = draw(st.none() | st.lists(st.none() | names, min_size=len(payloads), max_size=len(payloads)))
    after = draw(st.dictionaries(st.integers(first, first + len(payloads) - 1), st.lists(names, min_size=1, max_size=3), max_size=2))
    stamp = draw(st.none() | st.lists(st.integers(0, 2**40), max_size=6) | st.binary(max_size=9))
    return Batch.compose(GROUP, ANA, draw(st.integers(1, 2**60)), first, payloads, parents, stamp, draw(st.floats(0, 1e9)), after)


number = st.integers(0, 2**40)
frames: st.SearchStrategy[Frame] = st.one_of(
    batches(),
    st.builds(Fragment, st.just(GROUP), st.just(ANA), number, st.just(3), st.integers(0, 4), st.just(5), st.binary(max_size=40)),
    st.builds(Record, st.just(GROUP), st.just(ANA), number, st.just(3), st.just(9), st.none() | st.lists(number, max_size=9)),
    st.builds(Digest, st.just(GROUP), st.just(BOB), number, st.lists(number, max_size=9), st.none() | st.lists(number, max_size=9)),
    st.builds(
        Nack, st.just(GROUP), st.just(BOB), number, st.lists(st.tuples(st.integers(0, 9), number, number, st.integers(0, 9)), max_size=4)
    ),
)


@given(frames)
def test_a_frame_survives_the_wire(frame: Frame) -> None:
    """Members would not understand each other."""
    wire = codec.encode(frame)
    assert codec.decode(wire) == frame
    assert codec.kind_of(wire) == KINDS[frame.__struct_config__.tag]  # type: ignore[index]


@given(batches())
def test_a_batch_says_what_its_messages_name(batch: Batch) -> None:
    """An answer would be filed under the wrong question."""
    seqnos = range(batch.first, batch.last + 1)
    again = Batch.compose(
        batch.group,
        batch.sender,
        batch.view,
        batch.first,
        batch.payloads,
        None if batch.parents is None else [batch.reply_to(seqno) for seqno in seqnos],
        batch.stamp,
        batch.sent_at,
        {seqno: batch.follows(seqno)[1 if batch.reply_to(seqno) else 0 :] for seqno in batch.after or {}},
    )
    assert again == batch
    for seqno in seqnos:
        parent = batch.reply_to(seqno)
        assert batch.follows(seqno)[: 1 if parent else 0] == ((parent,) if parent else ())


@given(st.binary(max_size=200))
def test_bytes_that_are_no_frame_are_refused(noise: bytes) -> None:
    """Anybody could stop a member's event loop with a datagram."""
    for wire in (noise, bytes([codec.VERSION]) + noise):
        # Anything but a frame or BadFrame fails the test.
        with suppress(BadFrame):
            codec.decode(wire)


@given(frames, st.data())
def test_a_damaged_frame_is_a_frame_or_is_refused(frame: Frame, data: st.DataObject) -> None:
    """One flipped bit would come out as an exception that nobody expects."""
    wire = bytearray(codec.encode(frame))
    for _ in range(data.draw(st.integers(1, 3))):
        wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(wire[: data.draw(st.integers(0, len(wire)))])
    try:
        decoded = codec.decode(damaged)
    except BadFrame:
        return
    if isinstance(decoded, Batch):
        for seqno in range(decoded.first, decoded.last + 1):
            decoded.follows(seqno)


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        (b"", "truncated"),
        (b"\x01", "truncated"),
        (b"\x02\x90", "unknown_version"),
        (b"\x01" + b"x" * codec.FRAME_LIMIT, "oversized"),
        (b"\x01\xc0", "malformed"),
        (b"\x01" + b"\x91" * 5_000 + b"\xc0", "malformed"),
        (codec.encode(Batch(GROUP, ANA, 1, 1, [b"a"]))[:-3], "malformed"),
        (codec.encode(Batch(GROUP, ANA, 1, 1, [b"a"])) + b"\x00", "malformed"),
    ],
    ids=["empty", "version only", "later version", "too long", "no array", "nested too deeply", "cut", "too much"],
)
def test_the_reason_is_counted_by_name(wire: bytes, reason: str) -> None:
    """An operator could not tell a newer peer from line noise."""
    with pytest.raises(BadFrame) as bad:
        codec.decode(wire)
    assert bad.value.reason == reason


@pytest.mark.parametrize(
    "batch",
    [
        Batch(GROUP, ANA, 1, 1, []),
        Batch(GROUP, ANA, 1, 0, [b"a"]),
        Batch(GROUP, ANA, 1, -5, [b"a"]),
        Batch(GROUP, ANA, 1, 1, [b"a"], [1, 2], None, 0.0, [ANA], b"\0\0"),
        Batch(GROUP, ANA, 1, 1, [b"a"], [1], None, 0.0, [ANA], b"\1"),
        Batch(GROUP, ANA, 1, 1, [b"a"], [1], None, 0.0, [], b"\0"),
        Batch(GROUP, ANA, 1, 1, [b"a"], [1], None, 0.0, [ANA], b""),
        Batch(GROUP, ANA, 1, 1, [b"a"], None, None, 0.0, [ANA], b"", {1: [(0, 1)]}),
        Batch(GROUP, ANA, 1, 1, [b"a"], [0], None, 0.0, [ANA], b"\0", {2: [(0, 1)]}),
        Batch(GROUP, ANA, 1, 1, [b"a"], [0], None, 0.0, [ANA], b"\0", {1: [(1, 1)]}),
        Fragment(GROUP, ANA, 1, 1, 5, 5, b"x"),
    ],
)
def test_a_frame_that_contradicts_itself_is_refused(batch: Frame) -> None:
    """A later stage would index past an end."""
    with pytest.raises(BadFrame):
        codec.decode(codec.encode(batch))


def test_an_answer_costs_few_bytes() -> None:
    """A datagram would hold half as many messages as soon as they answer each other."""
    plain = codec.encode(Batch.compose(GROUP, ANA, 1, 1, [b"x"] * 64))
    answers = codec.encode(Batch.compose(GROUP, ANA, 1, 1, [b"x"] * 64, [MessageId(BOB, 100 + at) for at in range(64)]))
    assert len(answers) - len(plain) < 64 * 4 + 20


def test_unknown_fields_of_a_later_minor_version_do_no_harm() -> None:
    """A field added at the end would split the group."""
    longer = [*msgspec.msgpack.decode(codec.encode(Digest(GROUP, ANA, 1, [1, 2]))[1:]), "something new"]
    assert codec.decode(bytes([codec.VERSION]) + msgspec.msgpack.encode(longer)) == Digest(GROUP, ANA, 1, [1, 2])
