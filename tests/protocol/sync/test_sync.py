"""Member synchronisation between histories: the illustration of the protocol, merges, suppression, chunks, loss."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from antiphon.model.control import SyncAnswer, Wants
from antiphon.protocol.sync.ledger import Ledger


def answers(bus: Any) -> list[tuple[str, list[str]]]:
    """Who answered with which messages."""
    return [
        (name, [f"{item.sender}{seqno}" for item in frame.items for seqno in range(item.low, item.high + 1)])
        for name, frame in bus.log
        if type(frame) is SyncAnswer
    ]


def test_the_illustration_of_the_protocol(make_bus: Any) -> None:
    """Members that were told what another had already been given would send it again, or nobody would send the rest."""
    for seed in range(40):
        bus = make_bus(seed)
        bus.add("A", "B", "C", "D")
        bus.install("A", "B", "C")
        bus.send("A")
        bus.install("A", "B")
        bus.send("A")
        bus.install("A", "B", "C", "D")
        # C did not run the protocol yet, and its pause is the shortest.
        bus.members["C"].sync.active = False
        bus.members["C"].sync._asker.stop()
        bus.members["C"].sync._asker.begin(bus.members["C"].sides, bus.members["C"].sync._side_by_member, ())
        for name in "AB":
            bus.members[name].sync._asker.stop()
        bus.members["C"].port.rng.uniform = lambda low, high: low
        for name in "AB":
            rng = bus.members[name].port.rng
            rng.uniform = lambda low, high, draw=rng.random: high * (0.2 + 0.8 * draw())
        bus.until("D")
        bus.run(5)
        to_d = answers(bus)
        assert to_d[0] == ("C", ["A1"])
        assert [(who, what) for who, what in to_d if what][1:] in ([("A", ["A2"])], [("B", ["A2"])])
        assert bus.members["D"].delivered == ["A1", "A2"]
        assert bus.members["D"].done == 1


@pytest.mark.parametrize("order", ["fifo", "total"])
@pytest.mark.parametrize("seed", range(5))
def test_both_sides_of_a_partition_get_everything_once(make_bus: Any, order: str, seed: int) -> None:
    """After a merge one side would lack what the other sent while they were apart."""
    bus = make_bus(seed, order)
    bus.add(*"ABCDE")
    bus.install(*"ABCDE")
    bus.send("A", 3)
    bus.install(*"ABC")
    bus.install(*"DE")
    for name in "ABCDE" * 3:
        bus.send(name, 2)
    bus.install(*"ABCDE")
    bus.until(*"ABCDE")
    for member in bus.members.values():
        assert len(member.delivered) == len(set(member.delivered)) == 33
        assert member.ids() == bus.members["A"].ids()
        assert member.done == 1


@pytest.mark.parametrize("order", ["fifo", "total"])
def test_three_sides_in_every_order(make_bus: Any, order: str) -> None:
    """The canonical order would depend on who met whom first."""
    expected: list[str] | None = None
    for arrival in permutations(("AB", "CD", "E")):
        bus = make_bus(3, order)
        bus.add(*"ABCDE")
        bus.install(*"ABCDE")
        bus.send("A", 2)
        bus.send("B", to="AB")
        bus.send("C", to="CD")
        bus.send("E", to="E")
        for side in ("AB", "CD", "E"):
            # The flush: in total order the sides end their common epoch differently.
            bus.install(*side)
        for name in "ABCDEABCDE":
            bus.send(name, 2)
        first, second, third = arrival
        bus._views = 10
        bus.install(*first, *second)
        bus.until(*first, *second)
        bus._views = 20
        bus.install(*first, *second, *third)
        bus.until(*"ABCDE")
        for member in bus.members.values():
            assert len(member.delivered) == len(set(member.delivered)) == 25
            assert member.ids() == bus.members["A"].ids()
        here = bus.members["A"].ids()
        assert here == (expected or here)
        expected = here


def test_three_sides_at_once(make_bus: Any) -> None:
    """What two sides lack of a third would be asked for before they have each other's, and be missed."""
    bus = make_bus(1, "total")
    bus.add(*"ABCDE")
    bus.install(*"ABCDE")
    for side in ("AB", "CD", "E"):
        bus.send(side[0], 2, to=side)
        bus.install(*side)
        bus.send(side[0], 2)
    bus.install(*"ABCDE")
    bus.until(*"ABCDE")
    assert {tuple(member.ids()) for member in bus.members.values()} == {tuple(bus.members["A"].ids())}
    assert all(len(set(member.delivered)) == len(member.delivered) == 12 for member in bus.members.values())


