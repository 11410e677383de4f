from __future__ import annotations

from collections.abc import Callable

import pytest

from antiphon.debugger.rule import Rule
from antiphon.errors import InvalidOption, JoinFailed, UsageError
from antiphon.model.control import Wants
from antiphon.model.events import Event, Installed, PrivateMessage, StateArrived
from antiphon.model.ids import GroupId, MessageId, name_of
from antiphon.model.options import GroupOptions, Settings
from antiphon.sim.convergence import sides
from antiphon.sim.log import Adopted, Delivered, GotPrivately, MemberLog, Returned, Sent, SentPrivately, Viewed
from antiphon.sim.network import NetworkModel, Uniform
from antiphon.sim.node_world import NodeWorld
from antiphon.sim.process import BACKLOG_LIMIT


def gathered(nodes: str = "abc", seed: int = 7, order: str = "causal", **options: object) -> NodeWorld:
    world = NodeWorld(seed, nodes)
    assert world.gather(options=GroupOptions(order=order, **options))  # type: ignore[arg-type]
    return world


def delivered(log: MemberLog) -> list[MessageId]:
    return [event.id for event in log.events if type(event) is Delivered]


def seen(world: NodeWorld, name: str) -> str:
    view = world.view_of(name)
    return "" if view is None else "".join(sorted(name_of(member) for member in view.members))


def busy_world(seed: int) -> NodeWorld:
    """Every kind of chance at once, and every kind of change: a split, a crash, a return, a departure, a skewed clock."""
    network = NetworkModel(latency=Uniform(0.001, 0.02), loss=0.05, duplicate=0.05, reorder=0.05)
    world = NodeWorld(seed, "abcde", network=network)
    assert world.gather(options=GroupOptions(order="total"))
    start = world.now
    world.skew("b", 0.3, 1.02)

    def speak(name: str, number: int) -> None:
        if world.alive(name) and world.is_member(name) and world.member(name).endpoint is not None and world.endpoint(name).credit:
            world.send(name, b"%d" % number)

    for number in range(60):
        world.at(start + number * 0.1, lambda number=number: speak("abcde"[number % 5], number))  # type: ignore[misc]
    world.at(start + 1.0, lambda: world.partition(["ab", "cde"]))
    world.at(start + 3.0, world.heal)
    world.at(start + 3.5, lambda: world.crash("e"))
    world.at(start + 4.0, lambda: world.restart("e"))
    world.at(start + 4.5, lambda: world.leave("d"))
    world.run(8.0)
    assert world.settle(60.0)
    return world


def test_the_same_seed_gives_the_same_run_in_every_process(fingerprint: Callable[[str, int], str]) -> None:
    """A failing seed could not be replayed on another machine, or on the same one tomorrow."""
    assert fingerprint("1", 7) == fingerprint("2", 7)
    assert fingerprint("1", 7) != fingerprint("1", 8)


def test_nodes_gather_and_talk() -> None:
    """Nothing that is said of groups could be tried out."""
    world = gathered()
    assert [seen(world, name) for name in "abc"] == ["abc"] * 3
    heard: list[tuple[bytes, MessageId | None]] = []
    world.on_deliver("c", lambda message, payload, reply_to: heard.append((payload, reply_to)))
    question = world.send("a", b"Did you visit Delhi?")
    assert world.settle(5.0)
    answer = world.send("b", b"Yes", reply_to=question)
    assert world.settle(5.0)
    assert heard == [(b"Did you visit Delhi?", None), (b"Yes", question)]
    assert world.history("a") == world.history("c") == [question, answer]
    assert world.check() == []


def test_who_cannot_be_reached_is_not_gathered() -> None:
    """`gather` would claim a group that is not there, or wait for it for ever."""
    world = NodeWorld(nodes="abc")
    world.partition(["ab", "c"])
    assert not world.gather(limit_s=3.0)
    assert world.now == 3.0
    assert seen(world, "a") == "ab"


def test_a_lost_announcement_is_asked_for_again() -> None:
    """On a bad network a node would stand outside for ever because one datagram was lost."""
    world = NodeWorld(nodes="ab")
    world.rules.append(Rule.parse("drop groups first 2"))
    assert world.gather(limit_s=10.0)


def test_a_broadcast_reaches_who_lives_and_who_is_linked() -> None:
    """Discovery would see through walls, or not at all."""
    world = NodeWorld(nodes="abcd")
    world.crash("d")
    world.cut("a", "c")
    world.run(1.0)
    before = world.frames.copy()
    world.advertise("a")
    world.run(0.5)
    sent = world.frames - before
    assert {link for link in sent if link[0] == "a" and link[2] == "advertise"} == {("a", "b", "advertise"), ("a", "c", "advertise")}
    assert world.drops["cut"] > 0


