"""A reader that does not read: its node knows, takes nothing more, and the group waits for it or goes on without it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from antiphon.debugger.rule import Rule
from antiphon.errors import WouldBlock
from antiphon.model.events import Installed, PrivateMessage, Recovered, Writable

WINDOW = 16
ORDERS = ["unordered", "fifo", "causal", "total", "semantic"]
MULTICASTS = ["reliable", "flood", "tree"]


def fill(world: Any, name: str, limit: int = 10_000) -> int:
    """Sends until it is refused; says how many were accepted."""
    for accepted in range(limit):
        try:
            world.send(name, b"%s-%d" % (name.encode(), accepted))
        except WouldBlock:
            return accepted
    raise AssertionError("nothing ever slowed the sender down")


def press(world: Any, names: str, rounds: int = 40) -> int:
    """Lets these send as much as they may, for a while; says how many were accepted."""
    sent = 0
    for _ in range(rounds):
        for name in names:
            sent += fill(world, name)
        world.run(0.05)
    return sent


def kept(world: Any, name: str) -> int:
    """Messages that a member keeps below its application, for repairs or because they wait."""
    stats = world.member(name).stats()
    return int(stats["kept_frames"]) + int(stats["held"])


@pytest.mark.parametrize("multicast", MULTICASTS)
@pytest.mark.parametrize("order", ORDERS)
def test_senders_wait_for_a_reader_that_pauses_and_nothing_is_lost(gathered: Any, order: str, multicast: str) -> None:
    """One stalled application would fill the memory of its node and of all others, or lose or repeat what it had not read."""
    world = gathered("abc", order=order, multicast=multicast, window=WINDOW)
    sent = press(world, "abc", 3)
    assert world.settle(10.0)
    before = len(world.stream("c"))
    assert before == sent
    world.pause_reader("c")
    sent += press(world, "ab")
    assert len(world.stream("c")) - before == 0
    assert len(world.stream("a")) <= before + 2 * WINDOW
    assert all(kept(world, name) <= 4 * WINDOW for name in "abc")
    lags = world.member("a").stats()["lag_by_member"]
    assert lags[world.id_of("c")] > 0
    assert world.endpoint("c").stats()["drops"]["reader_paused"] > 0
    waiting = len(world.told("a", Writable))
    world.resume_reader("c")
    assert world.settle(10.0)
    assert world.wait_for(lambda: len(world.told("a", Writable)) > waiting, 1.0)
    sent += press(world, "abc", 5)
    assert world.settle(10.0)
    for name in "abc":
        assert len(world.stream(name)) == sent
        assert sorted(world.stream(name)) == sorted(world.stream("a"))
    assert world.check() == []


def test_who_does_not_read_may_not_send_and_is_told_when_it_may(gathered: Any) -> None:
    """A program that answers whatever it reads, and is stuck, would go on filling the others' queues."""
    world = gathered("abc", window=WINDOW)
    world.pause_reader("c")
    with pytest.raises(WouldBlock, match="not read"):
        world.send("c", b"no")
    machine = world._process("c")
    with pytest.raises(WouldBlock, match="not read"):
        machine.acting().submit_many(machine.now(), world.member("c").group, [b"no", b"no"])
    assert world.endpoint("c").credit == 0
    world.run(1.0)
    assert world.told("c", Writable) == []
    world.resume_reader("c")
    world.run(0.1)
    assert len(world.told("c", Writable)) == 1
    world.send("c", b"yes")
    assert world.settle(5.0)
    assert world.check() == []


def test_while_paused_nothing_is_asked_for_and_after_it_at_once(gathered: Any) -> None:
    """A node whose application is stuck would ask for what it does not take, over and over; or be late with it when it reads again."""
    world = gathered("abc", window=WINDOW)
    world.pause_reader("c")
    fill(world, "a")
    world.rules.append(Rule.parse("drop data to c"))
    fill(world, "b")  # of these it hears by digests alone
    before = world.endpoint("c").stats()["requests_sent"]
    world.run(5.0)
    world.rules.clear()
    assert world.endpoint("c").stats()["gaps"] == 2 * WINDOW
    assert world.endpoint("c").stats()["requests_sent"] == before
    world.resume_reader("c")
    world.run(0.01)
    assert world.endpoint("c").stats()["requests_sent"] == before + 1
    assert world.wait_for(lambda: len(world.stream("c")) == len(world.stream("a")), 0.5)


def test_private_messages_and_questions_go_on(gathered: Any) -> None:
    """Nobody could ask the stuck program how it is."""
    world = gathered("abc", window=WINDOW)
    world.pause_reader("c")
    question = world.ask("a", b"are you there?", to="c")
    world.run(1.0)
    world.reply("c", "a", question, b"yes, busy")
    world.run(1.0)
    assert [event.data for event in world.told("a", PrivateMessage)] == [b"yes, busy"]
    world.resume_reader("c")
    assert world.settle(5.0)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("who", ["a", "c"])