def test_few_of_twenty_speak(make_bus: Any) -> None:
    """Twenty members would answer every question at once, and as many would ask it."""
    names = [f"m{number:02}x" for number in range(40)]
    bus = make_bus(2)
    bus.add(*names)
    bus.install(*names)
    bus.install(*names[:20])
    bus.install(*names[20:])
    for name in names:
        bus.send(name, 5)
    bus.install(*names)
    bus.until(*names)
    assert all(len(set(member.delivered)) == len(member.delivered) == 200 for member in bus.members.values())
    assert bus.sent["sync-request"] <= 6
    assert bus.sent["sync-answer"] <= 10


def test_a_newcomer_alone_is_answered_once(make_bus: Any) -> None:
    """Every member would send the whole history to every newcomer."""
    names = [f"m{number:02}x" for number in range(20)]
    bus = make_bus(2)
    bus.add(*names, "new")
    bus.install(*names)
    for name in names:
        bus.send(name, 5)
    bus.install(*names, "new")
    bus.until("new")
    assert len(bus.members["new"].delivered) == 100
    assert bus.sent["sync-request"] == 1
    assert bus.sent["sync-answer"] <= 3


@pytest.mark.parametrize("order", ["fifo", "total"])
def test_fifty_thousand_messages_in_chunks(make_bus: Any, order: str) -> None:
    """A long absence would be answered with one burst that no network takes, or never to its end."""
    bus = make_bus(4, order)
    bus.add("A", "B", "C")
    bus.install("A", "B")
    for _ in range(500):
        bus.send("A", 50, payload=bytes(100))
        bus.send("B", 50, payload=bytes(100))
    bus.install("A", "B", "C")
    bus.until("C")
    assert len(bus.members["C"].delivered) == 50_000
    assert bus.members["C"].ids() == bus.members["A"].ids()
    assert bus.largest <= 60_000
    assert 18 <= bus.sent["sync-request"] <= 40


@pytest.mark.parametrize("order", ["fifo", "total"])
@pytest.mark.parametrize("seed", range(6))
def test_a_third_of_everything_is_lost(make_bus: Any, order: str, seed: int) -> None:
    """A lost question or answer would leave a member waiting for ever, or with a hole."""
    bus = make_bus(seed, order, loss=0.3, delay=(0.001, 0.08))
    bus.add(*"ABCD", frame_bytes=1_400, chunk_bytes=20_000)
    bus.install(*"ABCD")
    bus.install(*"AB")
    bus.install(*"CD")
    for name in "ABCD" * 20:
        bus.send(name, 5, payload=bytes(100))
    bus.install(*"ABCD")
    bus.until(*"ABCD", seconds=600)
    for member in bus.members.values():
        assert len(member.delivered) == len(set(member.delivered)) == 400
        assert member.ids() == bus.members["A"].ids()
        assert not member.gaps
    assert bus.largest <= 1_400


def test_a_message_larger_than_a_frame(make_bus: Any) -> None:
    """A message that had been fragmented on its way could not be given to those who come later."""
    bus = make_bus(5, loss=0.2)
    bus.add("A", "B", frame_bytes=1_400)
    bus.install("A")
    bus.send("A", payload=bytes(range(256)) * 2_000)
    bus.send("A")
    bus.install("A", "B")
    bus.until("B")
    assert bus.members["B"].delivered == ["A1", "A2"]
    assert bus.members["B"].history.messages() == bus.members["A"].history.messages()
    assert bus.largest <= 1_400


def test_what_is_sent_meanwhile_is_no_part_of_it(make_bus: Any) -> None:
    """Live messages of the new view would come twice: from their sender and in an answer."""
    bus = make_bus(6)
    bus.add("A", "B")
    bus.install("A")
    bus.send("A")
    bus.install("A", "B")
    bus.send("A", to="A")
    bus.until("B")
    assert bus.members["B"].recovered == ["A1"]


@pytest.mark.parametrize(
    ("wants", "expected"),
    [
        (Wants("all"), 12),
        (Wants("none"), 0),
        (Wants("last", 5), 5),
        (Wants("last", 100), 12),
        (Wants("since", 0, 2.0), 6),
    ],
    ids=["all", "none", "last", "last-of-few", "since"],
)
@pytest.mark.parametrize("order", ["fifo", "total"])
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_what_a_newcomer_wants(make_bus: Any, wants: Wants, expected: int, order: str, loss: float) -> None:
    """A newcomer would be given more of the past than it asked for, or less, or in another order."""
    bus = make_bus(7, order, loss=loss)
    bus.add("A", "B", "N", chunk_bytes=40)
    bus.install("A", "B")
    for turn in range(4):
        bus.now = float(turn)
        bus.send("A", 2)
        bus.send("B")
    bus.members["N"].wants = wants
    bus.install("A", "B", "N")
    bus.until("N", seconds=300)
    everything = bus.members["A"].ids()
    assert bus.members["N"].delivered == everything[len(everything) - expected :]
    assert bus.members["N"].ids() == bus.members["N"].delivered
    assert bus.members["N"].history.have() == bus.members["A"].history.have()
    assert not bus.members["N"].gaps


