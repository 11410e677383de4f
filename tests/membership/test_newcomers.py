"""What a newcomer gets of the time before it came: all, nothing, some, or the application's state."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.debugger.rule import Rule
from antiphon.model.control import Wants
from antiphon.model.events import Installed, MissedMessages, Recovered, StateArrived, StateWanted, Synchronised
from antiphon.model.ids import MessageId
from antiphon.model.options import GroupOptions
from antiphon.sim.network import NetworkModel, Uniform

ORDERS = ["unordered", "fifo", "causal", "total", "semantic"]
JITTER = NetworkModel(latency=Uniform(0.001, 0.03), loss=0.05, reorder=0.1)


def founded(company: Any, order: str = "fifo", members: str = "abc", late: str = "x", seed: int = 7, **world: Any) -> Any:
    """A group with a past, and a node that has heard of it."""
    made = company(members, seed, late=late, **world)
    assert made.gather(options=GroupOptions(order=order))
    for number in range(6):
        made.burst(members, 1, f"past{number}")
        made.run(0.05)
    assert made.settle(10.0)
    for name in late:
        made.start(name)
    for _ in range(20):
        if made.wait_for(lambda: all(made.known(name) for name in late), 1.0):
            return made
        for name in late:
            made.advertise(name)
    raise AssertionError("the group was not heard of")


def before_and_after(world: Any, name: str) -> tuple[list[MessageId], list[MessageId]]:
    """What a newcomer recovered, and what it delivered of its views."""
    recovered, live = [], []
    for _, event in world.heard[name]:
        if type(event) is Recovered:
            recovered += [MessageId(event.batch.sender, seqno) for seqno in range(event.low, event.high + 1)]
        elif type(event) is tuple:
            live += [MessageId(event[0].sender, seqno) for seqno in range(event[1], event[2] + 1)]
    return recovered, live


@pytest.mark.parametrize("order", ORDERS)
def test_who_wants_all_gets_all_in_order_before_anything_new(company: Any, order: str) -> None:
    """Who opens a chat would miss its beginning, or read the end first."""
    world = founded(company, order)
    past = world.history("a")
    world.join("x")
    new = world.burst("abc", 2, "new")
    assert world.settle(20.0)
    recovered, live = before_and_after(world, "x")
    assert recovered[: len(past)] == past
    assert sorted(recovered + live) == sorted(past + new)
    kinds = [type(event) for group, event in world.heard["x"] if group is not None]
    assert kinds.index(Installed) < kinds.index(Recovered) < kinds.index(Synchronised)
    assert tuple not in kinds[: kinds.index(Synchronised)]
    assert world.alike()
    assert world.check() == []


@pytest.mark.parametrize("order", ORDERS)
def test_who_wants_nothing_gets_what_comes_after_it(company: Any, order: str) -> None:
    """A device with little memory would be flooded with a year of history; or miss what is said in its presence."""
    world = founded(company, order)
    past = world.history("a")
    world.join("x", wants=Wants("none"))
    assert world.settle(20.0)
    new = world.burst("abcx", 2, "new")
    assert world.settle(20.0)
    assert not set(world.stream("x")) & set(past)
    assert sorted(world.stream("x")) == sorted(new)
    assert world.told("x", MissedMessages) == []
    assert world.check() == []


@pytest.mark.parametrize("count", [1, 5, 18, 100])
@pytest.mark.parametrize("order", ORDERS)
def test_who_wants_the_last_few_gets_exactly_them(company: Any, order: str, count: int) -> None:
    """“The last five messages” would be any five, or as many as happened to be in one batch."""
    world = founded(company, order)
    past = world.history("a")
    assert len(past) == 18
    world.join("x", wants=Wants("last", count))
    assert world.settle(20.0)
    assert world.stream("x") == past[-count:]
    new = world.burst("abcx", 1, "new")
    assert world.settle(20.0)
    assert sorted(world.stream("x")) == sorted(past[-count:] + new)
    assert world.told("x", MissedMessages) == []
    assert world.check() == []


@pytest.mark.parametrize("order", ORDERS)
def test_who_wants_what_was_sent_since_a_time_gets_that(company: Any, order: str) -> None:
    """“Everything since noon” would begin in the morning, or after lunch."""
    world = founded(company, order)
    entries = [
        (batch.sent_at, MessageId(batch.sender, seqno))
        for batch, low, high in world.member("a").history()
        for seqno in range(low, high + 1)
    ]
    noon = sorted(entries)[7][0]
    world.join("x", wants=Wants("since", since=noon))
    assert world.settle(20.0)
    assert world.stream("x") == [message for sent_at, message in entries if sent_at >= noon]
    assert world.told("x", MissedMessages) == []
    assert world.check() == []


def counting(world: Any, name: str) -> list[bytes]:
    """An application whose state is the list of everything it was told."""
    told: list[bytes] = []
    world.on_deliver(name, lambda message, payload, reply_to: told.append(payload))

    def adopt(state: bytes) -> None:
        told[:] = state.split(b"\n") if state else []

    world.on_state(name, lambda: b"\n".join(told), adopt)
    return told


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("order", ORDERS)
def test_a_state_and_what_follows_it_are_everything_once(company: Any, order: str, seed: int) -> None:
    """A replica that starts from a copy would miss what was said while it was copied, or apply it twice."""
    world = founded(company, order, seed=seed, late="", members="abcx")
    world.leave("x")
    world.run(2.0)
    tables = {name: counting(world, name) for name in "abcx"}
    sent = []
    for number in range(4):
        sent += world.burst("abc", 1, f"again{number}")
        world.run(0.05)
    assert world.settle(10.0)
    world.network = JITTER
    world.join("x", wants=Wants("state"))
    for number in range(20):
        sent += world.burst("abc", 1, f"load{number}")
        world.run(0.05)
    world.network = NetworkModel()
    assert world.settle(20.0)
    assert len(world.told("x", StateArrived)) == 1
    assert sorted(tables["x"]) == sorted(tables["a"]) == sorted(tables["b"])
    assert len(tables["x"]) == len(set(tables["x"])) == len(sent)
    if order == "total":
        assert tables["x"] == tables["a"] == tables["b"] == tables["c"]
    kinds = [type(event) for group, event in world.heard["x"] if group is not None]
    arrived = kinds.index(StateArrived)
    came = max(index for index, kind in enumerate(kinds[:arrived]) if kind is Installed)
    assert not {tuple, Recovered} & set(kinds[came:arrived])  # nothing that the state stands for, nor anything else before it
    assert world.check() == []


def test_a_large_state_arrives_in_pieces(company: Any, quick: Any) -> None:
    """A state larger than a datagram could not be given away at all."""
    world = company("abc", late="x", settings=quick(frame_bytes=1_400), network=JITTER)
    assert world.gather()
    state = bytes(range(251)) * 2_000
    got: list[bytes] = []
    for name in "abc":
        world.on_state(name, lambda: state, got.append)
    world.on_state("x", lambda: b"", got.append)
    world.start("x")
    assert world.wait_for(lambda: bool(world.known("x")), 20.0)
    world.join("x", wants=Wants("state"))
    assert world.settle(60.0)
    assert got == [state]
    assert sum(count for (_, destination, kind), count in world.frames.items() if (destination, kind) == ("x", "state-piece")) > 300


@pytest.mark.parametrize("seed", range(4))
def test_when_the_provider_dies_another_gives_its_state(company: Any, quick: Any, seed: int) -> None:
    """A newcomer would wait for ever for the second half of a dead member's state."""
    world = company("abc", seed, late="x", settings=quick(frame_bytes=1_400))
    assert world.gather()
    applied = {name: counting(world, name) for name in "abcx"}
    world.burst("abc", 60)
    assert world.settle(10.0)
    for name in "abc":
        applied[name].insert(0, b"filling" * 200_000)
    world.start("x")
    assert world.wait_for(lambda: bool(world.known("x")), 10.0)
    world.join("x", wants=Wants("state"))

    def provider() -> str:
        return next((name for name in "abc" if world.alive(name) and world.frames[name, "x", "state-piece"] > 0), "")

    assert world.wait_for(lambda: provider() != "", 20.0)
    first = provider()
    assert world.told("x", StateArrived) == []
    world.crash(first)
    rest = "abc".replace(first, "")
    world.burst(rest, 2, "after")
    assert world.settle(30.0)
    assert len(world.told("x", StateArrived)) == 1
    assert sum(len(world.told(name, StateWanted)) for name in rest) >= 1
    assert sorted(applied["x"]) == sorted(applied[rest[0]])
    assert world.check() == []