def test_without_multicast_a_broadcast_goes_to_the_seeds() -> None:
    """A network without IP multicast could not be simulated."""
    world = NodeWorld(nodes="abc", seeds="a")
    world.run(1.0)
    asked = {destination for _, destination, kind in world.frames if kind == "advertise"}
    assert asked == {"a"}
    assert world.bytes["b", "a", "advertise"] > world.frames["b", "a", "advertise"] >= 1


def test_a_late_node_starts_when_it_is_told_to() -> None:
    """Every newcomer would have been there from the beginning."""
    world = NodeWorld(nodes="ab", late="c")
    assert world.gather()
    with pytest.raises(UsageError, match="has not started"):
        world.join("c")
    assert not world.started("c")
    world.start("c")
    assert world.started("c")
    world.run(0.5)
    assert [name_of(info.id) for info in world.known("c")] == ["g"]
    world.join("c")
    assert world.settle(10.0)
    assert seen(world, "a") == "abc"
    with pytest.raises(UsageError, match="already"):
        world.start("c")


def test_a_partition_makes_two_views_and_healing_makes_one() -> None:
    """The simulator would not show what the whole membership is for."""
    world = gathered("abcd")
    common = world.send("a", b"before")
    assert world.settle(5.0)
    world.partition(["ab", "cd"])
    left, right = world.send("a", b"left"), world.send("c", b"right")
    assert not world.converged()
    assert world.settle(30.0)
    assert [seen(world, name) for name in "abcd"] == ["ab", "ab", "cd", "cd"]
    world.heal()
    assert not world.converged()
    assert world.settle(30.0)
    assert [seen(world, name) for name in "abcd"] == ["abcd"] * 4
    histories = [world.history(name) for name in "abcd"]
    assert histories == [histories[0]] * 4
    assert sorted(histories[0]) == sorted([common, left, right])
    assert world.check() == []
    late = [event.recovered for event in world.log_of("a").events if type(event) is Delivered and event.id == right]
    assert late == [True]
    merge = [event for event in world.log_of("a").events if type(event) is Viewed][-1]
    assert sorted("".join(sorted(map(name_of, side))) for side in merge.sides) == ["ab", "cd"]
    assert merge.previous != 0


def test_a_crashed_node_leaves_the_view_and_comes_back_as_somebody_new() -> None:
    """A crash would be kinder, or crueller, than that of a real machine."""
    world = gathered()
    first = world.id_of("c")
    world.crash("c")
    with pytest.raises(UsageError, match="restart"):
        world.send("c", b"more")
    assert world.settle(30.0)
    assert seen(world, "a") == "ab"
    assert world.log_of("c").crashed_at is not None
    world.restart("c")
    assert world.view_of("c") is None
    world.run(0.5)
    world.join("c")
    assert world.settle(30.0)
    assert seen(world, "a") == "abc"
    assert world.id_of("c") != first
    assert [log.member for log in world.logs_of()][-1] == world.id_of("c")
    assert len(world.logs_of()) == 4


def test_a_crash_in_the_middle_of_a_turn_loses_what_the_turn_did() -> None:
    """A node could not die between deciding to send and sending, where the hard cases are."""
    world = gathered()
    first = world.send("a", b"leaves at once, as the first of a turn does")
    world.send("a", b"never leaves")
    world.crash("a")
    world.run(1.0)
    assert delivered(world.log_of("b")) == [first]


def test_what_an_outsider_said_is_logged_before_what_is_said_after_it() -> None:
    """The oracle would find the causes of messages in the wrong order, and report a promise as broken that was kept."""
    world = NodeWorld(seed=1, nodes=("a", "b", "x"), settings=Settings(batch_messages=1))
    world.create("a", options=GroupOptions(open=True, order="causal"))
    world.run(1.0)
    world.join("b")
    assert world.settle(10.0)
    world.stop_reading("a")
    world.send_guest("x", b"from outside")
    world.run(0.05)
    world.start_reading("a")
    world.send("a", b"own")
    assert world.settle(20.0)
    assert [event.id.seqno for event in world.log_of("a").events if type(event) is Sent] == [1, 2]
    assert world.check() == []


def test_a_callback_may_crash_its_own_node() -> None:
    """A dead application would go on hearing messages."""
    world = gathered(order="fifo")
    world.on_deliver("b", lambda message, payload, reply_to: world.crash("b"))
    heard: list[Event] = []
    world.on_event("b", lambda group, event: heard.append(event))
    for payload in (b"1", b"2", b"3"):
        world.send("a", payload)
    world.run(1.0)
    assert len(delivered(world.log_of("b"))) == 1
    assert heard == []


