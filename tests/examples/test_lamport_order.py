"""An ordering of a user's own: one file outside the package, which groups, oracles and the swarm take like any other."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

import antiphon
from antiphon.errors import InvalidOption, WouldBlock
from antiphon.model.frames import Record
from antiphon.model.options import GroupOptions
from antiphon.protocol.registry import ORDERS
from antiphon.sim.oracles import ORACLES, PROMISES
from antiphon.sim.swarm import Case, campaign
from antiphon.testing import batch, delivers, drops, got, holds, nothing, pair, play, record, records, refuses, sends, view

FILE = Path(__file__).parents[2] / "examples" / "lamport_order.py"

spec = importlib.util.spec_from_file_location("lamport_order", FILE)
assert spec is not None
assert spec.loader is not None
lamport_order = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lamport_order)
Lamport = lamport_order.Lamport


@pytest.fixture
def registered() -> Iterator[None]:
    """The order is known for one test; the other tests speak of the orders that are Antiphon's own."""
    tables: tuple[dict[str, object], ...] = (ORDERS, PROMISES, ORACLES)  # type: ignore[assignment]
    before = [dict(table) for table in tables]
    lamport_order.register()
    yield
    for table, entries in zip(tables, before, strict=True):
        table.clear()
        table.update(entries)


def test_the_example_runs_as_it_stands() -> None:
    """Who tries the example first must see it work, and work outside the package."""
    assert Path(antiphon.__file__).parent not in FILE.parents
    done = subprocess.run([sys.executable, str(FILE)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    *readers, swarm = done.stdout.splitlines()
    assert len(readers) == 3
    assert len({line.partition(" reads ")[2] for line in readers}) == 1
    assert swarm.endswith("0 violations, 0 stalled, 0 errors")


def test_importing_the_file_registers_nothing() -> None:
    """A module that changes tables when it is imported would change them for everybody who only looks at it."""
    assert "lamport" not in ORDERS


# -- played by hand ----------------------------------------------------------------------------------------------------------------


def test_a_message_waits_until_everybody_was_heard_from() -> None:
    """A silent member might still send something that comes before: delivering now would put it in different places."""
    book = play(Lamport, members="ABC") >> got(batch("B", 1, stamp=[1])) << records([1, 0]) << holds(1)
    book << delivers() >> got(record("C", 1, 1, [1, 0])) << delivers("B1") << holds(0)


def test_timestamps_decide_and_ranks_break_ties() -> None:
    """Two members that send at once would be read in the order of arrival, which is another one everywhere."""
    b1, c1, d1 = batch("B", 1, stamp=[1]), batch("C", 1, stamp=[1]), batch("D", 1, stamp=[2])
    for arrival in permutations((b1, c1, d1)):
        book = play(Lamport)
        told: list[str] = []
        for frame in (*arrival, record("B", 1, 1, [2, 1]), record("C", 1, 1, [2, 1])):
            book = book >> got(frame)
            told += book.delivered()
        assert told == ["B1", "C1", "D1"]


def test_an_own_message_is_above_what_was_received_and_is_an_acknowledgement() -> None:
    """A reaction would overtake its cause; and a record for what a batch says already would cost a frame for nothing."""
    book = play(Lamport, members="AB") >> got(batch("B", 1, stamp=[7])) << records([7, 0]) << delivers("B1") >> sends(b"x")
    book << nothing() << holds(1) >> got(record("B", 1, 1, [8, 1])) << delivers("A1")


def test_what_is_early_is_above_too() -> None:
    """A message that arrived beyond a gap was received: what is sent now comes after it."""
    book = play(Lamport, members="AB") >> got(batch("B", 2, stamp=[7])) << records([7, 0]) << holds(1) >> sends(b"x") << holds(2)
    book >> got(batch("B", 1, stamp=[3])) << delivers("B1", "B2") << holds(1) >> got(batch("B", 3, stamp=[9]))
    book << delivers("A1", "B3") << holds(0)


def test_an_acknowledgement_that_overtakes_its_data_waits_for_it() -> None:
    """Records lie in a stream of their own: counted at once, this one would hide a message with a lower timestamp."""
    book = play(Lamport, members="ABC") >> got(record("B", 1, 1, [5, 1])) >> got(batch("C", 1, stamp=[3])) << holds(1) << delivers()
    book >> got(batch("B", 1, stamp=[2])) << delivers("B1", "C1") << holds(0)


def test_a_batch_that_came_in_part_says_nothing_about_its_rest() -> None:
    """The rest has the same timestamp, and would be overtaken by a member of higher rank."""
    whole = batch("B", 1, b"1", b"2", stamp=[1])
    book = play(Lamport, members="ABC") >> got(batch("C", 1, stamp=[1])) >> got(whole, 1, 1) << delivers() << holds(2)
    book >> got(whole, 2, 2) << delivers("B1", "B2", "C1")


def test_a_new_view_ends_the_waiting_for_the_dead() -> None:
    """A member that has crashed is never heard from again; what all survivors hold must still be delivered, alike."""
    book = play(Lamport, members="ABC") >> got(batch("B", 1, stamp=[2])) >> got(batch("B", 3, stamp=[4])) << holds(2) >> view("A", "B")
    book << delivers("B1") << holds(0) << drops("lost_predecessor")


def test_what_is_no_timestamp_is_refused() -> None:
    """One broken peer could push everybody's clock to its end, or stop the member with an exception."""
    for stamp in ([], [0], [-1], [1, 1], [1 << 60], b"x"):
        play(Lamport) >> got(batch("B", 1, stamp=stamp)) << refuses("malformed_stamp") << holds(0)
    for body in (None, [1], [0, 0], [1, -1], [1 << 60, 0], b"x"):
        play(Lamport) >> got(record("B", 1, 1, body)) << drops("malformed_record")


def test_a_batch_without_any_stamp_is_dropped_by_all_alike() -> None:
    """It has no place in the order; delivered at once it would have another one at every member."""
    play(Lamport, members="AB") >> got(batch("B", 1, stamp=[1])) << delivers("B1")
    book = play(Lamport, members="AB")
    book.ordering.accept(batch("B", 1), 1, 1)
    book >> got(batch("B", 2, stamp=[1])) << delivers("B2") << holds(0) << drops("missing_stamp")


# -- in a group --------------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("registered")
def test_one_can_ask_whom_a_message_waits_for() -> None:
    """An order in which one silent member stops everybody must be able to say which."""
    three = pair("lamport", names=("ana", "ben", "eva"))
    three.rule("drop frames from eva")
    sent = three.send("ana", b"x")
    three.wait(1.0)
    assert three.endpoint["ben"].why(sent).reason == "has timestamp 1 and waits to hear from eva"
    three.install("ana", "ben")
    assert three.payloads("ana") == three.payloads("ben") == [b"x"]
    assert three.check() == []


@pytest.mark.usefixtures("registered")
def test_a_silent_member_stops_the_senders_before_memory_grows() -> None:
    """Who holds messages until everybody was heard from must not accept new ones for ever meanwhile."""
    three = pair(names=("ana", "ben", "eva"), options=GroupOptions(order="lamport", window=4))
    three.rule("drop record from eva")
    accepted = 0
    for _ in range(50):
        try:
            three.send("ana", b"x")
            accepted += 1
        except WouldBlock:
            three.wait(0.1)
        three.exchange()
    assert accepted == 4
    assert three.endpoint["ben"].ordering.held == 4
    three.rules.clear()
    three.wait(5.0)
    assert three.endpoint["ana"].credit == 4
    assert three.check() == []


@pytest.mark.usefixtures("registered")
def test_over_besteffort_it_is_refused_with_the_reason() -> None:
    """Over best effort one lost message would stop the group for ever, so it must not be created."""
    with pytest.raises(InvalidOption, match=r"lamport.*wait for ever for a lost message; use reliable, flood or tree"):
        pair("lamport", "besteffort")


@pytest.mark.usefixtures("registered")
def test_the_swarm_finds_nothing_under_loss_duplication_and_disorder() -> None:
    """Somewhere among sixty bad networks two members would read in different orders, or one would wait for ever."""
    faults = ("loss", "duplication", "reordering")
    summary = campaign(Case(seed=seed, order="lamport", faults=faults) for seed in range(60))
    assert summary.seeds == 60
    assert summary.ok, f"\n{summary}"


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("multicast", ["reliable", "flood", "tree"])
@pytest.mark.parametrize("delivery", ["agreed", "safe"])
def test_the_swarm_finds_nothing_with_crashes_and_slow_members(multicast: str, delivery: str) -> None:
    """An order that needs everybody must survive that somebody dies, however messages travel."""
    cases = [Case(seed=seed, order="lamport", multicast=multicast, delivery=delivery, faults=("mix", "crash")) for seed in range(10)]
    summary = campaign(cases)
    assert summary.ok, f"\n{summary}"


@pytest.mark.usefixtures("registered")
def test_the_swarm_catches_it_without_its_subtle_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """An acknowledgement that counts before the data it speaks of lets a lower timestamp come later; tests that do not see that see
    nothing."""

    class Hasty(Lamport):  # type: ignore[misc,valid-type]
        def accept_record(self, record: Record) -> None:
            body = record.body
            assert type(body) is list
            super().accept_record(Record(record.group, record.sender, record.view, record.first, record.last, [body[0], 0]))

    monkeypatch.setitem(ORDERS, "lamport", Hasty)
    summary = campaign(Case(seed=seed, order="lamport", faults=("loss", "reordering")) for seed in range(10))
    assert any("total" in failure.broken for failure in summary.failures), str(summary)


@pytest.mark.usefixtures("registered")
def test_its_own_oracle_sees_an_order_that_does_not_promise_this(monkeypatch: pytest.MonkeyPatch) -> None:
    """An oracle that never sees anything proves nothing. A sequencer numbers by its own arrivals, not by what a sender had heard."""
    monkeypatch.setitem(PROMISES, "total", PROMISES["total"] | {"heard_before"})
    summary = campaign(Case(seed=seed, order="total", faults=("loss", "reordering")) for seed in range(4))
    assert {promise for failure in summary.failures for promise in failure.broken} == {"heard_before"}
