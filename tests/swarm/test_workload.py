"""The conversation that the swarm runs on: it must reach what it is there to reach."""

from __future__ import annotations

from antiphon.model.options import GroupOptions, Settings
from antiphon.sim.log import Sent
from antiphon.sim.view_world import ViewWorld
from antiphon.sim.workload import Workload


def conversation(**options: object) -> tuple[ViewWorld, Workload]:
    world = ViewWorld(3, "abcd", GroupOptions(order="semantic", **options), Settings(frame_bytes=400))  # type: ignore[arg-type]
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
    world = ViewWorld(3, "abc")
    workload = Workload(world, 3, messages=50, span_s=1.0)
    world.at(0.3, lambda: world.crash("a"))
    world.run(2.0)
    assert max(event.at for event in world.logs[0].events) <= 0.3
    assert workload.sent > 0


def test_a_message_may_follow_the_one_sent_in_the_same_breath() -> None:
    """Chains within one batch are what a batch is cut for; a workload without them never tries that."""
    world = ViewWorld(3, "abc", GroupOptions(order="semantic"))
    Workload(world, 3, messages=100, span_s=0.5, own=0.5, several=0.5, names_limit=8)
    world.run(2.0)
    sent = [event for log in world.logs for event in log.events if type(event) is Sent]
    chained = [event for event in sent if any(name == (event.id.sender, event.id.seqno - 1) for name in event.names)]
    assert len(chained) > 20
    assert max(len(event.names) for event in sent) > 4


def test_a_paused_member_speaks_when_it_goes_on() -> None:
    """What was planned for the time of a pause would be lost, or end the run with an error."""
    world = ViewWorld(3, "abc")
    workload = Workload(world, 3, messages=60, span_s=1.0)
    world.pause("a")
    world.run(1.0)
    waited = workload.waiting
    assert waited > 0
    world.resume("a")
    workload.say("a", 0)
    assert workload.waiting == 0
    assert sum(type(event) is Sent for event in world.logs[0].events) == waited


def test_a_restarted_member_knows_nothing_of_its_predecessor() -> None:
    """It would answer what it never heard, which a member refuses to send."""
    world = ViewWorld(3, "abc", GroupOptions(order="semantic"))
    workload = Workload(world, 3, messages=60, span_s=1.0, answers=1.0)
    world.at(0.9, lambda: world.crash("a"))
    world.run(2.0)
    world.begin_flush("bc")
    world.run(2.0)
    world.restart("a")
    workload.begin_anew("a")
    world.install_view("bca")
    workload.say("a", 3)
    assert not [event for event in world.logs[3].events if type(event) is Sent and event.names]
