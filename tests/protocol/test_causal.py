"""Causal order: what its header costs, and the batch that closes when something is delivered."""

from __future__ import annotations

import random

from antiphon.model import codec
from antiphon.model.frames import Batch
from antiphon.model.ids import GroupId, MemberId
from antiphon.model.options import GroupOptions
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint

GROUP = GroupId("g#0")


def members(count: int) -> dict[MemberId, Endpoint]:
    view = View(1, tuple(MemberId(f"m{number:04}#{number:016x}") for number in range(count)))
    return {member: Endpoint(member, GROUP, view, GroupOptions(order="causal"), rng=random.Random(member)) for member in view.members}


def say(group: dict[MemberId, Endpoint], sender: MemberId, payload: bytes = b"x") -> Batch:
    """The sender says something and everyone hears it."""
    group[sender].submit(0.0, payload)
    (batch,) = (frame for _, wire in group[sender].drain(0.0).sends if isinstance(frame := codec.decode(wire), Batch))
    for member, endpoint in group.items():
        if member != sender:
            endpoint.receive(0.0, sender, codec.encode(batch))
            endpoint.drain(0.0)
    return batch


def test_the_header_of_a_lone_talker_does_not_grow_with_the_group() -> None:
    """In a group of two hundred every small message would carry two hundred numbers."""
    sizes = {}
    for count in (2, 20, 200):
        group = members(count)
        talker = next(iter(group))
        sizes[count] = [len(codec.encode(say(group, talker))) for _ in range(5)]
    assert sizes[2] == sizes[20] == sizes[200]


def test_only_what_changed_is_sent() -> None:
    """Who listens to one member would tell everyone about all the others, over and over."""
    group = members(50)
    names = list(group)
    for talker in names[1:]:
        say(group, talker)
    first, second = say(group, names[0]), say(group, names[0])
    assert isinstance(first.stamp, list)
    assert len(first.stamp) == 2 * 49
    assert second.stamp is None
    say(group, names[7])
    assert say(group, names[0]).stamp == [7, 2]


def test_a_delivery_closes_the_open_batch() -> None:
    """m1 sent before x was read and m2 after it would be one batch: m1 would claim to follow x, or m2 not to."""
    group = members(3)
    ana, bob, _ = group
    group[bob].submit(0.0, b"x")
    (x,) = (wire for _, wire in group[bob].drain(0.0).sends)
    group[ana].submit(0.0, b"m1")
    group[ana].receive(0.0, bob, x)
    group[ana].submit(0.0, b"m2")
    batches = [frame for _, wire in group[ana].drain(0.0).sends if isinstance(frame := codec.decode(wire), Batch)]
    assert [(batch.payloads, batch.stamp) for batch in batches] == [((b"m1",), None), ((b"m2",), [1, 1])]
