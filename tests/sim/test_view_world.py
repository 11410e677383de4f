from __future__ import annotations

from collections.abc import Callable

import pytest

from antiphon.debugger.rule import Rule
from antiphon.errors import InvalidOption, UsageError, WouldBlock
from antiphon.model import codec
from antiphon.model.frames import Batch
from antiphon.model.ids import MessageId, name_of
from antiphon.model.options import GroupOptions, Settings
from antiphon.sim.clock import Clock
from antiphon.sim.log import Delivered, MemberLog, Received, Sent, Viewed
from antiphon.sim.network import Constant, NetworkModel, Uniform
from antiphon.sim.process import BACKLOG_LIMIT
from antiphon.sim.view_world import ViewWorld


def delivered(world: ViewWorld, name: str) -> list[MessageId]:
    (log,) = (log for log in world.logs if log.member == world.id_of(name))
    return [event.id for event in log.events if type(event) is Delivered]


def times(log: MemberLog, kind: type) -> list[float]:
    return [event.at for event in log.events if type(event) is kind]


def busy_world(seed: int) -> ViewWorld:
    """Every kind of chance at once: latencies, loss, duplicates, reordering, rules, a crash, a skewed clock, retries."""
    network = NetworkModel(latency=Uniform(0.001, 0.02), loss=0.1, duplicate=0.1, reorder=0.1)
    world = ViewWorld(seed, "abcde", GroupOptions(order="total", multicast="flood"), network=network)
    world.rules.append(Rule.parse("drop data with 10%"))
    world.skew("b", 0.3, 1.02)
    for number in range(60):
        world.at(number * 0.005, lambda number=number: world.send("abcd"[number % 4], b"%d" % number) and None)  # type: ignore[misc]
    world.at(0.15, lambda: world.crash("e"))
    world.run(0.4)
    assert world.settle(30.0)
    return world


def test_the_same_seed_gives_the_same_run_in_every_process(fingerprint: Callable[[str, int], str]) -> None:
    """A failing seed could not be replayed on another machine, or on the same one tomorrow."""
    assert fingerprint("1", 7) == fingerprint("2", 7)
    assert fingerprint("1", 7) != fingerprint("1", 8)


def test_messages_sent_at_one_instant_leave_as_one_batch() -> None:
    """Under load every message would be a frame of its own, and the group ten times slower."""
    world = ViewWorld(members="ab")
    for payload in (b"1", b"2", b"3"):
        world.send("a", payload)
    world.run(0.01)
    assert world.frames["a", "b", "data"] == 1
    world.send("a", b"4")
    world.run(0.01)
    assert world.frames["a", "b", "data"] == 2
    assert [message.seqno for message in delivered(world, "b")] == [1, 2, 3, 4]


def test_things_at_one_instant_happen_in_the_order_they_were_scheduled() -> None:
    """The order of simultaneous events would depend on the heap, and a run on more than its seed."""
    world, happened = ViewWorld(members="a"), list[int]()
    for number in (1, 2, 3):
        world.at(1.0, lambda number=number: happened.append(number))  # type: ignore[misc]
    world.at(0.5, lambda: happened.append(0))
    world.run_until(2.0)
    assert happened == [0, 1, 2, 3]
    assert world.now == 2.0


def test_a_callback_may_send_and_its_message_leaves_in_the_next_turn() -> None:
    """Applications that answer what they read, that is all of them, could not be simulated."""
    world = ViewWorld(members="ab", options=GroupOptions(order="causal"), network=NetworkModel(latency=Constant(0.01)))
    heard: list[tuple[bytes, MessageId | None]] = []
    world.on_deliver("a", lambda message, payload, reply_to: heard.append((payload, reply_to)))

    def answer(message: MessageId, payload: bytes, reply_to: MessageId | None) -> None:
        if payload == b"question":
            world.send("b", b"answer", reply_to=message)

    world.on_deliver("b", answer)
    question = world.send("a", b"question")
    assert world.settle(5.0)
    assert heard == [(b"question", None), (b"answer", question)]


