"""The application's state instead of the past: consistent with the stream of messages, whoever dies on the way."""

from __future__ import annotations

import random
from typing import Any

import pytest

from antiphon.errors import InvalidOption
from antiphon.model import codec
from antiphon.model.control import AskState, StatePiece, Wants
from antiphon.model.events import StateWanted
from antiphon.model.ids import GroupId, MemberId

GROUP = GroupId("trip#1")


def group(bus: Any, *providers: str, **settings: object) -> Any:
    """A, B and C with some messages; N comes and wants the state."""
    bus.add("A", "B", "C", "N", **settings)
    for name in providers:
        bus.members[name].state = b""
    bus.members["N"].wants = Wants("state")
    bus.install("A", "B", "C")
    bus.send("A", 3)
    bus.send("B", 2)
    return bus.members["N"]


@pytest.mark.parametrize("order", ["fifo", "total"])
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_the_state_stands_for_what_was_delivered_before(make_bus: Any, order: str, loss: float) -> None:
    """A newcomer would apply a message twice that is in its state already, or never one that is not."""
    for seed in range(5):
        bus = make_bus(seed, order, loss=loss)
        newcomer = group(bus, "A", "B", "C")
        bus.install("A", "B", "C", "N")
        bus.send("A")
        bus.run(0.1)
        bus.send("B")
        bus.until("N", seconds=300)
        bus.send("C")
        assert len(newcomer.states) == 1
        in_state = newcomer.states[0].decode().split()
        assert sorted(in_state + newcomer.delivered) == ["A1", "A2", "A3", "A4", "B1", "B2", "B3", "C1"]
        assert newcomer.history.have() == bus.members["A"].history.have()
        assert not newcomer.gaps


def test_the_places_after_a_state(make_bus: Any) -> None:
    """In total order a newcomer would count the places of its first view from its state on, and tell others wrong ones."""
    bus = make_bus(1, "total")
    newcomer = group(bus, "A", "B", "C")
    bus.install("A", "B", "C", "N")
    bus.send("A", 3)
    bus.until("N")
    bus.send("B", 2)
    bus.install("A", "B")
    bus.install("C", "N")
    assert newcomer.history.outcomes()[-1] == (2, 4, 5)
    assert bus.members["C"].history.outcomes()[-1] == (2, 4, 5)


def test_a_large_state_in_pieces(make_bus: Any) -> None:
    """A state larger than a frame would not arrive, or not in order."""
    bus = make_bus(1, loss=0.2, delay=(0.001, 0.05))
    newcomer = group(bus, frame_bytes=1_400)
    state = random.Random(1).randbytes(300_000)
    for name in "ABC":
        bus.members[name].state = state
    bus.install("A", "B", "C", "N")
    bus.until("N", seconds=300)
    assert newcomer.states == [state]
    assert newcomer.delivered == []
    assert bus.largest <= 1_400


def test_the_provider_dies_in_the_middle(make_bus: Any) -> None:
    """A newcomer would wait for the dead, or put the halves of two states together."""
    for seed in range(6):
        bus = make_bus(seed)
        newcomer = group(bus, frame_bytes=1_400)
        for name in "ABC":
            bus.members[name].state = name.encode() * 200_000
        bus.install("A", "B", "C", "N")
        while not newcomer.snapshot._pieces:
            bus.run(0.002)
        provider = newcomer.snapshot._provider
        bus.members[provider].alive = False
        bus.until("N", seconds=300)
        assert newcomer.states in [[name.encode() * 200_000] for name in "ABC" if name != provider]


def test_the_next_view_comes_in_the_middle(make_bus: Any) -> None:
    """A state would be asked for in a view that is over; or be given twice."""
    bus = make_bus(2)
    newcomer = group(bus, "A", "B", "C")
    bus.install("A", "B", "C", "N")
    bus.run(0.0)
    bus.install("A", "B", "N")
    bus.until("N")
    bus.install("A", "N")
    bus.until("N")
    assert len(newcomer.states) == 1
    assert newcomer.done == 1


