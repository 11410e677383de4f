"""What membership costs: frames and bytes per member, counted in a simulated network without loss, for groups of several sizes.

| what      | counted                                                                                                     |
|-----------|-------------------------------------------------------------------------------------------------------------|
| `found`   | all nodes start at once and join by name with `create=`, until all are in one stable view; over `FOUNDINGS` |
|           | worlds, because it depends on who happens to be first                                                       |
| `gather`  | one node creates the group and all others join at once, until all are in one stable view                    |
| `join`    | one more node joins a full group, until the new view is stable and the newcomer has caught up               |
| `crash`   | one member dies, until the others are in a stable view without it                                           |
| `digests` | the digests of one idle minute, of the group that was found by name                                         |
| `idle`    | everything else in that minute                                                                              |

The digests that are sent while a group changes are its heartbeat and no part of the change: they are counted in `digests` alone. A member's
cost is what it sends; what is sent is received, so the means of both are the same. The most is that of the member that sends, or of the
one that receives, the most: the coordinator. A broadcast counts once for every node it reaches, as on a network without IP multicast.

The numbers depend on the seed and not on this machine. Cost: 25 µs for each frame; an idle minute of 200 members has 2.4 million.
"""

from __future__ import annotations

import gc
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from antiphon.model.options import GroupOptions
from antiphon.sim.network import Constant, NetworkModel
from antiphon.sim.node_world import NodeWorld

SIZES = (10, 50, 100, 200)
WHATS = ("found", "gather", "join", "crash", "digests", "idle")
MEASURES = ("frames", "most_frames", "bytes", "most_bytes")
HISTORIES = (10, 20_000)
FOUNDINGS = 4
LARGEST = 1_000
"""The largest group that is counted: an idle minute of it takes half an hour."""
_HISTORY_MEMBERS = 5
_SEED = 1
_LATENCY_S = 0.001
_LIMIT_S = 60.0
_QUIET_S = 3.0
"""After this nothing of what has just happened is still going on."""
_SEEKING_S = 20.0
"""After this a group that was found by name looks for other sides of it as rarely as it ever will in a minute."""
_MINUTE_S = 60.0
_BURST = 500
"""Messages sent at one instant, well within the window."""
_LATE = "late"


class Cost(Struct, frozen=True):
    """Frames and bytes per member: the mean and the most. `kinds` are the means by kind of frame, the most bytes first."""

    what: str
    members: int
    seconds: float
    """Of virtual time that it took."""
    frames: float
    most_frames: int
    bytes: float
    most_bytes: int
    kinds: dict[str, tuple[float, float]]
    messages: int = 0
    """That had been sent before."""


class Growth(Struct, frozen=True):
    """By which power of the group's size each number grows: the slope of the line through the logarithms. None where one is 0."""

    what: str
    frames: float | None
    most_frames: float | None
    bytes: float | None
    most_bytes: float | None


def costs(sizes: Sequence[int] = SIZES, progress: Callable[[int, int], None] | None = None) -> Iterator[Cost]:
    """Every cost of every size, as they are counted."""
    for done, members in enumerate(sizes):
        for part, measure in enumerate((_changing, _found_by_name)):
            if progress is not None:
                progress(2 * done + part, 2 * len(sizes))
            yield from measure(members)


def costs_of_history(counts: Sequence[int] = HISTORIES) -> Iterator[Cost]:
    """Count an idle minute of a small group after few and after many messages: nothing in it may grow with what was said. The times at
    which nodes repeat their advertisements do not depend on it, so these are left out."""
    for count in counts:
        world = _world(_HISTORY_MEMBERS)
        _check(world.gather(), "the group did not form")
        for sent in range(count):
            world.send(world.names[sent % _HISTORY_MEMBERS], b"x" * 100)
            if sent % _BURST == 0:
                world.run(0.1)
        _check(world.settle(_LIMIT_S), "the messages did not arrive")
        world.run(_QUIET_S)
        meter = _Meter(world)
        world.run(_MINUTE_S)
        yield meter.cost("minute", _HISTORY_MEMBERS, lambda kind: kind != "advertise", count)


def growth(measured: Sequence[Cost]) -> list[Growth]:
    found = []
    for what in WHATS:
        chosen = [cost for cost in measured if cost.what == what]
        if chosen:
            slopes = (_slope([(cost.members, getattr(cost, measure)) for cost in chosen]) for measure in MEASURES)
            found.append(Growth(what, *slopes))
    return found


# -- what happens to the groups ------------------------------------------------------------------------------------------------------


