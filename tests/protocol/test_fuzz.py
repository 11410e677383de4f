"""Whatever arrives, `receive` counts it or uses it: it never raises, and what honest members say still gets through."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from antiphon.errors import InvalidOption
from antiphon.model import codec
from antiphon.model.codec import Frame
from antiphon.model.frames import Batch, Digest, Fragment, Nack, Record
from antiphon.model.ids import GroupId, MemberId, MessageId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint
from antiphon.protocol.registry import MULTICASTS, ORDERS, stages

ME, ANA, BOB, STRANGER = (MemberId(name) for name in ("me#0", "ana#1", "bob#2", "zed#9"))
GROUP = GroupId("g#0")
EXTREMES = (0, 1, 2, 3, 5, 7, 63, 64, 65, 255, 256, 2**31, 2**32, 2**62)


def possible(order: str, multicast: str) -> bool:
    try:
        stages(GroupOptions(order=order, multicast=multicast))
    except InvalidOption:
        return False
    return True


COMBINATIONS = [
    (order, multicast)
    for order in ("unordered", "fifo", "causal", "total", "semantic")
    for multicast in MULTICASTS
    if possible(order, multicast)
]


def some_frame(rng: random.Random) -> Frame:
    """Well-formed, from anyone, with numbers from anywhere."""

    def any_number() -> int:
        return rng.choice(EXTREMES)

    def any_name() -> MessageId | None:
        return rng.choice([None, MessageId(rng.choice((ME, ANA, BOB, STRANGER)), max(any_number(), 1))])

    who = rng.choice((ME, ANA, ANA, BOB, BOB, STRANGER))
    stamp = rng.choice((None, None, b"x", [], [0], [1], [0, 1], [1, any_number()], [any_number()] * 3, [-1, 5], [2, 1, 0, 1]))
    first = max(any_number(), 1)
    match rng.randrange(5):
        case 0:
            payloads = [b"p"] * rng.choice((1, 1, 2, 3, 70))
            parents = rng.choice((None, [any_name() for _ in payloads]))
            after = {
                first + at: [name for name in (any_name(), any_name()) if name]
                for at in range(len(payloads))
                if parents and rng.random() < 0.3
            }
            return Batch.compose(GROUP, who, 1, first, payloads, parents, stamp, 0.0, after)
        case 1:
            part = codec.encode(Batch(GROUP, who, 1, first, [b"q"]))[rng.choice((0, 3)) :]
            return Fragment(GROUP, who, 1, first, rng.choice((0, 1)), rng.choice((2, 3, 65_536)), part)
        case 2:
            return Record(
                GROUP, who, 1, first, max(any_number(), 1), stamp if rng.random() < 0.7 else [rng.randrange(4), first, max(any_number(), 1)]
            )
        case 3:
            return Digest(
                GROUP,
                who,
                1,
                [any_number() for _ in range(rng.choice((3, 3, 6, 6, 1)))],
                rng.choice((None, [any_number() for _ in range(3)])),
            )
        case _:
            wants = [(rng.choice((-1, 0, 1, 2, 3, 5, 99)), any_number(), any_number(), rng.choice((-1, 0, 1, 2**40))) for _ in range(3)]
            return Nack(GROUP, who, 1, wants, [(rng.randrange(4), first, [0, 1, -1, 99], 1)])


@pytest.mark.parametrize(("order", "multicast"), COMBINATIONS)
@pytest.mark.parametrize("delivery", ["agreed", "safe"])
def test_nothing_received_raises(order: str, multicast: str, delivery: str) -> None:
    """One strange datagram would stop the member."""
    if multicast == "besteffort":
        delivery = "agreed"
    for seed in range(40):
        rng = random.Random(f"{seed}/{order}/{multicast}")
        options = GroupOptions(order=order, multicast=multicast, delivery=delivery, window=64)
        settings = Settings(frame_bytes=300, waiting_messages=20, reassembly_bytes=400)
        member = Endpoint(ME, GROUP, View(1, (ANA, ME, BOB)), options, rng=rng, settings=settings)
        now = 0.0
        for _ in range(120):
            now += rng.choice((0.0, 0.01, 0.5))
            wire = codec.encode(some_frame(rng))
            if rng.random() < 0.3:
                at = rng.randrange(len(wire))
                wire = wire[:at] + bytes([rng.randrange(256)]) + wire[at + rng.randrange(3) :]
            member.receive(now, rng.choice((ANA, BOB, None)), wire)
            if rng.random() < 0.3:
                member.tick(now)
                if member.credit > 0:
                    member.submit(now, b"own" * rng.choice((1, 200)))
                member.drain(now)
            member.stats()
            member.why(MessageId(rng.choice((ME, ANA, BOB, STRANGER)), rng.choice(EXTREMES)))
        # Where bob's messages have a gap a view with him is refused, and one without him is not.
        with suppress(InvalidOption):
            member.install(now, View(2, (ME, BOB)))
        member.install(now, View(3, (ME,)))
        member.drain(now)


@pytest.mark.parametrize("order", sorted(ORDERS)[:5])
def test_an_outsider_cannot_speak_for_a_member(order: str) -> None:
    """Somebody who is not in the view would be heard, or this member would say things it never said."""
    member = Endpoint(ME, GROUP, View(1, (ME, ANA)), GroupOptions(order=order), rng=random.Random(0))
    member.receive(0.0, None, codec.encode(Batch(GROUP, STRANGER, 1, 1, [b"let me in"])))
    member.receive(0.0, None, codec.encode(Batch(GROUP, ME, 1, 1, [b"I never said that"])))
    member.receive(0.0, None, codec.encode(Batch(GroupId("other#1"), ANA, 1, 1, [b"wrong room"])))
    member.receive(0.0, None, codec.encode(Batch(GROUP, ANA, 7, 1, [b"wrong time"])))
    assert member.drain(0.0).events == []
    assert member.stats()["drops"] == {"not_a_member": 1, "other_group": 1, "other_view": 1, "own_frame": 1}