def test_a_frozen_node_is_left_behind_and_found_again() -> None:
    """Machines that are swapped out, or under a debugger, would have to be restarted."""
    world = gathered()
    world.pause("c")
    world.send("a", b"while c stands still")
    assert world.wait_for(lambda: seen(world, "a") == "ab", 30.0)
    assert seen(world, "c") == "abc"
    assert world.settle(10.0)
    with pytest.raises(UsageError, match="resume"):
        world.send("c", b"x")
    world.resume("c")
    assert world.settle(30.0)
    assert [seen(world, name) for name in "abc"] == ["abc"] * 3
    assert world.history("a") == world.history("c")
    assert len(world.history("c")) == 1


def test_who_stops_reading_takes_nothing_and_its_timers_run() -> None:
    """The slow consumer, who fills everybody's buffers and dies of none of it, could not be simulated."""
    world = gathered()
    world.stop_reading("c")
    sent = sum(count for (source, _, _), count in world.frames.items() if source == "c")
    message = world.send("a", b"x")
    world.run(1.5)
    assert delivered(world.log_of("c")) == []
    assert sum(count for (source, _, _), count in world.frames.items() if source == "c") > sent
    world.start_reading("c")
    assert world.settle(30.0)
    assert delivered(world.log_of("c")) == [message]


def test_the_buffer_of_a_stopped_reader_is_bounded() -> None:
    """A simulated machine would have endless memory for what nobody reads."""
    world = gathered("ab")
    world.stop_reading("b")
    machine = world._process("b")
    for _ in range(BACKLOG_LIMIT + 5):
        machine.arrive(world._process("a").address, b"no frame")
    assert world.drops["backlog_full"] == 5
    world.start_reading("b")
    assert world.node("b").drops.total() == BACKLOG_LIMIT


def test_who_leaves_and_comes_back_is_somebody_new_with_a_log_of_its_own() -> None:
    """The oracles would judge two lives as one."""
    world = gathered()
    first = world.id_of("b")
    world.leave("b")
    assert world.settle(10.0)
    assert seen(world, "a") == "ac"
    assert world.log_of("b").departed_at is not None
    assert not world.is_member("b")
    world.advertise("b")
    world.run(0.5)
    world.join("b", wants=Wants("none"))
    assert world.settle(10.0)
    assert seen(world, "a") == "abc"
    assert world.id_of("b") != first
    assert world.wants[world.id_of("b")] == Wants("none")
    assert world.check() == []


def test_private_messages_are_logged_under_their_numbers() -> None:
    """A lost or doubled private message would go unnoticed."""
    world = gathered()
    b, c = world.id_of("b"), world.id_of("c")
    heard: list[PrivateMessage] = []

    def hear(group: GroupId | None, event: Event) -> None:
        if isinstance(event, PrivateMessage):
            heard.append(event)

    world.on_event("b", hear)
    world.send("a", b"to all")
    assert world.send_to("a", "b", b"to b") == 1
    question = world.ask("a", b"how many?")
    assert world.send_to("a", b, b"to b again") == 3
    assert world.settle(5.0)
    world.reply("b", "a", question, b"two")
    assert world.settle(5.0)
    sent = [(event.to, event.number, event.after) for event in world.log_of("a").events if type(event) is SentPrivately]
    assert sent == [(b, 1, 1), (b, 2, 1), (c, 1, 1), (b, 3, 1)]
    assert [(event.data, event.kind) for event in heard] == [(b"to b", "say"), (b"how many?", "ask"), (b"to b again", "say")]
    assert [event.sender for event in world.log_of("a").events if type(event) is GotPrivately] == [b]
    world.crash("c")
    world.send_to("a", "c", b"too late")
    assert world.settle(30.0)
    returned = [(event.to, event.number) for event in world.log_of("a").events if type(event) is Returned]
    assert returned == [(c, 1), (c, 2)]  # the question too: it was heard, but will never be answered
    assert world.check() == []


def test_what_an_outsider_says_is_its_takers_message() -> None:
    """The oracles would take a guest's words for an invention."""
    world = NodeWorld(nodes="abd")
    world.create("a", options=GroupOptions(open=True))
    world.run(0.5)
    world.join("b")
    assert world.settle(5.0)
    assert world.send_guest("d", b"hello from outside") == 1
    world.run(1.0)
    assert world.settle(5.0)
    assert len(world.history("a")) == 1
    assert sum(type(event) is Sent for log in world.logs_of() for event in log.events) == 1
    assert world.check() == []


