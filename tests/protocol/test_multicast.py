"""The four multicasts: that each is what it says, by the frames it puts on every link."""

from __future__ import annotations

from collections import Counter

import pytest

from antiphon.model.ids import MessageId
from antiphon.model.options import GroupOptions, Settings
from antiphon.protocol.multicast.tree import children
from antiphon.sim.network import NetworkModel, Uniform
from antiphon.sim.view_world import ViewWorld

NAMES = tuple("abcdefgh")


def data_frames(
    multicast: str, order: str = "unordered", sender: str = "d", fanout: int = 2, kind: str = "data"
) -> Counter[tuple[str, str]]:
    """The frames of one message, per link, in a calm network."""
    world = ViewWorld(seed=1, members=NAMES, options=GroupOptions(order=order, multicast=multicast, fanout=fanout), network=NetworkModel())
    world.send(sender, b"hello")
    world.run(5.0)
    assert all(any(event.id == MessageId(world.id_of(sender), 1) for event in log.events if hasattr(event, "id")) for log in world.logs)
    return Counter({(source, to): count for (source, to, what), count in world.frames.items() if what == kind})


@pytest.mark.parametrize("multicast", ["besteffort", "reliable"])
def test_a_plain_multicast_is_one_frame_to_each_other_member(multicast: str) -> None:
    """Bandwidth would be spent on copies that nobody needs, or somebody would get none."""
    assert data_frames(multicast) == Counter({("d", name): 1 for name in NAMES if name != "d"})


def test_a_flood_is_sent_on_by_everyone_to_everyone_else() -> None:
    """A member that the sender cannot reach would wait for repair, which is what flood is there to avoid."""
    frames = data_frames("flood")
    assert all(count == 1 for count in frames.values())
    assert frames.total() == (len(NAMES) - 1) ** 2
    assert all(to != "d" for _, to in frames)


def test_a_tree_of_eight_with_sender_three() -> None:
    """The worked example: who sends to whom. Somebody would get the message twice, or never."""
    assert data_frames("tree") == Counter(
        {("d", "e"): 1, ("d", "f"): 1, ("e", "g"): 1, ("e", "h"): 1, ("f", "a"): 1, ("f", "b"): 1, ("g", "c"): 1}
    )


@pytest.mark.parametrize("fanout", [2, 3, 4])
def test_every_tree_reaches_every_member_exactly_once(fanout: int) -> None:
    """The rule in the source's figure leaves some members out; this one must not, whatever the size and the sender."""
    for members in range(1, 65):
        for root in range(members):
            reached = Counter([root])
            for member in range(members):
                below = children(member, root, members, fanout)
                assert len(below) <= fanout
                reached.update(below)
            assert reached == Counter(range(members)), f"{members} members, sender {root}"
            assert len(children(root, root, members, fanout)) == min(fanout, members - 1)


@pytest.mark.parametrize("fanout", [2, 3, 4])
def test_a_tree_costs_one_frame_per_other_member(fanout: int) -> None:
    """A tree would be no cheaper for its sender than telling everyone itself."""
    for sender in NAMES:
        frames = data_frames("tree", sender=sender, fanout=fanout)
        assert frames.total() == len(NAMES) - 1
        assert max(Counter(source for source, _ in frames.elements()).values()) <= fanout


@pytest.mark.parametrize("multicast", ["reliable", "flood", "tree"])
def test_records_travel_like_data(multicast: str) -> None:
    """The sequencer would be the one member that a tree does not relieve."""
    shapes = {kind: data_frames(multicast, order="total", sender="a", kind=kind) for kind in ("data", "record")}
    assert shapes["data"] == shapes["record"]


def test_a_flood_reaches_a_member_that_cannot_hear_the_sender() -> None:
    """It would have to wait until it learns from a digest what it missed."""
    arrivals = {}
    for multicast in ("reliable", "flood"):
        world = ViewWorld(seed=3, members=NAMES, options=GroupOptions(order="unordered", multicast=multicast), network=NetworkModel())
        world.cut("d", "h")
        world.send("d", b"hello")
        world.run(5.0)
        received = [event for event in world.logs[NAMES.index("h")].events if type(event).__name__ == "Received"]
        arrivals[multicast] = (received[0].at, world.frames["h", "d", "nack"])
    assert arrivals["flood"][0] < arrivals["reliable"][0]
    assert arrivals["flood"][1] == 0
    assert arrivals["reliable"][1] > 0