def test_where_nobody_gives_a_state_all_messages_come(company: Any) -> None:
    """A newcomer that asks applications without a state would end up with nothing."""
    world = founded(company)
    past = world.history("a")

    def decline(name: str) -> None:
        world.on_event(name, lambda group, event: type(event) is StateWanted and give(name, group, event.snapshot))

    def give(name: str, group: Any, snapshot: int) -> None:
        world.at(world.now, lambda: world.member(name).catching_up.snapshot.provide(snapshot, None))

    for name in "abc":
        decline(name)
    world.join("x", wants=Wants("state"))
    assert world.settle(60.0)
    assert world.told("x", StateArrived) == []
    assert sorted(world.stream("x")) == sorted(past)
    assert world.check() == []


def test_a_newcomer_that_dies_in_the_middle_leaves_no_trace(company: Any) -> None:
    """A visitor that crashes while it catches up would stop the group."""
    world = founded(company, "total")
    world.rules.append(Rule.parse("hold sync-answer"))
    world.join("x")
    assert world.wait_for(lambda: world.seen("a") == "abcx", 10.0)
    world.crash("x")
    world.rules.clear()
    sent = world.burst("abc", 2)
    assert world.settle(20.0)
    assert world.seen("a") == "abc"
    assert set(sent) <= set(world.stream("c"))
    assert world.check() == []


