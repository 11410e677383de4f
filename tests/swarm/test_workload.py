"""The conversation that the swarm runs on: it must reach what it is there to reach."""

from __future__ import annotations

from antiphon.model.options import GroupOptions, Settings
from antiphon.sim.log import Sent
from antiphon.sim.workload import Workload
from antiphon.sim.world import World


def conversation(**options: object) -> tuple[World, Workload]:
    world = World(3, "abcd", GroupOptions(order="semantic", **options), Settings(frame_bytes=400))  # type: ignore[arg-type]
    workload = Workload(world, 3, messages=200, span_s=2.0, large=0.05)
    world.run(2.0)
    workload.stop()
    world.settle(30.0)
    world.run(1.0)
    return world, workload


def test_the_conversation_has_everything_in_it() -> None:
    """A workload without answers, without several parents, or without large messages would test half of the protocols."""
    world, workload = conversation()
    sent = [event for log in world.logs for event in log.events if type(event) is Sent]
    assert workload.sent == len(sent)
    assert 150 <= len(sent) <= 200
    assert sum(event.answers for event in sent) > 20
    assert any(len(event.names) >= 2 for event in sent)
    assert any(event.names and not event.answers for event in sent)
    assert sum(count for (_, _, kind), count in world.frames.items() if kind == "fragment") > 0


def test_a_refused_send_is_sent_later() -> None:
    """Messages that a full window refused and that are then forgotten would make every small window look easy."""
    _, workload = conversation(window=2)
    assert workload.refused > 0
    assert workload.waiting == 0
    assert workload.sent >= 150


def test_the_dead_do_not_speak() -> None:
    """A member that goes on sending after its crash would be judged for what it never did."""
    world = World(3, "abc")
    workload = Workload(world, 3, messages=50, span_s=1.0)
    world.at(0.3, lambda: world.crash("a"))
    world.run(2.0)
    assert max(event.at for event in world.logs[0].events) <= 0.3
    assert workload.sent > 0