def test_the_log_tells_a_members_life_in_its_order() -> None:
    """The oracles would judge something that did not happen."""
    world = ViewWorld(members="ab", network=NetworkModel(latency=Constant(0.01)))
    first = world.send("a", b"x")
    world.settle(5.0)
    a, b = world.logs
    assert [type(event) for event in a.events] == [Viewed, Sent, Received, Delivered]
    assert [type(event) for event in b.events] == [Viewed, Received, Delivered]
    assert times(b, Received) == times(b, Delivered) == [0.01]
    assert first == MessageId(world.id_of("a"), 1)


def test_a_crashed_member_acts_no_more_but_its_frames_in_flight_arrive() -> None:
    """Crashes would be kinder, or crueller, than those of real machines."""
    world = ViewWorld(members="abc", network=NetworkModel(latency=Constant(0.01)))
    last = world.send("a", b"last words")
    world.run(0.001)
    world.crash("a")
    with pytest.raises(UsageError, match="restart"):
        world.send("a", b"more")
    assert world.settle(5.0)
    assert delivered(world, "b") == delivered(world, "c") == [last]
    assert world.logs[0].crashed_at == 0.001
    frames = sum(count for (source, _, _), count in world.frames.items() if source == "a")
    world.run(5.0)
    assert sum(count for (source, _, _), count in world.frames.items() if source == "a") == frames


def test_a_crash_in_the_middle_of_a_turn_loses_what_the_turn_did() -> None:
    """A member could not die between deciding to send and sending, where the hard cases are."""
    world = ViewWorld(members="ab")
    world.send("a", b"never leaves")
    world.crash("a")
    world.run(1.0)
    assert delivered(world, "b") == []


def test_what_was_stable_is_known_of_a_crashed_member() -> None:
    """An agreed group's crashed member would be judged for deliveries that nobody promised."""
    world = ViewWorld(members="abc")
    world.send("a", b"everyone has this")
    world.settle(5.0)
    world.run(2.0)
    world.rules.append(Rule.parse("drop data from a"))
    world.send("a", b"nobody has this")
    world.run(0.5)
    world.crash("a")
    assert world.logs[0].stable[world.id_of("a")] == 1


def test_a_restarted_member_is_somebody_new_and_outside_until_a_view_takes_it_in() -> None:
    """Messages of a former life would be mixed up with those of the new one."""
    world = ViewWorld(members="abc", options=GroupOptions(order="causal"))
    world.send("b", b"of the first life")
    world.settle(5.0)
    old = world.id_of("b")
    world.crash("b")
    world.restart("b")
    assert world.id_of("b") != old
    assert name_of(world.id_of("b")) == "b"
    with pytest.raises(UsageError, match="install_view"):
        world.send("b", b"too early")
    world.pause("b")
    world.resume("b")
    world.run(0.1)
    world.install_view("acb")
    hello = world.send("b", b"hello")
    after = world.send("a", b"after")
    assert world.settle(5.0)
    assert set(delivered(world, "b")) == {hello, after}
    assert set(delivered(world, "c")[1:]) == {hello, after}
    assert len(world.logs) == 4


def test_a_paused_member_does_nothing_and_then_catches_up() -> None:
    """A machine that stops for a while would lose what its kernel keeps, or act while it stands still."""
    world = ViewWorld(members="abc", network=NetworkModel(latency=Constant(0.001)))
    world.pause("c")
    with pytest.raises(UsageError, match="resume"):
        world.send("c", b"x")
    sent = [world.send("a", b"1")]
    world.run(0.5)
    sent.append(world.send("a", b"2"))
    world.run(2.5)
    assert delivered(world, "b") == sent
    assert delivered(world, "c") == []
    before = sum(count for (source, _, _), count in world.frames.items() if source == "c")
    world.resume("c")
    world.run(0.0)
    assert delivered(world, "c") == sent
    assert world.settle(5.0)
    assert before <= 2 * len("ab")


