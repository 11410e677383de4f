"""What repair costs and how long it takes: data frames, requests and recovery times on networks that delay, reorder and lose frames.

Each row is a group in the simulator, in virtual time and from a fixed seed, so the figures are the same on every machine. One member sends
a message every `INTERVAL_S`. A message is *recovered* at a member if it came later than the slowest frame of the network could: its
recovery time is counted from when it was sent.

| field           | says                                                                                         |
|-----------------|----------------------------------------------------------------------------------------------|
| `needed_frames` | data frames without any repair: one for each message and receiver                            |
| `data_frames`   | data frames that were put on links                                                           |
| `extra_percent` | how many more that is, in per cent                                                           |
| `requests`      | requests for missing messages, counted at the members that asked                             |
| `repairs`       | answers to them; one that goes to all members counts once                                    |
| `recovered`     | messages that arrived by repair, summed over the members                                     |
| `p50_ms` …      | the time from sending such a message to its arrival; none where nothing had to be recovered  |
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from antiphon.model.options import GroupOptions, Settings
from antiphon.sim.log import Received, Sent
from antiphon.sim.network import Constant, NetworkModel, Uniform
from antiphon.sim.view_world import ViewWorld

INTERVAL_S = 0.001
MEMBERS = 4
_LIMIT_S = 600.0


class ArrivalCondition(NamedTuple):
    """How long frames take, from `low_ms` to `high_ms`, and the share of them that is lost."""

    low_ms: float
    high_ms: float
    loss: float


WEATHERS = (
    *(ArrivalCondition(1.0, 1.0, loss) for loss in (0.0, 0.01, 0.05, 0.2)),
    *(ArrivalCondition(1.0, 5.0, loss) for loss in (0.0, 0.01, 0.05, 0.2)),
    *(ArrivalCondition(60.0, 60.0, loss) for loss in (0.0, 0.05)),
    *(ArrivalCondition(0.0, 20.0, loss) for loss in (0.0, 0.05)),
    *(ArrivalCondition(0.0, 200.0, loss) for loss in (0.0, 0.01)),
)


def rows(messages: int = 5_000, seed: int = 1, weathers: tuple[ArrivalCondition, ...] = WEATHERS) -> Iterator[dict[str, object]]:
    """One row for each network."""
    for weather in weathers:
        yield row(weather, messages, seed)


def row(weather: ArrivalCondition, messages: int, seed: int = 1, settings: Settings | None = None) -> dict[str, object]:
    """Runs one group on one network until every member has every message."""
    low, high = weather.low_ms / 1_000, weather.high_ms / 1_000
    latency = Constant(low) if low == high else Uniform(low, high)
    names = tuple(f"m{number}" for number in range(MEMBERS))
    network = NetworkModel(latency=latency, loss=weather.loss)
    world = ViewWorld(seed, names, GroupOptions(order="unordered", window=max(messages, 1)), settings, network)
    for number in range(messages):
        world.at(number * INTERVAL_S, partial(world.send, names[0], b"x"))
    world.run(messages * INTERVAL_S)
    if not world.settle(_LIMIT_S):
        raise AssertionError(f"not every message had arrived after {_LIMIT_S:.0f} virtual seconds")
    needed = messages * (MEMBERS - 1)
    data = sum(count for (_, _, kind), count in world.frames.items() if kind == "data")
    stats = [world.endpoint(name).stats() for name in names]
    times = _recovery_times(world, high + INTERVAL_S / 2)
    return {
        **weather._asdict(),
        "messages": messages,
        "needed_frames": needed,
        "data_frames": data,
        "extra_percent": round(100 * (data - needed) / needed, 2),
        "requests": _sum(stats, "requests_sent"),
        "repairs": _sum(stats, "repairs_sent"),
        "recovered": len(times),
        **{f"{name}_ms": _percentile_ms(times, share) for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))},
    }


def _sum(stats: list[dict[str, object]], name: str) -> int:
    return sum(value for found in stats if isinstance(value := found[name], int))


def _recovery_times(world: ViewWorld, longest: float) -> list[float]:
    """How long after its sending each message came that no frame of the network can have brought at once, sorted."""
    sent_at = {event.id: event.at for log in world.logs for event in log.events if type(event) is Sent}
    delays = (event.at - sent_at[event.id] for log in world.logs for event in log.events if type(event) is Received)
    return sorted(delay for delay in delays if delay > longest)


def _percentile_ms(times: list[float], share: float) -> float | None:
    return round(times[min(int(share * len(times)), len(times) - 1)] * 1_000, 1) if times else None