def test_some_give_no_state(make_bus: Any) -> None:
    """One application that never answers would keep all newcomers out."""
    for seed in range(6):
        bus = make_bus(seed)
        newcomer = group(bus, "B")
        bus.install("A", "B", "C", "N")
        bus.until("N", seconds=60)
        assert [state.decode() for state in newcomer.states] == ["A1 A2 A3 B1 B2"]


def test_nobody_gives_a_state(make_bus: Any) -> None:
    """A newcomer would have neither state nor messages."""
    bus = make_bus(3)
    newcomer = group(bus)
    bus.install("A", "B", "C", "N")
    bus.until("N", seconds=60)
    assert newcomer.states == []
    assert newcomer.delivered == bus.members["A"].ids()


def test_an_application_that_has_none_says_so(make_bus: Any) -> None:
    """Everybody would wait for an answer that will not come."""
    bus = make_bus(4)
    newcomer = group(bus)
    bus.install("A", "B", "C", "N")
    bus.provide = lambda: [
        (member.port.events.remove(event), member.snapshot.provide(event.snapshot, None))
        for member in bus.members.values()
        for event in list(member.port.events)
        if isinstance(event, StateWanted)
    ]
    bus.until("N", seconds=3)
    assert newcomer.delivered == bus.members["A"].ids()


def test_who_is_catching_up_gives_no_state_yet(make_bus: Any) -> None:
    """A newcomer would be given the state of another newcomer that has none, or of a side that lacks what the other sent."""
    for seed in range(6):
        bus = make_bus(seed)
        bus.add("A", "B", "N", "M")
        for name in "ABNM":
            bus.members[name].state = b""
        bus.install("A")
        bus.install("B")
        bus.send("A", 3)
        bus.send("B", 3)
        bus.members["N"].wants = bus.members["M"].wants = Wants("state")
        bus.install("A", "B", "N")
        bus.install("A", "B", "N", "M")
        bus.until("A", "B", "N", "M")
        for name in "NM":
            assert [sorted(state.split()) for state in bus.members[name].states] == [[b"A1", b"A2", b"A3", b"B1", b"B2", b"B3"]]


def test_newcomers_share_a_snapshot(make_bus: Any) -> None:
    """An application would be asked for the same state once for every newcomer."""
    bus = make_bus(5)
    bus.add("A", "N", "M", "L")
    bus.members["A"].state = b""
    bus.install("A")
    bus.send("A", 3)
    for name in "NML":
        bus.members[name].wants = Wants("state")
    bus.install("A", "N", "M", "L")
    bus.until("N", "M", "L")
    assert all(bus.members[name].states == [b"A1 A2 A3"] for name in "NML")
    assert bus.members["A"].snapshot.provider.taken == 1


def test_snapshots_are_few_and_do_not_last(make_bus: Any) -> None:
    """Newcomers that come and go would fill a provider's memory with states."""
    bus = make_bus(6)
    bus.add("A", "B")
    bus.members["A"].state = b""
    view = bus.install("A", "B")
    provider = bus.members["A"]
    for number in range(1, 9):
        bus.send("A")
        provider.receive(codec.encode(AskState(GROUP, MemberId("B"), view.id, number, 0)))
        bus.run(0.01)
    assert len(provider.snapshot.provider._snapshots) == 4
    bus.run(100)
    assert not provider.snapshot.provider._snapshots


def test_a_place_is_free_when_its_snapshot_was_given(make_bus: Any) -> None:
    """The fifth newcomer within a minute would be told for a minute that the state is given to others, while it is given to nobody."""
    bus = make_bus(8)
    newcomers = [f"N{number}" for number in range(12)]
    bus.add("A", *newcomers)
    bus.members["A"].state = b""
    bus.install("A")
    for number, name in enumerate(newcomers):
        bus.send("A")
        bus.members[name].wants = Wants("state")
        bus.install("A")
        bus.install("A", name)
        bus.until(name, seconds=10)
        assert bus.members[name].states == [" ".join(f"A{seqno}" for seqno in range(1, number + 2)).encode()]
        assert len(bus.members["A"].snapshot.provider._snapshots) <= 4