def test_the_last_messages_of_a_merge(make_bus: Any) -> None:
    """Each side would give its own last messages to a newcomer that comes with the merge."""
    for seed in range(10):
        bus = make_bus(seed)
        bus.add(*"ABN")
        bus.install(*"AB")
        bus.install("A")
        bus.install("B")
        bus.send("A", 10)
        bus.send("B", 10)
        bus.members["N"].wants = Wants("last", 5)
        bus.install(*"ABN")
        bus.until(*"ABN")
        assert bus.members["N"].delivered == bus.members["A"].ids()[-5:]


def test_the_next_view_comes_in_the_middle(make_bus: Any) -> None:
    """A view change during synchronisation would lose what was left, or deliver the beginning again."""
    for seed in range(10):
        bus = make_bus(seed)
        bus.add(*"ABC", chunk_bytes=60)
        bus.install(*"A")
        bus.send("A", 1)
        for _ in range(40):
            bus.send("A", 1)
        bus.members["B"].wants = Wants("last", 20)
        bus.install(*"AB")
        while len(bus.members["B"].delivered) < 5:
            bus.run(0.002)
        assert bus.members["B"].sync.active
        bus.install(*"ABC")
        bus.until(*"BC")
        assert bus.members["B"].delivered == bus.members["A"].ids()[-20:]
        assert bus.members["C"].delivered == bus.members["A"].ids()


@pytest.mark.parametrize("wants", [Wants(), Wants("last", 20)], ids=["all", "last"])
def test_who_has_half_of_the_past_does_not_say_what_is_the_last(make_bus: Any, wants: Wants) -> None:
    """A newcomer that was interrupted would give the last messages of the half it has to one that came after it."""
    for seed in range(10):
        bus = make_bus(seed)
        bus.add(*"ABMN", chunk_bytes=60)
        bus.install(*"AB")
        for _ in range(40):
            bus.send("A")
        bus.members["M"].wants = wants
        bus.install(*"ABM")
        while len(bus.members["M"].delivered) < 8:
            bus.run(0.002)
        assert bus.members["M"].sync.active
        bus.members["N"].wants = Wants("last", 5)
        bus.install(*"ABMN")
        bus.until(*"MN")
        assert bus.members["N"].delivered == bus.members["A"].ids()[-5:]


def test_members_that_were_all_interrupted(make_bus: Any) -> None:
    """Two that were both catching up would each wait for the other to be complete first."""
    bus = make_bus(8)
    bus.add(*"ABC")
    bus.install("A")
    bus.install("B")
    bus.send("A", 3)
    bus.send("B", 3)
    bus.install(*"AB")
    bus.install(*"ABC")
    bus.until(*"ABC")
    assert len({tuple(member.ids()) for member in bus.members.values()}) == 1
    assert all(len(member.delivered) == 6 for member in bus.members.values())


@pytest.mark.parametrize("wants", [Wants("none"), Wants("last", 3), Wants("since", 0, 1e9)], ids=["none", "last", "since"])
@pytest.mark.parametrize("order", ["fifo", "total"])
def test_a_newcomer_misses_nothing_since_it_came(make_bus: Any, wants: Wants, order: str) -> None:
    """A newcomer that was interrupted would count the messages of its own first view among the past that it does not want."""
    for seed in range(5):
        bus = make_bus(seed, order)
        bus.add(*"ABNM")
        bus.install(*"AB")
        bus.send("A", 5)
        bus.members["N"].wants = wants
        bus.install(*"ABN")
        bus.send("A", 4)
        bus.send("B", 4)
        bus.install(*"ABNM")
        bus.until(*"NM")
        past = 3 if wants.kind == "last" else 0
        assert bus.members["N"].delivered == bus.members["A"].ids()[5 - past :]


@pytest.mark.parametrize("later", [Wants("none"), Wants("last", 2), Wants("state")], ids=["none", "last", "state"])
@pytest.mark.parametrize("order", ["fifo", "total"])
def test_a_later_newcomer_does_not_say_what_an_earlier_one_wants(make_bus: Any, later: Wants, order: str) -> None:
    """What the later one never got, the earlier one would take for its own past, and never hear of: it was there when that was sent."""
    bus = make_bus(3, order)
    bus.add(*"ANM")
    bus.install("A")
    bus.members["A"].state = b""
    bus.send("A", 5)
    bus.members["N"].wants, bus.members["M"].wants = Wants("none"), later
    bus.members["N"].alive = False
    # A state stands for messages of the view itself, too: there who comes at the same time is late enough.
    bus.install(*("ANM" if later.kind == "state" else "AN"))
    bus.send("A", 4)
    if later.kind != "state":
        bus.install(*"AM")
    bus.until("M")
    assert bus.members["M"].delivered[:1] != ["A1"]
    bus.members["N"].alive, bus.members["A"].alive = True, False
    bus.install(*"MN")
    bus.until("N")
    ranges = [pair for gap in bus.members["N"].gaps for pair in Ledger.of(gap.lost).ranges_by_sender["A"]]
    lost = {seqno for low, high in ranges for seqno in range(low, high + 1)}
    got = {int(message[1:]) for message in bus.members["N"].delivered}
    assert lost | got >= set(range(6, bus.members["A"].sent + 1))
    assert not lost & got