def test_a_pause_that_interrupts_a_turn_does_not_lose_its_messages() -> None:
    """A message accepted just before a pause would stay in the open batch for ever."""
    world = ViewWorld(members="ab")
    message = world.send("a", b"accepted")
    world.pause("a")
    world.run(1.0)
    assert delivered(world, "b") == []
    world.resume("a")
    world.run(0.5)
    assert delivered(world, "b") == [message]


def test_the_queue_of_a_paused_member_is_bounded() -> None:
    """A long pause would fill the memory; and no test would ever see a full kernel queue."""
    options = GroupOptions(order="unordered", multicast="besteffort")
    world = ViewWorld(members="ab", options=options)
    world.pause("b")
    for number in range(BACKLOG_LIMIT + 5):
        world.at(number * 1e-5, lambda: world.send("a", b"x") and None)
    world.run(1.0)
    assert world.drops["backlog_full"] == 5
    world.resume("b")
    world.run(0.0)
    assert len(delivered(world, "b")) == BACKLOG_LIMIT


def test_a_slow_member_takes_its_time_for_each_frame() -> None:
    """Nobody would see what one slow member does to the others."""
    world = ViewWorld(members="ab", network=NetworkModel(latency=Constant(0.0)))
    world.slow("b", 0.1)
    for number in range(4):
        world.at(number * 0.001, lambda: world.send("a", b"x") and None)
    world.run(0.41)
    assert times(world.logs[1], Delivered) == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_a_sender_is_refused_while_somebody_is_behind_and_hears_when_it_may_go_on() -> None:
    """A slow member would cost memory instead of speed, or the sender would wait for ever."""
    world = ViewWorld(members="ab", options=GroupOptions(window=4), network=NetworkModel(latency=Constant(0.001)))
    writable: list[float] = []
    world.on_writable("a", lambda: writable.append(world.now))
    world.pause("b")
    for _ in range(4):
        world.send("a", b"x")
    with pytest.raises(WouldBlock):
        world.send("a", b"one too many")
    world.run(1.0)
    assert writable == []
    world.resume("b")
    world.run(1.0)
    assert len(writable) == 1
    world.send("a", b"goes")


def test_a_cut_stops_one_direction_and_a_partition_both() -> None:
    """The asymmetric failures that break real groups could not be tried."""
    options = GroupOptions(order="unordered", multicast="besteffort")
    world = ViewWorld(members="abc", options=options)
    world.cut("a", "b")
    of_a, of_b = world.send("a", b"from a"), world.send("b", b"from b")
    world.run(1.0)
    assert delivered(world, "b") == [of_b]
    assert set(delivered(world, "a")) == set(delivered(world, "c")) == {of_a, of_b}
    world.heal()
    world.partition([["a"]])  # the others are together
    alone, together = world.send("a", b"alone"), world.send("b", b"together")
    world.run(1.0)
    assert alone not in delivered(world, "b")
    assert together not in delivered(world, "a")
    assert together in delivered(world, "c")
    world.heal()
    heard = world.send("a", b"healed")
    world.run(1.0)
    assert heard in delivered(world, "b")


def test_reliable_members_level_out_after_a_partition() -> None:
    """What was said during a partition would stay unknown to the other side."""
    world = ViewWorld(members="abcd", options=GroupOptions(order="causal"))
    world.partition(["ab", "cd"])
    world.send("a", b"1")
    world.send("c", b"2")
    assert not world.settle(1.0)
    world.heal()
    assert world.settle(30.0)
    assert all(len(delivered(world, name)) == 2 for name in world.names)


def test_timers_follow_a_members_own_clock() -> None:
    """Protocols that only work with equal clocks would pass all tests."""
    settings = Settings(digest_s=1.0, heartbeat_s=1.0)
    counts = {}
    for rate in (1.0, 4.0):
        world = ViewWorld(members="ab", settings=settings)
        world.skew("a", 0.0, rate)
        world.run(20.0)
        counts[rate] = world.frames["a", "b", "digest"]
    assert counts[4.0] > 2 * counts[1.0] > 0