def test_askers_that_have_left_hold_no_place(make_bus: Any) -> None:
    """Newcomers that die while a state is on its way to them would keep others away."""
    bus = make_bus(9)
    asking = [f"N{number}" for number in range(4)]
    bus.add("A", "M", *asking)
    bus.members["A"].state = bytes(4_000_000)
    bus.install("A")
    view = bus.install("A", "M", *asking)
    provider = bus.members["A"]

    def ask(name: str) -> set[int]:
        bus.send("A")
        provider.receive(codec.encode(AskState(GROUP, MemberId(name), view.id, 1, 0)))
        bus.provide()
        return set(provider.snapshot.provider._snapshots)

    places = set.union(*map(ask, asking))
    assert len(places) == 4
    assert ask("M") == places
    view = bus.install("A", "M", "N0", "N1", "N3")
    bus.run(1.0)
    assert ask("M") == places - {3} | {5}


def test_a_snapshot_that_is_still_asked_for_keeps_its_place(make_bus: Any) -> None:
    """A newcomer that lacks its last piece would be told that the snapshot is forgotten, because another came."""
    bus = make_bus(10)
    asking = [f"N{number}" for number in range(4)]
    bus.add("A", "M", *asking)
    bus.members["A"].state = b""
    view = bus.install("A", "M", *asking)
    provider = bus.members["A"]

    def ask(name: str, snapshot: int = 0) -> None:
        provider.port.now = bus.now
        provider.receive(codec.encode(AskState(GROUP, MemberId(name), view.id, 1, snapshot)))
        bus.provide()

    for name in asking:
        bus.send("A")
        ask(name)
    places = dict(zip(asking, provider.snapshot.provider._snapshots, strict=True))
    bus.send("A")
    for _ in range(10):
        for name in asking:
            ask(name, places[name])
        ask("M")
        assert set(provider.snapshot.provider._snapshots) == set(places.values())
        bus.run(0.25)
    bus.run(0.25)
    for name in asking[1:]:
        ask(name, places[name])
    ask("M")
    assert places["N0"] not in provider.snapshot.provider._snapshots
    assert provider.snapshot.provider.taken == 5


def test_a_state_that_is_too_large_is_refused(make_bus: Any) -> None:
    """A provider would promise what no newcomer takes."""
    bus = make_bus(7)
    group(bus, state_bytes=100)
    with pytest.raises(InvalidOption, match="state_bytes"):
        bus.members["A"].snapshot.provide(1, bytes(101))
    bus.members["A"].snapshot.provide(77, b"for nobody")


@pytest.mark.parametrize("seed", range(10))
def test_nonsense_is_dropped(make_bus: Any, seed: int) -> None:
    """A provider with a fault would stop the newcomer that it serves."""
    rng = random.Random(seed)
    bus = make_bus(seed)
    newcomer = group(bus, "A", "B", "C", state_bytes=2_000)
    bus.install("A", "B", "C", "N")
    for _ in range(200):
        bus.run(0.01)
        provider = newcomer.snapshot._provider or MemberId("A")
        piece = StatePiece(
            *(GROUP, provider, 2, newcomer.snapshot._number or 1, rng.choice([0, 1, 7])),
            *(rng.choice([0, 0, 1, 9]), rng.choice([0, 1, 1, 2, 1 << 60]), rng.choice([0, 1, 5]), rng.randbytes(rng.choice([0, 3, 900]))),
        )
        newcomer.receive(codec.encode(piece))
        ask = AskState(GROUP, MemberId("N"), 2, rng.randint(1, 9), rng.choice([0, 1, 9]), (rng.choice([0, 5, 1 << 60]),))
        bus.members["A"].receive(codec.encode(ask))
    bus.until("N", seconds=120)