def test_a_view_change_does_not_hang_on_it(gathered: Any, order: str, who: str) -> None:
    """A member could neither come nor go, nor a dead one be put out, while one application is stuck."""
    world = gathered("abcd", order=order, window=WINDOW, world={"late": "e"})
    others = "abcd".replace(who, "").replace("d", "")
    world.pause_reader(who)
    sent = press(world, others, 5)
    world.crash("d")
    assert world.wait_for(lambda: all(world.seen(name) == "abc" for name in "abc"), 10.0)
    sent += press(world, others, 5)
    world.start("e")
    world.run(0.5)
    world.join("e")
    assert world.wait_for(lambda: all(world.seen(name) == "abce" for name in "abce"), 10.0)
    # What a view ends with is delivered also here: no more than was under way.
    assert len(world.stream(who)) <= 2 * len(others) * WINDOW
    sent += press(world, others, 5)
    assert world.stream(who) == [] or len(world.stream(who)) < sent
    world.resume_reader(who)
    assert world.settle(10.0)
    for name in "abc":
        assert len(world.stream(name)) == sent
    assert world.alike("abce")
    assert world.check() == []


@pytest.mark.parametrize("partitions", ["continue", "majority"])
@pytest.mark.parametrize("order", ["fifo", "total"])
def test_evict_puts_it_out_and_it_comes_back_when_it_reads(gathered: Any, order: str, partitions: str) -> None:
    """One stuck application would stop a group for ever; or be put out and taken back without end, and be given more each time."""
    world = gathered("abc", order=order, window=WINDOW, slow="evict", slow_s=2.0, partitions=partitions)
    world.pause_reader("c")
    sent = press(world, "ab", 10)
    assert world.wait_for(lambda: world.seen("a") == world.seen("b") == "ab", 10.0)
    views = len(world.told("a", Installed))
    for _ in range(20):
        sent += press(world, "ab", 10)
        world.run(1.0)
    assert world.seen("a") == "ab", "it has not been taken back"
    assert len(world.told("a", Installed)) == views
    assert len(world.stream("c")) <= 2 * WINDOW
    world.resume_reader("c")
    assert world.settle(30.0)
    assert world.seen("a") == world.seen("c") == "abc"
    assert world.told("c", Recovered)
    for name in "abc":
        assert len(world.stream(name)) == sent
    assert world.alike()
    assert world.check() == []


@pytest.mark.parametrize("paused", ["a", "d", "ad", "abcd"])
@pytest.mark.parametrize("order", ["fifo", "causal", "total"])
def test_both_sides_of_a_partition_go_on_and_merge(gathered: Any, order: str, paused: str) -> None:
    """A stuck application on one side would keep the sides from finding together, or lose what the other side said."""
    world = gathered("abcde", order=order, window=WINDOW)
    for name in paused:
        world.pause_reader(name)
    world.partition(["abc", "de"])
    sent = press(world, "".join(name for name in "abcde" if name not in paused), 60)
    assert world.seen("b") == "abc"
    assert world.seen("e") == "de"
    world.heal()
    assert world.wait_for(lambda: all(world.seen(name) == "abcde" for name in "abcde"), 20.0)
    sent += press(world, "e", 3)
    for name in paused:
        world.resume_reader(name)
    assert world.settle(30.0)
    for name in "abcde":
        assert len(world.stream(name)) == sent
    assert world.alike()
    assert world.check() == []


def test_who_is_cut_off_alone_while_it_does_not_read_comes_back_later(gathered: Any) -> None:
    """A merge would bring all that the others said to a program that does not take it."""
    world = gathered("abc", window=WINDOW)
    world.pause_reader("c")
    world.partition(["ab", "c"])
    sent = press(world, "ab", 80)
    world.heal()
    sent += press(world, "ab", 80)
    assert world.seen("a") == "ab"
    assert len(world.stream("c")) <= 2 * WINDOW
    world.resume_reader("c")
    assert world.settle(20.0)
    assert world.seen("c") == "abc"
    assert len(world.stream("c")) == sent
    assert world.check() == []


def test_who_pauses_before_its_first_view_is_paused_in_it(gathered: Any) -> None:
    """A program that joins and does not read yet would be given everything that is said meanwhile."""
    world = gathered("ab", window=WINDOW, world={"late": "c"})
    world.start("c")
    world.run(0.5)
    world.join("c")
    world.pause_reader("c")
    assert world.wait_for(lambda: world.seen("a") == world.seen("c") == "abc", 10.0)
    assert world.wait_for(lambda: world.member("c").settled, 10.0)
    sent = press(world, "ab", 20)
    assert sent <= 2 * WINDOW
    assert len(world.stream("c")) <= 2 * WINDOW
    world.resume_reader("c")
    assert world.settle(10.0)
    assert len(world.stream("c")) == sent
    assert world.check() == []


def test_one_that_does_not_read_accuses_nobody(gathered: Any) -> None:
    """A stuck member would have others put out of the view for its own stop."""
    world = gathered("abc", window=WINDOW, slow="evict", slow_s=1.0)
    fill(world, "c")
    world.pause_reader("b")
    world.pause_reader("c")
    with suppress(WouldBlock):
        world.send("c", b"refused")
    world.run(20.0)
    assert world.seen("a") == "abc"
    world.resume_reader("b")
    world.resume_reader("c")
    assert world.settle(10.0)
    assert world.check() == []


def test_besteffort_loses_what_is_not_read_and_says_so(gathered: Any) -> None:
    """In a group without repair a stuck reader would be fed all the same, without bound."""
    world = gathered("ab", order="unordered", multicast="besteffort")
    world.pause_reader("b")
    for _ in range(50):
        world.send("a", b"x")
        world.run(0.01)
    assert world.stream("b") == []
    assert world.endpoint("b").stats()["drops"]["reader_paused"] == 50
    world.resume_reader("b")
    world.send("a", b"last")
    world.run(1.0)
    assert world.payloads("b") == [b"last"]