def test_an_inner_member_that_is_down_costs_its_subtree_nothing() -> None:
    """Half the group would miss what one crashed member should have sent on."""
    world = ViewWorld(seed=4, members=NAMES, options=GroupOptions(order="fifo", multicast="tree"), network=NetworkModel())
    world.crash("e")
    for _ in range(10):
        world.send("d", b"hello")
        world.run(0.1)
    world.run(10.0)
    for name in "abcdfgh":
        assert world.endpoint(name).multicast.positions()[world.id_of("d")] == 10, name


def test_one_lost_frame_costs_one_request_and_one_answer() -> None:
    """Seven members would all answer what one of them can, or all would be sent what one had lost."""
    world = ViewWorld(seed=5, members=NAMES, options=GroupOptions(order="fifo"), network=NetworkModel())
    world.cut("d", "h")
    world.send("d", b"lost")
    world.run(0.01)
    world.heal()
    world.run(5.0)
    frames = Counter({(source, to): count for (source, to, kind), count in world.frames.items() if kind == "data"})
    assert frames == Counter({**{("d", name): 1 for name in NAMES if name != "d"}, ("d", "h"): 2})
    assert {source for (source, _, kind) in world.frames if kind == "nack"} == {"h"}


def test_when_all_lost_it_few_ask_and_few_answers_serve_all() -> None:
    """A frame lost at the sender's own link would be asked for by everyone at once: a storm as large as the group."""
    world = ViewWorld(seed=6, members=NAMES, options=GroupOptions(order="fifo"), network=NetworkModel())
    for name in NAMES[1:]:
        world.cut("a", name)
    world.send("a", b"lost by all")
    world.run(0.001)
    world.heal()
    world.run(5.0)
    asked = sum(count for (_, _, kind), count in world.frames.items() if kind == "nack") / (len(NAMES) - 1)
    answered = sum(count for (_, _, kind), count in world.frames.items() if kind == "data") - (len(NAMES) - 1)
    assert asked < len(NAMES) - 1
    assert answered <= 2 * (len(NAMES) - 1)
    assert all(world.endpoint(name).multicast.level() for name in NAMES)


def test_a_repair_is_the_original_frame_from_whoever_has_it() -> None:
    """A frame cut or stamped anew by another member could not be trusted, nor checked."""
    world = ViewWorld(seed=7, members=("a", "b", "c"), options=GroupOptions(order="causal"), network=NetworkModel())
    world.cut("a", "c")
    world.send("a", b"one")
    world.send("a", b"two")
    world.run(0.01)
    world.crash("a")
    world.run(10.0)
    kept = [world.endpoint(name).multicast.data[world.id_of("a")].frames for name in ("b", "c")]  # type: ignore[union-attr]
    assert kept[0] == kept[1] != {}


@pytest.mark.parametrize("members", [2, 8, 32])
def test_an_idle_group_says_no_more_than_its_heartbeats(members: int) -> None:
    """A group of which nobody speaks would keep the network busy."""
    names = tuple(f"m{number}" for number in range(members))
    world = ViewWorld(seed=8, members=names, options=GroupOptions(order="total"), network=NetworkModel())
    world.run(1.0)
    world.send("m0", b"once")
    world.run(9.0)
    world.frames.clear()
    world.run(60.0)
    assert {kind for _, _, kind in world.frames} == {"digest"}
    assert all(45 <= count <= 85 for count in world.frames.values())


def test_what_everyone_has_is_forgotten() -> None:
    """Memory would grow with history."""
    network = NetworkModel(latency=Uniform(0.001, 0.02))
    world = ViewWorld(seed=9, members=NAMES, options=GroupOptions(order="total", window=64), network=network)
    most = 0
    for _ in range(100):
        for name in NAMES:
            if world.endpoint(name).credit > 8:
                for _ in range(8):
                    world.send(name, b"x" * 100)
        world.run(0.05)
        most = max(most, *(int(world.endpoint(name).stats()["kept_frames"]) for name in NAMES))  # type: ignore[call-overload]
    assert most <= 64 * len(NAMES) * 2
    world.run(10.0)
    assert all(world.endpoint(name).stats()["kept_frames"] == 0 for name in NAMES)


def test_a_slow_member_shows_in_the_numbers() -> None:
    """An operator could not tell which member holds everyone back."""
    world = ViewWorld(
        seed=10, members=("a", "b", "c"), options=GroupOptions(order="fifo", window=32), settings=Settings(), network=NetworkModel()
    )
    world.pause("c")
    for _ in range(20):
        world.send("a", b"x")
    world.run(1.0)
    assert world.endpoint("a").stats()["lag_by_member"] == {world.id_of("b"): 0, world.id_of("c"): 20}