def test_a_clock_never_runs_backwards() -> None:
    """A member whose clock is set back would have timers that never come, or come twice."""
    clock = Clock()
    clock.set(0.5, 2.0)
    assert clock.local(1.0) == 2.5
    assert clock.world(2.5) == 1.0
    clock.set(0.0, 1.0)
    assert clock.local(1.5) == 2.5
    assert clock.local(3.0) == 3.0


def test_a_batch_carries_the_time_of_its_senders_clock() -> None:
    """Delays computed from a trace would hide that clocks differ, which they do in the world."""
    world = ViewWorld(members="ab")
    world.skew("a", 100.0)
    world.rules.append(Rule.parse("hold data"))
    world.send("a", b"x")
    world.run(0.1)
    batch = codec.decode(world.tap.held[0].passage.wire)
    assert isinstance(batch, Batch)
    assert batch.sent_at == 100.0


def test_rules_act_on_the_way_out_and_on_the_way_in() -> None:
    """The debugger would show one thing and the group do another."""
    options = GroupOptions(order="unordered", multicast="besteffort")
    world = ViewWorld(members="abc", options=options, network=NetworkModel(latency=Constant(0.01)))
    world.rules[:] = [Rule.parse("drop data to b in first 1"), Rule.parse("delay 50ms data to c"), Rule.parse("duplicate data to b")]
    first = world.send("a", b"x")
    world.run(0.055)
    assert delivered(world, "b") == [first]  # one of two copies
    assert delivered(world, "c") == []
    world.run(0.01)
    assert delivered(world, "c") == [first]
    assert times(world.logs[2], Delivered) == pytest.approx([0.06])


def test_held_frames_wait_until_they_are_released() -> None:
    """A debugger that cannot let go again would only be a broken network."""
    options = GroupOptions(order="unordered", multicast="besteffort")
    world = ViewWorld(members="ab", options=options)
    world.rules[:] = [Rule.parse("hold data in")]
    messages = []
    for number in range(3):
        messages.append(world.send("a", b"%d" % number))
        world.run(0.01)
    assert delivered(world, "b") == []
    assert world.release(message=messages[2]) == 1
    assert world.release(count=1) == 1
    world.run(0.01)
    assert delivered(world, "b") == [messages[2], messages[0]]
    assert world.tap.drop_held() == 1
    assert world.release() == 0


def test_mistakes_in_calls_say_what_to_do() -> None:
    """A typing error in a test would look like a bug of a protocol."""
    with pytest.raises(InvalidOption, match="two names"):
        ViewWorld(members="aa")
    world = ViewWorld(members="ab")
    with pytest.raises(InvalidOption, match="members of this world are a, b"):
        world.send("z", b"x")
    with pytest.raises(InvalidOption, match="one part"):
        world.partition(["ab", "a"])
    with pytest.raises(InvalidOption, match="rate"):
        world.skew("a", rate=0.0)
    with pytest.raises(InvalidOption, match="seconds_per_frame"):
        world.slow("a", -1.0)
    with pytest.raises(UsageError, match="alive"):
        world.restart("a")
    with pytest.raises(InvalidOption, match="finite"):
        world.run(float("inf"))
    world.at(0.0, lambda: world.run(1.0))
    with pytest.raises(UsageError, match=r"world\.at"):
        world.run(1.0)


def test_settle_says_when_it_does_not_come_to_rest() -> None:
    """A stalled group would pass for a quiet one."""
    world = ViewWorld(members="abc")
    world.cut("a", "c")
    world.cut("b", "c")
    world.send("a", b"x")
    assert not world.settle(2.0)
    world.heal()
    assert world.settle(10.0)


def test_a_slow_member_that_is_busy_with_digests_only_is_at_rest() -> None:
    """A group with one slow member would never count as settled, and every swarm with one would report a stall."""
    world = ViewWorld(members="abcd", settings=Settings(digest_s=0.02, heartbeat_s=0.02))
    world.slow("d", 0.05)
    world.send("a", b"x")
    assert world.settle(60.0)
    assert all(len(delivered(world, name)) == 1 for name in world.names)