def _changing(members: int) -> Iterator[Cost]:
    """One node creates, all others join at once; then one more comes; then one dies."""
    world = _world(members, late=(_LATE,))
    first, *others = world.names[:members]
    world.run(_QUIET_S)
    meter = _Meter(world)
    group = world.create(first)
    _check(world.wait_for(lambda: all(world.node(name).known() for name in others), _LIMIT_S), "nobody heard of the group")
    for name in others:
        world.join(name, group)
    _check(world.wait_for(lambda: _together(world, members), _LIMIT_S), "the group did not form")
    yield meter.cost("gather", members, _no_digest)
    world.start(_LATE)
    world.run(_QUIET_S)
    meter = _Meter(world)
    world.join(_LATE, group)
    _check(world.wait_for(lambda: _together(world, members + 1), _LIMIT_S), "the newcomer did not come in")
    yield meter.cost("join", members, _no_digest)
    world.run(_QUIET_S)
    meter = _Meter(world)
    world.crash(others[len(others) // 2])
    _check(world.wait_for(lambda: _together(world, members), _LIMIT_S), "the dead member stayed in the view")
    yield meter.cost("crash", members, _no_digest)


def _found_by_name(members: int) -> Iterator[Cost]:
    """All come at once and found the group, or find it; in the first world nothing happens then for a minute."""
    first, *others = [_founded(members, _SEED + founding) for founding in range(FOUNDINGS)]
    world = first[0]
    yield _overall([first[1], *(cost for _, cost in others)])
    del first, others
    world.run(_SEEKING_S)
    meter = _Meter(world)
    gc.collect()
    gc.freeze()  # a world of many nodes is millions of objects that stay: the collector need not look at them again and again
    world.run(_MINUTE_S)
    gc.unfreeze()
    yield meter.cost("digests", members, lambda kind: not _no_digest(kind))
    yield meter.cost("idle", members, _no_digest)


def _founded(members: int, seed: int) -> tuple[NodeWorld, Cost]:
    world = _world(members, seed=seed)
    meter = _Meter(world)
    for name in world.names:
        world.join(name, "g", create=GroupOptions())
    _check(world.wait_for(lambda: _together(world, members), _LIMIT_S), "the group did not form")
    return world, meter.cost("found", members, _no_digest)


def _world(members: int, late: Sequence[str] = (), seed: int = _SEED) -> NodeWorld:
    names = [f"node{number:04d}" for number in range(members)]
    return NodeWorld(seed, names, network=NetworkModel(latency=Constant(_LATENCY_S)), late=late)


def _together(world: NodeWorld, members: int) -> bool:
    """Whether this many are in one view, which is stable, and nobody has anything to catch up with."""
    found = [world.member(name) for name in world.names if world.is_member(name)]
    views = {None if member.view is None or len(member.view.members) != members else member.view.id for member in found}
    return len(found) == members and len(views) == 1 and None not in views and all(member.settled for member in found)


def _check(happened: bool, otherwise: str) -> None:
    assert happened, f"{otherwise} within {_LIMIT_S:g} s of virtual time"


# -- counting ------------------------------------------------------------------------------------------------------------------------


class _Meter:
    """Counts from now on what is put on the links."""

    def __init__(self, world: NodeWorld) -> None:
        self._world, self._began = world, world.now
        self._frames, self._bytes = Counter(world.frames), Counter(world.bytes)

    def cost(self, what: str, members: int, counts: Callable[[str], bool], messages: int = 0) -> Cost:
        """What the kinds that count have cost since this meter began."""
        frames, most_frames = _by_kind(self._world.frames - self._frames, counts)
        size, most_bytes = _by_kind(self._world.bytes - self._bytes, counts)
        kinds = {kind: (round(frames[kind] / members, 2), round(count / members, 1)) for kind, count in size.most_common()}
        return Cost(
            what,
            members,
            round(self._world.now - self._began, 2),
            round(frames.total() / members, 2),
            most_frames,
            round(size.total() / members, 1),
            most_bytes,
            kinds,
            messages,
        )


def _by_kind(count_by_link: Counter[tuple[str, str, str]], counts: Callable[[str], bool]) -> tuple[Counter[str], int]:
    """What all sent together, by kind; and what the busiest of them sent or received."""
    sent: Counter[str] = Counter()
    received: Counter[str] = Counter()
    by_kind: Counter[str] = Counter()
    for (source, destination, kind), count in count_by_link.items():
        if counts(kind):
            sent[source] += count
            received[destination] += count
            by_kind[kind] += count
    return by_kind, max((*sent.values(), *received.values()), default=0)


def _overall(runs: list[Cost]) -> Cost:
    """The mean of the means and the most of the mosts."""
    first, count = runs[0], len(runs)
    kinds = sorted({kind for run in runs for kind in run.kinds})
    means = {kind: tuple(round(sum(run.kinds.get(kind, (0.0, 0.0))[at] for run in runs) / count, 2) for at in (0, 1)) for kind in kinds}
    return Cost(
        first.what,
        first.members,
        max(run.seconds for run in runs),
        round(sum(run.frames for run in runs) / count, 2),
        max(run.most_frames for run in runs),
        round(sum(run.bytes for run in runs) / count, 1),
        max(run.most_bytes for run in runs),
        {kind: (means[kind][0], means[kind][1]) for kind in sorted(kinds, key=lambda kind: -means[kind][1])},
    )


def _no_digest(kind: str) -> bool:
    return kind != "digest"


def _slope(points: list[tuple[float, float]]) -> float | None:
    if len(points) < 2 or any(value <= 0 for _, value in points):
        return None
    logs = [(math.log(size), math.log(value)) for size, value in points]
    mean_x, mean_y = (sum(values) / len(logs) for values in zip(*logs, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in logs)
    return round(sum((x - mean_x) * (y - mean_y) for x, y in logs) / spread, 2) if spread else None