def test_a_newcomer_may_take_the_applications_state_instead_of_the_messages() -> None:
    """State transfer could not be tried out where it goes wrong: in the middle of everything."""
    world = NodeWorld(nodes="ab", late="c")
    assert world.gather(options=GroupOptions(order="total"))
    told: dict[str, list[bytes]] = {name: [] for name in "abc"}
    for name in "abc":
        world.on_deliver(name, lambda message, payload, reply_to, name=name: told[name].append(payload))  # type: ignore[misc]

        def put(state: bytes, name: str = name) -> None:
            told[name][:] = state.split()

        world.on_state(name, lambda name=name: b" ".join(told[name]), put)  # type: ignore[misc]
    for payload in (b"1", b"2"):
        world.send("a", payload)
    world.start("c")
    world.run(0.5)
    arrived: list[Event] = []
    world.on_event("c", lambda group, event: arrived.append(event))
    world.join("c", wants=Wants("state"))
    world.send("b", b"3")
    assert world.settle(30.0)
    assert told["a"] == told["b"] == told["c"]
    assert sorted(told["c"]) == [b"1", b"2", b"3"]
    assert [type(event) for event in arrived if isinstance(event, Installed | StateArrived)][:2] == [Installed, StateArrived]
    (adopted,) = (event for event in world.log_of("c").events if type(event) is Adopted)
    assert adopted.have[world.id_of("a")] == [1, 2]
    assert world.check() == []


def test_groups_of_the_same_name_are_told_apart_by_their_ids() -> None:
    """A test would send to the wrong group and blame the protocol."""
    world = NodeWorld(nodes="abc")
    mine, yours = world.create("a"), world.create("b")
    world.run(0.5)
    with pytest.raises(JoinFailed, match="several"):
        world.join("c")
    world.join("c", yours)
    assert world.settle(5.0, yours)
    assert world.is_member("c", yours)
    assert not world.is_member("c", mine)
    assert len(world.logs_of()) == 3
    assert len(world.logs_of(yours)) == 2


def test_everyone_who_founds_by_name_at_once_ends_in_one_group() -> None:
    """The first minute of every deployment would end in as many groups as nodes."""
    world = NodeWorld(nodes="abc")
    for name in "abc":
        world.join(name, create=GroupOptions(order="fifo"))
    assert world.settle(30.0)
    assert [seen(world, name) for name in "abc"] == ["abc"] * 3
    assert world.options_of() == GroupOptions(order="fifo")


def test_sides_are_those_who_reach_each_other_there_and_back() -> None:
    """`settle` would wait for a merge that cannot be, or not for one that must."""
    assert sides("abc", set()) == [["a", "b", "c"]]
    assert sides("", set()) == []
    assert sides("abc", {("a", "b")}) == [["a", "b", "c"]]
    assert sides("ab", {("a", "b")}) == [["a"], ["b"]]
    assert sides("abcd", {(x, y) for x in "ab" for y in "cd"}) == [["a", "b"], ["c", "d"]]


def test_a_minority_that_is_stopped_counts_as_settled() -> None:
    """No scenario with a majority policy could go on after a split."""
    world = gathered(partitions="majority")
    world.partition(["a", "bc"])
    assert world.settle(30.0)
    assert seen(world, "b") == "bc"
    assert not world.member("a").quorum
    world.heal()
    assert world.settle(30.0)
    assert [seen(world, name) for name in "abc"] == ["abc"] * 3


def test_what_makes_no_sense_is_refused_with_what_to_do() -> None:
    """A mistake in a test would look like a fault of the protocols."""
    with pytest.raises(InvalidOption, match="two nodes need two names"):
        NodeWorld(nodes="aa")
    with pytest.raises(InvalidOption, match="the nodes of this world are a, b"):
        NodeWorld(nodes="ab", seeds="z")
    world = NodeWorld(nodes="ab")
    for act in (lambda: world.send("a", b"x"), lambda: world.member("a"), lambda: world.history("a")):
        with pytest.raises(UsageError, match="let it join"):
            act()
    with pytest.raises(UsageError, match="not heard of it"):
        world.leave("a")
    with pytest.raises(UsageError, match="never in g"):
        world.id_of("a")
    with pytest.raises(UsageError, match="nobody has created"):
        world.options_of()
    with pytest.raises(JoinFailed, match="advertise"):
        world.join("a")
    with pytest.raises(InvalidOption, match="nodes of this world"):
        world.join("z")
    with pytest.raises(UsageError, match="alive"):
        world.restart("a")
    world.create("a")
    with pytest.raises(UsageError, match="never in g"):
        world.send_to("a", "b", b"x")
