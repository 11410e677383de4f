"""Two messages and three members: the picture with which semantic order begins, measured.

P says X; Q reads X and says Y; the link from P to R is slow, so Y reaches R before X. In the first scene Y answers X, and showing
Y without X would be nonsense. In the second Y has nothing to do with X, and waiting for X is waiting for nothing.

    P ──X──────────────────────────▶ R         100 ms
      ╲                            ╱
       X ─────▶ Q ─────────Y─────▶             10 ms each

Every order sees the same arrivals. Fifo and unordered show Y at once in both scenes, causal and total wait in both; semantic
order waits in the first scene and not in the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from antiphon.model.ids import MessageId
from antiphon.model.options import GroupOptions, Settings
from antiphon.sim.holdback import passage
from antiphon.sim.log import MemberLog
from antiphon.sim.network import Constant, LinkModel, NetworkModel
from antiphon.sim.view_world import ViewWorld

FAST_S, SLOW_S = 0.010, 0.100
# Nobody misses anything here: a request for X while it is on its way would only bring it to R by the short way.
_SETTINGS = Settings(nack_s=10.0, nack_max_s=10.0, parent_s=10.0)
_SCENE_S = 1.0


class Scene(Struct, frozen=True):
    """What happened to Y at R: it came `early_s` before X, and was then held back for `held_s`."""

    early_s: float
    held_s: float


class Scenes(Struct, frozen=True):
    """Both scenes under one order."""

    order: str
    answer: Scene
    unrelated: Scene


def figure_one(orders: Sequence[str] = ("unordered", "fifo", "causal", "total", "semantic")) -> tuple[Scenes, ...]:
    """Plays both scenes under each order."""
    return tuple(_play(order) for order in orders)


def _play(order: str) -> Scenes:
    network = NetworkModel(latency=Constant(FAST_S), links={("P", "R"): LinkModel(latency=Constant(SLOW_S))}, keyed=True)
    world = ViewWorld(seed=1, members=("P", "Q", "R"), options=GroupOptions(order=order), settings=_SETTINGS, network=network)
    pairs: list[tuple[MessageId, MessageId]] = []

    def read(message: MessageId, payload: bytes, reply_to: MessageId | None) -> None:
        if payload == b"X1":
            pairs.append((message, world.send("Q", b"Y1", reply_to=message)))
        elif payload == b"X2":
            pairs.append((message, world.send("Q", b"Y2")))

    def say(payload: bytes) -> None:
        world.send("P", payload)

    world.on_deliver("Q", read)
    world.at(0.0, partial(say, b"X1"))
    world.at(_SCENE_S, partial(say, b"X2"))
    world.run(2 * _SCENE_S)
    (log,) = (log for log in world.logs if log.member == world.id_of("R"))
    return Scenes(order, *(_scene(log, x, y) for x, y in pairs))


def _scene(log: MemberLog, x: MessageId, y: MessageId) -> Scene:
    y_received, y_delivered = passage(log, y)
    return Scene(passage(log, x)[0] - y_received, y_delivered - y_received)
