"""Many messages at once: the same as one after the other, only faster."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.errors import InvalidOption, TooLarge, WouldBlock
from antiphon.model import codec
from antiphon.model.frames import Digest
from antiphon.model.ids import Address, GroupId, MemberId, MessageId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint
from antiphon.protocol.node import NodeCore

ANA, BOB = MemberId("ana#1"), MemberId("bob#2")
GROUP = GroupId("g#0")
LIMIT = 2_000
ORDERS = ("unordered", "fifo", "causal", "total", "semantic")


def endpoint(order: str = "fifo", window: int = 64, members: tuple[MemberId, ...] = (ANA, BOB), **chosen: int) -> Endpoint:
    tight = Settings(**({"frame_bytes": 400, "batch_messages": 7, "message_bytes": LIMIT, "window_bytes": 3_000} | chosen))  # type: ignore[arg-type]
    options = GroupOptions(order=order, window=window)
    return Endpoint(ANA, GROUP, View(1, members), options, rng=random.Random(1), settings=tight)


def one_by_one(member: Endpoint, payloads: Sequence[bytes]) -> int:
    """What `submit_many` promises to be the same as."""
    for payload in payloads:
        member._check_payload(payload)
    accepted = 0
    for payload in payloads:
        try:
            member.submit(0.0, payload)
        except WouldBlock:
            if not accepted:
                raise
            break
        accepted += 1
    return accepted


PAYLOAD = st.binary(max_size=3).map(lambda seed: seed * (37 * len(seed)) if len(seed) > 1 else seed) | st.sampled_from(
    (b"", b"x" * 282, b"x" * 283, b"x" * 284, b"x" * 900, b"y" * LIMIT)
)
STEP = st.one_of(
    st.lists(PAYLOAD, max_size=30),
    st.lists(PAYLOAD | st.sampled_from((b"z" * (LIMIT + 1), bytearray(b"no"), "text")), max_size=6).map(tuple),
    st.tuples(st.just("answer"), PAYLOAD),
    st.sampled_from(("drain", "acknowledge", "hold", "release", "freeze")),
)


def play(member: Endpoint, steps: Sequence[object], many: bool) -> list[object]:
    """Everything that can be seen of a member while it lives through `steps`."""
    seen: list[object] = []
    for step in steps:
        try:
            if isinstance(step, str):
                if step == "acknowledge":
                    member.receive(0.0, BOB, _digest(member))
                elif step == "drain":
                    seen.append(member.drain(0.0))
                elif step == "hold" and not member.context.flushing:
                    member.hold(0.0)
                elif step == "release":
                    member.release(0.0)
                elif step == "freeze":
                    member.pause(0.0)
            elif isinstance(step, tuple) and step and step[0] == "answer":
                parent = MessageId(ANA, member.sent) if member.sent else None
                seen.append(member.submit(0.0, step[1], parent))
            else:
                payloads: Sequence[bytes] = step  # type: ignore[assignment]
                seen.append(member.submit_many(0.0, payloads) if many else one_by_one(member, payloads))
        except (WouldBlock, InvalidOption, TooLarge) as refusal:
            seen.append((type(refusal), str(refusal)))
        seen.append((member.sent, member.unsent, member.credit, member.stats()))
    seen.append(member.drain(0.0))
    return seen


def _digest(member: Endpoint) -> bytes:
    """What BOB says when it has everything."""
    have = [stream.high for stream in getattr(member.multicast, "streams", ())]
    return codec.encode(Digest(GROUP, BOB, 1, have))


@pytest.mark.parametrize("order", ORDERS)
@given(steps=st.lists(STEP, max_size=8), window=st.sampled_from((1, 5, 64)))
@settings(max_examples=120, deadline=None)
def test_many_at_once_are_the_same_as_one_after_the_other(order: str, steps: list[object], window: int) -> None:
    """A program that sends lists would get other numbers, other frames or another limit than one that sends message by message."""
    assert play(endpoint(order, window), steps, True) == play(endpoint(order, window), steps, False)


@pytest.mark.parametrize("bad", [b"x" * (LIMIT + 1), bytearray(b"x"), "x", 7, None])
def test_one_that_cannot_be_sent_refuses_them_all(bad: object) -> None:
    """Half of a list would be sent, and its sender could not tell which half."""
    member = endpoint()
    with pytest.raises((InvalidOption, TooLarge)):
        member.submit_many(0.0, [b"fine", bad, b"fine"])  # type: ignore[list-item]
    assert member.sent == 0
    assert not member.drain(0.0).sends
    assert member.submit_many(0.0, []) == 0


def test_a_list_takes_what_credit_there_is_and_says_when_there_is_more() -> None:
    """A sender of lists would overrun a slow member, or never hear that it may go on."""
    member = endpoint(window=10, frame_bytes=60_000, batch_messages=1_024)
    assert member.submit_many(0.0, [b"x"] * 25) == 10
    with pytest.raises(WouldBlock):
        member.submit_many(0.0, [b"x"])
    assert member.credit == 0
    member.drain(0.0)
    member.receive(0.1, BOB, _digest(member))
    assert [type(event).__name__ for event in member.drain(0.1).events] == ["Writable"]
    assert member.submit_many(0.1, iter([b"x"] * 3)) == 3  # type: ignore[arg-type]


def test_the_numbers_of_a_list_are_the_last_ones_of_the_node() -> None:
    """An application could not name the messages it has just sent, so nobody could answer them."""
    core = NodeCore("ana", Address("a"), rng=random.Random(3))
    group = core.create(0.0, "trip")
    core.submit(0.0, group, b"before")
    assert core.submit_many(0.0, group, [b"one", b"two", b"three"]) == 3
    last = core.last_sent(group)
    assert last == MessageId(core.memberships[group].me, 4)
    deliveries = [event for _, event in core.drain(0.0).events if type(event) is tuple]
    assert [batch.payload(seqno) for batch, low, high in deliveries for seqno in range(low, high + 1)][last.seqno - 3 :] == [
        b"one",
        b"two",
        b"three",
    ]
