"""A group at rest: digests that say no more than that nothing is new, and what is still found out from them."""

from __future__ import annotations

import random

import pytest

from antiphon.model import codec
from antiphon.model.frames import Batch, Digest, Nack
from antiphon.model.ids import GroupId, MemberId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint
from antiphon.sim.network import NetworkModel
from antiphon.sim.view_world import ViewWorld
from antiphon.testing import pair

ANA, BOB, CLEO = (MemberId(name) for name in ("ana#1", "bob#2", "cleo#3"))
GROUP = GroupId("g#0")
VIEW = View(1, (ANA, BOB, CLEO))


def member(me: MemberId = ANA, settings: Settings | None = None, view: View = VIEW, **options: object) -> Endpoint:
    return Endpoint(me, GROUP, view, GroupOptions(**options), rng=random.Random(0), settings=settings)  # type: ignore[arg-type]


def digests(endpoint: Endpoint, seconds: float) -> list[Digest]:
    """What the endpoint says while so much time passes."""
    said: list[Digest] = []
    end = endpoint.context.now + seconds
    while endpoint.deadline is not None and endpoint.deadline <= end:
        now = endpoint.deadline
        endpoint.tick(now)
        said += [frame for _, wire in endpoint.drain(now).sends if isinstance(frame := codec.decode(wire), Digest)]
    return said


@pytest.mark.parametrize("size", [3, 300])
def test_who_has_nothing_new_to_say_says_it_in_a_few_bytes(size: int) -> None:
    """In a group of three hundred a silence would cost as much as a conversation."""
    view = View(1, tuple(MemberId(f"m{number}#1") for number in range(size)))
    ana = member(view.members[0], view=view, order="total")
    said = digests(ana, 10.0)
    assert len(said) > 5
    assert {len(codec.encode(digest)) for digest in said} <= set(range(20, 40))
    ana.submit(10.0, b"x")
    ana.drain(10.0)
    first, *rest = digests(ana, 5.0)
    assert len(first.have) == 2 * size
    assert all(digest.have == [] and digest.check == codec.checksum([1] + [0] * (size - 1) + [1] + [0] * (size - 1)) for digest in rest)


def test_a_short_digest_of_somebody_level_is_an_acknowledgement() -> None:
    """The one digest that told it was lost: the sender would keep the message, and its credit, until something else happens."""
    ana = member()
    ana.submit(0.0, b"x")
    ana.drain(0.0)
    for speaker in (BOB, CLEO):
        ana.receive(0.1, speaker, codec.encode(Digest(GROUP, speaker, 1, [], check=codec.checksum([1, 0, 0]))))
    assert ana.stats()["lag_by_member"] == {BOB: 0, CLEO: 0}
    assert [codec.kind_of(wire) for _, wire in ana.drain(0.1).sends] == []


def test_what_a_checksum_stands_for_is_asked_of_its_sender_alone() -> None:
    """Everybody would be asked, or nobody, and the last message before a silence stay lost."""
    ana, bob = member(ANA), member(BOB)
    bob.submit(0.0, b"the last before a silence, lost on its way")
    bob.drain(0.0)
    *_, short = digests(bob, 2.0)
    assert short.have == []
    ana.receive(2.0, BOB, codec.encode(short))
    ((to, wire),) = ana.drain(2.0).sends
    nack = codec.decode(wire)
    assert to == (BOB,)
    assert isinstance(nack, Nack)
    assert nack.wants == nack.parts == []
    bob.receive(2.0, ANA, wire)
    bob.receive(2.0, ANA, wire)
    ((to, wire),) = bob.drain(2.0).sends
    assert to == (ANA,)
    assert codec.decode(wire) == Digest(GROUP, BOB, 1, [0, 1, 0])
    ana.receive(2.0, BOB, wire)
    ana.receive(2.1, BOB, codec.encode(short))
    asked = [codec.decode(wire) for _, wire in ana.drain(2.1).sends]
    ana.tick(2.2)
    asked += [codec.decode(wire) for _, wire in ana.drain(2.2).sends]
    assert [frame.wants for frame in asked if isinstance(frame, Nack)] == [[(1, 1, 1, 0)]]


def test_an_old_short_digest_takes_nothing_back() -> None:
    """Frames overtake each other: a member would seem to have forgotten what it had."""
    ana = member()
    old = codec.encode(Digest(GROUP, BOB, 1, [], check=codec.checksum([0, 0, 0])))
    ana.receive(0.0, BOB, codec.encode(Batch(GROUP, BOB, 1, 1, (b"x",))))
    ana.submit(0.0, b"y")
    ana.drain(0.0)
    ana.receive(0.0, BOB, codec.encode(Digest(GROUP, BOB, 1, [1, 1, 0])))
    ana.receive(0.0, BOB, old)
    assert ana.stats()["lag_by_member"] == {BOB: 0, CLEO: 1}


def test_who_has_a_gap_goes_on_telling_what_it_knows() -> None:
    """b has the second message of one that died, and c nothing: c would never hear of it."""
    ana = member()
    ana.receive(0.0, BOB, codec.encode(Batch(GROUP, BOB, 1, 2, (b"x",))))
    ana.drain(0.0)
    said = digests(ana, 5.0)
    assert said
    assert all((digest.have, digest.tops) == ([0, 0, 0], [0, 2, 0]) for digest in said)


@pytest.mark.parametrize("kind", ["data", "record", "digest"])
@pytest.mark.parametrize("order", ["fifo", "total"])
def test_the_last_message_before_a_silence_is_found(order: str, kind: str) -> None:
    """Everybody has it but one, nobody speaks any more, and the digests that told of it are lost too."""
    group = pair(order, names=("a", "b", "c"))
    group.wait(2.0)
    group.rule("drop digest first 12")
    if kind != "digest":
        group.rule(f"drop {kind} to c first 1")
    group.send("a", b"the last one")
    group.wait(10.0)
    assert [group.payloads(name) for name in "abc"] == [[b"the last one"]] * 3
    assert group.endpoint["a"].credit == group.options.window
    assert group.endpoint["a"].stats()["kept_frames"] == 0


def test_a_group_at_rest_costs_the_same_per_member_whatever_its_size() -> None:
    """An idle group of a hundred would use a hundred times the bytes of one of ten, per pair of members."""
    sizes: dict[int, set[int]] = {}
    for count in (10, 60):
        names = tuple(f"m{number:02}" for number in range(count))
        world = ViewWorld(seed=3, members=names, options=GroupOptions(order="total"), network=NetworkModel(loss=0.1))
        world.run(0.5)
        world.send("m00", b"once")
        world.run(20.0)
        lengths: set[int] = set()
        for name in names:
            endpoint = world.endpoint(name)
            drain = endpoint.drain

            def watched(now: float, drain=drain, lengths=lengths):  # type: ignore[no-untyped-def]
                effects = drain(now)
                lengths |= {len(wire) for _, wire in effects.sends}
                return effects

            endpoint.drain = watched  # type: ignore[method-assign]
        world.run(5.0)
        sizes[count] = lengths
    assert sizes[10] == sizes[60]
    assert max(sizes[60]) < 80