# -- who keeps ids only --------------------------------------------------------------------------------------------------------------


def mixed(company: Any, quick: Any, keepers: str, forgetful: str, late: str = "x") -> Any:
    """A world in which some nodes keep only the ids of messages."""
    world = company(keepers, late=forgetful + late)
    usual, world.settings = world.settings, quick(retention="ids")
    for name in forgetful:
        world.start(name)
    world.settings = usual
    assert world.gather()
    return world


def kept(world: Any, name: str) -> dict[str, Any]:
    return world.member(name).past.stats()  # type: ignore[no-any-return]


def test_who_keeps_ids_only_holds_no_payloads(company: Any, quick: Any) -> None:
    """A small device would keep every payload although it said that it cannot."""
    world = mixed(company, quick, "ab", "c")
    for _ in range(5):
        world.burst("abc", 1, "a payload of some length ")
        world.run(0.05)
    assert world.settle(10.0)
    assert kept(world, "a")["history_bytes"] >= 15 * 20
    assert kept(world, "c")["history_bytes"] == 0
    assert world.history("c") == []
    assert len(world.history("a")) == 15
    world.start("x")
    world.run(0.5)
    world.join("x")
    assert world.settle(20.0)
    assert world.history("x") == world.history("a")
    assert world.told("x", MissedMessages) == []
    assert world.check() == []


def test_when_only_ids_are_left_a_newcomer_is_told_of_the_gap(company: Any, quick: Any) -> None:
    """The past would be lost with the last who kept it, and nobody who comes later would know that there was one."""
    world = mixed(company, quick, "a", "bc")
    sent = world.burst("abc", 3)
    assert world.settle(10.0)
    world.crash("a")
    world.run(5.0)
    assert world.seen("b") == "bc"
    world.start("x")
    assert world.wait_for(lambda: bool(world.known("x")), 10.0)
    world.join("x")
    assert world.settle(30.0)
    (gap,) = world.told("x", MissedMessages)
    lost = {
        MessageId(sender, seqno)
        for sender, flat in gap.lost.items()
        for low, high in zip(flat[::2], flat[1::2], strict=True)
        for seqno in range(low, high + 1)
    }
    assert lost == set(sent)
    assert world.stream("x") == []
    new = world.burst("bcx", 1, "new")
    assert world.settle(10.0)
    assert sorted(world.stream("x")) == sorted(new)
    assert world.check() == []


def test_a_side_of_ids_only_members_tells_the_other_of_the_gap(company: Any, quick: Any) -> None:
    """After a merge one side would lack the other's messages without a word."""
    world = mixed(company, quick, "ab", "cd", late="")
    world.partition(["ab", "cd"])
    world.run(3.0)
    lost, found = world.burst("cd", 2), world.burst("ab", 2)
    world.run(0.5)
    world.heal()
    assert world.settle(20.0)
    for name in "ab":
        (gap,) = world.told(name, MissedMessages)
        assert gap.lost == {world.id_of("c"): [1, 2], world.id_of("d"): [1, 2]}
    for name in "cd":
        assert set(world.stream(name)) == set(lost + found)
        assert world.told(name, MissedMessages) == []
    assert world.check() == []


@pytest.mark.parametrize("seed", range(4))
def test_an_answer_that_overtakes_its_question_is_taken_by_those_who_listen(company: Any, seed: int) -> None:
    """Of several newcomers one asks and the others listen. The answer comes another way than the question, and may be faster: whoever heard
    it first would then listen in vain, for a second each."""
    world = company("abcd", seed)
    world.create("a", "g")
    world.run(1.0)
    for name in "bcd":
        # The question reaches the one that answers at once, and the other newcomers later than the answer.
        world.rules += [Rule.parse(f"delay 10ms sync-request from {name} to {other}") for other in "bcd" if other != name]
    for name in "bcd":
        world.join(name, "g", wants=Wants(kind="none"))
    assert world.wait_for(lambda: all(world.is_member(name) and world.view_of(name) is not None for name in "bcd"), 10.0)
    assert all(len(world.view_of(name).members) == 4 for name in "abcd")
    assert world.wait_for(lambda: all(world.member(name).synchronised for name in "bcd"), 0.4)
