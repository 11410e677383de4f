from __future__ import annotations

import statistics

import pytest

from antiphon.errors import InvalidOption
from antiphon.sim.network import Constant, Exponential, FrameKey, Latency, LinkModel, LogNormal, Network, NetworkModel, Uniform

FRAMES = 20_000
KEY: FrameKey = ("data", "a#1", 1, 0)


def flights(model: NetworkModel, count: int = FRAMES, seed: int = 1) -> list[tuple[float, ...]]:
    """The arrivals of `count` frames of 100 bytes, put on the link from a to b at time 0, each another message."""
    network = Network(model, seed)
    return [network.arrivals(0.0, "a", "b", 100, ("data", "a#1", number, 0)) for number in range(1, count + 1)]


@pytest.mark.parametrize("keyed", [False, True])
def test_as_many_frames_are_lost_doubled_and_late_as_the_model_says(keyed: bool) -> None:
    """A swarm that believes it tests 20 % loss would test something else."""
    model = NetworkModel(latency=Constant(0.01), loss=0.2, duplicate=0.1, reorder=0.3, reorder_s=1.0, keyed=keyed)
    arrivals = flights(model)
    arrived = [arrival for arrival in arrivals if arrival]
    assert abs(1 - len(arrived) / FRAMES - 0.2) < 0.015
    assert abs(sum(len(arrival) == 2 for arrival in arrived) / len(arrived) - 0.1) < 0.015
    assert abs(sum(arrival[0] > 1.0 for arrival in arrived) / len(arrived) - 0.3) < 0.015


@pytest.mark.parametrize(
    ("latency", "mean", "lowest"),
    [
        (Constant(0.02), 0.02, 0.02),
        (Uniform(0.02, 0.2), 0.11, 0.02),
        (Exponential(0.01, 0.05), 0.06, 0.01),
        (LogNormal(0.02, 0.5), 0.02266, 0.0),
    ],
)
@pytest.mark.parametrize("keyed", [False, True])
def test_delays_are_distributed_as_the_model_says(latency: Latency, mean: float, lowest: float, keyed: bool) -> None:
    """Hold-back times measured in the simulator would be those of some other network."""
    delays = [arrival[0] for arrival in flights(NetworkModel(latency=latency, keyed=keyed))]
    assert statistics.fmean(delays) == pytest.approx(mean, rel=0.03)
    assert min(delays) >= lowest


def test_keyed_draws_depend_on_the_frame_and_not_on_what_else_is_sent() -> None:
    """Two orders compared on 'the same arrivals' would see different ones as soon as one of them sends a record more."""
    model = NetworkModel(latency=Uniform(0.0, 1.0), loss=0.3, duplicate=0.2, keyed=True)
    quiet, busy = Network(model, 5), Network(model, 5)
    for number in range(1, 200):
        busy.arrivals(0.0, "a", "b", 100, ("record", "a#1", number, 0))
        busy.arrivals(0.0, "a", "c", 100, KEY)
        key: FrameKey = ("data", "a#1", number, 0)
        assert quiet.arrivals(0.0, "a", "b", 100, key) == busy.arrivals(0.0, "a", "b", 100, key)


def test_keyed_draws_differ_between_attempts_links_and_seeds() -> None:
    """A lost message would be lost again in every repair, on every link, in every run."""
    model = NetworkModel(latency=Uniform(0.0, 1.0), keyed=True)
    network = Network(model, 5)
    drawn = [network.arrivals(0.0, "a", destination, 100, KEY)[0] for destination in ("b", "b", "c")]
    drawn.append(Network(model, 6).arrivals(0.0, "a", "b", 100, KEY)[0])
    assert len(set(drawn)) == 4


def test_keyed_delays_stay_the_same_when_only_the_loss_differs() -> None:
    """The effect of loss could not be told from the effect of other delays."""
    lossless = flights(NetworkModel(latency=Uniform(0.0, 1.0), keyed=True), 300)
    lossy = flights(NetworkModel(latency=Uniform(0.0, 1.0), loss=0.3, keyed=True), 300)
    assert all(not with_loss or with_loss == without for with_loss, without in zip(lossy, lossless, strict=True))


def test_frames_queue_for_the_bandwidth_of_their_own_link() -> None:
    """A burst of large frames would arrive as fast as a single one, and a busy link would slow down an idle one."""
    network = Network(NetworkModel(latency=Constant(0.0), bandwidth=1_000.0), 1)
    burst = [network.arrivals(0.0, "a", "b", 500, KEY) for _ in range(3)]
    assert burst == [(0.5,), (1.0,), (1.5,)]
    assert network.arrivals(0.0, "a", "c", 500, KEY) == (0.5,)
    assert network.arrivals(9.0, "a", "b", 500, KEY) == (9.5,)


def test_a_full_queue_drops_what_comes_next() -> None:
    """A sender that is faster than its link would fill the memory of the simulator, and never see a loss."""
    network = Network(NetworkModel(latency=Constant(0.0), bandwidth=1_000.0, queue_s=1.0), 1)
    arrived = [network.arrivals(0.0, "a", "b", 500, KEY) for _ in range(10)]
    assert [bool(arrival) for arrival in arrived] == [True] * 3 + [False] * 7
    assert network.drops["queue_full"] == 7


def test_a_cut_is_one_way_and_a_link_may_have_a_model_of_its_own() -> None:
    """Asymmetric failures, the ones that break membership, could not be simulated."""
    slow = LinkModel(latency=Constant(5.0))
    network = Network(NetworkModel(latency=Constant(1.0), links={("b", "a"): slow}), 1)
    network.cuts.add(("a", "b"))
    assert network.arrivals(0.0, "a", "b", 100, KEY) == ()
    assert network.arrivals(0.0, "b", "a", 100, KEY) == (5.0,)
    assert network.arrivals(0.0, "a", "c", 100, KEY) == (1.0,)


def test_a_model_that_cannot_be_is_refused() -> None:
    """A typing error in an experiment would silently simulate nonsense."""
    for wrong in ({"loss": 1.1}, {"duplicate": -0.1}, {"reorder": 2.0}, {"bandwidth": 0.0}, {"reorder_s": -1.0}, {"loss": float("nan")}):
        with pytest.raises(InvalidOption, match=next(iter(wrong))):
            NetworkModel(**wrong)  # type: ignore[arg-type]
    for latency in (Constant, Uniform, Exponential, LogNormal):
        with pytest.raises(InvalidOption):
            latency(*([-1.0] * len(latency.__struct_fields__)))
    with pytest.raises(InvalidOption, match="lower one first"):
        Uniform(0.2, 0.1)
