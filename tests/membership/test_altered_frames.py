"""Groups without a key, after altered copies of their frames came under their members' addresses.

Meanwhile anything may be lost, forged or delivered in another order, and a member may be put out. Afterwards the group must recover by
itself: what is sent from then on is delivered by all members, in the order that is promised.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from antiphon.errors import NoQuorum, UsageError, WouldBlock
from antiphon.model import codec
from antiphon.model.control import Install, Join, Propose, Relay
from antiphon.model.frames import Batch, Digest, Record
from antiphon.model.ids import Address, MemberId, MessageId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import TAG_BITS
from antiphon.sim.alterer import FrameAlterer
from antiphon.sim.log import Delivered

NODES = "abcd"
FRAMES = 3_000
LIMIT_S = 120.0


def talk(world: Any) -> list[MessageId]:
    """Every member that can sends one message."""
    sent = []
    for name in NODES:
        try:
            sent.append(world.send(name, b"message"))
        except (WouldBlock, NoQuorum, UsageError):
            continue
    return sent


def disturb(world: Any, seed: int, frames: int = FRAMES, copies: int = 2) -> None:
    """Lets members talk while altered copies of each frame arrive at each receiver."""
    rng = random.Random(f"{seed}/altered")
    alterer, cast, thrown = FrameAlterer(rng), world._carrier.cast, 0

    def cast_altered(source: Address, destinations: Any, wire: bytes) -> None:
        nonlocal thrown
        destinations = list(destinations)
        cast(source, destinations, wire)
        for to in [to for to in destinations if to in world.names] * copies:
            if thrown < frames:
                thrown += 1
                altered = alterer.alter(wire)
                world.at(world.now + rng.uniform(0.0, 0.05), lambda to=to, altered=altered: world._process(to).arrive(source, altered))

    world._carrier.cast = cast_altered
    limit = world.now + LIMIT_S
    while thrown < frames and world.now < limit:
        talk(world)
        world.run(0.02)
    assert thrown == frames
    world._carrier.cast = cast
    world.run(0.1)


def delivered(world: Any, name: str, sent: list[MessageId], since: float) -> list[MessageId]:
    """What a member delivered of these since then: before, a forged message may have had the number of one of them."""
    events = [event for event in world.log_of(name).events if type(event) is Delivered and event.at >= since]
    return [event.id for event in events if event.id in sent]


def are_together(world: Any, members: list[str]) -> bool:
    """Whether these are all in one view, which is stable."""
    return len({world.view_of(name) for name in members}) == 1 and all(world.member(name).stable for name in members)


def recovers(world: Any, order: str) -> bool:
    """Whether, within a bounded time, all members are in one view and deliver what each of them sends, in the order of the group."""
    limit = world.now + LIMIT_S
    while world.now < limit:
        since, sent = world.now, talk(world)
        world.run(2.0)
        members = [name for name in NODES if world.is_member(name)]
        streams = [delivered(world, name, sent, since) for name in members]
        alike = all(stream == streams[0] if order == "total" else sorted(stream) == sorted(streams[0]) for stream in streams)
        if alike and sorted(streams[0]) == sorted(sent) and len(sent) == len(members) and are_together(world, members):
            return True
    return False


@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("multicast", ["reliable", "flood", "tree"])
@pytest.mark.parametrize("order", ["unordered", "fifo", "causal", "total", "semantic"])
def test_a_group_recovers_from_altered_frames(company: Any, order: str, multicast: str, seed: int) -> None:
    """A faulty network card, or a stranger, would bring a group to a standstill that lasts after the last altered frame."""
    world = company(NODES, seed, settings=Settings())
    assert world.gather(options=GroupOptions(order=order, multicast=multicast))
    disturb(world, seed)
    judge(world, order)


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("multicast", ["reliable", "flood", "tree"])
@pytest.mark.parametrize("order", ["fifo", "total", "semantic"])
def test_a_group_recovers_when_nearly_all_frames_are_altered(company: Any, order: str, multicast: str, seed: int) -> None:
    """Members would wait for ever for messages that all who had them have forgotten, because of digests that were forged."""
    world = company(NODES, seed, settings=Settings())
    assert world.gather(options=GroupOptions(order=order, multicast=multicast))
    disturb(world, seed, frames=20_000, copies=20)
    judge(world, order)


def judge(world: Any, order: str) -> None:
    """After the last altered frame: the group recovers, and keeps the promises of its order for what is sent from then on."""
    assert sum(world.is_member(name) for name in NODES) >= 2
    world.run(6 * Settings().suspect_s)  # or it might seem to have recovered before it has noticed anything
    assert recovers(world, order)
    since = world.now
    sent = [message for _ in range(20) for message in talk(world)]
    world.run(30.0)
    members = [name for name in NODES if world.is_member(name)]
    streams = [delivered(world, name, sent, since) for name in members]
    assert all(sorted(stream) == sorted(sent) for stream in streams)
    for stream in streams if order in ("fifo", "causal", "total") else ():
        for sender in {message.sender for message in sent}:
            assert [message for message in stream if message.sender == sender] == sorted(m for m in sent if m.sender == sender)
    assert order != "total" or all(stream == streams[0] for stream in streams)


def views_after(world: Any, wire: bytes, to: str, source: str, seconds: float) -> int:
    """How many views are made after one frame came."""
    before = world.view_of("a").id
    world._process(to).arrive(Address(source), wire)
    world.run(seconds)
    after = {world.view_of(name) for name in NODES}
    assert len(after) == 1
    return (after.pop().id >> 32) - (before >> 32)


@pytest.mark.parametrize("claim", ["message", "position of another", "record"])
def test_one_false_claim_costs_one_view(company: Any, claim: str) -> None:
    """A claim that nobody can fulfil would be asked for without end, or cost view after view."""
    world = company(NODES, 3, settings=Settings())
    assert world.gather(options=GroupOptions(order="total"))
    talk(world)
    world.run(1.0)
    group, a, b, view = world.member("a").group, world.id_of("a"), world.id_of("b"), world.view_of("a").id
    wire = {
        "message": codec.encode(Batch.compose(group, b, view, 40, [b"forged"])),
        "position of another": codec.encode(Digest(group, b, view, [1, 1, 30, 1, 4, 0, 0, 0])),
        "record": codec.encode(Record(group, a, view, 5, 5, [1, 40, 40])),
    }[claim]
    assert views_after(world, wire, "c", "a" if claim == "record" else "b", 60.0) == 1
    assert recovers(world, "total")


def test_a_relayed_frame_in_ones_own_name_is_dropped(company: Any) -> None:
    """A member would hear itself, miss itself soon after, ask others for a way around, and where nobody has one take itself for dead."""
    world = company(NODES, 3, settings=Settings())
    assert world.gather()
    group, b, view = world.member("b").group, world.id_of("b"), world.view_of("b")
    digest = codec.encode(Digest(group, b, view.id, [0, 0, 0, 0]))
    world._process("b").arrive(Address("a"), codec.encode(Relay(Address("b"), Address("b"), 4, digest)))
    world.run(6 * Settings().suspect_s)
    assert world.id_of("b") not in world.member("b").detector.heard
    assert not world.node("b").routes.through
    assert {world.view_of(name) for name in NODES} == {view}


def test_a_view_that_puts_a_member_elsewhere_is_not_installed(company: Any) -> None:
    """A member whose own address is another in its view could not propose a view to itself, and so never make one again."""
    world = company(NODES, 3, settings=Settings())
    assert world.gather()
    cast, forged = world._carrier.cast, 0

    def cast_altered(source: Address, destinations: Any, wire: bytes) -> None:
        nonlocal forged
        destinations = list(destinations)
        frame = codec.decode(wire)
        if isinstance(frame, Install) and "b" in destinations and not forged:
            forged += 1
            seats = tuple((member, Address("z") if at == "b" else at) for member, at in frame.seats)
            cast(source, ["b"], codec.encode(msgspec.structs.replace(frame, seats=seats)))
            destinations.remove("b")
        cast(source, destinations, wire)

    world._carrier.cast = cast_altered
    world.leave("a")
    assert world.wait_for(lambda: world.seen("b") == "bcd", LIMIT_S)
    assert forged
    assert world.member("b").port.address_by_member[world.id_of("b")] == "b"
    assert world.settle(LIMIT_S)


@pytest.mark.parametrize(("target", "proposer"), [("d", "a"), ("a", "b"), ("a", "a")])
def test_a_promise_that_nobody_can_exceed_is_given_up(company: Any, target: str, proposer: str) -> None:
    """A member that has promised a forged ballot would refuse every view, and the others would not believe the ballot that it names."""
    world = company(NODES, 3, settings=Settings())
    assert world.gather()
    for ahead in (1 << 24, 1 << 25):
        view = world.view_of(target)
        seats = tuple((world.id_of(name), Address(name)) for name in NODES)
        ballot = view.id + (ahead << TAG_BITS)
        forged = Propose(world.member(target).group, world.id_of(proposer), ballot, view.id, seats, (), b"")
        world._process(target).arrive(Address(proposer), codec.encode(forged))
        world.run(0.01)
    assert world.member(target).agreement.promised == ballot
    assert world.wait_for(lambda: all(world.member(name).settled for name in NODES), LIMIT_S)
    assert recovers(world, "fifo")


def test_a_wish_that_was_passed_on_is_not_passed_on_again(company: Any) -> None:
    """Two members that each take the other for the coordinator would pass it back and forth without end."""
    world = company(NODES, 3, settings=Settings())
    assert world.gather()
    member = world.member("c")
    wish = codec.encode(Join(member.group, MemberId("z#0000000000000001"), Address("z"), member.port.options))

    def passed_on() -> int:
        return sum(count for (source, _, kind), count in world.frames.items() if source == "c" and kind == "join")

    before = passed_on()
    world._process("c").arrive(Address("d"), wish)
    world.run(1.0)
    assert passed_on() == before
    world._process("c").arrive(Address("z"), wish)
    world.run(1.0)
    assert passed_on() == before + 1


def test_a_group_at_rest_and_one_under_load_make_no_views(company: Any) -> None:
    """The check would put a sound group through view changes."""
    world = company(NODES, 3, settings=Settings())
    assert world.gather(options=GroupOptions(order="total"))
    view = world.view_of("a")
    for _ in range(300):
        talk(world)
        world.run(0.1)
    world.run(60.0)
    assert {world.view_of(name) for name in NODES} == {view}


@pytest.mark.parametrize("order", ["fifo", "causal", "total"])
@pytest.mark.parametrize("name", ["a", "c"])
def test_a_reader_that_pauses_is_no_inconsistency(company: Any, order: str, name: str) -> None:
    """Flow control would be undone by views that hand a paused reader whatever waits."""
    world = company(NODES, 3, settings=Settings())
    assert world.gather(options=GroupOptions(order=order, window=64))
    view = world.view_of("a")
    world.pause_reader(name)
    for _ in range(600):
        talk(world)
        world.run(0.1)
    assert {world.view_of(each) for each in NODES} == {view}
    world.resume_reader(name)
    assert world.settle(30.0)
    assert world.check() == []