def test_a_newcomer_in_total_order_takes_the_first_answer(make_bus: Any) -> None:
    """An answer that begins where its asker's wishes do would be refused like one of somebody who knows only the end."""
    bus = make_bus(4, "total")
    bus.add(*"ABCN", frame_bytes=1200)
    bus.install(*"ABC")
    for _ in range(6):
        bus.send("A", payload=bytes(400))
        bus.send("B", payload=bytes(400))
    bus.members["N"].wants = Wants("last", 5)
    bus.install(*"ABCN")
    bus.until("N")
    assert bus.members["N"].delivered == bus.members["A"].ids()[-5:]
    assert bus.sent["sync-request"] == 1


def end_in_two_ways(bus: Any) -> None:
    """A view of A, B, X ends: its last messages came to A and B in another order than to X."""
    bus.install(*"ABX")
    bus.send("A", 3)
    ours, theirs = [bus.send("A", to="AB") for _ in range(4)], [bus.send("X", to="X") for _ in range(4)]
    for batch in ours:
        bus.members["X"].deliver(batch)
    for batch in theirs:
        bus.members["A"].deliver(batch)
        bus.members["B"].deliver(batch)
    bus.install(*"AB")
    bus.install("X")


def merge_with_the_quick(bus: Any, quick: Any, unheard: int) -> None:
    """All meet. Those who know do not hear X at first, and `quick` answers as soon as it may."""
    bus.install(*bus.members)
    for member in bus.members.values():
        plan = member.sync._answerer.plan
        if member is not quick:
            member.sync._answerer.plan = lambda asked, plan=plan: plan(asked) if asked.asker != "X" or asked.attempt >= unheard else None
    quick.port.rng.uniform = lambda low, high: low
    bus.until(*bus.members)


@pytest.mark.parametrize("wants", [Wants("none"), Wants("last", 1), Wants("state")], ids=["none", "last", "state"])
@pytest.mark.parametrize("unheard", [0, 1, 2])
def test_who_came_later_does_not_say_that_all_of_an_epoch_has_been_told(make_bus: Any, wants: Wants, unheard: int) -> None:
    """A newcomer that cannot know how a view ended would be believed that there is no more to tell of it, and histories would differ."""
    for seed in range(5):
        bus = make_bus(seed, "total")
        a, b, x, n = bus.add(*"ABXN", chunk_bytes=60)
        end_in_two_ways(bus)
        a.state, n.wants = b"", wants
        bus.install(*"ABN")
        bus.until("N")
        merge_with_the_quick(bus, n, unheard)
        assert x.ids() == a.ids() == b.ids()
        assert x.ids() != x.delivered


@pytest.mark.parametrize("unheard", [0, 1, 2])
def test_who_forgot_how_an_epoch_ended_does_not_say_that_all_of_it_has_been_told(make_bus: Any, unheard: int) -> None:
    """A member that keeps less than others would be believed that there is no more to tell, and the order would be lost with its memory."""
    for seed in range(5):
        bus = make_bus(seed, "total")
        a, x = bus.add(*"AX", chunk_bytes=60)
        [b] = bus.add("B", chunk_bytes=60, history_messages=1)
        end_in_two_ways(bus)
        bus.send("B")
        merge_with_the_quick(bus, b, unheard)
        assert x.ids() == a.ids()
        assert x.ids() != x.delivered


def test_a_side_of_which_nobody_was_there_says_so_in_the_end(make_bus: Any) -> None:
    """Those who came later would leave it to each other to say that there is nothing more, and the asker would ask for ever."""
    bus = make_bus(5, "total")
    *_, x, n, m = bus.add(*"AXNM")
    bus.install(*"AX")
    bus.send("A", 3)
    bus.install("A")
    bus.install("X")
    n.wants = m.wants = Wants("none")
    bus.install(*"ANM")
    bus.until(*"NM")
    bus.install(*"NM")
    bus.install(*"NMX")
    asked = x.sync.stats()["sync_questions"]
    bus.until(*"NMX")
    # Once for the names of the epochs, and then three times the same.
    assert x.sync.stats()["sync_questions"] - asked <= 4
    assert x.ids() == ["A1", "A2", "A3"]
